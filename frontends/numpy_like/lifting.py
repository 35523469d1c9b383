"""From whatever meets a tracer (numbers, sizes, lists, real arrays) to tracers, and on to nodes of a dtype."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isinf, isnan
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import ONE, Affine
from polyfuse.dtypes import DType, bool_, f64, i64, integer_limits, u64
from polyfuse.errors import DTypeError, NotANumberError, OutOfRangeError, ShapeError, TraceError
from polyfuse.expr import Node, Shape
from polyfuse.frontends.index_notation.terms import Term
from polyfuse.frontends.numpy_like import nodes, promotion
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.python_ranges import exceeds, may_overflow
from polyfuse.frontends.numpy_like.refusals import masked_array
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.specs import is_array, numpy_dtype
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.watched import read

ArrayLike = object


def traced_in(values: Iterable[Any]) -> Iterator[Tracer | SymbolicSize | Masked | Term]:
    """What belongs to a trace among nested values."""
    for value in values:
        if isinstance(value, (Tracer, SymbolicSize, Masked, Term)):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from traced_in(value)
        elif isinstance(value, slice):
            yield from traced_in((value.start, value.stop, value.step))


def traces_in(values: Iterable[Any]) -> Iterator[Trace]:
    """The traces of tracers and sizes among nested values."""
    for value in traced_in(values):
        found = value.trace() if isinstance(value, Term) else value.state
        yield from () if found is None else (found,)


def trace_of(*values: Any) -> Trace:
    """The trace that `values` belong to.  Raises TraceError when there is none, or more than one."""
    found: Trace | None = None
    for trace in traces_in(values):
        if found is not None and trace is not found:
            raise TraceError(
                f"an array of another trace is used here: {_made(values)}it outlived its function call",
                advice="Pass arrays as arguments and return results; do not keep them in globals or attributes.",
            )
        found = trace
    if found is None:
        raise TraceError("no array of the jitted function among the arguments")
    return found


def _made(values: Iterable[Any]) -> str:
    """Where the first of `values` whose trace has ended was made."""
    return next((v.state.made(v) for v in values if isinstance(v, Tracer) and v.state.ended), "")


def lift(trace: Trace, value: Any) -> Tracer:
    """`value` as a tracer: numbers weakly typed, sizes as runtime scalars, arrays captured as hidden arguments."""
    match value:
        case Tracer():
            trace_of(value) if value.state is trace else trace_of(value, Tracer(trace, expr.constant(0, i64)))
            return value
        case SymbolicSize():
            if not value.is_numpy and may_overflow(value.factors) and exceeds(trace, value.factors):
                return _number(trace, int(value))
            return Tracer(trace, product_node(value.factors), weak=None if value.is_numpy else int)
        case np.generic():
            return Tracer(trace, expr.constant(value.item(), numpy_dtype(value.dtype)))
        case bool() | int() | float():
            return _number(trace, value)
        case Sequence() if not isinstance(value, (str, bytes)):
            return _sequence(trace, value)
    if isinstance(value, Masked):
        value.settle()
        raise value.refusal()
    if isinstance(value, Term):
        raise TraceError(
            "this takes whole arrays, not elements or indices",
            advice="Apply it to an array outside of index notation; both mix freely.",
        )
    if is_array(value):
        return _array(trace, value)
    hint = "Keep the real and the imaginary part in two arrays." if isinstance(value, complex) else ""
    hint = "Write int(...) around it." if hasattr(type(value), "__index__") else hint
    raise DTypeError(f"a value of type {type(value).__name__} cannot take part in array operations", advice=hint)


def as_plain(value: Any) -> Any:
    """A number of Python's own kinds in place of one of a class below, as the members of an `enum.IntEnum` are."""
    below = isinstance(value, (int, float)) and not isinstance(value, (bool, np.generic))
    return (int(value) if isinstance(value, int) else float(value)) if below else value


def _number(trace: Trace, value: bool | int | float) -> Tracer:
    """Weakly typed, but for the numbers of classes below, whose dtypes count as those of arrays do."""
    weak = next(t for t in (bool, int, float) if isinstance(value, t))
    dtype = u64 if weak is int and value >= 1 << 63 else promotion.default(weak)
    if weak is int and not -(1 << 63) <= value < 1 << 64:  # which floats take, and integers compare with
        dtype = f64
    try:
        own = type(value) in (bool, int, float)
        return Tracer(trace, expr.constant(as_plain(value), dtype), weak=weak if own else None)
    except OverflowError:
        advice = "Multiply by floats, or by several integers."
        raise OutOfRangeError("an integer is beyond all floats", advice=advice) from None


def _array(trace: Trace, value: Any) -> Tracer:
    if isinstance(value, np.ma.MaskedArray):
        raise masked_array()
    if value.ndim == 0 and isinstance(value, np.ndarray):
        return Tracer(trace, expr.constant(read(value).item(), numpy_dtype(value.dtype)))
    return Tracer(trace, trace.capture(value))


def _sequence(trace: Trace, value: Sequence[Any]) -> Tracer:
    if any(True for _ in traces_in(value)):
        return trace.call("stack", [lift(trace, v) for v in value])  # type: ignore[no-any-return]
    array = np.asarray(value)
    numpy_dtype(array.dtype)
    return _array(trace, array)


def lift_all(*values: Any) -> list[Tracer]:
    trace = trace_of(*values)
    return [lift(trace, v) for v in values]


def lift_arrays(*values: Any) -> list[Tracer]:
    """As `lift_all`, for functions of NumPy's that make arrays of their arguments first: numbers have a dtype then that
    counts like any other, float64 or int64."""
    return [x if x.weak is None else Tracer(x.state, x.node) for x in lift_all(*values)]


def product_node(factors: tuple[Affine, ...]) -> Node:
    """The product of sizes as an int64 scalar."""
    result: Node = expr.constant(1, i64)
    for factor in factors:
        result = nodes.apply("multiply", [result, nodes.iota((), factor)])
    return result


def kind_of(tracer: Tracer) -> promotion.Kind:
    return tracer.weak or tracer.element


def as_dtype(tracer: Tracer, dtype: DType) -> Node:
    """The value of `tracer` in `dtype`.  Weak scalars take it directly, as NumPy does."""
    node = tracer.node
    if tracer.weak is None or node.dtype == dtype:
        return nodes.cast(node, dtype)
    if tracer.weak is int and dtype.kind in "iu":
        limits = integer_limits(dtype)
        tracer.state.confine(node, int(limits.min), int(limits.max))
    if isinstance(node, expr.Scalar) and not _loses(tracer.weak, dtype):
        return expr.scalar(node.position, dtype)
    if isinstance(node, expr.Constant):
        if tracer.weak is not bool and dtype.kind in "iu":
            check_integer(node.value, dtype, "integer" if tracer.weak is int else "float")
        return expr.constant(node.value, dtype)
    return nodes.cast(node, dtype)


def as_real(value: ArrayLike, *others: ArrayLike) -> Tracer:
    """Floats as they are, all else in float64: what those functions of NumPy compute in that are no ufuncs."""
    tracer = lift(trace_of(value, *others), value)
    return tracer if tracer.element.is_float else Tracer(tracer.state, as_dtype(tracer, f64))


def _loses(weak: type, dtype: DType) -> bool:
    """Whether less is left in `dtype` of a number of Python's type `weak`.  The kernel converts it then: its parameter
    holds what the caller passed, which other uses share."""
    return (weak is float and not dtype.is_float) or (weak is int and dtype.kind == "b")


def check_integer(value: int | float, dtype: DType, kind: str = "integer") -> None:
    """Raises OutOfRangeError for a number that integers of the dtype cannot hold, NotANumberError for NaN."""
    if isnan(value):
        advice = "Cast the array to floats first, or write an integer that stands for what is missing."
        raise NotANumberError(f"NaN is no value of {dtype.numpy}", advice=advice)
    if not fits(value if isinf(value) else int(value), dtype):
        raise OutOfRangeError(
            f"the Python {kind} {value} is out of bounds for {dtype.numpy}",
            advice="Cast the array to a wider dtype.",
        )


def fits(value: int | float, dtype: DType) -> bool:
    """Whether a number lies among those of an integer dtype; any does of other dtypes."""
    if dtype.kind not in "iu":
        return True
    limits = integer_limits(dtype)
    return bool(limits.min <= value <= limits.max)


# ---------------------------------------------------------------------------------------------- broadcasting


def broadcast_shapes(trace: Trace, *shapes: Shape) -> Shape:
    """NumPy's common shape.  Sizes equal by hint are equated (retrace).  Raises ShapeError naming the shapes."""
    rank = max(map(len, shapes), default=0)
    result = [ONE] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, start=rank - len(shape)):
            result[axis] = _common_size(trace, result[axis], size, shapes, axis - rank)
    return tuple(result)


def _common_size(trace: Trace, a: Affine, b: Affine, shapes: Sequence[Shape], axis: int) -> Affine:
    if a == b or b == ONE:
        return a
    if a == ONE:
        return b
    if trace.equal(a, b):
        return a
    for one, other in ((a, b), (b, a)):
        if trace.equal(one, ONE):
            return other
    raise mismatch("shapes do not broadcast", trace, shapes, a, b, f"axis {axis}")


def check_mask(x: Tracer, mask: Any, within: bool = False) -> None:
    """Raises DTypeError for a ``where=`` of other values than truth values, and ShapeError for one that is to lie
    `within` the shape of `x` and does not."""
    given = lift(x.state, mask)
    if given.element != bool_ and given.weak is None:
        raise DTypeError(f"where= takes truth values, not {given.dtype}", advice="Write where=mask != 0.")
    if within and given.ndim > x.ndim:
        raise ShapeError(f"where= of shape {text_of(given.sizes)} for an array of shape {text_of(x.sizes)}")
    if within:
        problem = f"where= of shape {text_of(given.sizes)} does not broadcast to {text_of(x.sizes)}"
        check_fits(x.state, given.sizes, x.sizes, problem)


def check_fits(trace: Trace, shape: Shape, target: Shape, problem: str) -> None:
    """Raise ShapeError with `problem` unless `shape` broadcasts to `target` as it is."""
    aligned = target[len(target) - len(shape) :]
    fits = len(shape) <= len(target) and all(
        a in (b, ONE) or trace.equal(a, b) or trace.equal(a, ONE) for a, b in zip(shape, aligned, strict=True)
    )
    if not fits:
        raise ShapeError(problem)


def mismatch(problem: str, trace: Trace, shapes: Sequence[Shape], a: Affine, b: Affine, axes: str) -> ShapeError:
    shown = " and ".join(text_of(s) for s in dict.fromkeys(shapes))
    advice = f"Sizes {a} and {b} of {axes} differ."
    names = (a.names() | b.names()) - trace.fresh
    if names:
        advice = f"Sizes {a} and {b} of {axes} differ; if they are equal, write the same letter in both specs."
    elif hinted := [f"{n} = {trace.hint(n)}" for n in (a, b) if not n.is_constant]:
        advice = f"Sizes {a} and {b} of {axes} differ (here {', '.join(hinted)})."
    return ShapeError(f"{problem}: {shown}", advice=advice)


def text_of(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def broadcast(tracer: Tracer, shape: Shape) -> Node:
    return nodes.broadcast(tracer.node, shape)
