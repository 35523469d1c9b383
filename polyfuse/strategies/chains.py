"""Functions of several instructions that wait for one another: exponentials, quotients, powers."""

from __future__ import annotations

from functools import lru_cache

from polyfuse.scalars import FUNCTIONS, OF_SEVERAL
from polyfuse.strategies.situation import Situation
from polyfuse.terms import Apply, Const, Expr

MANY, AT_ONCE = 3, 16
"""Such functions of a group, and how many elements a thread computes side by side in a trip then: 32 of a focal loss,
with two exponentials, a logarithm and a quotient, take 255 registers, 536 us on an H200 and 0.9 s to compile, 16 take
438 us and half of that, and 582 where each processor has one block, which leaves the place of another free."""


def chained(situation: Situation) -> int:
    """How many of them there are for a result of every statement; a quotient by a number is a product."""
    return sum([_chained(body) for statement in situation.group.statements() for body in statement.body])


@lru_cache(maxsize=100_000)
def _chained(term: Expr) -> int:
    if not isinstance(term, Apply):
        return 0
    is_product = term.function == "divide" and isinstance(term.operands[1], Const)
    own = FUNCTIONS[term.function].cost >= OF_SEVERAL and not is_product
    return int(own) + sum([_chained(o) for o in term.operands])


def at_once(situation: Situation, chunks: int, width: int) -> int:
    """`chunks` vectors of `width` elements of a trip, or fewer on a device."""
    if situation.target.kind == "cpu" or chained(situation) < MANY:
        return chunks
    return min(chunks, max(1, AT_ONCE // width))
