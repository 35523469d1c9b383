"""What the verifier refuses, and that it says why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from polyfuse import dtypes
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import bool_, f32, i32
from polyfuse.errors import KernelError
from polyfuse.kernel import (
    AsyncCopy,
    AtomicUpdate,
    Barrier,
    Combine,
    Const,
    Contract,
    Elect,
    Exchange,
    For,
    If,
    Index,
    Inside,
    Keep,
    Kernel,
    Let,
    Load,
    Neighbours,
    Op,
    Reduce,
    ScalarParameter,
    Scan,
    SharedBuffer,
    Slot,
    Store,
    Take,
    ThreadCells,
    ThreadDigit,
)
from polyfuse.verify.intervals import Interval, interval
from polyfuse.verify.kernel import verify_kernel
from tests.kernel import kernels
from tests.kernel.kernels import B0, LANE, N, T, V, array, call, ref, sizes

ZERO = Const(0.0, f32)
LOAD = Load("xv", "x", (B0, 4 * T + V))
ACROSS = Load("a", "x", (B0, T + V), vector=4, across=True)
AT_RISK = Inside((T - 8,))


def kernel(*body: Op, **fields: object) -> Kernel:
    base = Kernel(
        "bad",
        (array("x", N, 256), array("y", N, 256, out=True), array("n", 4, dtype=i32, out=True), *sizes("N")),
        (N,), 64, (ThreadDigit("lane", 1, 32),), (Slot("u", 2), Slot("v", 4)),
        (SharedBuffer("s", f32, (64, 4), (4, 1)),), body,
    )  # fmt: skip
    return replace(base, **fields)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[Callable[[], Kernel], str]] = {
    "register that is not there": (
        lambda: kernel(LOAD, Take("a", ref("xv"), ((("v",), V + 1),))),
        "leaves 0 .. 3",
    ),
    "register by thread": (
        lambda: kernel(LOAD, Take("a", ref("xv"), ((("v",), LANE),))),
        "reads .lane, which is no slot",
    ),
    "registers of no slot": (lambda: kernel(LOAD, Take("a", ref("xv"), ((("w",), V),))), "there is no slot w"),
    "slot taken twice": (
        lambda: kernel(LOAD, Take("a", ref("xv"), ((("v",), V), (("v",), V)))),
        "the slot v is taken at two numbers",
    ),
    "part of a number": (
        lambda: kernel(LOAD, Take("a", ref("xv"), ((("u", "v"), V),))),
        "only of the slots .*, which count one number",
    ),
    "slots in another order": (
        lambda: kernel(
            Load("xv", "x", (B0, 8 * digit("u") + 4 * T + V)), Take("a", ref("xv"), ((("v", "u"), V),))
        ),
        "do not lie side by side in xv",
    ),
    "unbound": (lambda: kernel(Let("a", ref("b"))), "b is read before it is bound"),
    "bound in one branch": (
        lambda: kernel(If(Inside((B0 - 1,)), (Let("a", ZERO),)), Let("b", ref("a"))),
        "a is read before it is bound",
    ),
    "bound in a loop only": (
        lambda: kernel(For("k", N, (Let("a", ZERO),)), Let("b", ref("a"))),
        "a is read before it is bound",
    ),
    "dtype of a name": (lambda: kernel(LOAD, Let("a", ref("xv", i32))), "xv is f32 and is read as i32"),
    "name of two dtypes": (lambda: kernel(Let("a", ZERO), Let("a", Const(0, i32))), "a is bound as f32 and as i32"),
    "operands": (lambda: kernel(Let("a", call("add", ZERO, Const(0, i32)))), "add meets the dtypes f32, i32"),
    "result": (lambda: kernel(Let("a", call("less", ZERO, ZERO))), "less of f32 gives bool, not f32"),
    "kind": (lambda: kernel(Let("a", call("exp", Const(1, i32), dtype=i32))), "exp does not take i32"),
    "literal": (lambda: kernel(Let("a", Const(0.5, i32))), "0.5 is no i32"),
    "function": (lambda: kernel(Let("a", call("frobnicate", ZERO))), "no scalar function frobnicate"),
    "operand count": (lambda: kernel(Let("a", call("add", ZERO))), "add takes 2 operands, not 1"),
    "bitcast": (lambda: kernel(Let("a", call("bitcast", ZERO, dtype=dtypes.f64))), "changes the width"),
    "symbol": (lambda: kernel(Let("a", Index(digit("q") + 1, i32))), r"reads \$q, which is no size or digit"),
    "arity": (lambda: kernel(replace(LOAD, index=(B0,))), "x has 2 dimensions, the index 1"),
    "array": (lambda: kernel(replace(LOAD, array="z")), "there is no array or buffer z"),
    "stored dtype": (lambda: kernel(Store("y", (B0, T), Const(1, i32))), "a i32 is stored to y of f32"),
    "read-only": (lambda: kernel(Store("x", (B0, T), ZERO)), "x is read-only"),
    "value wider than index": (lambda: kernel(LOAD, Store("y", (B0, T), ref("xv"))), "varies over slot v"),
    "mask": (lambda: kernel(replace(LOAD, mask=ZERO)), "the mask is no bool"),
    "other": (lambda: kernel(replace(LOAD, other=Const(0, i32))), "masked slots get i32"),
    "slot": (lambda: kernel(LOAD, Reduce(("m",), "max", (ref("xv"),), ("w",))), "there is no slot w"),
    "monoid": (lambda: kernel(LOAD, Reduce(("m",), "mean", (ref("xv"),), ("v",))), "there is no monoid mean"),
    "state": (lambda: kernel(LOAD, Reduce(("m",), "argmax", (ref("xv"),), ("v",))), "a state of 2 values, not 1"),
    "bits": (lambda: kernel(LOAD, Combine(("m",), "max", (ref("xv"),), 64)), "no whole groups over .* bit 64"),
    "scan bits": (lambda: kernel(LOAD, Scan("p", "t", "sum", ref("xv"), "v", 5)), "0x5 of a scan are not contiguous"),
    "contract": (lambda: kernel(LOAD, Contract("acc", ref("xv"), ref("xv"), ("v",))), "acc is read before it is bound"),
    "contract over its own slot": (
        lambda: kernel(LOAD, Let("acc", ref("xv")), Contract("acc", ref("xv"), ref("xv"), ("v",))),
        "the accumulator varies over a slot that is summed",
    ),
    "barrier": (lambda: kernel(If(AT_RISK, (Barrier(),), uniform=False)), "a barrier stands where some threads"),
    "combine": (
        lambda: kernel(Let("a", ZERO), If(AT_RISK, (Combine(("m",), "max", (ref("a"),), 63),), uniform=False)),
        "threads of several warps combine where some may not come",
    ),
    "false uniformity": (lambda: kernel(If(AT_RISK, ())), "declared uniform and reads thread digits"),
    "condition over slots": (lambda: kernel(If(Inside((V - 1,)), ())), "varies over slots: use a mask"),
    "condition": (lambda: kernel(If(ZERO, ())), "the condition is no bool"),
    "trip count": (lambda: kernel(For("k", T, ())), r"reads \$t"),
    "loop digit": (lambda: kernel(For("lane", N, ())), "the loop digit lane hides another digit"),
    "dimensions of a counter": (lambda: kernel(Elect("last", "n", (N, N), N)), "n has 1 dimensions, not 2"),
    "counter": (lambda: kernel(Elect("last", "y", (Affine.of(0),), N)), "y is no writable array of i32"),
    "atomic": (
        lambda: kernel(AtomicUpdate("n", (Affine.of(0),), "argmax", Const(1, i32))),
        "argmax has a state of 2 values, not 1",
    ),
    "atomic vector": (
        lambda: kernel(AtomicUpdate("y", (B0, 2 * T + V), "sum", Const(1.0, f32), vector=4)),
        r"\$t moves the address by 2",
    ),
    "shared index too large": (lambda: kernel(Load("a", "s", (T + 1, V))), r"index \$t \+ 1 .* may exceed 63"),
    "shared index negative": (lambda: kernel(Load("a", "s", (T, V - 1))), r"index \$v - 1 .* may be negative"),
    "shared index unbounded": (lambda: kernel(Load("a", "s", (B0, V))), r"index \$b0 .* may exceed 63"),
    "vector of three": (lambda: kernel(replace(LOAD, vector=3)), "a power of two of elements, not 3"),
    "vector too wide": (lambda: kernel(replace(LOAD, vector=8)), "does not divide the last slot"),
    "doubles across vectors": (
        lambda: kernel(
            Load("a", "x", (B0, 2 * T + V), vector=4, across=True),
            parameters=(array("x", N, 256, dtype=dtypes.f64), *sizes("N")),
        ),
        "vectors of 4 elements of f64 are not made of words of two vectors",
    ),
    "a neighbour of none": (lambda: kernel(Neighbours((ACROSS,))), "a load has no neighbour"),
    "neighbours of one row and another": (
        lambda: kernel(Neighbours((ACROSS, replace(ACROSS, name="b", index=(B0 + 1, T + V + 1))))),
        "b does not lie a constant number of elements behind a",
    ),
    "neighbours that part": (
        lambda: kernel(Neighbours((ACROSS, replace(ACROSS, name="b", index=(B0, 2 * T + V))))),
        "b does not lie a constant number of elements behind a",
    ),
    "neighbours out of order": (
        lambda: kernel(Neighbours((ACROSS, replace(ACROSS, name="b", index=(B0, T + V - 1))))),
        r"its loads are not in the order of memory: \[0, -1\]",
    ),
    "neighbours of two arrays": (
        lambda: kernel(Neighbours((ACROSS, replace(ACROSS, name="b", array="y", index=(B0, T + V + 1))))),
        "b is not loaded as a is",
    ),
    "neighbours under two conditions": (
        lambda: kernel(Neighbours((ACROSS, replace(ACROSS, name="b", where=(N - 1 - T,))))),
        "b is loaded under other conditions than a",
    ),
    "single elements as neighbours": (
        lambda: kernel(Neighbours((LOAD, replace(LOAD, name="b", index=(B0, 4 * T + V + 1))))),
        "xv is no vector that begins anywhere",
    ),
    "bytes as neighbours": (
        lambda: kernel(
            Neighbours((ACROSS, replace(ACROSS, name="b", index=(B0, T + V + 1)))),
            parameters=(array("x", N, 256, dtype=dtypes.i8), *sizes("N")),
        ),
        "elements of i8 are no halves of words",
    ),
    "a neighbour that is no access": (
        lambda: kernel(Neighbours((ACROSS, replace(ACROSS, name="b", index=(B0, T + 2 * V))))),
        "the stride of slot v is not 1",
    ),
    "vectors of an array that begins anywhere": (
        lambda: kernel(
            Load("a", "x", (B0, 2 * T + V), vector=4, across=True),
            parameters=(array("x", N, 256, dtype=dtypes.f16, alignment=2), *sizes("N")),
        ),
        "x is no array whose vectors are aligned|x is aligned to 2 bytes only",
    ),
    "mask inside a vector that begins anywhere": (
        lambda: kernel(
            Load("a", "x", (B0, T + V), (N - 2 * V,), vector=4, across=True),
            parameters=(array("x", N, 256, dtype=dtypes.f16), *sizes("N")),
        ),
        "the conditions do not cut vectors of v at one place",
    ),
    "vector stride": (lambda: kernel(Load("a", "x", (B0, T + 2 * V), vector=4)), "the stride of slot v is not 1"),
    "vector across rows": (lambda: kernel(Load("a", "x", (B0 + V, T), vector=4)), "the stride of slot v is not 1"),
    "vector mask": (lambda: kernel(replace(LOAD, vector=4, where=(N - V,))), "varies over v inside a vector"),
    "vector offset": (lambda: kernel(Load("a", "x", (B0, 2 * T + V), vector=4)), r"\$t moves the address by 2"),
    "vector base": (
        lambda: kernel(replace(LOAD, vector=4), parameters=(array("x", N, 256, alignment=4), *sizes("N"))),
        "x is aligned to 4 bytes only",
    ),
    "threads": (lambda: kernel(threads=2048), "1 to 1024 threads, not 2048"),
    "large cluster": (lambda: kernel(threads=1024, cluster=32), "a cluster has 16 blocks at most, not 32"),
    "cluster of parts of warps": (lambda: kernel(cluster=8), "8 blocks does not share 64 threads in whole warps"),
    "barrier of a cluster": (
        lambda: kernel(Barrier(), cluster=2, shared=()),
        "a barrier does not reach across the blocks of a cluster",
    ),
    "shared memory of a cluster": (lambda: kernel(cluster=2), "s is shared by a block, of which the cluster has 2"),
    "thread digit": (lambda: kernel(digits=(ThreadDigit("q", 1, 65),)), "q goes beyond the thread ids below 64"),
    "thread digit of nothing": (lambda: kernel(digits=(ThreadDigit("q", 1, 0),)), "q goes beyond the thread ids"),
    "threads that no bits tell apart": (
        lambda: kernel(Let("a", ZERO), Combine(("m",), "sum", (ref("a"),), 31), digits=(ThreadDigit("q", 1, 3),)),
        "combine what they have by the bits of their numbers, which q cuts",
    ),
    "threads that no bits tell apart in a loop": (
        lambda: kernel(
            Let("a", ZERO),
            For("k", N, (Combine(("m",), "sum", (ref("a"),), 31),)),
            digits=(ThreadDigit("q", 3, 4),),
        ),
        "combine what they have by the bits of their numbers, which q cuts",
    ),
    "two names": (lambda: kernel(slots=(Slot("lane", 2),)), "two things are named lane"),
    "shared memory": (
        lambda: kernel(shared=(SharedBuffer("s", f32, (300, 300), (300, 1)),)),
        "360000 bytes of shared memory",
    ),
    "row stride": (lambda: kernel(Load("a", "x", (B0, T)), parameters=(array("x", 9, N),)), "reads N, which is no"),
    "grid of two axes": (lambda: kernel(grid=(N, N), parameters=()), "reads N, which is no size"),
    "no grid": (lambda: kernel(grid=()), "a grid needs an axis"),
    "indices of 16 bits": (lambda: kernel(index_bits=16), "indices have 32 or 64 bits, not 16"),
    "slot of nothing": (lambda: kernel(slots=(Slot("v", 0),)), "the slot v has extent 0"),
    "strides of a plane": (
        lambda: kernel(parameters=(array("x", 4, strides=("N", 1)), *sizes("N"))),
        "x has 1 dimensions and 2 strides",
    ),
    "pitches of a line": (
        lambda: kernel(shared=(SharedBuffer("s", f32, (64,), (1, 1)),)),
        "s has 1 dimensions and 2 pitches",
    ),
    "barrier of a grid": (lambda: kernel(Barrier("grid")), "a barrier's scope is block or warp, not grid"),
    "one name for two values": (
        lambda: kernel(LOAD, Reduce(("m",), "argmax", (ref("xv"), Const(0, i32)), ("v",))),
        "1 names for 2 values",
    ),
    "parameter bound anew": (
        lambda: kernel(Let("c", ZERO), parameters=(ScalarParameter("c", f32), *sizes("N"))),
        "c is a parameter and is bound anew",
    ),
    "contract of two dtypes": (
        lambda: kernel(LOAD, Let("acc", Const(0, i32)), Contract("acc", ref("xv"), ref("xv"), ("v",))),
        "the accumulator and both factors need one number type, not",
    ),
    "scan of a cluster": (
        lambda: kernel(LOAD, Scan("p", "q", "sum", ref("xv"), "v", 31), cluster=2, shared=()),
        "a scan does not reach across the blocks of a cluster",
    ),
    "exchange of one block": (
        lambda: kernel(LOAD, Exchange(("m",), (ref("xv"),), 32, "u")),
        "the slot u has 2 places for the values of 1 blocks of a cluster",
    ),
    "exchange along a slot in use": (
        lambda: kernel(
            Load("xv", "x", (B0, 2 * T + digit("u"))), Exchange(("m",), (ref("xv"),), 32, "u"), cluster=2, shared=()
        ),
        "a value varies over the slot u already",
    ),
    "election of some threads": (
        lambda: kernel(If(AT_RISK, (Elect("last", "n", (Affine.of(0),), N),), uniform=False)),
        "an election stands where some threads of the block may not come",
    ),
    "reduction of bools": (
        lambda: kernel(Let("a", Const(True, bool_)), Reduce(("m",), "sum", (ref("a", bool_),), ())),
        "sum does not take bool",
    ),
    "position that is a float": (
        lambda: kernel(LOAD, Reduce(("m", "k"), "argmax", (ref("xv"), ref("xv")), ("v",))),
        "the index of argmax is f32, not an integer",
    ),
    "index that is a float": (
        lambda: kernel(LOAD, Load("a", "x", (ref("xv"), T))),
        "the index xv is f32, not an integer",
    ),
    "cells that there are not": (lambda: kernel(LOAD, Keep("c", ref("xv"))), "there are no cells c"),
    "cells of another dtype": (
        lambda: kernel(LOAD, Keep("c", ref("xv")), cells=(ThreadCells("c", i32, ("v",)),)),
        "f32 along v is kept in cells of i32 along v",
    ),
    "cells along another slot": (
        lambda: kernel(Let("a", ZERO), Keep("c", ref("a")), cells=(ThreadCells("c", f32, ("v",)),)),
        "f32 along none is kept in cells of f32 along v",
    ),
    "copy along other slots": (
        lambda: kernel(AsyncCopy("s", (T, V), "x", (B0, T))),
        r"the cells vary over the slots \['v'\], what is copied over \[\]",
    ),
    "stride": (lambda: kernel(parameters=(array("x", 4, strides=("p",)), *sizes("N"))), "the stride p of x is no size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    build, sentence = REFUSED[name]
    with pytest.raises(KernelError, match=sentence) as caught:
        verify_kernel(build())
    assert str(caught.value).startswith("kernel bad")


def test_conditions_bound_shared_indices() -> None:
    verify_kernel(kernel(Load("a", "s", (T + 1, V), where=(62 - T,))))
    verify_kernel(kernel(If(Inside((62 - T,)), (Load("a", "s", (T + 1, V)),), uniform=False)))
    verify_kernel(kernel(Load("a", "s", ((T + 1) % 64, V))))
    verify_kernel(kernel(Load("a", "s", (LANE + 32, T // 16))))
    with pytest.raises(KernelError):  # without its condition
        verify_kernel(kernel(Load("a", "s", (T + 1, V))))


STEPS = {
    "a step of a tile": (3 * ((B0 + T + 1) // 3) - B0 + 1, (0, 8)),
    "the same where a part of the tile is a multiple": (5 * ((4 * B0 + T + 4) // 5) - 4 * B0, (0, 10)),
    "one step taken away": (B0 + T - 3 * ((B0 + V) // 3), (-3, 8)),
    "two steps of one tile": (3 * ((B0 + T) // 3) - 2 * ((B0 + V) // 2), (-5, 7)),
    "steps of steps": (6 * ((B0 + T) // 6) - 3 * ((B0 + V) // 3), (-8, 8)),
    "steps of what a block adds in two": (4 * ((2 * ((B0 + T) // 2) + V) // 4) - B0, (-4, 9)),
    "a quotient that is small": (4 * (T // 4) + 8 * (V // 8), (0, 4)),
}
"""Indices of a thread, 0 <= t < 7 and 0 <= v < 4, relative to where its block begins, with bounds of them."""


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("blocks", [None, 9])
def test_an_index_that_steps_stays_near_where_its_block_begins(name: str, blocks: int | None) -> None:
    """What the number of the block adds to a quotient cancels against the origin, up to a remainder."""
    index, bounds = STEPS[name]
    last = None if blocks is None else blocks - 1
    found = interval(index, {"$b0": Interval(0, last), "$t": Interval(0, 6), "$v": Interval(0, 3)})
    assert (found.low, found.high) == bounds
    taken = values(index, {"$b0": range(blocks or 60), "$t": range(7), "$v": range(4)})
    assert bounds[0] <= min(taken) and max(taken) <= bounds[1]


def values(index: Affine, ranges: Mapping[str, range]) -> list[int]:
    return [index.evaluate(dict(zip(ranges, point, strict=True))) for point in itertools.product(*ranges.values())]


def test_shared_indices_that_step_with_the_block_are_inside() -> None:
    steps = 3 * ((B0 + LANE + 1) // 3) - B0 + 1  # LANE .. LANE + 2
    verify_kernel(kernel(Load("a", "s", (steps, V))))
    verify_kernel(kernel(Load("a", "s", (steps + 30, V))))
    with pytest.raises(KernelError, match="may be negative"):
        verify_kernel(kernel(Load("a", "s", (steps - 1, V))))
    with pytest.raises(KernelError, match="may exceed 63"):
        verify_kernel(kernel(Load("a", "s", (steps + 31, V))))


@pytest.mark.parametrize(
    ("conditions", "offset", "passes"),
    [
        ((1 - 11 * T,), 0, True),  # the first thread alone
        ((11 * T - 11, 12 - 11 * T), -2, True),  # the second one, at 2 - 2
        ((1 - 11 * T,), -2, False),
        ((11 * T - 11, 12 - 11 * T), 0, False),
        ((22 - 11 * T,), 0, False),  # any of three
        ((11 * T - 11,), -2, False),  # all but the first
        ((N - 11 * T,), 0, False),
    ],
)
def test_the_only_thread_of_a_branch_says_where_its_vectors_begin(
    conditions: tuple[Affine, ...], offset: int, passes: bool
) -> None:
    inside = If(Inside(conditions), (Load("a", "x", (B0, 2 * T + V + offset), vector=4),), uniform=False)
    if passes:
        verify_kernel(kernel(inside))
    else:
        with pytest.raises(KernelError, match=r"moves the address by"):
            verify_kernel(kernel(inside))


def test_a_name_bound_in_both_branches_is_bound() -> None:
    both = If(Inside((B0 - 1,)), (Let("a", ZERO),), (Let("a", Const(1.0, f32)),))
    verify_kernel(kernel(both, Let("b", ref("a"))))
    with pytest.raises(KernelError):
        verify_kernel(kernel(replace(both, orelse=()), Let("b", ref("a"))))


@pytest.mark.parametrize("name", kernels.CASES)
def test_good_kernels_pass(name: str) -> None:
    """And are refused without the arrays that they name."""
    good = kernels.CASES[name]().kernel
    verify_kernel(good)
    with pytest.raises(KernelError):
        verify_kernel(replace(good, parameters=()))
