"""``np.add.at`` and its kin on whole arrays, with duplicates combined in an order that the indices alone fix.

NumPy applies the updates one by one.  Device libraries add in any order, so there a scatter is a stable sort by target
and a tree over each run of equal targets::

    targets   4 1 4 1 1     sorted   1  1  1 | 4  4     neighbours combine, ranks halve:  1  1 | 4   ->   1 | 4
    updates   a b c d e              b  d  e | a  c                                      bd  e | ac      bde | ac

The order of the updates is kept ("set" keeps the last one); only the association of float sums differs from NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyfuse.expr import DataIndex, IndexEntry

FUNCTIONS = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "fmax": "fmax",
    "fmin": "fmin",
    "any": "logical_or",
    "all": "logical_and",
    "bitor": "bitwise_or",
    "bitand": "bitwise_and",
    "bitxor": "bitwise_xor",
}
"""Monoids by the name that NumPy, CuPy and torch give their operation."""


def scatter(
    base: Any, updates: Any, *operands: Any, index: tuple[IndexEntry, ...], monoid: str, bounds: str
) -> np.ndarray[Any, Any]:
    """On NumPy arrays; `operands` are the integer arrays of the index.  Raises IndexError."""
    result = np.array(base, order="C")
    at = targets(np, base.shape, updates.shape, operands, index, bounds, np.arange)
    if monoid == "set":
        result.reshape(-1)[at] = updates.reshape(-1)  # NumPy documents that the last one stays
    else:
        getattr(np, FUNCTIONS[monoid]).at(result.reshape(-1), at, updates.reshape(-1))
    return result


def targets(
    module: Any,
    shape: Sequence[int],
    over: Sequence[int],
    operands: Sequence[Any],
    index: tuple[IndexEntry, ...],
    bounds: str,
    arange: Callable[[int], Any],
) -> Any:
    """The row-major position in an array of `shape` that each update (of shape `over`) goes to, as a vector.

    Raises IndexError for positions outside where `bounds` is "raise"; "clip" moves them to the edge.
    """
    points = {f"%{k}": arange(n).reshape([-1 if d == k else 1 for d in range(len(over))]) for k, n in enumerate(over)}
    position: Any = arange(1)[0]
    for axis, (entry, extent) in enumerate(zip(index, shape, strict=True)):
        at = operands[entry.operand] if isinstance(entry, DataIndex) else entry.evaluate(points)
        if isinstance(entry, DataIndex) and 0 not in over:
            at = _in_bounds(module, at, axis, extent, bounds)
        position = position * extent + at
    return module.broadcast_to(position, tuple(over)).reshape(-1)


def _in_bounds(module: Any, at: Any, axis: int, extent: int, bounds: str) -> Any:
    if bounds == "clip":
        return module.clip(at, 0, max(extent - 1, 0))
    if bounds == "assume":
        return at
    low, high = int(at.min()), int(at.max())
    if low < 0 or high >= extent:
        wrong = low - extent if low < 0 else high  # negative indices were wrapped once
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {extent}")
    return at


def in_order(module: Any, result: Any, updates: Any, at: Any, monoid: str, argsort: Callable[[Any], Any]) -> None:
    """Combine `updates` into the vector `result` at the positions `at`, as a tree over sorted duplicates.  `argsort`
    is stable."""
    if not len(at):
        return
    order = argsort(at)
    at, values = at[order], updates[order]
    starts = at == at
    starts[1:] = at[1:] != at[:-1]
    numbers = module.cumsum(at == at, 0) - 1
    ranks = numbers - numbers[starts][module.cumsum(starts, 0) - 1]
    combine = combination(module, monoid)
    values, kept = tree(values, ranks, combine)
    at = at[kept]
    result[at] = combine(result[at], values)


def combination(module: Any, monoid: str) -> Callable[[Any, Any], Any]:
    """The function of an earlier and a later update."""
    function: Callable[[Any, Any], Any] = getattr(module, FUNCTIONS[monoid]) if monoid in FUNCTIONS else _later
    return function


def _later(earlier: Any, later: Any) -> Any:
    del earlier
    return later


def tree(values: Any, ranks: Any, combine: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """(the combination of each run of `values`, where it begins).  `ranks`: places in the run, from 0.

    Changes `values`.
    """
    begins = ranks == 0
    while len(ranks) and int(ranks.max()):
        odd = ranks % 2 == 1
        second = odd.nonzero()
        second = second[0] if isinstance(second, tuple) else second.reshape(-1)  # torch gives a column
        values[second - 1] = combine(values[second - 1], values[second])
        values, ranks = values[~odd], ranks[~odd] // 2
    return values, begins
