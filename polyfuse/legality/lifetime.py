"""From when to when the value of a placed statement can be read, by position in the order tree alone.

    for r: {x; e; s}   y           s sums over r:  x and e end with each pass of r, s is complete after the loop
    last b: {t; y}                 totals end with what the elected block runs: no other block has them
"""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.relations import ELECTED, Proof, Time
from polyfuse.schedule import Placed
from polyfuse.sets import Constraint


def completion(proof: Proof, placed: Placed) -> Time:
    """When the value of `placed` is there: a reduction's after its outermost reduced loop, any other at once."""
    time, over = proof.times[placed.name], proof.over(placed)
    for k, (position, loop) in enumerate(time):
        if loop in over:
            return (*time[:k], (position, ""))
    return time


def common_loops(first: Time, second: Time) -> tuple[str, ...]:
    """Loops that enclose both, in the same nest."""
    found: list[str] = []
    for (p, loop), (q, other) in zip(first, second, strict=False):
        if p != q or loop != other or not loop:
            break
        found += [loop] if not loop.startswith(ELECTED) else []
    return tuple(found)


def early(proof: Proof, provider: Placed, consumer: Placed) -> bool:
    """The consumer runs when the provider has not run in this pass, or inside the loop that a reduction sums over."""
    for (p, loop), (q, other) in zip(completion(proof, provider), proof.times[consumer.name], strict=False):
        if p != q:
            return q < p
        if not loop or loop != other:
            return True
    return False


def gone(proof: Proof, provider: Placed, consumer: Placed) -> bool:
    """The provider lies in a loop that has ended when the consumer runs: each pass overwrote the registers of the one
    before."""
    for (p, loop), (q, other) in zip(completion(proof, provider), proof.times[consumer.name], strict=False):
        if p != q or loop != other:
            return bool(loop) and q > p
        if not loop:
            break
    return False


def earlier(proof: Proof, first: Placed, second: Placed) -> list[tuple[Constraint, ...]]:
    """The disjuncts of ``time(first) <lex time(second)``, the first's loops primed."""
    found: list[tuple[Constraint, ...]] = []
    equal: list[Constraint] = []
    for (p, loop), (q, other) in zip(proof.times[first.name], proof.times[second.name], strict=False):
        if p != q:
            return [*found, tuple(equal)] if p < q else found
        if not loop or loop != other:
            return found
        if loop.startswith(ELECTED):
            continue  # both run in the one block elected
        ours, theirs = Affine.symbol(f"${loop}'"), Affine.symbol(f"${loop}")
        found.append((*equal, Constraint(theirs - ours - 1)))
        equal.append(sets.equal(ours, theirs))
    return found
