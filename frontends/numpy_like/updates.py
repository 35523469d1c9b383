"""Writing: ``a[index] = value``, ``a += b``, ``x.at[index].add(value)``.

A write replaces the node of the buffer, so every view of it sees the new value (NumPy's aliasing) and every node stays
immutable (SSA): basic indices become regions, masks become `where`, arrays of integers become scatters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyfuse.affine import Affine, dimensions
from polyfuse.dtypes import i64
from polyfuse.errors import DTypeError, IndexingError, ShapeError, TraceError, UnsupportedError
from polyfuse.expr import Node, Piece, Shape, scatter
from polyfuse.frontends.numpy_like import axes, listed, nodes, promotion
from polyfuse.frontends.numpy_like.elementwise import copy, ufunc
from polyfuse.frontends.numpy_like.indexing import (
    Selection,
    gather,
    is_chosen,
    is_element,
    is_mask,
    is_of_rank_0,
    masked_part,
    select,
)
from polyfuse.frontends.numpy_like.known_masks import positions, without_flags
from polyfuse.frontends.numpy_like.lifting import as_dtype, check_fits, kind_of, lift, text_of
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.slicing import basic_path, expand_ellipsis, is_basic, items_of
from polyfuse.frontends.numpy_like.spreading import spread
from polyfuse.frontends.numpy_like.tracer import Tracer, as_array

ArrayLike = object


def write(target: Tracer, value: Node) -> None:
    """Replace what `target` looks at by `value` (of its shape, or rank 0).  Raises TraceError for arguments."""
    buffer, path = target.buffer, target.path
    if buffer.owner:
        parameter = re.split(r"[\[.]", buffer.owner)[0]
        raise TraceError(
            f"this writes into the argument {buffer.owner}, which belongs to the caller",
            advice=f"Work on a copy ({buffer.owner} = {buffer.owner}.copy()) and return it, "
            f"or give the memory away with donate=({parameter!r},).",
        )
    if path is None:
        buffer.node = nodes.broadcast(value, buffer.node.shape)
        target.state.record_write(buffer.node)
        return
    if path.inverse is None:
        raise TraceError(
            "this writes into a view whose elements may share memory (broadcast, diagonal or sliding windows)",
            advice="Write into the array itself, or into a copy of the view.",
        )
    inverse = path.inverse if value.rank else ()
    old = Piece((), buffer.node, dimensions(buffer.node.rank))
    buffer.node = nodes.region(buffer.node.shape, [Piece(path.where, value, inverse), old])
    target.state.record_write(buffer.node)


def _value_for(target: Shape, x: Tracer, value: Tracer) -> Node:
    """`value` in the dtype and shape of what is written; NumPy drops leading unit axes.  Raises ShapeError."""
    node = as_dtype(value, x.element)
    shape = node.shape
    while len(shape) > len(target) and x.state.is_one(shape[0]):
        shape = shape[1:]
    if shape != node.shape:
        node = nodes.view(node, shape, (*[0] * (node.rank - len(shape)), *dimensions(len(shape))))
    problem = f"cannot assign an array of shape {text_of(value.sizes)} to a part of shape {text_of(target)}"
    check_fits(x.state, shape, target, problem)
    return nodes.broadcast(node, target) if node.rank else node


def _as_elements(x: Tracer, value: ArrayLike) -> ArrayLike:
    """Numbers in lists as elements of `x`, each of which has to fit."""
    from polyfuse.frontends.numpy_like.creation import array

    return array(x.state, value, x.dtype) if isinstance(value, (list, tuple)) else value


def setitem(x: Tracer, index: Any, value: ArrayLike) -> None:
    """``x[index] = value``."""
    x.buffer.is_array = True  # what is written is no scalar of NumPy's, whatever function it came from
    if (few := listed.split(x, index)) is not None:
        given = lift(x.state, _as_elements(x, value))
        listed.write(x, *few, lambda shape: _value_for(shape, x, given), write)
        return
    if is_of_rank_0(x, items_of(index)):
        x, index = x[None], items_of(index)[0][None]
    value = _as_elements(x, value)
    x, items = without_flags(x, items_of(index))
    if all(is_basic(i) for i in items):
        expanded = expand_ellipsis(items, x.sizes, [int(i is not None and i is not Ellipsis) for i in items])
        target = x.through(basic_path(x, expanded))
        if is_element(x, items) and lift(x.state, value).ndim:
            shown = text_of(lift(x.state, value).sizes)
            raise ShapeError(f"an array of shape {shown} is no element", advice="Write a[i, j] = v[0].")
        if isinstance(value, Tracer) and value.buffer is x.buffer and value.path == target.path:
            return  # what ``x[index] += y`` stores back: the view that was already written
        write(target, _value_for(target.sizes, x, lift(x.state, value)))
    elif any(is_mask(i) for i in items) and not _is_positional(x, items, value):
        _set_masked(x, items, value)
    elif not is_chosen(value, x, items):  # ``x[k] += y`` has written through the view that it stores back
        changed = _scattered(x, items, "set", lift(x.state, value), "raise")
        write(changed[0], changed[1])


def _is_positional(x: Tracer, items: Sequence[Any], value: ArrayLike) -> bool:
    """Whether the masks of an index are known, and values are given for the elements that they choose."""
    if any(isinstance(i, np.ndarray) for i in items):
        return True
    if isinstance(value, Masked) or not lift(x.state, value).ndim:
        return False
    return not any(is_mask(i) for i in positions(x, items))


def _set_masked(x: Tracer, items: Sequence[Any], value: ArrayLike) -> None:
    mask, target, before = masked_part(x, items)
    if isinstance(value, Masked) and value.fits(mask, target.ndim, before):
        write(target, _where(mask, _value_for(target.sizes, x, value.array), target))
        return
    written = lift(x.state, value)
    if written.ndim > target.ndim - mask.ndim - before:
        raise _one_value_each()
    write(target, _where(mask, _value_for(target.sizes, x, written), target))


def _one_value_each() -> ShapeError:
    return ShapeError(
        "x[mask] = values needs one value per element that the mask selects, a number that depends on the mask",
        advice="Write x[:] = np.where(mask, values, x) with values of the shape of x.",
    )


def _where(mask: Tracer, value: Node, target: Tracer) -> Node:
    """`value` where the mask over the leading axes holds, else what stands in `target`."""
    aligned = mask[(...,) + (None,) * (target.ndim - mask.ndim)]
    return nodes.where(nodes.broadcast(aligned.node, target.sizes), value, target.node)


_MONOIDS = {"set": "set", "add": "sum", "multiply": "prod", "minimum": "min", "maximum": "max"}


def _scattered(x: Tracer, items: Sequence[Any], how: str, value: Tracer, bounds: str) -> tuple[Tracer, Node]:
    """The part of `x` that the basic indices leave, and its value after the update."""
    selection = select(x, items)
    _refuse_empty_axes(x, selection)
    shape, operands, entries = selection.over_result()
    updates = nodes.broadcast(_value_for(shape, x, value), shape)
    part = selection.source
    once = spread(part.node, updates, operands, entries, bounds, gather(part.node, shape, operands, entries))
    if once is not None:
        reached, changed = once
        if how != "set":
            changed = nodes.apply(how, [part.node, changed])
        return part, nodes.where(reached, changed, part.node)
    return part, scatter(part.node, updates, operands, entries, _MONOIDS[how], bounds)


def _refuse_empty_axes(x: Tracer, selection: Selection) -> None:
    """Raise IndexingError where an axis of no elements is indexed: nothing is computed then, nor checked."""
    empty = next((k for k in selection.axes if selection.source.sizes[k] == Affine.of(0)), None)
    if empty is not None and all(x.state.known(n - 1) for n in selection.common):
        raise IndexingError(f"an index is out of bounds for axis {empty} of size 0")


def update(x: Tracer, index: Any, how: str, value: ArrayLike, bounds: str | None = None) -> Tracer:
    """``x.at[index].set(value)`` and its kin: a changed copy; duplicates combine in order of the update index."""
    result = as_array(copy(x))
    part, items = without_flags(result, items_of(index))
    if part is not result:
        part[tuple(items)] = value if how == "set" else ufunc(how, part[tuple(items)], value)
        return result
    if how in ("subtract", "divide") or all(is_basic(i) for i in items) or any(is_mask(i) for i in items):
        return _update_by_parts(result, items, index, how, value)
    part, node = _scattered(result, items, how, lift(x.state, value), bounds or "raise")
    write(part, node)
    return result


def added_at(x: Tracer, at: Tracer, value: ArrayLike, bounds: str = "raise") -> Tracer:
    """A vector with something more at each place of `at`, of which none is counted from the end: a negative one is out
    of bounds."""
    value = lift(x.state, value)
    selection = Selection(x, (0,), (nodes.cast(at.node, i64),), at.sizes, 0)
    shape, operands, entries = selection.over_result(wraps=False)
    updates = nodes.broadcast(_value_for(shape, x, value), shape)
    once = spread(x.node, updates, operands, entries, bounds, gather(x.node, shape, operands, entries))
    if once is not None:
        return Tracer(x.state, nodes.where(once[0], nodes.apply("add", [x.node, once[1]]), x.node))
    return Tracer(x.state, scatter(x.node, updates, operands, entries, _MONOIDS["add"], bounds))


def _update_by_parts(result: Tracer, items: Sequence[Any], index: Any, how: str, value: ArrayLike) -> Tracer:
    value = lift(result.state, value)
    if any(is_mask(i) for i in items):
        mask, part, before = masked_part(result, items)
        if before and value.ndim > part.ndim - mask.ndim - before:
            raise _one_value_each()
        changed = value if how == "set" else ufunc(how, part, value)
        write(part, _where(mask, _value_for(part.sizes, result, changed), part))
    elif how == "subtract" and not all(is_basic(i) for i in items):
        return update(result, index, "add", -Tracer(value.state, as_dtype(value, result.element)))
    else:
        result[index] = value if how == "set" else ufunc(how, result[index], value)
    return result


def in_place(name: str, x: Tracer, other: ArrayLike) -> Tracer:
    """``x += other``: NumPy computes in the common dtype and casts back if the kind allows it.  Scalars are
    immutable, so the result is another one; a part of rank 0 of an array (``a[i, ...]``) is written."""
    value = x.state.functions[name](x, other)
    if x.is_scalar:
        return value  # type: ignore[no-any-return]
    if not np.can_cast(value.dtype, x.dtype, "same_kind"):
        raise DTypeError(
            f"the result of an in-place {name} is {value.dtype}, which cannot be cast to {x.dtype}",
            advice=f"Write it out: x = x.astype(np.{value.dtype}) first, or np.{name}(x, y).",
        )
    problem = f"an in-place {name} cannot grow {text_of(x.sizes)} to {text_of(value.sizes)}"
    check_fits(x.state, value.sizes, x.sizes, problem)
    write(x, as_dtype(value, x.element))
    return x


def put_along_axis(x: Tracer, indices: ArrayLike, values: ArrayLike, axis: int) -> None:
    """``np.put_along_axis``."""
    from polyfuse.frontends.numpy_like.creation import arange

    shape = [x.shape[k] for k in range(x.ndim)]
    along, at = axes.one(axis, x.ndim), lift(x.state, indices)
    if at.ndim != x.ndim:
        raise IndexingError(f"put_along_axis needs indices of rank {x.ndim}, not {at.ndim}")
    items = []
    for k in range(x.ndim):
        if k == along:
            items.append(at)
        else:
            items.append(arange(x.state, shape[k])[(None,) * k + (slice(None),) + (None,) * (x.ndim - 1 - k)])
    x[tuple(items)] = values


def ufunc_at(function: np.ufunc, x: Tracer, index: Any, *values: ArrayLike) -> None:
    """``np.add.at(x, index, value)``: where indices repeat, once for each.  Raises UnsupportedError for functions whose
    repetition is no reduction."""
    name, items = function.__name__, items_of(index)
    once = all(is_basic(i) for i in items) or any(is_mask(i) for i in items)
    if name in _OF_TRUTH and x.element.kind == "b" and (name.startswith("logical") or _is_truth(x, values[0])):
        name, values = _OF_TRUTH[name], (lift(x.state, values[0]).astype(bool),)
    if name in _REPEATED and not once:
        write(x, _repeated(name, x, index, lift(x.state, values[0])))
    elif name in _REPEATED and not isinstance(values[0], Masked):
        write(x, update(x, index, name, values[0]).node)
    elif once:
        part: Any = x[index]
        applied = function if isinstance(part, Masked) else x.state.functions[name]
        x[index] = applied(part, *values)
    else:
        raise UnsupportedError(
            f"np.{name}.at with an array of indices is not supported: indices may repeat",
            advice=f"Write x[i] = np.{name}(x[i], ...) where none does; {', '.join(_REPEATED)} work.",
        )


def _repeated(name: str, x: Tracer, index: Any, value: Tracer) -> Node:
    """The array with `value` combined in, in the common dtype as NumPy does it, but cast back once, not every time: a
    smallest or largest number that does not fit wraps around behind the last update."""
    common = promotion.resolve(name, (x.element, kind_of(value)))[0][0]
    if name in ("minimum", "maximum") and not common.is_float and common != x.element:  # values that it cannot hold
        wide = update(Tracer(x.state, nodes.cast(x.node, common)), index, name, value)
        return nodes.cast(wide.node, x.element)
    return update(x, index, name, value).node


_REPEATED = ("add", "subtract", "multiply", "minimum", "maximum")
_OF_TRUTH = {"logical_or": "maximum", "bitwise_or": "maximum", "logical_and": "minimum", "bitwise_and": "minimum"}


def _is_truth(x: Tracer, value: ArrayLike) -> bool:
    return lift(x.state, value).element.kind == "b"


def fill(x: Tracer, value: ArrayLike) -> None:
    if lift(x.state, value).ndim:
        raise ShapeError("x.fill takes a number", advice="Write x[...] = values.")
    x[...] = value


_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2}


def copyto(x: Tracer, value: ArrayLike, casting: Any = "same_kind", where: ArrayLike = True) -> None:
    """``np.copyto``.  Raises DTypeError where NumPy does not cast; numbers of Python's need the same kind alone."""
    given = lift(x.state, value)
    if given.weak is not None and casting == "same_kind":
        fits = _KINDS[given.element.kind] <= _KINDS[x.element.kind]
    else:
        fits = np.can_cast(given.dtype, x.dtype, casting)
    if not fits:
        raise DTypeError(
            f"np.copyto does not cast {given.dtype} to {x.dtype} by the rule {casting!r}",
            advice="Cast with .astype(...) first, or give casting='unsafe'.",
        )
    given = Tracer(x.state, as_dtype(given, x.element))
    x[...] = given if where is True else x.state.functions["where"](where, given, x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "setitem": setitem,
    "update": update,
    "in_place": in_place,
    "fill": fill,
    "copyto": copyto,
    "put_along_axis": put_along_axis,
}
