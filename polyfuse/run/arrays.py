"""What the caller passed: pointer, shape, strides, dtype and device of arrays of any library, without importing any.

A `Library` reads arrays of one kind, allocates results of that kind and knows the caller's stream.  `library_of` finds
it by the type of an argument; the package that defines the type is then already imported, so nothing heavy is.

Sources: the array interface protocol of NumPy, the CUDA Array Interface v3 (Numba), DLPack and the Python array API.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from polyfuse.bindings import Layout
from polyfuse.dtypes import DType
from polyfuse.errors import ArgumentError
from polyfuse.library_calls.contraction import Contraction


@dataclass(frozen=True, slots=True)
class Device:
    """Where memory lies: ``cpu`` or ``cuda`` and the ordinal of the device."""

    kind: str
    ordinal: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.ordinal}"


HOST = Device("cpu")

VECTOR_ALIGNMENT = 16  # bytes: the widest single access that a `Layout` promises
LOOKED_AT = 1 << 22  # elements of a view whose addresses are compared one by one


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """One array as the dispatcher sees it.  `strides` in elements; None where they are no whole number of elements.
    `key`: a hashable that is equal for arrays of one library, dtype, shape, strides, device and alignment."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: DType
    device: Device
    key: tuple[Any, ...]

    @property
    def size(self) -> int:
        """Elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def is_contiguous(self) -> bool:
        """C order; axes of extent 1 and empty arrays may have any strides."""
        return self.strides is not None and (self.size == 0 or _is_c_order(self.shape, self.strides))

    @property
    def is_aligned(self) -> bool:
        """Every element lies at a multiple of its size."""
        return self.strides is not None and self.pointer % self.dtype.itemsize == 0

    @property
    def span(self) -> tuple[int, int]:
        """Addresses ``[first, last)`` that hold elements, in bytes; empty for an empty array."""
        if self.size == 0:
            return self.pointer, self.pointer
        assert self.strides is not None, "the span of an array whose strides are not whole elements"
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        return self.pointer + low * self.dtype.itemsize, self.pointer + (high + 1) * self.dtype.itemsize

    @property
    def meets_itself(self) -> bool:
        """Whether several elements lie at one address, or, of more than `LOOKED_AT` whose rows reach into one another,
        might."""
        if self.strides is None or not self.size:
            return False
        pairs = sorted((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1)
        reach = 0
        for stride, extent in pairs:
            if stride <= reach:  # rows reach into one another, if only to lie between each other's elements
                if self.size > LOOKED_AT:
                    return True
                return len(np.unique(sum(np.ix_(*(s * np.arange(n) for s, n in pairs))))) < self.size
            reach += (extent - 1) * stride
        return False

    @property
    def layout(self) -> Layout:
        """The layout class for a plan; the array is aligned to its elements."""
        vector = VECTOR_ALIGNMENT if self.pointer % VECTOR_ALIGNMENT == 0 else self.dtype.itemsize
        if self.is_contiguous:
            return Layout(None, vector)
        assert self.strides is not None
        pairs = zip(self.shape, self.strides, strict=True)
        return Layout(tuple(0 if n == 1 else s if s in (0, 1) else None for n, s in pairs), vector)


def _is_c_order(shape: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of C order, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def share(a: ArrayFacts, b: ArrayFacts) -> bool:
    """Whether some byte belongs to elements of both arrays, or, where that is hard to tell, might."""
    most: Any = LOOKED_AT  # NumPy's stub has -1 and 0 only
    return a.device == b.device and np.may_share_memory(_addresses(a), _addresses(b), max_work=most)


def _addresses(facts: ArrayFacts) -> np.ndarray[Any, Any]:
    """An array of bytes at the addresses of another one's elements, which may lie on a device: nothing is read."""
    assert facts.strides is not None, "elements at broken strides"
    item = facts.dtype.itemsize
    bytes_ = {"shape": (*facts.shape, item), "strides": (*(s * item for s in facts.strides), 1), "typestr": "|u1"}
    return np.asarray(SimpleNamespace(__array_interface__={"version": 3, "data": (facts.pointer, True), **bytes_}))


@dataclass(frozen=True, slots=True)
class Guard:
    """A quick test whether other arrays would have the same keys but for alignment: it may say no where they have.

    `check` takes the arrays one by one.  It is not asked, and no call recognised, where an array's `attribute` is true
    or ``state.<changing>`` is not negative.  `can_be_freed`: an array that had memory may have none.
    """

    check: Callable[..., bool]
    attribute: str = ""
    state: Any = None
    changing: str = ""
    can_be_freed: bool = False


class Library(Protocol):
    """Arrays of one library.  Methods raise ArgumentError for arrays that no kernel can take."""

    @property
    def name(self) -> str: ...

    def facts(self, array: Any) -> ArrayFacts:
        """Everything about `array`; slow path."""

    def read(self, array: Any) -> tuple[tuple[Any, ...], int]:
        """``(key, pointer)`` of `array`; the key equals that of `facts`.  Runs at every call."""

    def guard(self, arrays: Sequence[Any]) -> Guard | None:
        """The quick test for arrays like these; None where the library has none."""

    def allocator(self, shape: tuple[int, ...], dtype: DType, device: Device) -> Callable[[], Any]:
        """A function that returns a new uninitialised C-order array, 16-byte aligned."""

    @property
    def pointer(self) -> Callable[[Any], int]:
        """A function that returns the base address of an array."""

    @property
    def written(self) -> Callable[[Sequence[Any]], None] | None:
        """A function that is told of arrays of the caller that kernels have written; None where nobody wants to know.
        torch does: it refuses a backward pass through a tensor that was overwritten since it was saved."""

    def stream(self, device: Device) -> Callable[[], int]:
        """A function that returns the handle of the caller's current stream; 0 on the host."""

    def is_capturing(self, device: Device) -> bool:
        """Whether launches on the current stream are being recorded into a CUDA graph."""

    def contiguous(self, array: Any) -> Any:
        """A new aligned C-order copy of `array`."""

    def upload(self, array: np.ndarray[Any, Any], device: Device) -> Any:
        """A NumPy array as one of this library on `device`, complete on return; on the host it may share the memory."""

    def copy(self, target: Any, source: Any) -> None:
        """``target[...] = source`` on the current stream; the two may not overlap."""

    def zero(self, array: Any) -> None:
        """``array[...] = 0`` on the current stream."""

    def view(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        """C-order elements of `memory` (u8, one axis) from byte `offset`."""

    def call(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        """The library's function of that name (NumPy's names)."""

    def product(self, spec: Contraction, sizes: Mapping[str, int]) -> Callable[[Any, Any, Any], None]:
        """A function ``(left, right, result)`` that runs a contraction at these sizes."""

    def result(self, array: Any) -> Any:
        """What the caller gets for an output of rank 0."""


# ---------------------------------------------------------------------------------------------- addresses

# CPython keeps the data address of an ndarray right behind the object header, and NumPy's ABI fixes that field as the
# first; reading it costs 0.16 us where ``array.ctypes.data`` costs 1.1.  Verified at import, with a fallback.
_HEADER = object.__basicsize__
_WORD = ctypes.c_size_t.from_address


def _direct_pointer(array: np.ndarray[Any, Any]) -> int:
    return _WORD(id(array) + _HEADER).value


def _plain_pointer(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


def _choose_pointer() -> Callable[[np.ndarray[Any, Any]], int]:
    probe = np.zeros((3, 5), np.float32)
    views = (probe, probe[1:], probe[::-1, 2:], probe.T, np.zeros((), np.int64), np.zeros((0, 4)))
    right = all(_direct_pointer(v) == _plain_pointer(v) for v in views)
    return _direct_pointer if right else _plain_pointer


host_pointer = _choose_pointer()


def unsupported_dtype(name: str, kind: str) -> ArgumentError:
    """The error for an element type that programs do not have; `kind` as in ``np.dtype.kind``."""
    other = "Convert the array first; supported are bool, integers and floats up to 64 bits."
    advice = {
        "c": "Pass the real and the imaginary part as two arrays.",
        "O": "Convert the array to a numeric dtype first.",
        "V": "Pass the fields of a structured array one by one." if name.startswith("[") else other,
        "M": "Convert dates to int64 first, for example x.view('int64').",
        "m": "Convert time spans to int64 first, for example x.view('int64').",
        "S": "Text is no tensor.",
        "U": "Text is no tensor.",
    }.get(kind, other)
    return ArgumentError(f" has dtype {name}, which is not supported", advice=advice)
