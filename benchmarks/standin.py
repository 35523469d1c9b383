"""The CUDA call path with a stand-in for the device: host arrays, real plans, real argument buffers, no launch.

Everything of a call runs but the driver: key, guards, output allocation, packing, and a foreign call of the driver's
signature that returns at once.  What it costs is our own share of a call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import cfunc

from polyfuse.backends.numba_cuda import launch as launch_module
from polyfuse.backends.numba_cuda.compile import CompiledKernel, _argument_format
from polyfuse.backends.numba_cuda.launch import Launcher as DriverLauncher
from polyfuse.face.numba_cuda import CudaBackend, CudaKernel
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.plan import Launch, Plan
from polyfuse.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services
from polyfuse.target import H200


@cfunc("int32(voidptr, voidptr, voidptr, voidptr)")
def _nothing(configuration: Any, function: Any, parameters: Any, extra: Any) -> int:
    """In place of ``cuLaunchKernelEx``."""
    return 0


@dataclass(frozen=True, slots=True)
class StandIn(CudaBackend):
    """The CUDA back end for arrays of the host, which compiles nothing."""

    device: str = "cpu"

    def compile(self, launch: Launch, plan: Plan) -> CudaKernel:
        kernel = launch.kernel
        formats = "".join(_argument_format(p, kernel.index_bits) for p in kernel.parameters)
        compiled = CompiledKernel("k", "", kernel.block_threads, 1, plan.target.capability, formats, 0, 0)
        loaded = DriverLauncher(compiled)
        loaded._function = 1  # as if loaded
        return CudaKernel(compiled, {0: loaded})

    def versions(self) -> tuple[str, ...]:
        return ()

    def synchronize(self, ordinal: int) -> None:
        """Nothing runs."""


def standin_jit(function: Callable[..., Any], **options: Any) -> Jitted:
    """`function` compiled for an H200, called with arrays of the host; its results hold nothing."""
    foreign = type(ctypes.CDLL(None).abs)(_nothing.address)
    launch_module._enqueue_function = lambda: foreign
    services = Services(NumPyFrontend(), plan_program, lambda name: StandIn(), lambda device: H200)
    return Jitted(function, Options().updated(options), services)
