"""Where a reduction, a prefix or a total may be computed at all: what no kernel could do is refused before any proof.

    s[i] = sum(x[i, j], j)    j = 32*c + t,  needed at i = t     refused: thread t has parts of all results
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from polyfuse import sets
from polyfuse.affine import ZERO, Affine
from polyfuse.places.refused import Refused
from polyfuse.schedule import Digit, PlaceEntry
from polyfuse.scop import Statement
from polyfuse.sets import Constraint
from polyfuse.verdict import Hazard, illegal


def check_reduction(statement: Statement, place: Sequence[Affine], loops: Sequence[str]) -> None:
    """Kept and reduced dimensions must not share digits: one thread would hold parts of several results.  Raises
    Refused."""
    if not statement.reduced:
        return
    over = frozenset().union(*[place[d].steps() for d in statement.reduced])
    _check_loops(statement, over, place, loops)
    for dim in statement.kept:
        clash = {n for n in over & place[dim].names() if n.startswith("$")}
        if clash:
            sentence = (
                f"{statement.name} is needed at {place[dim]} along dimension {dim}, where the digits "
                f"{', '.join(sorted(clash))} already enumerate what it reduces: its results are needed in "
                "threads or blocks that do not compute them"
            )
            raise Refused(illegal(Hazard.SCOPE, sentence, rule="scope"))


def _check_loops(
    statement: Statement, over: frozenset[str], place: Sequence[Affine], loops: Sequence[str]
) -> None:
    """Accumulators live in registers: no loop that enumerates results may lie inside one that is summed over."""
    kept = frozenset().union(*[place[d].names() for d in statement.kept])
    summed = [k for k, loop in enumerate(loops) if f"${loop}" in over]
    for k, loop in enumerate(loops):
        if f"${loop}" in kept and summed and k > summed[0]:
            sentence = (
                f"the partial results of {statement.name} along loop {loop} would have to outlive its "
                f"iterations while loop {loops[summed[0]]} goes on"
            )
            raise Refused(illegal(Hazard.SCOPE, sentence, rule="scope"))


def check_scan(
    statement: Statement, place: Sequence[Affine], digits: Mapping[str, Digit], in_order: Collection[str] = ()
) -> None:
    """A prefix runs inside one block, or through blocks along a digit `in_order`, and forwards; whether it is complete
    and in order is for the proof to say.  Raises Refused."""
    if statement.scanned is None:
        return
    at = place[statement.scanned]
    if at.terms and not any(isinstance(atom, str) for atom, _ in at.terms):
        sentence = f"the prefix {statement.name} is needed at {at}, where several threads or blocks have each element"
        raise Refused(illegal(Hazard.COMBINE, sentence, rule="scan"))
    for atom, factor in at.remainders()[0].terms:  # what remainders alone have says where a row begins: no step
        digit = digits.get(atom[1:]) if isinstance(atom, str) else None
        if statement.lags and digit is not None and digit.kind in ("thread", "slot"):
            sentence = f"the recurrence {statement.name} is needed at {at}, in several threads or slots at a time"
            raise Refused(illegal(Hazard.COMBINE, sentence, rule="scan"))
        apart = statement.run and factor % statement.run == 0  # a block of its own for every run
        apart = apart or digit is not None and digit.name in in_order
        if digit is not None and (digit.kind == "block" and not apart or factor < 0):
            where = "crosses blocks" if digit.kind == "block" else "runs from the last element to the first"
            sentence = f"the prefix {statement.name} is needed at {at}, where it {where}"
            raise Refused(illegal(Hazard.COMBINE, sentence, rule="scan"))
    later = at.is_linear and at.constant > 0
    if later or not any(name.startswith("$") for name in at.names()) and at != ZERO:
        sentence = f"the prefix {statement.name} is needed at {at}, without the elements before it"
        raise Refused(illegal(Hazard.COMBINE, sentence, rule="scan"))


def check_carried(statement: Statement, place: Sequence[Affine], path: Sequence[tuple[str, int]]) -> None:
    """What a prefix is so far is handed from one trip of its loop to the next in registers, of one row: no loop inside
    goes on to another.  Raises Refused: the proof would, of each such kernel anew."""
    if statement.scanned is None:
        return
    along = place[statement.scanned].names()
    others = frozenset().union(*[entry.names() for d, entry in enumerate(place) if d != statement.scanned])
    loops = [f"${loop}" for loop, _ in path]
    first = next((k for k, loop in enumerate(loops) if loop in along), len(loops))
    inside = next((loop for loop in loops[first:] if loop in others and loop not in along), None)
    if inside is not None:
        rows = f"other rows, to which the loop {inside[1:]} inside of its own goes on"
        raise Refused(illegal(Hazard.RAW, f"the prefix of {statement.name} would take in {rows}", rule="scan"))


def check_elected(statement: Statement, place: Sequence[Affine], along: str) -> None:
    """Any block along a digit may be the last to arrive, and it runs for all of them.  Raises Refused."""
    if any(f"${along}" in e.names() for e in place):
        sentence = f"{statement.name} needs totals over the blocks along {along}, which deal its own elements"
        raise Refused(illegal(Hazard.SCOPE, sentence, rule="scope"))


def check_shares(
    statement: Statement, digit: str, place: Sequence[PlaceEntry], digits: Mapping[str, Digit]
) -> None:
    """Blocks that differ in `digit` each store their share of a reduction at `place`; ones that differ otherwise have
    places of their own.  Raises Refused: the proof would, of each such kernel anew."""
    named = frozenset().union(*[entry.names() for entry in place if isinstance(entry, Affine)])
    for other in digits.values():
        alone = other.name == digit or other.extent == Affine.of(1)
        if other.kind == "block" and not alone and f"${other.name}" not in named:
            sentence = f"all blocks along {other.name} would store one share of {statement.name}"
            raise Refused(illegal(Hazard.WAW, sentence, rule="scope"))


def check_finish(statement: Statement, digit: str, place: Sequence[PlaceEntry]) -> None:
    """The elected block is any of those that differ in `digit`: nothing that it finishes may depend on which.  Raises
    Refused."""
    for entry in place:
        if not isinstance(entry, Affine) or f"${digit}" in entry.names():
            sentence = (
                f"{statement.name} is complete only after all blocks along {digit} have stored their share, "
                f"but is needed at {entry}, in particular ones of them"
            )
            raise Refused(illegal(Hazard.SCOPE, sentence, rule="scope"))


def check_reached(
    statement: Statement, place: Sequence[Affine], digits: Mapping[str, Digit], sizes: Sequence[Constraint]
) -> None:
    """What runs along no dimension that blocks are dealt is stored by all of them, and by nobody where `sizes` leave no
    block: of a kernel over the later pieces of a row that has one piece.  Raises Refused."""
    used = frozenset[str]().union(*[entry.names() for entry in place])
    for digit in digits.values():
        if digit.kind != "block" or f"${digit.name}" in used or digit.extent.is_constant:
            continue
        least = {name: int(Constraint(Affine.symbol(name) - 1) in sizes) for name in digit.extent.names()}
        if digit.extent.evaluate(least) < 1 and not sets.implied(digit.extent - 1, sizes):
            sentence = f"{statement.name} is stored by no block where there is none along {digit.name}"
            raise Refused(illegal(Hazard.COVERAGE, sentence, rule="coverage"))
