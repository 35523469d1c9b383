"""Indexing by arrays: gathers for reading, scatters for writing.  Basic indices are views (`slicing`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import ONE, ZERO, Affine, dimension, dimensions
from polyfuse.dtypes import i32, i64, u64
from polyfuse.errors import DTypeError, IndexingError, ShapeError
from polyfuse.expr import DataIndex, IndexEntry, Iota, Node, Shape
from polyfuse.frontends.numpy_like import axes, known_masks, listed, masked, nodes
from polyfuse.frontends.numpy_like.bounds import highest, lowest
from polyfuse.frontends.numpy_like.elementwise import ufunc
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.layout import strides_of
from polyfuse.frontends.numpy_like.lifting import broadcast_shapes, lift, lift_all, text_of, trace_of
from polyfuse.frontends.numpy_like.nonzero import Chooser
from polyfuse.frontends.numpy_like.selection import select as select_values
from polyfuse.frontends.numpy_like.slicing import basic_path, expand_ellipsis, is_basic, items_of, stand_apart
from polyfuse.frontends.numpy_like.spreading import kept_inside
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Buffer, Tracer, number, whole

ArrayLike = object


def getitem(x: Tracer, index: Any) -> Any:
    """``x[index]``."""
    if (few := listed.split(x, index)) is not None:
        return listed.read(x, *few)
    items = items_of(index)
    if any(isinstance(i, masked.Masked) for i in items):
        counts = [int(i is not None and i is not Ellipsis) for i in items]
        return masked.gathered(x, expand_ellipsis(items, x.sizes, counts))
    if is_of_rank_0(x, items):
        return getitem(x[None], items[0][None])
    x, items = known_masks.without_flags(x, items)
    apart, items = stand_apart(items), known_masks.positions(x, items)
    if any(isinstance(i, Tracer) and is_mask(i) and i.ndim for i in items) and sum(not is_basic(i) for i in items) == 1:
        mask, part, before = masked_part(x, items)
        return masked.Masked(part, mask, before)
    if all(is_basic(i) for i in items):
        expanded = expand_ellipsis(items, x.sizes, [int(i is not None and i is not Ellipsis) for i in items])
        part = x.through(basic_path(x, expanded))
        return number(part) if is_element(x, items) else part
    selection = select(x, items, apart)
    if not is_element(x, items) and all(is_basic(i) or (isinstance(i, Tracer) and i.is_number) for i in items):
        return chosen(x, items, selection)
    shape, operands, entries = selection.over_result()
    return Tracer(x.state, gather(selection.source.node, shape, operands, entries))


class Chosen(Buffer):
    """What ``x[:, k]`` looks at for a number k that is known at run time only.  An index of numbers and slices makes a
    view: it sees what is written to x later, and who writes it writes x."""

    __slots__ = ("base", "index", "parts", "seen", "source", "value")

    def __init__(self, base: Tracer, index: tuple[Any, ...], selection: Selection) -> None:
        self.base, self.index, self.owner, self.is_array = base, index, base.buffer.owner, True
        self.source, self.parts = selection.source, selection.over_result()
        self.seen: Node | None = None
        self.value: Node | None = None

    @property
    def node(self) -> Node:
        if self.value is None or self.seen is not self.source.node:
            self.seen = self.source.node
            self.value = gather(self.seen, *self.parts)
        return self.value

    @node.setter
    def node(self, node: Node) -> None:
        self.base[self.index] = Tracer(self.base.state, node)


def chosen(x: Tracer, items: Sequence[Any], selection: Selection) -> Tracer:
    """``x[items]`` for numbers and slices, some of the numbers known at run time only."""
    index = tuple(Tracer(i.state, i.node, weak=i.weak) if isinstance(i, Tracer) else i for i in items)
    buffer = Chosen(x, index, selection)
    source = strides_of(selection.source)
    left = None if source is None else tuple(s for k, s in enumerate(source) if k not in selection.axes)
    return Tracer(x.state, buffer, replace(whole(buffer.parts[0]), strides=left))


def is_chosen(value: Any, x: Tracer, items: Sequence[Any]) -> bool:
    """Whether `value` is the view ``x[items]`` itself."""
    if not isinstance(value, Tracer) or not isinstance(value.buffer, Chosen) or value.path is None:
        return False
    view = value.buffer
    if view.base.buffer is not x.buffer or view.base.path != x.path or len(items) != len(view.index):
        return False
    every = value.sizes == view.parts[0] and value.path.index == dimensions(value.ndim)
    return every and select(x, items).over_result() == view.parts


def is_element(x: Tracer, items: Sequence[Any]) -> bool:
    """Whether a basic index has an integer for every axis: NumPy gives a scalar for ``a[i, j]``, a view of rank 0 for
    ``a[i, j, ...]``."""
    return len(items) == x.ndim and not any(i is None or i is Ellipsis or isinstance(i, slice) for i in items)


def is_mask(item: Any) -> bool:
    return (isinstance(item, (Tracer, np.ndarray)) and item.dtype == np.bool_) or isinstance(item, (bool, np.bool_))


def is_of_rank_0(x: Tracer, items: Sequence[Any]) -> bool:
    """Whether an index is a mask of an array of rank 0: it chooses one element or none."""
    return not x.ndim and len(items) == 1 and isinstance(items[0], Tracer) and is_mask(items[0]) and not items[0].ndim


def masked_part(x: Tracer, items: Sequence[Any]) -> tuple[Tracer, Tracer, int]:
    """The mask, the part of `x` whose leading axes it covers, and how many axes of ``x[items]`` stand before the one of
    the chosen elements.  Raises ShapeError and IndexingError."""
    masks = [k for k, i in enumerate(items) if is_mask(i)]
    if len(masks) != 1 or any(i is None for i in items):
        raise ShapeError("an index with a mask takes one mask besides slices and integers")
    mask = lift(x.state, items[masks[0]])
    consumed = [mask.ndim if k == masks[0] else int(i is not Ellipsis) for k, i in enumerate(items)]
    expanded = expand_ellipsis(items, x.sizes, consumed)
    at = next(k for k, i in enumerate(expanded) if is_mask(i))
    if any(not isinstance(i, slice) for i in expanded[:at]):
        raise ShapeError("a mask behind an integer is not supported", advice="Index with the integer first: v = x[i].")
    covered = [slice(None)] * mask.ndim if not isinstance(mask, Chooser) else mask.spans(x.sizes[at:])
    target = x.through(basic_path(x, [*expanded[:at], *covered, *expanded[at + 1 :]]))
    order = [*range(at, at + mask.ndim), *range(at), *range(at + mask.ndim, target.ndim)]
    target = target.transpose(order) if at else target
    if not all(map(x.state.equal, mask.sizes, target.sizes)):  # unlike in arithmetic, an axis of size 1 is not repeated
        sizes = text_of(target.sizes[: mask.ndim])
        raise IndexingError(
            f"a mask of shape {text_of(mask.sizes)} does not fit axes of sizes {sizes}",
            advice="Make it of the axes that it chooses from, or cut them to its shape.",
        )
    behind = "".join(":" if isinstance(i, slice) else "i" for i in expanded[at + 1 :])
    parted = ":i" in behind or stand_apart(items)  # then NumPy puts what the arrays index in front
    return mask, target, 0 if parted else at


@dataclass(frozen=True, slots=True)
class Selection:
    """An index with arrays: `source` after its basic part; `axes` of the source that arrays index, in order; the index
    values, broadcast to `common`; the common axes stand at axis `place` of the result."""

    source: Tracer
    axes: tuple[int, ...]
    indices: tuple[Node, ...]
    common: Shape
    place: int

    def over_result(self, *, wraps: bool = True) -> tuple[Shape, list[Node], list[IndexEntry]]:
        """The result's shape, the index operands over its points, and one index entry per source axis.  `wraps`:
        whether negative indices count from the end."""
        kept = [k for k in range(self.source.ndim) if k not in self.axes]
        outer = [self.source.sizes[k] for k in kept]
        shape = (*outer[: self.place], *self.common, *outer[self.place :])
        width = len(self.common)
        points = [j if j < self.place else j + width for j in range(len(kept))]
        common_points = [dimension(self.place + j) for j in range(width)]
        entries: list[IndexEntry] = [ZERO] * self.source.ndim
        for k, j in zip(kept, points, strict=True):
            entries[k] = dimension(j)
        operands: list[Node] = []
        for k, node in zip(self.axes, self.indices, strict=True):
            entries[k] = self._entry(k, node, shape, common_points, operands, wraps)
        return shape, operands, entries

    def _entry(
        self, axis: int, node: Node, shape: Shape, points: Sequence[Affine], operands: list[Node], wraps: bool
    ) -> IndexEntry:
        size = self.source.sizes[axis]
        spread = node if node.rank == 0 else nodes.view(nodes.broadcast(node, self.common), shape, points)
        affine = _affine_index(self.source.state, spread, size, wraps)
        if affine is not None:
            return affine
        wrapped = wrap_negative(self.source.state, spread, size) if wraps else spread
        if wrapped not in operands:
            operands.append(wrapped)
        return DataIndex(operands.index(wrapped))


def _affine_index(trace: Trace, node: Node, size: Affine, wraps: bool = True) -> Affine | None:
    """The index as an affine expression, when it is one and in bounds."""
    if isinstance(node, expr.Map) and node.function == "cast" and node.dtype.kind == "i":
        return _affine_index(trace, node.operands[0], size, wraps)
    value = nodes.constant_value(node)
    index = node.index if isinstance(node, Iota) else (Affine.of(int(value)) if value is not None else None)
    if index is None:
        return None
    if wraps and trace.known(-highest(index, node.shape) - 1):
        index = index + size
    low, high = lowest(index, node.shape), size - 1 - highest(index, node.shape)
    if not trace.known(low):
        return None
    if isinstance(node, Iota) and not trace.known(high):  # ``np.arange(len(labels))`` into an array of as many rows
        return index if trace.equal(size, highest(index, node.shape) + 1) or trace.decide(high) else None
    return index if trace.known(high) else None


def wrap_negative(trace: Trace, node: Node, size: Affine) -> Node:
    """Negative indices count from the end."""
    if node.dtype.kind == "u" or (isinstance(node, expr.Reduce) and node.monoid.startswith("arg")):
        return nodes.cast(node, i64) if node.dtype.kind == "u" else node
    extent = nodes.cast(nodes.iota((), size), node.dtype)
    zero = expr.constant(0, node.dtype)
    wrapped = nodes.apply("add", [node, extent])
    return nodes.where(nodes.apply("less", [node, zero]), wrapped, node)


def gather(
    source: Node, shape: Shape, operands: Sequence[Node], entries: Sequence[IndexEntry], bounds: str = "raise"
) -> Node:
    """A gather, or a view where every index is affine.  Views of the source compose into affine entries."""
    if not operands:
        return nodes.view(source, shape, [e for e in entries if isinstance(e, Affine)])
    if isinstance(source, expr.View):
        composed = _through_view(source, entries)
        if composed is not None:
            return gather(source.source, shape, operands, composed, bounds)
    return expr.gather(source, shape, operands, entries, bounds)


def _through_view(source: expr.View, entries: Sequence[IndexEntry]) -> list[IndexEntry] | None:
    """Entries into what `source` looks at, where data indices pass through unchanged and in the same bounds."""
    data = {f"%{k}": e for k, e in enumerate(entries) if isinstance(e, DataIndex)}
    at = {f"%{k}": e for k, e in enumerate(entries) if isinstance(e, Affine)}
    composed: list[IndexEntry] = []
    for entry, size in zip(source.index, source.source.shape, strict=True):
        used = entry.names() & data.keys()
        if not used:
            composed.append(entry.substitute(at))
            continue
        (name, *others) = sorted(used)
        if others or entry != Affine.symbol(name) or source.shape[int(name[1:])] != size:
            return None
        composed.append(data[name])
    unused = data.keys() - {n for e in source.index for n in e.names()}
    return None if unused else composed


# ---------------------------------------------------------------------------------------------- reading the index


def select(x: Tracer, items: Sequence[Any], apart: bool = False) -> Selection:
    """Take an index apart that holds arrays.  `apart`: an ellipsis that is no longer there stood between them.  Raises
    IndexingError for masks of unknown values."""
    apart = apart or stand_apart(items)
    x, items = known_masks.without_flags(x, items)
    parts = known_masks.positions(x, items)
    if any(is_mask(p) for p in parts):
        raise masked.refusal()
    consumed = [int(p is not None and p is not Ellipsis) for p in parts]
    expanded = expand_ellipsis(parts, x.sizes, consumed)
    advanced = [k for k, p in enumerate(expanded) if not (p is None or isinstance(p, slice))]
    basic = [slice(None) if k in advanced else p for k, p in enumerate(expanded)]
    source = x.through(basic_path(x, basic))
    indices = [index_array(x.state, expanded[k]) for k in advanced]
    common = broadcast_shapes(x.state, *(i.sizes for i in indices))
    adjacent = advanced == list(range(advanced[0], advanced[-1] + 1)) and not apart
    place = advanced[0] if adjacent else 0
    return Selection(source, tuple(advanced), tuple(i.node for i in indices), common, place)


def index_array(trace: Trace, item: Any) -> Tracer:
    """An index as an integer tracer.  Raises IndexingError."""
    if isinstance(item, (str, bytes, float, complex)):
        raise IndexingError(f"an index is an integer, a slice, None, an ellipsis or an array of integers, not {item!r}")
    if isinstance(item, (list, tuple, range)) and not item:
        item = np.zeros(0, np.int64)
    tracer = lift(trace, item)
    if tracer.element.kind not in "iu":
        raise IndexingError(
            f"arrays used as indices are of integer type, not {tracer.dtype}",
            advice="Cast them with .astype(np.int64).",
        )
    if tracer.element in (i32, i64) or (tracer.element.kind == "u" and tracer.element.itemsize < 8):
        return tracer  # without a sign nothing wraps; of 64 bits NumPy wraps what is too large for int64
    return Tracer(trace, nodes.cast(tracer.node, i64))


# ---------------------------------------------------------------------------------------------- take and its kin


def _by_mode(x: Tracer, indices: Tracer, size: Affine, mode: str) -> tuple[Tracer, str]:
    """Indices for NumPy's `mode`, and what is left to check: no mode finds an element of an axis that has none."""
    left = "assume" if x.state.known(size - 1) else "raise"
    extent = Tracer(x.state, nodes.iota((), size), weak=int)
    if mode in ("clip", "wrap") and indices.element not in (i32, i64):
        indices = Tracer(x.state, nodes.cast(indices.node, i64))  # 8 bits do not hold every extent
    if mode == "clip":
        return ufunc("minimum", ufunc("maximum", indices, 0), extent - 1), left
    if mode == "wrap":
        return ufunc("remainder", indices, extent), left
    return Tracer(x.state, wrap_negative(x.state, indices.node, size)), "raise"


def take(
    x: ArrayLike, indices: ArrayLike, axis: int | None = None, mode: str = "raise", *, bounds: str | None = None
) -> Tracer:
    """``np.take``; `bounds` is "raise", "clip" or "assume"."""
    trace = trace_of(x, indices)
    x = lift(trace, x)
    if axis is None:
        x = x.reshape(-1)
        axis = 0
    axis = axes.one(axis, x.ndim)
    if isinstance(indices, masked.Masked) and mode == "raise" and bounds is None:
        return x[(slice(None),) * axis + (indices,)]  # as many as the mask chooses
    chosen = index_array(trace, indices)
    if mode == "raise" and bounds is None:
        return Tracer(trace, x[(slice(None),) * axis + (chosen,)].node)  # a copy, where an index would be a view
    if not trace.decide(x.sizes[axis] - 1) and all(trace.decide(n - 1) for n in chosen.sizes):
        raise IndexingError(f"there are no elements to take: axis {axis} of size 0")
    wrapped, check = _by_mode(x, chosen, x.sizes[axis], "clip" if bounds == "clip" else mode)
    selection = Selection(x, (axis,), (wrapped.node,), chosen.sizes, axis)
    shape, operands, entries = selection.over_result()
    return Tracer(trace, gather(x.node, shape, operands, entries, "assume" if bounds == "assume" else check))


def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Tracer:
    x, indices = lift_all(x, indices)
    if axis is None:
        x = x.reshape(-1)
        axis = 0
    axis = axes.one(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise IndexingError(f"take_along_axis needs indices of rank {x.ndim}, not {indices.ndim}")
    outer = [ONE if k == axis else n for k, n in enumerate(x.sizes)]
    shape = broadcast_shapes(x.state, tuple(outer), indices.sizes)
    chosen = nodes.broadcast(index_array(x.state, indices).node, shape)
    affine = _affine_index(x.state, chosen, x.sizes[axis])
    along = DataIndex(0) if affine is None else affine
    entries = [along if k == axis else (ZERO if x.sizes[k] == ONE else dimension(k)) for k in range(x.ndim)]
    operands = [wrap_negative(x.state, chosen, x.sizes[axis])] if affine is None else []
    return Tracer(x.state, gather(x.node, shape, operands, entries))


def compress(condition: Any, x: ArrayLike, axis: int | None = None) -> Tracer:
    """Only for masks that are known while tracing."""
    if isinstance(condition, Tracer) and (values := settled(condition.state, condition.node)) is not None:
        return take(x, np.flatnonzero(values), axis)
    if not isinstance(condition, (list, tuple, np.ndarray)):
        raise IndexingError("np.compress has a shape that depends on the values of the mask", advice=masked.ADVICE)
    if isinstance(condition, np.ndarray):
        trace_of(x).read.append(condition)
    return take(x, np.flatnonzero(np.asarray(condition)), axis)


def choose(index: ArrayLike, choices: Sequence[ArrayLike], mode: str = "raise") -> Tracer:
    index, last = lift_all(index, *choices)[0], len(choices) - 1
    if index.element.kind == "f" or index.element == u64:
        raise DTypeError(f"np.choose takes integers, not {index.dtype}", advice="Cast them with .astype(np.int64).")
    if mode == "clip":
        index = ufunc("maximum", ufunc("minimum", index, last), 0)
    elif mode == "wrap":
        index = index % len(choices)
    else:
        inside = kept_inside(nodes.cast(index.node, i64), Affine.of(len(choices)), "raise")  # none counts from the end
        index = Tracer(index.state, inside)
    conditions = [index == k for k in range(len(choices))]
    return select_values(conditions, list(choices), default=False)  # which is of no other dtype than the choices


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "getitem": getitem,
    "take": take,
    "take_along_axis": take_along_axis,
    "compress": compress,
    "choose": choose,
}
