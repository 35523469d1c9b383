"""Combining values across the threads of a block or of a cluster of blocks, as an operation per monoid.

The order of association is fixed: lane bits from the highest to bit 0, then the warps as a balanced tree in warp order,
then the blocks of the cluster likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from polyfuse.backends.numba_cuda.fragments.clusters import all_told, between_blocks
from polyfuse.backends.numba_cuda.fragments.dealing import dealt_between_warps, pays
from polyfuse.backends.numba_cuda.fragments.declare import Emit, Rule, literal, named, operation
from polyfuse.backends.numba_cuda.fragments.monoids import MONOIDS, FragmentMonoid
from polyfuse.backends.numba_cuda.fragments.reductions import pack_states, result_type, state_fragments, states_of
from polyfuse.backends.numba_cuda.fragments.slots import pack, spread
from polyfuse.backends.numba_cuda.fragments.threads import between_warps, butterfly
from polyfuse.backends.numba_cuda.fragments.values import Builder, Fragment, Value
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, types


def _meeting(bits: Any, threads: Any, blocks: Any) -> tuple[int, int, int]:
    """(bits of the index in a block, bits of the rank in the cluster, threads of a block).  Raises TypingError."""
    mask, count = literal(bits, "the bits of a combination"), literal(threads, "the threads of a block")
    cluster = literal(blocks, "the blocks of a cluster")
    if count & (count - 1) or cluster & (cluster - 1) or not 0 <= mask < count * cluster:
        where = f"{cluster} blocks of {count} threads" if cluster > 1 else f"a block of {count} threads"
        raise TypingError(f"thread bits {mask:#x} do not fit {where}, a power of two")
    return mask & (count - 1), mask // count, count


def _threads(monoid: FragmentMonoid) -> Rule:
    def typed(components: tuple[Any, ...], bits: Any, threads: Any, blocks: Any) -> tuple[Any, Emit] | None:
        low, high, count = _meeting(bits, threads, blocks)
        fragments = state_fragments(monoid, components)
        dtypes = tuple(f.dtype for f in fragments)

        def emit(b: Builder, *values: Value) -> Value:
            states = states_of(b, components, fragments, values[: monoid.states])
            combine = butterfly
            if low >= 32:
                combine = dealt_between_warps if pays(dtypes, len(states), low, count) else between_warps
            states = combine(b, monoid, dtypes, states, low, count)
            if high:
                states = between_blocks(b, monoid, dtypes, states, low, high, count)
            return pack_states(b, fragments, states)

        return result_type(fragments), emit

    def together(values: Any, bits: Any, threads: Any, blocks: Any) -> tuple[Any, Emit] | None:
        """Several values of one element type, each by itself: threads wait for each other once."""
        low, high, count = _meeting(bits, threads, blocks)
        if not all(isinstance(f, Fragment) for f in values.types):
            return None
        parts = [state_fragments(monoid, (f,)) for f in values.types]
        fragments = [part[0] for part in parts]
        if len({f.dtype for f in fragments}) > 1 or low < 32:
            raise TypingError(f"{values} do not meet at once")
        dtypes = (fragments[0].dtype,)

        def emit(b: Builder, held: Value, *_: Value) -> Value:
            given = cgutils.unpack_tuple(b, held, len(fragments))
            states = [states_of(b, (f,), (f,), [v]) for f, v in zip(fragments, given, strict=True)]
            all_states = [state for part in states for state in part]
            combine = dealt_between_warps if pays(dtypes, len(all_states), low, count) else between_warps
            told = combine(b, monoid, dtypes, all_states, low, count)
            if high:
                told = between_blocks(b, monoid, dtypes, told, low, high, count)
            ends = list(accumulate(len(part) for part in states))
            packed = [
                pack_states(b, (f,), told[end - len(part) : end])
                for f, part, end in zip(fragments, states, ends, strict=True)
            ]
            return cgutils.pack_struct(b, packed)

        return types.Tuple(fragments), emit

    def single(x: Any, bits: Any, threads: Any, blocks: Any = 1) -> tuple[Any, Emit] | None:
        if isinstance(x, types.BaseTuple):
            return together(x, bits, threads, blocks)
        return typed((x,), bits, threads, blocks)

    rules: dict[int, Rule] = {
        1: single,
        2: lambda value, index, bits, threads, blocks=1: typed((value, index), bits, threads, blocks),
    }
    return named(rules[monoid.states], f"threads_{monoid.name}")


THREADS: dict[str, Callable[..., Any]] = {
    f"threads_{name}": operation(_threads(monoid)) for name, monoid in MONOIDS.items()
}


@operation
def exchange(values: Any, axis: Any, bits: Any, threads: Any, blocks: Any) -> tuple[Any, Emit] | None:
    """What all blocks of a cluster hold of `values`, fragments of one shape, side by side along the slot axis `axis`,
    in which they have extent 1.  Threads that differ in those of `bits` that lie in a block hold the same values.
    Where `axis` is None these are all of a block, and the k-th of as many threads as there are blocks has the values
    of the k-th."""
    if not isinstance(values, types.BaseTuple) or not all(isinstance(f, Fragment) for f in values.types):
        return None
    low, high, count = _meeting(bits, threads, blocks)
    fragments, peers = tuple(values.types), 1 << high.bit_count()
    shape, dealt = fragments[0].shape, isinstance(axis, types.NoneType)
    along = 0 if dealt else literal(axis, "an axis of slots")
    if any(f.shape != shape for f in fragments) or not high or not (dealt or shape[along] == 1):
        raise TypingError(f"{values} cannot lie side by side along axis {along}")
    if dealt and (low != count - 1 or peers > count):
        raise TypingError(f"{count} threads of one value each are dealt those of {peers} blocks")
    extents = shape if dealt else (*shape[:along], peers, *shape[along + 1 :])
    results = tuple(Fragment(f.dtype, extents) for f in fragments)
    order = np.arange(fragments[0].size).reshape(shape)  # per slot of a result, that of the values
    places = [(slot, 0) for slot in order.ravel()]
    if not dealt:
        order = order.repeat(peers, along)
        block = np.arange(peers).reshape([-1 if k == along else 1 for k in range(len(shape))])
        places = list(zip(order.ravel(), np.broadcast_to(block, order.shape).ravel(), strict=True))

    def emit(b: Builder, held: Value, *_: Value) -> Value:
        given = cgutils.unpack_tuple(b, held, len(fragments))
        columns = [spread(b, f, v, f.dtype, shape) for f, v in zip(fragments, given, strict=True)]
        dtypes = tuple(f.dtype for f in fragments)
        told = all_told(b, dtypes, list(zip(*columns, strict=True)), low, high, count, dealt=dealt)
        parts = [
            pack(b, result, [told[slot][peer][k] for slot, peer in places]) for k, result in enumerate(results)
        ]
        return cgutils.pack_struct(b, parts)

    return types.Tuple(results), emit
