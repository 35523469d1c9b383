"""Launches captured into a CUDA graph, which replays on any stream."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import weakref
from collections.abc import Callable
from typing import Any

from polyfuse.backends.numba_cuda.driver import check, current_context, driver, failure


class Graph:
    """An executable graph on one device; freed with the object."""

    __slots__ = ("__weakref__", "_executable", "_launch", "_stream", "device")

    def __init__(self, executable: Any, device: int) -> None:
        self.device = device
        self._executable, self._launch = ctypes.c_void_p(int(executable)), launch_function()
        self._stream = ctypes.c_void_p(0)
        weakref.finalize(self, destroyed, executable, device)

    def replay(self, stream: int) -> None:
        """Enqueue all launches on `stream` (a raw handle).  Raises DeviceError."""
        wrapped = self._stream
        if stream != (wrapped.value or 0):
            wrapped = self._stream = ctypes.c_void_p(stream)
        if self._launch(self._executable, wrapped):
            with current_context(self.device):  # this thread has no context yet, or another device's
                if status := self._launch(self._executable, wrapped):
                    raise failure(driver().CUresult(status), "replaying a graph")


def captured(launches: Callable[[int], None], device: int) -> Callable[[int], None]:
    """A function that replays on a stream what `launches` enqueued on the stream that it was given, here, once.

    Nothing runs during the capture.  Raises DeviceError.
    """
    api = driver()
    with current_context(device), contextlib.ExitStack() as stack:
        stream = check(api.cuStreamCreate(api.CUstream_flags.CU_STREAM_NON_BLOCKING), "making a stream")
        stack.callback(api.cuStreamDestroy, stream)
        mode = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(api.cuStreamBeginCapture(stream, mode), "starting a capture")
        try:
            launches(int(stream))
        finally:  # also behind a failed launch: the stream would stay in capture
            outcome = api.cuStreamEndCapture(stream)
        graph = check(outcome, "ending a capture")
        stack.callback(api.cuGraphDestroy, graph)
        return Graph(check(api.cuGraphInstantiate(graph, 0), "making a graph executable"), device).replay


def destroyed(executable: Any, device: int) -> None:
    """Free an executable graph."""
    with contextlib.suppress(Exception), current_context(device):  # at the end of the process the driver may be gone
        driver().cuGraphExecDestroy(executable)


@functools.cache
def launch_function() -> Any:
    """``cuGraphLaunch`` through ctypes, as `launch` does for kernels."""
    driver()  # loaded and initialised
    return ctypes.CDLL("libcuda.so.1").cuGraphLaunch
