"""Combining values across the blocks of a cluster, which run together and reach each other's shared memory (sm_90).

Every block pushes its partial result into the shared memory of those that need it, all meet, and each reads its own
copy.  The barrier of a cluster is split: arriving after the last read of a visit lets the next visit write
(PTX ISA, barrier.cluster, mapa, st.shared::cluster).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyfuse.backends.numba_cuda.fragments.declare import Emit, operation
from polyfuse.backends.numba_cuda.fragments.monoids import FragmentMonoid, State, tree
from polyfuse.backends.numba_cuda.fragments.slots import special_register
from polyfuse.backends.numba_cuda.fragments.threads import (
    ROUND_BYTES,
    compact,
    i32,
    read_shared,
    shared_buffer,
    spread_bits,
    to_memory,
)
from polyfuse.backends.numba_cuda.fragments.values import (
    I8,
    I16,
    I32,
    I64,
    Builder,
    DType,
    Value,
    int32,
    itemsize,
)
from polyfuse.backends.numba_cuda.numba_api import ir, types

# ------------------------------------------------------------------------------------------ the split barrier


def _synchronise(b: Builder, instruction: str) -> None:
    function = ir.FunctionType(ir.VoidType(), [])
    assembly = ir.InlineAsm(function, f"barrier.cluster.{instruction}.aligned;", "~{memory}", side_effect=True)
    b.call(assembly, [], attrs=("convergent",))


@operation
def cluster_arrive() -> tuple[Any, Emit]:
    """This thread has touched all that it will touch of its cluster's shared memory until the next `cluster_wait`."""
    return types.void, lambda b: _synchronise(b, "arrive")


@operation
def cluster_wait() -> tuple[Any, Emit]:
    """Wait until every thread of the cluster has arrived."""
    return types.void, lambda b: _synchronise(b, "wait")


# ------------------------------------------------------------------------------------------ the exchange


def _push(b: Builder, local: Value, rank: Value, value: Value) -> None:
    """Store `value` where block `rank` of the cluster has what `local` addresses here."""
    address = b.trunc(b.ptrtoint(local, I64), I32)
    if value.type in (I8, I16):
        text, operand = f".b{value.type.width}", b.zext(value, I32)
    else:
        width = 64 if value.type in (I64, ir.DoubleType()) else 32
        text, operand = f".b{width}", b.bitcast(value, ir.IntType(width))
    code = f"{{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, $0, $1;\nst.shared::cluster{text} [there], $2;\n}}"
    constraint = "l" if operand.type == I64 else "r"
    function = ir.FunctionType(ir.VoidType(), [I32, I32, operand.type])
    b.call(ir.InlineAsm(function, code, f"r,r,{constraint},~{{memory}}", side_effect=True), [address, rank, operand])


class _Mailbox:
    """Shared memory for the partial results of `peers` blocks: per slot and class of threads, one from each peer."""

    def __init__(self, b: Builder, dtypes: tuple[DType, ...], peers: int, per_peer: int) -> None:
        self.dtypes, self.peers = dtypes, peers
        self.buffers = [shared_buffer(b, t, peers * per_peer) for t in dtypes]

    def push(self, b: Builder, entry: Value, mine: Value, rank: Value, state: State) -> None:
        """`state` to entry `entry` of block `rank`, in the place that is `mine`."""
        position = b.add(b.mul(entry, i32(self.peers)), mine)
        for buffer, value in zip(self.buffers, state, strict=True):
            _push(b, b.gep(buffer, [position]), rank, to_memory(b, value))

    def read(self, b: Builder, entry: Value, peer: Value | None = None) -> list[State]:
        """The states of all peers in their order, or of one."""
        start, count = b.mul(entry, i32(self.peers)), self.peers
        if peer is not None:
            start, count = b.add(start, peer), 1
        pairs = zip(self.dtypes, self.buffers, strict=True)
        return list(zip(*(read_shared(b, t, buffer, start, count) for t, buffer in pairs), strict=True))


def between_blocks(
    b: Builder,
    monoid: FragmentMonoid,
    dtypes: tuple[DType, ...],
    states: list[State],
    low: int,
    high: int,
    threads: int,
) -> list[State]:
    """Combine over the bits `high` of the rank in the cluster, after the bits `low` of the thread index have been."""
    return [tree(b, monoid, dtypes, found) for found in all_told(b, dtypes, states, low, high, threads)]


def all_told(
    b: Builder,
    dtypes: tuple[DType, ...],
    states: list[State],
    low: int,
    high: int,
    threads: int,
    *,
    dealt: bool = False,
) -> list[list[State]]:
    """Per state those of all blocks that differ in the bits `high` of the rank in the cluster, in their order; threads
    that differ in the bits `low` of their index hold the same state.  `dealt`: of as many threads the k-th has that of
    the k-th block alone.

    Those deal the peers among them.  Safe to visit again in a loop: arrivals and waits alternate, and begin with the
    arrival that opens a kernel.
    """
    peers, members = 1 << high.bit_count(), 1 << low.bit_count()
    classes = threads // members
    batch = max(1, min(len(states), ROUND_BYTES // (classes * peers * sum(map(itemsize, dtypes)))))
    mailbox = _Mailbox(b, dtypes, peers, batch * classes)
    thread, rank = special_register(b, "tid.x"), _rank(b)
    lane_class = compact(b, thread, ~low & (threads - 1))
    number, mine = compact(b, thread, low), compact(b, rank, high)
    told: list[list[State]] = []
    for start in range(0, len(states), batch):
        part = states[start : start + batch]
        entries = [b.add(lane_class, i32(k * classes)) for k in range(len(part))]
        _synchronise(b, "wait")
        for first in range(0, peers, members):
            peer = b.add(number, i32(first))
            there = b.or_(b.and_(rank, i32(~high)), spread_bits(b, peer, high))
            with b.if_then(b.icmp_unsigned("<", peer, i32(peers))):
                for entry, state in zip(entries, part, strict=True):
                    mailbox.push(b, entry, mine, there, state)
        _synchronise(b, "arrive")
        _synchronise(b, "wait")
        told += [mailbox.read(b, entry, b.and_(thread, i32(peers - 1)) if dealt else None) for entry in entries]
        _synchronise(b, "arrive")
    return told


def told_by_first(b: Builder, blocks: int, ask: Callable[[], Value]) -> Value:
    """What `ask` gives in the first thread of the cluster, to all threads of its `blocks` blocks, as i32.  It is asked
    after all of them have come here, with their stores before visible to the device."""
    told = shared_buffer(b, int32, 1)
    thread, rank = special_register(b, "tid.x"), _rank(b)
    _synchronise(b, "wait")
    _synchronise(b, "arrive")
    _synchronise(b, "wait")
    with b.if_then(b.icmp_unsigned("==", b.or_(thread, rank), i32(0))):
        answer = ask()
        for block in range(blocks):
            _push(b, told, i32(block), answer)
    _synchronise(b, "arrive")
    _synchronise(b, "wait")
    (found,) = read_shared(b, int32, told, i32(0), 1)
    _synchronise(b, "arrive")
    return found


def _rank(b: Builder) -> Value:
    """The number of this block in its cluster, whose blocks are neighbours along the only axis of the grid."""
    function = ir.FunctionType(I32, [])
    return b.call(ir.InlineAsm(function, "mov.u32 $0, %cluster_ctarank;", "=r", side_effect=False), [])
