"""Arrays of unknown libraries come in through DLPack and go back as what they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import ArgumentError
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]


class Namespace:
    """What ``__array_namespace__`` of the array API returns."""

    @staticmethod
    def from_dlpack(array: Any) -> Foreign:
        return Foreign(np.from_dlpack(array))


class Foreign:
    """An array that speaks DLPack and the array API only."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.shape, self.dtype = data.shape, data.dtype

    def __dlpack__(self, **settings: Any) -> Any:
        return self.data.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()

    def __array_namespace__(self) -> Any:
        return Namespace


def test_dlpack_in_the_same_kind_back(jit: Jit) -> None:
    f = jit(lambda x, y: {"sum": x + y, "pair": (x * 2,)})
    data = np.arange(6, dtype=np.float32)
    for _ in range(2):
        result = f(Foreign(data), y=data)
        assert isinstance(result["sum"], Foreign)
        np.testing.assert_array_equal(result["sum"].data, data * 2)
        np.testing.assert_array_equal(result["pair"][0].data, data * 2)
    assert f.cache_info().hits == 1


def test_memory_maps_are_arrays(jit: Jit, tmp_path) -> None:
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(10,))
    mapped[...] = 3
    result = jit(lambda x: x * 2)(mapped)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, np.full(10, 6, np.float32))


def test_an_exchange_that_fails_is_an_argument_error(jit: Jit) -> None:
    class Refusing(Foreign):
        def __dlpack__(self, **settings: Any) -> Any:
            raise BufferError("exported elsewhere")

    with pytest.raises(ArgumentError, match="x: the DLPack exchange failed: exported elsewhere"):
        jit(lambda x: x)(Refusing(np.zeros(3)))


def test_device_arrays_without_a_library_are_refused(jit: Jit) -> None:
    class Device:
        __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (0, False), "version": 3}

    import sys

    if {"torch", "cupy", "numba.cuda"} & sys.modules.keys():
        pytest.skip("a library that adopts device arrays is imported")
    with pytest.raises(ArgumentError, match="no array library"):
        jit(lambda x: x)(Device())
