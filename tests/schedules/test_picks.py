"""Short rows of which every read picks one element: read as one long row, in windows of registers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cost.counts import Sizes
from polyfuse.cost.l1 import l1_accesses
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.target import H200
from polyfuse.testing import assert_legal
from tests.run.conftest import Jit


def luma(x: Any) -> Any:
    y = x.astype(np.float32)
    return 0.299 * y[..., 0] + 0.587 * y[..., 1] + 0.114 * y[..., 2]


def causal(x: Any, w: Any) -> Any:
    """A depthwise filter of four taps along axis 0: the taps of a column lie side by side."""
    p, y = np.pad(x, ((3, 0), (0, 0))), 0
    for k in range(4):
        y = y + p[k : k + x.shape[0]] * w[:, k]
    return y


def causal_sum(x: Any, w: Any) -> Any:
    p = np.pad(x, ((3, 0), (0, 0)))
    return (np.lib.stride_tricks.sliding_window_view(p, 4, axis=0) * w).sum(-1)


def corners(b: Any) -> Any:
    """Areas of boxes (left, top, right, bottom, score, kind), two of which nobody reads."""
    return (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])


def also_whole(x: Any) -> Any:
    return x[:, 0] * x[:, 1], x * 2


def of_others(x: Any) -> Any:
    """What is picked has neighbours of its own along the other dimension."""
    y = x * x
    return y[1:, 0] + y[:-1, 1]


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200", **options)


def kernel_shape(plan: Plan, name: str) -> int:
    (kernel,) = plan.kernels
    scop = kernel.group.scop
    (value,) = (v for v in kernel.group.loads if scop.statements[v].name == name)
    return len(scop.shape(value))


def test_colours_of_a_thread_are_loaded_as_one_run() -> None:
    plan = planned(luma, "u8[160, 512, 512, 3]")
    assert kernel_shape(plan, "x") == 1
    (tile,) = re.findall(r"load\(.*, (\w+)\)", plan.source())
    assert re.search(rf"^{tile} = Tile\(\(4, .*3, 4\), \(1536, .*4, 1\), vector=4\)$", plan.source(), re.M)
    assert_legal(plan)


def test_taps_of_neighbouring_columns_are_loaded_as_vectors() -> None:
    source = planned(causal, "f16[4096, 2048]", "f16[2048, 4]").source()
    assert re.search(r"w = load\(w_in, .*, (\w+)\)", source)
    tiles = re.findall(r"w = load\(w_in, .*?, (\w+)[,)]", source)
    assert all(re.search(rf"^{tile} = .*vector=8\)$", source, re.M) for tile in tiles)


def test_taps_that_are_summed_are_loaded_as_vectors() -> None:
    source = planned(causal_sum, "f16[4096, 2048]", "f16[2048, 4]").source()
    tiles = re.findall(r"w = load\(w_in, .*?, (\w+)[,)]", source)
    assert tiles and all(re.search(rf"^{tile} = .*(?:vector=4|span=[48])\)$", source, re.M) for tile in tiles)


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (also_whole, ["f32[4096, 2]"]),  # another read takes whole rows
        (of_others, ["f32[4096, 2]"]),  # picked at different rows
        (lambda x: x[:, 0] + 1, ["f32[4096, 3]"]),  # most of what would be loaded is not read
        (lambda x: x[:, 0] + x[:, 1], ["f32[4096, 40]"]),
        (lambda x: x[:, 0] + x[:, 1], ["f32[31, 2]"]),  # few rows
    ],
)
def test_other_rows_stay_rows(function: Any, specs: list[str]) -> None:
    for kernel in planned(function, *specs).kernels:
        loaded = [kernel.group.scop.shape(v) for v in kernel.group.loads]
        assert [len(shape) for shape in loaded] == [2]


@pytest.mark.parametrize("layout", ["plain", "strided"])
@pytest.mark.parametrize(
    ("function", "shapes", "dtype"),
    [
        (luma, [(5, 27, 3)], "u1"),
        (luma, [(4, 64, 3)], "u1"),
        (causal, [(19, 72), (72, 4)], "f4"),
        (causal, [(6, 65), (65, 4)], "f2"),
        (causal_sum, [(19, 72), (72, 4)], "f4"),
        (causal_sum, [(6, 67), (67, 4)], "f2"),
        (corners, [(67, 6)], "f4"),
        (also_whole, [(73, 2)], "f4"),
        (of_others, [(73, 2)], "f4"),
    ],
)
def test_results(jit: Jit, function: Any, shapes: list[tuple[int, ...]], dtype: str, layout: str) -> None:
    random = np.random.default_rng(0)
    arrays = [(random.random(shape) * 99).astype(dtype) for shape in shapes]
    if layout == "strided":
        arrays = [np.repeat(a, 2, axis=-1)[..., ::2] for a in arrays]
    got = jit(function, backend="interpreter", target="h200")(*arrays)
    wide = [a.astype("f4") if dtype == "u1" else a.astype("f8") for a in arrays]
    for result, expected in zip(_each(got), _each(function(*wide)), strict=True):
        np.testing.assert_allclose(result.astype("f8"), expected.astype("f8"), rtol=1e-2 if dtype == "f2" else 1e-5)


def _each(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def test_sizes_unknown_when_planned(jit: Jit) -> None:
    plan = planned(luma, "u8[N~4096, M~4096, 3]")
    assert_legal(plan)
    x = np.arange(3 * 70, dtype=np.uint8).reshape(5, 14, 3)
    np.testing.assert_allclose(jit(luma, backend="interpreter", target="h200")(x), luma(x), rtol=1e-5)


def test_calls_with_rows_of_a_few_elements_know_how_many(jit: Jit) -> None:
    """Sizes of calls are symbols, but for those of colours, coordinates and taps that a program picks."""
    f = jit(luma, backend="interpreter", target="h200")
    for shape in ((5, 70, 3), (6, 80, 3), (7, 90, 3), (4, 72, 4), (3, 64, 9), (4, 65, 8)):
        x = np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)
        np.testing.assert_allclose(f(x), luma(x), rtol=1e-5)
    assert f.cache_info().traces == 3  # of three, of four, and of any other number
    plan = f.plan(np.zeros((512, 512, 3), np.uint8))
    assert kernel_shape(plan, "x") == 1 and not [g for g in plan.guards if "3" in str(g) and "mod" in str(g)]


def test_lines_whose_words_lie_in_different_banks_share_a_pass() -> None:
    """Eight bytes of 32 threads 24 apart: six lines, but no bank has more than two of their words; sixteen of threads
    32 apart: eight lines, of which half of the banks have all words."""
    for colours, spans, passes in ((3, 3, 2), (4, 2, 8)):
        options = {"strategies": {"add": "pointwise"}, "tiles": {"add": {"vector": 8}}}
        plan = planned(lambda x: x[..., 0] + x[..., 1], f"u8[4096, 4096, {colours}]", **options)
        (kernel,) = plan.kernels
        seconds, _ = l1_accesses(kernel.group.scop, kernel.schedule, H200, Sizes(kernel.schedule, {}))
        loads = 4096 * 4096 / 256 * spans * passes  # both colours are in the same spans
        stores = 4096 * 4096 / 256 * 2
        assert seconds * H200.processors * H200.clock == pytest.approx(loads + stores, rel=0.15)


def test_picks_beside_gathers_have_a_price() -> None:
    """Shares of columns are priced by where their loads lie, of which some are data."""

    def chosen(x: Any, y: Any) -> Any:
        at = np.argmax(y, axis=1)
        low = np.fmin(x, x)
        return np.fmin(x, -x), low[at % low.shape[0], (at + 1) % low.shape[1]]

    plan = pf.jit(chosen).plan(pf.spec("f64[17, 17]"), pf.spec("i16[17, 17]"), target="h200")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((17, 17)), rng.integers(-99, 99, (17, 17)).astype(np.int16)
    for got, exact in zip(run_plan(plan, [x, y]), chosen(x, y), strict=True):
        np.testing.assert_array_equal(got, exact)
