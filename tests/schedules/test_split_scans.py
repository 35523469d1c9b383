"""Long prefixes of few rows in parts: what is planned, what is not, and the right numbers wherever runs end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import dtypes, expr
from polyfuse.affine import Affine
from polyfuse.expr import Argument, Program
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.planning import split_scans
from polyfuse.planning.split_scans import in_runs
from polyfuse.reference import evaluate
from polyfuse.testing import assert_legal, assert_schedule
from tests.run.conftest import Jit

INTERPRETED: dict[str, Any] = {"backend": "interpreter", "target": "h200"}
BANDWIDTH = {"h200": 4.28e12, "cpu": 20e9}
LENGTHS = (0, 1, 64, 65, 128, 131, 1000)
"""Nothing to split, one more than a run of 64, whole runs, a prime, many runs."""


def running(x: Any) -> Any:
    y = np.cumsum(x, axis=-1)
    return y


def down(x: Any) -> Any:
    y = np.cumsum(x, axis=0)
    return y


def largest(x: Any) -> Any:
    return np.maximum.accumulate(x, axis=0)


def weighted(x: Any) -> Any:
    y = np.cumsum(np.exp(x)) / 3
    return y


def positives(x: Any) -> Any:
    y = (x > 0).cumsum()
    return y


def plan_of(function: Any, spec: str, target: str) -> Plan:
    return pf.jit(function).plan(pf.spec(spec), target=target)


# ---------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("spec", ["f32[67108864]", "f32[N~67000003]"])
@pytest.mark.parametrize("function", [running, weighted])
def test_a_long_row_takes_two_reads_and_a_write_of_a_cpu(function: Any, spec: str) -> None:
    """A GPU's blocks hand totals on instead (`test_in_order.py`)."""
    plan = plan_of(function, spec, "cpu")
    assert len(plan.kernels) == 3
    passes = 3 * 4 * 67e6 / BANDWIDTH["cpu"]
    assert passes < plan.cost_analysis().seconds < 1.25 * passes
    assert all(plan.kernels[k].launch.kernel.grid != (1,) for k in (0, 2))
    assert_legal(plan)


def test_the_neighbours_of_a_split_scan_are_fused_with_its_parts() -> None:
    assert_schedule(
        plan_of(weighted, "f32[67108864]", "cpu"),
        """
        kernel exp_sum   rows lanes=1 chunks=1 vector=32   grid 511
          exp = exp(x)                           register
          sum = sum(exp[131072*i + j], axis=1)   global
        kernel region_sum_1   rows lanes=1 chunks=1 vector=32   grid 1
          region = where(i <= 510, sum, 0.0)                  register
          sum_1  = scan_sum(region, axis=0, exclusive=True)   global
        kernel exp_sum_2_add_y   rows lanes=1 chunks=1 vector=32   grid 512
          exp   = exp(x)                              register
          sum_2 = scan_sum(exp, axis=0, run=131072)   register
          add   = sum_1[floor(i/131072)] + sum_2      register
          y     = add / 3.0                           global
        """,
    )


def test_many_rows_and_short_rows_are_left_whole() -> None:
    for spec, target in (("f32[4096, 65536]", "h200"), ("f32[1024]", "h200"), ("f32[N~1000]", "cpu")):
        assert len(plan_of(running, spec, target).kernels) == 1
    assert len(plan_of(running, "f32[8, 1000000]", "cpu").kernels) == 1  # as many rows as cores


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_columns_are_shared_by_the_device(target: str) -> None:
    for spec in ("f32[4000000, 5]", "f32[1000000, 3]"):
        plan = plan_of(down, spec, target)
        assert len(plan.kernels) == 3
        assert_legal(plan)


def test_narrow_columns_are_read_in_whole_rows() -> None:
    (kernel,) = plan_of(lambda x: np.cumsum(x, axis=1), "f32[4096, 256, 64]", "h200").kernels
    parameters = dict(kernel.schedule.parameters)
    assert parameters["lanes"] * parameters["vector"] == 64


SHARED = {
    "534 rows of 64": ("bf16[534, 1534, 64]", 1, 8),
    "100 rows of 24": ("f32[100, 2000, 24]", 1, 8),
    "columns": ("f32[8192, 8192]", 0, 16),
    "odd rows of 5": ("f32[2000, 5000, 5]", 1, 8),
}


@pytest.mark.parametrize("name", SHARED)
def test_threads_share_columns_and_lanes_touch_whole_lines(name: str) -> None:
    """Lanes lay along the columns: each access of a warp touched 32 lines, and prefixes took twice as long."""
    spec, axis, lanes = SHARED[name]
    (kernel,) = plan_of(lambda x: np.cumsum(x, axis=axis), spec, "h200").kernels
    schedule, parameters = kernel.schedule, dict(kernel.schedule.parameters)
    assert schedule.strategy == "columns" and parameters["lanes"] == lanes and not schedule.grid_scans
    scan = next(p for p in schedule.placed if p.role == "compute" and p.path and "sum" in p.name)
    along = [d for d in schedule.of_kind("thread") if f"${d.name}" in scan.place[axis].names()]
    assert [d.stride for d in along] == [lanes] and parameters["threads"] // lanes == along[0].count


MIXED: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "shares": (lambda x: np.cumsum(x, 1) / np.sum(x, 1, keepdims=True), (3, 300, 64), "f4"),
    "less the largest": (lambda x: np.cumsum(x - np.max(x, 1, keepdims=True), 1), (2, 333, 24), "f4"),
    "range": (lambda x: np.max(np.cumsum(x, 1), 1) - np.min(np.cumsum(x, 1), 1), (3, 500, 32), "f4"),
    "drawdown": (lambda x: np.max(np.maximum.accumulate(x, 1) - x, 1), (2, 401, 20), "f8"),
    "from the end": (lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1], (3, 200, 40), "f8"),
    "products": (lambda x: np.cumprod(x / 8, 1), (2, 130, 17), "f8"),
    "in front": (lambda x: np.cumsum(x, 1) - x, (2, 677, 12), "f4"),
}


@pytest.mark.parametrize("tile", [(32, 16), (64, 8), (256, 8)], ids=str)
@pytest.mark.parametrize("name", MIXED)
def test_what_threads_that_share_columns_compute(jit: Jit, name: str, tile: tuple[int, int]) -> None:
    compute, shape, dtype = MIXED[name]
    x = np.abs(values(shape, dtype)) + 1
    threads, rows = tile

    def program(x: Any) -> Any:
        y = compute(x)
        return y

    compiled = jit(
        program, strategies={"y": "columns"}, tiles={"y": {"threads": threads, "unroll": rows}}, **INTERPRETED
    )
    exact = program(x.astype("f8"))
    assert dict(compiled.plan(x).kernels[-1].parameters)["threads"] == threads
    np.testing.assert_allclose(compiled(x), exact, rtol=1e-4 if dtype == "f4" else 1e-11)


@pytest.mark.parametrize("shape", [(3, 256), (8, 256), (130, 260), (67, 1000), (40, 33)])
def test_a_thread_runs_through_its_columns(jit: Jit, shape: tuple[int, int]) -> None:
    compiled = jit(down, strategies={"y": "columns"}, tiles={"y": {"unroll": 8}}, **INTERPRETED)
    x = values(shape, "f8")
    np.testing.assert_allclose(compiled(x), down(x), rtol=1e-12, atol=1e-9)


def test_the_plan_of_a_symbolic_length_says_for_which_it_is() -> None:
    plan = plan_of(running, "f32[N~1000000]", "h200")
    assert all(guard.holds({"N": 1000000}) for guard in plan.guards)
    assert not all(guard.holds({"N": 1000}) for guard in plan.guards)


def test_ignoring_nan_is_left_whole() -> None:
    assert len(plan_of(lambda x: np.fmax.accumulate(x), "f32[1000000]", "h200").kernels) == 1


# ---------------------------------------------------------------------------------------------- numbers


@contextmanager
def runs_of(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every scan of more elements is split, whatever it costs."""

    def run(prices: Any, node: expr.Scan) -> int:
        return count if node.shape[node.axis].evaluate(prices.hints) > count else 0

    with monkeypatch.context() as patch:
        patch.setattr(split_scans._Prices, "best_run", run)
        yield


def values(shape: tuple[int, ...], dtype: str) -> Any:
    random = np.random.default_rng(len(shape))
    if dtype.startswith("f"):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2 if dtype == "?" else 100, shape).astype(dtype)


PROGRAMS: dict[str, Any] = {
    "sum": lambda x: np.cumsum(x, axis=-1),
    "sum of columns": lambda x: np.cumsum(x, axis=0),
    "largest": largest,
    "smallest from the end": lambda x: np.minimum.accumulate(x[::-1], axis=0)[::-1],
    "positives": lambda x: (x > 0).cumsum(axis=-1),
    "fused": lambda x: np.cumsum(x * 2, axis=0) / 3 + x,
    "differences": lambda x: np.diff(np.cumsum(x, axis=0), axis=0),
    "both axes": lambda x: np.cumsum(np.cumsum(x, axis=0), axis=-1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_length(jit: Jit, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = PROGRAMS[name]
    with runs_of(64, monkeypatch):
        compiled = jit(function, **INTERPRETED)
        shapes = [(n,) for n in LENGTHS if n or name != "differences"]
        for shape in (*shapes, (200, 3), (2, 70, 5)):
            x = values(shape, "f8")
            np.testing.assert_allclose(compiled(x), function(x), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", ["sum of columns", "smallest from the end", "fused"])
def test_on_the_cpu(jit: Jit, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = PROGRAMS[name]
    with runs_of(64, monkeypatch):
        compiled = jit(function, backend="numba_cpu")
        for shape in ((0,), (64,), (131,), (1000,), (200, 3)):
            x = values(shape, "f4")
            np.testing.assert_allclose(compiled(x), function(x.astype("f8")), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])
def test_every_dtype(jit: Jit, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers wrap around as NumPy's; 16-bit floats add up in 32 bits."""
    options = INTERPRETED if backend == "interpreter" else {"backend": backend}
    with runs_of(64, monkeypatch):
        for dtype, function in (("u1", running), ("i8", largest), ("f2", running), ("f4", largest), ("?", running)):
            x = values((201,), dtype)
            want = function(x.astype("f8") if dtype == "f2" else x).astype(function(x).dtype)
            np.testing.assert_allclose(jit(function, **options)(x), want, rtol=2e-3 if dtype == "f2" else 1e-5)
        wraps = np.full(200, 2**62, np.int64)
        np.testing.assert_array_equal(jit(running, **options)(wraps), running(wraps))


@pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])
def test_nan_and_infinity(jit: Jit, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = INTERPRETED if backend == "interpreter" else {"backend": backend}
    x = np.ones(300, np.float32)
    x[70], x[140], x[200] = np.inf, -np.inf, np.nan
    with runs_of(64, monkeypatch):
        for function in (running, largest):
            with np.errstate(invalid="ignore"):
                want = function(x)
            np.testing.assert_array_equal(jit(function, **options)(x), want)


def test_the_sum_of_a_long_row_of_floats_errs_little_on_the_cpu(jit: Jit) -> None:
    """One addition after the other, as NumPy adds, loses every tenth in the end."""
    x = np.full(1 << 22, 0.1, np.float32)
    want = np.cumsum(x.astype(np.float64))
    got = jit(running, backend="numba_cpu")(x)
    assert np.max(np.abs(got - want) / want) < 1e-5 < 1e-3 < np.max(np.abs(np.cumsum(x) - want) / want)


def test_exclusive_and_in_runs_in_the_reference() -> None:
    n = Affine.of(130)
    x = expr.input_(0, (n,), dtypes.f64)
    for monoid in ("sum", "max"):
        for exclusive in (False, True):
            scan = expr.scan(monoid, x, 0, exclusive)
            assert isinstance(scan, expr.Scan)
            whole, _ = in_runs(scan, 32)
            program = Program("p", (Argument("x", (n,), dtypes.f64),), (scan, whole), ("a", "b"))
            given = np.random.default_rng(1).standard_normal(130)
            one, other = evaluate(program, [given])
            np.testing.assert_allclose(one, other)


# ---------------------------------------------------------------------------------------------- PTX


@pytest.mark.ptx
@pytest.mark.parametrize(
    ("function", "spec"),
    [(down, "bf16[4000000, 6]"), (down, "f32[1000000, 3]")],
)
def test_ptx(function: Any, spec: str) -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.codegen.names import function_name
    from polyfuse.codegen.printer import print_kernel

    plan = plan_of(function, spec, "h200")
    assert len(plan.launches) == 3
    for launch in plan.launches:
        k = launch.kernel
        compiled = compile_kernel(
            print_kernel(k), function_name(k.name), k.parameters, k.threads, (9, 0), index_bits=k.index_bits
        )
        assert ".local" not in compiled.ptx


def test_a_prefix_read_at_two_places_has_a_price_where_its_length_is_a_symbol() -> None:
    """Its place then names the size, which is no digit."""

    def twice(x):
        s = np.cumsum(x, axis=0)
        y = np.concatenate([s, s], axis=0)
        return y

    for target in ("h200", "cpu"):
        plan = pf.jit(twice).plan(pf.spec("f64[n0, 7]"), target=target)
        assert plan.program.name == "twice" and not plan.fallback
    x = np.random.default_rng(0).normal(size=(40, 7))
    np.testing.assert_allclose(pf.jit(twice, backend="interpreter", target="h200")(x), twice(x), rtol=1e-12)


def test_pieces_of_narrow_columns_are_proposed_as_they_may_be(caplog: pytest.LogCaptureFixture) -> None:
    """Rows of 8 with a maximum along them: blocks of 128 steps were proposed where a piece has 64, and prefixes of
    pieces in the kernel behind them.  The proof refused 41 such kernels, one after the other, in 2 s of planning."""

    def both(x: Any) -> Any:
        return np.maximum.accumulate(x, 0), np.logaddexp.reduce(x, axis=1), x.var(axis=(0, 1))

    with caplog.at_level("INFO", logger="polyfuse.fusion"):
        plan = pf.jit(both).plan(pf.spec("f64[N~4096, M~8]"), target="sm_80")
    assert not [record.message for record in caplog.records if record.message.startswith("refuted")]
    x = np.random.default_rng(4).standard_normal((300, 8))
    for got, exact in zip(run_plan(plan, (x,)), both(x), strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-12)
