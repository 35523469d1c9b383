"""Slot-by-slot operations: Python's operators and every function of the table of scalar functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from polyfuse.backends.numba_cuda.fragments.arithmetic import (
    Op,
    by_kind,
    compare,
    emit_absolute,
    emit_divide,
    emit_floor_divide,
    emit_fma,
    emit_fmod,
    emit_left_shift,
    emit_multiply_high,
    emit_negative,
    emit_power,
    emit_remainder,
    emit_right_shift,
    emit_sign,
    extremum,
    is_finite,
    is_infinite,
    is_nan,
    libdevice,
    sign_bit,
)
from polyfuse.backends.numba_cuda.fragments.declare import (
    Emit,
    Rule,
    declare_operator,
    meeting,
    named,
    operation,
    slotwise,
)
from polyfuse.backends.numba_cuda.fragments.division import has_own_divisors, shared_quotients, shares_divisors
from polyfuse.backends.numba_cuda.fragments.quotients import emit_root, quotients, quotients_pay, roots, roots_pay
from polyfuse.backends.numba_cuda.fragments.short import divide_short, exp_short, shared_short_quotients, tanh_short
from polyfuse.backends.numba_cuda.fragments.transcendental import circular, tanh
from polyfuse.backends.numba_cuda.fragments.values import DType, Fragment, boolean, float32, is_float
from polyfuse.backends.numba_cuda.numba_api import TypingError

COMPARISONS = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}

# name: (arity, kinds that it accepts, emitter)
_SAME: dict[str, tuple[int, str, Op]] = {
    "add": (2, "iuf", by_kind("fadd", "add")),
    "subtract": (2, "iuf", by_kind("fsub", "sub")),
    "multiply": (2, "iuf", by_kind("fmul", "mul")),
    "divide": (2, "f", by_kind("fdiv", "sdiv")),
    "floor_divide": (2, "iuf", emit_floor_divide),
    "remainder": (2, "iuf", emit_remainder),
    "fmod": (2, "iuf", emit_fmod),
    "negative": (1, "iuf", emit_negative),
    "absolute": (1, "iuf", emit_absolute),
    "sign": (1, "iuf", emit_sign),
    "power": (2, "iuf", emit_power),
    "maximum": (2, "biuf", extremum("max")),
    "minimum": (2, "biuf", extremum("min")),
    "bitwise_and": (2, "biu", by_kind("and_", "and_")),
    "bitwise_or": (2, "biu", by_kind("or_", "or_")),
    "bitwise_xor": (2, "biu", by_kind("xor", "xor")),
    "invert": (1, "biu", by_kind("not_", "not_")),
    "left_shift": (2, "iu", emit_left_shift),
    "right_shift": (2, "iu", emit_right_shift),
    "multiply_high": (2, "iu", emit_multiply_high),
    "fma": (3, "iuf", emit_fma),
    "sqrt": (1, "f", emit_root),
    "divide_short": (2, "f", divide_short),
    "exp_short": (1, "f", exp_short),
    "tanh_short": (1, "f", tanh_short),
    "tanh": (1, "f", tanh),
}

# NumPy's name: (arity, libdevice's name)
_LIBDEVICE: dict[str, tuple[int, str]] = {
    "fmax": (2, "fmax"),
    "fmin": (2, "fmin"),
    "copysign": (2, "copysign"),
    "nextafter": (2, "nextafter"),
    "arctan2": (2, "atan2"),
    "hypot": (2, "hypot"),
    "arcsin": (1, "asin"),
    "arccos": (1, "acos"),
    "arctan": (1, "atan"),
    "arcsinh": (1, "asinh"),
    "arccosh": (1, "acosh"),
    "arctanh": (1, "atanh"),
} | {
    name: (1, name)
    for name in (
        "floor ceil trunc rint rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh cbrt "
        "erf erfc lgamma tgamma"
    ).split()
}

_TESTS: dict[str, tuple[int, str, Op]] = {
    "isnan": (1, "f", is_nan),
    "isinf": (1, "f", is_infinite),
    "isfinite": (1, "f", is_finite),
    "signbit": (1, "f", sign_bit),
} | {name: (2, "biuf", compare(symbol)) for name, symbol in COMPARISONS.items()}


# name: quarter turns from the sine
_CIRCULAR = {"sin": 0, "cos": 1}


def kind_of(dtype: DType) -> str:
    """One of ``b i u f``."""
    return "b" if dtype == boolean else "f" if is_float(dtype) else "i" if dtype.signed else "u"


def _rule(name: str, arity: int, kinds: str, op: Op, result: DType | None) -> Rule:
    def typed(*arguments: Any) -> tuple[Fragment, Emit] | None:
        meet = meeting(*arguments)
        if meet is None:
            return None
        if kind_of(meet.dtype) not in kinds:
            raise TypingError(f"{name} does not accept {meet.dtype}")
        fragment = Fragment(result or meet.dtype, meet.shape, meet.weak)
        if name in _CIRCULAR and meet.dtype == float32 and isinstance(arguments[0], Fragment):
            return fragment, circular(name, _CIRCULAR[name], arguments[0], fragment)
        if name == "divide" and shares_divisors(arguments, fragment):
            return fragment, shared_quotients(arguments[0], arguments[1], fragment)
        if name == "divide" and quotients_pay(arguments, fragment):
            return fragment, quotients(arguments[0], arguments[1], fragment)
        if name == "sqrt" and roots_pay(fragment):
            return fragment, roots(arguments[0], fragment)
        if name == "divide_short" and fragment.dtype == float32 and shares_divisors(arguments, fragment):
            return fragment, shared_short_quotients(arguments[0], arguments[1], fragment)
        if name == "divide" and has_own_divisors(arguments, fragment):
            return fragment, slotwise(arguments, fragment, meet.dtype, emit_divide)
        return fragment, slotwise(arguments, fragment, meet.dtype, op)

    by_arity: dict[int, Rule] = {
        1: lambda x: typed(x),
        2: lambda x, y: typed(x, y),
        3: lambda x, y, z: typed(x, y, z),
    }
    return named(by_arity[arity], name)


ELEMENTWISE: dict[str, Callable[..., Any]] = (
    {name: _rule(name, arity, kinds, op, None) for name, (arity, kinds, op) in _SAME.items()}
    | {name: _rule(name, arity, "f", libdevice(source), None) for name, (arity, source) in _LIBDEVICE.items()}
    | {name: _rule(name, arity, kinds, op, boolean) for name, (arity, kinds, op) in _TESTS.items()}
)
for _function in ELEMENTWISE.values():
    operation(_function)

_OPERATORS: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (operator.add, operator.iadd),
    "subtract": (operator.sub, operator.isub),
    "multiply": (operator.mul, operator.imul),
    "divide": (operator.truediv, operator.itruediv),
    "floor_divide": (operator.floordiv, operator.ifloordiv),
    "remainder": (operator.mod, operator.imod),
    "bitwise_and": (operator.and_, operator.iand),
    "bitwise_or": (operator.or_, operator.ior),
    "bitwise_xor": (operator.xor, operator.ixor),
    "left_shift": (operator.lshift, operator.ilshift),
    "right_shift": (operator.rshift, operator.irshift),
    "negative": (operator.neg,),
    "invert": (operator.invert,),
    "power": (operator.pow, operator.ipow),
    "less": (operator.lt,),
    "less_equal": (operator.le,),
    "greater": (operator.gt,),
    "greater_equal": (operator.ge,),
    "equal": (operator.eq,),
    "not_equal": (operator.ne,),
}
for _name, _keys in _OPERATORS.items():
    declare_operator(ELEMENTWISE[_name], *_keys)
