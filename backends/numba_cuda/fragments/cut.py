"""Vectors of which a part counts: the ends of rows that begin anywhere in memory.

    row of 21 halves at address 6:      ......xx|xxxxxxxx|xxxxxxxx|xxx.....      low 6, 0, 0, 0    high 8, 8, 8, 3

Of a vector the elements k with ``low <= k < high`` lie inside.  It is read whole, and what lies beside them is replaced
in a branch that few threads take: a branch around each load would let loads wait for each other, and a choice per
element costs as much as what is computed of it.  Past the end of the array elements are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from polyfuse.backends.numba_cuda.fragments.accesses import Placed, based, masked_store, placed, plain_store
from polyfuse.backends.numba_cuda.fragments.declare import Emit, given, operation
from polyfuse.backends.numba_cuda.fragments.formats import Access, narrow
from polyfuse.backends.numba_cuda.fragments.memory import stored_value
from polyfuse.backends.numba_cuda.fragments.slots import (
    both,
    broadcast_shape,
    dtype_of,
    is_known,
    is_scalar,
    negated,
    pack,
    seldom,
    shape_of,
    spread,
)
from polyfuse.backends.numba_cuda.fragments.values import (
    I1,
    I32,
    Builder,
    Fragment,
    Value,
    boolean,
    itemsize,
    register_dtype,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, types


@dataclass(frozen=True)
class Bounds:
    """What `low`, `high` and `mask` say of groups of `width` slots along the last axis of `shape`."""

    low: Any
    high: Any
    mask: Any
    shape: tuple[int, ...]
    width: int

    def groups(self, b: Builder, low: Value, high: Value, mask: Value) -> list[Group]:
        """The groups in C order."""
        wide = any(isinstance(k, Fragment) and k.dtype == types.int64 for k in (self.low, self.high))
        index = types.int64 if wide else types.int32
        lows, highs = (spread(b, k, v, index, self.shape) for k, v in ((self.low, low), (self.high, high)))
        masks = None if self.mask is None else spread(b, self.mask, mask, boolean, self.shape)
        extent, found = self.shape[-1], []
        for slot in range(0, len(lows), self.width):
            chosen = None if masks is None else masks[slot]
            found.append(Group(lows[slot], highs[slot], chosen, slot % extent, self.width))
        return found


@dataclass(frozen=True)
class Group:
    """Slots `first` to ``first + width`` of a row of slots whose elements from `low` on and before `high` count."""

    low: Value
    high: Value
    mask: Value | None
    first: int
    width: int

    def whole(self, b: Builder) -> Value:
        """Whether all count."""
        return self._both(b, _below(b, self.low, self.first), _above(b, self.high, self.first + self.width))

    def some(self, b: Builder) -> Value:
        """Whether one counts."""
        last = self.first + self.width - 1
        return self._both(b, _below(b, self.low, last), _above(b, self.high, self.first + 1))

    def element(self, b: Builder, k: int) -> Value:
        """Whether the k-th one counts."""
        return self._both(b, _below(b, self.low, self.first + k), _above(b, self.high, self.first + k + 1))

    def begins(self) -> bool:
        """Whether it is known that the row does not begin behind the first of them."""
        return isinstance(self.low, ir.Constant) and self.low.constant <= self.first

    def goes_on(self, count: int) -> bool:
        """Whether it is known that the row has `count` elements from the first of them on."""
        return isinstance(self.high, ir.Constant) and self.high.constant >= self.first + count

    def _both(self, b: Builder, one: Value, other: Value) -> Value:
        met = both(b, one, other)
        return met if self.mask is None else both(b, self.mask, met)


def _below(b: Builder, bound: Value, number: int) -> Value:
    if isinstance(bound, ir.Constant):
        return ir.Constant(I1, int(bound.constant <= number))
    return b.icmp_signed("<=", bound, ir.Constant(bound.type, number))


def _above(b: Builder, bound: Value, number: int) -> Value:
    if isinstance(bound, ir.Constant):
        return ir.Constant(I1, int(bound.constant >= number))
    return b.icmp_signed(">=", bound, ir.Constant(bound.type, number))


def bounds_of(low: Any, high: Any, mask: Any, shape: tuple[int, ...], width: int) -> Bounds:
    """Checked.  Raises TypingError."""
    mask = mask if given(mask) and not isinstance(mask, types.NoneType) else None
    for bound in (low, high):
        if not (isinstance(bound, Fragment) or is_scalar(bound)) or not isinstance(dtype_of(bound), types.Integer):
            raise TypingError(f"elements of a vector count from an integer on up to another, not {bound}")
        if shape_of(bound)[-1:] not in ((), (1,)):
            raise TypingError(f"the bounds {bound} vary inside of vectors")
    if mask is not None and (dtype_of(mask) != boolean or shape_of(mask)[-1:] not in ((), (1,))):
        raise TypingError(f"a mask of vectors is boolean and the same for all of one, not {mask}")
    return Bounds(low, high, mask, shape, width)


def cut_tile(pointer: Any, offset: Any, tile: Any, sizes: Any) -> Placed | None:
    where = placed(pointer, offset, tile, sizes, None)
    if where is not None and (where.tile.vector == 1 or where.tile.vector != where.tile.shape[-1]):
        raise TypingError(f"the last axis of {where.tile} is no vector")
    return where


def parts_of(b: Builder, access: Access, word: Value) -> list[Value]:
    """The elements of a word as bits."""
    if access.elements == 1:
        return [word]
    part = ir.IntType(8 * itemsize(access.dtype))
    return [b.trunc(b.lshr(word, ir.Constant(word.type, k * part.width)), part) for k in range(access.elements)]


def word_of(b: Builder, access: Access, parts: list[Value]) -> Value:
    """The word of which these are the elements."""
    if access.elements == 1:
        return parts[0]
    found = b.zext(parts[0], access.word)
    for k, part in enumerate(parts[1:], 1):
        found = b.or_(found, b.shl(b.zext(part, access.word), ir.Constant(access.word, k * part.type.width)))
    return found


@operation
def store_cut(
    pointer: Any, offset: Any, tile: Any, value: Any, low: Any, high: Any, mask: Any = None, sizes: Any = ()
) -> tuple[Any, Emit] | None:
    """Write the elements of a tile of vectors from `low` on and before `high`, where `mask` holds."""
    where = cut_tile(pointer, offset, tile, sizes)
    if where is None:
        return None
    stored_value(value, where)
    access, alone = where.access, Access(pointer.dtype, 1)
    bounds = bounds_of(low, high, mask, where.tile.shape, access.width)

    def emit(b: Builder, p: Value, at: Value, _: Value, v: Value, *rest: Value) -> None:
        first, last, chosen, n = rest
        slots = spread(b, value, v, register_dtype(where.pointer.dtype), where.tile.shape)
        words = narrow(b, access, slots)
        groups = bounds.groups(b, first, last, chosen)
        for k, ((base, constant), group) in enumerate(zip(based(b, where, p, at, n), groups, strict=True)):
            address, whole = b.gep(base, [ir.Constant(I32, constant)]), group.whole(b)
            part = words[k * access.count : (k + 1) * access.count]
            if is_known(whole, True):
                plain_store(b, where, address, part)
                continue
            masked_store(b, where, access, address, whole, part)
            with b.if_then(both(b, group.some(b), negated(b, whole)), likely=False):
                for element in range(access.width):
                    place = b.gep(base, [ir.Constant(I32, constant + element)])
                    word = narrow(b, alone, [slots[k * access.width + element]])
                    masked_store(b, where, alone, place, group.element(b, element), word)

    return types.void, emit


@operation
def where_cut(low: Any, high: Any, x: Any, other: Any, mask: Any = None) -> tuple[Fragment, Emit] | None:
    """`x` where elements of its vectors along the last axis count, as of `load_cut`, else `other`."""
    if not isinstance(x, Fragment) or not x.shape or x.shape[-1] == 1:
        raise TypingError(f"{x} has no vectors")
    kinds = [low, high, *([mask] if given(mask) and not isinstance(mask, types.NoneType) else [])]
    shape = broadcast_shape(x.shape, *map(shape_of, kinds))
    fragment, bounds = Fragment(x.dtype, shape), bounds_of(low, high, mask, shape, shape[-1])

    def emit(b: Builder, first: Value, last: Value, value: Value, fill: Value, chosen: Value) -> Value:
        slots, rest = spread(b, x, value, x.dtype, shape), spread(b, other, fill, x.dtype, shape)
        found, width = [], shape[-1]
        for k, group in enumerate(bounds.groups(b, first, last, chosen)):
            held, others = slots[k * width : (k + 1) * width], rest[k * width : (k + 1) * width]
            pairs = list(zip(held, others, strict=True))
            found += seldom(b, negated(b, group.whole(b)), held, _chosen(b, group, pairs))
        return pack(b, fragment, found)

    return fragment, emit


def _chosen(b: Builder, group: Group, pairs: list[tuple[Value, Value]]) -> Callable[[], Iterator[Value]]:
    return lambda: (b.select(group.element(b, k), value, other) for k, (value, other) in enumerate(pairs))
