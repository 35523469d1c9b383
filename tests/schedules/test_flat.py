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
from polyfuse.cost import walked
from polyfuse.cost.counts import Sizes
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


# ---------------------------------------------------------------------------------------------- channels between


def by_channel(x: Any, g: Any, h: Any) -> Any:
    y = np.maximum(x * g[:, None] + h[:, None], 0)
    return y


def by_pixel_and_channel(x: Any, g: Any, w: Any) -> Any:
    y = x * g[:, None] + w
    return y


CHANNELS = ("f16[N~2048, C~1024, M~49]", "f16[C]", "f16[C]")


@pytest.mark.parametrize("shape", [(1, 1, 9), (3, 5, 49), (4, 1, 37), (2, 33, 351)])
def test_channels_are_read_at_the_number_of_the_row_among_them(shape: tuple[int, int, int]) -> None:
    """Batch normalisation of 2048 x 1024 planes of 7 x 7 bfloat16: single elements take an H100 178 us of 136."""
    plan = flat(by_channel, *CHANNELS)
    assert any(
        isinstance(e, Unravelled) and e.rows is not None for p in plan.schedules[0].placed for e in p.place
    )
    x, g, h = halves(*shape), halves(shape[1], seed=1), halves(shape[1], seed=2)
    (y,) = run_plan(plan, (x, g, h))
    exact = by_channel(*[a.astype(np.float64) for a in (x, g, h)])
    np.testing.assert_allclose(y, exact, rtol=2e-3, atol=4e-3)


def test_channels_and_what_all_of_them_share_are_one_walk() -> None:
    plan = flat(by_pixel_and_channel, "f16[N~2048, C~1024, M~49]", "f16[C]", "f16[M]")
    inside, _ = plan.source().split("else:")
    assert inside.count("floor_divide(") == 1 and inside.count("remainder(") == 2
    x, g, w = halves(3, 5, 49), halves(5, seed=1), halves(49, seed=2)
    (y,) = run_plan(plan, (x, g, w))
    exact = by_pixel_and_channel(*[a.astype(np.float64) for a in (x, g, w)])
    np.testing.assert_allclose(y, exact, rtol=2e-3, atol=4e-3)


@pytest.mark.parametrize("shape", [(0, 5, 49), (3, 0, 49)])
def test_nothing_is_walked_where_there_is_nothing(shape: tuple[int, int, int]) -> None:
    channels = halves(shape[1])
    assert pf.jit(by_channel, backend="interpreter")(halves(*shape), channels, channels).shape == shape


@pytest.mark.parametrize("move", [lambda e: replace(e, rows=None), lambda e: replace(e, rows=e.rows + 1)])
def test_a_load_at_another_channel_is_refused(move: Callable[[Unravelled], Any]) -> None:
    (kernel,) = flat(by_channel, *CHANNELS).kernels
    scop = kernel.group.scop
    assert prove(scop, kernel.schedule)
    verdict = prove(scop, at_another(kernel.schedule, move))
    assert verdict.kind is Kind.ILLEGAL and verdict.rule == "provided"


def test_channels_of_images_are_text_and_back() -> None:
    def y_of(a: Any, b: Any) -> Any:
        y = a * b[:, None, None] + 1
        return y

    specs = ("bf16[N~2048, C~1024, 7, 7]", "bf16[C]")
    plan = pf.jit(y_of).plan(*map(pf.spec, specs), target="h200")
    assert [k.strategy for k in plan.kernels] == ["flat"]
    assert pf.parse_schedule(str(plan), pf.jit(y_of), *map(pf.spec, specs), target="h200") == plan


# ---------------------------------------------------------------------------------------------- along each dimension


def beside(x: Any, w: Any) -> Any:
    y = x * w[:, None]
    return y


def cropped(x: Any) -> Any:
    y = x[:, 1:-1, 2:-1] * 2
    return y


def stepped(x: Any) -> Any:
    y = x[::2, :, 1::3] + 1
    return y


def mirrored(x: Any) -> Any:
    y = x[:, ::-1, ::-3] * 2
    return y


def swapped(x: Any) -> Any:
    y = np.swapaxes(x, 0, 2) - 1
    return y


def neighbours(x: Any) -> Any:
    y = x[:, 2:] + x[:, :-2] - 2 * x[:, 1:-1]
    return y


def picked(x: Any) -> Any:
    y = x[:, :, 1:] * x[:, :1, 1:] + x[:, :, :1]
    return y


THREE = "f16[K~5003, L~103, M~351]"


@pytest.mark.parametrize("shape", [(5, 6, 11), (3, 4, 13), (1, 9, 37), (2, 3, 9), (11, 12, 9)])
@pytest.mark.parametrize("function", [cropped, stepped, mirrored, swapped, neighbours, picked])
def test_slices_and_other_orders_are_read_along_each_dimension(
    function: Callable[..., Any], shape: tuple[int, int, int]
) -> None:
    plan = flat(function, THREE)
    assert [k.strategy for k in plan.kernels] == ["flat"]
    x = halves(*(shape if function is not swapped else shape[::-1]))  # rows of results are no shorter than a vector
    (y,) = run_plan(plan, (x,))
    np.testing.assert_allclose(y, function(x.astype(np.float64)), rtol=2e-3, atol=8e-3)
    for launch in plan.launches:
        verify_kernel(launch.kernel)
    assert pf.parse_schedule(str(plan), pf.jit(function), pf.spec(THREE), target="h200") == plan


def test_columns_are_walked_across_rows() -> None:
    plan = flat(across, "f16[M~351, N~381766]", ROW)
    x, b = halves(37, 5), halves(37, seed=1)
    (y,) = run_plan(plan, (x, b))
    np.testing.assert_allclose(y, across(*[a.astype(np.float64) for a in (x, b)]), rtol=2e-3, atol=4e-3)


def test_what_lies_across_is_read_along_both() -> None:
    """Of the first and the last dimension alone: neighbours of a vector have one number, but no row of it."""
    plan = flat(beside, "f16[N~2048, C~1024, M~49]", "f16[N, M]")
    x, w = halves(3, 5, 49), halves(3, 49, seed=1)
    (y,) = run_plan(plan, (x, w))
    np.testing.assert_allclose(y, beside(*[a.astype(np.float64) for a in (x, w)]), rtol=2e-3, atol=4e-3)


def test_results_that_are_read_elsewhere_are_not_walked() -> None:
    """What is computed would be at another place of the walk: another thread has it."""

    def y_of(x: Any) -> Any:
        t = np.exp(x)
        y = t[:, 1:] - t[:, :-1]
        return y

    with pytest.raises(ScheduleError, match="flat proposes nothing"):
        flat(y_of, THREE, together=[("t", "y")])


@pytest.mark.parametrize(
    "move",
    [
        lambda e: replace(e, first=e.first + 1),
        lambda e: replace(e, step=-e.step),
        lambda e: replace(e, step=e.step + 1),
        lambda e: replace(e, rows=None),
        lambda e: replace(e, extent=e.extent + 1),
    ],
)
@pytest.mark.parametrize("function", [cropped, mirrored])
def test_a_load_at_another_place_along_a_dimension_is_refused(
    function: Callable[..., Any], move: Callable[[Unravelled], Any]
) -> None:
    (kernel,) = flat(function, THREE).kernels
    scop = kernel.group.scop
    assert prove(scop, kernel.schedule)
    verdict = prove(scop, at_another(kernel.schedule, move))
    assert verdict.kind is Kind.ILLEGAL and verdict.hazard is Hazard.RAW and verdict.rule == "provided"


def test_small_matrices_with_odd_rows_are_walked() -> None:
    """Of 17 x 21 bfloat16 turned, tiles take an H100 345 us, where 132 are their bytes, and rows 209."""
    plan = pf.jit(lambda x: np.swapaxes(x, 1, 2) * 2).plan(pf.spec("f16[280112, 17, 21]"), target="h100")
    assert [k.strategy for k in plan.kernels] == ["flat"]


def test_large_matrices_are_tiled() -> None:
    """Sectors of which a block uses an element come from the cache again and again: 297 us, in tiles 172."""
    plan = pf.jit(lambda x: x.T * 2).plan(pf.spec("f64[5001, 6003]"), target="h100")
    assert [k.strategy for k in plan.kernels] == ["tiles"]


def test_of_every_second_row_memory_moves_half() -> None:
    of_all, of_half = [
        pf.jit(function).plan(pf.spec("f32[3000, 100, 333]"), target="h100", strategies={"y": "flat"})
        for function in (lambda x: named(x[:, :, 2:]), lambda x: named(x[:, ::2, 2:]))
    ]
    (whole,), (half,) = of_all.kernels, of_half.kernels
    assert 0.45 < half.cost.bytes_read / whole.cost.bytes_read < 0.55


def named(x: Any) -> Any:
    y = x * 2
    return y


@pytest.mark.parametrize(
    ("function", "spec", "sectors", "passes"),
    [
        (lambda x: x[:, 1:-1] * 2, "f32[80001, 803]", (1.0, 1.02), (1, 2)),  # lanes read words side by side
        (lambda x: x[:, ::2] * 2, "f32[80001, 1601]", (2.0, 2.04), (2, 4)),  # of every second word
        (lambda x: x.T * 2, "f64[5001, 6003]", (4.0, 4.01), (8, 16)),  # one of four doubles, 32 lines
    ],
)
def test_sectors_and_passes_of_a_walk_are_those_of_its_lanes(
    function: Callable[..., Any], spec: str, sectors: tuple[float, float], passes: tuple[int, int]
) -> None:
    plan = pf.jit(lambda x: named(function(x) * 1)).plan(pf.spec(spec), target="h200", strategies={"y": "flat"})
    (kernel,) = plan.kernels
    scop, schedule = kernel.group.scop, kernel.schedule
    sizes = Sizes.of(schedule, {})
    (load,) = [p for p in schedule.placed if p.role == "load"]
    assert sectors[0] <= walked.sectors_used(scop, load, sizes) <= sectors[1]
    width = dict(schedule.parameters)["vector"]
    assert passes[0] <= walked.passes(scop, load, schedule, sizes, 32) <= passes[1] * width
