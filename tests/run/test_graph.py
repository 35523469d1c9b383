"""Calls as graphs: what is captured, what is refused, and the driver calls behind it; with no device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cuda import driver as driver_module
from polyfuse.backends.numba_cuda import graphs
from polyfuse.errors import ArgumentError, DeviceError
from polyfuse.run.arrays import Device
from polyfuse.run.bound import BoundCall
from polyfuse.run.graph import GraphCall
from polyfuse.run.prepare import refuse_capture


def normalised(x):
    return x / np.sqrt((x * x).sum())


class Recorder:
    """A back end whose graphs are the Python calls that were captured."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def synchronize(self, ordinal: int) -> None:
        self.events.append(f"wait {ordinal}")

    def captured(self, launches: Callable[[int], None], ordinal: int) -> Callable[[int], None]:
        self.events.append(f"capture {ordinal}")
        return launches


def test_a_graph_holds_all_kernels_and_memory_of_its_own() -> None:
    f, x = pf.jit(normalised, fuse=False), np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
    out, recorder = np.empty_like(x), Recorder()
    bound = f.bind(x, out=out)
    assert len(bound.record.steps) > 1 and bound.record.scratch is not None
    launch = GraphCall.of(bound, recorder, "normalised")  # type: ignore[arg-type]
    assert recorder.events == ["wait 0", "capture 0"]
    for _ in range(3):
        x += 1
        out[:] = np.nan
        assert launch() is out
        np.testing.assert_allclose(out, normalised(x), rtol=1e-5)


def test_only_kernels_are_captured() -> None:
    x = np.ones((8, 8), np.float32)
    sorting = pf.jit(lambda x: np.sort(x + 1, axis=1)).bind(np.ones((8, 80), np.float32))
    into_columns = pf.jit(normalised).bind(x, out=np.empty((8, 16), np.float32)[:, ::2])
    raw = np.zeros(4 * 64 + 1, np.uint8)[1:].view(np.float32).reshape(8, 8)
    misaligned = pf.jit(normalised).bind(raw)
    cases = [(sorting, "calls the array library"), (into_columns, "copies a result"), (misaligned, "misaligned")]
    for bound, reason in cases:
        with pytest.raises(ArgumentError, match=reason) as caught:
            GraphCall.of(bound, Recorder(), "f")  # type: ignore[arg-type]
        assert "torch.cuda.graph" in caught.value.advice


def test_on_the_host_a_graph_is_a_bound_call() -> None:
    x = np.ones((8, 8), np.float32)
    launch = pf.jit(normalised).graph(x)
    assert isinstance(launch, BoundCall)
    np.testing.assert_allclose(launch(), normalised(x), rtol=1e-6)


def test_nothing_is_compiled_inside_a_capture() -> None:
    library: Any = SimpleNamespace(is_capturing=lambda device: True)
    with pytest.raises(DeviceError, match="f is called for the first time .* while a CUDA graph is being captured"):
        refuse_capture(library, Device("cuda"), "f")
    refuse_capture(library, Device("cpu"), "f")
    refuse_capture(replace_capturing(library, False), Device("cuda"), "f")


def replace_capturing(library: Any, capturing: bool) -> Any:
    return SimpleNamespace(**{**vars(library), "is_capturing": lambda device: capturing})


# ---------------------------------------------------------------------------------------------- the driver


class Driver:
    """The calls of the driver's interface that graphs make, written down."""

    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., tuple[int, int]]:
        answers = {"cuStreamCreate": 11, "cuStreamEndCapture": 22, "cuGraphInstantiate": 33}

        def call(*arguments: Any) -> tuple[int, int]:
            self.calls.append((name, *arguments))
            return 0, answers.get(name, 0)

        return call


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    for module in (graphs, driver_module):
        monkeypatch.setattr(module, "driver", lambda: found)
    monkeypatch.setattr(driver_module, "primary_context", lambda ordinal: 5)

    def launch(executable: ctypes.c_void_p, stream: ctypes.c_void_p) -> int:
        found.calls.append(("launch", executable.value, stream.value))
        return 0

    monkeypatch.setattr(graphs, "launch_function", lambda: launch)
    return found


def test_a_capture_begins_ends_and_replays(api: Driver) -> None:
    replay = graphs.captured(lambda stream: api.calls.append(("kernels", stream)), 0)
    replay(77)
    replay(0)
    inner = [c for c in api.calls if "Ctx" not in c[0]]
    assert inner == [
        ("cuStreamCreate", 1),
        ("cuStreamBeginCapture", 11, 1),
        ("kernels", 11),
        ("cuStreamEndCapture", 11),
        ("cuGraphInstantiate", 22, 0),
        ("cuGraphDestroy", 22),
        ("cuStreamDestroy", 11),
        ("launch", 33, 77),
        ("launch", 33, None),
    ]
    del replay
    assert ("cuGraphExecDestroy", 33) in api.calls


def test_a_failed_launch_ends_the_capture(api: Driver) -> None:
    def broken(stream: int) -> None:
        raise DeviceError("no such kernel")

    with pytest.raises(DeviceError, match="no such kernel"):
        graphs.captured(broken, 0)
    names = [c[0] for c in api.calls]
    assert names.index("cuStreamEndCapture") < names.index("cuStreamDestroy") and "cuGraphInstantiate" not in names
