"""Repeated parts of a program are recognised as alike, whatever the digests of their operands are, and priced once."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import polyfuse as pf
from polyfuse.planning.likeness import Likeness
from polyfuse.scop import Scop


def products(a: Any, b: Any) -> Any:
    return tuple(a[k] @ b[k].T for k in range(12))


def _scop() -> Scop:
    return pf.jit(products, library=False).plan(*[pf.spec("f32[12, 64, 32]")] * 2, target="h200", fuse=False).scop


def _groups(scop: Scop, count: int) -> list[tuple[frozenset[int], frozenset[int], frozenset[int]]]:
    """Kernels of `count` neighbouring products each."""
    parts = []
    for root in scop.outputs:
        (product,) = scop.operands(root)
        parts.append((frozenset((root, product)), frozenset((root,)), frozenset(scop.operands(product))))
    runs = [parts[k : k + count] for k in range(len(parts) - count + 1)]
    return [tuple(frozenset().union(*sets) for sets in zip(*run, strict=True)) for run in runs]  # type: ignore[misc]


def test_products_of_parts_of_the_same_arrays_have_their_operands_in_one_order() -> None:
    scop = _scop()
    assert len({scop.operands(next(iter(scop.operands(root)))) for root in scop.outputs}) == 1


def test_kernels_of_as_many_neighbouring_parts_are_alike() -> None:
    likeness = Likeness(_scop(), {})
    for count in (1, 2, 3):
        assert len({likeness.key(*group) for group in _groups(likeness.scop, count)}) == 1


def test_parts_that_lie_elsewhere_to_each_other_are_not() -> None:
    likeness = Likeness(_scop(), {})
    parts = [_groups(likeness.scop, 1)[k] for k in (0, 1, 3)]
    pairs = [tuple(a | b for a, b in zip(one, other, strict=True)) for one, other in combinations(parts, 2)]
    assert len({likeness.key(*pair) for pair in pairs}) == 3  # type: ignore[arg-type]
