"""Texts applied to programs: round trips, edits, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import ScheduleError
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal
from polyfuse.text.apply import apply_text
from polyfuse.verdict import Hazard, Verdict
from tests.schedules import programs
from tests.schedules.programs import plan


def transposed(x: Any, y: Any) -> Any:
    return x + y.T


def smooth(x: Any) -> Any:
    once = (x[:-2] + x[1:-1] + x[2:]) / 3
    return (once[:-2] + once[1:-1] + once[2:]) / 3


def dense(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def totals(x: Any) -> Any:
    s = x.sum()
    return x / s


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "softmax": (programs.softmax, ("f32[N, 4096]",)),
    "short rows": (programs.softmax, ("f32[N, 100]",)),
    "symbolic rows": (programs.softmax, ("f32[M, N~700]",)),
    "long rows": (programs.softmax, ("f32[64, 100000]",)),
    "gate": (programs.gate, ("f32[M, N]", "f32[M, N]", "f32[N]")),
    "rows then columns": (programs.rows_then_columns, ("f32[M~4096, N~4096]",)),
    "transposed": (transposed, ("f32[M, N]", "f32[N, M]")),
    "smooth": (smooth, ("f32[4096, 4096]",)),
    "dense": (dense, ("f32[M, 512]", "f32[512, 512]", "f32[512]")),
    "totals": (totals, ("f32[M~4096, N~4096]",)),
    "cumulative": (lambda x: np.cumsum(x, axis=1) * 2, ("f32[M, N~2000]",)),
    "column sum": (lambda x: (x * x).sum(axis=0), ("f16[M, N]",)),
}


@pytest.mark.parametrize("target", ["h200", "a100", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_of_a_plan_gives_the_plan_back(name: str, target: str) -> None:
    function, specs = PROGRAMS[name]
    for fuse in (True, False):
        original = plan(function, *specs, target=target, fuse=fuse, library=False)
        again = apply_text(str(original), original)
        assert again == original
        assert str(again) == str(original)


def edited(original: Plan, old: str, new: str) -> Plan:
    text = str(original)
    assert old in text
    return apply_text(text.replace(old, new), original)


def test_a_block_of_512_threads() -> None:
    original = plan(programs.softmax, "f32[N, 4096]")
    wider = edited(original, "block 256", "block 512")
    assert wider.kernels[0].threads == 512
    assert wider != original


def test_other_vectors_and_unrolling() -> None:
    original = plan(programs.gate, "f32[N]", "f32[N]", "f32[N]")
    narrow = edited(original, "unroll=2 vector=4", "unroll=4 vector=2")
    assert narrow.kernels[0].parameters == {"threads": 128, "unroll": 4, "vector": 2}
    assert str(narrow.kernels[0].grid_text) == "ceil(N/1024)"


def test_a_kernel_split_in_two() -> None:
    original = plan(programs.softmax, "f32[N, 4096]")
    split = apply_text(
        """
        kernel maxima rows block 256
          m = max(x, axis=1)   global
        kernel rest rows
          d
          e
          s
          y   global
        """,
        original,
    )
    assert [k.stores for k in split.kernels] == [("m",), ("y",)]
    assert split.hbm_bytes > original.hbm_bytes
    assert [k.name for k in split.kernels] == ["maxima", "rest"]


def test_kernels_merged_into_one() -> None:
    loose = plan(programs.gate, "f32[N]", "f32[N]", "f32[N]", fuse=False)
    lines = [line for line in str(loose).splitlines() if line.startswith("  ")]
    text = "\n".join(["kernel whole pointwise", *(line.replace("global", "") for line in lines)])
    merged = apply_text(text, loose)
    assert merged == plan(programs.gate, "f32[N]", "f32[N]", "f32[N]")


def refusal(text: str, original: Plan) -> tuple[str, Verdict | None]:
    with pytest.raises(ScheduleError) as caught:
        apply_text(text, original)
    verdict = caught.value.verdict
    assert verdict is None or isinstance(verdict, Verdict)
    return str(caught.value), verdict


def test_a_value_that_crosses_kernels_must_be_global() -> None:
    text, verdict = refusal(
        """
        kernel denominators rows
          m   register
          d   register
          e   register
          s   global
        kernel quotients pointwise
          y = e / s   global
        """,
        plan(programs.softmax, "f32[N, 4096]"),
    )
    assert "y needs e, but denominators keeps it in register scope" in text
    assert verdict is not None and verdict.hazard is Hazard.SCOPE


def test_kernels_run_in_the_order_of_the_text() -> None:
    text, verdict = refusal(
        """
        kernel rest rows
          d
          e
          s
          y   global
        kernel maxima rows
          m   global
        """,
        plan(programs.softmax, "f32[N, 4096]"),
    )
    assert "d needs m, which only maxima, a later step, computes" in text
    assert verdict is not None and verdict.hazard is Hazard.RAW


@pytest.mark.parametrize(
    ("old", "new", "says", "hazard"),
    [
        ("d = x - m            register", "d = x - m            shared", "the text says shared", Hazard.SCOPE),
        ("combine block", "combine warp", "the schedule gives register, combine block", Hazard.SCOPE),
        ("exp(d)", "exp(m)", "the program computes e = exp(d), not exp(m)", None),
        ("  e = exp(d)           register\n", "", "needs e, which nothing in the text computes", Hazard.RAW),
        ("y = e / s            global", "y = e / s            register", "stores nothing", None),
        ("rows lanes", "windows lanes", "windows proposes nothing for m, d, e, s, y; held_rows, rows", Hazard.STEERING),
        ("vector=4", "vector=3", "vector", Hazard.STEERING),
        ("chunks=4", "colour=4", "rows has no parameter colour", Hazard.STEERING),
        ("block 256", "block 2048", "2048", None),
        ("block 256", "block 0", "has no threads", None),
        ("chunks=4", "chunks=4 lanes=128", "gives lanes twice", None),
        ("  d = x - m", "  m   global\n  d = x - m", "has a line for m already", None),
        ("  d =", "  q =", "no value is called q", None),
        ("kernel m", "kernal m", "stands in no kernel", None),
        ("lanes=256", "lanes", "is no kernel header", None),
        ("  e = exp(d)           register", "  e: register", "is no statement", None),
    ],
)
def test_edits_that_are_refused(old: str, new: str, says: str, hazard: Hazard | None) -> None:
    original = plan(programs.softmax, "f32[N, 4096]")
    assert old in str(original)
    text, verdict = refusal(str(original).replace(old, new), original)
    assert says in text
    assert hazard is None or (verdict is not None and verdict.hazard is hazard)


def test_a_plan_is_no_text() -> None:
    original = plan(programs.softmax, "f32[N, 4096]")
    with pytest.raises(ScheduleError, match="a text, not a Plan"):
        apply_text(original, original)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dense", r"rows=\d+ depth=\d+", "rows=2 depth=4"),
        ("transposed", r"tile=64 (.*)block \d+", r"tile=32 \1block 256"),
        ("transposed", r"block \d+", "block 128"),
        ("column sum", r"lanes=\d+ unroll=4", "lanes=16 unroll=2"),
        ("cumulative", "vector=4", "vector=2"),
        ("short rows", "chunks=\\d+", "chunks=8"),
        ("smooth", "rows=4", "rows=2"),
    ],
)
def test_other_tiles_compute_the_same(name: str, old: str, new: str) -> None:
    function, specs = PROGRAMS[name]
    small = tuple(spec.replace("4096, 4096", "60, 64").replace("512", "64") for spec in specs)
    original = plan(function, *small, library=False)
    text = re.sub(old, new, str(original))
    assert text != str(original)
    changed = apply_text(text, original)
    assert changed != original
    assert_legal(changed)
    assert_equivalent(original, changed, seeds=(0,))


def ranked(x: Any) -> Any:
    y = np.exp(x)
    z = np.argsort(y)
    return z * 2


def test_library_calls_are_steps_of_their_own() -> None:
    original = plan(ranked, "f32[N]")
    (line,) = [line for line in str(original).splitlines() if line.startswith("call ")]
    assert line == "call z = argsort(y)"
    assert apply_text(str(original), original) == original
    name = line.split()[1]
    text, _ = refusal(str(original).replace(line, f"kernel k pointwise\n  {name}   global"), original)
    assert "is a library call, which no kernel contains" in text
    assert "the array library runs it" in original.explain()
    assert original.why_not("y", name).rule == "opaque"
    assert original.cost_analysis().hbm_bytes == original.hbm_bytes


def test_staged_values_of_other_kernels_are_loads() -> None:
    original = plan(lambda x, y: np.exp(x) + np.exp(y).T, "f32[M, N]", "f32[N, M]", fuse=False)
    loads = [line for line in str(original).splitlines() if "= load(" in line]
    assert len(loads) == 1 and loads[0].split()[-1] == "shared"
    assert apply_text(str(original), original) == original
    text, _ = refusal(str(original).replace(loads[0], "  x = load(x)   shared"), original)
    assert "reads no x" in text
