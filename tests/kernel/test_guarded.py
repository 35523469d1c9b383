"""What data choose and data throw away is not loaded."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import digit
from polyfuse.dtypes import bool_, f32, i32
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.guarded import guarded
from polyfuse.lower.inspect import flatten
from polyfuse.terms import Apply, Const, Ref

M, G, Z, K = Ref("m", bool_), Ref("g", f32), Ref("z", f32), Ref("k", i32)
LOAD = ir.Load("g", "a", (K, digit("v")), other=Const(0.0, f32), vector=4)
CHOICE = ir.Let("y", Apply("where", (M, G, Z), f32))


def condition(*slots: str) -> ir.Load:
    return ir.Load("m", "c", tuple(digit(slot) for slot in slots), other=Const(False, bool_))


def masks(*body: ir.Op) -> list[ir.Expr | None]:
    row = ir.Load("k", "d", (), other=Const(0, i32))
    return [op.mask for op in flatten(guarded((row, *body), ["u", "v"])) if isinstance(op, ir.Load) and op.name == "g"]


def test_a_gather_under_a_condition_is_masked() -> None:
    assert masks(condition(), LOAD, CHOICE) == [M]
    alias = ir.Let("h", G)
    assert masks(condition(), LOAD, alias, ir.Let("y", Apply("where", (M, Ref("h", f32), Z), f32))) == [M]
    branch = (LOAD, CHOICE)
    assert masks(condition(), ir.If(Ref("c", bool_), branch, branch)) == [M, M]


@pytest.mark.parametrize(
    "body",
    [
        (LOAD, condition(), CHOICE),  # known too late
        (condition(), LOAD, CHOICE, ir.Let("w", Apply("negative", (G,), f32))),  # used elsewhere
        (condition(), LOAD, ir.Let("y", Apply("where", (M, Z, G), f32))),  # used where the condition fails
        (condition("v"), LOAD, CHOICE),  # varies within one access
        (condition("u"), LOAD, CHOICE),  # varies over slots that share the load
        (condition(), LOAD, CHOICE, condition()),  # assigned twice
        (condition(), ir.Load("g", "a", (digit("u"), digit("v")), other=Const(0.0, f32)), CHOICE),  # no gather
        (condition(), LOAD, ir.Let("y", Apply("where", (M, G, Apply("add", (G, Z), f32)), f32))),
    ],
)
def test_every_other_load_stays_as_it_is(body: tuple[ir.Op, ...]) -> None:
    assert masks(*body) == [None]


def test_a_masked_gather_gives_what_numpy_gives() -> None:
    def program(x: np.ndarray, k: np.ndarray) -> np.ndarray:
        inside = (k >= 0)[:, None]
        return np.where(inside, x[np.where(k >= 0, k, 0)], np.float32(7)) + 1

    plan = pf.jit(program).plan(pf.spec("f32[V, 64]"), pf.spec("i64[N]"), target="h200")
    loads = [op for launch in plan.launches for op in flatten(launch.kernel.body) if isinstance(op, ir.Load)]
    assert any(op.array == "x_in" and op.mask is not None for op in loads)
    x, k = np.arange(640, dtype=np.float32).reshape(10, 64), np.array([3, -1, 0, 9, -5])
    np.testing.assert_array_equal(run_plan(plan, [x, k])[0], program(x, k))
