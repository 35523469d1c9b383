"""Vectors that begin anywhere, made of two aligned ones; and cut vectors whose rest nobody sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import f32
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.inspect import flatten
from polyfuse.lower.open_ends import with_open_ends
from polyfuse.lower.together import with_loads_together
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Inside, Ref
from polyfuse.testing import assert_legal

ROWS = "f16[N~16383, M~8191]"


def biased(x, b):
    return np.maximum(x + b, 0)


def shifted(x):
    return x[:, 1:] - x[:, :-1]


def masked(x, b, m, r):
    return (x + b) * m * 1.25 + r


CASES = {
    "bias": (biased, (ROWS, "f16[M~8191]"), 1),
    "neighbours": (shifted, ("f16[N~16383, M~8192]",), 2),
    "several": (masked, (ROWS, "f16[M~8191]", ROWS, ROWS), 1),
}


def framed(case: str, *specs: str) -> pf.Plan:
    """In parts of rows, whatever their length, and not flat, which is quicker where rows share one."""
    function = CASES[case][0]
    (kernel,) = pf.jit(function).plan(*map(pf.spec, specs), target="h200").kernels
    wishes, tiles = {kernel.stores[0]: "pointwise"}, {kernel.stores[0]: {"threads": 128}}
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200", strategies=wishes, tiles=tiles)


@pytest.mark.parametrize("case", CASES)
def test_other_arrays_are_read_in_vectors_too(case: str) -> None:
    """On an H200, of 134 million bfloat16 each: the bias, mask and residual 289 us with a bias in single elements, 250
    so, 244 flat."""
    function, specs, count = CASES[case]
    plan = framed(case, *specs)
    (kernel,) = plan.kernels
    assert dict(kernel.parameters)["frames"] == 1
    assert_legal(plan)
    loads = [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, ir.Load)]
    assert sum(op.across for op in loads) == count and all(op.vector == 8 for op in loads)
    source = plan.source()
    assert source.count("load_across(") + 2 * source.count("load_neighbours(") == count


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("length", [1, 3, 7, 9, 15, 129, 1025, 2055])
def test_results_agree_however_short_rows_are(case: str, length: int) -> None:
    """Rows of results with the same remainder as the plan's, and arrays that end inside of vectors."""
    function, specs, _ = CASES[case]
    more = "8192" in specs[0]
    usual = 8184 + length % 8
    plan = framed(case, *[s.replace("8191", str(usual)).replace("8192", str(usual + 1)) for s in specs])
    rng = np.random.default_rng(length)
    shapes = [(5, length + more) if "N" in spec else (length,) for spec in specs]
    arguments = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
    (found,) = run_plan(plan, arguments)
    exact = function(*[a.astype(np.float64) for a in arguments])
    np.testing.assert_allclose(found, exact, rtol=4e-3, atol=4e-3 * max(1.0, np.abs(exact).max(initial=0)))


def layernorm(x, g, b):
    c = x - x.mean(axis=1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=1, keepdims=True) + 1e-5) * g + b


def gained(x, g):
    return (x * g).sum(axis=1)


REDUCED = {"held": (layernorm, 1023, 2), "in a loop": (gained, 8191, 1)}


@pytest.mark.parametrize("case", REDUCED)
def test_rows_that_are_reduced_are_in_frames_beside_others(case: str) -> None:
    function, length, count = REDUCED[case]
    specs = [f"f16[N~{134_000_000 // length}, M~{length}]", *[f"f16[M~{length}]"] * count]
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.parameters)["frames"] == 1 and plan.source().count("load_across(") == count
    rng = np.random.default_rng(2)
    arguments = [rng.standard_normal(shape).astype(np.float16) for shape in ((9, length), *[(length,)] * count)]
    (found,) = run_plan(plan, arguments)
    exact = function(*[a.astype(np.float64) for a in arguments])
    np.testing.assert_allclose(found, exact, rtol=4e-3, atol=4e-3 * np.abs(exact).max())


def test_loads_across_stand_together() -> None:
    """A product of one and its sum with another are one instruction behind both."""
    specs = ("f16[N~131000, M~1023]", "f16[M~1023]", "f16[M~1023]")
    kernel = pf.jit(layernorm).plan(*map(pf.spec, specs), target="h200").launches[0].kernel
    numbers = [k for k, op in enumerate(kernel.body) if isinstance(op, ir.Load) and op.across]
    assert len(numbers) == 2 and numbers[1] == numbers[0] + 1


X_ACROSS = ir.Load("x", "a", (digit("v"),), vector=8, across=True)
APART = {
    "a reduction": ir.Reduce(("s",), "sum", (Ref("y", f32),), ("v",)),
    "a store": ir.Store("b", (digit("v"),), Ref("y", f32), vector=8),
    "its own name": ir.Let("x", Ref("y", f32)),
}


@pytest.mark.parametrize("case", APART)
def test_loads_stay_behind_what_is_no_value(case: str) -> None:
    first, value = replace(X_ACROSS, name="y"), ir.Let("z", Ref("y", f32))
    assert with_loads_together((first, value, X_ACROSS)) == (first, X_ACROSS, value)
    assert with_loads_together((first, APART[case], X_ACROSS)) == (first, APART[case], X_ACROSS)


# ---------------------------------------------------------------------------------------------- what nobody sees

V, ROW, N = digit("v"), digit("ty"), Affine.symbol("N")
WHERE = (N - 1 - V, 4 - ROW)
LOAD = ir.Load("x", "a", (ROW, V), WHERE, None, Const(0.0, f32), 8, cut=True)
THREADS = (Digit("tx", "thread", Affine.of(32)), Digit("ty", "thread", Affine.of(4), 32))
X = Ref("x", f32)
INSIDE = Apply("where", (Inside(WHERE[:1]), X, Const(0.0, f32)), f32)


def store(value, *where: Affine) -> ir.Store:
    return ir.Store("y", (ROW, V), value, where, None, 8, cut=True)


OTHERWISE = Apply("where", (Inside((V - N,)), Const(1.0, f32), X), f32)  # where v < N it is x
SUM = ir.Reduce(("s",), "sum", (INSIDE,), ("v",))
UNSEEN = {
    "stored where it counts": (store(X, *WHERE),),
    "stored where less counts": (store(X, N - 2 - V, WHERE[1]),),
    "behind other values": (ir.Let("z", Apply("multiply", (X, X), f32)), store(Ref("z", f32), *WHERE)),
    "summed where it counts": (SUM, store(Ref("s", f32), *WHERE)),
    "chosen where it counts": (ir.Let("z", OTHERWISE), store(Ref("z", f32), WHERE[1])),
    "combined in its row": (SUM, ir.Combine(("t",), "sum", (Ref("s", f32),), 31), store(Ref("t", f32), *WHERE)),
}
SEEN = {
    "stored where more counts": (store(X, N - V, WHERE[1]),),
    "stored in all elements": (store(X, WHERE[1]),),
    "stored in all rows": (store(X, WHERE[0]),),
    "chosen where something else does not count": (
        ir.Let("z", Apply("where", (Inside((V - N - 1,)), Const(1.0, f32), X), f32)),
        store(Ref("z", f32), WHERE[1]),
    ),
    "chosen where two conditions do not hold": (
        ir.Let("z", Apply("where", (Inside((V - N, V)), Const(1.0, f32), X), f32)),
        store(Ref("z", f32), WHERE[1]),
    ),
    "summed as it is": (ir.Reduce(("s",), "sum", (X,), ("v",)), store(Ref("s", f32), *WHERE)),
    "combined with other rows": (SUM, ir.Combine(("t",), "sum", (Ref("s", f32),), 127), store(Ref("t", f32), *WHERE)),
    "an index": (ir.Let("k", X), ir.Store("y", (Ref("k", f32),), Const(1.0, f32), WHERE)),
    "a mask": (ir.Let("m", X), ir.Store("y", (ROW, V), Const(1.0, f32), WHERE, Ref("m", f32))),
    "a condition": (ir.If(X, (store(Const(1.0, f32), *WHERE),)),),
    "carried round a loop": (
        ir.Let("c", Const(0.0, f32)),
        ir.For("k", N, (store(Ref("c", f32), WHERE[0]), ir.Let("c", Apply("add", (Ref("c", f32), X), f32)))),
    ),
}


@pytest.mark.parametrize("case", UNSEEN)
def test_what_is_dropped_again_is_not_replaced(case: str) -> None:
    load, *_ = with_open_ends((LOAD, *UNSEEN[case]), THREADS)
    assert load == replace(LOAD, other=None)


@pytest.mark.parametrize("case", SEEN)
def test_what_is_seen_is_replaced(case: str) -> None:
    body = (LOAD, *SEEN[case])
    assert with_open_ends(body, THREADS) == body


def test_what_other_loads_of_the_same_name_are_does_not_count() -> None:
    """Trips at the ends of a row are loops of their own, which bind the same names."""
    part = ir.Let("z", Apply("where", (Inside(LOAD.where), X, Const(0.0, f32)), f32))
    other = replace(LOAD, where=WHERE[:1])
    body = (ir.For("k", N, (LOAD, part)), ir.For("k", N, (other, store(X, WHERE[0]))))
    first, behind = with_open_ends(body, THREADS)
    assert isinstance(first, ir.For) and first.body[0] == replace(LOAD, other=None)
    assert behind == ir.For("k", N, (replace(other, other=None), store(X, WHERE[0])))
    branch = ir.If(Ref("c", f32), (LOAD,), (other,))
    assert with_open_ends((branch, store(X, WHERE[0])), THREADS)[0] == ir.If(
        Ref("c", f32), (LOAD,), (replace(other, other=None),)
    )


def test_integers_are_replaced_where_they_are_indices() -> None:
    integer = pf.spec("i32[]").dtype
    load, x = replace(LOAD, other=Const(0, integer)), Ref("x", integer)
    found = ir.Load("y", "b", (x,), (), None, Const(0.0, f32))
    body = (load, found, store(Ref("y", f32), *WHERE))
    assert with_open_ends(body, THREADS) == body
    assert with_open_ends((load, store(x, *WHERE)), THREADS)[0] == replace(load, other=None)
