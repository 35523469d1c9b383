"""Intermediates share bytes only where their lifetimes are disjoint; counters belong to one stream or thread."""

from __future__ import annotations

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyfuse.affine import Affine
from polyfuse.bindings import Buffer
from polyfuse.dtypes import f32, u8
from polyfuse.run.arrays import HOST
from polyfuse.run.libraries.numpy_arrays import NUMPY
from polyfuse.run.workspace import ALIGNMENT, Counters, buffer_bytes, pack

N = Affine.symbol("N")


def buffer(name: str, elements: int, first: int, last: int) -> Buffer:
    return Buffer(name, u8, (Affine((), elements),), first, last)


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Buffer]:
    count = draw(st.integers(1, 12))
    starts = [draw(st.integers(0, 9)) for _ in range(count)]
    return [
        buffer(f"b{k}", draw(st.integers(0, 2000)), first, first + draw(st.integers(0, 5)))
        for k, first in enumerate(starts)
    ]


@given(lifetimes())
def test_buffers_alive_together_are_disjoint_and_aligned(buffers: list[Buffer]) -> None:
    placed = pack(buffers, {})
    for k, a in enumerate(buffers):
        low = placed.offsets[a.name]
        assert low % ALIGNMENT == 0
        assert low + buffer_bytes(a, {}) <= placed.total
        for b in buffers[:k]:
            if a.first <= b.last and b.first <= a.last:
                other = placed.offsets[b.name]
                assert low + buffer_bytes(a, {}) <= other or other + buffer_bytes(b, {}) <= low


@given(lifetimes())
def test_the_workspace_is_at_most_the_sum_and_at_least_the_peak(buffers: list[Buffer]) -> None:
    rounded = {b.name: -(-buffer_bytes(b, {}) // ALIGNMENT) * ALIGNMENT for b in buffers}
    peak = max(sum(rounded[b.name] for b in buffers if b.first <= step <= b.last) for step in range(16))
    assert peak <= pack(buffers, {}).total <= sum(rounded.values())


def test_a_chain_needs_two_buffers() -> None:
    chain = [Buffer(f"t{k}", f32, (N,), k, k + 1) for k in range(10)]
    assert pack(chain, {"N": 1024}).total == 2 * 4096


def test_counters_are_zero_shared_by_calls_and_owned_by_a_thread() -> None:
    counters, found = Counters(), {}

    def take(name: str) -> None:
        found[name] = counters.take(NUMPY, HOST, 0, 512)

    take("here")
    take("again")
    other = threading.Thread(target=take, args=("there",))
    other.start()
    other.join()
    assert found["here"] is found["again"]
    assert not np.shares_memory(found["here"], found["there"])
    assert not found["here"].any()
    assert counters.take(NUMPY, HOST, 0, 4096).nbytes >= 4096
