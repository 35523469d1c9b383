"""argmax and argmin over many states at once: the best value first, then the lowest position that has it.

    (v0, p0) (v1, p1) (v2, p2) (v3, p3)   ->   m = max(v0, v1, v2, v3);  p = min(p of those with v == m)

A merge of two pairs compares values, tests for NaN, compares positions and selects twice; this is an extremum, a
comparison, a selection and a minimum per value.  NaN propagates through the extremum, so only where `m` is NaN are the
values tested for it.
"""

from __future__ import annotations

from collections.abc import Callable

from polyfuse.backends.numba_cuda.fragments.arithmetic import compare, extremum, is_nan
from polyfuse.backends.numba_cuda.fragments.slots import assembly
from polyfuse.backends.numba_cuda.fragments.values import I32, Builder, DType, Value, is_float
from polyfuse.backends.numba_cuda.numba_api import ir

Pair = tuple[Value, ...]  # a value and its position, a signed integer


def best(b: Builder, name: str, dtypes: tuple[DType, ...], states: list[Pair]) -> Pair:
    """The state that wins: the first NaN, else the best value, else the lowest position.  `name`: argmax or argmin."""
    dtype, values = dtypes[0], [value for value, _ in states]
    top = _halved(values, lambda x, y: extremum(name.removeprefix("arg"))(b, dtype, x, y))

    def lowest(numbers: bool) -> Value:
        tests = [compare("==")(b, dtype, v, top) if numbers else is_nan(b, dtype, v) for v in values]
        chosen = [b.select(test, p, last(p.type)) for test, (_, p) in zip(tests, states, strict=True)]
        return _halved(chosen, lambda x, y: b.select(b.icmp_signed("<", y, x), y, x))

    if not is_float(dtype):
        return top, lowest(numbers=True)
    with b.if_else(is_nan(b, dtype, top), likely=False) as (then, otherwise):
        with then:
            of_nan = lowest(numbers=False)
            met_nan = b.block
        with otherwise:
            of_numbers = lowest(numbers=True)
            met_numbers = b.block
    position = b.phi(of_nan.type)
    position.add_incoming(of_nan, met_nan)
    position.add_incoming(of_numbers, met_numbers)
    return top, position


def candidate(b: Builder, dtype: DType, state: Pair, top: Value) -> Value:
    """The position of a state whose value is the best of all, else one behind all others."""
    value, position = state
    wins = compare("==")(b, dtype, value, top)
    if is_float(dtype):
        wins = b.or_(wins, is_nan(b, dtype, value))  # then `top` is NaN as well
    return b.select(wins, position, last(position.type))


def last(kind: ir.IntType) -> Value:
    """The largest position."""
    return ir.Constant(kind, (1 << (kind.width - 1)) - 1)


def lowest_of_warp(b: Builder, position: Value) -> Value:
    """The least of 32 lanes' 32-bit positions, one instruction of sm_80 and later."""
    return assembly(b, "redux.sync.min.s32 $0, $1, -1;", "=r,r", I32, [position], effect=True)


def _halved(values: list[Value], merge: Callable[[Value, Value], Value]) -> Value:
    while len(values) > 1:
        pairs = [merge(values[k], values[k + 1]) for k in range(0, len(values) - 1, 2)]
        values = pairs + values[2 * len(pairs) :]
    return values[0]
