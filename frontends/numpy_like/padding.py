"""``np.pad``: constants, repeated elements, statistics and ramps before and behind every axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.affine import ZERO, Affine, dimension, dimensions
from polyfuse.dtypes import f64
from polyfuse.errors import ArgumentError, ShapeError, UnsupportedError
from polyfuse.expr import Piece, Shape
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.joining import concatenate
from polyfuse.frontends.numpy_like.lifting import as_dtype, lift, lift_all
from polyfuse.frontends.numpy_like.sizes import size_of
from polyfuse.frontends.numpy_like.slicing import position
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import broadcast, flip

ArrayLike = object


def _widths(x: Tracer, pad_width: Any) -> list[tuple[Affine, Affine]]:
    """(before, after) for every axis, from NumPy's four spellings."""
    if isinstance(pad_width, np.ndarray):
        x.state.read.append(pad_width)
        pad_width = pad_width.tolist()
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * x.ndim
        for axis, width in pad_width.items():
            pairs[axis] = width if isinstance(width, tuple) else (width, width)
    elif not isinstance(pad_width, (tuple, list)):
        pairs = [(pad_width, pad_width)] * x.ndim
    elif not isinstance(pad_width[0], (tuple, list, np.ndarray)):
        pairs = [(pad_width[0], pad_width[-1])] * x.ndim
    else:
        rows = [(w[0], w[-1]) for w in pad_width]
        pairs = rows * x.ndim if len(rows) == 1 else rows
    if isinstance(pad_width, (tuple, list)):
        rows_given = [pad_width] if not isinstance(pad_width[0], (tuple, list, np.ndarray)) else pad_width
        if any(len(row) > 2 for row in rows_given):
            raise ShapeError(f"a pad width is one number, or one before and one after, not {pad_width}")
    if len(pairs) != x.ndim:
        raise ShapeError(f"pad_width names {len(pairs)} axes of an array of rank {x.ndim}")
    found = [(position(x.state, a, "a pad width"), position(x.state, b, "a pad width")) for a, b in pairs]
    if any(n.is_constant and n.constant < 0 for pair in found for n in pair):
        raise ShapeError("pad widths cannot be negative", advice="Slice the array instead.")
    return found


_MODES_OF = {
    "constant_values": ("constant",),
    "end_values": ("linear_ramp",),
    "stat_length": ("maximum", "minimum", "mean", "median"),
    "reflect_type": ("reflect", "symmetric"),
}


def pad(
    x: ArrayLike,
    pad_width: Any,
    mode: str = "constant",
    **options: Any,
) -> Tracer:
    """All of NumPy's modes, one axis after the other."""
    (x,) = lift_all(x)
    widths = _widths(x, pad_width)
    for name in options:
        if mode not in _MODES_OF.get(name, ()):
            raise ArgumentError(f"np.pad with mode {mode!r} takes no {name}", advice="Leave it out.")
    given = options.get("constant_values", 0), options.get("end_values", 0), options.get("stat_length")
    x.state.read.extend(v for v in given if isinstance(v, np.ndarray))
    values, ends, lengths = (_edge_values(v, x.ndim) for v in given)
    reflect_type = options.get("reflect_type", "even")
    for axis, (before, after) in enumerate(widths):
        if before == after == ZERO:
            continue
        match mode:
            case "constant" | "empty":
                x = _pad_constant(x, axis, before, after, values[axis])
            case "edge" | "reflect" | "symmetric" | "wrap":
                odd = reflect_type == "odd" and mode in ("reflect", "symmetric")
                x = _pad_odd(x, axis, before, after, mode) if odd else _pad_repeating(x, axis, before, after, mode)
            case "maximum" | "minimum" | "mean" | "median":
                x = _pad_statistic(x, axis, before, after, mode, lengths[axis])
            case "linear_ramp":
                x = _pad_ramp(x, axis, before, after, ends[axis])
            case _:
                raise UnsupportedError(
                    f"np.pad with mode {mode!r} is not supported",
                    advice="Write the name of one of NumPy's modes, or join the parts with np.concatenate.",
                )
    return Tracer(x.state, x.node)


def _edge_values(values: Any, rank: int) -> list[tuple[Any, Any]]:
    if isinstance(values, np.ndarray):
        values = list(values) if values.ndim else values[()]
    if not isinstance(values, (tuple, list)):
        return [(values, values)] * rank
    if not isinstance(values[0], (tuple, list, np.ndarray)):
        return [(values[0], values[-1])] * rank
    pairs = [(v[0], v[-1]) for v in values]
    return pairs * rank if len(pairs) == 1 else pairs


def _grown(x: Tracer, axis: int, more: Affine) -> Shape:
    return tuple(n + more if k == axis else n for k, n in enumerate(x.sizes))


def _pad_constant(x: Tracer, axis: int, before: Affine, after: Affine, values: tuple[Any, Any]) -> Tracer:
    point, size = dimension(axis), x.sizes[axis]
    index = list(dimensions(x.ndim))
    index[axis] = point - before
    low, high = (as_dtype(lift(x.state, v), x.element) for v in values)
    inside = Piece((point - before, before + size - 1 - point), x.node, tuple(index))
    start = [] if low is high else [Piece((before - 1 - point,), low, ())]
    pieces = [*start, inside, Piece((), high, ())]
    return Tracer(x.state, nodes.region(_grown(x, axis, before + after), pieces))


def _pad_repeating(x: Tracer, axis: int, before: Affine, after: Affine, mode: str) -> Tracer:
    """The part before, the array, the part after: each reads the array at an affine index."""
    point, size = dimension(axis), x.sizes[axis]
    limit = size - 1 if mode == "reflect" else size
    if mode != "edge" and not all(x.state.decide(limit - w) for w in (before, after)):
        return _pad_wider(x, axis, before, after, mode)
    _check_filled(x, axis, mode)
    last = before + size - 1
    low, high = {
        "edge": (ZERO, size - 1),
        "reflect": (before - point, size - 1 - (point - last)),
        "symmetric": (before - 1 - point, size - (point - last)),
        "wrap": (point - before + size, point - before - size),
    }[mode]
    pieces = []
    for where, entry in (((before - 1 - point,), low), ((last - point,), point - before), ((), high)):
        index = list(dimensions(x.ndim))
        index[axis] = Affine.of(entry)
        pieces.append(Piece(where, x.node, tuple(index)))
    return Tracer(x.state, nodes.region(_grown(x, axis, before + after), pieces))


def _pad_wider(x: Tracer, axis: int, before: Affine, after: Affine, mode: str) -> Tracer:
    """Padding that repeats the array more than once: the positions are a table, of sizes that are known."""
    size, widths = x.state.fixed(x.sizes[axis]), (x.state.fixed(before), x.state.fixed(after))
    if not size:
        raise ShapeError(f"an empty axis cannot be padded with mode {mode!r}")
    positions = np.pad(np.arange(size), widths, mode=mode)  # type: ignore[call-overload]
    found: Tracer = x[(slice(None),) * axis + (positions,)]
    return found


def _pad_odd(x: Tracer, axis: int, before: Affine, after: Affine, mode: str) -> Tracer:
    """Reflected in the points at both ends as well: twice the edge minus what the mode repeats."""
    limit = x.sizes[axis] - 1 if mode == "reflect" else x.sizes[axis]
    if not all(x.state.decide(limit - w) for w in (before, after)):
        raise UnsupportedError(
            f"np.pad with mode {mode!r} and reflect_type='odd' is not supported for more elements than the axis has",
            advice="Pad several times.",
        )
    even = _pad_repeating(x, axis, before, after, mode)
    start, end = size_of(x.state, before), size_of(x.state, before + x.sizes[axis])
    cut = (slice(None),) * axis
    low, high = even[(*cut, slice(0, start))], even[(*cut, slice(end, None))]
    first, last = x[(*cut, slice(0, 1))], x[(*cut, slice(-1, None))]
    return concatenate([2 * first - low, x, 2 * last - high], axis)


def _pad_statistic(
    x: Tracer, axis: int, before: Affine, after: Affine, mode: str, lengths: tuple[Any, Any]
) -> Tracer:
    """A statistic of the elements next to each end; of integers it is rounded."""
    cut, parts = (slice(None),) * axis, [x]
    _check_filled(x, axis, mode)
    reduction = x.state.functions[{"maximum": "max", "minimum": "min"}.get(mode, mode)]
    for at_end, width, length in ((False, before, lengths[0]), (True, after, lengths[1])):
        if width == ZERO:
            continue
        size = x.sizes[axis] if length is None else position(x.state, length, "stat_length")
        near = x
        if x.state.decide(x.sizes[axis] - size - 1):
            first, last = (x.sizes[axis] - size, x.sizes[axis]) if at_end else (ZERO, size)
            near = x[(*cut, slice(size_of(x.state, first), size_of(x.state, last)))]
        value = reduction(near, axis=axis, keepdims=True)
        value = x.state.functions["rint"](value) if x.element.kind in "iu" else value
        filled = broadcast(value.astype(x.dtype), tuple(width if k == axis else n for k, n in enumerate(x.sizes)))
        parts = [*parts, filled] if at_end else [filled, *parts]
    return concatenate(parts, axis)


def _pad_ramp(x: Tracer, axis: int, before: Affine, after: Affine, ends: tuple[Any, Any]) -> Tracer:
    """Steps from the values at the far ends to those at the edges, in float64 as ``np.linspace`` has them."""
    cut, parts = (slice(None),) * axis, [x]
    _check_filled(x, axis, "linear_ramp")
    for at_end, width, end in ((False, before, ends[0]), (True, after, ends[1])):
        if width == ZERO:
            continue
        edge = x[(*cut, slice(-1, None) if at_end else slice(0, 1))].astype(np.float64)
        shape = tuple(width if k == axis else n for k, n in enumerate(x.sizes))
        step = Tracer(x.state, nodes.cast(nodes.iota(shape, dimension(axis)), f64))
        far = lift(x.state, end)
        ramp = (edge - far) / size_of(x.state, width) * step + far
        ramp = x.state.functions["floor"](ramp) if x.element.kind in "iu" else ramp
        ramp = ramp.astype(x.dtype)
        parts = [*parts, flip(ramp, axis)] if at_end else [ramp, *parts]
    return concatenate(parts, axis)


def _check_filled(x: Tracer, axis: int, mode: str) -> None:
    if not x.state.decide(x.sizes[axis] - 1):
        raise ShapeError(f"an empty axis cannot be padded with mode {mode!r}")


FUNCTIONS: dict[str, Callable[..., Any]] = {"pad": pad}
