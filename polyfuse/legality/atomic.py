"""Shares of a reduction that blocks merge into the result itself, by atomic updates, in any order.

    fill    s[j] = 0                by an earlier launch
    atomic  s[j] += share[b1, j]    by every block along b1

Blocks take their turns as they come, so that two runs may associate differently: where that can change a bit, the user
has to allow it.  The value is whole when the kernel has ended; what reads it is in a later one.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse import sets
from polyfuse.dtypes import DType
from polyfuse.legality.grid import cell, stored_once
from polyfuse.legality.relations import Proof, coordinates, equalities
from polyfuse.scalars import FUNCTIONS, MONOIDS, in_any_order
from polyfuse.schedule import Placed
from polyfuse.scop import Statement
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def merged(proof: Proof) -> Verdict:
    """Allowed: by the user, and by the monoid.  Alone: nothing else writes the result.  Once: no share is merged twice.
    All: every share is merged."""
    for atomic in (p for p in proof.schedule.placed if p.role == "atomic"):
        for hazard, sentence in (*_forbidden(proof, atomic), *_beside(proof, atomic)):
            return illegal(hazard, sentence, rule="atomic")
        for verdict in (stored_once(proof, atomic, "atomic"), _every_share(proof, atomic)):
            if not verdict:
                return verdict
    return LEGAL


def _forbidden(proof: Proof, atomic: Placed) -> Iterator[tuple[Hazard, str]]:
    """An update takes one value, in the dtype of memory; in any order it gives what the monoid gives in one."""
    name, statement = proof.name(atomic), proof.scop.statements[atomic.value]
    if not isinstance(statement, Statement) or not statement.is_reduction or statement.monoid not in MONOIDS:
        yield Hazard.COMBINE, f"{name} is no reduction whose shares single updates merge"
        return
    if not proof.atomics and not in_any_order(statement.monoid, statement.dtypes[0]):
        yield Hazard.COMBINE, f"shares of {name} would be merged in an order that varies, which atomics=True allows"
    monoid, dtype = MONOIDS[statement.monoid], statement.dtypes[0]
    if monoid.state > 1 or not FUNCTIONS[monoid.function].commutative:
        yield Hazard.COMBINE, f"no single update merges two shares of {name}, whatever comes first"
    if dtype.compute != dtype:
        yield Hazard.COMBINE, f"{name} is summed in {dtype.compute}, and {dtype} in memory holds less"


def merged_in_any_order(name: str, monoid: str, dtype: DType, atomics: bool) -> Verdict:
    """Whether updates that data scatter over the elements of `name`, in `dtype`, may be merged as they come.

    What two updates of one element give does not depend on which is first, or may depend on it where the user allows
    `atomics`, and every update is made by one thread.
    """
    if in_any_order(monoid, dtype):
        return LEGAL
    monoids = MONOIDS.get(monoid)
    alike = monoids is not None and monoids.state == 1 and FUNCTIONS[monoids.function].commutative
    if atomics and alike and dtype.compute == dtype:
        return LEGAL
    sentence = f"updates of {name} would be merged in an order that varies, and {dtype} keeps none of its own"
    return illegal(Hazard.COMBINE, sentence, rule="atomic")


def _beside(proof: Proof, atomic: Placed) -> Iterator[tuple[Hazard, str]]:
    name = proof.name(atomic)
    if atomic.value not in proof.schedule.roots:
        yield Hazard.EFFECT, f"{atomic.name} merges shares into {name}, which is no result of the kernel"
    for other in proof.schedule.placed:
        if other is not atomic and other.value == atomic.value and other.role in ("atomic", "store"):
            yield Hazard.WAW, f"{other.name} writes {name} as well, into which blocks merge their shares"


def _every_share(proof: Proof, atomic: Placed) -> Verdict:
    """``{number of a block} x domain of the result  subset-of  merged``."""
    names, (number,) = coordinates("i", len(atomic.place)), coordinates("q", 1)
    every = (number, *names)
    blocks = proof.digits[proof.along(atomic)].extent
    need = proof.relation(every, sets.box(every, [blocks, *proof.scop.shape(atomic.value)]))
    digits = proof.digits_of(atomic) | proof.names("block")
    executed = (*equalities(every, cell(proof, atomic)), *proof.box(digits), *proof.executes(atomic))
    point = sets.difference_point(need, proof.relation(every, executed))
    if point is None:
        return LEGAL
    witness = proof.witness(point, (proof.name(atomic), names), (proof.name(atomic), names))
    sentence = f"the share {point[number]} of {witness.first} is not merged into it"
    return illegal(Hazard.COMBINE, sentence, witness, rule="atomic")
