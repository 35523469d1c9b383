"""A fork in the middle of anything leaves a child that works."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def exit_code(child: Callable[[], None]) -> int:
    """Run `child` in a forked process; its exit status, or -1 where it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads: they are the point
        process = os.fork()
    if process == 0:
        status = 1
        try:
            child()
            status = 0
        finally:
            os._exit(status)
    timer = threading.Timer(60, os.kill, (process, 9))
    timer.start()
    _, status = os.waitpid(process, 0)
    timer.cancel()
    return os.waitstatus_to_exitcode(status)


def double(x):
    return x * 2


def test_a_child_uses_and_makes_plans(jit: Jit) -> None:
    f, x = jit(double), np.ones((3, 4), np.float32)
    f(x)

    def child() -> None:
        assert (f(x) == 2).all()
        assert (jit(lambda x: x + 5)(x) == 6).all()

    assert exit_code(child) == 0


def test_a_fork_waits_for_a_planning_thread(jit: Jit) -> None:
    begun = threading.Event()

    def slow(x):
        begun.set()
        threading.Event().wait(0.3)
        return x * 3

    f, x = jit(slow), np.ones(5, np.float32)
    planning = threading.Thread(target=f, args=(x,))
    planning.start()
    begun.wait()
    assert exit_code(lambda: f(x)) == 0
    planning.join()


@pf.jit(backend="interpreter")
def tripled(x):
    return x * 3


def test_functions_of_modules_go_to_other_processes_by_name(jit: Jit) -> None:
    assert pickle.loads(pickle.dumps({"f": tripled}))["f"] is tripled
    assert copy.deepcopy(tripled) is tripled
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(jit(lambda x: x))
