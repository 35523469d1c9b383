"""With `batch_invariant` a row has the same bits whatever the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine
from polyfuse.errors import OptionError
from polyfuse.plan import Plan

Function = Callable[..., Any]
ROWS = (1, 2, 3, 5, 16, 33, 64, 100, 257)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x, gain, bias):
    c = x - x.mean(axis=-1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias


def rmsnorm(x, gain):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * gain


def cross_entropy(x):
    top = x.max(axis=1)
    return np.log(np.exp(x - top[:, None]).sum(axis=1)) + top - x[:, 3]


def row_sums(x):
    return x.sum(axis=1), (x * x).sum(axis=1), x.std(axis=1)


def linear(x, w):
    return np.maximum(x @ w, 0)


def two_linear(x, w):
    return softmax((x @ w) * 0.25) @ w.T


def running(x):
    return np.cumsum(x, axis=1) * 2


def attention(x):
    scores = softmax(np.einsum("bqd,bkd->bqk", x, x))
    return np.einsum("bqk,bkd->bqd", scores, x)


PROGRAMS: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "softmax": (softmax, ()),
    "layernorm": (layernorm, ((0,), (0,))),
    "rmsnorm": (rmsnorm, ((0,),)),
    "cross-entropy": (cross_entropy, ()),
    "row sums": (row_sums, ()),
    "linear": (linear, ((0, 24),)),
    "running sums": (running, ()),
}
"""Functions of rows, and the shapes of their other arguments, 0 for the length of a row."""


def drawn(rows: int, columns: int, others: tuple[tuple[int, ...], ...], dtype: Any) -> list[np.ndarray]:
    random = np.random.default_rng(columns)
    x = (random.standard_normal((rows, columns)) * 3).astype(dtype)
    return [x, *(random.standard_normal([n or columns for n in shape]).astype(dtype) for shape in others)]


def results(answer: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, answer)) if isinstance(answer, tuple) else (np.asarray(answer),)


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def assert_rows_alike(function: Any, counts: tuple[int, ...], columns: int, others: Any, dtype: Any) -> None:
    """Rows of the largest call in calls of fewer, from the start and from the middle."""
    x, *rest = drawn(max(counts), columns, others, dtype)
    whole = results(function(x, *rest))
    for count in counts:
        for first in {0, (max(counts) - count) // 2}:
            part = results(function(x[first : first + count], *rest))
            for a, b in zip(part, whole, strict=True):
                assert np.array_equal(bits(a), bits(b[first : first + count])), (count, first, columns)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_on_the_cpu(name: str) -> None:
    function, others = PROGRAMS[name]
    jitted = pf.jit(function, batch_invariant=True)
    for columns in (7, 64, 1000):
        assert_rows_alike(jitted, ROWS, columns, others, np.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_dtypes_on_the_cpu(dtype: Any) -> None:
    for name in ("softmax", "layernorm"):
        function, others = PROGRAMS[name]
        assert_rows_alike(pf.jit(function, batch_invariant=True), (1, 3, 64, 300), 520, others, dtype)


def test_long_rows_on_the_cpu() -> None:
    """So many elements that a call of few rows would be split over the cores."""
    assert_rows_alike(pf.jit(row_sums, batch_invariant=True), (1, 2, 40), 70001, (), np.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_the_h200_in_the_interpreter(name: str) -> None:
    function, others = PROGRAMS[name]
    jitted = pf.jit(function, batch_invariant=True, backend="interpreter", target="h200")
    for columns in (9, 60):
        assert_rows_alike(jitted, (1, 2, 33), columns, others, np.float32)


# ---------------------------------------------------------------------------------------------- plans


def association(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Per reduction and scan: how what it runs over is dealt to digits, with their extents."""
    found: dict[str, tuple[str, ...]] = {}
    for kernel in plan.kernels:
        digits = {d.name: d for d in kernel.schedule.digits}
        for statement in kernel.group.statements():
            dims = statement.reduced if statement.scanned is None else (statement.scanned,)
            placed = next(p for p in kernel.schedule.placed if p.role == "compute" and p.value == statement.id)
            entries = []
            for d in dims:
                entry = placed.place[d]
                assert isinstance(entry, Affine)
                parts = sorted((f, digits[str(a)[1:]]) for a, f in entry.terms if str(a)[1:] in digits)
                text = "+".join(f"{f}*{p.kind}[{p.extent}, {p.stride}]" for f, p in parts)
                entries.append(text)
            if dims:
                found[statement.name] = tuple(entries)
    return found


def plan_of(function: Function, rows: int, columns: int, others: Any, target: str, **options: Any) -> Plan:
    shapes = [(rows, columns), *([n or columns for n in shape] for shape in others)]
    specs = [pf.spec(f"f32[{', '.join(map(str, shape))}]") for shape in shapes]
    return pf.jit(function, **options).plan(*specs, target=target)


COUNTS = (1, 2, 64, 4096, 100_000)


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_association_knows_no_rows(name: str, target: str) -> None:
    function, others = PROGRAMS[name]
    for columns in (100, 100_001):
        plans = [plan_of(function, rows, columns, others, target, batch_invariant=True) for rows in COUNTS]
        assert len({str(sorted(association(plan).items())) for plan in plans}) == 1, columns


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_without_the_option_it_does(target: str) -> None:
    """Else the tests above would show nothing."""
    changed = set()
    for name, (function, others) in PROGRAMS.items():
        for columns in (100_001,):
            plans = [plan_of(function, rows, columns, others, target) for rows in COUNTS]
            if len({str(sorted(association(plan).items())) for plan in plans}) > 1:
                changed.add(name)
    assert {"row sums", "linear"} <= changed


def test_other_statements_of_a_kernel_change_nothing() -> None:
    """The dtypes and layouts of what else a kernel reads decide about the width of its vectors."""
    alone = pf.jit(lambda x: x.sum(axis=1), batch_invariant=True)
    beside = pf.jit(lambda x, m: np.where(m, x.sum(axis=1)[:, None], x), batch_invariant=True)
    for target in ("h200", "cpu"):
        one = alone.plan(pf.spec("f32[64, 1000]"), target=target)
        other = beside.plan(pf.spec("f32[64, 1000]"), pf.spec("bool[64, 1000]"), target=target)
        assert association(one)["sum"] == association(other)["sum"]
    odd = np.random.default_rng(0).standard_normal(64 * 1000 + 1).astype(np.float32)
    x, y = odd[:-1].reshape(64, 1000), odd[1:].reshape(64, 1000)  # of which one starts in the middle of a vector
    strided = np.asfortranarray(y)
    assert np.array_equal(bits(alone(x.copy())), bits(alone(x)))
    assert np.array_equal(bits(alone(y.copy())), bits(alone(y)))
    assert np.array_equal(bits(alone(strided)), bits(alone(y)))


def test_fusion_changes_nothing() -> None:
    """Each operation is a function of its operands' bits, so it does not matter how rows move kernels apart."""
    for name in ("layernorm", "softmax", "cross-entropy"):
        function, others = PROGRAMS[name]
        for dtype in (np.float32, np.float16):
            arrays = drawn(37, 300, others, dtype)
            fused = pf.jit(function, batch_invariant=True)(*arrays)
            loose = pf.jit(function, batch_invariant=True, fuse=False)(*arrays)
            assert np.array_equal(bits(fused), bits(loose)), (name, dtype)


def test_several_dimensions_of_rows() -> None:
    x = np.random.default_rng(0).standard_normal((12, 20, 48)).astype(np.float32)
    f = pf.jit(attention, batch_invariant=True)
    whole = f(x)
    for count in (1, 2, 5):
        assert np.array_equal(bits(f(x[3 : 3 + count])), bits(whole[3 : 3 + count]))
    g = pf.jit(lambda x: x.sum(axis=(1, 2)) + (x * x).sum(axis=(2, 1)), batch_invariant=True)
    assert np.array_equal(bits(g(x[4:5])), bits(g(x)[4:5]))


def test_a_library_is_refused_where_it_promises_nothing() -> None:
    x = np.eye(5, dtype=np.float32)
    with pytest.raises(OptionError, match="linalg.inv runs in the array library"):
        pf.jit(lambda x: np.linalg.inv(x) + 1, batch_invariant=True)(x)
    assert np.array_equal(pf.jit(lambda x: np.sort(x, axis=1) + 1, batch_invariant=True)(x), np.sort(x, axis=1) + 1)
    with pytest.raises(OptionError, match="exclude each other"):
        pf.jit(softmax, batch_invariant=True, fastmath=True).plan(pf.spec("f32[N, M]"), target="h200")
    plan = pf.jit(linear, batch_invariant=True).plan(pf.spec("f32[N, K]"), pf.spec("f32[K, J]"), target="h200")
    assert not plan.library_calls


def test_explain_says_it() -> None:
    plan = pf.jit(softmax, batch_invariant=True).plan(pf.spec("f32[N, 1000]"), target="h200")
    assert "the order of its additions depends on what it runs over alone" in plan.explain()
    assert "depends on what it runs over" not in pf.jit(softmax).plan(pf.spec("f32[N, 1000]"), target="h200").explain()


def summed_products(a, b):
    return np.einsum("ij,kj->k", a, b)


def planes_over_their_means(x, gain):
    return x / x.mean(axis=(1, 2), keepdims=True) * gain


@pytest.mark.parametrize("shape", [(1000, 300), (1000, 5000), (5000, 7), (5000, 5000)])
def test_sums_over_two_dimensions_do_not_depend_on_what_is_fused(shape: tuple[int, int]) -> None:
    """The products of one row are stored, where a price says so, and lie side by side; those of four are not."""
    found = []
    for rows in (1, 4):
        specs = pf.spec(f"f64[{shape[0]}, {shape[1]}]"), pf.spec(f"f64[{rows}, {shape[1]}]")
        plan = pf.jit(summed_products, batch_invariant=True).plan(*specs, target="h200")
        found.append((plan.kernels[-1].strategy, plan.kernels[-1].parameters))
    assert found[0] == found[1]


def test_a_sum_is_dealt_alike_beside_what_keeps_its_dimensions_apart() -> None:
    """Alone a plane is one row; beside gains of its columns it is rows of them, which is another order."""
    specs = pf.spec("f32[B~64, 56, 60]"), pf.spec("f32[60]")
    mean = pf.jit(lambda x: x.mean(axis=(1, 2)), batch_invariant=True).plan(specs[0], target="h200")
    plan = pf.jit(planes_over_their_means, batch_invariant=True).plan(*specs, target="h200")
    sums = [k for k in plan.kernels if k.strategy == "rows"]
    assert [k.parameters for k in sums] == [mean.kernels[0].parameters] and len(plan.kernels) == 2
    verdict = plan.why_not("sum", "y")
    assert "its bits would differ" in str(verdict)
    assert len(pf.jit(planes_over_their_means).plan(*specs, target="h200").kernels) == 1
