"""Levels at which values live and partial results meet, read off a schedule."""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.schedule import KernelSchedule, Placed, Scope
from polyfuse.scop import Scop, Statement

WARP = 32  # threads whose registers a shuffle reaches


def scope_of(schedule: KernelSchedule, value: int) -> Scope:
    """Where a value of the kernel lives: the outermost of the homes that the proof established for it."""
    if value in schedule.roots:
        return Scope.GLOBAL
    if any(box.value == value for box in schedule.shared):
        return Scope.SHARED
    waiting = schedule.cells.values if schedule.cells is not None else ()
    return Scope.SPLIT if any(p.value == value and p.name in waiting for p in schedule.placed) else Scope.REGISTER


def reduced_digits(scop: Scop, placed: Placed) -> frozenset[str]:
    """Digits along which the partial results of a reduction lie, or a scan runs."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or statement.monoid is None:
        return frozenset()
    dims = statement.reduced if statement.scanned is None else (statement.scanned,)
    entries = [e for e in (placed.place[d] for d in dims) if isinstance(e, Affine)]
    return frozenset(n[1:] for e in entries for n in e.steps() if n.startswith("$"))


def combine_level(scop: Scop, schedule: KernelSchedule, placed: Placed) -> str:
    """The widest level at which partial results of a reduction meet: ``thread``, ``warp``, ``block``, ``cluster``,
    ``grid``, ``atomic`` for memory, where blocks merge their shares; empty for other statements."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or statement.monoid is None:
        return ""
    digits = [schedule.digit(name) for name in reduced_digits(scop, placed)]
    if statement.run:  # blocks hold runs of their own
        digits = [d for d in digits if d.kind != "block"]
    if any(d.kind == "block" for d in digits) or any(g.reduction == placed.name for g in schedule.grid_combine):
        return "atomic" if placed.value in schedule.filled else "grid"
    threads = [d for d in digits if d.kind == "thread" and d.count > 1]
    if not threads:
        return "thread"
    reach = max(d.stride * d.count for d in threads)
    return "warp" if reach <= WARP else "block" if reach <= schedule.block_threads else "cluster"
