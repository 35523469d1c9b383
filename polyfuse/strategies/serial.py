"""The fallback that always exists: one thread per element of the lead, loops over everything that is reduced."""

from __future__ import annotations

from math import prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, loop, mixed, power_above, thread


def serial(situation: Situation) -> list[Proposal]:
    """A single proposal; slow where it wins nothing else, right everywhere a statement stands alone.

    Roots that do not run along all parallel classes would be recomputed for every element of the others: no proposal.
    """
    axes = situation.axes
    lead = {a.number for a in situation.classes.statement(situation.lead)}
    if any(a.number not in lead for a in axes if not a.reduced_by and not a.scanned_by):
        return []
    over = [a for a in axes if a.reduced_by or a.scanned_by]
    kept = [a for a in axes if a not in over]
    cpu = situation.target.kind == "cpu"
    digits: list[Digit] = []
    loops: list[Digit] = []
    splits: dict[int, Affine] = {}
    most = _most_threads(situation, prod(a.size(situation.hints) for a in kept))
    for k, axis in enumerate(kept):
        last = axis is kept[-1]
        width = situation.tiles.get("threads") or min(most, max(32, power_above(axis.size(situation.hints))))
        lanes = 1 if cpu or not last else width
        b = block(f"b{k}", axis.extent.ceildiv(lanes))
        t = thread("t", 1, lanes) if lanes > 1 else None
        digits += [b, *([t] if t else [])]
        splits[axis.number] = mixed((b, lanes), (t, 1))
    if not kept and not cpu:
        digits.append(thread("t", 1, 32))
    threads = next((d.count for d in digits if d.kind == "thread"), 1)
    for k, axis in enumerate(over):
        run = block(f"b{len(kept) + k}", axis.extent.ceildiv(axis.run)) if axis.run else None
        r = loop(f"r{k}", Affine.of(axis.run) if axis.run else axis.extent)
        digits += [run] if run else []
        loops.append(r)
        splits[axis.number] = mixed((run, axis.run), (r, 1))
    return [
        Proposal(
            "serial",
            (("threads", threads),),
            kept_digits([*digits, *loops], keep_threads=True),
            anchors(situation, splits),
            loops=tuple(d.name for d in loops),
        )
    ]


def _most_threads(situation: Situation, rows: int) -> int:
    """Threads of a block; where recurrences leave few rows, a warp, so that they reach all processors."""
    recurrent = any(s.lags for s in situation.scans)
    return 32 if recurrent and rows < 128 * situation.target.processors else 128
