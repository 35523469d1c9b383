"""A direct evaluator of programs in NumPy: one array per node, no fusion.  The oracle of tests and of `pf.compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, erfc, gamma, lgamma, prod
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from polyfuse.affine import Affine
from polyfuse.dtypes import DType, f64, integer_limits
from polyfuse.errors import ArgumentError
from polyfuse.expr import (
    Constant,
    DataIndex,
    Gather,
    IndexEntry,
    Input,
    Iota,
    Map,
    Node,
    Opaque,
    Program,
    Recurrence,
    Reduce,
    Region,
    Scalar,
    Scan,
    Scatter,
    Shape,
    View,
    topological,
)
from polyfuse.library_calls import functions
from polyfuse.library_calls.scatter import scatter
from polyfuse.scalars import CASCADES
from polyfuse.terms import Apply, Const, Expr, Inside, Ref, before, conditions

Array = npt.NDArray[Any]
Sizes = Mapping[str, int]


def bind_sizes(program: Program, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The size symbols' values from the shapes of the array arguments, in order.  Raises ArgumentError."""
    wanted = [a for a in program.arguments if not a.is_scalar]
    equations = []
    for argument, shape in zip(wanted, shapes, strict=True):
        if len(shape) != len(argument.shape):
            raise ArgumentError(f"{argument.path} has rank {len(shape)}, the program takes rank {len(argument.shape)}")
        equations += [(size, int(n), argument.path) for size, n in zip(argument.shape, shape, strict=True)]
    sizes: dict[str, int] = {}
    for _ in range(len(equations) + 1):
        for size, n, _path in equations:
            _solve(size.substitute(sizes), n, sizes)
    for size, n, path in equations:
        if not size.names() <= sizes.keys() or size.evaluate(sizes) != n:
            raise ArgumentError(f"{path}: a size of {n} does not fit {size}")
    return sizes


def _solve(size: Affine, n: int, sizes: dict[str, int]) -> None:
    """Bind the symbol of ``size = n``, if it is the only one."""
    if len(size.terms) == 1 and isinstance(size.terms[0][0], str):
        name, factor = size.terms[0]
        if (n - size.constant) % factor == 0:
            sizes[str(name)] = (n - size.constant) // factor


def evaluate(
    program: Program, arrays: Sequence[Any], scalars: Sequence[bool | int | float] = (), *, upcast: bool = False
) -> list[Array]:
    """The outputs of `program` for array arguments and scalar arguments, each in order.

    upcast: compute every float in float64, for an accurate oracle.  Raises IndexError for gathers out of bounds.
    """
    run = Evaluation(*given_values(program, arrays, scalars), upcast)
    return [run.results[node] for node in run.all(program.outputs)]


def given_values(
    program: Program, arrays: Sequence[Any], scalars: Sequence[Any]
) -> tuple[dict[str, int], dict[int, Any]]:
    """The size symbols' values, and every argument by its position.  Raises ArgumentError."""
    given = [np.asarray(a) for a in arrays]
    rest_arrays, rest_scalars = iter(given), iter(scalars)
    values = {k: next(rest_scalars if a.is_scalar else rest_arrays) for k, a in enumerate(program.arguments)}
    return bind_sizes(program, [a.shape for a in given]), values


class Evaluation:
    """One evaluation: the value of every node so far."""

    def __init__(self, sizes: Sizes, arguments: Mapping[int, Any], upcast: bool) -> None:
        self.sizes, self.arguments, self.upcast = sizes, arguments, upcast
        self.results: dict[Node, Array] = {}

    def all(self, outputs: Sequence[Node]) -> Sequence[Node]:
        with np.errstate(all="ignore"):
            for node in topological(outputs):
                self.results[node] = np.asarray(self.value(node)).astype(self.dtype(node.dtype), copy=False)
                self.after(node)
        return outputs

    def after(self, node: Node) -> None:
        """What a subclass finds out about a value that is there."""

    def dtype(self, dtype: DType) -> np.dtype[Any]:
        return f64.numpy if self.upcast and dtype.is_float else dtype.numpy

    def shape(self, shape: Shape) -> tuple[int, ...]:
        return tuple(n.evaluate(self.sizes) for n in shape)

    def value(self, node: Node) -> Any:
        match node:
            case Input():
                return self.arguments[node.position]
            case Scalar():
                return np.asarray(self.arguments[node.position]).astype(node.dtype.numpy)
            case Constant():
                return np.frombuffer(node.bits, node.dtype.numpy)[0]
            case Iota():
                return self.points(node.shape, [node.index])[0]
            case Map():
                return self.map(node)
            case Reduce():
                return self.reduce(node)
            case Scan():
                return self.scan(node)
            case Recurrence():
                return self.recurrence(node)
            case View():
                source = self.results[node.source]
                return np.broadcast_to(source[self.points(node.shape, node.index)], self.shape(node.shape))
            case Region():
                return self.region(node)
            case Gather():
                return self.gather(node)
            case Scatter():
                return self.scatter(node)
            case Opaque():
                return self.opaque(node)
        assert_never(node)

    # ------------------------------------------------------------------------------------------ indices
    def points(self, shape: Shape, index: Sequence[IndexEntry], operands: Sequence[Node] = ()) -> tuple[Array, ...]:
        """Every index entry at every output point."""
        extents = self.shape(shape)
        at: dict[str, Any] = dict(self.sizes)
        at |= {f"%{k}": g for k, g in enumerate(np.ogrid[tuple(slice(0, n) for n in extents)] if extents else ())}
        entries = []
        for entry in index:
            value = self.results[operands[entry.operand]] if isinstance(entry, DataIndex) else entry.evaluate(at)
            entries.append(np.broadcast_to(np.asarray(value, np.int64), extents))
        return tuple(entries)

    def checked(self, shape: Sequence[int], points: tuple[Array, ...], bounds: str) -> tuple[Array, ...]:
        """Points in bounds.  Raises IndexError, or clips."""
        for entry, extent in zip(points, shape, strict=True):
            if bounds == "raise" and entry.size and (entry.min() < 0 or entry.max() >= extent):
                raise IndexError(f"index out of bounds for an axis of size {extent}")
        if bounds == "clip":
            return tuple(np.clip(p, 0, max(n - 1, 0)) for p, n in zip(points, shape, strict=True))
        return points

    # ------------------------------------------------------------------------------------------ nodes
    def map(self, node: Map) -> Any:
        return self.apply(node, [self.results[o] for o in node.operands])

    def apply(self, node: Map, operands: Sequence[Array]) -> Any:
        """The function of `node` of other operands than its own."""
        if node.function == "cast":
            return operands[0].astype(self.dtype(node.dtype))
        if node.function == "bitcast":
            return operands[0].astype(node.operands[0].dtype.numpy).view(node.dtype.numpy)
        return scalar_function(node.function)(*operands)

    def reduce(self, node: Reduce) -> Any:
        operands = [self.results[o] for o in node.operands]
        if node.monoid in ("argmax", "argmin"):
            return _positions(node, operands)
        if node.monoid in CASCADES:
            return _cascade(node, operands)
        ufunc = _MONOID_UFUNCS[node.monoid]
        options: dict[str, Any] = {}
        if node.monoid in ("max", "min"):
            options["initial"] = _worst(node.dtype, node.monoid == "max")
        if node.monoid in ("fmax", "fmin"):
            options["initial"] = np.nan
        return ufunc.reduce(operands[0], axis=node.axes, dtype=operands[0].dtype, **options)

    def scan(self, node: Scan) -> Any:
        operand = self.results[node.operand]
        operand = np.flip(operand, node.axis) if node.reverse else operand
        starts = range(node.run, operand.shape[node.axis], node.run) if node.run else ()
        runs = [_prefix(node, part) for part in np.split(operand, list(starts), node.axis)]
        result = runs[0] if len(runs) == 1 else np.concatenate(runs, node.axis)
        return np.flip(result, node.axis) if node.reverse else result

    def recurrence(self, node: Recurrence) -> Any:
        """Element by element along the axis, all components of an element from the elements before it."""
        operands = [np.moveaxis(self.results[o], node.axis, 0) if o.rank else self.results[o] for o in node.operands]
        results = [np.zeros(operands[0].shape, self.dtype(dtype)) for dtype in node.states]
        every = [c for step in node.steps for c in conditions(step)]
        inside = {c: np.moveaxis(self.inside(node.shape, c), node.axis, 0) for c in every}
        before_it = [(before(lag, c), lag, c) for c in range(len(results)) for lag in node.lags]
        for i in range(len(results[0])):
            given: dict[Any, Array] = {c: holds[i] for c, holds in inside.items()}
            given |= {f"o{k}": o[i] if node.operands[k].rank else o for k, o in enumerate(operands)}
            for k, (name, lag, component) in enumerate(before_it):
                given[name] = results[component][i - lag] if i >= lag else operands[k][i]
            for result, step in zip(results, node.steps, strict=True):
                result[i] = self.term(step, given)
        return np.moveaxis(results[node.component], 0, node.axis)

    def inside(self, shape: Shape, where: Sequence[Affine]) -> Array:
        """Whether all of `where` are >= 0, at every point."""
        holds = [np.ones(self.shape(shape), np.bool_), *(c >= 0 for c in self.points(shape, where))]
        return np.asarray(np.logical_and.reduce(holds))

    def term(self, term: Expr, given: Mapping[Any, Array]) -> Array:
        """A scalar term with `given` for what it names and for its conditions."""
        match term:
            case Ref(name):
                return given[name]
            case Inside(where):
                return given[where]
            case Const(value, dtype):
                return np.asarray(value, self.dtype(dtype))
            case Apply("cast", (operand,), dtype):
                return self.term(operand, given).astype(self.dtype(dtype))
            case Apply("bitcast", (operand,), dtype):
                assert isinstance(operand, (Ref, Const, Apply))
                return self.term(operand, given).astype(operand.dtype.numpy).view(dtype.numpy)
            case Apply(function, operands):
                return np.asarray(scalar_function(function)(*(self.term(o, given) for o in operands)))
            case _:
                raise AssertionError(f"{term} in the step of a recurrence")

    def region(self, node: Region) -> Any:
        return self.pieced(node, self.results, self.dtype(node.dtype))

    def pieced(self, node: Region, values: Mapping[Node, Array], dtype: Any) -> Array:
        """The region with `values` for its sources.  Raises IndexError where it leaves points without a value."""
        extents = self.shape(node.shape)
        result = np.zeros(extents, dtype)
        left = np.ones(extents, np.bool_)
        for piece in node.pieces:
            here = left & self.inside(node.shape, piece.where)
            left = left & ~here
            source = values[piece.source]
            points = tuple(p[here] for p in self.points(node.shape, piece.index))
            if here.any():
                self.checked(source.shape, points, "raise")
                result[here] = source[points] if points else source
        if left.any():
            raise IndexError("a region leaves points without a value")
        return result

    def gather(self, node: Gather) -> Any:
        source = self.results[node.source]
        points = self.points(node.shape, node.index, node.operands)
        return source[self.checked(source.shape, points, node.bounds)]

    def scatter(self, node: Scatter) -> Any:
        indices = self.points(node.updates.shape, node.index, node.operands)
        index = tuple(DataIndex(k) for k in range(len(indices)))
        base, updates = self.results[node.base], self.results[node.updates]
        return scatter(base, updates, *indices, index=index, monoid=node.monoid, bounds=node.bounds)

    def opaque(self, node: Opaque) -> Any:
        operands, call = [self.results[o] for o in node.operands], node.call
        result: Any
        if call.in_place:
            result = np.empty(self.shape(node.shape), node.dtype.numpy)
            given = [a.astype(o.dtype.numpy, copy=False) for a, o in zip(operands, node.operands, strict=True)]
            if call.function is None:
                functions.call(np, call.name, [*given, result], dict(call.settings))
            else:
                call.function(*given, result, stream=0)
        elif call.function is None:
            result = functions.call(np, call.name, operands, dict(call.settings))
        else:
            result = call.function(*operands, **dict(call.settings))
        return result[node.result] if isinstance(result, (tuple, list)) else result


# ---------------------------------------------------------------------------------------------- scalar functions


def _prefix(node: Scan, operand: Array) -> Array:
    """The prefixes of one run of a scan."""
    ufunc = _MONOID_UFUNCS[node.monoid]
    result: Array = ufunc.accumulate(operand, axis=node.axis, dtype=operand.dtype)
    if not node.exclusive:
        return result
    start = _worst(node.dtype, node.monoid.endswith("max")) if ufunc.identity is None else ufunc.identity
    first = np.full_like(np.take(result, [0], node.axis), start)
    return np.concatenate([first, np.delete(result, -1, node.axis)], node.axis)


def _vector(function: Callable[[float], float]) -> Callable[..., Any]:
    plain = np.vectorize(function, otypes=[np.float64])
    return lambda x: plain(x) if np.size(x) else x


def _multiply_high(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    wide = a.astype(np.uint64) * b.astype(np.uint64) if bits < 64 else a.astype(object) * b.astype(object)
    high: Array = np.asarray(wide >> bits).astype(a.dtype)  # rank-0 objects come back as Python integers
    return high


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": _vector(erf),
    "erfc": _vector(erfc),
    "lgamma": _vector(lgamma),
    "tgamma": _vector(gamma),
    "fma": lambda a, b, c: (np.float64(1) * a * b + c).astype(np.result_type(a)),
    "where": np.where,
    "multiply_high": _multiply_high,
    "divide": np.true_divide,
}


def scalar_function(name: str) -> Callable[..., Any]:
    return _FUNCTIONS.get(name) or getattr(np, name)


_MONOID_UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "any": np.logical_or,
    "all": np.logical_and,
    "bitor": np.bitwise_or,
    "bitand": np.bitwise_and,
    "bitxor": np.bitwise_xor,
}


def _worst(dtype: DType, lowest: bool) -> Any:
    """The neutral element of max (lowest) or min."""
    if dtype.is_float:
        return -np.inf if lowest else np.inf
    if dtype.kind == "b":
        return not lowest
    limits = integer_limits(dtype)
    return limits.min if lowest else limits.max


def with_one_axis(node: Reduce, operand: Array) -> Array:
    """An operand of a reduction, its kept axes in front of one axis for all reduced ones."""
    kept = [k for k in range(operand.ndim) if k not in node.axes]
    inner = prod(operand.shape[k] for k in node.axes)
    return np.transpose(operand, [*kept, *node.axes]).reshape(*(operand.shape[k] for k in kept), inner)


def _positions(node: Reduce, operands: Sequence[Array]) -> Any:
    """argmax and argmin over any axes: the first NaN, else the extreme with the lowest index."""
    values, indices = (with_one_axis(node, o) for o in operands)
    best = values.max(-1, keepdims=True) if node.monoid == "argmax" else values.min(-1, keepdims=True)
    hit = (values == best) | (values != values)
    if values.dtype.kind == "f" or values.dtype.name == "bfloat16":
        nan = (values != values).any(-1, keepdims=True)
        hit = np.where(nan, values != values, values == best)
    position = np.where(hit, indices, np.iinfo(indices.dtype).max).min(-1)
    if node.component == 1:
        return position
    return np.squeeze(best, -1)


def _cascade(node: Reduce, operands: Sequence[Array]) -> Any:
    """One component of the state of `scalars.CASCADES`, in two passes."""
    values = [with_one_axis(node, o) for o in np.broadcast_arrays(*operands)]
    if node.monoid in ("max_sumexp", "max_sumexp_short", "max_sumexp_sum"):
        top = values[0].max(-1, initial=-np.inf, keepdims=True)
        base = np.where(top == -np.inf, 0, top)
        found = [top[..., 0], (values[1] * np.exp(values[0] - base)).sum(-1)]
        for count, apart in [values[2:]] if len(values) > 2 else []:
            found += [count.sum(-1), (apart + count * (values[0] - base)).sum(-1)]
    else:
        last = 1 + CASCADES[node.monoid].means
        count, means, spreads = values[0], values[1:last], values[last:]
        total = count.sum(-1, keepdims=True)
        centres = [(count * mean).sum(-1, keepdims=True) / np.maximum(total, 1) for mean in means]
        distances = [mean - centre for mean, centre in zip(means, centres, strict=True)]
        found = [total[..., 0], *(centre[..., 0] for centre in centres)]
        for spread, (i, j) in zip(spreads, CASCADES[node.monoid].pairs, strict=True):
            found.append((spread + count * distances[i] * distances[j]).sum(-1))
    return found[node.component].astype(operands[node.component].dtype)
