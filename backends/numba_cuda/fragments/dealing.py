"""Combining many values between the warps of a block: the partial results are dealt to threads, which shuffle.

    [group][class][slot][warp]   each warp writes its partials, one per slot and class of lanes that hold other values;
                                 which lane has which slot: `dealt_to_lanes`
    thread q                     reads partial q; butterflies over the warps of one result, from the lowest bit
    [group][class][slot]         the first of them writes the result, every thread reads its own slots

Where a thread has several slots, as in a sum of columns, reading every warp's partial of each would cost it dozens of
loads from shared memory; here it is one, for one barrier more.  The order of association is that of a balanced tree.
"""

from __future__ import annotations

from polyfuse.backends.numba_cuda.fragments.monoids import FragmentMonoid, State
from polyfuse.backends.numba_cuda.fragments.slots import special_register
from polyfuse.backends.numba_cuda.fragments.threads import (
    ROUND_BYTES,
    compact,
    dealt_to_lanes,
    emit_barrier,
    i32,
    read_shared,
    shared_buffer,
    shuffle,
    to_memory,
)
from polyfuse.backends.numba_cuda.fragments.values import Builder, DType, Value, itemsize


def pays(dtypes: tuple[DType, ...], slots: int, bits: int, threads: int) -> bool:
    """Whether dealing takes fewer instructions than reading every partial result, and the results fit."""
    members, classes = 1 << (bits >> 5).bit_count(), 32 >> (bits & 31).bit_count()
    partials = slots * classes * (threads // 32)
    rounds = -(-partials // threads)
    fits = partials * sum(map(itemsize, dtypes)) <= ROUND_BYTES
    return fits and 1 < members <= 32 and rounds * (3 + 2 * members.bit_length()) + slots < slots * members // 2


def dealt_between_warps(
    b: Builder, monoid: FragmentMonoid, dtypes: tuple[DType, ...], states: list[State], bits: int, threads: int
) -> list[State]:
    """Combine over the lane and warp bits in `bits`; `pays` holds."""
    lanes, warp_bits, warps, slots = bits & 31, bits >> 5, threads // 32, len(states)
    classes, members = 32 >> lanes.bit_count(), 1 << warp_bits.bit_count()
    results = slots * classes * (warps // members)
    partials = [shared_buffer(b, t, results * members) for t in dtypes]
    totals = [shared_buffer(b, t, results) for t in dtypes]
    thread = special_register(b, "tid.x")
    lane, warp = b.and_(thread, i32(31)), b.lshr(thread, i32(5))
    group = compact(b, warp, ~warp_bits & (warps - 1))
    first = b.mul(b.add(b.mul(group, i32(classes)), compact(b, lane, ~lanes & 31)), i32(slots))
    dealt = dealt_to_lanes(b, monoid, dtypes, states, bits, threads)
    with b.if_then(b.icmp_unsigned("==", b.and_(lane, i32(dealt.alike)), i32(0))):
        member, place = compact(b, warp, warp_bits), b.add(first, dealt.first)
        for k, state in enumerate(dealt.states):
            _write(b, partials, b.add(b.mul(b.add(place, i32(k)), i32(members)), member), state)
    emit_barrier(b)
    for start in range(0, results * members, threads):
        position = b.add(thread, i32(start))
        if start + threads > results * members:  # the first result once more where none is left
            is_left = b.icmp_unsigned("<", position, i32(results * members))
            position = b.select(is_left, position, b.and_(position, i32(members - 1)))
        mine = tuple(read_shared(b, t, p, position, 1)[0] for t, p in zip(dtypes, partials, strict=True))
        total = _over_neighbours(b, monoid, dtypes, mine, members, threads)
        with b.if_then(b.icmp_unsigned("==", b.and_(position, i32(members - 1)), i32(0))):
            _write(b, totals, b.lshr(position, i32(members.bit_length() - 1)), total)
    emit_barrier(b)
    columns = [read_shared(b, t, buffer, first, slots) for t, buffer in zip(dtypes, totals, strict=True)]
    return list(zip(*columns, strict=True))


def _over_neighbours(
    b: Builder, monoid: FragmentMonoid, dtypes: tuple[DType, ...], state: State, members: int, threads: int
) -> State:
    """The combination of `members` neighbouring lanes, neighbours first."""
    bit = 1
    while bit < members:
        other = tuple(shuffle(b, t, s, 3, i32(bit), 31, threads) for t, s in zip(dtypes, state, strict=True))
        state, bit = monoid.merge(b, dtypes, state, other), 2 * bit
    return state


def _write(b: Builder, buffers: list[Value], position: Value, state: State) -> None:
    for buffer, value in zip(buffers, state, strict=True):
        b.store(to_memory(b, value), b.gep(buffer, [position]))
