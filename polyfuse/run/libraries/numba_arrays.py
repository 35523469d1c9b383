"""Numba CUDA device arrays, on Numba's default stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfuse.dtypes import DType, from_numpy
from polyfuse.errors import ArgumentError, UnsupportedError
from polyfuse.library_calls.contraction import Contraction
from polyfuse.run.arrays import VECTOR_ALIGNMENT, ArrayFacts, Device, Guard, unsupported_dtype


def _pointer(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0])


@dataclass(frozen=True, slots=True)
class NumbaLibrary:
    """`cuda`: the module that defines device arrays, handed over by the first array seen."""

    cuda: Any
    pointer: Callable[[Any], int] = _pointer
    name: str = "numba"
    written: None = None

    def facts(self, array: Any) -> ArrayFacts:
        dtype = from_numpy(array.dtype)
        if dtype is None:
            raise unsupported_dtype(str(array.dtype), array.dtype.kind)
        key, pointer = self.read(array)
        whole = all(s % dtype.itemsize == 0 for s in array.strides)
        strides = tuple(s // dtype.itemsize for s in array.strides) if whole else None
        return ArrayFacts(pointer, tuple(array.shape), strides, dtype, Device("cuda", self._device(array)), key)

    def _device(self, array: Any) -> int:
        context = getattr(array.gpu_data, "context", None)
        return int(context.device.id) if context is not None else int(self.cuda.get_current_device().id)

    def read(self, array: Any) -> tuple[tuple[Any, ...], int]:
        pointer = _pointer(array)
        return ("numba", array.dtype, array.shape, array.strides, pointer % VECTOR_ALIGNMENT), pointer

    def guard(self, arrays: Sequence[Any]) -> Guard | None:
        del arrays
        return None

    def allocator(self, shape: tuple[int, ...], dtype: DType, device: Device) -> Callable[[], Any]:
        del device
        make, element = self.cuda.device_array, dtype.numpy
        return lambda: make(shape, element)

    def stream(self, device: Device) -> Callable[[], int]:
        del device
        handle = int(getattr(self.cuda.default_stream().handle, "value", None) or 0)
        return lambda: handle

    def is_capturing(self, device: Device) -> bool:
        del device
        return False

    def contiguous(self, array: Any) -> Any:
        return self.cuda.to_device(np.ascontiguousarray(array.copy_to_host()))

    def upload(self, array: np.ndarray[Any, Any], device: Device) -> Any:
        del device  # Numba allocates on the current one, where its arrays are
        return self.cuda.to_device(np.ascontiguousarray(array))

    def copy(self, target: Any, source: Any) -> None:
        if target.is_c_contiguous():
            target.copy_to_device(source)
        else:
            raise ArgumentError("out is not contiguous", advice="Pass a contiguous device array as out.")

    def zero(self, array: Any) -> None:
        array.copy_to_device(np.zeros(array.shape, array.dtype))

    def view(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        count = dtype.itemsize
        for extent in shape:
            count *= extent
        return memory[offset : offset + count].view(dtype.numpy).reshape(shape)

    def call(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        raise UnsupportedError(
            f"Numba has no {name} for its device arrays",
            advice="Pass torch or CuPy arrays, which share memory with them, or call it outside the jitted function.",
        )

    def product(self, spec: Contraction, sizes: Mapping[str, int]) -> Callable[[Any, Any, Any], None]:
        raise UnsupportedError(
            "Numba has no matrix product for its device arrays",
            advice="Pass torch or CuPy arrays, which share memory with them, or use library=False.",
        )

    def result(self, array: Any) -> Any:
        return array


def library_of(kind: type) -> NumbaLibrary | None:
    """Numba's library for device arrays; None for its other types."""
    if kind.__name__ != "DeviceNDArray":
        return None
    return NumbaLibrary(sys.modules["numba.cuda"])  # whoever made the array imported it
