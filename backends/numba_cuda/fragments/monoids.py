"""The monoids of reductions and scans, on states: tuples of slots, one for a sum, (value, index) for an argmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from polyfuse.backends.numba_cuda.fragments.arithmetic import Op, by_kind, compare, extremum, is_nan, libdevice
from polyfuse.backends.numba_cuda.fragments.elementwise import kind_of
from polyfuse.backends.numba_cuda.fragments.positions import best
from polyfuse.backends.numba_cuda.fragments.values import Builder, DType, Value, boolean, float64, is_float
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, types

State = tuple[Value, ...]
Merge = Callable[[Builder, tuple[DType, ...], State, State], State]


@dataclass(frozen=True)
class FragmentMonoid:
    """A monoid: how two states merge, the kinds it accepts, and the neutral value of a scan's first element."""

    name: str
    kinds: str
    merge: Merge
    neutral: float | str
    states: int = 1


def _single(op: Op) -> Merge:
    return lambda b, dtypes, left, right: (op(b, dtypes[0], left[0], right[0]),)


def _best(symbol: str) -> Merge:
    """argmax or argmin: the first NaN wins, else the better value, else the lower index."""

    def merge(b: Builder, dtypes: tuple[DType, ...], left: State, right: State) -> State:
        (value, index), (dtype, index_dtype) = zip(left, right, strict=True), dtypes
        better = compare(symbol)(b, dtype, value[1], value[0])
        tie = compare("==")(b, dtype, *value)
        if is_float(dtype):
            nans = [is_nan(b, dtype, v) for v in value]
            better = b.or_(better, b.and_(nans[1], b.not_(nans[0])))
            tie = b.or_(tie, b.and_(*nans))
        take = b.or_(better, b.and_(tie, compare("<")(b, index_dtype, index[1], index[0])))
        return b.select(take, value[1], value[0]), b.select(take, index[1], index[0])

    return merge


MONOIDS: dict[str, FragmentMonoid] = {
    monoid.name: monoid
    for monoid in (
        FragmentMonoid("sum", "iuf", _single(by_kind("fadd", "add")), 0),
        FragmentMonoid("prod", "iuf", _single(by_kind("fmul", "mul")), 1),
        FragmentMonoid("max", "biuf", _single(extremum("max")), "lowest"),
        FragmentMonoid("min", "biuf", _single(extremum("min")), "highest"),
        FragmentMonoid("fmax", "f", _single(libdevice("fmax")), "nan"),
        FragmentMonoid("fmin", "f", _single(libdevice("fmin")), "nan"),
        FragmentMonoid("any", "b", _single(by_kind("or_", "or_")), 0),
        FragmentMonoid("all", "b", _single(by_kind("and_", "and_")), 1),
        FragmentMonoid("bitor", "iu", _single(by_kind("or_", "or_")), 0),
        FragmentMonoid("bitand", "iu", _single(by_kind("and_", "and_")), -1),
        FragmentMonoid("bitxor", "biu", _single(by_kind("xor", "xor")), 0),
        FragmentMonoid("argmax", "biuf", _best(">"), "lowest", states=2),
        FragmentMonoid("argmin", "biuf", _best("<"), "highest", states=2),
    )
}


def accepts(monoid: FragmentMonoid, dtype: DType) -> None:
    """Raise TypingError where the monoid is not defined on the dtype."""
    if kind_of(dtype) not in monoid.kinds:
        raise TypingError(f"the monoid {monoid.name} does not accept {dtype}")


def neutral(monoid: FragmentMonoid, dtype: DType, exact: bool) -> Value:
    """The neutral value.  `exact`: the one that changes no operand at all, so -0.0 for a sum of floats (0.0 + -0.0 is
    0.0); otherwise the value that an exclusive scan starts with."""
    if is_float(dtype):
        llvm = ir.DoubleType() if dtype == float64 else ir.FloatType()
        if exact and monoid.name == "sum":
            return ir.Constant(llvm, -0.0)
        named: dict[Any, float] = {"lowest": -inf, "highest": inf}
        return ir.Constant(llvm, float(named.get(monoid.neutral, monoid.neutral)))
    if dtype == boolean:
        return ir.Constant(ir.IntType(1), int(monoid.neutral in ("highest", 1)))
    assert isinstance(dtype, types.Integer)
    bounds: dict[Any, int] = {"lowest": dtype.minval, "highest": dtype.maxval}
    return ir.Constant(ir.IntType(dtype.bitwidth), bounds.get(monoid.neutral, monoid.neutral))


def tree(b: Builder, monoid: FragmentMonoid, dtypes: tuple[DType, ...], states: list[State]) -> State:
    """Merge neighbours until one state is left: a balanced tree in the order given.  Positions by the value first."""
    if monoid.states == 2 and len(states) > 1:
        return best(b, monoid.name, dtypes, states)
    while len(states) > 1:
        pairs = [monoid.merge(b, dtypes, states[k], states[k + 1]) for k in range(0, len(states) - 1, 2)]
        states = pairs + states[2 * len(pairs) :]
    return states[0]
