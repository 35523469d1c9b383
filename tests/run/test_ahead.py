"""Ahead of time: plans without data, compiled plans that never plan again."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from polyfuse.api import spec
from polyfuse.errors import ArgumentError, OptionError, SpecError, StalePlanError
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_plan_needs_no_data(jit: Jit) -> None:
    plan = jit(softmax).plan(spec("f32[N, 4096]"))
    assert plan.target.name == "h200"
    assert len(plan.launches) == 1
    assert plan.program.symbols == ("N",)


def test_options_reach_the_plan(jit: Jit) -> None:
    f = jit(softmax)
    plan = f.plan(spec("f32[N, 4096]"), target="cpu", fuse=False)
    assert plan.target.kind == "cpu"
    assert len(plan.launches) > 1
    with pytest.raises(OptionError, match="unknown option 'fused'"):
        f.plan(spec("f32[N, 4096]"), fused=False)


def test_a_plan_of_arrays_is_for_their_device_and_layout(jit: Jit) -> None:
    plan = jit(softmax).plan(np.zeros((8, 64), np.float32).T)
    assert plan.target.kind == "cpu"
    assert plan.layouts[0].strides == (1, None)


def test_compiled_plans_run_and_check_their_arguments(jit: Jit) -> None:
    f = jit(softmax)
    run = f.compile(spec("f32[N~8, 40]"), target="cpu")
    before = f.cache_info()
    for x in (np.random.rand(5, 40), np.random.rand(40, 40).T, np.random.rand(9, 80)[::-2, ::2]):
        x = x.astype(np.float32, order="K")
        np.testing.assert_allclose(run(x), softmax(x), rtol=1e-5)
    with pytest.raises(StalePlanError, match=r"does not fit these arguments; it is for x: f32\[N, 40\]"):
        run(np.zeros((5, 41), np.float32))
    with pytest.raises(StalePlanError):
        run(np.zeros((5, 40), np.float64))
    assert f.cache_info() == before


def test_a_compiled_plan_for_a_transposed_array_refuses_c_order(jit: Jit) -> None:
    x = np.random.rand(8, 9).astype(np.float32)
    run = jit(lambda x: x * 2).compile(x.T)
    np.testing.assert_array_equal(run(x.T), x.T * 2)
    with pytest.raises(StalePlanError, match="memory order of x"):
        run(x.T.copy())


def test_plans_for_a_gpu_do_not_run_on_host_arrays(jit: Jit) -> None:
    f = jit(softmax, target="sm_90", backend="numba_cuda")
    with pytest.raises(Exception, match="CUDA back end is not installed|needs arrays on a cuda device"):
        f(np.zeros((4, 4), np.float32))


def test_the_interpreter_runs_the_schedule_of_any_target(jit: Jit) -> None:
    x = np.random.rand(6, 64).astype(np.float32)
    f = jit(softmax, target="sm_90", backend="interpreter")
    np.testing.assert_allclose(f(x), softmax(x), rtol=1e-5)
    assert f.plan(x).target.kind == "cuda"


def test_unknown_back_ends_and_targets(jit: Jit) -> None:
    with pytest.raises(OptionError, match="unknown back end"):
        jit(softmax, backend="metal")(np.zeros((2, 2)))
    with pytest.raises(OptionError, match="numba_cpu cannot run plans for target h200"):
        jit(softmax, backend="numba_cpu", target="sm_90")(np.zeros((2, 2)))
    assert jit(softmax, backend="numba_cpu").plan(spec("f32[N, 8]")).target.kind == "cpu"
    with pytest.raises(OptionError, match="unknown target"):
        jit(softmax, target="sm_1")(np.zeros((2, 2)))
    with pytest.raises(ArgumentError, match="missing"):
        jit(softmax).plan()


def test_letters_of_a_compiled_plan_are_at_least_one(jit: Jit) -> None:
    """Nothing is proved for other sizes: where a sum runs over no row, no block would store it."""
    run = jit(lambda x: (x.sum(axis=0), x * 2)).compile(spec("f32[N, 3]"), target="cpu")
    run(np.ones((1, 3), np.float32))
    with pytest.raises(StalePlanError, match="holds only where N >= 1"):
        run(np.ones((0, 3), np.float32))


def test_a_compiled_plan_tells_the_condition_on_sizes_that_its_trace_needs(jit: Jit) -> None:
    run = jit(lambda x: x[2:] * 2).compile(spec("f32[N+1]"), target="cpu")
    np.testing.assert_array_equal(run(np.ones(5, np.float32)), [2, 2, 2])
    with pytest.raises(StalePlanError, match="holds only where N >= 2"):
        run(np.ones(2, np.float32))
    with pytest.raises(StalePlanError, match="holds only where n0 >= 2"):
        jit(lambda x: x * 2).compile(np.ones(4))(np.ones(1))


def test_a_compiled_plan_is_for_one_nesting_and_one_set_of_static_values(jit: Jit) -> None:
    """Leaves come in order, whatever their names are, and static values are in the kernels."""
    x, y = np.ones(4), np.full(4, 2.0)
    other = "is for another nesting of arguments, or other static values"
    run = jit(lambda pair: pair["a"] - 10 * pair["b"]).compile({"a": x, "b": y})
    np.testing.assert_array_equal(run({"a": x, "b": y}), np.full(4, -19.0))
    for pair in ({"b": y, "a": x}, {"c": x, "d": y}, (x, y)):
        with pytest.raises(StalePlanError, match=other):
            run(pair)
    named = jit(lambda x, kind: x * (2 if kind == "double" else 3)).compile(x, "double")
    np.testing.assert_array_equal(named(x, "double"), 2 * x)
    with pytest.raises(StalePlanError, match=other):
        named(x, "triple")
    power = jit(lambda x, n: x**n, static="n").compile(x, 2)
    with pytest.raises(StalePlanError, match=other):
        power(x, 3)
    added = jit(lambda arrays, n: sum(arrays) * (2 if n > 3 else 3)).compile([x, y], 5)
    with pytest.raises(StalePlanError, match=other):
        added([x], 5)
    with pytest.raises(StalePlanError, match="holds only where n is 5"):
        added([x, y], 1)


def test_a_compiled_method_is_for_its_object(jit: Jit) -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @jit
        def call(self, x):
            return x * self.factor

    two, three, x = Scale(2.0), Scale(3.0), np.ones(4)
    run = Scale.call.compile(two, x)
    np.testing.assert_array_equal(run(two, x), 2 * x)
    with pytest.raises(StalePlanError, match="other static values"):
        run(three, x)
    two.factor = 4.0
    with pytest.raises(StalePlanError, match="a captured value changed"):
        run(two, x)


def test_a_compiled_plan_keeps_the_latest_calls_only(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyfuse.run.ahead.RECORDS", 2)
    function = jit(lambda x: x * 2)
    run = function.compile(spec("f32[N]"), target="cpu")
    for n in (2, 3, 4, 2):
        for call in (run, function):
            np.testing.assert_array_equal(call(np.ones(n, np.float32)), np.full(n, 2))
    assert len(run.records) == 2
    assert function.cache_info().records == 2


@pytest.mark.parametrize("make", ["bind", "graph", "lower", "compile"])
@pytest.mark.parametrize("leave", [pickle.dumps, copy.deepcopy])
def test_what_holds_addresses_stays_in_its_process(jit: Jit, make: str, leave: Callable[..., object]) -> None:
    made = getattr(jit(softmax), make)(np.ones((3, 4), np.float32))
    with pytest.raises(ArgumentError, match="holds addresses of this process"):
        leave(made)


def test_a_letter_has_one_hint(jit: Jit) -> None:
    with pytest.raises(SpecError, match="N has another hint already, 5"):
        spec("f32[N~5, N~6]")
    assert spec("f32[N~5, N~5]").hints == (("N", 5),)
    with pytest.raises(SpecError, match="the letter N has two hints, 5 and 6"):
        jit(lambda x, y: x.sum() + y.sum()).plan(spec("f32[N~5]"), spec("f32[N~6]"))
