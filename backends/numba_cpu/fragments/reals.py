"""Vector arithmetic with Python operators: the notation in which the mathematical functions are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from llvmlite import ir

from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.elementwise import named
from polyfuse.backends.numba_cpu.fragments.operation import Typer
from polyfuse.backends.numba_cpu.fragments.vectors import (
    Builder,
    Value,
    constant,
    declare,
    each_lane,
    integer_like,
    intrinsic,
    lanes_of,
    retyped,
    scalar_of,
    shared_function,
    stack_slot,
)

Number = Union["Real", float, int]


class Real:
    """Lanes of floats, integers or truth values; Python numbers meet them as constants."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder, self.value = builder, value

    # ---------------------------------------------------------------- construction
    def constant(self, number: float) -> Real:
        return Real(self.builder, constant(self.value.type, number))

    def of(self, other: Number) -> Real:
        return other if isinstance(other, Real) else self.constant(other)

    @property
    def is_float(self) -> bool:
        return not isinstance(scalar_of(self.value.type), ir.IntType)

    @property
    def is_double(self) -> bool:
        return isinstance(scalar_of(self.value.type), ir.DoubleType)

    def _apply(self, floats: str, integers: str, other: Number) -> Real:
        method = getattr(self.builder, floats if self.is_float else integers)
        return Real(self.builder, method(self.value, self.of(other).value))

    # ---------------------------------------------------------------- arithmetic
    def __add__(self, other: Number) -> Real:
        return self._apply("fadd", "add", other)

    def __radd__(self, other: Number) -> Real:
        return self.of(other) + self

    def __sub__(self, other: Number) -> Real:
        return self._apply("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Real:
        return self.of(other) - self

    def __mul__(self, other: Number) -> Real:
        return self._apply("fmul", "mul", other)

    def __rmul__(self, other: Number) -> Real:
        return self.of(other) * self

    def __truediv__(self, other: Number) -> Real:
        return self._apply("fdiv", "sdiv", other)

    def __rtruediv__(self, other: Number) -> Real:
        return self.of(other) / self

    def __neg__(self) -> Real:
        return Real(self.builder, self.builder.fneg(self.value)) if self.is_float else 0 - self

    def __and__(self, other: Number) -> Real:
        return self._apply("and_", "and_", other)

    def __or__(self, other: Number) -> Real:
        return self._apply("or_", "or_", other)

    def __xor__(self, other: Number) -> Real:
        return self._apply("xor", "xor", other)

    def __invert__(self) -> Real:
        return Real(self.builder, self.builder.not_(self.value))

    def __lshift__(self, amount: int) -> Real:
        return self._apply("shl", "shl", amount)

    def __rshift__(self, amount: int) -> Real:
        return self._apply("ashr", "ashr", amount)

    # ---------------------------------------------------------------- comparison (False on NaN, but for `differs`)
    def _compare(self, symbol: str, other: Number) -> Real:
        method = self.builder.fcmp_ordered if self.is_float else self.builder.icmp_signed
        return Real(self.builder, method(symbol, self.value, self.of(other).value))

    def __lt__(self, other: Number) -> Real:
        return self._compare("<", other)

    def __le__(self, other: Number) -> Real:
        return self._compare("<=", other)

    def __gt__(self, other: Number) -> Real:
        return self._compare(">", other)

    def __ge__(self, other: Number) -> Real:
        return self._compare(">=", other)

    def equals(self, other: Number) -> Real:
        return self._compare("==", other)

    @property
    def is_nan(self) -> Real:
        return Real(self.builder, self.builder.fcmp_unordered("uno", self.value, self.value))

    def choose(self, yes: Number, no: Number) -> Real:
        """Lanes of `yes` where this truth value holds, else of `no`; one of the two is a `Real`."""
        if isinstance(yes, Real):
            no = yes.of(no)
        elif isinstance(no, Real):
            yes = no.of(yes)
        else:
            raise TypeError("choose needs one Real")
        return Real(self.builder, self.builder.select(self.value, yes.value, no.value))

    def any(self) -> Value:
        """One bit: whether this truth value holds in some lane."""
        if lanes_of(self.value.type) == 1:
            return self.value
        return intrinsic(self.builder, "llvm.vector.reduce.or", self.value, result=ir.IntType(1))

    # ---------------------------------------------------------------- functions
    def call(self, name: str, *others: Number) -> Real:
        """An LLVM intrinsic on this type."""
        return Real(self.builder, intrinsic(self.builder, name, self.value, *(self.of(o).value for o in others)))

    def fma(self, factor: Number, addend: Number) -> Real:
        """``self * factor + addend`` with one rounding."""
        return self.call("llvm.fma", factor, addend)

    def rint(self) -> Real:
        return self.call("llvm.rint")

    def sqrt(self) -> Real:
        return self.call("llvm.sqrt")

    def __abs__(self) -> Real:
        return self.call("llvm.fabs")

    def with_sign_of(self, other: Real) -> Real:
        return self.call("llvm.copysign", other)

    def clamp(self, low: float, high: float) -> Real:
        """Within bounds; NaN passes."""
        raised = (self < low).choose(low, self)
        return (raised > high).choose(high, raised)

    # ---------------------------------------------------------------- representation
    def bits(self) -> Real:
        """The bit pattern as integers."""
        return Real(self.builder, self.builder.bitcast(self.value, integer_like(self.value.type)))

    def as_float(self) -> Real:
        """Integers of 32 or 64 bits read as a float's bit pattern."""
        scalar = ir.FloatType() if scalar_of(self.value.type).width == 32 else ir.DoubleType()
        return Real(self.builder, self.builder.bitcast(self.value, retyped(self.value.type, scalar)))

    def nearest(self, factor: float = 1.0) -> tuple[Real, Real]:
        """``self * factor`` rounded to an integer, as a float and as an integer.

        Adding 1.5 * 2^(mantissa bits) leaves the integer in the low bits of the sum; unlike a conversion this is
        defined for NaN too.  Right for magnitudes below 2^22 (float32) or 2^51.
        """
        magic = 1.5 * 2.0 ** (52 if self.is_double else 23)
        total = self.fma(factor, magic)
        return total - magic, total.bits() - self.constant(magic).bits()

    def to_float(self) -> Real:
        """Integers as floats of the same width."""
        scalar = ir.FloatType() if scalar_of(self.value.type).width == 32 else ir.DoubleType()
        return Real(self.builder, self.builder.sitofp(self.value, retyped(self.value.type, scalar)))

    def double(self) -> Real:
        return Real(self.builder, self.builder.fpext(self.value, retyped(self.value.type, ir.DoubleType())))

    def single(self) -> Real:
        return Real(self.builder, self.builder.fptrunc(self.value, retyped(self.value.type, ir.FloatType())))


RealFunction = Callable[..., Real]


def horner(x: Real, coefficients: Sequence[float]) -> Real:
    """The polynomial with these coefficients, the highest power first."""
    result = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result.fma(x, coefficient)
    return result


def power_of_two(exponent: Real) -> Real:
    """2 to an integer within the normal exponents."""
    bias, shift = (1023, 52) if scalar_of(exponent.value.type).width == 64 else (127, 23)
    return ((exponent + bias) << shift).as_float()


def scaled(x: Real, exponent: Real) -> Real:
    """``x * 2**exponent`` with one rounding, for exponents up to twice the normal range."""
    half = exponent >> 1
    return x * power_of_two(half) * power_of_two(exponent - half)


def in_double(function: RealFunction) -> RealFunction:
    """A float64 function applied to float32 lanes: within half a unit in the last place."""

    def widened(*operands: Real) -> Real:
        if operands[0].is_double:
            return function(*operands)
        return function(*(operand.double() for operand in operands)).single()

    return widened


def mathematical(name: str, arity: int, function: RealFunction) -> Typer:
    """The operation of the fragment language that `function` computes on lanes of floats."""

    def emit(builder: Builder, dtype: Element, *operands: Value) -> Value:
        return shared_function(builder, name, on_values(function), *operands)

    return named(name, arity, emit)


def on_values(function: RealFunction) -> Callable[..., Value]:
    """`function` on LLVM values."""

    def body(builder: Builder, *values: Value) -> Value:
        return function(*(Real(builder, value) for value in values)).value

    return body


def library_call(name: str, *operands: Real) -> Real:
    """The C library's function, lane by lane: exact special cases and full range, at scalar speed."""
    builder = operands[0].builder

    def body(inner: Builder, *values: Value) -> Value:
        return _lane_loop(inner, name, values)

    values = [operand.value for operand in operands]
    return Real(builder, shared_function(builder, f"library.{name}", body, *values, inline=False))


def _lane_loop(builder: Builder, name: str, vectors: Sequence[Value]) -> Value:
    ty = vectors[0].type
    scalar, lanes = scalar_of(ty), lanes_of(ty)
    symbol = name if isinstance(scalar, ir.DoubleType) else f"{name}f"
    function = declare(builder, symbol, scalar, [scalar] * len(vectors))
    if lanes == 1:
        return builder.call(function, vectors)
    slots = [stack_slot(builder, ty) for _ in range(len(vectors) + 1)]
    for slot, vector in zip(slots, [*vectors, vectors[0]], strict=True):
        builder.store(vector, slot)
    with each_lane(builder, lanes) as index:
        at = [builder.gep(slot, [index], source_etype=scalar) for slot in slots]
        result = builder.call(function, [builder.load(address, typ=scalar) for address in at[:-1]])
        builder.store(result, at[-1])
    return builder.load(slots[-1], typ=ty)


def with_fallback(rare: Real, usual: Real, fallback: Callable[[], Real]) -> Real:
    """`usual`, or `fallback()` for the whole vector when some lane is `rare`."""
    builder = usual.builder
    entry = builder.block
    slow, done = builder.append_basic_block("slow"), builder.append_basic_block("done")
    builder.cbranch(rare.any(), slow, done)
    builder.position_at_end(slow)
    alternative = fallback()
    slow_end = builder.block
    builder.branch(done)
    builder.position_at_end(done)
    merged = builder.phi(usual.value.type)
    merged.add_incoming(usual.value, entry)
    merged.add_incoming(alternative.value, slow_end)
    return Real(builder, merged)
