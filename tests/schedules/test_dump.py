"""Loggers, dumps, and the text of every level."""

from __future__ import annotations

import ast
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import OptionError
from polyfuse.explain.dump import dump_plan, log_plan
from polyfuse.schedule import Cells
from polyfuse.scop_builder import build_scop
from polyfuse.text.kernels import kernel_text
from polyfuse.text.levels import places_text, program_text, scop_text
from tests.legality import legal
from tests.schedules import programs
from tests.schedules.programs import plan, program

ROOT = Path(__file__).parents[2]


def test_a_program_as_text() -> None:
    assert program_text(program(programs.softmax, "f32[N, 8]")).splitlines() == [
        "program softmax",
        "  x: f32[N, 8] = argument 0",
        "  m: f32[N] = reduce max(x, axes=[1])",
        "  %2: f32[N, 8] = m[i]",
        "  d: f32[N, 8] = subtract(x, %2)",
        "  e: f32[N, 8] = exp(d)",
        "  s: f32[N] = reduce sum(e, axes=[1])",
        "  %6: f32[N, 8] = s[i]",
        "  y: f32[N, 8] = divide(e, %6)",
        "  return y",
    ]


def test_every_node_has_a_text() -> None:
    def everything(x: Any, i: Any, c: float) -> Any:
        joined = np.concatenate([x, x * c], axis=0)
        taken = np.take(x, i, axis=0)
        ranks = np.cumsum(np.argmax(joined, axis=1))
        return taken, ranks + np.arange(ranks.shape[0])

    text = program_text(program(everything, "f32[N, 8]", "i32[K]", "f32"))
    for part in ("scalar c", "region(", "gather(", "reduce argmax(", "scan sum(", "iota(i)", " < "):
        assert part in text, part


def test_statements_as_text() -> None:
    assert scop_text(build_scop(program(programs.softmax, "f32[N, 8]"))).splitlines() == [
        "x is an array of f32[N, 8]",
        "m[i] = max(x, axis=1)   0 <= i < N, 0 <= j < 8   f32",
        "d[i, j] = x - m   0 <= i < N, 0 <= j < 8   f32",
        "e[i, j] = exp(d)   0 <= i < N, 0 <= j < 8   f32",
        "s[i] = sum(e, axis=1)   0 <= i < N, 0 <= j < 8   f32",
        "y[i, j] = e / s   0 <= i < N, 0 <= j < 8   f32",
    ]


def test_places_as_text() -> None:
    (kernel,) = plan(lambda x: x.T + 1, "f32[M, N]").kernels
    lines = places_text(kernel).splitlines()
    assert lines[:2] == [f"kernel {kernel.name}", "  digits"]
    assert "    block b0 < ceil(N/64)" in lines or "    block b0 < ceil(M/64)" in lines
    assert any(line.startswith("  shared x: 64 x 64 from [") for line in lines)
    assert "    barrier" in lines


def test_loops_and_elections_as_text() -> None:
    scop, schedule = legal.two_sums_over_blocks()
    schedule = replace(schedule, cells=Cells("v", 2, ("exp",)))
    view: Any = SimpleNamespace(name="k", schedule=schedule, group=SimpleNamespace(scop=scop))
    lines = places_text(view).splitlines()
    assert lines[lines.index("  order") + 1 :] == [
        *("    x0", "    exp", "    sum_share", "    max_share", "    share_sum", "    share_max"),
        *("    last of b", "      for p", "        sum", "        max"),
        *("      exp_1", "      exp_2", "      store_exp_1", "      store_exp_2"),
    ]
    assert "    partial share_sum: everywhere from sum_share" in lines
    assert "    thread t < 16, stride 1" in lines
    assert "  cells v >= 2: exp" in lines


def test_recurrences_scatters_and_calls_as_text() -> None:
    at = pf.indices("at")

    def everything(x: Any, k: Any) -> Any:
        counts = np.zeros(x.shape[0], np.float32)
        np.add.at(counts, k, 1.0)
        h = x.copy()
        h[at] = h[at - 1] * x[at] + x[at]
        return np.sort(x), counts, np.cumsum(x[::-1])[::-1], h

    traced = program(everything, "f32[N]", "i32[K]")
    lines = [line.strip() for line in program_text(traced).splitlines()]
    assert "h: f32[N] = recurrence(%3, x, axis=0, lags=[1])" in lines
    assert "%1: f32[N] = call sort(x) result 0" in lines
    assert "%13: f32[N] = scatter sum(%3, %5, %12, [%12])" in lines
    assert "%16: f32[N] = %15[-i + N - 1]" in lines
    statements = scop_text(build_scop(traced)).splitlines()
    assert "sort = sort(x), f32[N]" in statements
    assert "h[i] = recurrence(where(i >= 1, x + (x * before(1)), x), axis=0)   0 <= i < N   f32" in statements


def test_a_dump_holds_every_level(tmp_path: Path) -> None:
    given = plan(programs.softmax, "f32[N, 4096]")
    folder = dump_plan(given, tmp_path, ptx=lambda launch, _: f"// {launch.kernel.name}")
    names = {path.name for path in folder.iterdir()}
    levels = {"program.txt", "statements.txt", "schedule.txt", "places.txt", "kernels.txt"}
    levels |= {"source.py", "explain.txt"}
    assert names == levels | {"before.dot", "after.dot", "m_d_s_y.ptx"}
    assert (folder / "schedule.txt").read_text() == f"{given}\n"
    ast.parse((folder / "source.py").read_text())
    assert "cluster_0" in (folder / "after.dot").read_text()
    assert "cluster_0" not in (folder / "before.dot").read_text()
    assert dump_plan(given, tmp_path) == folder, "the same plan, the same folder"


def test_the_kernel_level_lists_every_operation_with_its_fields() -> None:
    given = plan(programs.softmax, "f32[N, 4096]")
    lines = [line.strip() for line in kernel_text(given.launches[0].kernel).splitlines()]
    assert lines[0] == "kernel m_d_s_y: threads 256, grid N, 32-bit indices"
    assert "thread digit name=tx stride=1 extent=256" in lines and "slot name=c extent=4" in lines
    load = next(line for line in lines if line.startswith("load "))
    assert "array=x_in" in load and "index=[b0, 1024*c + 4*tx + v]" in load and "vector=4" in load
    kinds = [line.split(" ")[0] for line in lines[1:]]
    assert kinds.count("combine") == 2 and kinds.count("store") == 1


def test_members_of_one_launch_and_loops_are_indented() -> None:
    loose = pf.jit(lambda x, y: (x.sum(axis=1), y.sum(axis=0))).plan(
        pf.spec("f32[64, 100000]"), pf.spec("f32[5000, 64]"), target="h200"
    )
    text = "\n".join(kernel_text(launch.kernel) for launch in loose.launches)
    members = sum(len(launch.kernel.members) for launch in loose.launches)
    assert "  for digit=" in text and text.count("\n  kernel ") == members


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="POLYFUSE_DUMP"):
        dump_plan(plan(programs.softmax, "f32[N, 4096]"), tmp_path / "file")


def test_loggers_tell_schedules_and_code(caplog: pytest.LogCaptureFixture) -> None:
    given = plan(programs.softmax, "f32[N, 4096]")
    with caplog.at_level(logging.INFO, logger="polyfuse"):
        log_plan(given)
    said = {record.name: record.getMessage() for record in caplog.records}
    assert said["polyfuse.schedule"] == f"softmax on h200\n{given}"
    assert "def m_d_s_y(" in said["polyfuse.code"]


def test_environment_variables(tmp_path: Path) -> None:
    code = """if True:
        import polyfuse as pf
        f = pf.jit(lambda x: x * 2 + 1)
        f.plan(pf.spec("f32[N]"), target="generic")
    """
    variables = {"PYTHONPATH": str(ROOT), "POLYFUSE_LOG": "fusion,schedule", "POLYFUSE_DUMP": str(tmp_path)}
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=120, check=True)
    assert "polyfuse.fusion: fused multiply+add -> multiply_add (2)" in done.stderr
    assert "polyfuse.schedule: function on generic\nkernel multiply_add" in done.stderr
    assert "def multiply_add" not in done.stderr
    assert [p.name for p in tmp_path.rglob("schedule.txt")] == ["schedule.txt"]


def test_plans_from_the_disk_are_told_as_well(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import numpy as np, polyfuse as pf\npf.jit(lambda x: np.exp(x) * 2 + 1)(np.ones(5))\n")
    common = {"PYTHONPATH": str(ROOT), "POLYFUSE_CACHE": str(tmp_path / "cache")}

    def said(log: str, folder: str) -> str:
        variables = common | {"POLYFUSE_LOG": log, "POLYFUSE_DUMP": folder and str(tmp_path / folder)}
        command = [sys.executable, str(script)]
        return subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=120, check=True
        ).stderr

    assert said("", "") == ""
    assert "polyfuse.schedule: function on cpu\nkernel exp_multiply_add" in said("schedule", "first")
    assert len(list((tmp_path / "first").rglob("explain.txt"))) == 1
    assert "def exp_multiply_add" in said("code", "")
    assert "polyfuse.fusion: fused " in said("fusion", "")
    assert len([p for p in (tmp_path / "cache" / "plans").iterdir() if p.name != "key"]) == 1
