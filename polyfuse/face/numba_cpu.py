"""The CPU back end of the dispatcher: printed kernels through Numba, run by address on the caller's threads."""

from __future__ import annotations

import functools
import importlib.metadata
import math
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from polyfuse.backends.numba_cpu.compile import CompiledKernel, compile_kernel
from polyfuse.backends.numba_cpu.memory import POOL, SMALLEST
from polyfuse.backends.numba_cpu.prepared import prepared
from polyfuse.codegen.alike import without_names
from polyfuse.codegen.names import function_name
from polyfuse.codegen.printer import print_kernel
from polyfuse.dtypes import DType
from polyfuse.errors import DeviceError
from polyfuse.kernel import ArrayParameter, Parameter
from polyfuse.plan import Launch, Plan
from polyfuse.run.services import Bound

_HEADER = struct.Struct("<II")  # numbers of streamed outputs and lengths of the object code, per variant

Streamed = tuple[str, ...]


@functools.cache
def _version(package: str) -> str:
    return importlib.metadata.version(package)


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """One kernel in up to a few variants, by which outputs bypass the cache.  `cache_bytes`: of the last level."""

    launch: Launch
    cache_bytes: int
    variants: dict[Streamed, CompiledKernel] = field(default_factory=dict)
    spilled: ClassVar[int] = 0  # a core's caches hold what its registers do not

    def variant(self, streamed: Streamed) -> CompiledKernel:
        """The kernel whose stores to `streamed` bypass the cache, compiled where it is new."""
        if streamed not in self.variants:
            self.variants[streamed] = self.job(streamed).kernel()
        return self.variants[streamed]

    def job(self, streamed: Streamed) -> CpuJob:
        kernel = self.launch.kernel
        name = function_name(kernel.name)
        return CpuJob(print_kernel(kernel), name, kernel.parameters, kernel.index_bits, streamed)

    def streamed(self, numbers: Mapping[str, int]) -> Streamed:
        """Outputs larger than the last cache: writing them through it would first read every line from memory."""
        volumes = self._volumes(numbers)
        written = [p for p in self.launch.kernel.parameters if isinstance(p, ArrayParameter) and not p.readonly]
        return tuple(p.name for p in written if volumes.get(p.name, 0) * p.dtype.itemsize > self.cache_bytes)

    def _volumes(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Elements of each array whose sizes are all known."""
        arrays = [p for p in self.launch.kernel.parameters if isinstance(p, ArrayParameter)]
        known = [p for p in arrays if all(extent.names() <= numbers.keys() for extent in p.shape)]
        return {p.name: math.prod(extent.evaluate(numbers) for extent in p.shape) for p in known}

    def launcher(self, bound: Bound) -> Callable[..., object]:
        work = max(self._volumes(bound.numbers).values(), default=0)
        loaded = self.variant(self.streamed(bound.numbers)).loaded
        return prepared(loaded, bound.blocks, -(-work // bound.blocks), bound.constants)

    def to_bytes(self) -> bytes:
        """The object code of every variant compiled so far."""
        parameters = self.launch.kernel.parameters
        return b"".join(_variant(positions(streamed, parameters), kernel) for streamed, kernel in self.variants.items())


def positions(streamed: Streamed, parameters: Sequence[Parameter]) -> bytes:
    """Where streamed outputs are among the parameters, whose names differ between kernels that are alike."""
    return bytes(k for k, parameter in enumerate(parameters) if parameter.name in streamed)


def _variant(streamed: bytes, kernel: CompiledKernel) -> bytes:
    code = kernel.to_bytes()
    return _HEADER.pack(len(streamed), len(code)) + streamed + code


@dataclass(frozen=True, slots=True)
class CpuJob:
    """Compiling one variant of a printed kernel."""

    source: str
    name: str
    parameters: tuple[Parameter, ...]
    index_bits: int
    streamed: Streamed
    is_concurrent: bool = False  # Numba and LLVM hold their locks throughout
    is_begun: bool = False  # nothing is gained by knowing

    @property
    def weight(self) -> int:
        return len(self.source)

    def kernel(self) -> CompiledKernel:
        return compile_kernel(
            self.source, self.name, self.parameters, index_bits=self.index_bits, nontemporal=self.streamed
        )

    def run(self) -> bytes:
        return _variant(positions(self.streamed, self.parameters), self.kernel())

    @property
    def code(self) -> Hashable:
        text = without_names(self.source, repr(self.parameters))
        return text, self.index_bits, positions(self.streamed, self.parameters)


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """Compiles for the processor that it runs on."""

    name: str = "numba_cpu"
    device: str = "cpu"

    def versions(self) -> tuple[str, ...]:
        from polyfuse.backends.numba_cpu.fragments.object_code import host_processor

        packages = tuple(f"{name} {_version(name)}" for name in ("numba", "llvmlite"))
        return (*packages, repr(host_processor()))

    def compile(self, launch: Launch, plan: Plan) -> CpuKernel:
        kernel = CpuKernel(launch, plan.target.l2_bytes)
        kernel.variant(kernel.streamed(plan.program.hints))
        return kernel

    def job(self, launch: Launch, plan: Plan) -> CpuJob:
        kernel = CpuKernel(launch, plan.target.l2_bytes)
        return kernel.job(kernel.streamed(plan.program.hints))

    def load(self, launch: Launch, plan: Plan, data: bytes) -> CpuKernel:
        variants: dict[Streamed, CompiledKernel] = {}
        at = 0
        while at < len(data):
            try:
                length, size = _HEADER.unpack_from(data, at)
            except struct.error as error:
                raise ValueError("not stored CPU kernels") from error
            at += _HEADER.size
            streamed = tuple(launch.kernel.parameters[k].name for k in data[at : at + length])
            variants[streamed] = CompiledKernel.from_bytes(data[at + length : at + length + size])
            at += length + size
        return CpuKernel(launch, plan.target.l2_bytes, variants)

    def allocator(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any] | None:
        element = dtype.numpy
        if math.prod(shape) * element.itemsize < SMALLEST:
            return None
        return lambda: POOL.array(shape, element)

    def status_page(self, ordinal: int) -> int:
        raise DeviceError(f"kernels of back end {self.name} have a status word per call")

    def synchronize(self, ordinal: int) -> None:
        """Kernels on the host have finished when a call returns."""

    def captured(self, launches: Callable[[int], None], ordinal: int) -> Callable[[int], None]:
        raise DeviceError(f"back end {self.name} has no graphs: its calls are bound instead")
