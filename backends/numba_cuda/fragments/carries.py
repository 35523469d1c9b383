"""Blocks that begin in order, and what each of them is handed by those in front.

A block leaves its total as 64-bit words, half of each a mark that it is there, so that no fence orders the two: a word
is written and read as a whole (PTX ISA, memory consistency model: relaxed operations of one scope on one location are
never torn).  Then it reads the totals of all blocks in front: for whole groups of blocks the one total that the first
block behind the next group leaves of it, else each by itself.  Which thread merges which of them depends on the number
of the block alone, so the result has the same bits in every run, unlike a look-back that takes what it finds.

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
    is_float,
    itemsize,
    register_type,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, ir, types

_MARK = 1 << 32  # of a word that holds something


def i64(value: int) -> Value:
    """A constant."""
    return ir.Constant(I64, value)


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


# ------------------------------------------------------------------------------------------ words


def _to_words(b: Builder, dtype: DType, value: Value) -> list[Value]:
    """A slot in marked words, 32 bits in each."""
    if is_float(dtype):
        value = b.bitcast(value, I64 if itemsize(dtype) == 8 else I32)
    if itemsize(dtype) == 8:
        halves = [b.and_(value, i64(_MARK - 1)), b.lshr(value, i64(32))]
    else:
        halves = [b.and_(b.zext(value, I64), i64(_MARK - 1))]
    return [b.or_(half, i64(_MARK)) for half in halves]


def _from_words(b: Builder, dtype: DType, words: list[Value]) -> Value:
    if itemsize(dtype) == 8:
        whole = b.or_(b.and_(words[0], i64(_MARK - 1)), b.shl(words[1], i64(32)))
    else:
        whole = b.trunc(words[0], I32)
    llvm = register_type(dtype)
    if is_float(dtype):
        return b.bitcast(whole, llvm)
    return b.trunc(whole, llvm) if llvm.width < whole.type.width else whole


def _pairs(words: int) -> list[tuple[int, int]]:
    """Where accesses begin, and how many words each moves: two where all come in pairs, which are aligned then."""
    step = 2 if words % 2 == 0 else 1
    return [(k, step) for k in range(0, words, step)]


def _load_words(b: Builder, address: Value, words: int) -> list[Value]:
    found: list[Value] = []
    for start, count in _pairs(words):
        at = b.add(address, i64(8 * start))
        if count == 1:
            text = "ld.relaxed.gpu.global.b64 $0, [$1];"
            found.append(assembly(b, text, "=l,l,~{memory}", I64, [at], effect=True))
        else:
            text = "ld.relaxed.gpu.global.v2.b64 {$0, $1}, [$2];"
            pair = assembly(b, text, "=l,=l,l,~{memory}", ir.LiteralStructType([I64, I64]), [at], effect=True)
            found += [b.extract_value(pair, 0), b.extract_value(pair, 1)]
    return found


def _store_words(b: Builder, address: Value, words: list[Value]) -> None:
    for start, count in _pairs(len(words)):
        at, some = b.add(address, i64(8 * start)), words[start : start + count]
        if count == 1:
            text, constraints = "st.relaxed.gpu.global.b64 [$0], $1;", "l,l,~{memory}"
        else:
            text, constraints = "st.relaxed.gpu.global.v2.b64 [$0], {$1, $2};", "l,l,l,~{memory}"
        assembly(b, text, constraints, ir.VoidType(), [at, *some], effect=True)


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


class _Line:
    """The totals of one line of blocks, as one thread meets them: rows of words, one per block, then one per group."""

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
        rows = b.add(count, b.sdiv(b.add(count, i32(group - 1)), i32(group)))
        self.columns = self.threads // self.readers * self.each
        self.words = b.mul(b.sext(rows, I64), i64(self.columns))
        self.base = b.add(base, b.mul(b.mul(line, self.words), i64(8)))
        self.mine = b.add(self.base, b.mul(b.sext(self.column, I64), i64(8)))

    def row(self, number: Value) -> Value:
        """The address of this thread's words of a total."""
        b = self.b
        return b.add(self.mine, b.mul(b.sext(number, I64), i64(8 * self.columns)))

    def leave(self, number: Value, totals: list[Value]) -> None:
        """One thread of those that hold the same totals writes them."""
        b = self.b
        with b.if_then(b.icmp_unsigned("==", self.reader, i32(0))):
            words = [word for total in totals for word in _to_words(b, self.dtype, total)]
            _store_words(b, self.row(number), words)

    def wait(self, number: Value) -> list[Value]:
        """The total of a row, as soon as those of all lanes are there."""
        b, address = self.b, self.row(number)
        with _until(b, self.threads) as told:
            words = _load_words(b, address, self.each)
            marks = words[0]
            for word in words[1:]:
                marks = b.and_(marks, word)
            told(b.icmp_unsigned("!=", b.and_(marks, i64(_MARK)), i64(0)))
        per_slot = self.each // self.slots
        return [_from_words(b, self.dtype, words[k : k + per_slot]) for k in range(0, self.each, per_slot)]

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

    def done(self, number: Value, arrived: Value) -> None:
        """All threads of the block have read what they need: the last block of the line waits for all others to say so,
        and leaves zeros."""
        b = self.b
        last = b.icmp_signed("==", number, b.sub(self.count, i32(1)))
        if self.bits < 32:
            emit_barrier(b)
        first = b.icmp_unsigned("==", self.thread, i32(0))
        with b.if_then(b.and_(first, b.not_(last))):
            text = "red.release.gpu.global.add.u32 [$0], $1;"
            assembly(b, text, "l,r,~{memory}", ir.VoidType(), [arrived, i32(1)], effect=True)
        with b.if_then(b.and_(last, b.icmp_unsigned("<", self.thread, i32(32)))):
            with _until(b, self.threads) as told:
                text = "ld.acquire.gpu.global.u32 $0, [$1];"
                before = assembly(b, text, "=r,l,~{memory}", I32, [arrived], effect=True)
                told(b.icmp_unsigned("==", before, b.sub(self.count, i32(1))))
            self._clear()
            emit_warp_barrier(b)
            with b.if_then(first):
                text = "st.relaxed.gpu.global.u32 [$0], $1;"
                assembly(b, text, "l,r,~{memory}", ir.VoidType(), [arrived, i32(0)], effect=True)

    def _clear(self) -> None:
        """By the first warp."""
        b, step = self.b, 2 if self.columns % 2 == 0 else 1
        lanes = min(self.threads, 32)
        low = b.mul(b.sext(self.thread, I64), i64(step))
        with cgutils.for_range_slice(b, low, self.words, i64(step * lanes), I64) as (k, _):
            _store_words(b, b.add(self.base, b.mul(k, i64(8))), [i64(0)] * step)


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
            before = b.sdiv(q, i32(every))  # whole groups in front, of which the last one is read block by block
            is_first = b.icmp_signed("==", b.mul(before, i32(every)), q)
            with b.if_then(b.and_(is_first, b.icmp_signed(">", before, i32(0)))):
                low = b.sub(q, i32(every))
                found.leave(b.sub(b.add(blocks, before), i32(1)), found.merged(monoid, low, q, lambda k: k))
            groups = b.select(b.icmp_signed(">", before, i32(0)), b.sub(before, i32(1)), i32(0))
            beyond = b.sub(b.mul(groups, i32(every)), groups)

            def row(k: Value) -> Value:
                return b.select(b.icmp_signed("<", k, groups), b.add(blocks, k), b.add(k, beyond))

            totals = found.merged(monoid, i32(0), b.sub(q, beyond), row)
            found.done(q, b.add(b.ptrtoint(a, I64), b.mul(place, i64(4))))
            return pack(b, x, totals)

        return Fragment(x.dtype, x.shape), emit

    return named(rule, f"carry_{monoid.name}")


CARRIES: dict[str, Callable[..., Any]] = {
    f"carry_{name}": operation(_carry(monoid)) for name, monoid in MONOIDS.items() if monoid.states == 1
}
