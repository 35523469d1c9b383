"""Views in canonical places: equal programs whatever the spelling, equal values whatever the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import expr
from polyfuse.dtypes import f64
from polyfuse.expr import Node, Program
from polyfuse.reference import evaluate
from polyfuse.rewrites.canonical import canonical_views
from polyfuse.rewrites.normalise import normalise
from polyfuse.testing import assert_equivalent
from tests.schedules.programs import program

EQUAL = {
    "a transposition sinks": (lambda x: np.exp(x).T, lambda x: np.exp(x.T)),
    "a slice sinks": (lambda x: np.exp(x)[1:, ::2] * 2, lambda x: np.exp(x[1:, ::2]) * 2),
    "a split sinks": (lambda x: np.exp(x).reshape(-1, 2, 4), lambda x: np.exp(x.reshape(-1, 2, 4))),
    "unit dimensions vanish": (lambda x: x - np.exp(x.max(1, keepdims=True)), lambda x: x - np.exp(x.max(1))[:, None]),
    "idle dimensions vanish": (lambda x: x + np.exp(np.broadcast_to(x[0], x.shape)), lambda x: x + np.exp(x[0])),
    "reductions run along their operand": (lambda x: np.einsum("ij->j", x), lambda x: x.sum(0)),
    "a transposed reduction": (
        lambda x: np.einsum("ki,kj->ji", x, x * 2),
        lambda x: np.einsum("ki,kj->ij", x, 2 * x).T,
    ),
    "products reduce kept dimensions first": (
        lambda x: (x[:, :, None] * x.T[None]).sum(1),
        lambda x: (x[:, None, :] * x[None]).sum(-1),
    ),
}


@pytest.mark.parametrize("spellings", EQUAL.values(), ids=EQUAL.keys())
def test_spellings_meet(spellings: tuple[Any, Any]) -> None:
    first, second = (canonical_views(program(f, "f64[M, 8]")) for f in spellings)
    assert first.digest == second.digest


def shares_of_columns(x: Any) -> Any:
    e = np.exp(x.T - x.max(axis=1))
    return (e / e.sum(axis=0)).T


def shares_of_rows(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


LIFTED = {
    "a value of several readers": (shares_of_columns, shares_of_rows),
    "factors of a product in halves": (lambda x: np.einsum("ij,kj->ik", x, x * 2), lambda x: x @ (2 * x.T)),
}


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("spellings", LIFTED.values(), ids=LIFTED.keys())
def test_dimensions_stand_in_the_order_of_what_is_read(spellings: tuple[Any, Any], dtype: str) -> None:
    first, second = (normalise(program(f, f"{dtype}[M, 40]")) for f in spellings)
    assert first.digest == second.digest


def test_a_value_in_another_order_keeps_its_name_its_line_and_its_marks() -> None:
    plans = [pf.jit(f).plan(pf.spec("f32[M, 40]"), target="h200") for f in (shares_of_columns, shares_of_rows)]
    assert plans[0] == plans[1]
    (value,) = [s for s in plans[0].kernels[0].statements if s.text == "exp(subtract)"]
    assert value.name == "e" and value.source is not None
    loose = pf.jit(lambda x: pf.gelu(x.T)[0]).plan(pf.spec("f32[M, 40]"), target="h200", fuse=False)
    assert len(loose.kernels) == 1, "what a library's function does inside is no operation of the user's"


def test_what_others_read_stays_and_nothing_is_computed_twice() -> None:
    before = program(lambda x: np.exp(x) + np.exp(x).T, "f32[N, N]")
    after = canonical_views(before)
    assert sum(isinstance(n, expr.Map) for n in expr.topological(after.outputs)) == 2


def test_windows_stay_where_they_are() -> None:
    """Sinking would compute every element once per window that holds it."""
    before = program(lambda x: np.lib.stride_tricks.sliding_window_view(np.exp(x), 3).sum(-1), "f32[N~100]")
    assert canonical_views(before).digest == before.digest


def test_outputs_are_computed_as_they_are_returned() -> None:
    after = canonical_views(program(lambda x: np.sqrt(x.sum(axis=1, keepdims=True)), "f32[M, N]"))
    assert isinstance(after.outputs[0], expr.Map)


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_keep_their_values(seed: int) -> None:
    """Maps, sums and views at random over a few shared values."""
    random = np.random.default_rng(seed)
    inputs = [expr.input_(k, shape, f64) for k, shape in enumerate([(4, 3), (3, 4), (4, 1, 6)])]
    values: list[Node] = list(inputs)
    for _ in range(12):
        values.append(_random_step(random, values))
    outputs = tuple(values[k] for k in random.choice(len(values), 3))
    arguments = tuple(expr.Argument(name, i.shape, f64) for name, i in zip("xyz", inputs, strict=True))
    before = Program("random", arguments, outputs, ("a", "b", "c"))
    arrays = [random.standard_normal([e.constant for e in i.shape]) for i in inputs]
    for after in (canonical_views(before), normalise(before)):
        for got, wanted in zip(evaluate(after, arrays, []), evaluate(before, arrays, []), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12)


def _random_step(random: np.random.Generator, values: list[Node]) -> Node:
    """A new value over a random earlier one; recent ones are likelier, so that chains arise."""
    x = values[-1] if random.random() < 0.6 else values[random.integers(len(values))]
    points = expr.dimensions(x.rank)
    match random.integers(6):
        case 0 if x.rank:
            order = [int(d) for d in random.permutation(x.rank)]
            return expr.view(x, [x.shape[d] for d in order], [points[order.index(d)] for d in range(x.rank)])
        case 1 if x.rank and x.shape[0].constant > 1:
            return expr.view(x, [x.shape[0].constant // 2, *x.shape[1:]], [points[0] * 2 + 1, *points[1:]])
        case 2 if x.rank < 4:
            at = int(random.integers(x.rank + 1))
            extent = int(random.choice([1, 1, 2]))
            rest = expr.dimensions(x.rank + 1)
            return expr.view(x, [*x.shape[:at], extent, *x.shape[at:]], [*rest[:at], *rest[at + 1 :]])
        case 3 if x.rank:
            axes = random.choice(x.rank, int(random.integers(1, x.rank + 1)), replace=False)
            return expr.reduce_("sum", [x], sorted(int(a) for a in axes))
        case 4:
            same = [v for v in values if v.shape == x.shape or not v.rank]
            return expr.map_("subtract", [x, same[random.integers(len(same))]])
        case _:
            return expr.map_("tanh", [x])


@pytest.mark.parametrize("shape", ["1", "1, 1", "1, 300", "300, 1", "1, N~300", "2, 1, N~300"])
@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_dimensions_of_one_element_keep_nothing_apart(shape: str, target: str) -> None:
    """Results keep their unit dimensions, values between them have none."""

    def adam(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
        m2 = 0.9 * m + 0.1 * g
        v2 = 0.999 * v + 0.001 * g * g
        return p - 0.001 * m2 / (np.sqrt(v2) + 1e-8), m2, v2

    given = [pf.spec(f"f32[{shape}]")] * 4
    plan = pf.jit(adam).plan(*given, target=target)
    assert len(plan.launches) == 1, str(plan)
    assert_equivalent(pf.jit(adam).plan(*given, target=target, fuse=False), plan, seeds=(0,))
