"""Who holds what, shared boxes and barriers."""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.relations import Proof, relation
from polyfuse.schedule import LoopNest, Placed, TreeItem
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def provided(proof: Proof) -> Verdict:
    """The provider of every read computes, loads or gets exactly the value that is read."""
    for consumer in proof.schedule.placed:
        statement = proof.statement(consumer)
        wanted = [(r.source, r.component) for r in statement.reads] if statement else None
        for k, name in enumerate(consumer.providers):
            provider = proof.placed.get(name)
            value = wanted[k][0] if wanted is not None else consumer.value
            if provider is None or provider.value != value or provider.role == "store":
                source = proof.scop.statements[value].name
                sentence = f"{consumer.name} reads {source}, but {name or 'nothing'} is given as its provider"
                return illegal(Hazard.RAW, sentence, rule="provided")
            if provider.role == "load" and wanted is not None and provider.component != wanted[k][1]:
                sentence = f"{consumer.name} reads component {wanted[k][1]} of {name}, which holds another"
                return illegal(Hazard.RAW, sentence, rule="provided")
    return LEGAL


def gathered(proof: Proof) -> Verdict:
    """Loads read memory that no statement of this kernel writes."""
    for load in (p for p in proof.schedule.placed if p.role == "load"):
        if load.value in proof.schedule.body:
            name = proof.name(load)
            sentence = f"{name} is computed by this kernel and loaded from memory in it: other blocks may not have stored it"
            return illegal(Hazard.RAW, sentence, rule="stored")
    return LEGAL


def boxed(proof: Proof) -> Verdict:
    """Gets, which carry no mask, stay inside their box."""
    boxes = {b.value: b for b in proof.schedule.shared}
    for move in (p for p in proof.schedule.placed if p.role == "get"):
        box = boxes[move.value]
        for d, (entry, origin, extent) in enumerate(zip(move.place, box.origin, box.extents, strict=True)):
            local = proof.affine(entry) - origin
            outside = _outside(proof, move, local, extent)
            if outside is not None:
                sentence = f"{box.name} is read at {outside} of a box of {extent} along dimension {d}"
                return illegal(Hazard.BOUNDS, sentence, rule="box")
    return LEGAL


def _outside(proof: Proof, move: Placed, local: Affine, extent: int) -> int | None:
    digits = proof.box({n[1:] for n in local.names() if n[0] == "$"})
    for wrong in (-local - 1, local - extent):
        constraints = (*digits, *proof.sizes, sets.Constraint(wrong), sets.equal(Affine.symbol("at"), local))
        point = sets.sample(relation(("at",), constraints, proof.scop.program.symbols))
        if point is not None:
            return point["at"]
    return None


def synchronised(proof: Proof) -> Verdict:
    """Walk the order tree with every loop run twice: between touches of one box of which one is a put, a barrier."""
    return _walk(proof, proof.schedule.order, {})


def _walk(proof: Proof, order: tuple[TreeItem, ...], touched: dict[str, str]) -> Verdict:
    """`touched`: per box the role of the last touch since a barrier (``put`` wins over ``get``)."""
    for item in order:
        if isinstance(item, LoopNest):
            for _ in range(2):
                verdict = _walk(proof, item.items, touched)
                if not verdict:
                    return verdict
        elif item == "barrier":
            touched.clear()
        elif item in proof.placed and proof.placed[item].role in ("put", "get"):
            move = proof.placed[item]
            box = move.name if move.role == "put" else move.providers[0]
            before = touched.get(box)
            if before == "put" or (before == "get" and move.role == "put"):
                name = proof.name(move)
                verb = "read" if move.role == "get" else "overwritten"
                what = "it was written" if before == "put" else "it was read"
                sentence = f"{name} is {verb} after {what} by other threads with no barrier between"
                return illegal(Hazard.BARRIER, sentence, rule="barrier")
            touched[box] = move.role
    return LEGAL
