"""Lists of small arrays: one launch of kernels side by side, beside a kernel per array and beside torch.

    python -m benchmarks.side_by_side [--save FILE]

Programs: an Adam step over the parameters of ResNet-18 and over those of a small perceptron, sums of squares of twelve
arrays, row maxima of three matrices.  Per contender: time of a replayed CUDA graph, of a call, launches of a plan.
Needs a CUDA device and torch.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.text.apply import apply_text

Shapes = Sequence[tuple[int, ...]]


def resnet18() -> list[tuple[int, ...]]:
    """The shapes of the 62 parameters."""
    found: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    width = 64
    for wide in (64, 64, 128, 128, 256, 256, 512, 512):
        found += [(wide, width, 3, 3), (wide,), (wide,), (wide, wide, 3, 3), (wide,), (wide,)]
        if width != wide:
            found += [(wide, width, 1, 1), (wide,), (wide,)]
        width = wide
    return [*found, (1000, 512), (1000,)]


PERCEPTRON: Shapes = [(784, 256), (256,), (256, 128), (128,), (128, 64), (64,), (64, 10), (10,)]
MATRICES: Shapes = [(100, 512), (333, 520), (77, 640)]


def adam(ps: Sequence[Any], gs: Sequence[Any], ms: Sequence[Any], vs: Sequence[Any]) -> list[Any]:
    """New parameters, means and variances."""
    out = []
    for p, g, m, v in zip(ps, gs, ms, vs, strict=True):
        mean = 0.9 * m + 0.1 * g
        variance = 0.999 * v + 0.001 * g * g
        out += [p - 0.001 * mean / (variance**0.5 + 1e-8), mean, variance]
    return out


def squares(xs: Sequence[Any]) -> list[Any]:
    return [(x * x).sum() for x in xs]


def maxima(xs: Sequence[Any]) -> list[Any]:
    return [np.max(x, axis=1) for x in xs]


def torch_maxima(xs: Sequence[Any]) -> list[Any]:
    return [x.amax(dim=1) for x in xs]


PROGRAMS: dict[str, tuple[Callable[..., list[Any]], Callable[..., list[Any]], Shapes, int]] = {
    "Adam, ResNet-18": (adam, adam, resnet18(), 4),
    "Adam, perceptron": (adam, adam, PERCEPTRON, 4),
    "sums of squares of twelve": (squares, squares, [(1000 + 700 * k,) for k in range(12)], 1),
    "row maxima of three": (maxima, torch_maxima, MATRICES, 1),
}
"""By name: what we run, what torch runs, shapes, and how many lists of them it takes."""


def apart(plan: pf.Plan) -> pf.Plan:
    """The same kernels, each a launch of its own: a plan is a text, and this one says so."""
    return apply_text(str(plan).replace("\nbeside ", "\n\nkernel "), plan)


def contenders(torch: Any, name: str, given: Sequence[list[Any]]) -> dict[str, tuple[Callable[..., Any], int]]:
    """What is called, and how many kernels that launches; 0 where that is not ours to know."""
    ours, theirs, _, _ = PROGRAMS[name]
    jitted = pf.jit(ours)
    lowered = jitted.lower(*given)
    loose = replace(lowered, plan=apart(lowered.plan))
    return {
        "a launch each": (loose.compile(), len(loose.plan.steps)),
        "side by side": (jitted, len(lowered.plan.steps)),
        "torch": (theirs, 0),
        "torch.compile": (torch.compile(theirs, dynamic=False), 0),
    }


def replayed(torch: Any, call: Callable[[], Any]) -> float:
    """Median microseconds of one replay of the call as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()
    found = median(torch, graph.replay)
    del kept
    return found


def median(torch: Any, call: Callable[[], Any], repeats: int = 21, together: int = 20) -> float:
    """Microseconds of one call among `together` in a row, with the host's share: the median of `repeats`."""
    found = []
    for _ in range(repeats + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(together):
            call()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - start) / together)
    return 1e6 * statistics.median(found[3:])


def run() -> list[dict[str, Any]]:
    """One row per program and contender.  Raises AssertionError for a wrong result."""
    import torch

    rows = []
    for name, (_, theirs, shapes, lists) in PROGRAMS.items():
        given = [[torch.rand(shape, device="cuda") for shape in shapes] for _ in range(lists)]
        exact = theirs(*[[a.double() for a in arrays] for arrays in given])
        for contender, (call, launches) in contenders(torch, name, given).items():
            result = call(*given)
            error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(result, exact, strict=True))
            assert error < 1e-5, f"{contender} of {name}: error {error:.1e}"
            once = partial(call, *given)
            times = {"graph": replayed(torch, once), "call": median(torch, once)}
            rows.append({"program": name, "contender": contender, "launches": launches, "microseconds": times})
            print(rows[-1], flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side_by_side", description=__doc__)
    parser.add_argument("--save", help="results file to write")
    arguments = parser.parse_args()
    rows = run()
    if arguments.save:
        from benchmarks.gpu import device_name, versions

        record = {
            "machine": device_name(),
            "versions": versions(),
            "date": datetime.date.today().isoformat(),
            "command": "python -m benchmarks.side_by_side " + " ".join(sys.argv[1:]),
            "rows": rows,
        }
        Path(arguments.save).write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
