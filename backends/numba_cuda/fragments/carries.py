"""Blocks that begin in order, and what each of them is handed by those in front.

A block leaves its total as words that carry a mark of being there (`words.py`).  Then it reads the totals of all blocks
in front: of whole groups of blocks the one total that the first block behind a group leaves; where a thread leaves
several values, of whole groups of groups the one that the second block behind their next group leaves; the rest one by
one.  No block reads what the group in front of its own leaves last, which may be late.  Which thread merges which of
them depends on the number of the block alone, so the result has the same bits in every run, unlike a look-back that
takes what it finds.

The lanes of a warp wait together, for the totals of all of them (`_until`).  No block waits for ever: those in front
have begun, and the first of all that are not done waits for none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from polyfuse.backends.numba_cuda.fragments.declare import Emit, Rule, literal, named, operation
from polyfuse.backends.numba_cuda.fragments.monoids import MONOIDS, FragmentMonoid, State, accepts, neutral
from polyfuse.backends.numba_cuda.fragments.slots import assembly, intrinsic, pack, special_register, spread, unpack
from polyfuse.backends.numba_cuda.fragments.threads import (
    between_warps,
    butterfly,
    compact,
    emit_barrier,
    emit_warp_barrier,
    i32,
    read_shared,
    shared_buffer,
)
from polyfuse.backends.numba_cuda.fragments.values import (
    I1,
    I32,
    I64,
    Builder,
    DType,
    Fragment,
    Pointer,
    Value,
    int32,
    int64,
    itemsize,
    register_type,
)
from polyfuse.backends.numba_cuda.fragments.words import MARK, from_words, i64, load_words, store_words, to_words
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, ir, types

# ------------------------------------------------------------------------------------------ the order of blocks

_TURN = "atom.relaxed.gpu.global.inc.u32 $0, [$1], $2;"  # wraps, so the counter is zero again behind the last block


def _in_turn(turns: Any, blocks: Any, dtype: DType) -> tuple[Fragment, Emit] | None:
    if not isinstance(turns, Pointer):
        return None

    def emit(b: Builder, counter: Value, count: Value) -> Value:
        told = shared_buffer(b, int32, 1)
        (total,) = spread(b, blocks, count, int32, ())
        with b.if_then(b.icmp_unsigned("==", special_register(b, "tid.x"), i32(0))):
            arguments = [b.ptrtoint(counter, I64), b.sub(total, i32(1))]
            b.store(assembly(b, _TURN, "=r,l,r,~{memory}", I32, arguments, effect=True), told)
        emit_barrier(b)
        (number,) = read_shared(b, int32, told, i32(0), 1)
        return number if dtype == int32 else b.zext(number, I64)

    return Fragment(dtype, (), weak=True), emit


@operation
def in_turn(turns: Any, blocks: Any) -> tuple[Fragment, Emit] | None:
    """How many of the `blocks` blocks have begun before this one."""
    return _in_turn(turns, blocks, int32)


@operation
def in_turn64(turns: Any, blocks: Any) -> tuple[Fragment, Emit] | None:
    """`in_turn` in a kernel with 64-bit indices."""
    return _in_turn(turns, blocks, int64)


# ------------------------------------------------------------------------------------------ waiting


def _device_fence(b: Builder) -> None:
    assembly(b, "fence.acq_rel.gpu;", "~{memory}", ir.VoidType(), [], effect=True)


@contextlib.contextmanager
def _until(b: Builder, threads: int) -> Iterator[Callable[[Value], None]]:
    """Do again until all lanes of the warp have told that they are done.

    No lane goes ahead: ptxas lets threads that spin yield, and those that wait where they are to meet go on without
    them, to shuffles and barriers, where it takes the warp for whole (13.0 drops even `bar.warp.sync` there).
    """
    again, behind = b.append_basic_block("waiting"), b.append_basic_block("there")
    b.branch(again)
    b.position_at_end(again)

    def told(done: Value) -> None:
        members = i32((1 << threads) - 1 if threads < 32 else -1)
        every = intrinsic(b, "llvm.nvvm.vote.all.sync", I1, [members, done], convergent=True)
        b.cbranch(every, behind, again)

    yield told
    b.position_at_end(behind)


# ------------------------------------------------------------------------------------------ a line of blocks


def _nests(group: int, slots: int) -> bool:
    """As schedules have it; this module also stands alone, in exported kernels."""
    return group > 1 and slots > 1


def _stretch(group: int) -> int:
    """As schedules have it."""
    return max(256, 4 * group)


class _Line:
    """The totals of one line of blocks, as one thread meets them: rows of words, one per block, then one per group,
    then one per group of groups."""

    def __init__(self, b: Builder, dtype: DType, slots: int, bits: int, threads: int) -> None:
        self.b, self.dtype, self.slots = b, dtype, slots
        self.bits, self.threads, self.readers = bits, threads, 1 << bits.bit_count()
        self.each = slots * max(1, itemsize(dtype) // 4)
        thread = special_register(b, "tid.x")
        self.thread, self.reader = thread, compact(b, thread, bits)
        self.column = b.mul(compact(b, thread, ~bits & (threads - 1)), i32(self.each))

    def at(self, base: Value, line: Value, count: Value, group: int) -> None:
        """`count` blocks in the line, whose totals lie from `base` on."""
        b = self.b
        self.count = count
        self.above = b.add(count, b.sdiv(b.add(count, i32(group - 1)), i32(group)))
        self.rows = self.above
        if _nests(group, self.slots):
            self.rows = b.add(self.rows, b.sdiv(b.add(count, i32(group * group - 1)), i32(group * group)))
        self.columns = self.threads // self.readers * self.each
        words = b.mul(b.sext(self.rows, I64), i64(self.columns))
        self.base = b.add(base, b.mul(b.mul(line, words), i64(8)))
        self.mine = b.add(self.base, b.mul(b.sext(self.column, I64), i64(8)))

    def row(self, number: Value) -> Value:
        """The address of this thread's words of a total."""
        b = self.b
        return b.add(self.mine, b.mul(b.sext(number, I64), i64(8 * self.columns)))

    def leave(self, number: Value, totals: list[Value]) -> None:
        """One thread of those that hold the same totals writes them."""
        b = self.b
        with b.if_then(b.icmp_unsigned("==", self.reader, i32(0))):
            words = [word for total in totals for word in to_words(b, self.dtype, total)]
            store_words(b, self.row(number), words)

    def wait(self, number: Value) -> list[Value]:
        """The total of a row, as soon as those of all lanes are there."""
        b, address = self.b, self.row(number)
        with _until(b, self.threads) as told:
            words = load_words(b, address, self.each)
            marks = words[0]
            for word in words[1:]:
                marks = b.and_(marks, word)
            told(b.icmp_unsigned("!=", b.and_(marks, i64(MARK)), i64(0)))
        per_slot = self.each // self.slots
        return [from_words(b, self.dtype, words[k : k + per_slot]) for k in range(0, self.each, per_slot)]

    def merged(
        self, monoid: FragmentMonoid, low: Value, high: Value, number_of: Callable[[Value], Value]
    ) -> list[Value]:
        """The totals of the rows that `number_of` gives for `low` to `high`: this thread's share of them in turn, then
        those of all that deal them among them.  The lanes of a warp go through as many, of which some count for one."""
        b = self.b
        first = compact(b, b.and_(self.thread, i32(~31)), self.bits)
        behind = b.sub(self.reader, first)
        start = neutral(monoid, self.dtype, exact=True)
        with b.goto_entry_block():
            held = [b.alloca(register_type(self.dtype)) for _ in range(self.slots)]
        for place in held:
            b.store(start, place)
        with cgutils.for_range_slice(b, b.add(low, first), high, i32(self.readers), I32) as (one, _):
            mine = b.add(one, behind)
            counts = b.icmp_signed("<", mine, high)
            for place, found in zip(held, self.wait(number_of(b.select(counts, mine, one))), strict=True):
                before = b.load(place)
                (merged,) = monoid.merge(b, (self.dtype,), (before,), (found,))
                b.store(b.select(counts, merged, before), place)
        states: list[State] = [(b.load(place),) for place in held]
        combine = between_warps if self.bits >= 32 else butterfly
        states = combine(b, monoid, (self.dtype,), states, self.bits, self.threads)
        return [state[0] for state in states]

    def done(self, number: Value, counters: Value, group: int) -> None:
        """All threads of the block have read what they need, which the first warp counts: of one stretch of blocks, and
        of totals of one value, the last block waits for all others and leaves zeros; else whoever comes last."""
        b, each = self.b, _stretch(group)
        if self.bits < 32:
            emit_barrier(b)
        in_first_warp = b.icmp_unsigned("<", self.thread, i32(32))
        if not _nests(group, self.slots):
            with b.if_then(in_first_warp):
                self._clear_behind(number, counters)
            return
        is_one = b.icmp_signed("<=", self.count, i32(each))
        with b.if_then(in_first_warp), b.if_else(is_one) as (then, otherwise):
            with then:
                self._clear_behind(number, counters)
            with otherwise:
                self._clear_stretches(number, counters, each)

    def _clear_behind(self, number: Value, counter: Value) -> None:
        b = self.b
        first, others = b.icmp_unsigned("==", self.thread, i32(0)), b.sub(self.count, i32(1))
        with b.if_else(b.icmp_signed("==", number, others)) as (is_last, is_before):
            with is_before, b.if_then(first):
                text = "red.release.gpu.global.add.u32 [$0], $1;"
                assembly(b, text, "l,r,~{memory}", ir.VoidType(), [counter, i32(1)], effect=True)
            with is_last:
                with _until(b, self.threads) as told:
                    text = "ld.acquire.gpu.global.u32 $0, [$1];"
                    before = assembly(b, text, "=r,l,~{memory}", I32, [counter], effect=True)
                    told(b.icmp_unsigned("==", before, others))
                self._clear(i32(0), self.rows)
                emit_warp_barrier(b)
                with b.if_then(first):
                    text = "st.relaxed.gpu.global.u32 [$0], $1;"
                    assembly(b, text, "l,r,~{memory}", ir.VoidType(), [counter, i32(0)], effect=True)

    def _clear_stretches(self, number: Value, counters: Value, each: int) -> None:
        """Totals of a stretch have been read when its own blocks and those of the next one have read what they need;
        those of groups, when all have.  Nothing orders what was read before the count, as it has arrived by then:
        branches depend on it."""
        b = self.b
        own, last = b.sdiv(number, i32(each)), b.sdiv(b.sub(self.count, i32(1)), i32(each))
        with self._by_last(counters, b.add(own, own), self._behind(b.mul(own, i32(each)), each)):
            low = b.select(b.icmp_signed(">", own, i32(0)), b.sub(own, i32(1)), i32(0))
            with cgutils.for_range_slice(b, low, b.add(own, i32(1)), i32(1), I32) as (one, _):
                waits = b.select(b.icmp_signed("<", one, last), i32(2), i32(1))
                with self._by_last(counters, b.add(b.add(one, one), i32(1)), waits):
                    first, everything = b.mul(one, i32(each)), b.add(last, i32(1))
                    self._clear(first, b.add(first, self._behind(first, each)))
                    with self._by_last(counters, b.add(everything, everything), everything):
                        self._clear(self.count, self.rows)

    def _behind(self, begin: Value, each: int) -> Value:
        """How many blocks the stretch that begins there has."""
        b = self.b
        rest = b.sub(self.count, begin)
        return b.select(b.icmp_signed("<", rest, i32(each)), rest, i32(each))

    @contextlib.contextmanager
    def _by_last(self, counters: Value, counter: Value, of: Value) -> Iterator[None]:
        """What the first warp does in the last of so many blocks that come here; the counter is zero again then."""
        b = self.b
        address = b.add(counters, b.mul(b.sext(counter, I64), i64(4)))
        told = cgutils.alloca_once_value(b, ir.Constant(I1, 0))
        with b.if_then(b.icmp_unsigned("==", self.thread, i32(0))):
            most = b.sub(of, i32(1))
            before = assembly(b, _TURN, "=r,l,r,~{memory}", I32, [address, most], effect=True)
            b.store(b.icmp_unsigned("==", before, most), told)
        members = i32((1 << self.threads) - 1 if self.threads < 32 else -1)
        with b.if_then(intrinsic(b, "llvm.nvvm.vote.any.sync", I1, [members, b.load(told)], convergent=True)):
            _device_fence(b)
            yield

    def _clear(self, low: Value, high: Value) -> None:
        """The rows from `low` to `high`, by the first warp."""
        b, step = self.b, 2 if self.columns % 2 == 0 else 1
        lanes = min(self.threads, 32)
        begin, end = (b.mul(b.sext(row, I64), i64(self.columns)) for row in (low, high))
        own = b.add(begin, b.mul(b.sext(self.thread, I64), i64(step)))
        with cgutils.for_range_slice(b, own, end, i64(step * lanes), I64) as (k, _):
            store_words(b, b.add(self.base, b.mul(k, i64(8))), [i64(0)] * step)


# ------------------------------------------------------------------------------------------ the operation


def _placed(words: Any, group: Any, bits: Any, threads: Any) -> tuple[int, int, int]:
    """(totals that are left as one, thread bits, threads of a block).  Raises TypingError."""
    if words.dtype != types.uint64 or words.readonly:
        raise TypingError(f"totals are left in words of uint64, not {words}")
    every = literal(group, "the totals left as one")
    return every, literal(bits, "the bits"), literal(threads, "the threads")


@operation
def leave(
    x: Any, words: Any, line: Any, number: Any, count: Any, group: Any, bits: Any, threads: Any
) -> tuple[Any, Emit] | None:
    """Leave `x` for the blocks behind, as the `number`-th of `count` totals of a line: all but the last are needed."""
    if not (isinstance(x, Fragment) and isinstance(words, Pointer)):
        return None
    every, mask, together = _placed(words, group, bits, threads)

    def emit(b: Builder, value: Value, w: Value, at: Value, own: Value, total: Value, *_: Value) -> None:
        (place,), (q,) = spread(b, line, at, int64, ()), spread(b, number, own, int32, ())
        (blocks,) = spread(b, count, total, int32, ())
        found = _Line(b, x.dtype, x.size, mask, together)
        found.at(b.ptrtoint(w, I64), place, blocks, every)
        with b.if_then(b.icmp_signed("<", q, b.sub(blocks, i32(1)))):
            found.leave(q, unpack(b, x, value))

    return types.void, emit


def _groups(b: Builder, q: Value, every: int) -> tuple[Value, Value]:
    """Of whole groups in front of block `q`, those that others have surely left as one, and its place in its own."""
    before = b.sdiv(q, i32(every))
    groups = b.select(b.icmp_signed(">", before, i32(0)), b.sub(before, i32(1)), i32(0))
    return groups, b.sub(q, b.mul(before, i32(every)))


def _lead_groups(line: _Line, monoid: FragmentMonoid, q: Value, every: int) -> None:
    """The first block behind a group leaves its total; the second one behind the next group of a group of groups that
    of these."""
    b = line.b
    groups, place = _groups(b, q, every)
    leaves = b.and_(b.icmp_signed("==", place, i32(0)), b.icmp_signed(">", q, i32(0)))
    low, row = b.sub(q, i32(every)), b.add(line.count, b.sub(b.sdiv(q, i32(every)), i32(1)))
    if _nests(every, line.slots):
        wider = b.sdiv(groups, i32(every))
        is_second = b.and_(b.icmp_signed("==", place, i32(1)), b.icmp_signed(">", groups, i32(0)))
        of_groups = b.and_(is_second, b.icmp_signed("==", b.mul(wider, i32(every)), groups))
        leaves = b.or_(leaves, of_groups)
        low = b.select(of_groups, b.sub(b.add(line.count, groups), i32(every)), low)
        row = b.select(of_groups, b.sub(b.add(line.above, wider), i32(1)), row)
    with b.if_then(leaves):
        line.leave(row, line.merged(monoid, low, b.add(low, i32(every)), lambda k: k))
        if _nests(every, line.slots):
            _device_fence(b)  # it may be cleared before anybody has read it


def _in_front(line: _Line, q: Value, every: int) -> tuple[Value, Callable[[Value], Value]]:
    """How many totals make up all blocks in front of block `q`, and the row of each: of groups of groups if any, then
    of groups, then of blocks."""
    b = line.b
    groups, _ = _groups(b, q, every)
    saved = b.mul(groups, i32(every - 1))

    def row(k: Value) -> Value:
        return b.select(b.icmp_signed("<", k, groups), b.add(line.count, k), b.add(k, saved))

    if not _nests(every, line.slots):
        return b.sub(q, saved), row
    whole = b.sdiv(groups, i32(every))
    wider = b.select(b.icmp_signed(">", whole, i32(0)), b.sub(whole, i32(1)), i32(0))
    saved_above = b.mul(wider, i32(every - 1))

    def row_above(k: Value) -> Value:
        return b.select(b.icmp_signed("<", k, wider), b.add(line.above, k), row(b.add(k, saved_above)))

    return b.sub(q, b.add(saved, saved_above)), row_above


def _carry(monoid: FragmentMonoid) -> Rule:
    def rule(
        x: Any,
        words: Any,
        arrived: Any,
        line: Any,
        number: Any,
        count: Any,
        group: Any,
        bits: Any,
        threads: Any,
    ) -> tuple[Any, Emit] | None:
        if not (isinstance(x, Fragment) and isinstance(words, Pointer) and isinstance(arrived, Pointer)):
            return None
        accepts(monoid, x.dtype)
        every, mask, together = _placed(words, group, bits, threads)
        if arrived.dtype != types.int32 or arrived.readonly:
            raise TypingError(f"blocks that have read what they need are counted in int32, not {arrived}")

        def emit(b: Builder, value: Value, w: Value, a: Value, at: Value, own: Value, total: Value, *_: Value) -> Value:
            (place,), (q,) = spread(b, line, at, int64, ()), spread(b, number, own, int32, ())
            (blocks,) = spread(b, count, total, int32, ())
            found = _Line(b, x.dtype, x.size, mask, together)
            found.at(b.ptrtoint(w, I64), place, blocks, every)
            _lead_groups(found, monoid, q, every)
            totals = found.merged(monoid, i32(0), *_in_front(found, q, every))
            if _nests(every, x.size):
                stretches = b.sdiv(b.add(blocks, i32(_stretch(every) - 1)), i32(_stretch(every)))
                place = b.mul(place, b.sext(b.add(b.add(stretches, stretches), i32(1)), I64))
            found.done(q, b.add(b.ptrtoint(a, I64), b.mul(place, i64(4))), every)
            return pack(b, x, totals)

        return Fragment(x.dtype, x.shape), emit

    return named(rule, f"carry_{monoid.name}")


CARRIES: dict[str, Callable[..., Any]] = {
    f"carry_{name}": operation(_carry(monoid)) for name, monoid in MONOIDS.items() if monoid.states == 1
}
