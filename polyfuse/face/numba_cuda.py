"""The CUDA back end of the dispatcher: printed kernels through Numba, launched through the driver."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from polyfuse.backends.numba_cuda.compile import CompiledKernel, begun, compile_kernel
from polyfuse.backends.numba_cuda.driver import capability, check, current_context, driver, shared_page
from polyfuse.backends.numba_cuda.launch import Launcher as DriverLauncher
from polyfuse.backends.numba_cuda.resident import assembled
from polyfuse.bindings import FromBlocks, FromProduct
from polyfuse.codegen.alike import without_names
from polyfuse.codegen.names import function_name
from polyfuse.codegen.printer import print_kernel
from polyfuse.dtypes import DType
from polyfuse.errors import DeviceError
from polyfuse.kernel import Parameter, combines_once
from polyfuse.plan import Launch, Plan
from polyfuse.planning.program_costs import size_hints
from polyfuse.run.faults import PAGE
from polyfuse.run.services import Bound
from polyfuse.target import Target


@functools.cache
def _version(package: str) -> str:
    return importlib.metadata.version(package)


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """One compiled kernel, loaded on each device where it runs."""

    kernel: CompiledKernel
    loaded: dict[int, DriverLauncher] = field(default_factory=dict)

    @property
    def spilled(self) -> int:
        return self.kernel.resources.spilled_bytes if self.kernel.resources is not None else 0

    def on(self, device: int) -> DriverLauncher:
        """The kernel on one device, loaded once."""
        if device not in self.loaded:
            self.loaded[device] = DriverLauncher(self.kernel, device)
        return self.loaded[device]

    def launcher(self, bound: Bound) -> Callable[..., object]:
        return self.on(bound.device.ordinal).prepared(bound.blocks, bound.constants)

    def to_bytes(self) -> bytes:
        """Description, PTX, machine code where there is some."""
        return self.kernel.to_bytes()


@dataclass(frozen=True, slots=True)
class CudaJob:
    """Compiling a printed kernel, without a device.  `settings`: keywords of `compile_kernel`; what follows the target
    are keywords of `assembled`."""

    source: str
    name: str
    parameters: tuple[Parameter, ...]
    settings: Mapping[str, Any]
    target: Target
    waits: bool = False
    blocks: int = 0
    wave: int = 0
    guessed: bool = False
    is_concurrent: bool = True

    @property
    def weight(self) -> int:
        return len(self.source)

    @property
    def is_begun(self) -> bool:
        return begun()

    def kernel(self) -> CompiledKernel:
        """Assembled where there is an assembler, or a driver."""
        compiled = compile_kernel(self.source, self.name, self.parameters, **self.settings)
        with contextlib.suppress(DeviceError):  # neither assembler nor driver: PTX is what this machine can make
            compiled = assembled(
                compiled,
                self.target,
                waits=self.waits,
                blocks=self.blocks,
                wave=self.wave,
                guessed=self.guessed,
                idle=idle_processors(),
            )
        return compiled

    def run(self) -> bytes:
        return self.kernel().to_bytes()

    @property
    def code(self) -> Hashable:
        text = without_names(self.source, repr(self.parameters))
        return text, *self.settings.items(), self.target, self.waits, self.blocks, self.wave, self.guessed


def idle_processors() -> int:
    """Processors beside those that the threads of `run_jobs` keep busy."""
    from polyfuse.run.jobs import THREADS, processors  # which a process that finds its kernels stored never needs

    return max(0, processors() - 1 - THREADS)


def _job(launch: Launch, plan: Plan) -> CudaJob:
    kernel = launch.kernel
    settings = {
        "threads": kernel.block_threads,
        "capability": plan.target.capability,
        "minimum_blocks": kernel.minimum_blocks,
        "index_bits": kernel.index_bits,
        "contract": plan.options.contract,
        "fastmath": plan.options.fastmath,
        "cluster": kernel.cluster,
    }
    name, source = function_name(kernel.name), print_kernel(kernel)
    if kernel.cluster > 1:
        return CudaJob(source, name, kernel.parameters, settings, plan.target)
    shares = any(schedule.grid_combine for schedule in launch.schedules)
    runs = all(schedule.of_kind("loop") and not schedule.border for schedule in launch.schedules)
    blocks = _blocks(launch, plan) if shares or runs else 0
    guessed = any(s.border and not s.grid_scans for s in launch.schedules)  # what their blocks in the middle need
    return CudaJob(
        *(source, name, kernel.parameters, settings, plan.target, combines_once(kernel)),
        blocks=blocks if shares else 0,
        wave=0 if shares else blocks,
        guessed=guessed,
    )


def _blocks(launch: Launch, plan: Plan) -> int:
    """Blocks of a launch per processor; 0 where they are too many to run at once."""
    target, hints = plan.target, size_hints(plan.program)
    for parameter, binding in zip(launch.kernel.parameters, launch.bindings, strict=True):
        if isinstance(binding, FromProduct):  # dimensions that the kernel sees as one
            hints[parameter.name] = math.prod([factor.evaluate(hints) for factor in binding.factors])
        if isinstance(binding, FromBlocks):  # of several kernels in one launch
            hints[parameter.name] = binding.value(hints)
    count = math.prod([extent.evaluate(hints) for extent in launch.kernel.grid])
    blocks = -(-count // target.processors)
    return blocks if blocks * launch.kernel.block_threads <= target.threads_per_processor else 0


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """Compiles without a device; launching needs one."""

    name: str = "numba_cuda"
    device: str = "cuda"

    def versions(self) -> tuple[str, ...]:
        return tuple(f"{name} {_version(name)}" for name in ("numba-cuda", "numba", "llvmlite"))

    def compile(self, launch: Launch, plan: Plan) -> CudaKernel:
        return CudaKernel(_job(launch, plan).kernel())

    def job(self, launch: Launch, plan: Plan) -> CudaJob | None:
        return _job(launch, plan)

    def load(self, launch: Launch, plan: Plan, data: bytes) -> CudaKernel:
        return CudaKernel(CompiledKernel.from_bytes(data))

    def allocator(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any] | None:
        return None

    def status_page(self, ordinal: int) -> int:
        return shared_page(ordinal, PAGE)

    def captured(self, launches: Callable[[int], None], ordinal: int) -> Callable[[int], None]:
        from polyfuse.backends.numba_cuda.graphs import captured

        return captured(launches, ordinal)

    def synchronize(self, ordinal: int) -> None:
        with current_context(ordinal):
            check(driver().cuCtxSynchronize(), f"waiting for CUDA device {ordinal}")


def describe(ordinal: int) -> tuple[str, tuple[int, int]]:
    """Name and compute capability of a device.  Raises DeviceError."""
    api = driver()
    device = check(api.cuDeviceGet(ordinal), f"finding CUDA device {ordinal}")
    name = check(api.cuDeviceGetName(256, device), "asking for the name of a device")
    return name.split(b"\0")[0].decode(), capability(ordinal)
