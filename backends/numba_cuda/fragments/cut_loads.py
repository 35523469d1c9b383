"""Loads of vectors of which a part counts, aligned or beginning anywhere: see `cut.py`.

A vector that begins between two places of memory is made of both, which is two loads where single elements are eight:

    address 3:      ...abcde|fgh.....|      words of both are moved down by three

Two that begin next to each other lie in the same two, which are then read once.
Where an array ends inside a vector its last elements are read one by one, or in parts, in a branch that few threads
take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from polyfuse.backends.numba_cuda.fragments.accesses import (
    Placed,
    VectorPlace,
    as_integer,
    masked_load,
    plain_load,
    vector_places,
)
from polyfuse.backends.numba_cuda.fragments.cut import Group, bounds_of, cut_tile, parts_of, word_of
from polyfuse.backends.numba_cuda.fragments.declare import Emit, given, literal, operation
from polyfuse.backends.numba_cuda.fragments.formats import Access, narrow, widen, widest
from polyfuse.backends.numba_cuda.fragments.slots import (
    assembly,
    both,
    either,
    is_known,
    negated,
    pack,
    seldom,
    shape_of,
    spread,
)
from polyfuse.backends.numba_cuda.fragments.values import (
    I1,
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
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, ir, types

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
    if known and not widest(pointer.dtype, tile.tile.vector).size >= WORD:
        raise TypingError(f"vectors of {tile} of {pointer.dtype} are not made of words")
    if shape_of(other):
        raise TypingError(f"what does not count gets one value, not {other}")
    return _vectors(_Across, pointer, offset, tile, low, high, end, mask, sizes, other)


@operation
def load_neighbours(
    pointer: Any,
    offset: Any,
    tile: Any,
    steps: Any,
    lows: Any,
    highs: Any,
    end: Any = 0,
    mask: Any = None,
    sizes: Any = (),
    other: Any = 0,
) -> tuple[Any, Emit] | None:
    """Several fragments, each as `load_across` of the elements that lie one of `steps` further on, by a `low` and a
    `high` of its own."""
    where = cut_tile(pointer, offset, tile, sizes)
    bounds = (lows, highs)
    if where is None or not all(isinstance(ends, types.BaseTuple) for ends in bounds):
        return None
    beyond, access, shape = literal(steps, "how far on neighbours begin"), where.access, where.tile.shape
    if not beyond[0] == 0 <= min(beyond) or list(beyond) != sorted(beyond) or {len(lows), len(highs)} != {len(beyond)}:
        raise TypingError(f"neighbours begin 0 and more elements on, in order and each with bounds, not {beyond}")
    if not access.size >= WORD or itemsize(pointer.dtype) < WORD // 2 or shape_of(other):
        raise TypingError(f"{tile} of {pointer.dtype} has no vectors whose neighbours are moved words")
    fragment = Fragment(register_dtype(pointer.dtype), shape)
    kinds = list(zip(lows.types, highs.types, strict=True))
    ends = [bounds_of(low, high, mask, shape, access.width) for low, high in kinds]

    def emit(b: Builder, p: Value, at: Value, _: Value, __: Value, first: Value, last: Value, *rest: Value) -> Value:
        count, chosen, n, fill = rest
        (elements,) = spread(b, end, count, types.int64, ())
        places = vector_places(b, where, p, at, n)
        pairs = zip(_unpacked(b, lows, first), _unpacked(b, highs, last), strict=True)
        groups = [bound.groups(b, *pair, chosen) for bound, pair in zip(ends, pairs, strict=True)]
        size = as_integer(b, elements, places[0].start.type)
        load = _Across(where, places, groups[0], p, size, beyond, groups)
        others = None
        if not isinstance(other, types.NoneType):
            weak, value = (other, fill) if given(other) else (types.literal(0), ir.Constant(I64, 0))
            others = narrow(b, access, spread(b, weak, value, fragment.dtype, shape))
        found = load.neighbours(b, others)
        return cgutils.pack_struct(b, [pack(b, fragment, widen(b, access, words)) for words in found])

    return types.Tuple((fragment,) * len(beyond)), emit


def _unpacked(b: Builder, kinds: Any, value: Value) -> list[Value]:
    """The members of a tuple, literals as constants."""
    parts = zip(kinds.types, cgutils.unpack_tuple(b, value, len(kinds)), strict=True)
    return [ir.Constant(part.type, kind.literal_value) if isinstance(kind, types.Literal) else part
            for kind, part in parts]  # fmt: skip


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
        places = vector_places(b, where, p, at, n)
        count = as_integer(b, elements, places[0].start.type)
        load = kind(where, places, bounds.groups(b, first, last, chosen), p, count)
        if isinstance(other, types.NoneType):
            return pack(b, fragment, widen(b, access, load.open_words(b)))
        weak, value = (other, fill) if given(other) else (types.literal(0), ir.Constant(I64, 0))
        others = narrow(b, access, spread(b, weak, value, fragment.dtype, shape))
        return pack(b, fragment, widen(b, access, load.closed_words(b, others)))

    return fragment, emit


@dataclass(frozen=True)
class _Load:
    """The vectors of a load: where they lie, and which elements of each count; the array and its number of elements."""

    where: Placed
    places: list[VectorPlace]
    groups: list[Group]
    array: Value
    elements: Value

    def closed_words(self, b: Builder, others: list[Value]) -> list[Value]:
        """All vectors, as words of registers, with others for the elements that do not count."""
        parts = self._each(others)
        return self._closed(b, self.vectors(b, parts), self.groups, parts)

    def open_words(self, b: Builder) -> list[Value]:
        """With anything for the elements that do not count."""
        return [word for words in self.vectors(b, self._unknown()) for word in words]

    def _each(self, words: list[Value]) -> list[list[Value]]:
        """Those of each vector."""
        count = self.where.access.count
        return [words[k : k + count] for k in range(0, len(words), count)]

    def _unknown(self) -> list[list[Value]]:
        unknown = [ir.Constant(self.where.access.word, ir.Undefined)] * self.where.access.count
        return [unknown] * len(self.groups)

    def _closed(
        self, b: Builder, vectors: list[list[Value]], groups: list[Group], others: list[list[Value]]
    ) -> list[Value]:
        found = []
        for words, group, rest in zip(vectors, groups, others, strict=True):
            found += seldom(b, negated(b, group.whole(b)), words, _with_rest(b, self.where.access, group, words, rest))
        return found

    def vectors(self, b: Builder, unread: list[list[Value]]) -> list[list[Value]]:
        """The words of each vector, those of `unread` where none counts: all loads first."""
        width = self.where.access.width
        parts = [
            _Part(self, place.start, place.constant, place.address(b, 0), group.some(b), group.goes_on(width), rest)
            for place, group, rest in zip(self.places, self.groups, unread, strict=True)
        ]
        return _read(b, [[part] for part in parts])


@dataclass(frozen=True)
class _Across(_Load):
    """Vectors that begin anywhere: of each the aligned ones are read that it lies in, and those `steps` elements on.
    `every`: the groups of each step."""

    steps: tuple[int, ...] = (0,)
    every: list[list[Group]] = field(default_factory=list)

    def vectors(self, b: Builder, unread: list[list[Value]]) -> list[list[Value]]:
        (words,) = self._steps(b, unread)
        return words

    def neighbours(self, b: Builder, others: list[Value] | None) -> list[list[Value]]:
        """Per step the words of all vectors, with `others` for elements that do not count, or anything."""
        found = self._steps(b, self._unknown())
        if others is None:
            return [[word for words in vectors for word in words] for vectors in found]
        parts = self._each(others)
        return [self._closed(b, vectors, groups, parts) for vectors, groups in zip(found, self.every, strict=True)]

    def _steps(self, b: Builder, unread: list[list[Value]]) -> list[list[list[Value]]]:
        access, width = self.where.access, self.where.access.width
        every, aligned = self.every or [self.groups], list[list[_Part]]()
        alike = dict[tuple[Value, int], tuple[Value, Value, list[int]]]()
        for number, (place, rest) in enumerate(zip(self.places, unread, strict=True)):
            start, beyond = place.start, place.constant % width
            if (start, beyond) not in alike:  # vectors that lie whole ones apart are moved alike
                moved = b.and_(b.add(start, ir.Constant(start.type, beyond)), ir.Constant(start.type, width - 1))
                first = b.sub(b.add(start, ir.Constant(start.type, beyond)), moved)
                alike[start, beyond] = first, as_integer(b, moved, I32), []
            first, moved, numbers = alike[start, beyond]
            numbers.append(number)
            parts = self._parts(b, first, place.constant - beyond, moved, [groups[number] for groups in every], rest)
            aligned.append(parts)
        words, found = _read(b, aligned), [dict[int, list[Value]]() for _ in self.steps]
        for _, moved, numbers in alike.values():
            count = b.mul(moved, ir.Constant(I32, itemsize(access.dtype)))
            taken = _moved(b, access, [words[n] for n in numbers], count, self.steps)
            for step, vectors in zip(found, taken, strict=True):
                step |= dict(zip(numbers, vectors, strict=True))
        return [[step[number] for number in range(len(words))] for step in found]

    def _parts(
        self, b: Builder, first: Value, constant: int, moved: Value, groups: list[Group], rest: list[Value]
    ) -> list[_Part]:
        """The aligned vectors that one lies in which begins `moved` elements behind ``first + constant``, and its
        neighbours; of those behind the second only where it begins late enough."""
        width, span = self.where.access.width, self.steps[-1]
        base, some, found = b.gep(self.array, [first]), groups[0].some(b), []
        for group in groups[1:]:
            some = either(b, some, group.some(b))
        for step in range(0, 2 * width - 1 + span, width):
            begins = some
            if not groups[0].begins():  # rows of an array begin at its begin, where no vector is half inside
                begins = both(b, some, b.icmp_signed(">=", first, ir.Constant(first.type, -constant - step)))
            if step > width:
                begins = both(b, begins, b.icmp_signed(">=", moved, ir.Constant(I32, step - span - width + 1)))
            address = b.gep(base, [ir.Constant(I32, constant + step)])
            is_inside = groups[-1].goes_on(step + width - span)
            found.append(_Part(self, first, constant + step, address, begins, is_inside, rest))
        return found


@dataclass(frozen=True)
class _Part:
    """An aligned vector of an array, from element ``start + constant`` on, where it is wanted.  `is_inside`: where it
    is, the array is known to hold all of it."""

    load: _Load
    start: Value
    constant: int
    address: Value
    wanted: Value
    is_inside: bool
    unread: list[Value]

    def reaches(self, b: Builder, count: int) -> Value:
        """Whether the array has so many elements from the first one on."""
        last = b.sub(self.load.elements, ir.Constant(self.start.type, self.constant + count))
        return b.icmp_signed("<=", self.start, last)

    def read(self, b: Builder) -> tuple[list[Value], Value]:
        """(the words where the array holds all, whether it ends within them)."""
        where, access = self.load.where, self.load.where.access
        holds = ir.Constant(I1, 1) if self.is_inside else self.reaches(b, access.width)
        read = both(b, self.wanted, holds)
        if is_known(read, True):
            return plain_load(b, where, self.address), ir.Constant(I1, 0)
        if is_known(self.wanted, False):
            return self.unread, ir.Constant(I1, 0)
        return masked_load(b, where, access, self.address, read, self.unread), both(b, self.wanted, negated(b, holds))

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
    parts = [part for vector in vectors for part in vector]
    read = [part.read(b) for part in parts]
    past = ir.Constant(I1, 0)
    for _, ends in read:
        past = ends if is_known(past, False) else past if is_known(ends, False) else b.or_(past, ends)
    words = seldom(b, past, [word for some, _ in read for word in some], _ended(b, parts, read))
    each = len(words) // len(vectors)
    return [words[k : k + each] for k in range(0, len(words), each)]


def _ended(
    b: Builder, parts: list[_Part], read: list[tuple[list[Value], Value]]
) -> Callable[[], Iterator[Value]]:
    """Of aligned vectors those that the array ends in are one, whose elements are read once for all of a thread: of
    bytes, which are many.  Of others each vector reads its own.  On an H200, together and so: softmax backward of rows
    of 1001 bfloat16 199 and 185 us, of 2047 210 and 195, a layernorm of 3001 166 and 158, which takes ten registers
    more; sums and largest of columns as long either way, and 300 ms to compile for bytes instead of 660."""

    def words() -> Iterator[Value]:
        are_bytes = itemsize(parts[0].load.where.access.dtype) == 1
        alone = _last(b, parts[0].load) if are_bytes else []
        for part, (some, ends) in zip(parts, read, strict=True):
            if is_known(ends, False):
                yield from some
            elif not alone:
                yield from part.read_end(b, some, ends)
            else:  # a vector behind the end has no element
                within = b.and_(ends, part.reaches(b, 1))
                yield from [b.select(within, *pair) for pair in zip(alone, some, strict=True)]

    return words


def _last(b: Builder, load: _Load) -> list[Value]:
    """The words of the vector in which an array ends, of anything behind that: a load for each power of two, as of six
    elements four and two."""
    access, elements = load.where.access, load.elements
    address = b.gep(load.array, [b.and_(elements, ir.Constant(elements.type, -access.width))])
    left = as_integer(b, b.and_(elements, ir.Constant(elements.type, access.width - 1)), I32)
    found, count = [ir.Constant(Access(access.dtype, 1).word, ir.Undefined)], 1  # behind all that was read so far
    while count < access.width:
        piece, before = Access(access.dtype, count), b.and_(left, ir.Constant(I32, -2 * count))
        read = b.icmp_unsigned("!=", b.and_(left, ir.Constant(I32, count)), ir.Constant(I32, 0))
        unread = [ir.Constant(piece.word, ir.Undefined)] * piece.count
        words = masked_load(b, load.where, piece, b.gep(address, [before]), read, unread)
        first = [b.select(read, *pair) for pair in zip(words, found, strict=True)]
        found = [*first, *found] if piece.size >= WORD else [_beside(b, first[0], found[0])]
        count *= 2
    return found


def _beside(b: Builder, low: Value, high: Value) -> Value:
    """A word of two halves."""
    wide = ir.IntType(2 * low.type.width)
    return b.or_(b.zext(low, wide), b.shl(b.zext(high, wide), ir.Constant(wide, low.type.width)))


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


def _moved(
    b: Builder, access: Access, vectors: list[list[Value]], count: Value, steps: tuple[int, ...]
) -> list[list[list[Value]]]:
    """Per step, of the words of each vector those from byte `count` and so many elements on, as many as one has.

    Which words these are is asked for once: a row is moved as a whole, so that the threads of a warp agree, and a
    choice for each word would cost more than what is computed of it."""
    each, size, parts = access.count, access.size // access.count, access.elements > 1
    bits = b.shl(b.and_(count, ir.Constant(I32, size - 1)), ir.Constant(I32, 3))
    arms = [b.append_basic_block() for _ in range(each)]
    behind = b.append_basic_block()
    chosen = b.switch(b.lshr(count, ir.Constant(I32, size.bit_length() - 1)), arms[-1])
    found = list[list[Value]]()
    for number, arm in enumerate(arms):
        if number < each - 1:
            chosen.add_case(ir.Constant(I32, number), arm)
        b.position_at_end(arm)
        taken = list[Value]()
        for step in steps:
            further, rest = divmod(step * itemsize(access.dtype), size)
            for words in vectors:
                moved = words[number + further : number + further + each + parts]
                taken += _funnelled(b, moved, bits, 8 * rest) if parts else moved
        found.append(taken)
        b.branch(behind)
    b.position_at_end(behind)
    met = []
    for values in zip(*found, strict=True):
        phi = b.phi(access.word)
        for value, arm in zip(values, arms, strict=True):
            phi.add_incoming(value, arm)
        met.append(phi)
    words_of = [met[k : k + each] for k in range(0, len(met), each)]
    return [words_of[k : k + len(vectors)] for k in range(0, len(words_of), len(vectors))]


def _funnelled(b: Builder, words: list[Value], bits: Value, further: int) -> list[Value]:
    """Neighbouring words moved down by `bits` and `further` ones, 32 at most: one word fewer."""
    funnel, constraints = "shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r"
    if further:
        funnel, bits = funnel.replace("wrap", "clamp"), b.add(bits, ir.Constant(I32, further))
    pairs = zip(words, words[1:], strict=False)
    return [assembly(b, funnel, constraints, I32, [*pair, bits], effect=False) for pair in pairs]
