"""Values in two parts, registers and cells of shared memory: the parts are of one slot, and nothing mixes them."""

from __future__ import annotations

from polyfuse.legality.relations import Proof
from polyfuse.places.cells import results_along
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal

MIXING = ("take", "put", "get", "partial", "total")
"""Roles that move registers to others, of the thread or of other threads."""


def apart(proof: Proof) -> Verdict:
    """Cells belong to a slot of which some places are registers and some are not; a place is in one part from where it
    is computed to where it is read, because no loop comes back to it and no move changes it.  A thread touches its own
    cells alone, hence no barrier."""
    schedule = proof.schedule
    cells = schedule.cells
    if cells is None:
        return LEGAL
    slot = next((d for d in schedule.of_kind("slot") if d.name == cells.slot), None)
    if slot is None or not 0 < cells.first < slot.count:
        count = 0 if slot is None else slot.count
        sentence = f"cells hold the places of {cells.slot} from {cells.first} on, of which there are {count}"
        return illegal(Hazard.CAPACITY, sentence, rule="cells")
    mixed = next((p for p in schedule.placed if p.role in MIXING), None)
    scans = [p for p in schedule.placed if (s := proof.statement(p)) is not None and s.scanned is not None]
    if mixed is not None or schedule.of_kind("loop") or schedule.border or scans:
        what = mixed.name if mixed is not None else scans[0].name if scans else "a loop or a border"
        sentence = f"{schedule.name} keeps values in cells of its threads beside {what}, which both parts would meet in"
        return illegal(Hazard.SCOPE, sentence, rule="cells")
    if along := results_along(proof.scop, schedule.placed, cells.slot):
        sentence = f"{along} has results along {cells.slot}, in cells and not while threads combine"
        return illegal(Hazard.SCOPE, sentence, rule="cells")
    unknown = [name for name in cells.values if name not in proof.placed]
    if unknown:
        return illegal(Hazard.SCOPE, f"{unknown[0]} waits in cells, but nothing computes it", rule="cells")
    return LEGAL
