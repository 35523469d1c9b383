"""Values in two parts, registers and cells of shared memory: the parts are of one slot, and nothing mixes them."""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.legality.relations import Proof
from polyfuse.places.cells import results_along
from polyfuse.verdict import Hazard

MIXING = ("take", "put", "get", "partial", "total", "atomic")
"""Roles that move registers to others, of the thread or of other threads."""


def apart(proof: Proof) -> Iterator[tuple[Hazard, str]]:
    """Cells belong to a slot of which some places are registers and some are not; a place is in one part from where it
    is computed to where it is read, because no loop comes back to it and no move changes it.  A thread touches its own
    cells alone, hence no barrier."""
    schedule = proof.schedule
    cells = schedule.cells
    if cells is None:
        return
    slot = next((d for d in schedule.of_kind("slot") if d.name == cells.slot), None)
    if slot is None or not 0 < cells.first < slot.count:
        count = 0 if slot is None else slot.count
        yield Hazard.CAPACITY, f"cells hold the places of {cells.slot} from {cells.first} on, of {count}"
    if cells.piece < 0:
        yield Hazard.CAPACITY, f"cells in pieces of {cells.piece} places"
    mixing = [p.name for p in schedule.placed if p.role in MIXING]
    mixing += [p.name for p in schedule.placed if (s := proof.statement(p)) is not None and s.scanned is not None]
    mixing += [d.name for d in schedule.of_kind("loop")] + ["a border"] * schedule.border
    if mixing:
        yield Hazard.SCOPE, f"{mixing[0]} meets both parts of what {schedule.name} keeps in cells of its threads"
    if along := results_along(proof.scop, schedule.placed, cells.slot):
        yield Hazard.SCOPE, f"{along} has results along {cells.slot}, in cells and not while threads combine"
    unknown = [name for name in cells.values if name not in proof.placed]
    if unknown:
        yield Hazard.SCOPE, f"{unknown[0]} waits in cells, but nothing computes it"
