"""Reductions, contractions and scans in the association order of docs/fragments.md.

A value is an array ``(blocks, threads, *slots)``; a monoid's state is a tuple of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyfuse.backends.interpreter.functions import IMPLEMENTATIONS
from polyfuse.backends.interpreter.special import Array
from polyfuse.kernel import nests
from polyfuse.scalars import MONOIDS

State = tuple[Array, ...]
THREADS = 1
"""The axis of threads."""


def operation(monoid: str) -> Callable[[State, State], State]:
    """The monoid's associative operation on states."""
    if monoid in ("argmax", "argmin"):
        return lambda a, b: _arg_extreme(a, b, largest=monoid == "argmax")
    function = IMPLEMENTATIONS[MONOIDS[monoid].function]

    def combine(a: State, b: State) -> State:
        with np.errstate(all="ignore"):
            return (np.asarray(function(a[0], b[0])).astype(a[0].dtype, copy=False),)

    return combine


def _arg_extreme(a: State, b: State, largest: bool) -> State:
    """The first NaN, else the extreme value, else the lower index."""
    nan_a, nan_b = a[0] != a[0], b[0] != b[0]
    better = a[0] > b[0] if largest else a[0] < b[0]
    tie = (a[0] == b[0]) | (nan_a & nan_b)
    first = (nan_a & ~nan_b) | ((nan_a == nan_b) & ~nan_a & better) | (tie & (a[1] <= b[1]))
    return np.where(first, a[0], b[0]), np.where(first, a[1], b[1])


def neutral(monoid: str, dtype: np.dtype[np.generic]) -> Array:
    """The neutral element of a monoid with one component."""
    word = MONOIDS[monoid].neutral[0]
    if word not in ("lowest", "highest"):
        return np.asarray(float(word) if dtype.kind == "f" else int(word)).astype(dtype)
    if dtype.kind == "f":
        return np.asarray(-np.inf if word == "lowest" else np.inf, dtype)
    if dtype.kind == "b":
        return np.asarray(word == "highest")
    limits: np.iinfo[Any] = np.iinfo(dtype)
    return np.asarray(limits.min if word == "lowest" else limits.max, dtype)


def tree(monoid: str, state: State) -> State:
    """A balanced tree over the last axis: neighbours first, an odd one out is carried along."""
    combine = operation(monoid)
    while (extent := state[0].shape[-1]) > 1:
        even = tuple(s[..., 0 : extent - 1 : 2] for s in state)
        odd = tuple(s[..., 1::2] for s in state)
        merged = combine(even, odd)
        if extent % 2:
            merged = tuple(np.concatenate([m, s[..., -1:]], axis=-1) for m, s in zip(merged, state, strict=True))
        state = merged
    return tuple(s[..., 0] for s in state)


def reduce(monoid: str, values: Sequence[Array], axes: Sequence[int]) -> State:
    """Thread-local reduction over array axes `axes` in C order, kept with extent 1."""
    state = tuple(np.broadcast_arrays(*values))
    kept = [n for n in range(state[0].ndim) if n not in axes]
    shape = tuple(1 if n in axes else extent for n, extent in enumerate(state[0].shape))
    moved = tuple(s.transpose(kept + sorted(axes)).reshape(*(s.shape[n] for n in kept), -1) for s in state)
    return tuple(s.reshape(shape) for s in tree(monoid, moved))


def contract(accumulator: Array, left: Array, right: Array, axes: Sequence[int]) -> Array:
    """`accumulator` plus the sum over `axes` of left * right: a chain of fused multiply-adds in C order."""
    left, right = np.broadcast_arrays(left, right)
    fma = IMPLEMENTATIONS["fma"]
    with np.errstate(all="ignore"):
        for position in itertools.product(*(range(left.shape[n]) for n in axes)):
            cut = [slice(None)] * left.ndim
            for axis, k in zip(axes, position, strict=True):
                cut[axis] = slice(k, k + 1)
            x, y = left[tuple(cut)], right[tuple(cut)]
            accumulator = fma(x, y, accumulator) if x.dtype.kind == "f" else x * y + accumulator
    return accumulator


def over_threads(value: Array, threads: int) -> Array:
    """`value` with a full thread axis."""
    if value.shape[THREADS] == threads:
        return value
    return np.broadcast_to(value, (value.shape[0], threads, *value.shape[2:]))


def combine_threads(monoid: str, values: Sequence[Array], bits: int, threads: int) -> State:
    """Butterflies over the lane bits from the highest, then a balanced tree over warps in their order."""
    combine = operation(monoid)
    state: State = tuple(over_threads(v, threads) for v in np.broadcast_arrays(*values))
    thread = np.arange(threads)
    for bit in (16, 8, 4, 2, 1):
        if bits & bit:
            state = combine(state, tuple(s[:, thread ^ bit] for s in state))
    high = bits & ~31
    if high:
        members = [m for m in range(0, threads, 32) if m & ~high == 0]
        firsts, place = np.unique(thread & ~high, return_inverse=True)  # one thread for all that meet in one result
        gathered = tuple(np.stack([s[:, firsts | m] for m in members], axis=-1) for s in state)
        state = tuple(s[:, place] for s in tree(monoid, gathered))
    return state


def carried(monoid: str, totals: Sequence[Array], like: Array, bits: int, threads: int, group: int) -> Array:
    """The `totals` of the blocks in front, of a value like `like`: those of whole groups as one, but for the last group
    that is whole, and, where they nest, of groups of groups in the same way; threads that differ in `bits` take every
    n-th of these, then combine."""
    totals = [over_threads(total, threads) for total in totals]
    like = over_threads(like, threads)
    whole = max(0, len(totals) // group - 1)
    groups = [_dealt(monoid, totals[k * group : (k + 1) * group], like, bits, threads) for k in range(whole)]
    wider = max(0, whole // group - 1) if nests(group, math.prod(like.shape[2:])) else 0
    above = [_dealt(monoid, groups[k * group : (k + 1) * group], like, bits, threads) for k in range(wider)]
    return _dealt(monoid, [*above, *groups[wider * group :], *totals[whole * group :]], like, bits, threads)


def _dealt(monoid: str, values: Sequence[Array], like: Array, bits: int, threads: int) -> Array:
    combine, readers = operation(monoid), 1 << bits.bit_count()
    start = neutral(monoid, like.dtype)
    start = -start if monoid == "sum" and like.dtype.kind == "f" else start  # 0.0 + -0.0 is 0.0
    shares = []
    for reader in range(readers):
        share = np.broadcast_to(start, like.shape)
        for value in values[reader::readers]:
            share = combine((share,), (value,))[0]
        shares.append(share)
    rank = np.zeros(threads, np.int64)
    for k, bit in enumerate(b for b in range(threads.bit_length()) if bits >> b & 1):
        rank |= (np.arange(threads) >> bit & 1) << k
    mine = np.stack(shares)[rank, :, np.arange(threads)].swapaxes(0, 1)
    return combine_threads(monoid, [mine], bits, threads)[0]


def exchanged(values: Sequence[Array], axis: int | None, bits: int, block_threads: int, threads: int) -> State:
    """Side by side along array axis `axis`: the values of all blocks of a cluster that differ in the bits of `bits`
    that number blocks; without it those of one block after the other in as many threads.  Raises ValueError where
    threads that differ in the other ones hold different values."""
    thread = np.arange(threads)
    low, high = bits & (block_threads - 1), bits & ~(block_threads - 1)
    peers = [m for m in range(0, threads, block_threads) if m & ~high == 0]
    found = []
    for value in values:
        whole = over_threads(value, threads)
        first = whole[:, thread & ~low]
        if not np.array_equal(first, whole, equal_nan=whole.dtype.kind == "f"):
            raise ValueError("threads of a block that hold different values exchange them as one")
        if axis is None:
            found.append(whole[:, thread & ~high | np.array(peers)[thread % len(peers)]])
        else:
            found.append(np.concatenate([whole[:, thread & ~high | m] for m in peers], axis=axis))
    return tuple(found)


def scan(
    monoid: str, value: Array, axis: int | None, bits: int, threads: int, exclusive: bool, reverse: bool
) -> tuple[Array, Array]:
    """(prefix, total) over array axis `axis` (innermost), then over the thread-id bits `bits`.

    Slots fold from the left; thread totals combine by Hillis and Steele's doubling (1986), then meet the slots.
    """
    value = over_threads(value, threads)
    if reverse and axis is not None:
        value = np.flip(value, axis)
    local = value if axis is None else _fold(monoid, value, axis)
    last = local if axis is None else np.take(local, [-1], axis)
    before, total = _thread_prefix(monoid, last, bits, threads, reverse)
    prefix = local if before is None else _after(monoid, before, local)
    if exclusive:
        start = np.broadcast_to(neutral(monoid, value.dtype), last.shape) if before is None else before[0]
        if axis is None:
            prefix = start
        else:
            kept = np.take(prefix, range(prefix.shape[axis] - 1), axis)
            prefix = np.concatenate([np.broadcast_to(start, last.shape), kept], axis)
    if reverse and axis is not None:
        prefix = np.flip(prefix, axis)
    return np.ascontiguousarray(prefix), total


def _fold(monoid: str, value: Array, axis: int) -> Array:
    combine = operation(monoid)
    parts = [np.take(value, [0], axis)]
    for k in range(1, value.shape[axis]):
        parts.append(combine((parts[-1],), (np.take(value, [k], axis),))[0])
    return np.concatenate(parts, axis)


Prefix = tuple[Array, Array]
"""The exclusive prefix of each thread, and whether there is anything before it."""


def _thread_prefix(
    monoid: str, last: Array, bits: int, threads: int, reverse: bool
) -> tuple[Prefix | None, Array]:
    """What comes before each thread within its group, and the group's total."""
    if not bits:
        return None, last
    combine = operation(monoid)
    low = bits & -bits
    thread = np.arange(threads)
    rank = (thread & bits) // low
    step = -low if reverse else low
    if reverse:
        rank = bits // low - rank
    lead = (1, threads, *([1] * (last.ndim - 2)))
    inclusive, distance = last, 1
    while distance <= bits // low:
        source = np.where(rank >= distance, thread - distance * step, thread)
        merged = combine((inclusive[:, source],), (inclusive,))[0]
        inclusive = np.where((rank >= distance).reshape(lead), merged, inclusive)
        distance *= 2
    source = np.where(rank >= 1, thread - step, thread)
    some = (rank >= 1).reshape(lead)
    before = np.where(some, inclusive[:, source], neutral(monoid, last.dtype))
    final = (thread & ~bits) if reverse else (thread | bits)
    return (before, some), inclusive[:, final]


def _after(monoid: str, prefix: Prefix, local: Array) -> Array:
    before, some = prefix
    return np.where(some, operation(monoid)((before,), (local,))[0], local)
