"""Prefix scans: legal where place and time increase along the scanned dimension.

A prefix runs through loops in their order, or through slots that hold the pieces of a block, then through threads by
their index, then through one slot; each level adds the exclusive prefix of its predecessors' totals.  A reverse scan
runs through threads and slots from the last to the first, so its loops must visit the last elements first.  A scan of
runs starts anew in each: blocks may divide them.

Where the schedule says so (`GridScan`), the first level is that of blocks in the order in which they begin: a block
waits for totals of blocks that have begun before it, which wait for earlier ones in turn, so the first of all that are
not done never waits.  That every element comes into prefixes of later blocks alone is what `_increasing` proves.
"""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.combine import meeting
from polyfuse.legality.relations import Proof, coordinates, equalities, prime, primed, within
from polyfuse.schedule import Placed, scanned_slots
from polyfuse.scop import Statement
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def scanned(proof: Proof) -> Verdict:
    """Levels: the machine's prefix can run through them.  Increasing: what runs before an element lies before it, in
    the same row and run.  Complete: every element of these before one that is held runs with it."""
    for placed in proof.schedule.placed:
        statement = proof.statement(placed)
        if statement is None or statement.scanned is None:
            continue
        steps, _ = proof.affine(placed.place[statement.scanned]).remainders()  # which say where a row begins in memory
        over = proof.used(steps)
        together = meeting(proof, placed, over) | _blocks(proof, placed)
        for verdict in (
            _levels(proof, placed, together),
            _increasing(proof, placed, statement, together),
            _complete(proof, placed, statement, together),
        ):
            if not verdict:
                return verdict
    return LEGAL


def _blocks(proof: Proof, placed: Placed) -> frozenset[str]:
    """The block digits through which a prefix goes on."""
    return frozenset([scan.digit for scan in proof.schedule.grid_scans if scan.scan == placed.name])


def _slots(proof: Proof, placed: Placed, together: frozenset[str]) -> tuple[list[str], list[str]]:
    """The slots that a prefix runs through, of pieces and inside of a thread's turn."""
    statement = proof.statement(placed)
    assert statement is not None and statement.scanned is not None
    return scanned_slots(placed.place[statement.scanned], proof.schedule.digits, together)


def _levels(proof: Proof, placed: Placed, together: frozenset[str]) -> Verdict:
    name = proof.name(placed)
    statement = proof.statement(placed)
    if statement is not None and statement.lags:
        return _trips(proof, placed, statement, together)
    loops = [loop for loop in proof.loops(placed) if loop in together]
    if _blocks(proof, placed) and loops:
        sentence = f"the prefix {name} goes on from block to block before the loop over {loops[0]} has its total"
        return illegal(Hazard.COMBINE, sentence, rule="scan")
    pieces, inner = _slots(proof, placed, together)
    if max(len(pieces), len(inner)) > 1 or pieces and loops:
        sentence = f"the prefix {name} runs through several register slots: {', '.join([*pieces, *inner])}"
        return illegal(Hazard.COMBINE, sentence, rule="scan")
    reach = 0
    for d in sorted((d for d in proof.schedule.of_kind("thread") if d.name in together), key=lambda d: d.stride):
        if d.count & (d.count - 1) or d.stride & (d.stride - 1) or (reach and d.stride != reach):
            sentence = f"the prefix {name} runs through threads that are not consecutive bits of the thread index"
            return illegal(Hazard.COMBINE, sentence, rule="scan")
        reach = d.stride * d.count
    return LEGAL


def _trips(proof: Proof, placed: Placed, statement: Statement, together: frozenset[str]) -> Verdict:
    """A recurrence hands its values from trip to trip of one loop, an element each: nothing joins two parts of it."""
    assert statement.scanned is not None
    loops = [loop for loop in proof.loops(placed) if loop in together]
    at = proof.affine(placed.place[statement.scanned])
    if set(loops) == together and at == (Affine.symbol(f"${loops[0]}") if len(loops) == 1 else Affine.of(0)):
        return LEGAL
    sentence = f"the recurrence {proof.name(placed)} is placed at {at}, which is not one trip of a loop after the other"
    return illegal(Hazard.COMBINE, sentence, rule="scan")


def _sequence(
    proof: Proof, placed: Placed, statement: Statement, together: frozenset[str]
) -> list[tuple[str, Constraint]]:
    """The digits of a prefix from the slowest to the fastest, each with the condition that the primed execution comes
    first: in an earlier block or pass, a lower thread or slot, or a higher one where the machine runs in reverse."""
    loops = [*sorted(_blocks(proof, placed)), *(loop for loop in proof.loops(placed) if loop in together)]
    threads = sorted((d for d in proof.schedule.of_kind("thread") if d.name in together), key=lambda d: -d.stride)
    pieces, slots = _slots(proof, placed, together)
    inner = [*pieces, *(d.name for d in threads), *slots]
    found = []
    for d in (*loops, *inner):
        distance = Affine.symbol(f"${d}") - Affine.symbol(f"${d}'")
        found.append((d, Constraint((-distance if statement.reverse and d in inner else distance) - 1)))
    return found


def _increasing(proof: Proof, placed: Placed, statement: Statement, together: frozenset[str]) -> Verdict:
    """Of two executions that meet, the one that enters the other's prefix (primed) holds an element before it."""
    assert statement.scanned is not None
    names, others = coordinates("i", len(placed.place)), coordinates("j", len(placed.place))
    place = [proof.affine(e) for e in placed.place]
    element, extent = place[statement.scanned], statement.extents[statement.scanned]
    digits = proof.digits_of(placed)
    moving = digits & together
    base = (
        *equalities(names, [prime(e, moving) for e in place]),
        *equalities(others, place),
        *proof.box(digits),
        *proof.valid(placed),
        *primed((*proof.box(moving), *within([element], [extent])), moving),
    )
    ahead = [prime(e, moving) - e for e in place]
    wrong = [-ahead[statement.scanned] if statement.reverse else ahead[statement.scanned]]  # not before, or the same
    for dim, distance in enumerate(ahead):
        if dim != statement.scanned and proof.used(place[dim]) & together:
            wrong += [distance - 1, -distance - 1]  # another row
    if statement.run:
        apart = prime(element, moving) // statement.run - element // statement.run
        wrong += [apart - 1, -apart - 1]  # another run
    before: list[Constraint] = []
    for d, earlier in _sequence(proof, placed, statement, together):
        for fault in wrong:
            point = sets.sample(proof.relation((*names, *others), (*base, *before, earlier, Constraint(fault))))
            if point is not None:
                witness = proof.witness(point, (statement.name, names), (statement.name, others))
                sentence = f"the prefix of {witness.second} would take in {witness.first}"
                return illegal(Hazard.RAW, sentence, witness, rule="scan")
        before.append(sets.equal(Affine.symbol(f"${d}"), Affine.symbol(f"${d}'")))
    return LEGAL


def _complete(proof: Proof, placed: Placed, statement: Statement, together: frozenset[str]) -> Verdict:
    """Every element in front of one that a block holds is executed by the block."""
    assert statement.scanned is not None
    element = proof.affine(placed.place[statement.scanned])
    extent = statement.extents[statement.scanned]
    place = [proof.affine(e) for e in placed.place]
    names = coordinates("i", len(place))
    own, (at,) = names[statement.scanned], coordinates("j", 1)
    blocks = proof.used(element) - together
    fixed = tuple(f"${d}" for d in sorted(blocks))
    mine, other = Affine.symbol(own), Affine.symbol(at)
    in_front = Constraint(other - mine - 1 if statement.reverse else mine - other - 1)
    held = (*equalities(names, place), *proof.box(proof.digits_of(placed) | blocks), *proof.valid(placed))
    same_run = (sets.equal(mine // statement.run, other // statement.run),) if statement.run else ()
    need = (*held, Constraint(other), Constraint(extent - other - 1), in_front, *same_run)
    have = (sets.equal(other, element), *proof.box(together | blocks))
    every = (*names, at, *fixed)
    point = sets.difference_point(proof.relation(every, need), proof.relation(every, have))
    if point is None:
        return LEGAL
    missing = tuple(at if d == statement.scanned else names[d] for d in range(len(names)))
    witness = proof.witness(point, (statement.name, missing), (statement.name, names))
    crossing = " the prefix crosses blocks:" if blocks else ""
    sentence = f"{crossing} {witness.first} does not enter the prefix {witness.second}".strip()
    return illegal(Hazard.COMBINE, sentence, witness, rule="scan")
