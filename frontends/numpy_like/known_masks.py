"""Masks in an index, and positions, that are known while the function is traced: truth values, real arrays, and what
follows from positions alone (``np.arange(5) > 2``).  They choose a known number of elements.

    x[True], x[False]              an axis of one element, or of none
    x[np.array([True, False])]     x[[0]]

The contents of a real mask are part of the program, so that a call compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.dtypes import i64
from polyfuse.errors import IndexingError
from polyfuse.frontends.numpy_like import masked, nodes
from polyfuse.frontends.numpy_like.known_values import known, settled
from polyfuse.frontends.numpy_like.lifting import text_of
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.slicing import basic_path, expand_ellipsis
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer


def is_flag(item: Any) -> bool:
    """A truth value, or a real array of rank 0 with one."""
    return isinstance(item, (bool, np.bool_)) or (isinstance(item, np.ndarray) and _is_bool(item) and not item.ndim)


def _is_bool(item: Any) -> bool:
    return isinstance(item, (np.ndarray, Tracer)) and item.dtype == np.bool_


def without_flags(x: Tracer, items: Sequence[Any]) -> tuple[Tracer, list[Any]]:
    """A view of `x` and an index of it without truth values, which are indices into axes of their own."""
    if not any(map(is_flag, items)):
        return x, list(items)
    expanded = expand_ellipsis(items, x.sizes, [_axes(i) for i in items])
    seen: list[Any] = []
    index: list[Any] = []
    for item in expanded:
        if is_flag(item):
            seen.append(None)
            zeros = nodes.broadcast(expr.constant(0, i64), (Affine.of(int(bool(item))),))
            index.append(Tracer(x.state, zeros))
        else:
            seen += [slice(None)] * _axes(item)
            index.append(item)
    return x.through(basic_path(x, seen)), index


def _axes(item: Any) -> int:
    """How many axes an item of an index stands for."""
    if item is None or item is Ellipsis or is_flag(item):
        return 0
    return int(item.ndim) if _is_bool(item) else 1


def positions(x: Tracer, items: Sequence[Any]) -> list[Any]:
    """The index with arrays of positions in place of known masks.  Raises IndexingError for those that do not fit."""
    known = {id(item): _known(item) for item in items if _is_bool(item) and item.ndim}
    if all(mask is None for mask in known.values()):
        return list(items)
    found: list[Any] = []
    axis = 0
    expanded = expand_ellipsis(items, x.sizes, [_axes(i) for i in items])
    for item in expanded:
        if (mask := known.get(id(item))) is None:
            found.append(item)
        else:
            sizes = x.sizes[axis : axis + mask.ndim]
            if not all(x.state.equal(n, Affine.of(m)) for n, m in zip(sizes, mask.shape, strict=True)):
                there = ", ".join(str(x.state.hint(n)) for n in sizes)
                raise IndexingError(f"a mask of shape {text_of(mask.shape)} does not fit axes of sizes ({there})")
            if isinstance(item, np.ndarray):
                x.state.read.append(item)
            found += np.nonzero(mask)
        axis += _axes(item)
    return found


def _known(item: Any) -> np.ndarray[Any, Any] | None:
    """The values of a mask, where nothing that a call passes has a say in them."""
    return item if isinstance(item, np.ndarray) else known(item.node)


def known_positions(
    trace: Trace,
    positions: Any,
    name: str,
    why: str = "its result has no static shape",
    advice: str = masked.ADVICE,
) -> Any:
    """Positions as integers, real arrays, slices and lists of them.  Raises IndexingError for data, which says `why`
    there is none and what to write instead."""
    if isinstance(positions, (list, tuple)):
        return [known_positions(trace, p, name, why, advice) for p in positions]
    if isinstance(positions, np.ndarray):
        trace.read.append(positions)
    if isinstance(positions, SymbolicSize):
        return int(positions)
    if not isinstance(positions, Tracer):
        return positions
    values = settled(trace, positions.node)
    if values is None:
        raise IndexingError(f"np.{name} at positions that are data: {why}", advice=advice)
    return values if values.ndim else values.item()
