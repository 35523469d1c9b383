"""Illegal times, places and stores."""

from __future__ import annotations

from dataclasses import replace

from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.verdict import Hazard
from tests.legality import programs
from tests.legality.legal import (
    ROW,
    Refusal,
    chain,
    largest,
    normalised_in_a_loop,
    staged_stencil,
    staged_stencil_in_a_loop,
    upper_part,
)
from tests.legality.schedules import (
    N,
    b,
    block,
    everywhere,
    names,
    nest,
    placed,
    reordered,
    resized,
    schedule,
    slot,
    t,
    thread,
    v,
)

# ---------------------------------------------------------------------------------------------- time


def producer_after_consumer() -> Refusal:
    scop, legal = chain()
    tampered = reordered(legal, "x0", "x1", "exp", "add", "store_exp")
    words = "exp[0] runs before add[0], on which it depends"
    return Refusal(scop, legal, tampered, "order", Hazard.RAW, words, "add[0] -> exp[0] at N = 1")


def consumer_inside_the_loop_of_a_reduction() -> Refusal:
    """``e / sum(e)`` in the loop that sums."""
    scop, legal = normalised_in_a_loop()
    (first, second) = legal.order
    tampered = reordered(legal, nest("r", *first.items, *second.items))  # type: ignore[union-attr]
    words = "divide[0, 0] runs before sum[0, 16], on which it depends"
    return Refusal(scop, legal, tampered, "order", Hazard.RAW, words, "sum[0, 16] -> divide[0, 0] at M = 1, N = 17")


def box_read_before_it_is_filled() -> Refusal:
    scop, legal = staged_stencil()
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
    scop, legal = schedule(programs.stencil(N), ROW, {"add": [32 * b + t], "add_1": [32 * b + t]})
    right = next(p.name for p in legal.placed if p.role == "compute" and p.place == (32 * b + t + 2,))
    load = legal.by_name()[right].providers[0]
    tampered = placed(placed(legal, right, place=(32 * b + t + 1,)), load, place=(32 * b + t + 1,))
    words = "add_1 needs exp[33] in another block than the one that has it"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[33] -> add_1[31] at N = 32")


def windowed_stencil() -> tuple[Scop, KernelSchedule]:
    """``exp`` in a window of 6 registers, of which each of three needs takes 4."""
    digits = [block("b", N.ceildiv(128)), thread("t", 1, 32), slot("v", 4)]
    at = 128 * b + 4 * t + v
    return schedule(programs.stencil(N), digits, {"add": [at], "add_1": [at]}, windowed={"exp": 1})


def _place(legal: KernelSchedule, name: str) -> tuple[Affine, ...]:
    return tuple(e for e in legal.by_name()[name].place if isinstance(e, Affine))


def taken_beyond_the_window() -> Refusal:
    """The window ends one register before the last one that is needed."""
    scop, legal = windowed_stencil()
    tampered = resized(legal, "r0x6", extent=Affine.of(5))
    words = "exp_w takes exp[5] from register $v + 2 of a window of 5"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[5] -> exp_w[5] at N = 4")


def taken_from_another_thread() -> Refusal:
    """Every thread holds the elements of the first one."""
    scop, legal = windowed_stencil()
    tampered = legal
    for name in ("exp", "x0"):
        tampered = placed(tampered, name, place=tuple(e.substitute({"$t": 0}) for e in _place(legal, name)))
    words = "from register 4*$t + $v + 2, which is not the same in all threads"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[2] -> exp_w[2] at N = 1")


def window_with_gaps() -> Refusal:
    scop, legal = windowed_stencil()
    tampered = legal
    for name in ("exp", "x0"):
        window = _place(legal, name)[0] - 128 * b - 4 * t
        tampered = placed(tampered, name, place=(128 * b + 4 * t + 2 * window,))
    words = "whose slots do not count elements one by one"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[2] -> exp_w[2] at N = 1")


def box_filled_without_its_halo() -> Refusal:
    scop, legal = staged_stencil()
    narrow = tuple(e - 8 * p for e, p in zip(legal.by_name()["put_exp"].place, [upper_part(legal)], strict=True))
    tampered = legal
    for name in ("put_exp", "exp", "x0"):
        tampered = placed(tampered, name, place=narrow)
    words = "from its shared box, which its block does not put there"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[8] -> exp_s[8] at N = 7")


def needed_in_another_block() -> Refusal:
    scop, legal = chain()
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
    scop, legal = normalised_in_a_loop()
    mine, other = legal.by_name()["divide"].providers, legal.by_name()["sum"].providers[0]
    tampered = placed(legal, "divide", providers=(other, mine[1]))
    words = f"divide needs exp[0, 0] after the loop over r that computes it in {other}"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[0, 0] -> divide[0, 0] at M = 1, N = 17")


def box_of_another_pass() -> Refusal:
    """The box moves with the loop, but is read after it."""
    scop, legal = staged_stencil_in_a_loop()
    (body,) = legal.order
    items = [i for i in body.items if i != "barrier"]  # type: ignore[union-attr]
    cut = items.index("put_exp") + 1
    tampered = reordered(legal, nest("r", *items[:cut], "barrier"), nest("r", *items[cut:]))
    words = "which belongs to another pass of the loop that the box moves with"
    return Refusal(scop, legal, tampered, "scope", Hazard.SCOPE, words, "exp[2] -> exp_s[2] at N = 1")


# ---------------------------------------------------------------------------------------------- stores


def grid_one_block_short() -> Refusal:
    scop, legal = chain()
    tampered = resized(legal, "b", extent=N // 32)
    words = "exp[0] is stored by no thread (violated iff N >= 32*floor((N)/32) + 1)"
    return Refusal(scop, legal, tampered, "coverage", Hazard.COVERAGE, words, "exp[0] -> store of exp[0] at N = 1")


def grid_that_may_be_empty() -> Refusal:
    """Nothing uses the second digit, but without a block along it nothing runs."""
    scop, legal = chain()
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
    scop, legal = chain()
    tampered = everywhere(resized(legal, "b", extent=N.ceildiv(16)), 16 * b + t)
    words = "exp[16] is stored twice, at (b=0, t=16) and (b=1, t=0)"
    return Refusal(scop, legal, tampered, "once", Hazard.EFFECT, words, "exp[16] -> exp[16] at N = 17")


def second_component_never_stored() -> Refusal:
    scop, legal = largest()
    store = next(p.name for p in legal.placed if p.role == "store" and p.component == 1)
    gone = replace(legal, placed=tuple(p for p in legal.placed if p.name != store))
    tampered = reordered(gone, *(i for i in legal.order if i != store))
    words = "argmax is a result of the kernel, but nothing stores it"
    return Refusal(scop, legal, tampered, "coverage", Hazard.COVERAGE, words, "")
