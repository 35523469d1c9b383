"""The names that a kernel may use."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from polyfuse.backends.numba_cuda.fragments.atomics import atomic
from polyfuse.backends.numba_cuda.fragments.blocks import block, block64, elect, thread, thread64
from polyfuse.backends.numba_cuda.fragments.carries import CARRIES, in_turn, in_turn64, leave
from polyfuse.backends.numba_cuda.fragments.cells import get_cells, own_cells, put_cells
from polyfuse.backends.numba_cuda.fragments.clusters import cluster_arrive, cluster_wait
from polyfuse.backends.numba_cuda.fragments.combinations import THREADS, exchange
from polyfuse.backends.numba_cuda.fragments.conversion import (
    at_least,
    at_most,
    bitcast,
    cast,
    constant,
    full,
    index64,
    inside,
    scalar,
    slots,
    slots64,
    take,
    where,
)
from polyfuse.backends.numba_cuda.fragments.copies import commit_copies, copy_async, copy_cut, wait_copies
from polyfuse.backends.numba_cuda.fragments.cut import store_cut, where_cut
from polyfuse.backends.numba_cuda.fragments.cut_loads import load_across, load_cut, load_neighbours
from polyfuse.backends.numba_cuda.fragments.elementwise import ELEMENTWISE
from polyfuse.backends.numba_cuda.fragments.loops import LOOPS
from polyfuse.backends.numba_cuda.fragments.memory import advance, evict_last, load, store
from polyfuse.backends.numba_cuda.fragments.reductions import REDUCTIONS, contract
from polyfuse.backends.numba_cuda.fragments.scans import SCANS
from polyfuse.backends.numba_cuda.fragments.threads import barrier, shared, warp_barrier
from polyfuse.backends.numba_cuda.fragments.values import DTYPES, Size, Tile

_NAMED = (
    *(advance, atomic, evict_last, load, load_across, load_cut, load_neighbours, shared, store, store_cut, where_cut),
    *(commit_copies, copy_async, copy_cut, wait_copies),
    *(get_cells, own_cells, put_cells),
    *(block, in_turn, leave, slots, thread),
    *(barrier, cluster_arrive, cluster_wait, elect, exchange, warp_barrier),
    *(at_least, at_most, bitcast, cast, constant, contract, full, index64, inside, scalar, take, where),
)


def namespace(index_bits: int = 32) -> dict[str, Any]:
    """Every operation and dtype by name; with `index_bits` = 64 thread, block and slots are int64."""
    names: dict[str, Any] = {"Tile": Tile, "Size": Size, "inf": inf, "nan": nan}
    names |= DTYPES | ELEMENTWISE | REDUCTIONS | THREADS | SCANS | CARRIES | LOOPS
    names |= {operation.__name__: operation for operation in _NAMED}
    if index_bits == 64:
        names |= {"thread": thread64, "block": block64, "in_turn": in_turn64, "slots": slots64}
    return names
