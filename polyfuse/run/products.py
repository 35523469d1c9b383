"""A contraction as one product of matrices, or of stacks of them, in whatever library holds the arrays.

    out[b, h, q, d] = sum(p: a[b, h, q, p] * v[b, p, h, d])      (b h) x q x p  times  (b h) x p x d
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import Any

from polyfuse.library_calls.contraction import Contraction, Operand

Product = Callable[[Any, Any, Any], None]  # (left, right, result), whole arrays
Axis = tuple[int, int]  # extent, stride
View = tuple[int, tuple[int, ...], tuple[int, ...]]  # offset, extents, strides
UNKNOWN: View = (-1, (), ())


@dataclass(frozen=True, slots=True)
class Primitives:
    """What a library must have.  Strides are in units of its own; `matmul` and `stacked` write their third argument.

    `view`: ``(array, starts, offset, shape, strides)``, the view that begins at the element ``array[starts]``, which is
    `offset` strides away from the first.
    """

    strides: Callable[[Any], Sequence[int]]
    view: Callable[[Any, tuple[int, ...], int, tuple[int, ...], tuple[int, ...]], Any]
    flat: Callable[[Any], Any]  # one axis in C order, a copy where it has to be
    matmul: Callable[[Any, Any, Any], Any]
    stacked: Callable[[Any, Any, Any], Any]
    transpose: Callable[[Any, tuple[int, ...]], Any]
    empty_like: Callable[[Any], Any]
    copy: Callable[[Any, Any], None]


def primitives_of(module: Any, matmul: Callable[[Any, Any, Any], Any]) -> Primitives:
    """The primitives of a module that spells its functions as NumPy does: NumPy, CuPy."""

    def view(array: Any, starts: tuple[int, ...], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        source = array[tuple(slice(start, None) for start in starts)] if offset else array
        return module.lib.stride_tricks.as_strided(source, shape, strides)

    def copy(target: Any, source: Any) -> None:
        target[...] = source

    return Primitives(
        strides=attrgetter("strides"),
        view=view,
        flat=lambda array: module.ascontiguousarray(array).reshape(-1),
        matmul=matmul,
        stacked=matmul,
        transpose=module.transpose,
        empty_like=lambda array: module.empty(array.shape, array.dtype),
        copy=copy,
    )


def matrix_product(spec: Contraction, sizes: Mapping[str, int], library: Primitives) -> Product:
    """The product at these sizes."""
    extents = [extent.evaluate(sizes) for extent in spec.extents]
    both, rows, columns, summed = spec.letters()
    kept = [k for k in range(len(extents)) if k not in spec.summed]
    order = [*both, *rows, *columns]
    place = tuple(kept.index(k) for k in order)
    stacks = [both] if both else []
    left = _matrix(spec.left, [*stacks, rows, summed], extents, sizes, library)
    right = _matrix(spec.right, [*stacks, summed, columns], extents, sizes, library)
    shape = tuple(prod(extents[k] for k in group) for group in (*stacks, rows, columns))
    multiply = library.stacked if both else library.matmul
    transpose, empty_like, copy = library.transpose, library.empty_like, library.copy

    def run(a: Any, b: Any, result: Any) -> None:
        multiply(left(a), right(b), result.reshape(shape))

    def run_whole(a: Any, b: Any, result: Any) -> None:
        multiply(left(a), right(b), result)

    def run_transposed(a: Any, b: Any, result: Any) -> None:
        target = transpose(result, place)
        made = empty_like(target)
        multiply(left(a), right(b), made.reshape(shape))
        copy(target, made)

    def nothing(a: Any, b: Any, result: Any) -> None:
        """No element to write."""

    if not all(shape):
        return nothing
    if order != kept:
        return run_transposed
    return run_whole if tuple(extents[k] for k in kept) == shape else run


def _matrix(
    operand: Operand,
    groups: Sequence[Sequence[int]],
    extents: Sequence[int],
    sizes: Mapping[str, int],
    library: Primitives,
) -> Callable[[Any], Any]:
    """The view of an array with one axis per group of letters; what it depends on is found once per set of strides."""
    starts = operand.starts(sizes)
    shape = tuple(prod(extents[k] for k in group) for group in groups)
    strides_of, view, flat = library.strides, library.view, library.flat if operand.flat else None
    known: dict[tuple[int, ...], View | None] = {}

    def made(array: Any) -> Any:
        source = array if flat is None else flat(array)
        steps = tuple(strides_of(source))
        found = known.get(steps, UNKNOWN)
        if found is None:  # the array itself
            return source
        if found is UNKNOWN:
            axes = [[(extents[k], operand.stride(k, steps)) for k in group] for group in groups]
            joined = [_joined(group) for group in axes]
            whole = [a for a in joined if a is not None]
            if len(whole) < len(joined):
                whole = [axis for group in axes for axis in group]
            offset = sum(start * step for start, step in zip(starts, steps, strict=True))
            found = known[steps] = offset, tuple(n for n, _ in whole), tuple(s for _, s in whole)
            if found == (0, tuple(source.shape), steps) and found[1] == shape:
                known[steps] = None  # a view costs the host as much as a launch
        offset, extent, stride = found
        result = view(source, starts, offset, extent, stride)
        return result if extent == shape else result.reshape(shape)

    return made


def _joined(axes: Sequence[Axis]) -> Axis | None:
    """Neighbouring axes as one, where their strides allow it."""
    real = [axis for axis in axes if axis[0] != 1]
    for (_, outer), (extent, inner) in zip(real, real[1:], strict=False):
        if outer != extent * inner:
            return None
    return prod(n for n, _ in real), real[-1][1] if real else 0
