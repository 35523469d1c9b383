"""Faults of form: per table of one topic the sentences of the refusals, word by word."""

from __future__ import annotations

from dataclasses import replace

from polyfuse.affine import Affine
from polyfuse.schedule import Cells, Digit, Finish, GridCombine
from tests.legality.form_changes import (
    Change,
    election_in_a_loop,
    election_over,
    gathered_from_registers,
    inside_the_election,
    moved_out_of_its_loop,
    register_taken_from_a_gather,
    share_of_the_elected,
    total_before_the_election,
    with_box,
    with_digit,
    with_extent,
    with_field,
    with_order,
    with_placed,
)
from tests.legality.schedules import N, b, c, nest, resized, t, thread

Table = dict[str, tuple[str, Change, str]]
"""Per name of a fault: the schedule by its name in `SCHEDULES`, the change of it and the sentence of the refusal."""

DIGITS: Table = {
    "two of one name": ("chain", with_digit(Digit("b", "loop", N)), "two digits have one name"),
    "thread of symbolic extent": (
        "stencil",
        with_extent("d1x8", N),
        "thread digit d1x8 has the extent N, which is no positive constant",
    ),
    "thread index of symbolic extent": (
        "chain",
        with_extent("t", N),
        "thread digit t has the extent N, which is no positive constant",
    ),
    "symbolic extent beside the thread index": (
        "chain",
        with_digit(Digit("u", "thread", N, 32)),
        "thread digit u has the extent N, which is no positive constant",
    ),
    "slot of none": ("rows", with_extent("v", 0), "slot digit v has the extent 0, which is no positive constant"),
    "extent that is a digit": ("loop", with_extent("r", b + N), "the extent $b + N of digit r is not a size"),
    "threads that overlap": (
        "stencil",
        with_digit(thread("u", 4, 2)),
        "thread digit u of stride 4 overlaps another one: its neighbour reaches 8",
    ),
    "threads left out": (
        "stencil",
        with_digit(thread("u", 16, 2)),
        "thread digit u of stride 16 leaves threads out: its neighbour reaches 8",
    ),
}

CLUSTERS: Table = {
    "of three": ("rows", with_field(cluster=3), "3 blocks do not share 16 threads evenly, in powers of two"),
    "of none": ("rows", with_field(cluster=0), "0 blocks do not share 16 threads evenly, in powers of two"),
    "of more than there are threads": (
        "rows",
        with_field(cluster=32),
        "32 blocks do not share 16 threads evenly, in powers of two",
    ),
    "of blocks of three threads": (
        "rows",
        lambda kernel: replace(resized(kernel, "t", extent=Affine.of(6)), cluster=2),
        "3 threads of a block of a cluster are no power of two",
    ),
    "with a box": (
        "stencil",
        with_field(cluster=2),
        "exp lies in shared memory, which the 2 blocks do not share",
    ),
    "with a barrier": (
        "rows",
        lambda kernel: replace(kernel, cluster=2, order=(*kernel.order[:2], "barrier", *kernel.order[2:])),
        "a barrier does not reach across the 2 blocks of a cluster",
    ),
    "with a prefix": ("prefix", with_field(cluster=2), "the prefix sum would cross the 2 blocks of a cluster"),
}

LOADS: Table = {
    "ahead of a block": (
        "normalised",
        with_field(ahead=("b",)),
        "loads run a trip ahead of b, which is not a loop digit",
    ),
    "ahead of nothing": (
        "normalised",
        with_field(ahead=("q",)),
        "loads run a trip ahead of q, which is not a loop digit",
    ),
    "ring of a thread": (
        "normalised",
        with_field(rings=(("t", 2),)),
        "copies run ahead of t, which is not a loop digit",
    ),
    "ring of one trip": (
        "normalised",
        with_field(rings=(("r", 1),)),
        "a ring of 1 trips of r leaves none to copy to while one is read",
    ),
    "ring and registers": (
        "normalised",
        with_field(rings=(("r", 3),), ahead=("r",)),
        "what r loads lies both in registers and in a ring of shared memory",
    ),
    "ring in a cluster": (
        "normalised",
        with_field(rings=(("r", 3),), cluster=2),
        "the ring of r lies in shared memory of one block, of a cluster of several",
    ),
}

CELLS: Table = {
    "of no slot": ("rows", with_field(cells=Cells("t", 1)), "cells hold the places of t from 1 on, of 0"),
    "of every place": ("rows", with_field(cells=Cells("v", 0)), "cells hold the places of v from 0 on, of 4"),
    "of no place": ("rows", with_field(cells=Cells("v", 4)), "cells hold the places of v from 4 on, of 4"),
    "beside a prefix": (
        "prefix",
        with_field(cells=Cells("v", 1)),
        "sum meets both parts of what k keeps in cells of its threads",
    ),
    "beside a border": (
        "rows",
        with_field(cells=Cells("v", 1), border=True),
        "a border meets both parts of what k keeps in cells of its threads",
    ),
    "of what nothing computes": (
        "rows",
        with_field(cells=Cells("v", 1, ("log",))),
        "log waits in cells, but nothing computes it",
    ),
}

TREES: Table = {
    "loop over no digit": (
        "chain",
        with_order(lambda order: (*order, nest("q"))),
        "the order tree loops over q, which is not a loop digit",
    ),
    "loop over threads": (
        "chain",
        with_order(lambda order: [nest("t", *order)]),
        "the order tree loops over t, which is not a loop digit",
    ),
    "loop in itself": (
        "loop",
        with_order(lambda order: [nest("r", *order)]),
        "a loop over r lies inside another one over r",
    ),
    "statement twice": (
        "chain",
        with_order(lambda order: (*order, "store_exp")),
        "store_exp runs at 2 positions of the order tree",
    ),
    "statement unknown": (
        "chain",
        with_order(lambda order: (*order, "log")),
        "the order tree runs log, which is placed nowhere",
    ),
    "statement left out": (
        "chain",
        with_order(lambda order: order[:-1]),
        "store_exp is placed but never executed",
    ),
    "two of one name": (
        "chain",
        lambda kernel: replace(kernel, placed=(*kernel.placed, kernel.placed[0])),
        "two placed statements have one name",
    ),
    "path into a loop that is elsewhere": (
        "normalised",
        with_placed("store_divide", path=()),
        "store_divide belongs in the loops () but runs in loops r",
    ),
    "path out of a loop": (
        "normalised",
        with_order(lambda order: [*order[:1], "x0", "exp", "divide", "store_divide"]),
        "store_divide belongs in the loops (r) but runs in no loop",
    ),
}

ELECTIONS: Table = {
    "in a loop": (
        "sums over blocks",
        election_in_a_loop,
        "the election over b lies inside q: it is held once per block",
    ),
    "over threads": (
        "sums over blocks",
        election_over("t"),
        "the election is held over t, which is not a block digit",
    ),
    "twice": (
        "sums over blocks",
        inside_the_election(lambda finish: (finish, Finish("b", ()))),
        "two elections are held over b",
    ),
    "depends on who is elected": (
        "sums over blocks",
        with_placed("store_exp_1", place=(b,)),
        "store_exp_1 depends on b, over which any block may be elected to run it",
    ),
}

COMBINATIONS: Table = {
    "of no reduction": (
        "sums over blocks",
        lambda kernel: replace(kernel, grid_combine=(*kernel.grid_combine, GridCombine("exp", "b"))),
        "exp is combined over b, but is no reduction, or is so twice",
    ),
    "of nothing": (
        "sums over blocks",
        lambda kernel: replace(kernel, grid_combine=(*kernel.grid_combine, GridCombine("log", "b"))),
        "log is combined over b, but is no reduction, or is so twice",
    ),
    "over threads": (
        "sums over blocks",
        lambda kernel: replace(kernel, grid_combine=(GridCombine("max_share", "t"), *kernel.grid_combine[1:])),
        "max_share is combined over t, which is not a block digit",
    ),
    "share of the elected": (
        "sums over blocks",
        share_of_the_elected,
        "share_sum hands on a share after the election",
    ),
    "share of nothing": (
        "sums over blocks",
        with_placed("share_sum", providers=("exp",)),
        "share_sum hands on the share of nothing that is combined over blocks",
    ),
    "total of every block": (
        "rows over blocks",
        total_before_the_election,
        "sum takes a total, but not in what an elected block finishes",
    ),
}

PLACES: Table = {
    "of wrong rank": (
        "rows",
        with_placed("store_exp_1", place=(b, t)),
        "store_exp_1 has 2 coordinates of 1",
    ),
    "at no digit": (
        "rows",
        with_placed("store_exp_1", place=(c,)),
        "store_exp_1 is placed at $c, but $c is no digit",
    ),
    "at a coordinate": (
        "rows",
        with_placed("store_exp_1", place=(Affine.symbol("%0"),)),
        "store_exp_1 is placed at %0, but %0 is no digit",
    ),
    "outside of its loop": (
        "sums over blocks",
        with_placed("x0", place=(Affine.symbol("$p"),)),
        "x0 is placed at $p outside the loop over p",
    ),
    "store at data": (
        "gather",
        with_placed("store_exp", place=("x1",)),
        "store_exp is placed at data, which only a load can be",
    ),
    "load at nothing": (
        "gather",
        with_placed("x0", place=("x3",)),
        "x0 is placed at the value of x3, which no register holds",
    ),
    "load at what is stored": (
        "gather",
        with_placed("x0", place=("store_exp",)),
        "x0 is placed at the value of store_exp, which no register holds",
    ),
}

BOXES: Table = {
    "two of one value": (
        "stencil",
        lambda kernel: replace(kernel, shared=kernel.shared * 2),
        "two shared boxes hold one value",
    ),
    "of wrong rank": (
        "stencil",
        with_box(extents=(10, 10)),
        "the box of exp has not 1 dimensions",
    ),
    "of a pitch of wrong rank": ("stencil", with_box(pitch=()), "the box of exp has not 1 dimensions"),
    "varies by thread": (
        "stencil",
        with_box(origin=(32 * b + Affine.symbol("$d1x8"),)),
        "the origin 32*$b + $d1x8 of the box of exp varies inside a block",
    ),
    "varies by no digit": (
        "stencil",
        with_box(origin=(32 * c,)),
        "the origin 32*$c of the box of exp varies inside a block",
    ),
    "missing": ("stencil", with_field(shared=()), "put_exp moves exp, which has no shared box"),
    "filled outside of its loop": (
        "stencil",
        moved_out_of_its_loop("put_exp"),
        "put_exp runs outside the loop r that its box moves with",
    ),
    "read outside of its loop": (
        "stencil",
        moved_out_of_its_loop("exp_s"),
        "exp_s runs outside the loop r that its box moves with",
    ),
}

PROVIDERS: Table = {
    "too few": (
        "chain",
        with_placed("add", providers=("x0",)),
        "add makes 2 reads, but 1 providers are given",
    ),
    "too many": (
        "chain",
        with_placed("x0", providers=("x1",)),
        "x0 makes 0 reads, but 1 providers are given",
    ),
    "computed input": (
        "chain",
        with_placed("x0", role="compute"),
        "x0 computes x0, which no kernel computes",
    ),
    "unknown": (
        "chain",
        with_placed("exp", providers=("log",)),
        "exp reads add, but log is given as its provider",
    ),
    "nothing": (
        "chain",
        with_placed("exp", providers=("",)),
        "exp reads add, but nothing is given as its provider",
    ),
    "share for the total": (
        "sums over blocks",
        with_placed("sum", providers=("share_max",)),
        "sum reads sum, but share_max is given as its provider",
    ),
    "component that there is not": (
        "pair",
        with_placed("store_argmax", component=2),
        "store_argmax reads component 2 of argmax, but argmax holds all components of it",
    ),
    "taken from a gather": (
        "gather",
        register_taken_from_a_gather,
        "x0_taken takes registers of a gather, which are at no known elements",
    ),
    "gathered at a place": (
        "gather",
        with_placed("x0", place=(32 * b + t,)),
        "gather gathers x0, but x0 is placed at 32*$b + $t",
    ),
    "gathered at another index": (
        "gather",
        with_placed("x0", place=("x2",)),
        "gather reads x1, but x2 is given as its provider",
    ),
}

STORED: Table = {
    "loaded and not in memory": (
        "chain",
        with_field(loads=(0,)),
        "x1 is loaded from memory, but it is not in memory when the kernel starts",
    ),
    "gathered from registers": (
        "gather",
        gathered_from_registers,
        "gather reads x0 at positions that are data: any thread of any block may compute them",
    ),
}

EXECUTED = {
    "digits": DIGITS,
    "cluster": CLUSTERS,
    "loads": LOADS,
    "cells": CELLS,
    "tree": TREES,
    "election": ELECTIONS,
    "combination": COMBINATIONS,
    "place": PLACES,
    "box": BOXES,
}
