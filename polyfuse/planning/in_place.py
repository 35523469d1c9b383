"""Reads of which no two elements of the reader take the same element, which stays where it is.

    c[i, j] = a[i, j] + 1                              the same element
    s[i, j] = a[i] where j = 0, b[i] where j = 1       a stack: each place along j is another array's
    d[i]    = s[i, 0] + s[i, 1]                        places of a stack
"""

from __future__ import annotations

from collections.abc import Iterable

from polyfuse.affine import Affine, dimension
from polyfuse.scop import Read, Statement


def is_in_place(value: Statement, reader: Statement, read: Read) -> bool:
    """Whether this read keeps the order of dimensions, takes all that is not constant of its index as it is, and stands
    at one place along every dimension of the reader that its index leaves out."""
    left = list(range(len(reader.extents)))
    for extent, entry in zip(value.extents, read.index, strict=True):
        if not isinstance(entry, Affine):
            return False
        if entry.is_constant:
            continue
        while left and dimension(left[0]) != entry:
            if not _is_one_place(left.pop(0), reader, read.where):
                return False
        if not left or reader.extents[left.pop(0)] != extent:
            return False
    return all(_is_one_place(d, reader, read.where) for d in left)


def _is_one_place(d: int, reader: Statement, where: Iterable[Affine]) -> bool:
    """Whether the conditions of a read leave one place along a dimension."""
    extent = reader.extents[d]
    if not extent.is_constant:
        return False
    name, first, last = f"%{d}", 0, extent.constant - 1
    for condition in where:
        if condition.names() == {name} and condition.is_linear:
            slope = condition.coefficient(name)
            if slope > 0:
                first = max(first, -(condition.constant // slope))
            else:
                last = min(last, condition.constant // -slope)
    return first == last
