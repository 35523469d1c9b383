"""Combining values across the blocks of a cluster, which run together and reach each other's shared memory (sm_90).

Every block pushes its partial result into the shared memory of those that need it, all meet, and each reads its own
copy.  The barrier of a cluster is split: arriving after the last read of a visit lets the next visit write
(PTX ISA, barrier.cluster, mapa, st.shared::cluster).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import gcd
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


def _push(b: Builder, local: Value, rank: Value, values: Sequence[Value]) -> None:
    """Store `values`, one behind the other, where block `rank` of the cluster has what `local` addresses here: a power
    of two of them, and several of words alone, aligned to all of them."""
    address = b.trunc(b.ptrtoint(local, I64), I32)
    if values[0].type in (I8, I16):
        width, operands = values[0].type.width, [b.zext(value, I32) for value in values]
    else:
        width = 64 if values[0].type in (I64, ir.DoubleType()) else 32
        operands = [b.bitcast(value, ir.IntType(width)) for value in values]
    names = ", ".join(f"${k + 2}" for k in range(len(values)))
    vector, what = (f".v{len(values)}", f"{{{names}}}") if len(values) > 1 else ("", names)
    there = ".reg .b32 there;\nmapa.shared::cluster.u32 there, $0, $1;"
    code = f"{{\n{there}\nst.shared::cluster{vector}.b{width} [there], {what};\n}}"
    constraints = ["l" if operand.type == I64 else "r" for operand in operands]
    function = ir.FunctionType(ir.VoidType(), [I32, I32, *[operand.type for operand in operands]])
    assembly = ir.InlineAsm(function, code, ",".join(["r", "r", *constraints, "~{memory}"]), side_effect=True)
    b.call(assembly, [address, rank, *operands])


class _Mailbox:
    """Shared memory for the partial results of `peers` blocks, `each` of every class of threads:

        [peer][class][number]    so that a warp pushes its words side by side, 16 bytes of a thread at once

    In 32-byte places of 8 peers, word by word, sums of 1,024 columns took an H200 17 us for every wave of clusters.
    """

    def __init__(self, b: Builder, dtypes: tuple[DType, ...], peers: int, classes: int, each: int) -> None:
        self.dtypes, self.peers, self.classes, self.each = dtypes, peers, classes, each
        self.buffers = [shared_buffer(b, t, peers * classes * each) for t in dtypes]

    def push(self, b: Builder, lane_class: Value, mine: Value, rank: Value, states: Sequence[State]) -> None:
        """`states` of a class of threads to block `rank`, in the place that is `mine`."""
        start = self._start(b, lane_class, mine)
        for k, (dtype, buffer) in enumerate(zip(self.dtypes, self.buffers, strict=True)):
            size = itemsize(dtype)
            width = gcd(self.each, len(states), max(1, 16 // size)) if size >= 4 else 1
            for first in range(0, len(states), width):
                values = [to_memory(b, state[k]) for state in states[first : first + width]]
                _push(b, b.gep(buffer, [b.add(start, i32(first))]), rank, values)

    def read(self, b: Builder, lane_class: Value, count: int, peer: Value | None = None) -> list[list[State]]:
        """Per state, of `count`, those of all peers in their order, or of one."""
        if self.classes == 1 and peer is None:
            found = self._read(b, i32(0), self.peers * self.each)
            return [found[k :: self.each] for k in range(count)]
        peers = [peer] if peer is not None else [i32(k) for k in range(self.peers)]
        told = [self._read(b, self._start(b, lane_class, p), count) for p in peers]
        return [list(states) for states in zip(*told, strict=True)]

    def _start(self, b: Builder, lane_class: Value, peer: Value) -> Value:
        return b.mul(b.add(b.mul(peer, i32(self.classes)), lane_class), i32(self.each))

    def _read(self, b: Builder, start: Value, count: int) -> list[State]:
        pairs = zip(self.dtypes, self.buffers, strict=True)
        run = gcd(count, self.each)  # what is aligned: `read_shared` takes vectors of as many as divide its number
        parts = [[read_shared(b, t, buffer, b.add(start, i32(k)), run) for k in range(0, count, run)]
                 for t, buffer in pairs]  # fmt: skip
        return list(zip(*[chain.from_iterable(part) for part in parts], strict=True))


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
    fitting = max(1, ROUND_BYTES // (classes * peers * sum(map(itemsize, dtypes))))
    batch = len(states) if len(states) <= fitting else 1 << fitting.bit_length() - 1
    mailbox = _Mailbox(b, dtypes, peers, classes, batch)
    thread, rank = special_register(b, "tid.x"), _rank(b)
    lane_class = compact(b, thread, ~low & (threads - 1))
    number, mine = compact(b, thread, low), compact(b, rank, high)
    told: list[list[State]] = []
    for start in range(0, len(states), batch):
        part = states[start : start + batch]
        _synchronise(b, "wait")
        for first in range(0, peers, members):
            peer = b.add(number, i32(first))
            there = b.or_(b.and_(rank, i32(~high)), spread_bits(b, peer, high))
            with b.if_then(b.icmp_unsigned("<", peer, i32(peers))):
                mailbox.push(b, lane_class, mine, there, part)
        _synchronise(b, "arrive")
        _synchronise(b, "wait")
        told += mailbox.read(b, lane_class, len(part), b.and_(thread, i32(peers - 1)) if dealt else None)
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
            _push(b, told, i32(block), [answer])
    _synchronise(b, "arrive")
    _synchronise(b, "wait")
    (found,) = read_shared(b, int32, told, i32(0), 1)
    _synchronise(b, "arrive")
    return found


def _rank(b: Builder) -> Value:
    """The number of this block in its cluster, whose blocks are neighbours along the only axis of the grid."""
    function = ir.FunctionType(I32, [])
    return b.call(ir.InlineAsm(function, "mov.u32 $0, %cluster_ctarank;", "=r", side_effect=False), [])
