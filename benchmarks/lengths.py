"""Rows of any length beside the copy speed: `python -m benchmarks.lengths [--only REGEX] [--save FILE]`.

Needs a CUDA device and torch.

Softmax, sums and layernorm of 268 MB in rows of lengths that are no model's: every result is checked against float64 on
its last rows, then timed as `benchmarks.gpu` does.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import polyfuse as pf

BYTES = 268_000_000
CHECKED = 64  # rows


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layernorm(x: Any, g: Any, b: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * g + b


def sums(x: Any) -> Any:
    return x.sum(axis=1)


SHORT, MIDDLE, LONG = (10, 37, 50, 66, 101, 130, 200), (300, 301, 515, 1030, 1100), (1540, 2050, 2051, 3001, 5002, 5004)
CASES: tuple[tuple[Callable[..., Any], str, tuple[int, ...]], ...] = (
    (softmax, "float32", (*SHORT, *MIDDLE, *LONG, 10004)),
    (softmax, "bfloat16", (66, 101, 300, 1100, 2051, 5004)),
    (sums, "float32", (101, 300, 1100, 2051)),
    (layernorm, "float32", (300, 1100, 2051)),
)


def measured(function: Callable[..., Any], dtype: str, length: int, speed: float) -> dict[str, Any]:
    """One row of the record: microseconds, the floor at `speed` bytes/s, the largest error and what was planned."""
    import torch

    from benchmarks.gpu import microseconds

    rows = BYTES // (length * getattr(torch, dtype).itemsize)
    x = torch.randn(rows, length, device="cuda").to(getattr(torch, dtype))
    others = [torch.randn(length, device="cuda") for _ in range(2 if function is layernorm else 0)]
    jitted = pf.jit(function)
    result = jitted(x, *others)
    exact = function(x[-CHECKED:].double().cpu().numpy(), *[o.double().cpu().numpy() for o in others])
    error = np.abs(result[-CHECKED:].double().cpu().numpy() - exact).max() / np.abs(exact).max()
    moved = x.numel() * x.element_size() + result.numel() * result.element_size()
    taken, spread = microseconds([lambda: jitted(x, *others)], 21)
    (kernel,) = jitted.plan(x, *others).kernels
    return {
        **{"program": function.__name__, "dtype": dtype, "length": length, "floor": round(1e6 * moved / speed, 1)},
        **{"polyfuse": round(taken, 1), "spread": round(spread, 1), "error": float(f"{error:.1e}")},
        "plan": f"{kernel.strategy} {dict(kernel.schedule.parameters)}",
    }


def main() -> int:
    from benchmarks.gpu import copy_bandwidth, device_name, versions

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="regular expression over `program dtype length`")
    parser.add_argument("--save", type=Path, help="results file to write")
    arguments = parser.parse_args()
    speed, found = copy_bandwidth(), []
    for function, dtype, lengths in CASES:
        for length in lengths:
            if re.search(arguments.only, f"{function.__name__} {dtype} {length}"):
                found.append(measured(function, dtype, length, speed))
                print(found[-1], flush=True)
    if arguments.save:
        head = {"machine": device_name(), "versions": versions(), "date": datetime.date.today().isoformat()}
        command = "python -m benchmarks.lengths " + " ".join(sys.argv[1:])
        record = {**head, "command": command, "unit": "microseconds", "copy_bytes_per_second": speed, "rows": found}
        arguments.save.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
