"""Illegal schedules, each one change away from a legal one, with the refusal that it must meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.places.proposal import Combination, Group
from polyfuse.schedule import Digit, Finish, KernelSchedule
from polyfuse.scop import Scop, build_scop
from polyfuse.verdict import Hazard
from tests.legality import programs
from tests.legality.schedules import (
    M,
    N,
    b,
    b1,
    block,
    c,
    everywhere,
    k,
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


@dataclass(frozen=True)
class Refusal:
    """`legal` is accepted; `tampered` is refused by `rule` with a sentence that contains `words`, and `witness`."""

    scop: Scop
    legal: KernelSchedule
    tampered: KernelSchedule
    rule: str
    hazard: Hazard
    words: str
    witness: str


# ---------------------------------------------------------------------------------------------- time


def producer_after_consumer() -> Refusal:
    scop, legal = _chain()
    tampered = reordered(legal, "x0", "x1", "exp", "add", "store_exp")
    words = "exp[0] runs before add[0], on which it depends"
    return Refusal(scop, legal, tampered, "order", Hazard.RAW, words, "add[0] -> exp[0] at N = 1")


def consumer_inside_the_loop_of_a_reduction() -> Refusal:
    """``e / sum(e)`` in the loop that sums."""
    scop, legal = _normalised_in_a_loop()
    (first, second) = legal.order
    tampered = reordered(legal, nest("r", *first.items, *second.items))  # type: ignore[union-attr]
    words = "divide[0, 0] runs before sum[0, 16], on which it depends"
    return Refusal(scop, legal, tampered, "order", Hazard.RAW, words, "sum[0, 16] -> divide[0, 0] at M = 1, N = 17")


def box_read_before_it_is_filled() -> Refusal:
    scop, legal = _staged_stencil()
    get = names(legal, "get")[0]
    items = [i for i in legal.order if i != get]
    items.insert(items.index("put_exp"), get)
    items.insert(items.index("put_exp"), "barrier")
    tampered = reordered(legal, *items)
    words = f"{get} reads exp[2] from its shared box before put_exp writes it there"
    return Refusal(scop, legal, tampered, "order", Hazard.RAW, words, f"exp[2] -> {get}[2] at N = 1")


# ---------------------------------------------------------------------------------------------- places


def halo_missing() -> Refusal:
    """The producer of the right neighbour is placed one element too far left."""
    scop, legal = schedule(programs.stencil(N), _ROW, {"add": [32 * b + t], "add_1": [32 * b + t]})
    right = next(p.name for p in legal.placed if p.role == "compute" and p.place == (32 * b + t + 2,))
    load = legal.by_name()[right].providers[0]
    tampered = placed(placed(legal, right, place=(32 * b + t + 1,)), load, place=(32 * b + t + 1,))
    words = "add_1 needs exp[33] in another block than the one that has it"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[33] -> add_1[31] at N = 32")


def _windowed_stencil() -> tuple[Scop, KernelSchedule]:
    """``exp`` in a window of 6 registers, of which each of three needs takes 4."""
    digits = [block("b", N.ceildiv(128)), thread("t", 1, 32), slot("v", 4)]
    at = 128 * b + 4 * t + v
    return schedule(programs.stencil(N), digits, {"add": [at], "add_1": [at]}, windowed={"exp": 1})


def _place(legal: KernelSchedule, name: str) -> tuple[Affine, ...]:
    return tuple(e for e in legal.by_name()[name].place if isinstance(e, Affine))


def taken_beyond_the_window() -> Refusal:
    """The window ends one register before the last one that is needed."""
    scop, legal = _windowed_stencil()
    tampered = resized(legal, "r0x6", extent=Affine.of(5))
    words = "exp_w takes exp[5] from register $v + 2 of a window of 5"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[5] -> exp_w[5] at N = 4")


def taken_from_another_thread() -> Refusal:
    """Every thread holds the elements of the first one."""
    scop, legal = _windowed_stencil()
    tampered = legal
    for name in ("exp", "x0"):
        tampered = placed(tampered, name, place=tuple(e.substitute({"$t": 0}) for e in _place(legal, name)))
    words = "from register 4*$t + $v + 2, which is not the same in all threads"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[2] -> exp_w[2] at N = 1")


def window_with_gaps() -> Refusal:
    scop, legal = _windowed_stencil()
    tampered = legal
    for name in ("exp", "x0"):
        window = _place(legal, name)[0] - 128 * b - 4 * t
        tampered = placed(tampered, name, place=(128 * b + 4 * t + 2 * window,))
    words = "whose slots do not count elements one by one"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[2] -> exp_w[2] at N = 1")


def box_filled_without_its_halo() -> Refusal:
    scop, legal = _staged_stencil()
    narrow = tuple(e - 8 * p for e, p in zip(legal.by_name()["put_exp"].place, [_upper_part(legal)], strict=True))
    tampered = legal
    for name in ("put_exp", "exp", "x0"):
        tampered = placed(tampered, name, place=narrow)
    words = "from its shared box, which its block does not put there"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[8] -> exp_s[8] at N = 7")


def needed_in_another_block() -> Refusal:
    scop, legal = _chain()
    tampered = placed(legal, "add", place=(32 * b + t + 32,))
    for name in ("x0", "x1"):
        tampered = placed(tampered, name, place=(32 * b + t + 32,))
    words = "exp needs add[0] in another block than the one that has it"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "add[0] -> exp[0] at N = 1")


def register_slot_of_another_name() -> Refusal:
    scop, legal = schedule(
        programs.chain(N), [block("b", N.ceildiv(32)), thread("t", 1, 8), slot("v", 4)], {"exp": [32 * b + 4 * t + v]}
    )
    reverse = (32 * b + 4 * t + 3 - v,)
    tampered = placed(placed(legal, "exp", place=reverse), "store_exp", place=reverse)
    words = "exp needs add[0] from another register slot or pass of a loop than the one it is in"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "add[0] -> exp[0] at N = 1")


def value_of_an_earlier_pass() -> Refusal:
    """``exp`` of the summing pass is read in the dividing pass, by which time its registers hold the last chunk."""
    scop, legal = _normalised_in_a_loop()
    mine, other = legal.by_name()["divide"].providers, legal.by_name()["sum"].providers[0]
    tampered = placed(legal, "divide", providers=(other, mine[1]))
    words = f"divide needs exp[0, 0] after the loop over r that computes it in {other}"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[0, 0] -> divide[0, 0] at M = 1, N = 17")


def box_of_another_pass() -> Refusal:
    """The box moves with the loop, but is read after it."""
    scop, legal = _staged_stencil_in_a_loop()
    (body,) = legal.order
    items = [i for i in body.items if i != "barrier"]  # type: ignore[union-attr]
    cut = items.index("put_exp") + 1
    tampered = reordered(legal, nest("r", *items[:cut], "barrier"), nest("r", *items[cut:]))
    words = "which belongs to another pass of the loop that the box moves with"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[2] -> exp_s[2] at N = 1")


# ---------------------------------------------------------------------------------------------- stores


def grid_one_block_short() -> Refusal:
    scop, legal = _chain()
    tampered = resized(legal, "b", extent=N // 32)
    words = "exp[0] is stored by no thread (violated iff N >= 32*floor((N)/32) + 1)"
    return Refusal(scop, legal, tampered, "coverage", Hazard.COVERAGE, words, "exp[0] -> store of exp[0] at N = 1")


def grid_that_may_be_empty() -> Refusal:
    """Nothing uses the second digit, but without a block along it nothing runs."""
    scop, legal = _chain()
    tampered = replace(legal, digits=(*legal.digits, block("c", N // 2)))
    words = "exp[0] is stored by no thread (violated iff N = 1)"
    return Refusal(scop, legal, tampered, "coverage", Hazard.COVERAGE, words, "exp[0] -> store of exp[0] at N = 1")


def row_longer_than_a_block() -> Refusal:
    """Legal under the guard that the sentence names."""
    scop, legal = schedule(programs.chain(N), [thread("t", 1, 1024)], {"exp": [t]}, guards=[Guard(1024 - N)])
    tampered = replace(legal, guards=())
    words = "exp[1024] is stored by no thread (violated iff N >= 1025)"
    return Refusal(
        scop, legal, tampered, "coverage", Hazard.COVERAGE, words, "exp[1024] -> store of exp[1024] at N = 1025"
    )


def tiles_that_overlap() -> Refusal:
    scop, legal = _chain()
    tampered = everywhere(resized(legal, "b", extent=N.ceildiv(16)), 16 * b + t)
    words = "exp[16] is stored twice, at (b=0, t=16) and (b=1, t=0)"
    return Refusal(scop, legal, tampered, "once", Hazard.EFFECT, words, "exp[16] -> exp[16] at N = 17")


def second_component_never_stored() -> Refusal:
    scop, legal = _largest()
    store = next(p.name for p in legal.placed if p.role == "store" and p.component == 1)
    gone = replace(legal, placed=tuple(p for p in legal.placed if p.name != store))
    tampered = reordered(gone, *(i for i in legal.order if i != store))
    words = "argmax is a result of the kernel, but nothing stores it"
    return Refusal(scop, legal, tampered, "coverage", Hazard.COVERAGE, words, "")


# ---------------------------------------------------------------------------------------------- reductions


def threads_counted_twice() -> Refusal:
    scop, legal = _row_sum(64)
    tampered = resized(legal, "t", extent=Affine.of(32))
    words = "contribution sum[0, 16] to sum is counted twice"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0, 16] -> sum[0, 16] at M = 1")


def contributions_left_out() -> Refusal:
    scop, legal = _row_sum(64)
    tampered = resized(legal, "v", extent=Affine.of(3))
    words = "sum[0, 48] never enters the result sum[0]"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0, 48] -> sum[0] at M = 1")


def sum_split_over_blocks() -> Refusal:
    scop, legal = _row_sum(64)
    tampered = resized(legal, "v", kind="block")
    words = "contributions to one element of sum are computed by different blocks, which this kernel never combines"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0, 0] -> sum[0] at M = 1")


def share_stored_after_the_election() -> Refusal:
    scop, legal = _sum_over_blocks()
    tampered = reordered(legal, *(i for i in legal.order if i != "share_sum"), "share_sum")
    words = "which is not stored before the election"
    return Refusal(scop, legal, tampered, "combine", Hazard.RAW, words, "sum[] -> sum[] at N = 1")


def share_of_a_block_left_out() -> Refusal:
    scop, legal = _sum_over_blocks()
    total = legal.by_name()["sum"]
    tampered = placed(legal, "sum", place=tuple(e + 1 for e in total.place if isinstance(e, Affine)))
    words = "never enters the result"
    witness = "shares of sum[0] -> shares of sum[] at N = 1"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, witness)


def share_taken_for_the_total() -> Refusal:
    scop, legal = _sum_over_blocks()
    tampered = placed(legal, "exp_1", providers=("sum_share",))
    words = "contributions to one element of sum are computed by different blocks, which this kernel never combines"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0] -> sum[] at N = 65")


def total_read_by_every_block() -> Refusal:
    scop, legal = _sum_over_blocks()
    *main, finish = legal.order
    assert isinstance(finish, Finish)
    inside = tuple(i for i in finish.items if i != "store_exp_1")
    tampered = replace(legal, order=(*main, Finish(finish.digit, inside), "store_exp_1"))
    tampered = placed(tampered, "store_exp_1", path=())
    words = "store_exp_1 needs exp_1[] outside of what the last block along b finishes"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp_1[] -> exp_1[] at N = 1")


def share_stored_by_two_elections() -> Refusal:
    """Blocks along a second digit, which nothing tells apart, each leave their shares in the same cells."""
    scop, legal = _sum_over_blocks()
    tampered = replace(legal, digits=(*legal.digits, block("c", 2)))
    words = "is stored more than once"
    return Refusal(scop, legal, tampered, "combine", Hazard.WAW, words, "sum[] -> sum[] at N = 1")


def shares_of_another_election() -> Refusal:
    """The block elected for row c finishes row M - 1 - c, whose blocks may not have arrived."""
    scop, legal = _row_sums_over_blocks()
    mirrored = M - 1 - c
    tampered = legal
    for name in ("sum", "exp_1", "store_exp_1"):
        place = tuple(mirrored if e == c else e for e in legal.by_name()[name].place)
        tampered = placed(tampered, name, place=place)
    words = "which no block of its election stores"
    return Refusal(scop, legal, tampered, "combine", Hazard.RAW, words, "sum[0] -> sum[0] at M = 2, N = 1")


def two_elections_over_one_digit() -> Refusal:
    """Their counters are one."""
    scop, legal = _two_sums_over_blocks()
    *main, finish = legal.order
    assert isinstance(finish, Finish)
    halves = []
    for total in ("sum", "max"):
        (result,) = (p.name for p in legal.placed if p.providers == (total,))
        halves.append(Finish("b", (nest("p", total), result, f"store_{result}")))
    tampered = replace(legal, order=(*main, *halves))
    return Refusal(scop, legal, tampered, "executed", Hazard.EFFECT, "two elections are held over b", "")


def combined_twice() -> Refusal:
    scop, legal = _sum_over_blocks()
    tampered = replace(legal, grid_combine=legal.grid_combine * 2)
    words = "sum_share is combined over b, but is no reduction, or is so twice"
    return Refusal(scop, legal, tampered, "executed", Hazard.COMBINE, words, "")


def box_that_only_the_elected_block_fills() -> Refusal:
    """The get and the store behind the election: blocks that were not elected read what is in their shared memory."""
    scop, legal = _sum_over_blocks(staged={"exp_1": ()})
    *main, finish = legal.order
    assert isinstance(finish, Finish)
    behind = ("exp_1_s", "store_exp_1")
    inside = tuple(i for i in finish.items if i not in behind)
    tampered = replace(legal, order=(*main, Finish(finish.digit, inside), "barrier", *behind))
    for name in behind:
        tampered = placed(tampered, name, path=())
    words = "from a box that only the last block along b fills"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp_1[] -> exp_1_s[]")


def results_that_share_an_accumulator() -> Refusal:
    """The loop over rows moves inside the loop that sums: the accumulator is set up outside both."""
    scop, legal = schedule(
        programs.summed(8, N, 1), [loop("k", 8), loop("r", N)], {"exp": [k, r], "sum": [k, r], "exp_1": [k]}
    )
    inner = next(i for i in legal.order[0].items if not isinstance(i, str))  # type: ignore[union-attr]
    tampered = reordered(legal, nest("r", nest("k", *inner.items)), nest("k", "exp_1", "store_exp_1"))
    words = "enters the result sum[0], to which it does not belong"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[1, 0] -> sum[0] at N = 1")


def threads_that_are_no_bits() -> Refusal:
    scop, legal = _row_sum(64)
    tampered = everywhere(resized(resized(legal, "t", extent=Affine.of(12)), "v", extent=Affine.of(6)), 12 * v + t, 1)
    words = "sum combines 12 threads 1 apart, which are no bits of the thread index"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "")


# ---------------------------------------------------------------------------------------------- clusters


def cluster_of_uneven_blocks() -> Refusal:
    scop, legal = _row_sum(64)
    words = "32 blocks do not share 16 threads evenly"
    return Refusal(scop, replace(legal, cluster=4), replace(legal, cluster=32), "executed", Hazard.CAPACITY, words, "")


def box_shared_by_a_cluster() -> Refusal:
    """Each block of the cluster would fill and read a box of its own."""
    scop, legal = _staged_stencil()
    words = "exp lies in shared memory, which the 2 blocks do not share"
    return Refusal(scop, legal, replace(legal, cluster=2), "executed", Hazard.SCOPE, words, "")


def prefix_across_a_cluster() -> Refusal:
    scop, legal = _prefix()
    words = "would cross the 2 blocks of a cluster"
    return Refusal(scop, legal, replace(legal, cluster=2), "executed", Hazard.COMBINE, words, "")


# ---------------------------------------------------------------------------------------------- scans


def prefix_out_of_order() -> Refusal:
    """Thread-major where neighbouring threads hold neighbouring elements."""
    scop, legal = _prefix()
    tampered = everywhere(legal, 16 * v + t, 1)
    words = "the prefix of sum[0, 1] would take in sum[0, 16]"
    return Refusal(scop, legal, tampered, "scan", Hazard.RAW, words, "sum[0, 16] -> sum[0, 1] at M = 1")


def prefix_across_blocks() -> Refusal:
    scop, legal = _prefix()
    tampered = resized(legal, "v", kind="block")
    words = "the prefix crosses blocks: sum[0, 0] does not enter the prefix sum[0, 1]"
    return Refusal(scop, legal, tampered, "scan", Hazard.COMBINE, words, "sum[0, 0] -> sum[0, 1] at M = 1")


def recurrence_backwards() -> Refusal:
    place = [b, r]
    digits = [block("b", M), loop("r", 16)]
    scop, legal = schedule(programs.recurrent(M, 16), digits, {"recurrence": place, "exp": place})
    words = "the recurrence recurrence is placed at -$r + 15, which is not one trip of a loop after the other"
    return Refusal(scop, legal, everywhere(legal, 15 - r, 1), "scan", Hazard.COMBINE, words, "")


def recurrence_in_slots() -> Refusal:
    place = [b, r]
    digits = [block("b", M), loop("r", 16), slot("v", 4)]
    scop, legal = schedule(programs.recurrent(M, 16), digits, {"recurrence": place, "exp": place})
    tampered = everywhere(resized(legal, "r", extent=Affine.of(4)), 4 * r + v, 1)
    words = "the recurrence recurrence is placed at 4*$r + $v, which is not one trip of a loop after the other"
    return Refusal(scop, legal, tampered, "scan", Hazard.COMBINE, words, "")


def prefix_into_another_run() -> Refusal:
    """One block goes through two runs, the first in front of the second."""
    digits = [block("b", M), block("b1", Affine.of(2)), thread("t", 1, 8), slot("v", 4)]
    place = [b, 32 * b1 + 4 * t + v]
    program = programs.prefix(M, 64, 1, run=32)
    scop, legal = schedule(program, digits, {"exp": place, "sum": place, "exp_1": place})
    tampered = reordered(resized(legal, "b1", kind="loop"), nest("b1", *legal.order))
    words = "the prefix of sum[0, 32] would take in sum[0, 0]"
    return Refusal(scop, legal, tampered, "scan", Hazard.RAW, words, "sum[0, 0] -> sum[0, 32] at M = 1")


# ---------------------------------------------------------------------------------------------- who holds what


def wrong_provider() -> Refusal:
    scop, legal = _chain()
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
    scop, legal = _staged_stencil()
    tampered = replace(legal, order=without_barriers(legal.order))
    words = "exp is read after it was written by other threads with no barrier between"
    return Refusal(scop, legal, tampered, "barrier", Hazard.BARRIER, words, "put_exp[8] -> exp_s_3[8] at N = 1")


def no_barrier_around_the_loop() -> Refusal:
    """The put of the next pass overtakes gets of this one."""
    scop, legal = _staged_stencil_in_a_loop()
    (body,) = legal.order
    items = list(body.items)  # type: ignore[union-attr]
    items.remove("barrier")
    tampered = reordered(legal, nest("r", *items))
    words = "exp is overwritten after it was read by other threads with no barrier between"
    return Refusal(scop, legal, tampered, "barrier", Hazard.BARRIER, words, "exp_s_3[1] -> put_exp[9] at N = 1")


def box_too_small() -> Refusal:
    scop, legal = _staged_stencil()
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
    scop, legal = _chain()
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


# ---------------------------------------------------------------------------------------------- legal schedules

_ROW = [block("b", N.ceildiv(32)), thread("t", 1, 32)]
_CHUNKS = [block("b", N.ceildiv(64)), thread("t", 1, 16), slot("v", 4)]
_CHUNK = [64 * b + 16 * v + t]


def _chain() -> tuple[Scop, KernelSchedule]:
    return schedule(programs.chain(N), _ROW, {"exp": [32 * b + t]})


def _normalised_in_a_loop() -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), loop("r", N.ceildiv(16))]
    place = [b, 16 * r + t]
    return schedule(programs.normalised(M, N, 1), digits, {"exp": place, "sum": place, "divide": place})


def _row_sum(n: int) -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), slot("v", 4)]
    return schedule(programs.summed(M, n, 1), digits, {"exp": [b, 16 * v + t], "sum": [b, 16 * v + t], "exp_1": [b]})


def _sum_over_blocks(staged: Mapping[str, Sequence[str]] | None = None) -> tuple[Scop, KernelSchedule]:
    """Blocks of 64 elements; the last to arrive adds up to 16 shares at once."""
    x = programs.array(0, N)
    program = programs.program([x], [programs.exp(programs.reduce("sum", programs.exp(x), 0))])
    places = {"exp": _CHUNK, "sum": _CHUNK, "exp_1": []}
    return schedule(program, _CHUNKS, places, staged=staged, combines={"b": Combination(("t",))})


def _two_sums_over_blocks() -> tuple[Scop, KernelSchedule]:
    x = programs.array(0, N)
    sums = [programs.exp(programs.reduce(monoid, programs.exp(x), 0)) for monoid in ("sum", "max")]
    places = {"exp": _CHUNK, "sum": _CHUNK, "max": _CHUNK, "exp_1": [], "exp_2": []}
    return schedule(programs.program([x], sums), _CHUNKS, places, combines={"b": Combination(("t",))})


def _row_sums_over_blocks() -> tuple[Scop, KernelSchedule]:
    places = {"exp": [c, *_CHUNK], "sum": [c, *_CHUNK], "exp_1": [c]}
    digits = [block("c", M), *_CHUNKS]
    return schedule(programs.summed(M, N, 1), digits, places, combines={"b": Combination(("t",))})


def _prefix() -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), slot("v", 4)]
    place = [b, 4 * t + v]
    return schedule(programs.prefix(M, 64, 1), digits, {"exp": place, "sum": place, "exp_1": place})


def _largest() -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), slot("v", 4)]
    return schedule(programs.largest(M, 64), digits, {"argmax": [b, 4 * t + v], "argmax_1": [b]})


def _staged_stencil() -> tuple[Scop, KernelSchedule]:
    place = [8 * b + t]
    digits = [block("b", N.ceildiv(8)), thread("t", 1, 8)]
    return schedule(programs.stencil(N), digits, {"add": place, "add_1": place}, staged={"exp": ()})


def _staged_stencil_in_a_loop() -> tuple[Scop, KernelSchedule]:
    """A loop of 4 passes over boxes of 8 elements and their halo."""
    place = [32 * b + 8 * r + t]
    digits = [block("b", N.ceildiv(32)), thread("t", 1, 8), loop("r", 4)]
    return schedule(programs.stencil(N), digits, {"add": place, "add_1": place}, staged={"exp": ("r",)})


def _upper_part(kernel: KernelSchedule) -> Affine:
    """The digit that deals the second eight cells of the box of the stencil."""
    (entry,) = kernel.by_name()["put_exp"].place
    assert isinstance(entry, Affine)
    (atom,) = (a for a, factor in entry.terms if factor == 8 and a != "$b")
    return Affine.symbol(str(atom))


REFUSALS: dict[str, Callable[[], Refusal]] = {
    function.__name__: function
    for function in (
        producer_after_consumer,
        consumer_inside_the_loop_of_a_reduction,
        box_read_before_it_is_filled,
        halo_missing,
        taken_beyond_the_window,
        taken_from_another_thread,
        window_with_gaps,
        box_filled_without_its_halo,
        needed_in_another_block,
        register_slot_of_another_name,
        value_of_an_earlier_pass,
        box_of_another_pass,
        grid_one_block_short,
        grid_that_may_be_empty,
        row_longer_than_a_block,
        tiles_that_overlap,
        second_component_never_stored,
        threads_counted_twice,
        contributions_left_out,
        sum_split_over_blocks,
        share_stored_after_the_election,
        share_of_a_block_left_out,
        share_taken_for_the_total,
        total_read_by_every_block,
        share_stored_by_two_elections,
        shares_of_another_election,
        two_elections_over_one_digit,
        combined_twice,
        box_that_only_the_elected_block_fills,
        results_that_share_an_accumulator,
        threads_that_are_no_bits,
        cluster_of_uneven_blocks,
        box_shared_by_a_cluster,
        prefix_across_a_cluster,
        prefix_out_of_order,
        prefix_across_blocks,
        prefix_into_another_run,
        recurrence_backwards,
        recurrence_in_slots,
        wrong_provider,
        wrong_component,
        gather_of_what_the_kernel_computes,
        no_barrier_before_the_gets,
        no_barrier_around_the_loop,
        box_too_small,
        cells_at_one_address,
        thread_digits_that_overlap,
        thread_index_of_part_of_the_block,
        statement_outside_its_loop,
        overwritten_before_a_neighbour_reads,
    )
}
