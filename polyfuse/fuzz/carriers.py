"""Arguments on the machine that a back end runs on, with the strides and the alignment that the corpus asks for.

The interpreter and the CPU back end take NumPy arrays.  On a device torch holds the arrays, and CuPy those of programs
that have a negative stride, which torch does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from polyfuse.dtypes import BY_NAME
from polyfuse.errors import DeviceError
from polyfuse.fuzz.arrays import Array, ArrayValue


class NoSuchArray(Exception):
    """No array library of the machine holds arrays like these."""


class Carrier(Protocol):
    """Arrays of one library."""

    def put(self, value: ArrayValue) -> Any:
        """A new array that holds `value`, strided as it says.  Raises NoSuchArray."""

    def hold(self, memory: Array, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Elements `memory`, one axis, and in them an array that begins at `start`; `strides` in elements."""

    def get(self, array: Any) -> Array:
        """The elements of an array, or of a number, as a NumPy array."""


@dataclass(frozen=True, slots=True)
class OnHost:
    """NumPy arrays."""

    def put(self, value: ArrayValue) -> Any:
        return value.made()

    def hold(self, memory: Array, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return as_strided(memory[start:], shape, [s * memory.itemsize for s in strides])

    def get(self, array: Any) -> Array:
        return np.asarray(array)


@dataclass(frozen=True, slots=True)
class InTorch:
    """Torch tensors on `device`, ``cpu`` or ``cuda``."""

    device: str

    def put(self, value: ArrayValue) -> Any:
        memory, start, strides = value.memory()
        return self.hold(memory, start, value.shape, strides)

    def hold(self, memory: Array, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        torch: Any = import_module("torch")
        dtype = getattr(torch, memory.dtype.name)
        flat = torch.from_numpy(memory.view(np.uint8)).to(self.device, copy=True).view(dtype)
        return torch.as_strided(flat, shape, strides, start)

    def get(self, array: Any) -> Array:
        if not hasattr(array, "cpu"):
            return np.asarray(array)
        torch: Any = import_module("torch")
        own = array.detach().cpu().contiguous()
        if own.dtype is not torch.bfloat16:
            return np.asarray(own.numpy())
        return np.asarray(own.view(torch.int16).numpy().view(BY_NAME["bf16"].numpy))


@dataclass(frozen=True, slots=True)
class InCuPy:
    """CuPy arrays on the current device."""

    def put(self, value: ArrayValue) -> Any:
        if value.dtype == "bf16":
            raise NoSuchArray("no device library here has a bfloat16 array of negative stride")
        memory, start, strides = value.memory()
        return self.hold(memory, start, value.shape, strides)

    def hold(self, memory: Array, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        cupy: Any = import_module("cupy")
        flat = cupy.asarray(memory)
        size = memory.dtype.itemsize
        return cupy.ndarray(shape, memory.dtype, flat.data + start * size, strides=[s * size for s in strides])

    def get(self, array: Any) -> Array:
        return np.asarray(array.get() if hasattr(array, "get") else array)


def carrier_of(backend: str, arrays: Sequence[ArrayValue]) -> Carrier:
    """What holds the arguments of a program on the machine of a back end."""
    if backend != "numba_cuda":
        return OnHost()
    backwards = any(s < 0 for a in arrays for s in a.strides or ())
    return InCuPy() if backwards else InTorch("cuda")


def check_machine(backend: str) -> None:
    """Raises DeviceError where a back end cannot be fuzzed on this machine."""
    if backend != "numba_cuda":
        return
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise DeviceError("fuzzing on the device needs torch", advice="pip install polyfuse[torch]") from None
    if not torch.cuda.is_available():
        raise DeviceError("fuzzing on the device needs a GPU that torch sees", advice="Use --backend numba_cpu here.")
