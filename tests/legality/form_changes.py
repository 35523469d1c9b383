"""Changes of the form of legal schedules, one thing each, and the schedules that are changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from polyfuse.affine import Affine
from polyfuse.schedule import Digit, Finish, KernelSchedule, TreeItem
from polyfuse.scop import Scop
from tests.legality import legal, programs
from tests.legality.schedules import M, N, b, block, loop, nest, placed, r, reordered, resized, schedule, t, thread

Change = Callable[[KernelSchedule], KernelSchedule]


def gathered() -> tuple[Scop, KernelSchedule]:
    return schedule(programs.gather(N, M), [block("b", M.ceildiv(32)), thread("t", 1, 32)], {"exp": [32 * b + t]})


def looped() -> tuple[Scop, KernelSchedule]:
    return schedule(programs.chain(N), [loop("r", N)], {"exp": [r]})


SCHEDULES: dict[str, Callable[[], tuple[Scop, KernelSchedule]]] = {
    "chain": legal.chain,
    "gather": gathered,
    "loop": looped,
    "normalised": legal.normalised_in_a_loop,
    "pair": legal.largest,
    "prefix": legal.prefix,
    "rows": lambda: legal.row_sum(64),
    "rows over blocks": legal.row_sums_over_blocks,
    "stencil": legal.staged_stencil_in_a_loop,
    "sums over blocks": legal.two_sums_over_blocks,
}


@cache
def made(name: str) -> tuple[Scop, KernelSchedule]:
    return SCHEDULES[name]()


def with_digit(added: Digit) -> Change:
    return lambda kernel: replace(kernel, digits=(*kernel.digits, added))


def with_order(change: Callable[[tuple[TreeItem, ...]], Sequence[TreeItem]]) -> Change:
    """Another order tree, and no path changed."""
    return lambda kernel: replace(kernel, order=tuple(change(kernel.order)))


def with_box(**fields: object) -> Change:
    def change(kernel: KernelSchedule) -> KernelSchedule:
        (box,) = kernel.shared
        return replace(kernel, shared=(replace(box, **fields),))  # type: ignore[arg-type]

    return change


def with_placed(name: str, **fields: object) -> Change:
    return lambda kernel: placed(kernel, name, **fields)


def with_field(**fields: object) -> Change:
    return lambda kernel: replace(kernel, **fields)  # type: ignore[arg-type]


def with_extent(name: str, extent: Affine | int) -> Change:
    return lambda kernel: resized(kernel, name, extent=Affine.of(extent))


def inside_the_election(change: Callable[[Finish], Sequence[TreeItem]]) -> Change:
    def changed(kernel: KernelSchedule) -> KernelSchedule:
        *first, finish = kernel.order
        assert isinstance(finish, Finish)
        return replace(kernel, order=(*first, *change(finish)))

    return changed


def election_in_a_loop(kernel: KernelSchedule) -> KernelSchedule:
    """The election and what follows it run once per trip of a loop of one trip."""
    *first, finish = kernel.order
    assert isinstance(finish, Finish)
    paths = [replace(p, path=(("q", 0), *p.path)) if p.path else p for p in kernel.placed]
    digits = (*kernel.digits, loop("q", 1))
    return replace(kernel, digits=digits, placed=tuple(paths), order=(*first, nest("q", finish)))


def election_over(digit: str) -> Change:
    """The election and every path of what it finishes name another digit."""

    def change(kernel: KernelSchedule) -> KernelSchedule:
        *first, finish = kernel.order
        assert isinstance(finish, Finish)
        paths = [replace(p, path=((digit, 0), *p.path[1:])) if p.path else p for p in kernel.placed]
        return replace(kernel, placed=tuple(paths), order=(*first, replace(finish, digit=digit)))

    return change


def total_before_the_election(kernel: KernelSchedule) -> KernelSchedule:
    *first, finish = kernel.order
    assert isinstance(finish, Finish)
    loops, *rest = finish.items
    kernel = replace(kernel, order=(*first, loops, replace(finish, items=tuple(rest))))
    return placed(kernel, "sum", path=(("p", 0),))


def register_taken_from_a_gather(kernel: KernelSchedule) -> KernelSchedule:
    """One more statement takes the registers of a gathered load."""
    load = kernel.by_name()["x0"]
    take = replace(load, name="x0_taken", role="take", providers=("x0",), place=(32 * b + t,))
    order = [each for item in kernel.order for each in ((item, take.name) if item == "x0" else (item,))]
    return replace(kernel, placed=(*kernel.placed, take), order=tuple(order))


def gathered_from_registers(kernel: KernelSchedule) -> KernelSchedule:
    """The gather reads registers of a take, of a load that is at a place and not at the index."""
    kernel = register_taken_from_a_gather(placed(kernel, "x0", place=(32 * b + t,)))
    return placed(kernel, "gather", providers=("x1", "x0_taken"))


def share_of_the_elected(kernel: KernelSchedule) -> KernelSchedule:
    *first, finish = kernel.order
    assert isinstance(finish, Finish)
    first.remove("share_sum")
    kernel = placed(kernel, "share_sum", path=(("b", 0),))
    return replace(kernel, order=(*first, replace(finish, items=("share_sum", *finish.items))))


def moved_out_of_its_loop(name: str) -> Change:
    """A move runs in front of the loop that its box is pinned to, at what was the first trip."""

    def change(kernel: KernelSchedule) -> KernelSchedule:
        (body,) = kernel.order
        assert not isinstance(body, str)
        place = tuple(e.substitute({"$r": 0}) for e in kernel.by_name()[name].place if isinstance(e, Affine))
        order = (name, replace(body, items=tuple(i for i in body.items if i != name)))
        return reordered(placed(kernel, name, place=place), *order)

    return change
