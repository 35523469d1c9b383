"""CuPy arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

import cupy
import numpy as np

from polyfuse.dtypes import DType, from_numpy
from polyfuse.library_calls import functions
from polyfuse.library_calls.contraction import Contraction
from polyfuse.run.arrays import VECTOR_ALIGNMENT, ArrayFacts, Device, Guard, unsupported_dtype
from polyfuse.run.libraries.fields import Field, fieldwise
from polyfuse.run.products import Product, matrix_product, primitives_of

PRIMITIVES = primitives_of(cupy, lambda a, b, out: cupy.matmul(a, b, out=out))


@dataclass(frozen=True, slots=True)
class CuPyLibrary:
    """`current`: CuPy's reader of the current stream's handle."""

    current: Callable[[], int]
    pointer: Callable[[Any], int] = attrgetter("data.ptr")
    name: str = "cupy"
    written: None = None

    def facts(self, array: Any) -> ArrayFacts:
        dtype = from_numpy(array.dtype)
        if dtype is None:
            raise unsupported_dtype(str(array.dtype), array.dtype.kind)
        key, pointer = self.read(array)
        whole = all(s % dtype.itemsize == 0 for s in array.strides)
        strides = tuple(s // dtype.itemsize for s in array.strides) if whole else None
        return ArrayFacts(pointer, array.shape, strides, dtype, Device("cuda", array.data.device_id), key)

    def read(self, array: Any) -> tuple[tuple[Any, ...], int]:
        data = array.data
        pointer = data.ptr
        where = data.device_id
        return ("cupy", array.dtype, array.shape, array.strides, pointer % VECTOR_ALIGNMENT, where), pointer

    def guard(self, arrays: Sequence[Any]) -> Guard | None:
        """Those fields first that tell most for their price.  For C order the flag says what strides would."""
        single = cupy.cuda.runtime.getDeviceCount() == 1

        def fields(a: Any) -> list[Field]:
            order: Field = ("_c_contiguous", "is", True) if a._c_contiguous else ("strides", "==", a.strides)
            where: list[Field] = [] if single else [("data.device_id", "==", a.data.device_id)]
            return [("dtype", "is", a.dtype), ("shape", "==", a.shape), order, *where]

        return Guard(fieldwise(cupy.ndarray, [fields(a) for a in arrays]))

    def allocator(self, shape: tuple[int, ...], dtype: DType, device: Device) -> Callable[[], Any]:
        make = _maker(shape, dtype.numpy)

        def on_device() -> Any:
            with cupy.cuda.Device(device.ordinal):
                return make()

        return make if cupy.cuda.runtime.getDeviceCount() == 1 else on_device

    def stream(self, device: Device) -> Callable[[], int]:
        del device  # CuPy's current stream belongs to its current device
        return self.current

    def is_capturing(self, device: Device) -> bool:
        del device
        return bool(cupy.cuda.runtime.streamIsCapturing(self.current()))

    def contiguous(self, array: Any) -> Any:
        return array.copy(order="C")

    def upload(self, array: np.ndarray[Any, Any], device: Device) -> Any:
        with cupy.cuda.Device(device.ordinal):
            return cupy.array(np.ascontiguousarray(array))

    def copy(self, target: Any, source: Any) -> None:
        cupy.copyto(target, source)

    def zero(self, array: Any) -> None:
        array.fill(0)

    def view(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        return cupy.ndarray(shape, dtype.numpy, memory.data + offset)

    def call(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        return functions.call(cupy, name, operands, settings)

    def product(self, spec: Contraction, sizes: Mapping[str, int]) -> Product:
        return matrix_product(spec, sizes, PRIMITIVES)

    def result(self, array: Any) -> Any:
        return array


def _maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Any]:
    """A function that makes such an array on the current device: as ``cupy.ndarray`` does, without its wrappers, which
    cost a quarter of it; through them where this version of CuPy is made otherwise."""
    kind, base, element = cupy.ndarray, cupy.ndarray.__base__, dtype.type
    new, start = base.__new__, getattr(base, "_init", None)
    if start is None:
        return partial(kind, shape, dtype)

    def make() -> Any:
        array = new(kind)
        start(array, shape, element)  # a type is found 0.1 us sooner than a dtype
        return array

    with contextlib.suppress(Exception):  # it is no public interface
        probe, wanted = make(), kind(shape, dtype)
        if all(getattr(probe, name) == getattr(wanted, name) for name in _SHOWN) and probe.base is None:
            return make
    return partial(kind, shape, dtype)


_SHOWN = ("shape", "strides", "dtype", "size", "nbytes", "_c_contiguous")


def _current_stream() -> Callable[[], int]:
    """The reader of the current stream's handle: CuPy's own where it has one, else through its stream object."""
    get = cupy.cuda.get_current_stream
    with contextlib.suppress(ImportError, AttributeError):
        direct: Callable[[], int] = import_module("cupy_backends.cuda.stream").get_current_stream_ptr
        if direct() == get().ptr:
            return direct
    return lambda: get().ptr


CUPY = CuPyLibrary(_current_stream())


def library_of(kind: type) -> CuPyLibrary | None:
    """CuPy's arrays; None for its other types."""
    return CUPY if kind is cupy.ndarray else None
