"""Every strategy on the card against float64, over random sizes, layouts and dtypes; then a short table of times.

    python tests/gpu/program_check.py [--seconds 200] [--time]

Prints one line per program and exits non-zero on a mismatch.  Outputs are poisoned by the allocator's reuse of buffers
filled with NaN before each call.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import polyfuse as pf


@dataclass(frozen=True)
class Case:
    """`sizes` draws the argument shapes; `reference` is plain NumPy in float64."""

    name: str
    function: Callable[..., Any]
    shapes: Callable[[random.Random], list[tuple[int, ...]]]
    dtypes: tuple[str, ...] = ("float32", "float64", "bfloat16", "float16")
    integers: tuple[int, ...] = ()
    tolerance: float = 1.0
    positive: bool = field(default=False)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x, g, b):
    mu = x.mean(axis=-1, keepdims=True)
    d = x - mu
    var = (d * d).mean(axis=-1, keepdims=True)
    return d / np.sqrt(var + 1e-5) * g + b


def jacobi(x):
    return 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


def size(rng: random.Random) -> int:
    return rng.choice([1, 2, 3, 7, 31, 32, 33, 64, 100, 128, 255, 256, 257, 1000, 1023, 1024, 1025, 2048, 3001])


def matrix(rng: random.Random) -> tuple[int, int]:
    return size(rng), size(rng)


def same(count: int) -> Callable[[random.Random], list[tuple[int, ...]]]:
    return lambda rng: [matrix(rng)] * count


def rows_with(vectors: int) -> Callable[[random.Random], list[tuple[int, ...]]]:
    def draw(rng: random.Random) -> list[tuple[int, ...]]:
        m, n = matrix(rng)
        return [(m, n), *[(n,)] * vectors]

    return draw


def product(rng: random.Random) -> list[tuple[int, ...]]:
    m, n, k = (rng.choice([1, 5, 16, 33, 64, 100, 128, 130, 257]) for _ in range(3))
    return [(m, k), (k, n), (n,)]


def bordered(rng: random.Random) -> list[tuple[int, ...]]:
    return [(5 + size(rng), 5 + size(rng))]


def square(rng: random.Random) -> list[tuple[int, ...]]:
    n = size(rng)
    return [(n, n), (n, n)]


CASES = (
    Case("chain", lambda x, y: 1 / (1 + np.exp(-(np.maximum((x + y) * 2, 0) - 1))), same(2)),
    Case("bias", lambda x, b: np.maximum(x * 2 + b, 0), rows_with(1)),
    Case("softmax", softmax, same(1)),
    Case("layernorm", layernorm, rows_with(2), tolerance=16),  # rows of equal elements: 1/sqrt(1e-5) scales rounding
    Case("column sum", lambda x: (x * x).sum(axis=0), same(1), tolerance=4),
    Case("row sum", lambda x: x.sum(axis=1), same(1), tolerance=4),
    Case("everything", lambda x, y: ((x - y) ** 2).mean(), same(2), tolerance=4),
    Case("share of sum", lambda x: x / (x * x).sum(), same(1), tolerance=4),
    Case("standardise", lambda x: (x - x.mean(axis=0)) / (x.std(axis=0) + 0.5), same(1), tolerance=4),
    Case("transposed add", lambda x, y: x + y.T, square),
    Case("cumsum", lambda x: np.cumsum(x, axis=1), same(1), tolerance=8),
    Case("cumsum down", lambda x: np.cumsum(x, axis=0), same(1), tolerance=8),
    Case("two stencils", lambda x: jacobi(jacobi(x)), bordered),
    Case("linear", lambda x, w, b: np.maximum(x @ w + b, 0), product, tolerance=4),
    Case("argmax", lambda x: x.argmax(axis=1), same(1), dtypes=("float32", "int32")),
    Case("concatenate", lambda x, y: np.concatenate([x, y], axis=1) * 2, same(2)),
    Case("strided", lambda x, y: x[::2] + y[: (x.shape[0] + 1) // 2], same(2)),
    Case("flipped", lambda x: x[::-1, ::-1] * 2 + x, same(1)),
    Case("integers", lambda x, y: (x * 3 - y) // 7 + (x & 5), same(2), dtypes=("int32", "int64", "int16", "uint8")),
    Case("both ways", lambda a: (a.sum(axis=0), a.sum(axis=1)), same(1), tolerance=4),
)

EPSILON = {"float64": 1e-12, "float32": 3e-6, "float16": 3e-3, "bfloat16": 2.5e-2}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, layout: str) -> torch.Tensor:
    """A fresh tensor on the card: contiguous, transposed, strided or misaligned."""
    kind = getattr(torch, dtype)
    wide = list(shape)
    if layout == "strided" and wide:
        wide[-1] *= 2
    if layout == "misaligned" and wide:
        wide[-1] += 1
    if layout == "transposed":
        wide = wide[::-1]
    values = (
        rng.integers(1, 50, wide)
        if kind in (torch.int16, torch.int32, torch.int64, torch.uint8)
        else (rng.standard_normal(wide))
    )
    found = torch.from_numpy(np.asarray(values)).to(kind).cuda()
    if layout == "strided" and shape:
        return found[..., ::2]
    if layout == "misaligned" and shape:
        return found[..., 1:]
    return found.permute(*range(found.ndim - 1, -1, -1)) if layout == "transposed" else found


def host(t: torch.Tensor) -> np.ndarray:
    found = t.detach().cpu()
    return found.to(torch.float64).numpy() if found.is_floating_point() else found.numpy()


def check(case: Case, rng: random.Random, numbers: np.random.Generator) -> str:
    shapes = case.shapes(rng)
    dtype = rng.choice(case.dtypes)
    layouts = [rng.choice(["plain", "plain", "plain", "transposed", "strided", "misaligned"]) for _ in shapes]
    arguments = [draw(numbers, s, dtype, k) for s, k in zip(shapes, layouts, strict=True)]
    poison = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(2)]
    del poison
    got = JITTED[case.name](*arguments)
    want = case.function(*[host(a) for a in arguments])
    results = list(zip(got, want, strict=True)) if isinstance(got, tuple) else [(got, want)]
    worst = 0.0
    for g, w in results:
        found, expected = host(g), np.asarray(w)
        assert found.shape == expected.shape, f"shape {found.shape}, not {expected.shape}"
        if expected.dtype.kind in "iub":
            assert (found == expected.astype(found.dtype)).all(), "integers differ"
            continue
        scale = np.maximum(np.abs(expected), np.abs(expected).max(initial=0.0) * 0.1) + 1e-3
        worst = max(worst, float((np.abs(found - expected) / scale).max(initial=0.0)))
        assert not np.isnan(found).any() or np.isnan(expected).any(), "NaN in the result"
    limit = EPSILON.get(dtype, 0.0) * case.tolerance * (1 + max((max(s, default=1) for s in shapes), default=1) / 500)
    assert worst <= limit or dtype not in EPSILON, f"error {worst:.2e} > {limit:.2e}"
    return f"{case.name:15s} {dtype:9s} {shapes} {layouts} error {worst:.1e}"


JITTED = {case.name: pf.jit(case.function) for case in CASES}


def timed(function: Callable[[], Any], repeats: int = 15) -> float:
    for _ in range(3):
        function()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for first, last in pairs:
        first.record()
        function()
        last.record()
    torch.cuda.synchronize()
    return 1e3 * float(np.median([a.elapsed_time(b) for a, b in pairs]))


def times() -> None:
    """Microseconds on large inputs, beside the bytes that the program must move."""
    r = lambda *s, dt=torch.float32: torch.randn(*s, device="cuda", dtype=dt)  # noqa: E731
    programs = {
        "chain": (r(16384, 16384), r(16384, 16384)),
        "bias": (r(16384, 8192), r(8192)),
        "softmax": (r(16384, 4096),),
        "layernorm": (r(16384, 4096), r(4096), r(4096)),
        "column sum": (r(16384, 16384),),
        "row sum": (r(16384, 16384),),
        "everything": (r(16384, 16384), r(16384, 16384)),
        "standardise": (r(16384, 8192),),
        "transposed add": (r(8192, 8192), r(8192, 8192)),
        "two stencils": (r(8192, 8192),),
        "linear": (r(4096, 4096), r(4096, 4096), r(4096)),
        "cumsum": (r(16384, 4096),),
        "concatenate": (r(8192, 4096), r(8192, 8192)),
        "strided": (r(32768, 8192), r(16384, 8192)),
        "argmax": (r(16384, 8192),),
        "both ways": (r(16384, 8192),),
    }
    for name, arguments in programs.items():
        try:
            function = JITTED[name]
            start = time.perf_counter()
            out = function(*arguments)
            torch.cuda.synchronize()
            cold = time.perf_counter() - start
            outs = out if isinstance(out, tuple) else (out,)
            moved = sum(t.numel() * t.element_size() for t in (*arguments, *outs))
            us = timed(lambda: function(*arguments))  # noqa: B023
            print(f"{name:15s} {us:9.1f} us  {moved / us / 1e3:7.0f} GB/s   first call {cold:.2f} s", flush=True)
        except Exception as error:  # a timing table must not hide the other lines
            print(f"{name:15s} FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)


def host_times() -> None:
    """Microseconds of host time per call in the steady state, outputs allocated."""
    small = torch.randn(32, 32, device="cuda")
    for name, arguments in {"chain": (small, small), "softmax": (small,), "bias": (small, small[0])}.items():
        function = JITTED[name]
        for _ in range(20):
            function(*arguments)
        torch.cuda.synchronize()
        spans = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(200):
                function(*arguments)
            spans.append((time.perf_counter() - start) / 200)
            torch.cuda.synchronize()
        print(f"{name:15s} {1e6 * float(np.median(spans)):6.2f} us of host time per call", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    rng, numbers = random.Random(options.seed), np.random.default_rng(options.seed)
    start, done, failed = time.time(), 0, 0
    while time.time() - start < options.seconds:
        case = CASES[done % len(CASES)]
        done += 1
        try:
            line = check(case, rng, numbers)
            if done <= len(CASES):
                print("ok  ", line, flush=True)
        except Exception as error:
            failed += 1
            print("FAIL", case.name, type(error).__name__, str(error)[:400], flush=True)
            if failed <= 4:
                traceback.print_exc(limit=-4)
    print(f"{done} programs, {failed} failed, {time.time() - start:.0f} s", flush=True)
    if options.time:
        times()
        host_times()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
