"""Indices that are short lists of numbers: ``a[[0, -1]] = 0`` is one write per number, ``x[:, [2, 1, 0]]`` a stack.

Both are affine then: they fuse with what surrounds them, where positions that are data would be gathered or scattered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.affine import Affine, dimension
from polyfuse.expr import Node, Shape
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.joining import stack
from polyfuse.frontends.numpy_like.slicing import basic_path, expand_ellipsis
from polyfuse.frontends.numpy_like.tracer import Tracer

LONGEST = 4
"""Numbers in a list: every element of the result asks for as many conditions."""


def split(x: Tracer, index: Any) -> tuple[list[Any], int] | None:
    """The items of an index of slices and one short list, an item per axis, and which is the list; None for others."""
    parts = list(index) if isinstance(index, tuple) else [index]
    lists = [p for p in parts if isinstance(p, list)]
    if len(lists) != 1 or not 0 < len(lists[0]) <= LONGEST or not all(map(_is_number, lists[0])):
        return None
    if any(not (p is None or p is Ellipsis or isinstance(p, (slice, list))) for p in parts):
        return None
    expanded = expand_ellipsis(parts, x.sizes, [int(p is not None and p is not Ellipsis) for p in parts])
    return expanded, next(k for k, p in enumerate(expanded) if isinstance(p, list))


def _is_number(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _parts(x: Tracer, items: list[Any], at: int) -> list[Tracer]:
    return [x.through(basic_path(x, [*items[:at], number, *items[at + 1 :]])) for number in items[at]]


def read(x: Tracer, items: list[Any], at: int) -> Tracer:
    """A new array, the parts along axis `at`.  Raises IndexError."""
    return stack(_parts(x, items, at), at)


def write(
    x: Tracer, items: list[Any], at: int, value: Callable[[Shape], Node], to: Callable[[Tracer, Node], None]
) -> None:
    """One part after the other, so that the last of equal numbers wins.  `value`: what is written, of a shape or of
    rank 0.  Raises IndexError."""
    parts = _parts(x, items, at)
    rest = parts[0].sizes
    given = value((*rest[:at], Affine.of(len(parts)), *rest[at:]))
    for k, part in enumerate(parts):
        index = [dimension(d) for d in range(len(rest))]
        entries = [*index[:at], Affine.of(k), *index[at:]]
        to(part, nodes.view(given, rest, entries) if given.rank else given)
