"""What a kernel computes and loads, grown from a kernel that stands instead of walked anew."""

from __future__ import annotations

from collections.abc import Collection, Set

import pytest

from polyfuse.grouping import search
from polyfuse.grouping.partition import Partition, Sketch
from tests.grouping.model import Model, Values
from tests.grouping.programs import adversarial, realistic


def walked(state: Partition, sketch: Sketch, gone: Collection[int], made: Set[int]) -> tuple[Values, Values]:
    """By the definition: back from the roots to what is stored."""
    body, loads, todo = set(sketch.roots), set[int](), list(sketch.roots)
    while todo:
        for value in state.operands[todo.pop()]:
            stored = value in made or (value in state.owner and value not in gone)
            if state.is_input[value] or (stored and value not in sketch.again and value not in sketch.roots):
                loads.add(value)
            elif value not in body:
                body.add(value)
                todo.append(value)
    return frozenset(body), frozenset(loads)


@pytest.mark.parametrize("seed", range(12))
def test_every_kernel_that_a_search_looks_at_is_the_one_that_a_walk_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, grown, closure = 0, 0, Partition.closure

    def checked(
        state: Partition, sketch: Sketch, gone: Collection[int], made: Set[int]
    ) -> tuple[frozenset[int], frozenset[int]]:
        nonlocal found, grown
        found += 1
        grown += state._grown_from(sketch, gone, made) is not None
        known = closure(state, sketch, gone, made)
        assert known == walked(state, sketch, gone, made)
        return known

    monkeypatch.setattr(Partition, "closure", checked)
    model: Model = (realistic if seed % 2 else adversarial)(seed, 24)
    search(model, effort=2)
    assert 0 < grown < found, "both ways are taken"
