"""``np.add.at`` and its kin on whole arrays, with duplicates combined in an order that the indices alone fix.

NumPy applies the updates one by one.  Device libraries add in any order, so there a scatter is a stable sort by target
and a tree over each run of equal targets::

    targets   4 1 4 1 1     sorted   1  1  1 | 4  4     neighbours combine:  1  1 | 4   ->   1 | 4
    updates   a b c d e              b  d  e | a  c                         bd  e | ac      bde | ac

The order of the updates is kept ("set" keeps the last one); only the association of float sums differs from NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from typing import Any

import numpy as np

from polyfuse.expr import DataIndex, IndexEntry
from polyfuse.scalars import MONOIDS

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
    base: Any, updates: Any, *operands: Any, index: tuple[IndexEntry, ...], monoid: str, bounds: str,
    wraps: Sequence[bool] = (),
) -> np.ndarray[Any, Any]:
    """On NumPy arrays; `operands` are the integer arrays of the index.  Raises IndexError."""
    result = np.array(base, order="C")
    wide = [np.asarray(o).astype(np.int64, copy=False) for o in operands]
    at, values = targets(np, base.shape, updates, wide, index, bounds, np.arange, wraps)
    if monoid == "set":
        result.reshape(-1)[at] = values  # NumPy documents that the last one stays
    else:
        getattr(np, FUNCTIONS[monoid]).at(result.reshape(-1), at, values)
    return result


def targets(
    module: Any,
    shape: Sequence[int],
    updates: Any,
    operands: Sequence[Any],
    index: tuple[IndexEntry, ...],
    bounds: str,
    arange: Callable[[int], Any],
    wraps: Sequence[bool] = (),
) -> tuple[Any, Any]:
    """(the row-major position in an array of `shape` that each update goes to, the updates), both as vectors.

    Updates and `operands` (int64) broadcast.  `wraps`: per operand whether negative indices count from the end.  Raises
    IndexError for positions outside where `bounds` is "raise"; "clip" moves them to the edge.
    """
    over = np.broadcast_shapes(updates.shape, *(o.shape for o in operands))
    points = {f"%{k}": arange(n).reshape([-1 if d == k else 1 for d in range(len(over))]) for k, n in enumerate(over)}
    position: Any = arange(1)[0]
    for axis, (entry, extent) in enumerate(zip(index, shape, strict=True)):
        at = operands[entry.operand] if isinstance(entry, DataIndex) else entry.evaluate(points)
        if isinstance(entry, DataIndex) and wraps and wraps[entry.operand]:
            at = module.where(at < 0, at + extent, at)
        if isinstance(entry, DataIndex) and 0 not in over:
            at = _in_bounds(module, at, axis, extent, bounds)
        position = position * extent + at
    return module.broadcast_to(position, over).reshape(-1), module.broadcast_to(updates, over).reshape(-1)


def _in_bounds(module: Any, at: Any, axis: int, extent: int, bounds: str) -> Any:
    if bounds == "clip":
        return module.clip(at, 0, max(extent - 1, 0))
    if bounds == "assume":
        return at
    low, high = module.stack((at.min(), at.max())).tolist()  # the host waits for a device once
    if low < 0 or high >= extent:
        wrong = low - extent if low < 0 else high  # negative indices were wrapped once
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {extent}")
    return at


@dataclass(frozen=True, slots=True)
class Tools:
    """What libraries spell differently.  ``like(x, y)``: x in the dtype of y; `wide`: 16-bit floats in float32;
    ``extreme(x, largest)``: the dtype's largest or lowest number; ``sort(at, extent)``: (sorted, stable order) of
    positions below `extent`."""

    module: Any
    arange: Callable[[int], Any]
    sort: Callable[[Any, int], tuple[Any, Any]]
    nonzero: Callable[[Any], Any]
    like: Callable[[Any, Any], Any]
    int64: Callable[[Any], Any]
    wide: Callable[[Any], Any]
    full: Callable[[Sequence[int], Any, Any], Any]  # of a shape and a number, in the dtype of an array
    extreme: Callable[[Any, bool], Any]


def narrow(extent: int) -> int:
    """Bits of a signed integer that holds numbers up to `extent`: short keys take a radix sort fewer passes."""
    return next(bits for bits in (16, 32, 64) if extent < 1 << (bits - 1))


def in_order(tools: Tools, result: Any, updates: Any, at: Any, monoid: str) -> None:
    """Combine `updates` into the vector `result` at the positions `at`, as a tree over sorted duplicates."""
    if not len(at):
        return
    target, order = tools.sort(at, len(result))
    values = updates[order]
    if monoid == "set":
        last = tools.nonzero(target != tools.module.roll(target, -1))
        last = last if len(last) else tools.arange(len(at))[-1:]
        result[tools.int64(target[last])] = values[last]
        return
    values, begins = folded_runs(tools, values, target, monoid)
    where = tools.int64(target[begins])
    result[where] = tools.like(getattr(tools.module, FUNCTIONS[monoid])(result[where], values), result)


def folded_runs(tools: Tools, values: Any, target: Any, monoid: str) -> tuple[Any, Any]:
    """(the combination of each run of equal targets, where it begins), over the first axis.

    Runs are laid out in groups of `share`, filled up with the neutral element, and each group is halved until one
    element is left; then groups are the elements.  What becomes of a run depends on nothing but the run.
    """
    combine, share = getattr(tools.module, FUNCTIONS[monoid]), 8 if values.ndim > 1 else 32
    fill = _neutral(tools, values, monoid)
    differs = target == target
    differs[1:] = target[1:] != target[:-1]
    begins = tools.nonzero(differs)
    run = tools.module.cumsum(differs, 0) - 1
    place = tools.arange(len(values)) - begins[run]
    count = tools.module.roll(begins, -1) - begins
    count[-1] += len(values)
    for total in _totals(tools, count, len(values), share):
        count = (count + share - 1) // share
        at = (tools.module.cumsum(count, 0) - count)[run] * share + place
        laid = tools.full((total * share, *values.shape[1:]), fill, values)
        laid[at] = values
        while len(laid) > total:
            laid = combine(laid[0::2], laid[1::2])
        if total == len(begins):
            return laid, begins
        group = at // share
        runs, places = tools.full((total,), 0, run), tools.full((total,), 0, place)
        runs[group], places[group] = run, place // share  # all elements of a group write the same
        values, run, place = laid, runs, places
    return values, begins


def _totals(tools: Tools, count: Any, elements: int, share: int) -> list[int]:
    """How many groups there are of each size, up to one per run: all asked of the device at once."""
    if elements == len(count):
        return []
    rounds = range(1, next(k for k in count_from(1) if share**k >= elements) + 1)
    totals = [((count + share**k - 1) // share**k).sum() for k in rounds]
    found: list[int] = tools.module.stack(totals).tolist()
    return found


def _neutral(tools: Tools, values: Any, monoid: str) -> Any:
    (text,) = MONOIDS[monoid].neutral
    if text in ("lowest", "highest"):
        return tools.extreme(values, text == "highest")
    return float(text) if text == "nan" else -0.0 if monoid == "sum" else int(text)
