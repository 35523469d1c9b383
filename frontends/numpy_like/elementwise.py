"""Elementwise functions: NumPy's ufuncs and what is composed of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import log, pi
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.dtypes import DType, bool_, f32, f64, i8, i64, integer_limits, u64
from polyfuse.errors import ArgumentError, DTypeError, PowerError, TraceError, UnsupportedError
from polyfuse.expr import Node
from polyfuse.frontends.numpy_like import nodes, promotion, python_ranges
from polyfuse.frontends.numpy_like.bit_views import Reinterpreted
from polyfuse.frontends.numpy_like.layout import in_order
from polyfuse.frontends.numpy_like.lifting import (
    as_dtype,
    as_plain,
    broadcast_shapes,
    kind_of,
    lift,
    lift_all,
    trace_of,
)
from polyfuse.frontends.numpy_like.nonzero import nonzero
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.state import Trace, located
from polyfuse.frontends.numpy_like.tracer import Tracer, as_array, whole

ArrayLike = object

# ---------------------------------------------------------------------------------------------- one scalar function

_ON_BOOL = {"add": "bitwise_or", "multiply": "bitwise_and", "maximum": "bitwise_or", "minimum": "bitwise_and"}
_ON_BOOL |= {"not_equal": "bitwise_xor"}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
}
_LOGICAL = {"logical_and": "bitwise_and", "logical_or": "bitwise_or", "logical_xor": "bitwise_xor"}
_LOGICAL |= {"logical_not": "invert"}


_OF_TRUTH = frozenset((*_COMPARISONS, "bitwise_and", "bitwise_or", "bitwise_xor"))
"""Operators that stay truth values in Python, where those of arithmetic take True for 1."""


def combine(trace: Trace, function: str, operands: Sequence[Node]) -> Tracer:
    """A scalar function of nodes of one dtype, broadcast together."""
    shape = broadcast_shapes(trace, *(o.shape for o in operands))
    aligned = [nodes.broadcast(o, shape) if o.rank else o for o in operands]
    return Tracer(trace, nodes.broadcast(nodes.apply(function, aligned), shape))


def ufunc(name: str, *values: ArrayLike) -> Tracer:
    """NumPy's ufunc `name`: promotion, casts, broadcasting."""
    tracers = lift_all(*values)
    kinds = tuple(kind_of(t) for t in tracers)
    inputs, _ = promotion.resolve(name, kinds)
    if len(set(inputs)) > 1:
        return _mixed_comparison(name, tracers)
    if name in _COMPARISONS and any(_is_beyond(t, inputs[0]) for t in tracers):
        return _far_comparison(name, tracers, inputs[0])
    operands = [as_dtype(t, d) for t, d in zip(tracers, inputs, strict=True)]
    function = _ON_BOOL.get(name, name) if inputs[0] == bool_ else name
    return combine(tracers[0].state, function, operands)


def logical(name: str, *values: ArrayLike) -> Tracer:
    """logical_and and its kin: on truth values."""
    tracers = lift_all(*values)
    return combine(tracers[0].state, _LOGICAL[name], [nodes.logical(t.node) for t in tracers])


def _is_beyond(x: Tracer, dtype: DType) -> bool:
    """A Python integer that `dtype` does not hold."""
    if x.weak is not int or not isinstance(x.node, expr.Constant) or dtype.kind not in "iu":
        return False
    limits = integer_limits(dtype)
    return not limits.min <= x.node.value <= limits.max


def _far_comparison(name: str, tracers: Sequence[Tracer], dtype: DType) -> Tracer:
    """Every number of `dtype` compares alike with a Python integer beyond its range: as zero does."""
    a, b = (t.node.value if _is_beyond(t, dtype) else 0 for t in tracers)  # type: ignore[union-attr]
    state = tracers[0].state
    shape = broadcast_shapes(state, *(t.sizes for t in tracers))
    return Tracer(state, nodes.full(shape, bool(_COMPARISONS[name](a, b)), bool_))


def _mixed_comparison(name: str, tracers: Sequence[Tracer]) -> Tracer:
    """Compare int64 with uint64 by value, as NumPy does: a negative number is less than every unsigned one."""
    a, b = tracers
    if a.element.kind == "u":
        mirrored = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
        return _mixed_comparison(mirrored.get(name, name), (b, a))
    negative = ufunc("less", a, 0)
    unsigned = ufunc(name, Tracer(a.state, nodes.cast(a.node, u64)), Tracer(b.state, as_dtype(b, u64)))
    return where(negative, name in ("less", "less_equal", "not_equal"), unsigned)


def _map(name: str) -> Callable[..., Tracer]:
    return partial(ufunc, name)


def as_float(value: ArrayLike, *others: ArrayLike) -> Tracer:
    """`value` in the dtype that NumPy's exp computes in."""
    tracer = lift(trace_of(value, *others), value)
    inputs, _ = promotion.resolve("exp", (kind_of(tracer),))
    return Tracer(tracer.state, as_dtype(tracer, inputs[0]))


def _float_only(name: str, value: ArrayLike, otherwise: bool) -> Tracer:
    """A predicate that is constant on integers."""
    (x,) = lift_all(value)
    if x.element.is_float:
        return combine(x.state, name, [x.node])
    return Tracer(x.state, nodes.full(x.sizes, otherwise, bool_))


# ---------------------------------------------------------------------------------------------- arithmetic


def positive(x: ArrayLike) -> Tracer:
    """``np.positive``, which truth values have not."""
    (x,) = lift_all(x)
    if x.weak is None:
        promotion.resolve("positive", (x.element,))
    return itself(x)


def itself(x: ArrayLike) -> Tracer:
    """The values of `x`, of which what is written later does not change any."""
    (x,) = lift_all(x)
    return Tracer(x.state, x.node, weak=x.weak)


def absolute(x: ArrayLike) -> Tracer:
    (x,) = lift_all(x)
    return itself(x) if x.element.kind in "bu" else ufunc("absolute", x)


def fabs(x: ArrayLike) -> Tracer:
    return ufunc("absolute", as_float(x))


def conjugate(x: ArrayLike) -> Tracer:
    """The number itself."""
    return itself(_number_of_truth(x))


def real(x: ArrayLike) -> Tracer:
    """The array itself: what is written into its real part is written into it."""
    (x,) = lift_all(x)
    return x


def imaginary(x: ArrayLike) -> Tracer:
    """Zeros: arrays are real."""
    (x,) = lift_all(x)
    return Tracer(x.state, nodes.full(x.sizes, 0, x.element))


def square(x: ArrayLike) -> Tracer:
    x = _number_of_truth(x)
    return ufunc("multiply", x, x)


def _number_of_truth(x: ArrayLike) -> Tracer:
    """`x`; truth values as int8, which NumPy takes where a function has no loop for them."""
    (x,) = lift_all(x)
    return Tracer(x.state, nodes.cast(x.node, i8)) if x.element == bool_ and x.weak is None else x


def reciprocal(x: ArrayLike) -> Tracer:
    x = _number_of_truth(x)
    if x.element.is_float:
        return ufunc("divide", Tracer(x.state, expr.constant(1, x.element)), x)
    one = Tracer(x.state, expr.constant(1, x.element))
    return where(equal(x, 0), 0, divide_truncating(one, x))


def divide_truncating(a: Tracer, b: Tracer) -> Tracer:
    """Integer division toward zero, as C."""
    rest = combine(a.state, "fmod", [a.node, b.node])
    return combine(a.state, "floor_divide", [(a - rest).node, b.node])


def operator_power(x: ArrayLike, y: ArrayLike) -> Tracer:
    """``x ** y``: NumPy's operator takes short cuts for some exponents."""
    a, b = lift_all(x, y)
    if isinstance(b.node, expr.Constant) and a.element.is_float and b.weak is not None:
        exponent = float(b.node.value)
        if exponent == 0.5:
            return ufunc("sqrt", a)
        if exponent == -1:
            return reciprocal(a)
    if a.element.is_float and b.weak is float and a.ndim:
        return _to_one_exponent(a, b, a.element)
    if a.element == bool_ and a.weak is None and isinstance(b.node, expr.Constant) and b.weak and b.node.value == 2:
        return square(a)
    return power(a, b)


def power(x: ArrayLike, y: ArrayLike) -> Tracer:
    a, b = lift_all(x, y)
    inputs, _ = promotion.resolve("power", (kind_of(a), kind_of(b)))
    if inputs[0].kind in "iu" and isinstance(b.node, expr.Constant) and b.node.value < 0:
        raise PowerError(
            "integers to negative integer powers are not allowed", advice="Use a float base: x.astype(np.float64) ** y."
        )
    if inputs[0].is_float and inputs[0].itemsize >= 4 and a.ndim and not b.ndim:
        return _to_one_exponent(a, b, inputs[0])
    return ufunc("power", a, b)


def _to_one_exponent(a: Tracer, b: Tracer, dtype: DType) -> Tracer:
    """NumPy takes the square root where all elements have the exponent 0.5: of -inf it is no number."""
    if isinstance(b.node, expr.Constant) and b.node.value != 0.5:
        return ufunc("power", a, b)
    root = combine(a.state, "sqrt", [as_dtype(a, dtype)])
    return root if isinstance(b.node, expr.Constant) else where(equal(b, 0.5), root, ufunc("power", a, b))


def float_power(x: ArrayLike, y: ArrayLike) -> Tracer:
    a, b = lift_all(x, y)
    return combine(a.state, "power", [as_dtype(a, f64), as_dtype(b, f64)])


def divmod_(x: ArrayLike, y: ArrayLike) -> tuple[Tracer, Tracer]:
    return ufunc("floor_divide", x, y), ufunc("remainder", x, y)


def sign(x: ArrayLike) -> Tracer:
    (x,) = lift_all(x)
    promotion.resolve("sign", (kind_of(x),))
    return ufunc("sign", x)


def heaviside(x: ArrayLike, at_zero: ArrayLike) -> Tracer:
    x, at_zero = lift_all(x, at_zero)
    inputs, _ = promotion.resolve("heaviside", (kind_of(x), kind_of(at_zero)))
    x, at_zero = (Tracer(t.state, as_dtype(t, inputs[0])) for t in (x, at_zero))
    step = where(less(x, 0), 0.0, where(ufunc("greater", x, 0), 1.0, at_zero))
    return where(isnan(x), x, step)


def fmax_like(name: str, x: ArrayLike, y: ArrayLike) -> Tracer:
    """fmax and fmin: NaN is ignored; on integers the same as maximum and minimum."""
    a, b = lift_all(x, y)
    inputs, _ = promotion.resolve(name, (kind_of(a), kind_of(b)))
    return ufunc(name if inputs[0].is_float else {"fmax": "maximum", "fmin": "minimum"}[name], a, b)


def deg2rad(x: ArrayLike) -> Tracer:
    return as_float(x) * (pi / 180)


def rad2deg(x: ArrayLike) -> Tracer:
    return as_float(x) * (180 / pi)


def sinc(x: ArrayLike) -> Tracer:
    """``sin(pi x) / (pi x)``, 1 at 0; of integers in float64, as NumPy has it."""
    (x,) = lift_all(x)
    is_zero = equal(x, 0)
    y = where(is_zero, 1, x) * pi
    return where(is_zero, 1, ufunc("sin", y) / y)


def logaddexp(x: ArrayLike, y: ArrayLike) -> Tracer:
    larger, distance = _log_sum_parts(x, y)
    return larger + ufunc("log1p", ufunc("exp", -distance))


def logaddexp2(x: ArrayLike, y: ArrayLike) -> Tracer:
    larger, distance = _log_sum_parts(x, y)
    return larger + ufunc("log1p", ufunc("exp2", -distance)) * (1 / log(2))


def _log_sum_parts(x: ArrayLike, y: ArrayLike) -> tuple[Tracer, Tracer]:
    """The larger operand and the distance; 0 between equal infinities."""
    a, b = lift_all(x, y)
    inputs, _ = promotion.resolve("logaddexp", (kind_of(a), kind_of(b)))
    a, b = (Tracer(t.state, as_dtype(t, inputs[0])) for t in (a, b))
    return ufunc("maximum", a, b), where(equal(a, b), 0, absolute(a - b))


# ---------------------------------------------------------------------------------------------- comparisons, selection

less, equal, isnan = _map("less"), _map("equal"), partial(_float_only, "isnan", otherwise=False)


def where(condition: ArrayLike, x: ArrayLike = None, y: ArrayLike = None) -> Tracer:
    """``np.where`` with three arguments; with one it gives positions."""
    if x is None and y is None:
        return nonzero(lift_all(condition)[0], "np.where(mask)")  # type: ignore[no-any-return]
    if x is None or y is None:
        raise ArgumentError("np.where takes both values or none", advice="Write np.where(condition, a, b).")
    condition, x, y = lift_all(condition, x, y)
    dtype = promotion.common((kind_of(x), kind_of(y)))
    return combine(x.state, "where", [nodes.logical(condition.node), as_dtype(x, dtype), as_dtype(y, dtype)])


isfinite = partial(_float_only, "isfinite", otherwise=True)
isinf = partial(_float_only, "isinf", otherwise=False)


def signbit(x: ArrayLike) -> Tracer:
    (x,) = lift_all(x)
    return combine(x.state, "signbit", [x.node]) if x.element.is_float else less(x, 0)


# ---------------------------------------------------------------------------------------------- casts


def astype(
    x: ArrayLike,
    dtype: Any,
    order: Any = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: bool = True,
    *,
    device: Any = None,
) -> Tracer:
    """A cast; a fresh array, but with ``copy=False`` the array itself where it has the dtype and lies in `order`.
    Raises DTypeError where the rule `casting` forbids it."""
    (x,) = lift_all(x)
    if casting != "unsafe" and not np.can_cast(x.dtype, numpy_dtype(dtype).numpy, casting):
        raise DTypeError(
            f"x.astype cannot cast {x.dtype} to {numpy_dtype(dtype).numpy} by the rule {casting!r}",
            advice="Leave casting out if another value is meant where the number does not fit.",
        )
    if not copy and x.weak is None and x.element == numpy_dtype(dtype):
        return in_order(x, order)
    return Tracer(x.state, as_dtype(x, numpy_dtype(dtype)))


def bit_view(x: Tracer, dtype: Any = None) -> Tracer:
    """``x.view(dtype)`` for dtypes of one width."""
    if dtype is None:
        return x[...]
    wanted = numpy_dtype(dtype)
    if wanted.itemsize != x.element.itemsize:
        raise UnsupportedError(
            f"x.view from {x.dtype} to {wanted.numpy} changes the number of elements",
            advice="View as a dtype of the same width.",
        )
    path = None if x.path is None else replace(whole(x.sizes), strides=x.path.strides)
    return Tracer(x.state, Reinterpreted(Tracer(x.state, x.buffer, x.path), wanted), path)


def copy(x: ArrayLike, *args: Any, **kwargs: Any) -> Tracer:
    copied = itself(x)
    return as_array(copied) if isinstance(x, Tracer) and x.buffer.is_array else copied


def to_device(x: Tracer, device: Any, /, *, stream: Any = None) -> Tracer:
    """The array itself: all arrays of a program are on one device."""
    if device != x.device:
        raise UnsupportedError(
            f"an array of a jitted function cannot move to device {device!r}",
            advice="Move arguments before the call, and results after it.",
        )
    return x


def weak(name: str, *values: ArrayLike) -> Tracer:
    """A Python operator on Python scalars: the result is a Python scalar again."""
    trace = trace_of(*values)
    functions = {"pow": operator_power}
    function = functions.get(name) or trace.functions[name]
    numbers = [lift(trace, as_plain(v)) for v in values]
    if all(number.weak is bool for number in numbers) and name not in _OF_TRUTH:  # True + True is 2
        numbers = [Tracer(trace, nodes.cast(number.node, i64), weak=int) for number in numbers]
    if name in ("pow", "power") and numbers[0].weak in (int, bool) and numbers[1].weak is int:
        number = numbers[1] = _of_known_sign(trace, numbers[1])
        if python_ranges.is_negative(trace, number.node):  # 2 ** -1 is 0.5
            numbers[0] = Tracer(trace, nodes.cast(numbers[0].node, f64), weak=float)
    result = function(*numbers)
    if result.element.kind == "i":
        python_ranges.keep_in_range(trace, result.node)
    return Tracer(trace, result.node, weak=promotion.weak_of(result.element))


def _of_known_sign(trace: Trace, number: Tracer) -> Tracer:
    """A Python integer whose sign is the same in all calls of this trace: the power of an integer is an integer or a
    float by it.  Raises TraceError where it is data, or belongs to a number that has no value yet."""
    if python_ranges.keep_sign(trace, number.node):
        return number
    value = trace.scalar_value(number.node)
    if not isinstance(value, int):
        raise located(
            TraceError(
                "Python gives an int or a float by the sign of this exponent, which is unknown while tracing",
                advice="Write a float base, as 2.0 ** n.",
            )
        )
    return lift(trace, value)


def as_python(x: Tracer) -> Tracer:
    """A scalar that Python computed, and that is a Python scalar therefore."""
    return Tracer(x.state, x.node, weak=promotion.weak_of(x.element))


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Tracer:
    """``a * b + c`` with one rounding."""
    tracers = lift_all(a, b, c)
    dtype = promotion.common(tuple(kind_of(t) for t in tracers))
    return combine(tracers[0].state, "fma", [as_dtype(t, dtype if dtype.is_float else f32) for t in tracers])


def name(x: Tracer, text: str) -> Tracer:
    """Call the value `text` in plans and generated code."""
    x.state.names[x.node.digest] = text
    return x


_SAME_NAME = """add subtract multiply divide floor_divide remainder fmod negative less less_equal greater
    greater_equal equal not_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift invert maximum minimum rint
    copysign nextafter sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh
    arccosh arctanh arctan2 hypot cbrt rsqrt erf erfc lgamma tgamma""".split()

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: _map(n) for n in _SAME_NAME},
    **{n: partial(logical, n) for n in _LOGICAL},
    **{n: partial(fmax_like, n) for n in ("fmax", "fmin")},
    "true_divide": _map("divide"),
    "mod": _map("remainder"),
    "bitwise_not": _map("invert"),
    "abs": absolute,
    "absolute": absolute,
    "fabs": fabs,
    "positive": positive,
    "conjugate": conjugate,
    "conj": conjugate,
    "real": real,
    "imag": imaginary,
    "real_if_close": real,
    "square": square,
    "reciprocal": reciprocal,
    "power": power,
    "pow": operator_power,
    "float_power": float_power,
    "divmod": divmod_,
    "sign": sign,
    "heaviside": heaviside,
    "deg2rad": deg2rad,
    "radians": deg2rad,
    "rad2deg": rad2deg,
    "degrees": rad2deg,
    "sinc": sinc,
    "logaddexp": logaddexp,
    "logaddexp2": logaddexp2,
    "isnan": isnan,
    "isinf": isinf,
    "isfinite": isfinite,
    "signbit": signbit,
    "where": where,
    "astype": astype,
    "view": bit_view,
    "copy": copy,
    "to_device": to_device,
    "weak": weak,
    "as_python": as_python,
    "fma": fma,
    "name": name,
}
