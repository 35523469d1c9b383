"""Threads beyond the ends of short rows, which have no results: they pass a kernel by, and the others need no masks
for what follows from their having some.

    if 64*b0 + tx < 55:            55 results of a row, in blocks of 64 threads: no block lies inside of a row
        if 16*b1 + 16 < 55: ...    only the rows are left to be asked for
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.bindings import with_products
from polyfuse.expr import Program
from polyfuse.lower.border import LARGE, Interior, ends, masks
from polyfuse.lower.context import Context
from polyfuse.lower.inspect import flatten
from polyfuse.schedule import KernelSchedule
from polyfuse.sets import at_least_zero

MOST_INSIDE = 0.75
"""Of all blocks, up to which threads without results are asked for: one of few blocks at a border does not pay for a
branch that threads of one warp may take differently."""
SAMPLES = 64
"""Blocks along a digit that are looked at, where it has more."""
ALONE = (ir.Let, ir.Load, ir.Take, ir.Store, ir.Reduce)
"""What a thread does without any other."""


def with_results(
    ops: Sequence[ir.Op], found: Sequence[Interior], schedule: KernelSchedule, program: Program, context: Context
) -> tuple[Affine, ...]:
    """Conditions that hold for threads that store something, where few blocks lie inside and masks of loads follow;
    else none."""
    flat = list(flatten(ops))
    if not found or not all(isinstance(op, ALONE) for op in flat):
        return ()
    if sum([_inside(interior, schedule, program) for interior in found]) > MOST_INSIDE:
        return ()
    threads = {f"${d.name}" for d in schedule.of_kind("thread")}
    some = [c for c in _stored(flat, schedule) if c.names() & threads]
    if not some:
        return ()
    inner = context.assuming(at_least_zero(some))
    loads = dict.fromkeys(masks([op for op in flat if not isinstance(op, ir.Store)]))
    follows = any(inner.implies(c) and not context.implies(c) for c in loads)
    return tuple(some) if follows else ()


def _stored(flat: Iterable[ir.Op], schedule: KernelSchedule) -> tuple[Affine, ...]:
    """What holds wherever a thread stores one of its elements, whichever store it is."""
    slots = {f"${d.name}": d for d in schedule.digits if d.kind == "slot"}
    stores = [op for op in flat if isinstance(op, ir.Store)]
    most = [[e.most for c in store.where if (e := ends(c, slots)) is not None] for store in stores]
    first, *others = [{e.terms: e for e in found} for found in most] or [{}]
    for other in others:  # conditions that all have, each as weak as in any
        first = {t: max(e, other[t], key=lambda a: a.constant) for t, e in first.items() if t in other}
    return tuple(first.values())


def _inside(interior: Interior, schedule: KernelSchedule, program: Program) -> float:
    """The share of the blocks, at the sizes expected, for which the conditions of an interior hold; each digit of them
    by itself, at as many as `SAMPLES` places."""
    usual = with_products({name: max(1, program.hints.get(name, LARGE)) for name in program.symbols}, program.derived)
    blocks, share = {f"${d.name}" for d in schedule.of_kind("block")}, 1.0
    for digit in schedule.of_kind("block"):
        name, count = f"${digit.name}", max(1, digit.extent.evaluate(usual))
        own = [c for c in interior.inside if c.names() & blocks == {name}]
        at = sorted({k * count // SAMPLES for k in range(SAMPLES)} | {count - 1})
        share *= sum(all(c.evaluate({**usual, name: k}) >= 0 for c in own) for k in at) / len(at)
    return share
