"""A contraction as one product of matrices, or of stacks of them, in whatever library holds the arrays.

    out[b, h, q, d] = sum(p: a[b, h, q, p] * v[b, p, h, d])      (b h) x q x p  times  (b h) x p x d
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from polyfuse.contractions import Contraction, Operand

Product = Callable[[Any, Any, Any], None]  # (left, right, result), whole arrays


@dataclass(frozen=True, slots=True)
class Primitives:
    """What a library must have.  Strides in units of the library's own; `matmul` writes its third argument."""

    strides: Callable[[Any], Sequence[int]]
    as_strided: Callable[[Any, tuple[int, ...], tuple[int, ...]], Any]
    contiguous: Callable[[Any], Any]  # the array itself where it is
    matmul: Callable[[Any, Any, Any], Any]
    transpose: Callable[[Any, tuple[int, ...]], Any]
    empty_like: Callable[[Any], Any]
    copy: Callable[[Any, Any], None]


def matrix_product(spec: Contraction, sizes: Mapping[str, int], library: Primitives) -> Product:
    """The product at these sizes."""
    extents = [extent.evaluate(sizes) for extent in spec.extents]
    both, rows, columns, summed = spec.letters()
    stack = prod(extents[k] for k in both)
    m, n, depth = (prod(extents[k] for k in group) for group in (rows, columns, summed))
    one = not both
    left = _matrix(spec.left, [*both, *rows, *summed], extents, sizes, library)
    right = _matrix(spec.right, [*both, *summed, *columns], extents, sizes, library)
    kept = [k for k in range(len(extents)) if k not in spec.summed]
    order = [*both, *rows, *columns]
    place = tuple(kept.index(k) for k in order)
    shapes = [(m, depth), (depth, n), (m, n)] if one else [(stack, m, depth), (stack, depth, n), (stack, m, n)]

    def run(a: Any, b: Any, result: Any) -> None:
        if stack * m * n == 0:
            return
        x, y = left(a).reshape(shapes[0]), right(b).reshape(shapes[1])
        if order == kept:
            library.matmul(x, y, result.reshape(shapes[2]))
            return
        target = library.transpose(result, place)
        made = library.empty_like(target)
        library.matmul(x, y, made.reshape(shapes[2]))
        library.copy(target, made)

    return run


def _matrix(
    operand: Operand, letters: Sequence[int], extents: Sequence[int], sizes: Mapping[str, int], library: Primitives
) -> Callable[[Any], Any]:
    """The view of an array with one axis per letter."""
    starts = tuple(slice(start, None) for start in operand.starts(sizes))
    shape = tuple(extents[k] for k in letters)

    def view(array: Any) -> Any:
        source = library.contiguous(array).reshape(-1) if operand.flat else array
        steps = library.strides(source)
        return library.as_strided(source[starts], shape, tuple(operand.stride(k, steps) for k in letters))

    return view
