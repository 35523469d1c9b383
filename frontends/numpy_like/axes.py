"""Axis arguments: negative axes, tuples, None."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Union

from polyfuse.errors import AxisError, ShapeError

Axis = Union[int, Sequence[int], None]


def is_sequence(value: Any) -> bool:
    """Whether an argument that may be a number is a sequence of them: a tuple, a list or an array."""
    return isinstance(value, (tuple, list, range)) or bool(getattr(value, "ndim", False))


def listed(value: Any) -> list[Any]:
    """The numbers of an argument that is a number or a sequence of them."""
    return list(value) if is_sequence(value) else [value]


def one(axis: Any, rank: int) -> int:
    """`axis` as a non-negative integer.  Raises ShapeError, and AxisError for one out of bounds."""
    if not hasattr(axis, "__index__") or isinstance(axis, bool):
        raise ShapeError(f"an axis is an integer, not {axis!r}")
    position = operator.index(axis)
    if not -rank <= position < rank:
        raise AxisError(f"axis {position} is out of bounds for an array of rank {rank}")
    return position % rank


def many(axis: Axis, rank: int) -> tuple[int, ...]:
    """Sorted distinct axes; None means all.  Raises ShapeError."""
    if axis is None or (rank == 0 and axis in (0, -1)):  # NumPy lets a number be reduced along its axis 0
        return tuple(range(rank))
    found = [one(a, rank) for a in (axis if isinstance(axis, (tuple, list)) else [axis])]
    if len(set(found)) < len(found):
        raise ShapeError(f"axis {axis} names an axis twice")
    return tuple(sorted(found))


def sequence(axis: Axis, rank: int) -> list[int]:
    """Distinct axes in the order given; None means all.  Raises ShapeError."""
    if axis is None:
        return list(range(rank))
    many(axis, rank)
    return [one(a, rank) for a in (axis if isinstance(axis, (tuple, list)) else [axis])]
