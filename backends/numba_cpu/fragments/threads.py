"""Running one C function on several threads at once, through Numba's threading layer.

One parallel trampoline serves every kernel: each of its iterations calls ``function(record)``, and the function itself
takes work from the record until none is left.  Uneven blocks and busy cores therefore balance, whatever the layer.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir
from numba import config, get_num_threads, njit, prange, threading_layer
from numba.core import types
from numba.extending import intrinsic as numba_intrinsic
from numba.np.ufunc import parallel as numba_parallel

from polyfuse.backends.numba_cpu.fragments.object_code import KERNEL


@numba_intrinsic
def call_address(context: Any, address: Any, record: Any) -> Any:
    """Call the C function at `address` with the address `record`."""

    def lower(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = builder.inttoptr(arguments[0], ir.FunctionType(ir.VoidType(), [ir.IntType(64)]).as_pointer())
        builder.call(function, [arguments[1]])
        return target.get_dummy_value()

    return types.void(types.int64, types.int64), lower


def run_workers(address: int, record: int, workers: int) -> None:
    """`workers` concurrent calls."""
    for _ in prange(workers):
        call_address(address, record)


class _State:
    """What this process knows of its threading layer.  A forked child must not touch its parent's OpenMP threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.started = False
        self.orphaned = False
        self.pool: ThreadPoolExecutor | None = None

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        self.orphaned = self.orphaned or (self.started and threading_layer() == "omp")
        self.pool = None


_STATE = _State()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_STATE.after_fork)


@contextmanager
def _preferences() -> Iterator[None]:
    """OpenMP first where the user chose no layer, with threads that sleep when idle: spinning ones slow down the next
    BLAS call (measured).  Both are read once, when the layer starts, and restored."""
    priority, environment = config.THREADING_LAYER_PRIORITY, os.environ.get("OMP_WAIT_POLICY")
    if config.THREADING_LAYER == "default" and priority == ["tbb", "omp", "workqueue"]:
        config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        yield
    finally:
        config.THREADING_LAYER_PRIORITY = priority
        if environment is None:
            os.environ.pop("OMP_WAIT_POLICY", None)


@cache
def _trampoline() -> Callable[[int, int, int], None]:
    """The compiled trampoline; from Numba's cache where one can be written."""
    options = {"parallel": True, "nogil": True, "error_model": "numpy"}
    signature = types.void(types.int64, types.int64, types.int64)
    try:
        compiled = njit(signature, cache=True, **options)(run_workers)
    except (RuntimeError, OSError):  # no directory for the cache
        compiled = njit(signature, **options)(run_workers)
    function: Callable[[int, int, int], None] = compiled
    return function


def _start() -> None:
    if _STATE.started:
        return
    with _STATE.lock:
        if not _STATE.started:
            with _preferences():
                numba_parallel._launch_threads()
                _trampoline()
            _STATE.started = True


def thread_count() -> int:
    """How many threads a launch may use: NUMBA_NUM_THREADS, or what numba.set_num_threads chose."""
    if config.NUMBA_NUM_THREADS == 1:
        return 1
    if _STATE.orphaned:
        return int(config.NUMBA_NUM_THREADS)
    _start()
    return int(get_num_threads())


def run_on_threads(address: int, record: int, workers: int) -> None:
    """Call the C function at `address` with `record` on `workers` threads and wait for all of them."""
    if _STATE.orphaned:
        _run_on_python_threads(address, record, workers)
        return
    _start()
    if threading_layer() == "workqueue":  # not reentrant: a second launch at the same time would abort the process
        with _STATE.lock:
            _trampoline()(address, record, workers)
        return
    _trampoline()(address, record, workers)


def _run_on_python_threads(address: int, record: int, workers: int) -> None:
    """After a fork from a process whose OpenMP threads were running: these no longer exist in the child."""
    with _STATE.lock:
        if _STATE.pool is None:
            _STATE.pool = ThreadPoolExecutor(int(config.NUMBA_NUM_THREADS), thread_name_prefix="polyfuse")
    function = KERNEL(address)
    others = [_STATE.pool.submit(function, record) for _ in range(workers - 1)]
    function(record)
    for other in others:
        other.result()
