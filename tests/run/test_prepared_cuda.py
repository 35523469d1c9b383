"""Prepared CUDA launches hand the driver what it needs, against a function that reads the structures back."""

from __future__ import annotations

import ctypes
import gc
import struct
import threading
from typing import Any

import pytest

from polyfuse.backends.numba_cuda import launch as launch_module
from polyfuse.backends.numba_cuda import single
from polyfuse.backends.numba_cuda.compile import CompiledKernel
from polyfuse.backends.numba_cuda.launch import Launcher


@pytest.fixture
def launcher() -> Launcher:
    kernel = CompiledKernel("k", "", 128, 1, (9, 0), "QQif", 0, 65536)
    found = Launcher(kernel)
    found._function = 1234  # as if loaded
    return found


def read_back(configuration: Any, function: Any, parameters: Any, extra: Any) -> dict[str, Any]:
    grid = struct.unpack("@6II", ctypes.string_at(configuration.value, 28))
    stream = ctypes.c_void_p.from_address(configuration.value + 32).value
    places = (ctypes.c_void_p * 4).from_address(parameters.value)
    kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_float)
    values = [kind.from_address(place).value for kind, place in zip(kinds, places, strict=True)]
    return {"grid": grid, "stream": stream, "function": function.value, "values": values, "extra": extra.value}


def test_everything_reaches_the_driver(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(launch_module, "_enqueue_function", lambda: lambda *a: seen.append(read_back(*a)) or 0)
    launch = launcher.prepared(77, [None] * 4)
    launch(99, 1 << 40, 2, -3, 0.5)
    launch(0, 4, 5, 6, 1.5)
    assert seen[0] == {
        "grid": (77, 1, 1, 128, 1, 1, 65536),
        "stream": 99,
        "function": 1234,
        "values": [1 << 40, 2, -3, 0.5],
        "extra": None,
    }
    assert (seen[1]["values"], seen[1]["stream"]) == ([4, 5, 6, 1.5], None)


@pytest.mark.parametrize("known", range(16))
def test_constants_are_packed_once(launcher: Launcher, known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every choice of which arguments vary; those that do lie first in the buffer."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(launch_module, "_enqueue_function", lambda: lambda *a: seen.append(read_back(*a)) or 0)
    values = [1 << 40, 2, -3, 0.5]
    launch = launcher.prepared(1, [value if known >> k & 1 else None for k, value in enumerate(values)])
    for factor in (1, 2, 1):
        given = [value if known >> k & 1 else factor * value for k, value in enumerate(values)]
        launch(0, *(value for k, value in enumerate(given) if not known >> k & 1))
        assert seen[-1]["values"] == given


def test_a_refused_launch_is_tried_the_careful_way(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    careful: list[Any] = []
    monkeypatch.setattr(launch_module, "_enqueue_function", lambda: lambda *a: 201)
    monkeypatch.setattr(Launcher, "launch", lambda self, *a: careful.append(a))
    launcher.prepared(7, [None, None, 3, None])(5, 1, 2, 4.0)
    assert careful == [((7,), [1, 2, 3, 4.0], 5)]


def test_threads_never_share_a_buffer(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[Any] = []
    expected = threading.local()

    def enqueue(*a: Any) -> int:
        if read_back(*a)["values"][0] != expected.value:
            wrong.append(a)
        return 0

    monkeypatch.setattr(launch_module, "_enqueue_function", lambda: enqueue)
    monkeypatch.setattr(single, "is_usual", lambda: False)  # a real driver would be handed the function after a while
    launch = launcher.prepared(1, [None] * 4)

    def work(start: int) -> None:
        for k in range(start, start + 500):
            expected.value = k
            launch(0, k, 0, 0, 0.0)

    threads = [threading.Thread(target=work, args=(1000 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What one process with one device asks of the driver: updates, replays, launches of kernels."""
    seen: list[Any] = []

    def node(function: int, grid: Any, block: Any, shared: int, pointers: int) -> single.SingleNode:
        seen.append((function, grid, block, shared))
        return single.SingleNode(("update", pointers), ("replay",), ())

    def update(name: str, pointers: int) -> int:
        places = (ctypes.c_void_p * 4).from_address(pointers)
        seen.append((name, ctypes.c_uint64.from_address(places[0]).value))
        return 0

    monkeypatch.setattr(single, "is_usual", lambda: True)
    monkeypatch.setattr(single, "single_node", node)
    monkeypatch.setattr(single, "functions", lambda: (update, lambda name: seen.append(name) or 0))
    monkeypatch.setattr(launch_module, "_enqueue_function", lambda: lambda *a: seen.append("kernel") or 0)
    return seen


def test_the_default_stream_replays_a_graph_with_new_arguments(launcher: Launcher, replayed: list[Any]) -> None:
    launch = launcher.prepared(7, [None] * 4)
    for first in range(single.OFTEN + 2):
        launch(0, first, 2, 3, 4.0)
    made = (1234, (7, 1, 1), (128, 1, 1), 65536)
    graphs = [("update", single.OFTEN), "replay", ("update", single.OFTEN + 1), "replay"]
    assert replayed == [*["kernel"] * single.OFTEN, made, *graphs]


def test_constants_need_no_update(launcher: Launcher, replayed: list[Any]) -> None:
    launch = launcher.prepared(7, [1, 2, 3, 4.0])
    for _ in range(single.OFTEN + 1):
        launch(0)
    assert replayed[-1] == "replay" and len(replayed) == single.OFTEN + 2


def test_other_streams_get_the_kernel(launcher: Launcher, replayed: list[Any]) -> None:
    """They may be in a capture, in which no graph can be launched."""
    launch = launcher.prepared(7, [None] * 4)
    for stream in [99] * 20 + [0] * single.OFTEN + [99]:
        launch(stream, 1, 2, 3, 4.0)
    assert [s for s in replayed if s != "kernel"] == [(1234, (7, 1, 1), (128, 1, 1), 65536)]


def test_the_number_of_graphs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[single.SingleNode] = []

    def make(*given: Any) -> single.SingleNode:
        made.append(single.SingleNode((), (), given))
        single._alive.add(made[-1])
        return made[-1]

    monkeypatch.setattr(single, "_made", make)
    monkeypatch.setattr(single, "MOST", len(single._alive) + 2)
    found = [single.single_node(1, (1, 1, 1), (32, 1, 1), 0, 0) for _ in range(3)]
    assert found[2] is None and found[:2] == made
    del found[0], made[0]
    gc.collect()
    assert single.single_node(1, (1, 1, 1), (32, 1, 1), 0, 0) is made[-1]


def test_a_graph_that_is_refused_is_launched_the_careful_way(
    launcher: Launcher, replayed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    careful: list[Any] = []
    monkeypatch.setattr(single, "functions", lambda: (lambda *a: 0, lambda *a: 201))
    monkeypatch.setattr(Launcher, "launch", lambda self, *a: careful.append(a))
    launch = launcher.prepared(7, [None, None, 3, None])
    for _ in range(single.OFTEN + 1):
        launch(0, 1, 2, 4.0)
    assert careful == [((7,), [1, 2, 3, 4.0], 0)]
