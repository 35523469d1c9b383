"""Prefix sums and their like: along a slot axis inside a thread, then over the lanes, then over the warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.backends.numba_cuda.fragments.declare import Emit, Rule, literal, named, operation
from polyfuse.backends.numba_cuda.fragments.monoids import MONOIDS, FragmentMonoid, accepts, neutral
from polyfuse.backends.numba_cuda.fragments.slots import pack, special_register, unpack
from polyfuse.backends.numba_cuda.fragments.threads import Exchange, emit_barrier, i32, shuffle
from polyfuse.backends.numba_cuda.fragments.values import Builder, DType, Fragment, Value
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, types


class _Scan:
    """One scan over the threads of groups of `width` threads, `step` apart: neighbours, lanes of a warp with others
    between them, which run through lines of their own, or threads of as many warps."""

    def __init__(
        self, b: Builder, monoid: FragmentMonoid, dtype: DType, width: int, step: int, threads: int, reverse: bool
    ):
        self.b, self.monoid, self.dtype, self.reverse, self.threads = b, monoid, dtype, reverse, threads
        self.between = min(step, 32)  # lines side by side in a warp
        self.lanes = min(width, 32 // self.between)
        self.warps, self.step = width // self.lanes, max(step // 32, 1)  # the step in warps
        self.segment = (32 - self.lanes * self.between) << 8
        self.thread = special_register(b, "tid.x")
        place = b.lshr(self.thread, i32(self.between.bit_length() - 1)) if self.between > 1 else self.thread
        self.rank = b.and_(place, i32(self.lanes - 1))  # among the lanes of the group, in scan order
        if reverse:
            self.rank = b.sub(i32(self.lanes - 1), self.rank)

    def merge(self, left: Value, right: Value) -> Value:
        """The earlier value with the later one."""
        return self.monoid.merge(self.b, (self.dtype,), (left,), (right,))[0]

    def previous(self, value: Value, distance: int) -> Value:
        """The value of the lane `distance` earlier in scan order; meaningless where there is none."""
        mode, clamp = (2, self.segment | 31) if self.reverse else (1, self.segment)
        return shuffle(self.b, self.dtype, value, mode, i32(distance * self.between), clamp, self.threads)

    def last(self, value: Value) -> Value:
        """The value of the last lane in scan order."""
        lane = i32(0) if self.reverse else i32((self.lanes - 1) * self.between)
        if self.between > 1:
            lane = self.b.or_(lane, self.b.and_(self.thread, i32(self.between - 1)))
        return shuffle(self.b, self.dtype, value, 0, lane, self.segment | 31, self.threads)

    def over_lanes(self, value: Value, start: Value) -> tuple[Value, Value]:
        """The exclusive prefix over the lanes, from `start`, and the total (Hillis and Steele)."""
        b, distance = self.b, 1
        while distance < self.lanes:
            earlier = self.previous(value, distance)
            value = b.select(b.icmp_signed(">=", self.rank, i32(distance)), self.merge(earlier, value), value)
            distance *= 2
        if self.lanes == 1:
            return start, value
        first = b.icmp_unsigned("==", self.rank, i32(0))
        return b.select(first, start, self.previous(value, 1)), self.last(value)

    @property
    def kept(self) -> int:
        """Totals of one line of slots that warps exchange: one of a warp, or one of each of its lines."""
        return self.threads // 32 * self.between

    def over_warps(self, exchange: Exchange, totals: list[Value], start: Value) -> list[tuple[Value, Value]]:
        """Per value: the exclusive prefix over the warps of the group, and the total of the group."""
        b, warps_of_block, apart = self.b, self.threads // 32, self.kept
        warp = b.lshr(self.thread, i32(5))
        local = b.and_(b.udiv(warp, i32(self.step)), i32(self.warps - 1))
        others = i32(~((self.warps - 1) * self.step) & (warps_of_block - 1))  # constant 0 where the group is the block
        own, first, lane = warp, b.and_(warp, others), b.and_(self.thread, i32(31))
        if self.between > 1:
            line, shift = b.and_(lane, i32(self.between - 1)), i32(self.between.bit_length() - 1)
            own, first = (b.or_(b.shl(place, shift), line) for place in (own, first))
        exchange.open(b)
        with b.if_then(b.icmp_unsigned("==", b.and_(lane, i32(32 - self.between)), i32(0))):
            for k, total in enumerate(totals):
                exchange.write(b, b.add(own, i32(k * apart)), (total,))
        emit_barrier(b)
        results = []
        for k in range(len(totals)):
            base = b.add(first, i32(k * apart))
            if self.between == 1 and self.step == 1:
                found = [state[0] for state in exchange.read(b, base, self.warps)]
            else:
                places = [b.add(base, i32(self.between * self.step * m)) for m in range(self.warps)]
                found = [exchange.read(b, place, 1)[0][0] for place in places]
            order = range(self.warps - 1, -1, -1) if self.reverse else range(self.warps)
            carry, running = start, found[order[0]]
            for m in order[1:]:
                carry = b.select(b.icmp_unsigned("==", local, i32(m)), running, carry)
                running = self.merge(running, found[m])
            results.append((carry, running))
        return results


def _lines(shape: tuple[int, ...], axis: int | None, reverse: bool) -> list[list[int]]:
    """The slots of each line along `axis`, in scan order; one slot a line where there is no axis."""
    positions = np.arange(int(np.prod(shape))).reshape(shape)
    lines = positions.reshape(-1, 1) if axis is None else np.moveaxis(positions, axis, -1).reshape(-1, shape[axis])
    return [list(line[::-1] if reverse else line) for line in lines.tolist()]


def _emit_scan(
    b: Builder, scan: _Scan, slots: list[Value], lines: list[list[int]], exclusive: bool
) -> tuple[list[Value], list[Value]]:
    """The prefix of every slot and the total of every line."""
    prefixes: list[list[Value]] = []
    for line in lines:
        running = [slots[line[0]]]
        for k in line[1:]:
            running.append(scan.merge(running[-1], slots[k]))
        prefixes.append(running)
    start = neutral(scan.monoid, scan.dtype, exact=not exclusive)
    carries, totals = [], []
    for running in prefixes:
        carry, total = scan.over_lanes(running[-1], start)
        carries.append(carry)
        totals.append(total)
    if scan.warps > 1:
        exchange = Exchange(b, (scan.dtype,), len(lines) * scan.kept)
        between = scan.over_warps(exchange, totals, start)
        carries = [scan.merge(before, carry) for (before, _), carry in zip(between, carries, strict=True)]
        totals = [total for _, total in between]
    result = list(slots)
    for line, running, carry in zip(lines, prefixes, carries, strict=True):
        for k, slot in enumerate(line):
            if exclusive:
                result[slot] = carry if k == 0 else scan.merge(carry, running[k - 1])
            else:
                result[slot] = scan.merge(carry, running[k])
    return result, totals


def _scan(monoid: FragmentMonoid) -> Rule:
    def rule(
        x: Any, axis: Any, bits: Any, threads: Any, exclusive: Any = False, reverse: Any = False
    ) -> tuple[Any, Emit] | None:
        if not isinstance(x, Fragment):
            return None
        accepts(monoid, x.dtype)
        along, mask, count = literal(axis, "the axis"), literal(bits, "the bits"), literal(threads, "the threads")
        low = mask & -mask or 1
        if mask // low & (mask // low + 1) or mask >= count:
            raise TypingError(f"the bits of a scan are contiguous and inside the block, not {mask:#x}")
        before, backwards = literal(exclusive, "exclusive"), literal(reverse, "reverse")
        lines = _lines(x.shape, along, backwards)
        kept = tuple(1 if along is not None and k == along % len(x.shape) else n for k, n in enumerate(x.shape))
        prefix, total = Fragment(x.dtype, x.shape), Fragment(x.dtype, kept)
        result = types.Tuple((prefix, total))

        def emit(b: Builder, value: Value, *_: Value) -> Value:
            scan = _Scan(b, monoid, x.dtype, mask // low + 1, low, count, backwards)
            slots, totals = _emit_scan(b, scan, unpack(b, x, value), lines, before)
            return cgutils.pack_struct(b, [pack(b, prefix, slots), pack(b, total, totals)])

        return result, emit

    return named(rule, f"scan_{monoid.name}")


SCANS: dict[str, Callable[..., Any]] = {
    f"scan_{name}": operation(_scan(monoid)) for name, monoid in MONOIDS.items() if monoid.states == 1
}
