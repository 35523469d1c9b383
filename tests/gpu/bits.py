"""The same bits on a CUDA device, whatever the stream and what runs beside, and for any number of rows where that is
asked for: `python -m tests.gpu.bits`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import polyfuse as pf
from tests.gpu.listed import run_checks

Torch = Any
STREAMS = 6
ROUNDS = 8


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def linear(x, w):
    return np.maximum(x @ w, 0)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sum by the last block": (lambda x: (x * x).sum(), ((2051, 1027),)),
    "column sum by the last block": (lambda x: x.sum(axis=0), ((20011, 67),)),
    "both ways": (lambda a: (a.sum(axis=0), a.sum(axis=1)), ((1031, 2053),)),
    "rows": (softmax, ((517, 3001),)),
    "several kernels": (lambda x: x / np.sqrt((x * x).sum()), ((2051, 1027),)),
    "normal equations": (lambda a, x: a.T @ (a @ x), ((1031, 2053), (2053,))),
    "running sums": (lambda x: np.cumsum(x, axis=1), ((517, 3001),)),
    "a running sum from block to block": (lambda x: np.cumsum(x), ((3000001,),)),
    "running sums of columns from block to block": (lambda x: np.cumsum(x, axis=0), ((5003, 1031),)),
}


def check(torch: Torch, name: str) -> None:
    """Calls on several streams at once, beside a kernel that keeps the device busy; raises AssertionError."""
    function, shapes = PROGRAMS[name]
    jitted = pf.jit(function, library=False)
    torch.manual_seed(0)
    arguments = [torch.randn(shape, device="cuda") for shape in shapes]
    wanted = [t.clone() for t in as_tuple(jitted(*arguments))]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]
    noise = torch.randn(1 << 24, device="cuda")
    found = []
    for k in range(ROUNDS):
        for stream in streams:
            with torch.cuda.stream(stream):
                if k % 2:
                    noise.mul(1.5)
                found.append(as_tuple(jitted(*arguments)))
    torch.cuda.synchronize()
    for results in found:
        for result, first in zip(results, wanted, strict=True):
            assert torch.equal(result.view(torch.int32), first.view(torch.int32)), f"{name}: other bits"


OF_ROWS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "softmax": (softmax, (37, 3001, 4096, 40000)),
    "sums": (lambda x: (x.sum(axis=1), x.std(axis=1)), (513, 4096, 200000)),
    "linear": (linear, (96, 1000)),
    "running sums": (lambda x: np.cumsum(x, axis=1), (37, 3001)),
}
"""Functions of a matrix, and lengths of its rows."""


def check_rows(torch: Torch, name: str) -> None:
    """Rows of calls of 17 to 2,000 in calls of fewer; raises AssertionError."""
    function, lengths = OF_ROWS[name]
    jitted = pf.jit(function, batch_invariant=True)
    torch.manual_seed(0)
    for length in lengths:
        rows = min(2000, max(17, (1 << 24) // length))
        x = torch.randn(rows, length, device="cuda")
        others = [torch.randn(length, 17, device="cuda")] if name == "linear" else []
        whole = [t.clone() for t in as_tuple(jitted(x, *others))]
        for first, count in ((0, 1), (3, 1), (1, 2), (5, 7), (0, rows // 2)):
            part = as_tuple(jitted(x[first : first + count], *others))
            for a, b in zip(part, whole, strict=True):
                same = torch.equal(a.view(torch.int32), b[first : first + count].contiguous().view(torch.int32))
                assert same, f"{name}: other bits in {count} rows of {length}"


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


CHECKS = {
    **{f"{name}, on any stream": partial(check, name=name) for name in PROGRAMS},
    **{f"{name}, in any number of rows": partial(check_rows, name=name) for name in OF_ROWS},
}


def main() -> int:
    return run_checks("tests.gpu.bits", "the same bits on any stream, and for any number of rows", CHECKS)


if __name__ == "__main__":
    sys.exit(main())
