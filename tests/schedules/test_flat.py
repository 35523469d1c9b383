"""Arrays walked flat, whatever the length of their rows; what rows share is read at the place in the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import ScheduleError
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.plan import Plan
from polyfuse.schedule import KernelSchedule
from polyfuse.unravelled import Unravelled
from polyfuse.verdict import Hazard, Kind
from polyfuse.verify.kernel import verify_kernel

ROWS, ROW, COLUMN = "f16[N~381766, M~351]", "f16[M]", "f16[N]"


def shifted(x: Any, b: Any) -> Any:
    y = np.maximum(x + b, 0)
    return y


def scaled(x: Any, b: Any, s: Any) -> Any:
    y = x * s[:, None] + b * 2
    return y


def two_rows(x: Any, b: Any, c: Any) -> Any:
    y = x * b + c
    return y


def looked_up(t: Any, i: Any, b: Any) -> Any:
    y = t[i] * 2 + b
    return y


def across(x: Any, b: Any) -> Any:
    y = np.maximum(x.T + b, 0)
    return y


def flat(function: Callable[..., Any], *specs: str, **options: Any) -> Plan:
    wish = {"y": "flat"}
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200", strategies=wish, **options)


def halves(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("length", [9, 37, 351, 1555])
def test_rows_that_are_shared_are_read_at_the_place_in_the_row(rows: int, length: int) -> None:
    x, b, s = halves(rows, length), halves(length, seed=1), halves(rows, seed=2)
    for function, specs, arrays in ((shifted, (ROWS, ROW), (x, b)), (scaled, (ROWS, ROW, COLUMN), (x, b, s))):
        plan = flat(function, *specs)
        assert [k.strategy for k in plan.kernels] == ["flat"]
        (y,) = run_plan(plan, arrays)
        wide = function(*[a.astype(np.float64) for a in arrays])
        np.testing.assert_allclose(y, wide, rtol=2e-3, atol=2e-3)


def test_several_dimensions_are_one() -> None:
    """What runs along the last two is at a place of 5 x 37 elements, what runs along the last at one of 37."""
    plan = flat(two_rows, "f16[K~5000, L~101, M~351]", "f16[L, M]", ROW)
    x, b, c = halves(4, 5, 37), halves(5, 37, seed=1), halves(37, seed=2)
    (y,) = run_plan(plan, (x, b, c))
    np.testing.assert_allclose(y, two_rows(*[a.astype(np.float64) for a in (x, b, c)]), rtol=2e-3, atol=4e-3)


def test_rows_of_a_table_are_found_by_the_number_of_the_row() -> None:
    plan = flat(looked_up, "f16[T, M~351]", "i64[N~381766]", ROW)
    t, i, b = halves(7, 37), np.array([3, 0, 6, 6, 1]), halves(37, seed=1)
    (y,) = run_plan(plan, (t, i, b))
    np.testing.assert_allclose(y, looked_up(t.astype(np.float64), i, b), rtol=2e-3, atol=4e-3)


def test_a_vector_of_the_walk_takes_one_division() -> None:
    source = flat(shifted, ROWS, ROW).source()
    inside, _ = source.split("else:")
    assert inside.count("remainder(") == 1
    assert "vector=" in source and "load_cut" not in inside


def test_all_that_rows_share_takes_the_division_of_a_walk() -> None:
    inside, _ = flat(scaled, ROWS, ROW, COLUMN).source().split("else:")
    assert inside.count("remainder(") == inside.count("floor_divide(") == 1


def test_columns_are_not_walked() -> None:
    """What lies across rows has no vectors to win."""
    with pytest.raises(ScheduleError, match="flat proposes nothing"):
        flat(across, "f16[M~351, N~381766]", ROW)


def test_rows_of_whole_vectors_are_not_walked() -> None:
    with pytest.raises(ScheduleError, match="flat proposes nothing"):
        flat(shifted, "f16[N~381766, 512]", "f16[512]")


def test_text_and_back() -> None:
    plan = flat(shifted, ROWS, ROW)
    again = pf.parse_schedule(str(plan), pf.jit(shifted), *map(pf.spec, (ROWS, ROW)), target="h200")
    assert again == plan


def at_another(schedule: KernelSchedule, move: Callable[[Unravelled], Any]) -> KernelSchedule:
    placed = []
    for p in schedule.placed:
        place = tuple([move(e) if isinstance(e, Unravelled) else e for e in p.place])
        placed.append(replace(p, place=place) if p.role == "load" else p)
    return replace(schedule, placed=tuple(placed))


@pytest.mark.parametrize(
    "move",
    [
        lambda e: replace(e, flat=e.flat + 1),
        lambda e: replace(e, extent=e.extent + 1),
        lambda e: replace(e, in_row=not e.in_row),
        lambda e: e.flat,
        lambda e: Affine.of(0),
    ],
)
def test_a_load_at_another_place_in_the_row_is_refused(move: Callable[[Unravelled], Any]) -> None:
    (kernel,) = flat(shifted, ROWS, ROW).kernels
    scop = kernel.group.scop
    assert prove(scop, kernel.schedule)
    verdict = prove(scop, at_another(kernel.schedule, move))
    assert verdict.kind is Kind.ILLEGAL and verdict.hazard is Hazard.RAW and verdict.rule == "provided"


def test_kernels_are_verified() -> None:
    for launch in flat(scaled, ROWS, ROW, COLUMN).launches:
        verify_kernel(launch.kernel)
        assert "floor_divide(" in print_kernel(launch.kernel)
