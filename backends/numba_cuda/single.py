"""A launch of one kernel as a graph of one node: the driver takes half the time over it that it takes over the kernel.

    update    the arguments, as they lie in the buffer, into the graph; launches on their way keep theirs
    replay    the graph on the legacy default stream

That stream is never captured, and all of its work is in order, so that a graph, which runs behind itself, waits for
nothing else.  Other streams get the kernel itself, as does a process that sees several devices, where the default
stream is that of whichever device is current.  A graph takes memory of the device, so that a launch has to be asked for
often, and a process has a limited number.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.backends.numba_cuda.driver import check, current_context, device_count, driver
from polyfuse.backends.numba_cuda.graphs import destroyed, launch_function
from polyfuse.errors import DeviceError

OFTEN = 8  # launches
MOST = 512
"""Graphs alive at once: each takes 113 KB of an H200."""

_log = logging.getLogger("polyfuse.code")


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class SingleNode:
    """`update` and `replay`: arguments of the driver's functions, wrapped.  `kept`: what they point to."""

    update: tuple[Any, ...]
    replay: tuple[Any, ...]
    kept: tuple[Any, ...]


@functools.cache
def is_usual() -> bool:
    """Whether the default stream can only be that of the device of a kernel."""
    return device_count() == 1


def single_node(
    function: int, grid: Sequence[int], block: Sequence[int], shared: int, places: int
) -> SingleNode | None:
    """The graph of a launch whose arguments lie where the pointers at `places` say; None, which the log tells, where
    there are enough of them or the driver makes none."""
    try:
        if len(_alive) < MOST:
            return _made(function, grid, block, shared, places)
        _log.info("a launch remains one of a kernel: there are %d graphs", MOST)
    except DeviceError as error:
        _log.info("a launch remains one of a kernel: %s", error)
    return None


_alive = weakref.WeakSet[SingleNode]()


def _made(function: int, grid: Sequence[int], block: Sequence[int], shared: int, places: int) -> SingleNode:
    api = driver()
    parameters = api.CUDA_KERNEL_NODE_PARAMS()
    parameters.func = api.CUfunction(function)
    parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = grid
    parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = block
    parameters.sharedMemBytes, parameters.kernelParams = shared, places
    with current_context():
        graph = check(api.cuGraphCreate(0), "making a graph")
        node = check(api.cuGraphAddKernelNode(graph, None, 0, parameters), "adding a kernel to a graph")
        executable = check(api.cuGraphInstantiate(graph, 0), "making a graph executable")
    own = ctypes.c_void_p(int(executable))
    update = (own, ctypes.c_void_p(int(node)), ctypes.c_void_p(int(parameters.getPtr())))
    found = SingleNode(update, (own, ctypes.c_void_p(0)), (graph, parameters))
    weakref.finalize(found, _freed, graph, executable)
    _alive.add(found)
    return found


def functions() -> tuple[Callable[..., int], Callable[..., int]]:
    """The driver's functions behind `update` and `replay`; both return a status."""
    return _update_function(), launch_function()


@functools.cache
def _update_function() -> Any:
    driver()  # loaded and initialised
    return ctypes.CDLL("libcuda.so.1").cuGraphExecKernelNodeSetParams_v2


def _freed(graph: Any, executable: Any) -> None:
    destroyed(executable, 0)
    with contextlib.suppress(Exception):  # at the end of the process the driver may be gone
        driver().cuGraphDestroy(graph)
