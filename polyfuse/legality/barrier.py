"""Barriers: none of two touches of one shared cell by different threads is a write unless a barrier lies between.

The order tree is walked once; per stretch of it the walk keeps what has been touched since the last barrier when it
ends, and what is touched before the first barrier.  Around a loop the end of one pass meets the beginning of the next.

    for k: {put; get; get}      put meets get in one pass; get meets put of the next pass
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.enumerated_cells import are_apart
from polyfuse.legality.relations import BARRIER, Proof, coordinates, equalities, prime, primed, same
from polyfuse.schedule import Finish, LoopNest, Placed, TreeItem
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


@dataclass(frozen=True, slots=True)
class Touch:
    """A put or get; `passes`: in which passes of loops around it, where that is known."""

    move: Placed
    passes: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Meeting:
    """No barrier lies between `first` and `second`.  They run in the same pass of `loops`, and then in the same pass of
    `carried` too, in a later one, or (`next_pass`) in the next one."""

    first: Touch
    second: Touch
    loops: tuple[str, ...]
    carried: str = ""
    next_pass: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """`heads`: touched before the first barrier; `tails`: after the last one; `sealed`: there is a barrier."""

    heads: tuple[Touch, ...]
    tails: tuple[Touch, ...]
    sealed: bool
    meetings: tuple[Meeting, ...]


def synchronised(proof: Proof) -> Verdict:
    """Every meeting of which one side is a put is of a single thread."""
    for meeting in _walk(proof, proof.schedule.order, ()).meetings:
        verdict = _conflict(proof, meeting)
        if not verdict:
            return verdict
    return LEGAL


# ---------------------------------------------------------------------------------------------- the walk


def _walk(proof: Proof, items: Sequence[TreeItem], loops: tuple[str, ...]) -> Stretch:
    heads: tuple[Touch, ...] = ()
    tails: tuple[Touch, ...] = ()
    sealed, meetings = False, list[Meeting]()
    for item in items:
        part = _item(proof, item, loops)
        if part is None:
            tails, sealed = (), True
            continue
        meetings += (*part.meetings, *_meet(tails, part.heads, loops))
        if not sealed:
            heads += part.heads
        tails = part.tails if part.sealed else tails + part.tails
        sealed = sealed or part.sealed
    return Stretch(heads, tails, sealed, tuple(meetings))


def _item(proof: Proof, item: TreeItem, loops: tuple[str, ...]) -> Stretch | None:
    """None for a barrier."""
    if isinstance(item, LoopNest):
        return _around(proof, item, loops)
    if isinstance(item, Finish):  # its barriers seal nothing: blocks that are not elected skip them
        return replace(_walk(proof, item.items, loops), sealed=False)
    if item == BARRIER:
        return None
    move = proof.placed[item]
    if move.role not in ("put", "get"):
        return Stretch((), (), False, ())
    touch = Touch(move)
    own = (Meeting(touch, touch, loops),) if move.role == "put" else ()
    return Stretch((touch,), (touch,), False, own)


def _around(proof: Proof, nest: LoopNest, loops: tuple[str, ...]) -> Stretch:
    body = _walk(proof, nest.items, (*loops, nest.digit))
    carried = [
        replace(m, carried=nest.digit, next_pass=body.sealed) for m in _meet(body.tails, body.heads, loops)
    ]
    if not body.sealed:
        return Stretch(body.heads, body.tails, False, (*body.meetings, *carried))
    counter, extent = Affine.symbol(f"${nest.digit}"), proof.digits[nest.digit].extent
    first, last = sets.equal(counter, Affine.of(0)), sets.equal(counter, extent - 1)
    runs = sets.implied(extent - 1, proof.sizes)  # a loop that may be skipped seals nothing
    return Stretch(
        tuple(replace(t, passes=(*t.passes, first)) for t in body.heads),
        tuple(replace(t, passes=(*t.passes, last)) for t in body.tails),
        runs,
        (*body.meetings, *carried),
    )


def _meet(tails: Iterable[Touch], heads: Iterable[Touch], loops: tuple[str, ...]) -> list[Meeting]:
    """Pairs that touch one box and of which one writes."""
    return [
        Meeting(a, b, loops)
        for a, b in product(tails, heads)
        if a.move.value == b.move.value and "put" in (a.move.role, b.move.role)
    ]


# ---------------------------------------------------------------------------------------------- the question


def _conflict(proof: Proof, meeting: Meeting) -> Verdict:
    """Two threads of a block touch one cell."""
    first, second = meeting.first.move, meeting.second.move
    if first is second and not meeting.carried and _cells_apart(proof, first):
        return LEGAL
    digits = {m.name: _digits(proof, m) for m in (first, second)}
    ours = digits[first.name] - proof.names("block")
    names, others = coordinates("i", len(first.place)), coordinates("j", len(second.place))
    thread = Affine.of(0)
    for d in proof.schedule.of_kind("thread"):
        thread += Affine.symbol(f"${d.name}") * d.stride
    base = (
        *equalities(names, [prime(e, ours) for e in proof.index(first)]),
        *equalities(others, proof.index(second)),
        *primed((*proof.box(digits[first.name]), *proof.executes(first), *meeting.first.passes), ours),
        *proof.box(digits[second.name]),
        *proof.executes(second),
        *meeting.second.passes,
        *(sets.equal(prime(a, ours), b) for a, b in zip(proof.local(first), proof.local(second), strict=True)),
        *same(meeting.loops),
        *_later(meeting),
    )
    apart = prime(thread, ours) - thread
    for differ in (-apart - 1,) if first is second and not meeting.carried else (-apart - 1, apart - 1):
        point = sets.sample(proof.relation((*names, *others), (*base, Constraint(differ))))
        if point is not None:
            witness = proof.witness(point, (first.name, names), (second.name, others))
            return illegal(Hazard.BARRIER, _sentence(proof, first, second), witness, rule="barrier")
    return LEGAL


def _cells_apart(proof: Proof, put: Placed) -> bool:
    """No two threads or slots put into one cell, in any one pass of the loops around."""
    if (apart := are_apart(proof, put)) is not None:
        return apart
    digits = _digits(proof, put)
    dealt = sorted(digits & (proof.names("thread") | proof.names("slot")))
    fixed = [f"${d}" for d in sorted(digits.difference(dealt))]
    cells = coordinates("i", len(put.place))
    constraints = (*equalities(cells, proof.local(put)), *proof.box(digits), *proof.executes(put))
    return sets.determines(proof.relation((*cells, *fixed, *(f"${d}" for d in dealt)), constraints), (*cells, *fixed))


def _digits(proof: Proof, move: Placed) -> frozenset[str]:
    return proof.digits_of(move) | proof.names("thread") | proof.used(*proof.local(move))


def _later(meeting: Meeting) -> tuple[Constraint, ...]:
    if not meeting.carried:
        return ()
    distance = Affine.symbol(f"${meeting.carried}") - Affine.symbol(f"${meeting.carried}'")
    return (sets.equal(distance, Affine.of(1)) if meeting.next_pass else Constraint(distance - 1),)


def _sentence(proof: Proof, first: Placed, second: Placed) -> str:
    """For example: x is read after it was written by other threads with no barrier between."""
    verb = "read" if second.role == "get" else "overwritten"
    what = "it was read" if first.role == "get" else "it was written"
    return f"{proof.name(second)} is {verb} after {what} by other threads with no barrier between"
