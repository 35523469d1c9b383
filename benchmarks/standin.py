"""The CUDA call path with a stand-in for the device: host arrays, real plans, real argument buffers, no launch.

Everything of a call runs but the driver: recognising it, allocating outputs, packing arguments, and a foreign call of
the driver's signature that returns at once.  What that costs is our own share of a call.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import cfunc

from polyfuse.backends.numba_cuda.compile import CompiledKernel, argument_formats
from polyfuse.backends.numba_cuda.launch import Launcher
from polyfuse.face.numba_cuda import CudaBackend, CudaJob, CudaKernel
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.plan import Launch, Plan
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services
from polyfuse.target import H200


class Nowhere(Launcher):
    """Launches nothing."""

    __slots__ = ()

    def load(self) -> None:
        self._function = 1  # what a driver would have found

    def enqueuer(self) -> Callable[..., int]:
        return _nothing()

    def replays(self) -> bool:
        return False


@functools.cache
def _nothing() -> Callable[..., int]:
    """In place of ``cuLaunchKernelEx``, called as that is."""

    def enqueued(configuration: Any, function: Any, parameters: Any, extra: Any) -> int:
        return 0

    compiled = cfunc("int32(voidptr, voidptr, voidptr, voidptr)")(enqueued)
    foreign = type(ctypes.CDLL(None).abs)(compiled.address)
    foreign.code = compiled  # lives as long
    return foreign


@dataclass(frozen=True, slots=True)
class StandIn(CudaBackend):
    """The CUDA back end for arrays of the host, which compiles nothing."""

    device: str = "cpu"

    def versions(self) -> tuple[str, ...]:
        return ()

    def compile(self, launch: Launch, plan: Plan) -> CudaKernel:
        kernel = launch.kernel
        formats = argument_formats(kernel.parameters, kernel.index_bits)
        compiled = CompiledKernel("k", "", kernel.block_threads, 1, plan.target.capability, formats, 0, 0)
        return CudaKernel(compiled, {0: Nowhere(compiled)})

    def job(self, launch: Launch, plan: Plan) -> CudaJob | None:
        return None

    def synchronize(self, ordinal: int) -> None:
        """Nothing runs."""


def standin_jit(function: Callable[..., Any], **options: Any) -> Jitted:
    """`function` compiled for an H200, called with arrays of the host; its results hold nothing."""
    services = Services(NumPyFrontend(), plan_program, lambda name: StandIn(), lambda device: H200)
    return Jitted(function, Options().updated(options), services)
