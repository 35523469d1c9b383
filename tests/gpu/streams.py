"""The same bits whatever the stream, and whatever runs beside: `python -m tests.gpu.streams`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import polyfuse as pf

Torch = Any
STREAMS = 6
ROUNDS = 8


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sum by the last block": (lambda x: (x * x).sum(), ((2051, 1027),)),
    "column sum by the last block": (lambda x: x.sum(axis=0), ((20011, 67),)),
    "both ways": (lambda a: (a.sum(axis=0), a.sum(axis=1)), ((1031, 2053),)),
    "rows": (softmax, ((517, 3001),)),
    "several kernels": (lambda x: x / np.sqrt((x * x).sum()), ((2051, 1027),)),
    "normal equations": (lambda a, x: a.T @ (a @ x), ((1031, 2053), (2053,))),
    "running sums": (lambda x: np.cumsum(x, axis=1), ((517, 3001),)),
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


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def main() -> int:
    import torch

    failed = 0
    for name in PROGRAMS:
        try:
            check(torch, name)
            outcome = "ok"
        except Exception as error:  # one line of a list
            outcome, failed = f"FAIL {type(error).__name__}: {str(error)[:300]}", failed + 1
        print(f"streams {name:30s} {outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
