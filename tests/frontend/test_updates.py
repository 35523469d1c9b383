"""Writing: aliasing as in NumPy, regions, masks, scatters, functional updates, donated arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.expr import Gather, Region, Scatter, topological
from polyfuse.frontends.numpy_like import nodes, spec, specs_of_arrays, trace
from polyfuse.reference import evaluate
from tests.frontend.ops import Case, assert_same, collector, run

CASES: dict[str, Case] = {}
case = collector(CASES)


@case((6, 5))
def boundary_and_interior(x: Any) -> Any:
    a = np.zeros(x.shape)
    a[0] = 1
    a[-1, :] = x[0]
    a[:, 0] = -1
    a[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return a


@case((6, 5))
def jacobi_steps(x: Any) -> Any:
    a = x.copy()
    for _ in range(3):
        b = a.copy()
        b[1:-1, 1:-1] = (a[1:-1, :-2] + a[1:-1, 2:]) / 2
        a = b
    return a


@case((6, 5))
def strided_and_reversed(x: Any) -> Any:
    a = np.empty_like(x) * 0
    a[::2] = x[::2]
    a[1::3, ::-2] += 2
    a[::-1, 1] = x[:, 0]
    a[4, 3] *= 10
    return a


@case((6, 5))
def blocks_are_copies(x: Any) -> Any:
    a = x * 1
    whole, inside = np.block(a), np.block([a])
    whole[0] = 3
    inside += 1
    return a, whole, inside


@case((6, 5))
def views_of_scalars_are_copies(x: Any) -> Any:
    total, element = x.sum(), x[1, 2]
    row, cell, column = total[None], element.reshape(1, 1), np.atleast_1d(total)
    row += 1
    cell[0] = 3
    column *= 2
    np.expand_dims(element, 0)[...] = -1
    whole = element[...]
    whole += 5
    return total, element, row, cell, column, whole


@case((6, 5))
def arrays_of_rank_0_are_shared(x: Any) -> Any:
    def add(total: Any, value: Any) -> None:
        total += value

    total, single, last = np.zeros(()), np.full((), x[0, 0], dtype=np.float32), np.array(x[0, 1])
    for row in x:
        add(total, row.sum())
        add(single, row[0])
    copied, seen = last.copy(), last[None]
    seen += 1
    copied += 1
    same = copied
    same *= 2
    return total, single, last, copied, np.asarray(last) is last


@case((6, 5))
def views_share_memory(x: Any) -> Any:
    a = x * 1
    row, column, turned = a[1], a[:, 2], a.T
    row[:] = 7
    column += 1
    turned[0, 0] = -3
    a[0, 0] += 1
    return a, row, column, turned


@case((6, 4))
def reshaped_views_share_memory(x: Any) -> Any:
    a = x + 0.5
    flat = a.reshape(-1)
    flat[3] = 100
    folded = a.reshape(6, 2, 2)
    folded[:, 1] = -1
    a.T.reshape(-1)[0] = 55
    a.flatten()[0] = 66
    a.ravel()[1] = 77
    return a, flat, folded


@case((6, 4))
def ravelled_steps_are_copies(x: Any) -> Any:
    a = x * 1
    steps, turned, part, whole = a.reshape(-1)[::2], a.T, a[:, 1:], a[2:4]
    flat = [steps.ravel(), steps.reshape(-1), turned.ravel(), turned.ravel("F"), part.ravel(), whole.ravel()]
    steps[:] = 0
    a[:, 1] = 9
    return (*flat, a)


@case((6, 5))
def copies_do_not(x: Any) -> Any:
    a = x * 1
    b, c, d = a.copy(), np.array(a), a[[0, 1]]
    b[0] = 1
    c[1] = 2
    d[0] = 3
    e = a
    e += 1
    return a, b, c, d, e


@case((5, 5))
def einsum_without_a_sum_is_a_view(x: Any) -> Any:
    a, b, c, d = x * 1, x * 2, x * 3, np.arange(16.0).reshape(2, 2, 2, 2)
    np.einsum("ii->i", a)[...] = 5
    np.einsum("ij->ji", b)[0] *= 2
    part = np.einsum("...i->i...", c[:, ::2])
    part[1:] -= 7
    np.einsum(d, [0, 1, 0, 1], [1, 0])[0, 1] = -1
    summed = np.einsum("ij->j", x)
    summed += 1
    return a, b, c, d, part, summed, x


@case((4, 5))
def real_parts_are_the_array(x: Any) -> Any:
    a, b, c, d = x * 1, x * 2, x * 3, x * 4
    np.real(a)[0] = 1
    np.real_if_close(b)[0] = 2
    c.conj()[0] = 3
    np.conj(d)[0] = 4  # a copy
    return a, b, c, d


@case((4, 5))
def another_order_of_memory_is_a_copy(x: Any) -> Any:
    a, b, c = x * 1, x * 2, x * 3
    same = np.ascontiguousarray(a), np.asfortranarray(b.T), np.require(c, requirements="C"), np.ascontiguousarray(a[1:])
    anew = (
        *(np.ascontiguousarray(a.T), np.asfortranarray(b), np.require(c, None, ["F"]), np.require(c[1:], None, "OW")),
        *(np.asarray(a, order="F"), np.array(b, copy=None, order="F"), c.T.astype(float, order="C", copy=False)),
    )
    a[1], b[1], c[1] = 1, 2, 3
    return same, anew


@case((3,), (4,))
def grids_are_views_only_if_asked_for(x: Any, y: Any) -> Any:
    a, b = x * 1, y * 2
    grids = (
        *(np.meshgrid(a, b), np.meshgrid(a, b, sparse=True), np.meshgrid(a, b, copy=False)),
        *(np.meshgrid(a, b, copy=False, sparse=True, indexing="ij"), np.broadcast_arrays(a, b[:, None])),
    )
    c, d = np.broadcast_arrays(a, x)
    c[1] = 4
    a[0], b[0] = 1, 2
    return grids, c, d


@case((4, 5))
def not_a_number_is_replaced_in_place(x: Any) -> Any:
    a, b = np.where(x > 0, x, np.nan), x * 1
    found = np.nan_to_num(a[1:], copy=False, nan=-3)
    found[0] += 1
    np.nan_to_num(b.astype(int), copy=False)
    return a, found, np.nan_to_num(a)


@case((7,))
def overlapping(x: Any) -> Any:
    a = x * 1
    a[1:] = a[:-1]
    a[:-1] += a[1:]
    return a


@case((6, 5))
def in_place_operators(x: Any) -> Any:
    a = x * 1
    a += 1
    a *= x
    a -= a.mean()
    a /= 2
    a **= 2
    np.add(a, 1, out=a)
    np.multiply(a[0], 2, out=a[1])
    return a


@case((6, 5))
def masks(x: Any) -> Any:
    a = x.copy()
    a[a < 0] = 0
    a[a > 2] += 0
    a[x[:, 0] > 0] = -1
    a[1:][x[1:] > 1] = 5
    a[:, x[0] < 0] = 9
    return a


@case((6, 5), (6, 5))
def masked_selections(x: Any, y: Any) -> Any:
    a = x.copy()
    a[a > 0] = np.sqrt(a[a > 0]) * 2
    a[y > 0] -= y[y > 0]
    a[x[:, 0] > 0] += 1
    m = x < 1
    return a, x[m].sum(), x[m].mean(), np.max(x[m]), x[m].min(), np.std(x[m] * 2), x[m].size, x[m].shape[0]


@case((6, 5), (4,), dtypes="f8 i8")
def scatters(x: Any, i: Any) -> Any:
    a = np.zeros(8)
    b = np.zeros((8, 5))
    np.add.at(a, i, 1.0)
    b[i] = x[:4]
    b[i, 1] = 3
    b[[0, 1]] += 1
    b[:, [2, 4]] *= 2
    return a, b


@case((6,), (4,), dtypes="f8 i8")
def scatters_of_truth(x: Any, i: Any) -> Any:
    a, b, c, d, e = np.zeros(8, bool), np.ones(8, bool), np.zeros(8, bool), np.ones(8, bool), np.zeros(8, bool)
    np.logical_or.at(a, i, x[:4] > 0)
    np.logical_and.at(b, i, x[:4].astype(int))
    np.bitwise_or.at(c, i, x[2:] > 0)
    np.bitwise_and.at(d, i, False)
    np.logical_or.at(e, i, 1)
    return a, b, c, d, e


@case((5,))
def numbers_are_immutable(x: Any) -> Any:
    s = x.sum()
    t = s
    s += 1
    return s, t


@case((4, 4))
def filled(x: Any) -> Any:
    a = np.empty((4, 4))
    a.fill(3)
    b = np.empty_like(x)
    np.copyto(b, x, where=x > 0)
    b[x <= 0] = 0
    return a * x, b


@case((4, 4))
def triangular_solve_by_rows(x: Any) -> Any:
    y = np.zeros(4)
    for k in range(4):
        y[k] = 1 - x[k, :k] @ y[:k]
    return y


@case((5, 4), (3,), dtypes="f8 i8")
def put_along(x: Any, i: Any) -> Any:
    a = x.copy()
    np.put_along_axis(a, np.argmax(x, 1)[:, None], 0, 1)
    return a


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    arguments = CASES[name].arguments()
    wanted = CASES[name].function(*(a.copy() for a in arguments))
    assert_same(run(CASES[name].function, *arguments), wanted)


FUNCTIONAL: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "set": (lambda x: x.at[1:-1].set(0), lambda x: np.concatenate([x[:1], x[1:-1] * 0, x[-1:]])),
    "add": (lambda x: x.at[0].add(5), lambda x: np.concatenate([x[:1] + 5, x[1:]])),
    "mask": (lambda x: x.at[x > 0].multiply(2), lambda x: np.where(x > 0, x * 2, x)),
    "max": (lambda x: x.at[::2].max(1.0), lambda x: np.where(np.arange(6)[:, None] % 2, x, np.maximum(x, 1))),
    "duplicates": (
        lambda x: x.at[np.array([0, 0, 1])].add(1.0),
        lambda x: x + np.array([2, 1, 0, 0, 0, 0])[:, None],
    ),
    "subtract": (lambda x: x.at[np.array([0, 0])].subtract(1.0), lambda x: x - np.array([2, 0, 0, 0, 0, 0])[:, None]),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_updates(name: str) -> None:
    ours, numpys = FUNCTIONAL[name]
    (x,) = Case(ours, ((6, 5),)).arguments()
    assert_same(run(ours, x), numpys(x))


def test_functional_updates_leave_the_argument_alone() -> None:
    def function(x: Any) -> Any:
        y = x.at[0].set(1)
        return x, y

    x = np.zeros((3, 2))
    assert_same(run(function, x), (x, np.array([[1.0, 1], [0, 0], [0, 0]])))


def test_a_stencil_is_one_region_and_reads_no_padding() -> None:
    def function(x: Any) -> Any:
        a = np.zeros(x.shape)
        a[1:-1] = x[:-2] + x[2:]
        return a[1:-1] * 2

    program = trace(function, [spec("f64[N~9]")]).program
    assert not any(isinstance(n, Region) for n in topological(program.outputs))


def test_what_an_in_place_index_stores_back_is_written_once() -> None:
    def function(x: Any) -> Any:
        a = np.zeros(x.shape)
        a[1:-1] += x[1:-1]
        return a

    (region,) = [n for n in topological(trace(function, [spec("f64[N~9]")]).program.outputs) if isinstance(n, Region)]
    assert len(region.pieces) == 2


def test_gathers_and_scatters_only_where_indices_are_data() -> None:
    def function(x: Any, i: Any) -> Any:
        a = np.zeros((8, 4))
        a[np.arange(4), np.arange(4)] = x[[0, 1, 2, 3], 0]  # once per element: a choice
        a[i, 0] = 1
        return a + x[i].sum()

    nodes = list(topological(trace(function, [spec("f64[5, 4]"), spec("i64[3]")]).program.outputs))
    assert sum(isinstance(n, Gather) for n in nodes) == 2 and sum(isinstance(n, Scatter) for n in nodes) == 1


def test_donated_arguments_are_written() -> None:
    def function(x: Any, y: Any) -> Any:
        x += y
        y[0] = 1
        return x.sum()

    arrays = [np.arange(4.0), np.ones(4) * 2]
    traced = trace(function, specs_of_arrays(arrays), donate=("x", "y"))
    assert (traced.results, traced.program.writes) == (1, {0: 1, 1: 2})
    total, x, y = evaluate(traced.program, arrays)
    assert total == 14 and x.tolist() == [2, 3, 4, 5] and y.tolist() == [1, 2, 2, 2]


def test_a_short_list_of_numbers_is_affine() -> None:
    """Neither a gather nor a scatter: what was written so fuses with what comes before and after it."""

    def function(x: Any) -> Any:
        b = x * 2
        b[[0, -1]] = 0
        b[:, [1, 2]] += np.array([[1.0], [2], [3], [4], [5]])
        b[[3, 3], 1:3] = np.array([[1.0, 2], [3, 4]])  # the last one stays
        b[..., [-2]] = b[..., [1]]
        c = b[:, [2, 0, 1]]
        c[0] = 7  # a new array: b has it not
        return b, c, x[[0, -1]], x[None, [1], ::-1]

    x = np.random.default_rng(0).random((5, 4))
    for found, wanted in zip(run(function, x), function(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
    kinds = {type(node) for node in topological(trace(function, [spec("f64[5, 4]")]).program.outputs)}
    assert not {Gather, Scatter} & kinds
    assert len(pf.jit(function).plan(pf.spec("f64[5, 4]")).kernels) < 5


def test_a_number_in_a_list_is_in_bounds_or_an_error() -> None:
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0"):
        run(lambda x: x[[0, 7]], np.zeros(3))


def test_writing_element_by_element_looks_at_each_write_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing n elements is linear in n but for the pieces themselves: earlier ones are not simplified again."""
    looked = []
    known = nodes.holds_nowhere
    monkeypatch.setattr(nodes, "holds_nowhere", lambda c, shape: looked.append(c) or known(c, shape))

    def function(x: Any) -> Any:
        y = np.zeros_like(x)
        for i in range(10):
            for j in range(10):
                y[i, j] = x[j, i] + 1
        return y

    x = np.random.default_rng(0).random((10, 10))
    np.testing.assert_array_equal(run(function, x), function(x))
    assert len(looked) <= 6 * 100


def test_a_write_over_an_earlier_one_takes_its_place() -> None:
    def function(x: Any) -> Any:
        y = x.copy()
        for k in range(6):
            y[1:-1] = y[1:-1] + k
            y[0] = k
        return y

    (region,) = [n for n in topological(trace(function, [spec("f64[N~9]")]).program.outputs) if isinstance(n, Region)]
    assert len(region.pieces) == 3
    np.testing.assert_array_equal(run(function, np.arange(9.0)), function(np.arange(9.0)))


def test_an_empty_range_is_an_index_of_integers() -> None:
    def function(p: Any, y: Any) -> Any:
        g = p * 2
        g[range(len(y)), y] -= 1
        return g

    for rows in (0, 3):
        p, y = np.random.default_rng(0).random((rows, 4)), np.arange(rows)
        np.testing.assert_array_equal(run(function, p, y), function(p, y))


@pytest.mark.parametrize("value", [-1, 5])
def test_a_count_that_has_no_place_is_an_index_error(value: int) -> None:
    for dtype in (np.int8, np.int32, np.int64):
        with pytest.raises(IndexError):
            pf.jit(lambda x: np.bincount(x, minlength=5))(np.array([0, value], dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.bool_])
def test_counts_read_the_numbers_as_the_caller_has_them(dtype: Any) -> None:
    """Their indices lay in memory as int64 in between, which took 16 bytes of each instead of 1."""
    function = pf.jit(lambda x: np.bincount(x, minlength=256))
    x = np.random.default_rng(3).integers(0, 2 if dtype == np.bool_ else 100, 999).astype(dtype)
    np.testing.assert_array_equal(function(x), np.bincount(x, minlength=256))
    plan = function.plan(x, target="h200")
    assert len(plan.kernels) == (3 if dtype == np.bool_ else 2), plan  # of a byte each, and the zeros and the one


@pytest.mark.parametrize("name", ["whole", "transposed", "strided", "reversed"])
def test_flat_is_written_through_and_its_parts_are_copies(name: str) -> None:
    views = {"whole": lambda y: y, "transposed": lambda y: y.T, "strided": lambda y: y[:, ::2]}
    view = views.get(name, lambda y: y[::-1])

    def function(x: Any) -> Any:
        y = x.copy()
        line = view(y).flat
        part = line[2:5]
        part[0] = 100
        line[1] = 7
        view(y).flat[3:5] += 1
        y[0, 0] = -1
        return y, part, line[0] + line[4]

    x = np.arange(12.0).reshape(3, 4)
    for got, wanted in zip(run(function, x), function(x), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_reads_of_single_elements_pass_over_the_writes_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """To see by symbolic conditions that each of 1,000 writes is elsewhere took three quarters of tracing them."""
    asked, original = 0, nodes._holds

    def counted(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return original(*arguments)

    def program(x: Any) -> Any:
        x = x.copy()
        for i in range(1, 60):
            x[i] = x[i] + x[i - 1]
        return x

    monkeypatch.setattr(nodes, "_holds", counted)
    traced = trace(program, [spec("f32[60]")])
    assert asked < 3 * 60, asked
    x = np.arange(60, dtype=np.float32)
    assert np.array_equal(evaluate(traced.program, [x])[0], np.cumsum(x))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[:, :, 0].reshape(-1),
        lambda a: a[:, :, 0].ravel(),
        lambda a: a[:, 1:].reshape(2, -1),
        lambda a: a[:, 1:, 0].reshape(-1),
        lambda a: a[:, :, :3].reshape(-1, 3),
        lambda a: a[:, :, :4].reshape(-1, 4),
        lambda a: a.T[:, 1, 1].ravel(),
        lambda a: a.reshape(3, -1).T.T.reshape(2, -1),
        lambda a: a.reshape(3, -1).reshape(a.size, -1),
        lambda a: np.flip(a[:1], 0).ravel(),
        lambda a: a[::3].ravel(),
        lambda a: a[::3][::2].reshape(1, -1),
        lambda a: a[::-1].reshape(2, -1),
        lambda a: a[::-1].reshape(-1),
        lambda a: a.transpose(0, 2, 1).reshape(2, -1),
        lambda a: a.view(np.int64).T.view(np.float64).ravel(),
        lambda a: a.T[None].swapaxes(1, 3).reshape(-1),
    ],
)
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 5)])
def test_lining_up_the_elements_is_a_view_where_memory_lies_so(view: Callable[[Any], Any], shape: Any) -> None:
    def function(x: Any) -> Any:
        a = x.copy()
        view(a)[...] = 7
        return a

    x = np.random.default_rng(0).standard_normal(shape)
    assert_same(run(function, x), function(x))


def test_whether_a_reshape_is_a_view_holds_for_all_sizes_of_a_trace() -> None:
    def function(x: Any) -> Any:
        a = x.copy()
        a[:, :4].reshape(-1)[...] = 7
        return a

    jitted = pf.jit(function)
    for columns in (6, 4, 5):
        x = np.random.default_rng(0).standard_normal((3, columns))
        np.testing.assert_array_equal(jitted(x), function(x))
