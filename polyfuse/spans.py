"""Aligned spans of memory that one access takes, and the slots whose elements lie in each.

Three bytes of each of four pixels, ``x[12*t + 3*v + o]``, are three spans of four bytes:

    v, o:   0 0 | 0 1 | 0 2 | 1 0     1 1 | 1 2 | 2 0 | 2 1     2 2 | 3 0 | 3 1 | 3 2
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from math import prod

MOST_SLOTS = 256
"""Of an access whose spans are looked for: each is text of the kernel."""


@dataclass(frozen=True, slots=True)
class Step:
    """A slot, how many it counts, and the elements of memory from one to the next; None where that is a size."""

    slot: str
    count: int
    elements: int | None


@dataclass(frozen=True, slots=True)
class Spans:
    """How the slots of an access lie in aligned spans.  `numbers`: of the spans, counted from that of the first slot,
    and of slots that step by sizes.  `varying`: slots that differ within one.  `whole`: each element of each span
    belongs to one slot."""

    numbers: frozenset[tuple[int, ...]]
    varying: frozenset[str]
    whole: bool


@lru_cache(maxsize=10_000)
def spans(steps: tuple[Step, ...], width: int, first: int = 0) -> Spans | None:
    """The spans of `width` elements of an access whose first slot is element `first` of one; None where there are too
    many slots."""
    if prod(s.count for s in steps) > MOST_SLOTS:
        return None
    groups: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
    for position in itertools.product(*(range(s.count) for s in steps)):
        at = first + sum(k * s.elements for k, s in zip(position, steps, strict=True) if s.elements is not None)
        far = [k for k, s in zip(position, steps, strict=True) if s.elements is None]
        groups.setdefault((at // width, *far), []).append((at % width, position))
    varying = [
        s.slot
        for n, s in enumerate(steps)
        if any(len({position[n] for _, position in group}) > 1 for group in groups.values())
    ]
    whole = all(sorted(at for at, _ in group) == list(range(width)) for group in groups.values())
    return Spans(frozenset(groups), frozenset(varying), whole)


def vectors_across(width: int, span: int = 0) -> int:
    """The aligned vectors of `width` elements in which a vector lies, and those that begin up to `span` further on."""
    return -(-(2 * width - 1 + span) // width)


@lru_cache(maxsize=10_000)
def read_together(begins: tuple[tuple[int, int], ...], width: int) -> tuple[tuple[int, ...], ...]:
    """Vectors of `width` elements by number, in groups of which the aligned vectors are read once, where that makes
    them fewer.  `begins`: of each its first element but for what all have in common, and the aligned vectors that it
    takes alone.

    0, 1 and 2, of two vectors each: one group of three vectors; 0 and 8: two groups, of four in all.
    """
    found: list[list[int]] = []
    taken = 0  # by the last group
    for number in sorted(range(len(begins)), key=lambda k: begins[k]):
        first, alone = begins[number]
        together = vectors_across(width, first - begins[found[-1][0]][0]) if found else 0
        if found and together < taken + alone:
            found[-1].append(number)
            taken = together
        else:
            found.append([number])
            taken = alone
    return tuple(tuple(group) for group in found)
