"""Conditions that hold, or do not, at some places of a slot wherever a kernel runs: nothing has to ask for them there.

    rows of 2056 to 3065 halves, three vectors a lane:      j = 1024*c + 8*t + v - s,  t < 128,  s < 8
    j >= 0          can fail at c = 0 alone
    n - 1 - j >= 0  can fail at c = 2 alone

Only the ends of a row are masked then.  How long rows are at least is a guard of the plan.  Of rows of 300, 500 and 701
halves that are joined, dealt alike, the first piece has nothing at c > 0: nothing of it is loaded there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.border import masks
from polyfuse.lower.context import Context
from polyfuse.lower.inspect import flatten
from polyfuse.schedule import Digit


def settled(ops: Sequence[ir.Op], slots: Sequence[Digit], context: Context) -> tuple[ir.Settled, ...]:
    """What holds of the conditions of `ops`, at all places of the outermost slot that moves them and some other.

    Of vectors that begin anywhere also what holds a vector further: the aligned ones that they are made of end there.
    """
    further = dict.fromkeys(_further(ops, slots))
    cut = {w for op in flatten(ops) if isinstance(op, ir.Load | ir.Store) and op.vector > 1 for w in op.where}
    conditions = dict.fromkeys((*masks(ops), *further))
    found: list[ir.Settled | None] = []
    for w in conditions:
        moving = slots[:-1] if w in cut or w in further else slots
        found.append(_settled(w, moving, context))
        if w in cut and -w - 1 not in conditions:  # of vectors: single elements are masked alike
            found.append(_settled(-w - 1, moving, context))
    return tuple([one for one in found if one is not None])


def _further(ops: Sequence[ir.Op], slots: Sequence[Digit]) -> Iterator[Affine]:
    for op in flatten(ops):
        if isinstance(op, ir.Load) and op.across:
            yield from (w - op.vector for w in op.where if w.coefficient(f"${slots[-1].name}") < 0)


def _settled(condition: Affine, slots: Sequence[Digit], context: Context) -> ir.Settled | None:
    moving = [s for s in slots if s.count > 1 and f"${s.name}" in condition.names()]
    walked = condition.remainders()[0]
    if not moving or any(name.startswith("$b") for name in walked.names()):
        return None  # what blocks differ in holds for none or for all
    slot, name = moving[0], f"${moving[0].name}"
    factor = condition.coefficient(name)
    if not factor or name in (condition - Affine.symbol(name) * factor).names():
        return None
    places = range(slot.count) if factor > 0 else range(slot.count - 1, -1, -1)
    for number, place in enumerate(places):  # the further on, the more it holds
        if context.implies(condition.substitute({name: place})):
            left = slot.count - number
            return ir.Settled(condition, slot.name, *((number, slot.count) if factor > 0 else (0, left)))
    return None
