"""Combining values across the threads of a block or of a cluster of blocks, as an operation per monoid.

The order of association is fixed: lane bits from the highest to bit 0, then the warps as a balanced tree in warp order,
then the blocks of the cluster likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyfuse.backends.numba_cuda.fragments.clusters import between_blocks
from polyfuse.backends.numba_cuda.fragments.dealing import dealt_between_warps, pays
from polyfuse.backends.numba_cuda.fragments.declare import Emit, Rule, literal, named, operation
from polyfuse.backends.numba_cuda.fragments.monoids import MONOIDS, FragmentMonoid
from polyfuse.backends.numba_cuda.fragments.reductions import pack_states, result_type, state_fragments, states_of
from polyfuse.backends.numba_cuda.fragments.threads import between_warps, butterfly
from polyfuse.backends.numba_cuda.fragments.values import Builder, Value
from polyfuse.backends.numba_cuda.numba_api import TypingError


def _threads(monoid: FragmentMonoid) -> Rule:
    def typed(components: tuple[Any, ...], bits: Any, threads: Any, blocks: Any) -> tuple[Any, Emit] | None:
        mask, count = literal(bits, "the bits of a combination"), literal(threads, "the threads of a block")
        cluster = literal(blocks, "the blocks of a cluster")
        if count & (count - 1) or cluster & (cluster - 1) or not 0 <= mask < count * cluster:
            where = f"{cluster} blocks of {count} threads" if cluster > 1 else f"a block of {count} threads"
            raise TypingError(f"thread bits {mask:#x} do not fit {where}, a power of two")
        low, high = mask & (count - 1), mask // count
        fragments = state_fragments(monoid, components)
        dtypes = tuple(f.dtype for f in fragments)

        def emit(b: Builder, *values: Value) -> Value:
            states = states_of(b, components, fragments, values[: monoid.states])
            states = butterfly(b, monoid, dtypes, states, low, count)
            if low >= 32:
                deal = pays(dtypes, len(states), low, count)
                between = dealt_between_warps if deal else between_warps
                states = between(b, monoid, dtypes, states, low, count)
            if high:
                states = between_blocks(b, monoid, dtypes, states, low, high, count)
            return pack_states(b, fragments, states)

        return result_type(fragments), emit

    rules: dict[int, Rule] = {
        1: lambda x, bits, threads, blocks=1: typed((x,), bits, threads, blocks),
        2: lambda value, index, bits, threads, blocks=1: typed((value, index), bits, threads, blocks),
    }
    return named(rules[monoid.states], f"threads_{monoid.name}")


THREADS: dict[str, Callable[..., Any]] = {
    f"threads_{name}": operation(_threads(monoid)) for name, monoid in MONOIDS.items()
}
