"""Legal schedules by hand, to be tampered with: dimensions go to threads, slots, loops or blocks as a test needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polyfuse.affine import Affine, digit
from polyfuse.bindings import AnyGuard
from polyfuse.expr import Program
from polyfuse.places.builder import build_schedule
from polyfuse.places.proposal import Combination, Group, Proposal, Staging, Windows
from polyfuse.schedule import Digit, KernelSchedule, LoopNest, Placed, TreeItem
from polyfuse.scop import Scop
from tests.legality.programs import statement, whole

b, b1, t, u, r, k, v, c = map(digit, "b b1 t u r k v c".split())
N, M = Affine.symbol("N"), Affine.symbol("M")


def block(name: str, extent: Affine | int) -> Digit:
    return Digit(name, "block", Affine.of(extent))


def thread(name: str, stride: int, extent: int) -> Digit:
    return Digit(name, "thread", Affine.of(extent), stride)


def loop(name: str, extent: Affine | int) -> Digit:
    return Digit(name, "loop", Affine.of(extent))


def slot(name: str, extent: int) -> Digit:
    return Digit(name, "slot", Affine.of(extent))


def schedule(
    program: Program | tuple[Scop, Group],
    digits: Sequence[Digit],
    places: Mapping[str, Sequence[Affine]],
    *,
    staged: Mapping[str, Sequence[str]] | None = None,
    guards: Sequence[AnyGuard] = (),
    combines: Mapping[str, Combination] | None = None,
    windowed: Mapping[str, int] | None = None,
    atomic: bool = False,
    in_order: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Scop, KernelSchedule]:
    """`places`: per statement name the place of each of its dimensions; `staged`: values kept in shared memory, each
    with the loops that its box is pinned to; `windowed`: values kept in windows of registers along all slots, each with
    the width of its vectors; `atomic`: blocks merge their shares; `in_order`: of a `Proposal`.  A program is one
    kernel; part of one is given as a group."""
    scop, group = whole(program) if isinstance(program, Program) else program
    anchors = {(statement(scop, name), d): e for name, place in places.items() for d, e in enumerate(place)}
    staging = {statement(scop, name): Staging(tuple(loops)) for name, loops in (staged or {}).items()}
    loops = tuple(d.name for d in digits if d.kind == "loop")
    slots = tuple(d.name for d in digits if d.kind == "slot")
    windows = Windows(slots, {statement(scop, name): vector for name, vector in (windowed or {}).items()})
    more = {"combines": combines or {}, "windows": windows, "atomic": atomic, "in_order": in_order or {}}
    proposal = Proposal("by hand", (), tuple(digits), anchors, loops, staging, tuple(guards), **more)  # type: ignore[arg-type]
    return scop, build_schedule("k", group, proposal)


# ---------------------------------------------------------------------------------------------- changes


def placed(kernel: KernelSchedule, name: str, **fields: object) -> KernelSchedule:
    """The schedule with fields of one placed statement replaced."""
    new = replace(kernel.by_name()[name], **fields)  # type: ignore[arg-type]
    return replace(kernel, placed=tuple(new if p.name == name else p for p in kernel.placed))


def resized(kernel: KernelSchedule, name: str, **fields: object) -> KernelSchedule:
    """The schedule with fields of one digit replaced."""
    digits = tuple(replace(d, **fields) if d.name == name else d for d in kernel.digits)  # type: ignore[arg-type]
    return replace(kernel, digits=digits)


def reordered(kernel: KernelSchedule, *order: TreeItem) -> KernelSchedule:
    """The schedule with another order tree, paths following it; a loop's pass is its position."""
    paths: dict[str, tuple[tuple[str, int], ...]] = {}

    def walk(items: Sequence[TreeItem], path: tuple[tuple[str, int], ...]) -> None:
        for n, item in enumerate(items):
            if isinstance(item, LoopNest):
                walk(item.items, (*path, (item.digit, n)))
            else:
                paths[item] = path

    walk(order, ())
    moved = tuple(replace(p, path=paths.get(p.name, p.path)) for p in kernel.placed)
    return replace(kernel, order=tuple(order), placed=moved)


def everywhere(kernel: KernelSchedule, entry: Affine, dim: int = 0) -> KernelSchedule:
    """The schedule with this coordinate in every place that has such a dimension."""
    moved = tuple(
        replace(p, place=tuple(entry if d == dim else e for d, e in enumerate(p.place))) for p in kernel.placed
    )
    return replace(kernel, placed=moved)


def nest(name: str, *items: TreeItem) -> LoopNest:
    return LoopNest(name, tuple(items))


def without_barriers(items: tuple[TreeItem, ...]) -> tuple[TreeItem, ...]:
    kept = (LoopNest(i.digit, without_barriers(i.items)) if isinstance(i, LoopNest) else i for i in items)
    return tuple(i for i in kept if i != "barrier")


def names(kernel: KernelSchedule, role: str) -> list[str]:
    return [p.name for p in kernel.placed if p.role == role]


def find(kernel: KernelSchedule, role: str) -> Placed:
    (found,) = (p for p in kernel.placed if p.role == role)
    return found
