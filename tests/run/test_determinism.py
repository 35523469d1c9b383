"""Same inputs, same bits: from call to call, process to process, whatever the order of blocks or the number of threads;
and a row's result does not depend on how many rows there are."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan

ROOT = Path(__file__).parents[2]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x):
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5)


def losses(x):
    return pf.logsumexp(x, axis=-1) - x[:, 0]


def totals(x):
    return x.sum(), (x * x).sum(axis=0), x.mean(axis=1)


def prefix(x):
    return np.cumsum(x, axis=1), x.argmax(axis=1)


def product(x):
    return x.T @ x


ROWS: list[Callable[..., Any]] = [softmax, layer_norm, losses]
PROGRAMS = [*ROWS, totals, prefix, product]


def values(rows: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
    """Of many magnitudes, so that every order of addition has bits of its own."""
    rng = np.random.default_rng(3)
    return (rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(-3, 4, (rows, columns))).astype(dtype)


def bits(result: Any) -> bytes:
    results = result if isinstance(result, tuple) else (result,)
    return b"".join(np.ascontiguousarray(r).tobytes() for r in results)


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_order_of_blocks_changes_no_bit(program: Callable[..., Any], target: str) -> None:
    x = values(37, 300)
    plan = pf.jit(program).plan(x, target=target)
    found = {b"".join(o.tobytes() for o in run_plan(plan, [x.copy()], seed=seed)) for seed in (None, 0, 1)}
    assert len(found) == 1


def test_orders_of_addition_would_show() -> None:
    """The inputs above tell orders apart: otherwise the tests here would assert nothing."""
    x = values(37, 300)
    assert x.sum() != x[::-1].sum() or x.sum() != np.float32(sum(x.ravel().tolist()))


@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_and_compilations_repeat_every_bit(program: Callable[..., Any]) -> None:
    x = values(700, 130)
    first, second = pf.jit(program), pf.jit(program)
    found = {bits(f(x.copy())) for f in (first, first, second) for _ in range(2)}
    assert len(found) == 1


SCRIPT = """
import numpy as np, polyfuse as pf, hashlib
from tests.run import test_determinism as t
for program in t.PROGRAMS:
    print(hashlib.sha256(t.bits(pf.jit(program)(t.values(700, 130)))).hexdigest())
"""


@pytest.mark.slow
def test_processes_with_other_numbers_of_threads_repeat_every_bit() -> None:
    here = [hashlib.sha256(bits(pf.jit(p)(values(700, 130)))).hexdigest() for p in PROGRAMS]
    for threads in ("1", "3"):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": threads, "POLYFUSE_CACHE": "off"}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == here


@pytest.mark.parametrize("columns", [257, 1000])
@pytest.mark.parametrize("program", ROWS)
def test_a_row_does_not_depend_on_the_number_of_rows(program: Callable[..., Any], columns: int) -> None:
    x = values(3000, columns)
    f = pf.jit(program)
    whole = f(x)
    for rows in (1, 2, 3, 17, 64, 65, 300, 1025):
        assert bits(f(x[:rows].copy())) == bits(whole[:rows]), f"{rows} rows"


@pytest.mark.parametrize("program", ROWS)
def test_a_row_of_a_gpu_plan_does_not_depend_on_the_number_of_rows(program: Callable[..., Any]) -> None:
    x = values(130, 500)
    whole = None
    for rows in (130, 66, 17, 2, 1):
        plan = pf.jit(program).plan(x[:rows], target="h200")
        (found,) = run_plan(plan, [x[:rows].copy()])
        whole = found if whole is None else whole
        assert found.tobytes() == whole[:rows].tobytes(), f"{rows} rows"
