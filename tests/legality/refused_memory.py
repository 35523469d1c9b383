"""Illegal providers, boxes in shared memory, digits and buffers."""

from __future__ import annotations

from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.places.proposal import Group
from polyfuse.schedule import Digit
from polyfuse.scop_builder import build_scop
from polyfuse.verdict import Hazard
from tests.legality import programs
from tests.legality.legal import (
    Refusal,
    chain,
    staged_stencil,
    staged_stencil_in_a_loop,
)
from tests.legality.schedules import (
    M,
    N,
    b,
    b1,
    block,
    loop,
    names,
    nest,
    placed,
    r,
    reordered,
    resized,
    schedule,
    slot,
    t,
    thread,
    v,
    without_barriers,
)

# ---------------------------------------------------------------------------------------------- who holds what


def wrong_provider() -> Refusal:
    scop, legal = chain()
    tampered = placed(legal, "add", providers=legal.by_name()["add"].providers[::-1])
    return Refusal(scop, legal, tampered, "provided", Hazard.RAW, "is given as its provider", "")


def wrong_component() -> Refusal:
    """The index of the largest element is read where its value was loaded."""
    x = programs.array(0, M, 64)
    position = expr.iota(x.shape, expr.dimensions(2)[1], programs.dtypes.i64)
    index = expr.reduce_("argmax", [x, position], [1], 1)
    scop = build_scop(programs.program([x], [programs.add(index, index)]))
    argmax, total = programs.statement(scop, "argmax"), programs.statement(scop, "add")
    group = Group(scop, frozenset({total}), frozenset({total}), frozenset({argmax}))
    legal = schedule((scop, group), [block("b", M.ceildiv(32)), thread("t", 1, 32)], {"add": [32 * b + t]})[1]
    tampered = placed(legal, names(legal, "load")[0], component=0)
    return Refusal(
        scop, legal, tampered, "provided", Hazard.RAW, "reads component 1 of argmax, but argmax holds component 0", ""
    )


def gather_of_what_the_kernel_computes() -> Refusal:
    """``e[idx]`` with e loaded; the tampered schedule computes and stores e as well."""
    x, where = programs.array(0, N), programs.array(1, N, integer=True)
    e = programs.exp(x)
    scop = build_scop(programs.program([x, where], [e, programs.gathered(e, where)]))
    x0, x1, exp, gather = (frozenset({programs.statement(scop, n)}) for n in ("x0", "x1", "exp", "gather"))
    row = [block("b", N.ceildiv(32)), thread("t", 1, 32)]
    legal = schedule((scop, Group(scop, gather, gather, exp | x1)), row, {"gather": [32 * b + t]})[1]
    first = schedule((scop, Group(scop, exp, exp, x0)), row, {"exp": [32 * b + t]})[1]
    renamed = tuple(
        replace(p, name=f"{p.name}_0", providers=tuple(f"{n}_0" for n in p.providers)) for p in first.placed
    )
    tampered = replace(
        legal,
        body=(*first.body, *legal.body),
        roots=(*first.roots, *legal.roots),
        loads=(*first.loads, *legal.loads),
        placed=(*renamed, *legal.placed),
        order=(*(f"{n}_0" for n in first.order), *legal.order),
    )
    words = "exp is loaded from memory, but this kernel computes it"
    return Refusal(scop, legal, tampered, "stored", Hazard.RAW, words, "")


# ---------------------------------------------------------------------------------------------- shared memory


def no_barrier_before_the_gets() -> Refusal:
    scop, legal = staged_stencil()
    tampered = replace(legal, order=without_barriers(legal.order))
    words = "exp is read after it was written by other threads with no barrier between"
    return Refusal(scop, legal, tampered, "barrier", Hazard.BARRIER, words, "put_exp[8] -> exp_s_3[8] at N = 1")


def no_barrier_around_the_loop() -> Refusal:
    """The put of the next pass overtakes gets of this one."""
    scop, legal = staged_stencil_in_a_loop()
    (body,) = legal.order
    items = list(body.items)  # type: ignore[union-attr]
    items.remove("barrier")
    tampered = reordered(legal, nest("r", *items))
    words = "exp is overwritten after it was read by other threads with no barrier between"
    return Refusal(scop, legal, tampered, "barrier", Hazard.BARRIER, words, "exp_s_3[1] -> put_exp[9] at N = 1")


def box_too_small() -> Refusal:
    scop, legal = staged_stencil()
    (box,) = legal.shared
    tampered = replace(legal, shared=(replace(box, extents=(9,)),))
    words = "which has 9 cells along dimension 0"
    return Refusal(scop, legal, tampered, "box", Hazard.BOUNDS, words, "exp_s[9] -> box of exp[9] at N = 1")


def cells_at_one_address() -> Refusal:
    """Rows of 8 cells with a pitch of 7."""
    scop, legal = schedule(
        programs.transposed_sum(N, M),
        [block("b", N.ceildiv(8)), block("b1", M.ceildiv(8)), thread("t", 1, 8), slot("v", 8)],
        {"add": [8 * b + v, 8 * b1 + t]},
        staged={"x1": ()},
    )
    (box,) = legal.shared
    tampered = replace(legal, shared=(replace(box, pitch=(7, 1)),))
    words = "cells [0, 7] and [1, 0] of the shared box x1 lie at one address"
    return Refusal(scop, legal, tampered, "box", Hazard.WAW, words, "")


# ---------------------------------------------------------------------------------------------- form


def thread_digits_that_overlap() -> Refusal:
    """A stride of 8 for the second digit of a first digit of 16 threads: digits are no longer independent."""
    scop, legal = schedule(
        programs.bias(M, N),
        [block("b", M.ceildiv(4)), block("b1", N.ceildiv(16)), thread("t", 1, 16), thread("u", 16, 4)],
        {"exp": [4 * b + Affine.symbol("$u"), 16 * b1 + t]},
    )
    upper = max(legal.of_kind("thread"), key=lambda d: d.stride)
    tampered = resized(legal, upper.name, stride=8)
    return Refusal(scop, legal, tampered, "executed", Hazard.EFFECT, "of stride 8 overlaps another one", "")


def thread_index_of_part_of_the_block() -> Refusal:
    """Kernels read `t` as the index in the whole block: 64 threads, of which `t` numbers 32."""
    scop, legal = chain()
    tampered = replace(legal, digits=(*legal.digits, Digit("u", "thread", Affine.of(2), 32)))
    words = "t, the thread index, has 32 values in a block of 64 threads"
    return Refusal(scop, legal, tampered, "executed", Hazard.EFFECT, words, "")


def statement_outside_its_loop() -> Refusal:
    scop, legal = schedule(programs.chain(N), [loop("r", N)], {"exp": [r]})
    (body,) = legal.order
    *inside, store = body.items  # type: ignore[union-attr]
    tampered = replace(legal, order=(nest("r", *inside), store))
    words = "store_exp belongs in the loops (r) but runs in no loop"
    return Refusal(scop, legal, tampered, "executed", Hazard.COVERAGE, words, "")


# ---------------------------------------------------------------------------------------------- reuse


def overwritten_before_a_neighbour_reads() -> Refusal:
    """``y[i] = x[i] + x[N-1-i]`` in place."""
    x = programs.array(0, N)
    mirror = expr.view(x, x.shape, [N - 1 - expr.dimensions(1)[0]])
    row = [block("b", N.ceildiv(32)), thread("t", 1, 32)]
    scop, legal = schedule(programs.program([x], [programs.add(x, mirror)]), row, {"add": [32 * b + t]})
    argument, root = programs.statement(scop, "x0"), programs.statement(scop, "add")
    tampered = replace(legal, reuses=((argument, root),))
    words = "is read by another block, unordered with the one where"
    return Refusal(scop, legal, tampered, "reuse", Hazard.WAR, words, "x0[0] -> add[0] at N = 33")
