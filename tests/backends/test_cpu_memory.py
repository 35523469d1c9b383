"""The pool of output arrays."""

from __future__ import annotations

import gc
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyfuse.backends.numba_cpu import memory
from polyfuse.backends.numba_cpu.memory import ALIGNMENT, SMALLEST, Pool, size_class

MEGABYTE = 1 << 20
F4 = np.dtype("f4")


def place(values: np.ndarray[Any, Any]) -> int:
    return int(values.__array_interface__["data"][0])


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", ml_dtypes.bfloat16, "f8"])
@pytest.mark.parametrize("shape", [(), 7, (0, 5), (3, 4), (300, 1001), (1000, 1000)])
def test_arrays_are_ordinary_arrays(shape: Any, dtype: Any) -> None:
    values = memory.empty(shape, dtype)
    want = np.empty(shape, dtype)
    assert (values.shape, values.dtype, values.strides) == (want.shape, want.dtype, want.strides)
    assert values.flags.writeable and values.flags.c_contiguous
    values[...] = 1
    assert (values == np.ones(shape, dtype)).all()
    if values.nbytes >= SMALLEST:
        assert place(values) % ALIGNMENT == 0


def test_memory_is_used_again_once_the_array_is_gone() -> None:
    pool = Pool(64 * MEGABYTE)
    first = pool.array((MEGABYTE,), F4)
    where = place(first)
    del first
    assert pool.unused_bytes() == 4 * MEGABYTE
    second = pool.array((MEGABYTE - 100,), F4)
    assert place(second) == where
    assert pool.unused_bytes() == 0


def test_memory_with_a_reference_left_is_never_handed_out() -> None:
    pool = Pool(64 * MEGABYTE)
    values = pool.array((1000, 1000), F4)
    values[...] = 3
    where = place(values)
    holders: list[Any] = [values[5:7].T, values.view("i4"), memoryview(values), values.reshape(-1)[::2], values.flat]
    del values
    while holders:
        gc.collect()
        other = pool.array((1000, 1000), F4)
        assert place(other) != where
        other[...] = 4
        del other
        holders.pop()
    gc.collect()
    assert {place(pool.array((1000, 1000), F4)), place(pool.array((1000, 1000), F4))} & {where}


def test_unused_memory_is_bounded() -> None:
    pool = Pool(10 * MEGABYTE)
    held = [pool.array((MEGABYTE,), F4) for _ in range(6)]
    assert pool.unused_bytes() == 0
    held.clear()
    assert 4 * MEGABYTE <= pool.unused_bytes() <= 10 * MEGABYTE
    pool.clear()
    assert pool.unused_bytes() == 0


def test_size_classes_waste_at_most_a_quarter() -> None:
    for nbytes in [*range(SMALLEST, SMALLEST + 5000, 77), 10**6, 2**26, 2**26 + 1, 10**9]:
        assert nbytes <= size_class(nbytes) <= 1.25 * nbytes + 4096
    assert size_class(2**26) == 2**26


def test_threads_never_share_memory() -> None:
    pool = Pool(16 * MEGABYTE)
    problems: list[int] = []

    def work(number: int) -> None:
        for step in range(200):
            values = pool.array((40_000 + step,), F4)
            values[:] = number
            inner = values[100:200]
            del values
            if not (inner == number).all():
                problems.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_what_does_not_fit_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        memory.empty((1 << 55,), "f4")
