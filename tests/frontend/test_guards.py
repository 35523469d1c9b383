"""Symbolic sizes: unification, branches, fixed sizes, and the guards that each of them leaves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine
from polyfuse.bindings import Guard, VolumeGuard
from polyfuse.errors import ShapeError, TraceError, UnsupportedError
from polyfuse.expr import Reduce, undeclared_symbols
from polyfuse.frontends.numpy_like import ScalarGuard, Traced, spec, specs_of_arrays, trace
from polyfuse.reference import evaluate
from tests.frontend.ops import assert_same, run


def traced(function: Callable[..., Any], *arguments: Any) -> Traced:
    return trace(function, specs_of_arrays(arguments))


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape)


def shapes(result: Traced) -> list[str]:
    return [str(a.shape) for a in result.program.arguments]


def test_arrays_get_a_symbol_per_size_and_constants_for_zero_and_one() -> None:
    a, b = specs_of_arrays([zeros(5, 1, 0), zeros(5)])
    assert (str(a), a.hints, str(b)) == ("f64[n0, 1, 0]", (("n0", 5),), "f64[n1]")


def test_symbols_of_arrays_avoid_the_letters_of_specs() -> None:
    _, b = specs_of_arrays([spec("f32[n0, 4]"), zeros(5)])
    assert str(b) == "f64[n1]"


def test_broadcast_equates_sizes_and_guards_it() -> None:
    result = traced(lambda x, y: x + y, zeros(5, 4), zeros(4))
    assert shapes(result) == ["(n0, n1)", "(n1,)"]
    holds = [all(g.holds({"n0": 7, "n1": n, "n2": m}) for g in result.guards) for n, m in ((9, 9), (9, 8), (8, 9))]
    assert holds == [True, False, False]


def test_a_size_that_a_branch_leaves_no_other_value_is_a_number() -> None:
    """Nothing is left of two rows without the first and the last: kernels need no symbol for that."""
    result = traced(lambda x: (x[1:-1] * 2, x + 1), zeros(2, 5))
    assert shapes(result) == ["(2, n1)"] and str(result.program.outputs[0].shape) == "(0, n1)"
    assert [all(g.holds({"n0": n, "n1": 9}) for g in result.guards) for n in (2, 3)] == [True, False]
    assert shapes(traced(lambda x: x[1:-1] * 2, zeros(3, 5))) == ["(n0, n1)"]
    assert shapes(trace(lambda x: x[1:-1] * 2, [spec("f64[N~2, 5]")])) == ["(N, 5)"]


def test_equal_sizes_that_never_meet_stay_apart() -> None:
    result = traced(lambda x, y: (x.sum(), y.sum()), zeros(5), zeros(5))
    assert shapes(result) == ["(n0,)", "(n1,)"] and not result.guards


@pytest.mark.parametrize(
    "function",
    [lambda x, y: x @ y, lambda x, y: np.concatenate([x.T, y], 1), lambda x, y: np.einsum("ij,jk->ik", x, y)],
)
def test_contractions_and_joins_equate_too(function: Callable[..., Any]) -> None:
    result = traced(function, zeros(5, 4), zeros(4, 3))
    assert shapes(result)[1] == "(n1, n3)"


def test_sizes_that_differ_are_a_shape_error() -> None:
    with pytest.raises(ShapeError, match=r"do not broadcast: \(n0, n1\) and \(n2,\)"):
        traced(lambda x, y: x + y, zeros(5, 4), zeros(3))


def test_declared_letters_never_unify() -> None:
    with pytest.raises(ShapeError, match="Sizes N and M of axis -1"):
        trace(lambda x, y: x + y, [spec("f32[N~8]"), spec("f32[M~8]")])


def test_a_declared_letter_does_not_become_a_number() -> None:
    weights = np.ones(4)
    with pytest.raises(ShapeError, match="Sizes N and 4"):
        trace(lambda x: x * weights, [spec("f32[N]")])


def test_captured_arrays_fix_sizes_of_arguments() -> None:
    weights = np.arange(4.0)
    result = traced(lambda x: x * weights, zeros(5, 4))
    assert shapes(result) == ["(n0, 4)", "(4,)"]
    assert [g.holds({"n0": 5, "n1": 4}) for g in result.guards] == [True, True]
    assert not all(g.holds({"n0": 5, "n1": 5}) for g in result.guards)
    assert result.captured[0] is weights


def test_a_branch_on_a_size_is_decided_by_hint_and_guarded() -> None:
    def function(x: Any) -> Any:
        return x.sum() if x.shape[0] > 10 else x.max()

    small, large = traced(function, zeros(5)), traced(function, zeros(50))
    n = Affine.symbol("n0")
    assert small.guards == (Guard(-n + 10),)
    assert large.guards == (Guard(n - 11),)
    assert small.program.digest != large.program.digest
    assert Guard(-n + 10).expression in small.program.facts


def test_a_branch_on_a_declared_letter_takes_it_for_large() -> None:
    def function(x: Any) -> Any:
        return x.sum() if len(x) > 10 else x.max()

    for text, monoid in (("f32[N]", "sum"), ("f32[N~8]", "max")):
        (result,) = trace(function, [spec(text)]).program.outputs
        assert isinstance(result, Reduce) and result.monoid == monoid


def test_a_branch_that_every_size_decides_alike_leaves_no_guard() -> None:
    assert not traced(lambda x: x.sum() if x.shape[0] > 0 and x.shape[0] != 1 else x.max(), zeros(5)).guards


def test_equality_of_sizes_in_python() -> None:
    def function(x: Any, y: Any) -> Any:
        return x + y if x.shape == y.shape else x.sum()

    same, other = traced(function, zeros(5), zeros(5)), traced(function, zeros(5), zeros(6))
    assert shapes(same) == ["(n0,)", "(n0,)"]
    assert all(g.holds({"n0": 5, "n1": 6}) for g in other.guards)
    assert not all(g.holds({"n0": 6, "n1": 6}) for g in other.guards)


def test_equality_of_letters_without_hints_is_an_error() -> None:
    with pytest.raises(TraceError, match="whether the sizes N and M are equal"):
        trace(lambda x, y: x if x.shape == y.shape else y, [spec("f32[N]"), spec("f32[M]")])


def test_branches_on_the_number_of_elements() -> None:
    result = traced(lambda x: x.sum() if x.size > 10 else x.max(), zeros(5, 4))
    assert result.guards == (VolumeGuard((Affine.symbol("n0"), Affine.symbol("n1")), 10, True),)


def test_python_integers_fix_a_size() -> None:
    result = traced(lambda x: sum(x[k] for k in range(x.shape[0])), zeros(3, 4))
    assert shapes(result) == ["(3, n1)"]
    assert not all(g.holds({"n0": 4, "n1": 4}) for g in result.guards)


def test_reshape_splits_a_size_into_a_multiple() -> None:
    result = traced(lambda x: x.reshape(-1, 4), zeros(12))
    assert shapes(result) == ["(4*n0_4,)"]
    assert [g.holds({"n0": 16}) for g in result.guards] == [True]
    assert not all(g.holds({"n0": 17}) for g in result.guards)
    assert result.program.hints == {"n0_4": 3}


def test_reshape_that_merges_fixes_the_inner_size() -> None:
    result = traced(lambda x: x.reshape(-1), zeros(3, 4))
    assert shapes(result) == ["(n0, 4)"]


def test_reshape_leaves_the_outer_sizes_alone() -> None:
    flat = traced(lambda x: x.reshape(-1, 784), zeros(3, 28, 28))
    assert shapes(flat) == ["(n0, 28, 28)"]
    rows = traced(lambda x: x.reshape(-1, 5, 2), zeros(3, 5, 2))
    assert all(g.holds({"n0": 8, "n1": 5, "n2": 2}) for g in rows.guards) and shapes(rows) == ["(n0, 5, 2)"]


def test_a_multiple_of_a_size_is_divided_by_what_it_lacks() -> None:
    result = traced(lambda x: x.reshape(10, -1), zeros(4, 15))
    assert all(g.holds({"n0": 4, "n1": 15}) for g in result.guards)
    assert not all(g.holds({"n0": 3, "n1": 15}) for g in result.guards)


def test_reshape_that_merges_declared_letters_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="merges or splits the symbolic size"):
        trace(lambda x: x.reshape(-1), [spec("f32[M, N]")])


def test_reshape_of_declared_letters_by_their_own_sizes() -> None:
    def function(x: Any) -> Any:
        batch, length, width = x.shape
        return x.reshape(batch, length, 8, width // 8).transpose(0, 2, 1, 3)

    (y,) = trace(function, [spec("f32[B, T, 512]")]).program.outputs
    assert str(y.shape) == "(B, 8, T, 64)"
    assert str(trace(lambda x: x.reshape(-1, 64), [spec("f32[N, 4096]")]).program.outputs[0].shape) == "(64*N, 64)"


def test_slices_guard_what_clamping_depends_on() -> None:
    result = traced(lambda x: x[:4] + x[-4:], zeros(9))
    assert [g.holds({"n0": 4}) for g in result.guards] == [True] * len(result.guards)
    assert not all(g.holds({"n0": 3}) for g in result.guards)


def test_scalars_stay_values_until_python_asks() -> None:
    def function(x: Any, steps: Any, scale: Any) -> Any:
        for _ in range(steps):
            x = x * scale
        return x

    result = traced(function, zeros(3), 2, 0.5)
    assert result.scalar_guards == (ScalarGuard(1, 2),)
    assert_same(run(function, np.ones(3), 2, 0.5), function(np.ones(3), 2, 0.5))
    assert ScalarGuard(1, 2).holds(2) and not ScalarGuard(1, 2).holds(2.0) and not ScalarGuard(1, 1).holds(True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, k: x[:k],
        lambda x, k: np.zeros((k, 2)) + x[0],
        lambda x, k: np.arange(k) + x[0],
        lambda x, k: x[None].sum(axis=k),
        lambda x, k: np.roll(x, k),
        lambda x, k: np.split(x, k),
        lambda x, k: np.repeat(x, k),
        lambda x, k: x if k == 1 else -x,
    ],
)
def test_scalars_that_shapes_depend_on_are_fixed(function: Callable[..., Any]) -> None:
    x = np.arange(6.0)
    assert traced(function, x, 1).scalar_guards == (ScalarGuard(1, 1),)
    assert_same(run(function, x, 1), function(x, 1))


def test_an_index_that_is_a_scalar_stays_a_runtime_value() -> None:
    assert not traced(lambda x, k: x[k] + x[k, 0], zeros(4, 3), 2).scalar_guards


def test_one_program_serves_all_sizes_that_its_guards_allow() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x[1:-1] - x[:-2]) * y[1:-1].mean() + np.arange(len(x) - 2) / x.size

    result = traced(function, zeros(9), zeros(9))
    for n in (3, 5, 17):
        x, y = np.random.default_rng(n).random((2, n))
        assert all(g.holds({"n0": n, "n1": n}) for g in result.guards)
        assert_same(evaluate(result.program, [x, y])[0], function(x, y))


def test_no_program_uses_a_symbol_that_no_argument_defines() -> None:
    result = traced(lambda x: np.zeros((x.shape[0] * 2, 3)) + x.reshape(-1, 2).sum(), zeros(6))
    assert not undeclared_symbols(result.program)


def test_sizes_as_results() -> None:
    result = traced(lambda x: (x.shape, x.size, len(x), x.sum()), zeros(3, 4))
    assert result.rebuild([0.0], {"n0": 7, "n1": 5}) == ((7, 5), 35, 7, 0.0)


def test_a_scalar_argument_that_counts_bins_is_a_guard() -> None:
    f, x = pf.jit(lambda x, bins: np.histogram(x, bins)[0]), np.random.default_rng(0).random(50)
    for bins in (5, 7):
        np.testing.assert_array_equal(f(x, bins), np.histogram(x, bins)[0])


def test_assumptions_outlast_code_that_swallows_every_error() -> None:
    """A bare `except`, and C code that takes any error for its own, leave no other branch behind."""

    def function(x: Any, n: int, a: float) -> Any:
        try:
            factor = float(a)
        except:  # noqa: E722
            factor = 0.0
        rows = list(itertools.islice([x, x + 1, x + 2], n))
        return [row * factor for row in rows]

    jitted = pf.jit(function, backend="interpreter")
    for n, a in ((2, 1.5), (3, 2.5)):
        assert_same(jitted(np.arange(3.0), n, a), function(np.arange(3.0), n, a))
