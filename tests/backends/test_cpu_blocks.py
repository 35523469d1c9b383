"""Where a kernel of a core runs: block indices, counted loops, registers, cells, meeting points; and its threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numba import config

from polyfuse.backends.numba_cpu.fragments import threads
from polyfuse.errors import CompileError
from tests.backends.cpu_kernels import address, array, build, size

TILES = "T = Tile((4,), (1,))\nP = Tile((2, 2), (2, 1))\nO = Tile((), ())\nS = Tile((4,), (Size('N'),))\n"
X = np.random.default_rng(4).standard_normal(24).astype("f4")


def text_of(*lines: str) -> str:
    return TILES + "def kernel(x, y, k, n):\n" + "".join(f"    {line}\n" for line in lines)


PARAMETERS = [array("x", np.dtype("f4")), array("y", np.dtype("f4"), readonly=False), array("k", np.dtype("i4"), False)]


def result(*lines: str, grid: tuple[int, ...] = (1,), **options: Any) -> np.ndarray[Any, Any]:
    y, k = np.zeros(24, "f4"), np.zeros(4, "i4")
    kernel = build(text_of(*lines), [*PARAMETERS, size("n")], **options)
    kernel.run(grid, [address(X), address(y), address(k), 24])
    assert not k.any()
    return y


@pytest.mark.parametrize("bits", [32, 64])
def test_blocks_have_numbers_along_every_axis(bits: int) -> None:
    got = result(
        "at = 12 * block(0) + 4 * block(1) + block(2)",
        "w = 100 * block(0) + 10 * block(1) + block(2) + thread()",
        "store(y, at, O, cast(w, float32))",
        grid=(2, 3, 4),
        index_bits=bits,
    )
    np.testing.assert_array_equal(got, [100 * a + 10 * b + c for a in range(2) for b in range(3) for c in range(4)])


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("stop", ["6", "n // 4", "cast(full((), 6, int32), int32)"])
def test_loops_count_to_numbers_sizes_and_fragments(bits: int, stop: str) -> None:
    stop = stop if bits == 32 else stop.replace("int32", "int64")
    got = result(
        "total = constant(0.0, float32)",
        f"for r in range({stop}):",
        "    total = total + load(x, 4 * r, O)",
        "    store(y, 4 * r, T, load(x, 4 * r, T))",
        "store(y, 23, O, total)",
        index_bits=bits,
    )
    np.testing.assert_array_equal(got[:23], X[:23])
    np.testing.assert_allclose(got[23], X[::4].sum(), rtol=1e-5)


def test_registers_are_taken_and_spread() -> None:
    got = result(
        "v = load(x, 0, T)",
        "store(y, 0, P, full((2, 2), take(v, 3, O), float32))",
        "store(y, 4, P, take(v, 0, P))",
        "store(y, 8, T, full((4,), v, float32))",
        "store(y, 12, T, full((4,), 2, float32))",
        "store(y, 16, T, full((4,), scalar(load(x, 1, O)), float32))",
        "store(y, 20, T, cast(slots((4,), 0) + slots((1,), 0), float32))",
    )
    wanted = np.concatenate([X[[3] * 4], X[:4], X[:4], [2] * 4, X[[1] * 4], np.arange(4)])
    np.testing.assert_array_equal(got, wanted.astype("f4"))


def test_indices_of_64_bits_and_conditions() -> None:
    got = result(
        "big = index64(slots((4,), 0)) * 4294967296 >> 31",
        "store(y, 0, T, cast(big, float32))",
        "store(y, 4, T, cast(full((4,), index64(n), int64), float32))",
        "store(y, 8, T, load(x, 0, T), mask=inside(2 - slots((4,), 0), n - 24))",
        "store(y, 12, T, load(x, 0, T), mask=inside(n - 25))",
        "store(y, 16, T, load(x, 0, T), mask=inside(slots((4,), 0) - 1, 2 - slots((4,), 0)))",
    )
    wanted = np.zeros(24, "f4")
    wanted[:8] = [0, 2, 4, 6, 24, 24, 24, 24]
    wanted[8:11], wanted[17:19] = X[:3], X[1:3]
    np.testing.assert_array_equal(got, wanted)


def test_cells_keep_what_was_put_last() -> None:
    got = result(
        "c = own_cells(float32, (4,), 1)",
        "put_cells(c, load(x, 0, T))",
        "store(y, 0, T, get_cells(c))",
        "put_cells(c, load(x, 4, T) * 2.0)",
        "store(y, 4, T, get_cells(c) + load(x, 0, T))",
    )
    np.testing.assert_array_equal(got[:8], np.concatenate([X[:4], 2 * X[4:8] + X[:4]]))


def test_cells_of_uneven_rows_do_not_reach_into_the_next_ones() -> None:
    """A row of 33 registers is more than whole vectors of them."""
    got = result(
        "c = own_cells(float32, (4, 33), 1)",
        "d = own_cells(float32, (4,), 1)",
        "e = own_cells(float32, (4, 33), 1)",
        "put_cells(d, load(x, 0, T))",
        "put_cells(e, full((4, 33), 5, float32))",
        "put_cells(c, full((4, 33), 7, float32))",
        "store(y, 0, T, get_cells(d))",
        "store(y, 4, T, take(get_cells(e), 0, T))",
        "store(y, 8, T, take(get_cells(c), 128, T))",
    )
    np.testing.assert_array_equal(got[:12], [*X[:4], 5, 5, 5, 5, 7, 7, 7, 7])


def test_threads_and_clusters_of_one_meet_at_once() -> None:
    got = result(
        "v = load(x, 0, T)",
        "barrier()",
        "warp_barrier()",
        "cluster_arrive()",
        "cluster_wait()",
        "(w,) = exchange((v,), 0, 1, 1, 1)",
        "store(y, 0, T, w)",
    )
    np.testing.assert_array_equal(got[:4], X[:4])


def test_the_last_block_of_a_group_is_elected_and_cleans_up() -> None:
    """Six blocks in two groups; `result` looks at the counters."""
    got = result("if elect(k, block(0) % 2, 3):", "    store(y, block(0) % 2, O, constant(1.0, float32))", grid=(6,))
    np.testing.assert_array_equal(got[:3], [1, 1, 0])


REFUSED = {
    "axis that no grid has": ("b = block(3)", r"block\(3\): a grid has axes 0 to 2"),
    "axis that is no number": ("b = block(n)", "the axis of a block index"),
    "loop to an array": ("for r in range(x):\n        pass", "range"),
    "spread of another dtype": (
        "store(y, 0, T, full((4,), thread(), float32))",
        "full: a fragment of int32 as float32; use cast",
    ),
    "spread of another shape": (
        "store(y, 0, O, full((1,), load(x, 0, T), float32))",
        r"full: shape \(4,\) does not broadcast to \(1,\)",
    ),
    "spread of an array": ("store(y, 0, T, full((4,), x, float32))", "full"),
    "registers beyond the last": ("store(y, 0, T, take(load(x, 0, T), 1, T))", "take: .* from 1 leaves"),
    "registers of an array": ("store(y, 0, T, take(x, 0, T))", "take"),
    "constant of a fragment": ("store(y, 0, O, constant(thread(), int32))", "constant"),
    "number of several slots": ("s = scalar(load(x, 0, T))", "scalar"),
    "index that is an array": ("s = index64(x)", "index64"),
    "no conditions": ("store(y, 0, O, 1.0, mask=inside())", "inside"),
    "condition that is an array": ("store(y, 0, O, 1.0, mask=inside(x))", "inside"),
    "counter of floats": ("if elect(y, 0, 1):\n        store(y, 0, O, 1.0)", "elect"),
    "cells that hold another shape": ("c = own_cells(float32, (4,), 1)\n    put_cells(c, load(x, 0, P))", "put_cells"),
    "cells that are none": ("store(y, 0, T, get_cells(x))", "get_cells"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, sentence = REFUSED[name]
    with pytest.raises(CompileError, match=sentence):
        build(text_of(body), [*PARAMETERS, size("n")])


# ---------------------------------------------------------------------------------------------- threads


@pytest.fixture
def counted() -> Iterator[tuple[int, Callable[[], list[int]]]]:
    """The address of a C function, and the records that it was called with."""
    found: list[int] = []
    lock = threading.Lock()

    def called(record: int) -> None:
        with lock:
            found.append(record)

    function = threads.KERNEL(called)
    yield ctypes.cast(function, ctypes.c_void_p).value or 0, lambda: found


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[threads._State]:
    """What a process knows of its threads, as in one that has just begun."""
    fresh = threads._State()
    monkeypatch.setattr(threads, "_STATE", fresh)
    yield fresh
    if fresh.pool is not None:
        fresh.pool.shutdown()


def test_after_a_fork_from_openmp_python_s_threads_run_a_launch(counted: Any, state: threads._State) -> None:
    function, calls = counted
    state.orphaned = True
    threads.run_on_threads(function, 7, 3)
    threads.run_on_threads(function, 8, 2)
    assert sorted(calls()) == [7, 7, 7, 8, 8] and state.pool is not None
    assert threads.thread_count() == config.NUMBA_NUM_THREADS


@pytest.mark.parametrize(("layer", "is_orphaned"), [("omp", True), ("tbb", False)])
def test_a_child_knows_which_threads_did_not_come_along(
    layer: str, is_orphaned: bool, state: threads._State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "threading_layer", lambda: layer)
    state.after_fork()
    assert not state.orphaned  # nothing had been started
    state.started = True
    state.after_fork()
    assert state.orphaned is is_orphaned and state.pool is None


def test_one_launch_at_a_time_where_the_layer_takes_no_more(
    counted: Any, state: threads._State, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    state.started = True
    monkeypatch.setattr(threads, "threading_layer", lambda: "workqueue")
    monkeypatch.setattr(threads, "_trampoline", lambda: lambda *launch: held.append(state.lock.locked()))
    threads.run_on_threads(counted[0], 7, 2)
    monkeypatch.setattr(threads, "threading_layer", lambda: "omp")
    threads.run_on_threads(counted[0], 7, 2)
    assert held == [True, False]


def test_one_thread_starts_no_layer(state: threads._State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 1)
    assert threads.thread_count() == 1 and not state.started


@pytest.mark.parametrize("chosen", [None, "active"])
def test_preferences_last_only_while_the_layer_starts(chosen: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", chosen)
    monkeypatch.setattr(config, "THREADING_LAYER", "default")
    monkeypatch.setattr(config, "THREADING_LAYER_PRIORITY", ["tbb", "omp", "workqueue"])
    with threads._preferences():
        assert config.THREADING_LAYER_PRIORITY[0] == "omp"
        assert os.environ["OMP_WAIT_POLICY"] == (chosen or "passive")
    assert config.THREADING_LAYER_PRIORITY == ["tbb", "omp", "workqueue"]
    assert os.environ.get("OMP_WAIT_POLICY") == chosen


def test_a_layer_that_the_user_chose_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "THREADING_LAYER_PRIORITY", ["workqueue", "omp", "tbb"])
    with threads._preferences():
        assert config.THREADING_LAYER_PRIORITY == ["workqueue", "omp", "tbb"]


def test_without_a_folder_for_a_cache_the_trampoline_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def njit(*signature: Any, cache: bool = False, **options: Any) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(threads, "njit", njit)
    assert threads._trampoline.__wrapped__() is threads.run_workers
    assert asked == [True, False]
