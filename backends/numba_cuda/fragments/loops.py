"""Loops of kernels: `range` from 0 on by ones, which takes far fewer instructions than what Numba makes of any range.

It counts a number up and those that are left down, as Numba's does: of 79 kernels of benchmark programs with loops the
PTX of 78 has as many loads, branches and sums and products of floats, and one loop is unrolled once more.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from polyfuse.backends.numba_cuda.fragments.slots import dtype_of, spread
from polyfuse.backends.numba_cuda.fragments.values import I32, Builder, Fragment, Value, int32, int64, register_type
from polyfuse.backends.numba_cuda.numba_api import (
    AbstractTemplate,
    cgutils,
    ir,
    lowering_registry,
    models,
    register_model,
    signature,
    types,
    typing_registry,
)


class Trips(types.SimpleIterableType):
    """The trips of a loop: how many there are."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Trips({dtype})", Trip(dtype))


class Trip(types.SimpleIteratorType):
    """Where in memory of the function the number of the next trip lies, and behind it how many are left."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Trip({dtype})", dtype)


@register_model(Trips)
class _TripsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Trips) -> None:
        super().__init__(manager, kind, register_type(kind.dtype))


@register_model(Trip)
class _TripModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Trip) -> None:
        super().__init__(manager, kind, ir.ArrayType(register_type(kind.dtype), 2).as_pointer())


class RangeTemplate(AbstractTemplate):
    """``range`` up to a literal or a fragment of one slot."""

    key = range
    prefer_literal = True
    metadata = MappingProxyType({"target": "cuda"})

    def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        if len(args) != 1 or not isinstance(args[0], Fragment | types.IntegerLiteral):
            return None
        (stop,) = args
        if isinstance(stop, Fragment) and (stop.size != 1 or not isinstance(stop.dtype, types.Integer)):
            return None
        return signature(Trips(int32 if dtype_of(stop) == int32 else int64), stop)


def _trips(context: Any, b: Builder, sig: Any, values: tuple[Value, ...]) -> Value:
    return spread(b, sig.args[0], values[0], sig.return_type.dtype, ())[0]


def _begin(context: Any, b: Builder, sig: Any, values: tuple[Value, ...]) -> Value:
    (count,) = values
    state = cgutils.alloca_once(b, ir.ArrayType(count.type, 2))
    first, rest = (b.gep(state, [ir.Constant(I32, 0), ir.Constant(I32, k)]) for k in range(2))
    b.store(ir.Constant(count.type, 0), first)
    b.store(count, rest)
    return state


def _next(context: Any, b: Builder, sig: Any, values: tuple[Value, ...]) -> Value:
    (state,) = values
    first, rest = (b.gep(state, [ir.Constant(I32, 0), ir.Constant(I32, k)]) for k in range(2))
    trip, left = b.load(first), b.load(rest)
    goes_on = b.icmp_signed(">", left, ir.Constant(left.type, 0))
    with b.if_then(goes_on):
        b.store(b.add(trip, ir.Constant(trip.type, 1)), first)
        b.store(b.sub(left, ir.Constant(left.type, 1), flags=["nsw"]), rest)
    return context.make_tuple(b, sig.return_type, (trip, goes_on))


typing_registry.register_global(range, types.Function(RangeTemplate))
for _stop in (Fragment, types.IntegerLiteral):
    lowering_registry.lower(range, _stop)(_trips)
lowering_registry.lower("getiter", Trips)(_begin)
lowering_registry.lower("iternext", Trip)(_next)

LOOPS = {"range": range}
