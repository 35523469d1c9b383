"""NumPy arrays; large outputs come from the pool of the CPU back end, where that runs the kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from polyfuse.dtypes import DType, from_numpy
from polyfuse.errors import ArgumentError
from polyfuse.library_calls import functions
from polyfuse.library_calls.contraction import Contraction
from polyfuse.run.arrays import HOST, VECTOR_ALIGNMENT, ArrayFacts, Device, Guard, host_pointer, unsupported_dtype
from polyfuse.run.libraries.fields import fieldwise
from polyfuse.run.products import Product, matrix_product, primitives_of

Allocator = Callable[[tuple[int, ...], DType], Callable[[], Any] | None]


def _usual(shape: tuple[int, ...], dtype: DType) -> Callable[[], Any] | None:
    """NumPy's own memory for everything."""
    del shape, dtype
    return None


def _matmul(a: Any, b: Any, out: Any) -> None:
    if a.dtype.itemsize == 2:  # NumPy would round every partial sum
        out[...] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    else:
        np.matmul(a, b, out=out)


PRIMITIVES = primitives_of(np, _matmul)


@dataclass(frozen=True, slots=True)
class NumPyLibrary:
    """`better`: the allocator for a shape and dtype that is better than NumPy's, or None."""

    better: Allocator = _usual
    pointer: Callable[[Any], int] = host_pointer
    name: str = "numpy"
    written: None = None

    def facts(self, array: Any) -> ArrayFacts:
        dtype = from_numpy(array.dtype)
        if dtype is None:
            raise wrong_dtype(array.dtype)
        key, pointer = self.read(array)
        whole = all(s % dtype.itemsize == 0 for s in array.strides)
        strides = tuple(s // dtype.itemsize for s in array.strides) if whole else None
        return ArrayFacts(pointer, array.shape, strides, dtype, HOST, key)

    def read(self, array: Any) -> tuple[tuple[Any, ...], int]:
        pointer = host_pointer(array)
        return (array.dtype, array.shape, array.strides, pointer % VECTOR_ALIGNMENT), pointer

    def guard(self, arrays: Sequence[Any]) -> Guard | None:
        fields = [[("dtype", "is", a.dtype), ("shape", "==", a.shape), ("strides", "==", a.strides)] for a in arrays]
        return Guard(fieldwise(np.ndarray, fields))

    def allocator(self, shape: tuple[int, ...], dtype: DType, device: Device) -> Callable[[], Any]:
        del device  # there is one host
        return self.better(shape, dtype) or partial(np.empty, shape, dtype.numpy)

    def stream(self, device: Device) -> Callable[[], int]:
        del device
        return lambda: 0

    def is_capturing(self, device: Device) -> bool:
        del device
        return False

    def contiguous(self, array: Any) -> Any:
        fresh = np.empty(array.shape, array.dtype)
        fresh[...] = array
        return fresh

    def upload(self, array: np.ndarray[Any, Any], device: Device) -> Any:
        del device  # there is one host
        return array.copy()

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source

    def zero(self, array: Any) -> None:
        array[...] = 0

    def view(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        return np.ndarray(shape, dtype.numpy, memory, offset)

    def call(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        return functions.call(np, name, operands, settings)

    def product(self, spec: Contraction, sizes: Mapping[str, int]) -> Product:
        return matrix_product(spec, sizes, PRIMITIVES)

    def result(self, array: Any) -> Any:
        return array[()]


NUMPY = NumPyLibrary()


def library_of(kind: type) -> NumPyLibrary | None:
    """NumPy's library for arrays, memory maps and scalars (a scalar is an array of rank 0), and for subclasses that say
    they are plain arrays; None for its other types.

    Raises ArgumentError for subclasses whose operators mean something else.
    """
    if kind is np.ndarray or issubclass(kind, (np.generic, np.memmap)) or vars(kind).get("is_plain") is True:
        return NUMPY
    if issubclass(kind, np.ma.MaskedArray):
        raise ArgumentError(
            " is a masked array, which has no place in a kernel",
            advice="Pass x.filled(value), or x.data and x.mask as two arrays.",
        )
    if issubclass(kind, np.ndarray):
        raise ArgumentError(
            f" is a {kind.__name__}, which changes what array operators mean",
            advice="Pass a plain array: numpy.asarray(x).",
        )
    return None


def as_plain(array: Any) -> Any:
    """A plain ndarray of the same memory; scalars become arrays of rank 0."""
    return array if type(array) is np.ndarray else np.asarray(array).view(np.ndarray)


def wrong_dtype(dtype: np.dtype[Any]) -> ArgumentError:
    if not dtype.isnative and from_numpy(dtype.newbyteorder("=")) is not None:
        return ArgumentError(
            f" has dtype {dtype}, in the byte order of other machines",
            advice="Convert it once: x.astype(x.dtype.newbyteorder('=')).",
        )
    return unsupported_dtype(str(dtype), dtype.kind)
