"""Intermediates share bytes only where their lifetimes are disjoint; counters belong to one stream or thread."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyfuse.affine import Affine
from polyfuse.bindings import Buffer
from polyfuse.dtypes import DType, f32, u8
from polyfuse.run.arrays import HOST, Device
from polyfuse.run.libraries.numpy_arrays import NUMPY
from polyfuse.run.workspace import ALIGNMENT, RESERVED, Counters, buffer_bytes, pack, reserve

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


class _Fake:
    """NumPy's memory as that of a device, of which one may say that a capture is going on."""

    def __init__(self, name: str) -> None:
        self.name, self.captures, self.zeroed = name, False, 0

    def is_capturing(self, device: Device) -> bool:
        return self.captures

    def allocator(self, shape: tuple[int, ...], dtype: DType, device: Device) -> Callable[[], Any]:
        return lambda: np.full(shape, 99, dtype.numpy)

    def upload(self, array: Any, device: Device) -> Any:
        return array.copy()

    def zero(self, array: Any) -> None:
        self.zeroed += 1
        array[...] = 0

    def view(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        return NUMPY.view(memory, offset, shape, dtype)



def test_captured_calls_have_counters_of_their_own_that_no_replay_zeroes() -> None:
    library, device, counters = _Fake("captured"), Device("cuda", 0), Counters()
    usual = counters.take(library, device, 7, 512)
    assert reserve(library, device)
    assert not reserve(library, device)  # they are there
    fills = library.zeroed
    library.captures = True
    found = [counters.take(library, device, 8, size) for size in (4, 300, 256)]
    assert [f.nbytes for f in found] == [4, 300, 256]
    assert library.zeroed == fills
    assert not any(f.any() for f in found)
    every = [usual, *found]
    assert not any(np.shares_memory(a, b) for k, a in enumerate(every) for b in every[:k])


def test_captured_calls_are_zeroed_in_the_graph_once_the_reserve_is_spent() -> None:
    library, device, counters = _Fake("spent"), Device("cuda", 0), Counters()
    library.captures = True
    assert not counters.take(library, device, 0, 256).any()
    assert library.zeroed == 1  # nothing was called before: there is no reserve
    assert not reserve(library, device)  # nothing is allocated for good inside a capture
    library.captures = False
    assert reserve(library, device)
    library.captures = True
    fills, found = library.zeroed, [counters.take(library, device, 0, 256) for _ in range(RESERVED // 256 + 2)]
    assert library.zeroed == fills + 2
    assert not any(f.any() for f in found)
    assert len({f.ctypes.data for f in found}) == len(found)
    first = weakref.ref(found[0].base)
    del found
    library.captures = False
    assert reserve(library, device)
    gc.collect()
    assert first() is not None  # the graphs that count there may be replayed
    library.captures = True
    fills = library.zeroed
    counters.take(library, device, 1, 256)
    assert library.zeroed == fills
