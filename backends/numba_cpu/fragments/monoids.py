"""The monoids of reductions: how two partial results combine, and the neutral element of each dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.elementwise import (
    Lanewise,
    by_kind,
    extremum,
    number_extremum,
)
from polyfuse.backends.numba_cpu.fragments.vectors import Builder, Value, constant

State = tuple[Value, ...]
Merge = Callable[[Builder, tuple[Element, ...], State, State], State]


@dataclass(frozen=True, slots=True)
class MonoidOperation:
    """One monoid.  `merge` combines partial results in order; `exact`: any order of combination gives the same bits,
    so vectors may be combined before their lanes are."""

    name: str
    kinds: str
    merge: Merge
    neutral: Callable[[Element], float]
    exact: Callable[[Element], bool]
    state: int = 1


def _single(emit: Lanewise) -> Merge:
    def merge(builder: Builder, dtypes: tuple[Element, ...], x: State, y: State) -> State:
        return (emit(builder, dtypes[0], x[0], y[0]),)

    return merge


def lowest(dtype: Element) -> float:
    """The least value of a dtype."""
    if dtype.is_float:
        return -math.inf
    return -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0


def highest(dtype: Element) -> float:
    """The greatest value of a dtype."""
    if dtype.is_float:
        return math.inf
    if dtype.kind == "b":
        return 1
    return (1 << (dtype.bits - (dtype.kind == "i"))) - 1


def _pair(largest: bool) -> Merge:
    """argmax or argmin on (value, index): the first NaN wins, else the better value, else the lower index."""

    def merge(builder: Builder, dtypes: tuple[Element, ...], x: State, y: State) -> State:
        (value, index), (other, position) = x, y
        dtype = dtypes[0]
        lower = (builder.icmp_signed if dtypes[1].kind == "i" else builder.icmp_unsigned)("<", position, index)
        symbol = ">" if largest else "<"
        if dtype.is_float:
            better = builder.fcmp_ordered(symbol, other, value)
            tied = builder.fcmp_ordered("==", other, value)
            nan, other_nan = (builder.fcmp_unordered("uno", v, v) for v in (value, other))
            better = builder.or_(better, builder.and_(other_nan, builder.not_(nan)))
            tied = builder.or_(tied, builder.and_(other_nan, nan))
        else:
            compare = builder.icmp_signed if dtype.kind == "i" else builder.icmp_unsigned
            better, tied = compare(symbol, other, value), builder.icmp_unsigned("==", other, value)
        take = builder.or_(better, builder.and_(tied, lower))
        return builder.select(take, other, value), builder.select(take, position, index)

    return merge


def _always(dtype: Element) -> bool:
    return True


def _integers(dtype: Element) -> bool:
    return not dtype.is_float


_MONOIDS = (
    MonoidOperation("sum", "iuf", _single(by_kind("fadd", "add")), lambda dtype: 0, _integers),
    MonoidOperation("prod", "iuf", _single(by_kind("fmul", "mul")), lambda dtype: 1, _integers),
    MonoidOperation("max", "biuf", _single(extremum(True, ("nsz",))), lowest, _always),
    MonoidOperation("min", "biuf", _single(extremum(False, ("nsz",))), highest, _always),
    MonoidOperation("fmax", "f", _single(number_extremum(True, ("nsz",))), lambda dtype: math.nan, _always),
    MonoidOperation("fmin", "f", _single(number_extremum(False, ("nsz",))), lambda dtype: math.nan, _always),
    MonoidOperation("any", "b", _single(by_kind("or_", "or_")), lambda dtype: 0, _always),
    MonoidOperation("all", "b", _single(by_kind("and_", "and_")), lambda dtype: 1, _always),
    MonoidOperation("bitor", "iu", _single(by_kind("or_", "or_")), lambda dtype: 0, _always),
    MonoidOperation("bitand", "iu", _single(by_kind("and_", "and_")), lambda dtype: -1, _always),
    MonoidOperation("bitxor", "biu", _single(by_kind("xor", "xor")), lambda dtype: 0, _always),
    MonoidOperation("argmax", "biuf", _pair(True), lowest, _always, state=2),
    MonoidOperation("argmin", "biuf", _pair(False), highest, _always, state=2),
)
MONOID_OPERATIONS = {monoid.name: monoid for monoid in _MONOIDS}


def neutral_state(monoid: MonoidOperation, dtypes: Sequence[Element], types: Sequence[Value]) -> State:
    """The neutral element in registers of the LLVM types given; the index of a pair is the last one."""
    first = constant(types[0], monoid.neutral(dtypes[0]))
    return (first, constant(types[1], highest(dtypes[1]))) if monoid.state == 2 else (first,)
