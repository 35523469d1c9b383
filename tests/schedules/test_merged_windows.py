"""Which windows of registers become one: of all pairs the one that saves most, again and again."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from polyfuse.affine import Affine, digit
from polyfuse.places.windows import Place, windows
from polyfuse.schedule import Digit

DIGITS = {"b": Digit("b", "block", Affine.symbol("N")), "q": Digit("q", "slot", Affine.of(4))}
Box = tuple[tuple[int, int], tuple[int, int]]


def _places(seed: int, count: int) -> list[Place]:
    """Slots of a thread at `count` places near each other."""
    source = random.Random(seed)
    spread = 2 * count
    at = [(source.randrange(spread), source.randrange(6)) for _ in range(count)]
    return [(digit("b") * 64 + digit("q") + row, digit("b") * 8 + column) for row, column in dict.fromkeys(at)]


def _volume(box: Box) -> int:
    (a, b), (c, d) = box
    return (b - a + 1) * (d - c + 1)


def _union(one: Box, other: Box) -> Box:
    (a, b), (c, d) = ((min(p, r), max(q, s)) for (p, q), (r, s) in zip(one, other, strict=True))
    return (a, b), (c, d)


def _by_definition(places: list[Place]) -> list[list[Place]]:
    alive: dict[int, tuple[Box, list[Place]]] = {}
    for k, (row, column) in enumerate(places):
        box = (row.constant, row.constant + 3), (column.constant, column.constant)
        alive[k] = box, [(row, column)]
    pairs = list(combinations(alive, 2))
    while pairs:
        boxes = [(alive[a][0], alive[b][0]) for a, b in pairs]
        saved = [_volume(one) + _volume(other) - _volume(_union(one, other)) for one, other in boxes]
        if max(saved) <= 0:
            break
        a, b = pairs[saved.index(max(saved))]
        box, inside = alive.pop(b)
        alive[a] = _union(alive[a][0], box), [*alive[a][1], *inside]
        pairs = [p for p in pairs if a not in p and b not in p]
        pairs += [(min(a, c), max(a, c)) for c in alive if c != a]
    return [inside for _, inside in alive.values()]


@pytest.mark.parametrize("seed", range(20))
def test_the_pair_that_saves_most_becomes_one(seed: int) -> None:
    places = _places(seed, 3 + 2 * seed)
    found = windows(places, DIGITS, {"q"}, 1)
    assert [list(w.places) for w in found] == _by_definition(places)
    assert len(found) < len(places) or seed < 2
