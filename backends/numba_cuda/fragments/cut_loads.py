"""Loads of vectors of which a part counts, aligned or beginning anywhere: see `cut.py`.

A vector that begins between two places of memory is made of both, which is two loads where single elements are eight:

    address 3:      ...abcde|fgh.....|      words of both are moved down by three

Where an array ends inside a vector its last elements are read one by one, in a branch that few threads take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from polyfuse.backends.numba_cuda.fragments.accesses import Placed, counted, masked_load
from polyfuse.backends.numba_cuda.fragments.cut import Group, bounds_of, cut_tile, parts_of, seldom, word_of
from polyfuse.backends.numba_cuda.fragments.declare import Emit, given, operation
from polyfuse.backends.numba_cuda.fragments.formats import Access, narrow, widen, widest
from polyfuse.backends.numba_cuda.fragments.slots import assembly, pack, shape_of, spread
from polyfuse.backends.numba_cuda.fragments.values import (
    I32,
    I64,
    Builder,
    Fragment,
    Pointer,
    TileType,
    Value,
    itemsize,
    register_dtype,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, types

WORD = 4  # bytes


@operation
def load_cut(
    pointer: Any,
    offset: Any,
    tile: Any,
    low: Any,
    high: Any,
    end: Any = 0,
    mask: Any = None,
    sizes: Any = (),
    other: Any = 0,
) -> tuple[Fragment, Emit] | None:
    """Read a tile of vectors of which the elements from `low` on and before `high` count, where `mask` holds; the
    others get `other`.  `end`: the elements of the array, whose first one `pointer` is."""
    return _vectors(_Load, pointer, offset, tile, low, high, end, mask, sizes, other)


@operation
def load_across(
    pointer: Any,
    offset: Any,
    tile: Any,
    low: Any,
    high: Any,
    end: Any = 0,
    mask: Any = None,
    sizes: Any = (),
    other: Any = 0,
) -> tuple[Fragment, Emit] | None:
    """As `load_cut`, of vectors that begin anywhere in an array that is aligned as a whole."""
    known = isinstance(pointer, Pointer) and isinstance(tile, TileType)
    if known and not itemsize(pointer.dtype) < WORD <= widest(pointer.dtype, tile.tile.vector).size:
        raise TypingError(f"vectors of {tile} of {pointer.dtype} are not made of parts of words")
    if shape_of(other):
        raise TypingError(f"what does not count gets one value, not {other}")
    return _vectors(_Across, pointer, offset, tile, low, high, end, mask, sizes, other)


def _vectors(
    kind: type[_Load],
    pointer: Any,
    offset: Any,
    tile: Any,
    low: Any,
    high: Any,
    end: Any,
    mask: Any,
    sizes: Any,
    other: Any,
) -> tuple[Fragment, Emit] | None:
    where = cut_tile(pointer, offset, tile, sizes)
    if where is None:
        return None
    access, shape = where.access, where.tile.shape
    fragment, bounds = Fragment(register_dtype(pointer.dtype), shape), bounds_of(low, high, mask, shape, access.width)

    def emit(b: Builder, p: Value, at: Value, _: Value, *rest: Value) -> Value:
        first, last, count, chosen, n, fill = rest
        (elements,) = spread(b, end, count, types.int64, ())  # a literal may need more than 32 bits
        places = _places(b, where, p, at, n)
        load = kind(where, places, bounds.groups(b, first, last, chosen), p, _as(b, elements, places[0].start.type))
        if isinstance(other, types.NoneType):
            return pack(b, fragment, widen(b, access, load.open_words(b)))
        weak, value = (other, fill) if given(other) else (types.literal(0), ir.Constant(I64, 0))
        others = narrow(b, access, spread(b, weak, value, fragment.dtype, shape))
        return pack(b, fragment, widen(b, access, load.closed_words(b, others)))

    return fragment, emit


@dataclass(frozen=True)
class _Place:
    """Of a vector: its first element is number ``start + constant`` of an array, `start` lies at `base`."""

    start: Value
    constant: int
    base: Value

    def address(self, b: Builder, element: int) -> Value:
        return b.gep(self.base, [ir.Constant(I32, self.constant + element)])


def _places(b: Builder, where: Placed, pointer: Value, offset: Value, sizes: Value) -> list[_Place]:
    known: dict[tuple[Value, Value | None], tuple[Value, Value]] = {}
    found = []
    for start, further, constant in counted(b, where, offset, sizes):
        if (start, further) not in known:
            total = start if further is None else b.add(start, _as(b, further, start.type))
            known[start, further] = total, b.gep(pointer, [total])
        found.append(_Place(known[start, further][0], constant, known[start, further][1]))
    return found


def _as(b: Builder, value: Value, kind: Any) -> Value:
    """A number of elements as another integer that holds it."""
    if value.type == kind:
        return value
    return b.trunc(value, kind) if value.type.width > kind.width else b.sext(value, kind)


@dataclass(frozen=True)
class _Load:
    """The vectors of a load: where they lie, and which elements of each count; the array and its number of elements."""

    where: Placed
    places: list[_Place]
    groups: list[Group]
    array: Value
    elements: Value

    def closed_words(self, b: Builder, others: list[Value]) -> list[Value]:
        """All vectors, as words of registers, with others for the elements that do not count."""
        access, found = self.where.access, []
        parts = [others[k : k + access.count] for k in range(0, len(others), access.count)]
        for words, group, rest in zip(self.vectors(b, parts), self.groups, parts, strict=True):
            found += seldom(b, b.not_(group.whole(b)), words, _with_rest(b, access, group, words, rest))
        return found

    def open_words(self, b: Builder) -> list[Value]:
        """With anything for the elements that do not count."""
        unknown = [ir.Constant(self.where.access.word, ir.Undefined)] * self.where.access.count
        return [word for words in self.vectors(b, [unknown] * len(self.groups)) for word in words]

    def vectors(self, b: Builder, unread: list[list[Value]]) -> list[list[Value]]:
        """The words of each vector, those of `unread` where none counts: all loads first."""
        parts = [
            _Part(self, place.start, place.constant, place.address(b, 0), group.some(b), rest)
            for place, group, rest in zip(self.places, self.groups, unread, strict=True)
        ]
        return _read(b, [[part] for part in parts])


@dataclass(frozen=True)
class _Across(_Load):
    """Vectors that begin anywhere: of each the two aligned ones that it lies in are read."""

    def vectors(self, b: Builder, unread: list[list[Value]]) -> list[list[Value]]:
        access, width = self.where.access, self.where.access.width
        pairs, moves = list[list[_Part]](), list[Value]()
        for place, group, rest in zip(self.places, self.groups, unread, strict=True):
            start, constant = place.start, place.constant
            moved = b.and_(b.add(start, ir.Constant(start.type, constant % width)), ir.Constant(start.type, width - 1))
            first = b.sub(b.add(start, ir.Constant(start.type, constant)), moved)
            base, some = b.gep(self.array, [first]), group.some(b)
            pair = []
            for step in (0, width):  # rows of an array begin at its begin, where no vector is half inside
                begins = b.icmp_signed(">=", first, ir.Constant(start.type, -step))
                address = b.gep(base, [ir.Constant(I32, step)])
                pair.append(_Part(self, first, step, address, b.and_(some, begins), rest))
            pairs.append(pair)
            moves.append(b.mul(_as(b, moved, I32), ir.Constant(I32, itemsize(access.dtype))))
        return [_moved(b, words, count) for words, count in zip(_read(b, pairs), moves, strict=True)]


@dataclass(frozen=True)
class _Part:
    """An aligned vector of an array, from element ``start + constant`` on, where it is wanted."""

    load: _Load
    start: Value
    constant: int
    address: Value
    wanted: Value
    unread: list[Value]

    def reaches(self, b: Builder, count: int) -> Value:
        """Whether the array has so many elements from the first one on."""
        last = b.sub(self.load.elements, ir.Constant(self.start.type, self.constant + count))
        return b.icmp_signed("<=", self.start, last)

    def read(self, b: Builder) -> tuple[list[Value], Value]:
        """(the words where the array holds all, whether it ends within them)."""
        access = self.load.where.access
        holds = self.reaches(b, access.width)
        words = masked_load(b, self.load.where, access, self.address, b.and_(self.wanted, holds), self.unread)
        return words, b.and_(self.wanted, b.not_(holds))

    def read_end(self, b: Builder, words: list[Value], ends: Value) -> Iterator[Value]:
        """The words, where the array `ends` within them element by element as far as it goes."""
        access = self.load.where.access
        alone = Access(access.dtype, 1)
        for number, word in enumerate(words):
            parts = parts_of(b, access, word)
            for k, part in enumerate(parts):
                element = number * access.elements + k
                address = b.gep(self.address, [ir.Constant(I32, element)])
                counts = b.and_(ends, self.reaches(b, element + 1))
                (parts[k],) = masked_load(b, self.load.where, alone, address, counts, [part])
            yield word_of(b, access, parts)


def _read(b: Builder, vectors: list[list[_Part]]) -> list[list[Value]]:
    """The words of all parts of each vector; of those in which an array ends, which few threads have, in a branch."""
    read = [[part.read(b) for part in parts] for parts in vectors]
    found = []
    for parts, pairs in zip(vectors, read, strict=True):
        words = [word for some, _ in pairs for word in some]
        past = pairs[0][1]
        for _, ends in pairs[1:]:
            past = b.or_(past, ends)
        found.append(seldom(b, past, words, _ended(b, parts, pairs)))
    return found


def _ended(
    b: Builder, parts: list[_Part], pairs: list[tuple[list[Value], Value]]
) -> Callable[[], Iterator[Value]]:
    def words() -> Iterator[Value]:
        for part, (some, ends) in zip(parts, pairs, strict=True):
            yield from part.read_end(b, some, ends)

    return words


def _with_rest(
    b: Builder, access: Access, group: Group, words: list[Value], rest: list[Value]
) -> Callable[[], Iterator[Value]]:
    """The words, with the rest for elements that do not count."""

    def chosen() -> Iterator[Value]:
        for number, (word, other) in enumerate(zip(words, rest, strict=True)):
            counts = [group.element(b, number * access.elements + k) for k in range(access.elements)]
            pairs = zip(counts, parts_of(b, access, word), parts_of(b, access, other), strict=True)
            yield word_of(b, access, [b.select(c, part, one) for c, part, one in pairs])

    return chosen


def _moved(b: Builder, words: list[Value], count: Value) -> list[Value]:
    """The words from byte `count` of the first half on, half as many: moved by halves of them, by quarters, by bytes.
    """
    step = len(words) // 4
    while step:
        chosen = b.icmp_unsigned("!=", b.and_(count, ir.Constant(I32, WORD * step)), ir.Constant(I32, 0))
        words = [b.select(chosen, far, near) for near, far in zip(words, words[step:], strict=False)]
        step //= 2
    bits = b.shl(b.and_(count, ir.Constant(I32, WORD - 1)), ir.Constant(I32, 3))
    funnel, constraints = "shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r"
    pairs = zip(words, words[1:], strict=False)
    return [assembly(b, funnel, constraints, I32, [*pair, bits], effect=False) for pair in pairs]
