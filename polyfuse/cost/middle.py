"""What blocks in the middle of the grid execute, where a block tests once whether it lies inside.

Of an image that is padded by its edges, nine reads of x make one: all but a few blocks make that of x[i - 1, j - 1]
alone, and choose nothing.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import lru_cache

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.schedule import KernelSchedule, Placed, PlaceEntry
from polyfuse.scop import Scop, Statement
from polyfuse.terms import Apply, Expr, Inside


def of_the_middle(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> KernelSchedule:
    """The schedule with the placed statements that a block in the middle executes: `schedule` itself where all do."""
    if not schedule.border:
        return schedule
    by_name = schedule.by_name()
    todo = [p for p in schedule.placed if p.role in ("store", "atomic", "partial")]
    rare: dict[Where, bool] = {}
    reached = {p.name for p in todo}
    while todo:
        placed = todo.pop()
        for provider in _needed(scop, placed, sizes, rare):
            if provider not in reached:
                reached.add(provider)
                todo.append(by_name[provider])
    if len(reached) == len(schedule.placed):
        return schedule
    return replace(schedule, placed=tuple([_without(p, reached) for p in schedule.placed if p.name in reached]))


def _without(placed: Placed, reached: Container[str]) -> Placed:
    """`placed` with what it reads in the middle in place of what it reads at the border."""
    kept = [provider for provider in placed.providers if provider in reached]
    if len(kept) == len(placed.providers):
        return placed
    return replace(placed, providers=tuple([p if p in reached else kept[0] for p in placed.providers]) if kept else ())


Where = tuple[tuple[PlaceEntry, ...], tuple[Affine, ...]]
"""A place, and the conditions of a read there: statements at one place often share them."""


def _needed(scop: Scop, placed: Placed, sizes: Sizes, rare: dict[Where, bool]) -> list[str]:
    """What provides for the reads that more than a few blocks at the border make.  `rare`: what is known of others."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement):
        return list(placed.providers)
    found = []
    for read, provider in zip(statement.reads, placed.providers, strict=True):
        where = placed.place, read.where
        if where not in rare:
            at = {f"%{d}": entry for d, entry in enumerate(placed.place) if isinstance(entry, Affine)}
            rare[where] = any(_is_rare(condition.substitute(at), sizes) for condition in read.where)
        if not rare[where]:
            found.append(provider)
    return found


def chosen(scop: Scop, schedule: KernelSchedule) -> frozenset[str]:
    """The placed statements that do nothing but choose between regions."""
    found = [p for p in schedule.placed if p.role == "compute"]
    bodies = [(p.name, scop.statements[p.value]) for p in found]
    return frozenset([name for name, s in bodies if isinstance(s, Statement) and not _computes(s)])


def _computes(statement: Statement) -> bool:
    return statement.monoid is not None or any(isinstance(decided(body), Apply) for body in statement.body)


RARE = 16
"""One block in so many is at the border, at most: of two halves of a result each has its own reads."""


def _is_rare(condition: Affine, sizes: Sizes) -> bool:
    """Whether ``condition >= 0`` holds in the first or the last few blocks alone, for any thread of them."""
    most, moving = condition.constant, list[tuple[int, int]]()
    for atom, factor in condition.terms:
        if not isinstance(atom, str):
            return False
        if not atom.startswith("$"):
            most += factor * sizes.hints.get(atom, 1)
        elif sizes.kind[atom[1:]] == "block":
            moving.append((factor, sizes.extent[atom[1:]]))
        else:
            most += max(factor * (sizes.extent[atom[1:]] - 1), 0)
    if len(moving) != 1:
        return False
    factor, count = moving[0]
    blocks = most // -factor + 1 if factor < 0 else count + most // factor
    return RARE * min(max(blocks, 0), count) <= count


@lru_cache(maxsize=100_000)
def decided(term: Expr) -> Expr:
    """A body without choices between regions: where blocks decide them, one operand is all that is computed."""
    if not isinstance(term, Apply):
        return term
    if term.function == "where" and isinstance(term.operands[0], Inside):
        return max(map(decided, term.operands[1:]), key=_applied)
    return replace(term, operands=tuple([decided(o) for o in term.operands]))


def _applied(term: Expr) -> int:
    return 1 + sum(map(_applied, term.operands)) if isinstance(term, Apply) else 0
