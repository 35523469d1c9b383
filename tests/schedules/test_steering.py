"""What users ask of a plan: each wish goes through the same proof."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import OptionError, ScheduleError
from polyfuse.plan import Plan
from polyfuse.verdict import Hazard, Kind, Verdict
from tests.schedules import programs
from tests.schedules.programs import plan
from tests.schedules.test_explain import gathered


def stored(given: Plan) -> list[tuple[str, ...]]:
    return [k.stores for k in given.kernels]


def test_fuse_takes_three_values() -> None:
    def scaled(x: Any) -> Any:
        t = x * 2
        u = t + 1
        s = u.sum(axis=1)
        return s

    assert stored(plan(scaled, "f32[M, N]", fuse=False)) == [("t",), ("u",), ("s",)]
    assert stored(plan(scaled, "f32[M, N]", fuse="pointwise")) == [("u",), ("s",)]
    assert stored(plan(scaled, "f32[M, N]", fuse=True)) == [("s",)]


def test_apart_keeps_values_in_kernels_of_their_own() -> None:
    assert stored(plan(programs.gate, "f32[N]", "f32[N]", "f32[N]", apart=("t", "u"))) == [("t",), ("y",)]


def test_together_joins_what_the_price_would_not() -> None:
    specs = ("f32[M~4096, N~65536]",)
    assert len(plan(programs.rows_then_columns, *specs).kernels) == 2
    joined = plan(programs.rows_then_columns, *specs, together=("sum", "r", "c"))
    assert len(joined.kernels) == 1
    alone = plan(programs.softmax, "f32[N, 4096]", fuse=False, together=("m", "d"))
    assert stored(alone) == [("d",), ("e",), ("s",), ("y",)]


def test_an_illegal_wish_is_an_error_with_a_witness() -> None:
    with pytest.raises(ScheduleError, match="cannot share a kernel") as caught:
        plan(gathered, "f32[M, 64]", "i32[K]", together=("e", "y"))
    verdict = caught.value.verdict
    assert isinstance(verdict, Verdict) and verdict.kind is Kind.ILLEGAL and verdict.witness is not None


def test_kernels_hold_at_most_so_many_statements() -> None:
    limited = plan(programs.softmax, "f32[N, 4096]", max_fusion_size=2)
    assert max(len(k.statements) for k in limited.kernels) == 2


def test_register_limits_split_kernels_or_are_refused() -> None:
    free = plan(programs.softmax, "f32[N, 4096]")
    limit = free.kernels[0].registers - 1
    tight = plan(programs.softmax, "f32[N, 4096]", max_registers=limit)
    assert all(k.registers <= limit for k in tight.kernels) and tight != free
    with pytest.raises(ScheduleError, match="registers") as caught:
        plan(programs.softmax, "f32[N, 4096]", max_registers=16)
    assert isinstance(caught.value.verdict, Verdict) and caught.value.verdict.kind is Kind.UNPROFITABLE


def test_tiles_by_the_name_of_a_value() -> None:
    tiled = plan(programs.softmax, "f32[N, 4096]", tiles={"m": {"threads": 512, "lanes": 512}})
    assert tiled.kernels[0].threads == 512
    assert tiled.kernels[0].parameters["lanes"] == 512


def test_strategies_by_the_name_of_a_value() -> None:
    serial = plan(programs.softmax, "f32[N, 4096]", strategies={"y": "serial"})
    assert {k.strategy for k in serial.kernels if "y" in [s.name for s in k.statements]} == {"serial"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tiles": {"m": {"colour": 3}}}, "no parameter colour"),
        ({"tiles": {"m": {"vector": 3}}}, "vector = 2 here, not 3"),
        ({"tiles": {"m": {"vector": 8}}}, "vector = 4 here, not 8"),
        ({"tiles": {"m": {"threads": 4096, "lanes": 4096}}}, "4096 threads > 1024"),
        ({"strategies": {"m": "pointwise"}}, "pointwise proposes nothing for m"),
    ],
)
def test_wishes_that_no_strategy_grants_are_errors(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        plan(programs.softmax, "f32[N, 4096]", **options)
    assert says in str(caught.value)
    assert isinstance(caught.value.verdict, Verdict) and caught.value.verdict.kind is not Kind.LEGAL


def test_contradicting_wishes_keep_values_apart() -> None:
    apart = plan(programs.softmax, "f32[N, 4096]", tiles={"m": {"threads": 256}, "y": {"threads": 128}})
    kernels = {s.name: k for k in apart.kernels for s in k.statements if s.name in "my"}
    assert kernels["m"].threads == 256 and kernels["y"].threads == 128
    assert apart.why_not("m", "y").hazard is Hazard.STEERING


@pytest.mark.parametrize("option", ["together", "apart"])
def test_names_that_a_program_does_not_have(option: str) -> None:
    with pytest.raises(OptionError, match="no value is called 'q'"):
        plan(programs.softmax, "f32[N, 4096]", **{option: ("m", "q")})


def test_the_log_says_what_fused_and_what_stayed_apart(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="polyfuse"):
        plan(programs.gate, "f32[N]", "f32[N]", "f32[N]")
        plan(programs.rows_then_columns, "f32[M~4096, N~65536]")
    said = [record.getMessage() for record in caplog.records if record.name == "polyfuse.fusion"]
    assert any(line.startswith("fused t+u+") and line.endswith("(6)") for line in said)
    assert any(line.startswith("apart sum | c: one kernel is not faster than apart") for line in said)
    assert np.all([record.levelno == logging.INFO for record in caplog.records])


@pytest.mark.parametrize(
    "wish",
    [{"together": ("x", "y")}, {"apart": ("x", "y")}, {"tiles": {"x": {"threads": 64}}}, {"strategies": {"x": "rows"}}],
)
def test_arguments_are_computed_by_no_kernel(wish: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="'x' is an argument, which no kernel computes\n.*values: d, e, m, s, y"):
        plan(programs.softmax, "f32[N, 4096]", **wish)


@pytest.mark.parametrize("wish", [{"tiles": {"s": {"threads": 64}}}, {"strategies": {"s": "rows"}}])
def test_library_calls_have_no_schedule(wish: dict[str, Any]) -> None:
    def ordered(x: Any) -> Any:
        s = np.sort(x)
        y = s + 1
        return y

    with pytest.raises(OptionError, match="'s' is a library call, which has no strategy and no parameters"):
        plan(ordered, "f32[N, 4096]", **wish)
    assert len(plan(ordered, "f32[N, 4096]", apart=("s", "y")).kernels) == 1


def test_registers_are_no_limit_on_a_cpu_and_that_is_said() -> None:
    line = "max_registers: not used on a CPU"
    assert line in plan(programs.softmax, "f32[N, 4096]", target="cpu", max_registers=8).explain()
    assert line not in plan(programs.softmax, "f32[N, 4096]", max_registers=64).explain()
