"""The interpreter as a back end of the dispatcher: kernels of any target run on arrays of the host, checked."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from polyfuse.backends.interpreter.machine import run_kernel
from polyfuse.dtypes import DType
from polyfuse.errors import DeviceError
from polyfuse.kernel import ArrayParameter, ScalarParameter
from polyfuse.plan import Launch, Plan
from polyfuse.run.arrays import c_strides
from polyfuse.run.services import Bound


@dataclass(frozen=True, slots=True)
class InterpretedKernel:
    """A kernel that needs no compilation."""

    spilled: ClassVar[int] = 0

    def launcher(self, bound: Bound) -> Callable[..., object]:
        kernel, parameters = bound.launch.kernel, bound.launch.kernel.parameters

        def launch(stream: int, *varying: Any) -> None:
            del stream
            values = iter(varying)
            pairs = zip(parameters, bound.constants, strict=True)
            given: dict[str, Any] = {p.name: next(values) if constant is None else constant for p, constant in pairs}
            arrays = {p.name: _array(p, given[p.name], bound) for p in parameters if isinstance(p, ArrayParameter)}
            scalars = {p.name: given[p.name] for p in parameters if isinstance(p, ScalarParameter)}
            run_kernel(kernel, arrays, bound.numbers, scalars)

        return launch

    def to_bytes(self) -> bytes:
        return b""


def _array(parameter: ArrayParameter, address: int, bound: Bound) -> np.ndarray[Any, Any]:
    """The memory at `address` as the array that a parameter describes."""
    shape = tuple(extent.evaluate(bound.numbers) for extent in parameter.shape)
    dtype = parameter.dtype.numpy
    if 0 in shape:
        return np.empty(shape, dtype)
    given = parameter.strides or c_strides(shape)
    strides = [(bound.numbers[s] if isinstance(s, str) else s) * dtype.itemsize for s in given]
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    memory = (ctypes.c_char * (high - low + dtype.itemsize)).from_address(address + low)
    first: np.ndarray[Any, Any] = np.ndarray((1,), dtype, memoryview(memory).cast("B"), -low)
    return as_strided(first, shape, strides)


@dataclass(frozen=True, slots=True)
class InterpreterBackend:
    """Runs plans of every target, slowly, with bounds, race and initialisation checks."""

    name: str = "interpreter"
    device: str = "cpu"

    def versions(self) -> tuple[str, ...]:
        return ()

    def compile(self, launch: Launch, plan: Plan) -> InterpretedKernel:
        return InterpretedKernel()

    def job(self, launch: Launch, plan: Plan) -> None:
        return None

    def load(self, launch: Launch, plan: Plan, data: bytes) -> InterpretedKernel:
        return InterpretedKernel()

    def allocator(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any] | None:
        return None

    def status_page(self, ordinal: int) -> int:
        raise DeviceError(f"kernels of back end {self.name} have a status word per call")

    def synchronize(self, ordinal: int) -> None:
        """Kernels on the host have finished when a call returns."""

    def captured(self, launches: Callable[[int], None], ordinal: int) -> Callable[[int], None]:
        raise DeviceError(f"back end {self.name} has no graphs: its calls are bound instead")
