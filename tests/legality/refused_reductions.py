"""Illegal reductions, clusters and scans."""

from __future__ import annotations

from dataclasses import replace

from polyfuse.affine import Affine
from polyfuse.schedule import Finish
from polyfuse.verdict import Hazard
from tests.legality import programs
from tests.legality.legal import (
    Refusal,
    merged_rows,
    prefix,
    prefix_in_order,
    row_sum,
    row_sums_over_blocks,
    staged_stencil,
    sum_over_blocks,
    two_sums_over_blocks,
)
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
)

# ---------------------------------------------------------------------------------------------- reductions


def threads_counted_twice() -> Refusal:
    scop, legal = row_sum(64)
    tampered = resized(legal, "t", extent=Affine.of(32))
    words = "contribution sum[0, 16] to sum is counted twice"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0, 16] -> sum[0, 16] at M = 1")


def contributions_left_out() -> Refusal:
    scop, legal = row_sum(64)
    tampered = resized(legal, "v", extent=Affine.of(3))
    words = "sum[0, 48] never enters the result sum[0]"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0, 48] -> sum[0] at M = 1")


def sum_split_over_blocks() -> Refusal:
    scop, legal = row_sum(64)
    tampered = resized(legal, "v", kind="block")
    words = "contributions to one element of sum are computed by different blocks, which this kernel never combines"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0, 0] -> sum[0] at M = 1")


def share_stored_after_the_election() -> Refusal:
    scop, legal = sum_over_blocks()
    tampered = reordered(legal, *(i for i in legal.order if i != "share_sum"), "share_sum")
    words = "which is not stored before the election"
    return Refusal(scop, legal, tampered, "combine", Hazard.RAW, words, "sum[] -> sum[] at N = 1")


def share_of_a_block_left_out() -> Refusal:
    scop, legal = sum_over_blocks()
    total = legal.by_name()["sum"]
    tampered = placed(legal, "sum", place=tuple(e + 1 for e in total.place if isinstance(e, Affine)))
    words = "never enters the result"
    witness = "shares of sum[0] -> shares of sum[] at N = 1"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, witness)


def share_taken_for_the_total() -> Refusal:
    scop, legal = sum_over_blocks()
    tampered = placed(legal, "exp_1", providers=("sum_share",))
    words = "contributions to one element of sum are computed by different blocks, which this kernel never combines"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "sum[0] -> sum[] at N = 65")


def total_read_by_every_block() -> Refusal:
    scop, legal = sum_over_blocks()
    *main, finish = legal.order
    assert isinstance(finish, Finish)
    inside = tuple(i for i in finish.items if i != "store_exp_1")
    tampered = replace(legal, order=(*main, Finish(finish.digit, inside), "store_exp_1"))
    tampered = placed(tampered, "store_exp_1", path=())
    words = "store_exp_1 needs exp_1[] outside of what the last block along b finishes"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp_1[] -> exp_1[] at N = 1")


def share_stored_by_two_elections() -> Refusal:
    """Blocks along a second digit, which nothing tells apart, each leave their shares in the same cells."""
    scop, legal = sum_over_blocks()
    tampered = replace(legal, digits=(*legal.digits, block("c", 2)))
    words = "is stored more than once"
    return Refusal(scop, legal, tampered, "combine", Hazard.WAW, words, "sum[] -> sum[] at N = 1")


def shares_of_another_election() -> Refusal:
    """The block elected for row c finishes row M - 1 - c, whose blocks may not have arrived."""
    scop, legal = row_sums_over_blocks()
    mirrored = M - 1 - c
    tampered = legal
    for name in ("sum", "exp_1", "store_exp_1"):
        place = tuple(mirrored if e == c else e for e in legal.by_name()[name].place)
        tampered = placed(tampered, name, place=place)
    words = "which no block of its election stores"
    return Refusal(scop, legal, tampered, "combine", Hazard.RAW, words, "sum[0] -> sum[0] at M = 2, N = 1")


def two_elections_over_one_digit() -> Refusal:
    """Their counters are one."""
    scop, legal = two_sums_over_blocks()
    *main, finish = legal.order
    assert isinstance(finish, Finish)
    halves = []
    for total in ("sum", "max"):
        (result,) = (p.name for p in legal.placed if p.providers == (total,))
        halves.append(Finish("b", (nest("p", total), result, f"store_{result}")))
    tampered = replace(legal, order=(*main, *halves))
    return Refusal(scop, legal, tampered, "executed", Hazard.EFFECT, "two elections are held over b", "")


def share_merged_by_blocks_that_nothing_tells_apart() -> Refusal:
    scop, legal = merged_rows()
    tampered = replace(legal, digits=(*legal.digits, block("d", 2)))
    words = "the share 0 of sum[0] is merged more than once"
    return Refusal(scop, legal, tampered, "atomic", Hazard.WAW, words, "sum[0] -> sum[0] at M = 1, N = 1", True)


def share_not_merged() -> Refusal:
    """Half of the rows take no shares, and keep what they were filled with."""
    scop, legal = merged_rows()
    tampered = resized(legal, "c", extent=M.ceildiv(2))
    words = "is not merged into it"
    return Refusal(scop, legal, tampered, "atomic", Hazard.COMBINE, words, "sum[1] -> sum[1] at M = 2, N = 1", True)


def merged_at_two_places() -> Refusal:
    scop, legal = merged_rows()
    again = replace(legal.by_name()["merge_sum"], name="again")
    tampered = replace(legal, placed=(*legal.placed, again), order=(*legal.order, "again"))
    words = "again writes sum as well, into which blocks merge their shares"
    return Refusal(scop, legal, tampered, "atomic", Hazard.WAW, words, "", True)


def whole_stored_where_shares_are_merged() -> Refusal:
    """What the merging would need is a share, of which this block holds one: nothing else may read it."""
    scop, legal = merged_rows()
    tampered = replace(legal, grid_combine=())
    words = "merge_sum hands on the share of nothing that is combined over blocks"
    return Refusal(scop, legal, tampered, "executed", Hazard.COMBINE, words, "", True)


def combined_twice() -> Refusal:
    scop, legal = sum_over_blocks()
    tampered = replace(legal, grid_combine=legal.grid_combine * 2)
    words = "sum_share is combined over b, but is no reduction, or is so twice"
    return Refusal(scop, legal, tampered, "executed", Hazard.COMBINE, words, "")


def box_that_only_the_elected_block_fills() -> Refusal:
    """The get and the store behind the election: blocks that were not elected read what is in their shared memory."""
    scop, legal = sum_over_blocks(staged={"exp_1": ()})
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
    scop, legal = row_sum(64)
    tampered = everywhere(resized(resized(legal, "t", extent=Affine.of(12)), "v", extent=Affine.of(6)), 12 * v + t, 1)
    words = "sum combines 12 threads 1 apart, which are no bits of the thread index"
    return Refusal(scop, legal, tampered, "combine", Hazard.COMBINE, words, "")


# ---------------------------------------------------------------------------------------------- clusters


def cluster_of_uneven_blocks() -> Refusal:
    scop, legal = row_sum(64)
    words = "32 blocks do not share 16 threads evenly"
    return Refusal(scop, replace(legal, cluster=4), replace(legal, cluster=32), "executed", Hazard.CAPACITY, words, "")


def box_shared_by_a_cluster() -> Refusal:
    """Each block of the cluster would fill and read a box of its own."""
    scop, legal = staged_stencil()
    words = "exp lies in shared memory, which the 2 blocks do not share"
    return Refusal(scop, legal, replace(legal, cluster=2), "executed", Hazard.SCOPE, words, "")


def prefix_across_a_cluster() -> Refusal:
    scop, legal = prefix()
    words = "would cross the 2 blocks of a cluster"
    return Refusal(scop, legal, replace(legal, cluster=2), "executed", Hazard.COMBINE, words, "")


# ---------------------------------------------------------------------------------------------- scans


def prefix_out_of_order() -> Refusal:
    """Threads from the last element to the first."""
    scop, legal = prefix()
    tampered = everywhere(legal, 60 - 4 * t + v, 1)
    words = "the prefix of sum[0, 0] would take in sum[0, 4]"
    return Refusal(scop, legal, tampered, "scan", Hazard.RAW, words, "sum[0, 4] -> sum[0, 0] at M = 1")


def prefix_of_later_blocks() -> Refusal:
    """Blocks begin in order, and the first has the last elements: it would wait for those that begin behind it."""
    scop, legal = prefix_in_order()
    tampered = everywhere(legal, 32 * (N.ceildiv(32) - 1 - b1) + 16 * c + 2 * t + v, 1)
    words = "the prefix of sum[0, 0] would take in sum[0, 32]"
    return Refusal(scop, legal, tampered, "scan", Hazard.RAW, words, "sum[0, 32] -> sum[0, 0] at M = 1, N = 33")


def prefix_through_interleaved_blocks() -> Refusal:
    """Neighbouring blocks have neighbouring elements, so that each needs elements of all."""
    digits, place = [block("b", M), block("b1", 2), thread("t", 1, 8), slot("v", 4)], [b, 32 * b1 + 4 * t + v]
    places = {"exp": place, "sum": place, "exp_1": place}
    scop, legal = schedule(programs.prefix(M, 64, 1), digits, places, in_order={"b1": (4, 0)})
    tampered = everywhere(legal, 2 * (4 * t + v) + b1, 1)
    words = "the prefix of sum[0, 1] would take in sum[0, 2]"
    return Refusal(scop, legal, tampered, "scan", Hazard.RAW, words, "sum[0, 2] -> sum[0, 1] at M = 1")


def prefix_that_does_not_go_on() -> Refusal:
    scop, legal = prefix_in_order()
    words = "the prefix crosses blocks: sum[0, 0] does not enter the prefix sum[0, 32]"
    tampered = replace(legal, grid_scans=())
    return Refusal(scop, legal, tampered, "scan", Hazard.COMBINE, words, "sum[0, 0] -> sum[0, 32] at M = 1, N = 33")


def prefix_of_another_row() -> Refusal:
    """Blocks that wait for those of the row before."""
    scop, legal = prefix_in_order()
    tampered = replace(legal, grid_scans=(replace(legal.grid_scans[0], digit="b"),))
    words = "the prefix of sum[1, 0] would take in sum[0, 0]"
    return Refusal(scop, legal, tampered, "scan", Hazard.RAW, words, "sum[0, 0] -> sum[1, 0] at M = 2, N = 1")


def prefix_in_order_in_a_loop() -> Refusal:
    """Blocks go on before the loop has their totals."""
    scop, legal = prefix_in_order()
    tampered = reordered(resized(legal, "c", kind="loop"), nest("c", *legal.order))
    words = "sum goes on from block to block inside c, not once"
    return Refusal(scop, legal, tampered, "executed", Hazard.EFFECT, words, "")


def prefix_across_blocks() -> Refusal:
    scop, legal = prefix()
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
