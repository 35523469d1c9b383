"""CPU backend against NumPy and torch.compile on memory-bound programs: `python -m benchmarks.cpu`.

Every round times one call of every contender, in turn, so that a busy machine slows all of them alike; a speed-up is
the median over rounds of the ratio within a round.  Before that call the threads of the last contender go to sleep (a
BLAS spins for tens of milliseconds, on a core that the next one needs), and the contender's own wake up.  polyfuse and
NumPy allocate their results, torch.compile writes into preallocated ones.  Results are checked against the same code
in float64 first.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import polyfuse as pf
from benchmarks.cpu_programs import PROGRAMS, Arrays, Program

RESULTS = Path(__file__).parent / "results" / "cpu.json"
PAUSE = 0.1  # seconds: threads that spin after a parallel region go to sleep
WARM = 0.02  # seconds of calls before the one that is timed: what slept is awake

Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """Medians in milliseconds; None without torch."""

    name: str
    kernels: int
    polyfuse: float
    numpy: float
    torch: float | None
    over_numpy: float
    over_torch: float | None


def measured(program: Program, n: int, rounds: int, torch: Any) -> Row:
    """One program, checked and timed."""
    arguments = program.arguments(np.random.default_rng(0), n)
    fused = pf.jit(program.code)
    check(program, arguments, fused(*arguments))
    contenders: dict[str, Run] = {"polyfuse": lambda: fused(*arguments), "numpy": lambda: program.code(*arguments)}
    if torch is not None:
        contenders["torch"] = torch_run(torch, program, arguments, fused(*arguments))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(timed(run))
    return row(program.name, len(fused.plan(*arguments).launches), times)


def row(name: str, kernels: int, times: dict[str, list[float]]) -> Row:
    medians = {contender: statistics.median(found) * 1e3 for contender, found in times.items()}
    ours = times["polyfuse"]

    def ratio(contender: str) -> float:
        return statistics.median(other / mine for other, mine in zip(times[contender], ours, strict=True))

    has_torch = "torch" in times
    return Row(
        name,
        kernels,
        medians["polyfuse"],
        medians["numpy"],
        medians["torch"] if has_torch else None,
        ratio("numpy"),
        ratio("torch") if has_torch else None,
    )


def timed(run: Run) -> float:
    """Seconds of one call, after some that wake everything up; their results are alive no longer."""
    time.sleep(PAUSE)
    awake = time.perf_counter() + WARM
    run()
    while time.perf_counter() < awake:
        run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def check(program: Program, arguments: Arrays, result: Any) -> None:
    """Raises AssertionError where a result is far from float64's."""
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arguments]
    expected = program.code(*wide)
    for mine, exact in zip(as_tuple(result), as_tuple(expected), strict=True):
        scale = float(np.max(np.abs(exact))) or 1.0
        error = float(np.max(np.abs(mine - exact))) / scale
        assert error <= program.tolerance, f"{program.name}: error {error:.1e} of {scale:.3g}"


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def torch_run(torch: Any, program: Program, arguments: Arrays, like: Any) -> Run:
    """The torch program, compiled for these shapes, writing into arrays that exist already."""
    function = program.torch(torch)
    inputs = [torch.from_numpy(a) for a in arguments]
    outputs = [torch.empty(np.shape(a), dtype=torch.float32) for a in as_tuple(like)]

    def write(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for result, output in zip(as_tuple(function(*inputs)), outputs, strict=True):
            output.copy_(result)

    torch._dynamo.reset()
    compiled = torch.compile(write, dynamic=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(inputs, outputs)
    for mine, theirs in zip(as_tuple(like), outputs, strict=True):
        np.testing.assert_allclose(theirs.numpy(), mine, rtol=1e-3, atol=1e-3 * float(np.max(np.abs(mine))))
    return lambda: compiled(inputs, outputs)


def find_torch() -> Any:
    """The torch module, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def results(rows: Sequence[Row], n: int, torch: Any) -> dict[str, Any]:
    """What `benchmarks/readme.py` reads."""
    cells: list[list[Any]] = [
        [r.name, r.kernels, r.polyfuse, r.numpy, blank(r.torch), times(r.over_numpy), times(r.over_torch)] for r in rows
    ]
    means = [times(mean) for mean in mean_ratios(rows)]
    cells.append(["geometric mean", "", "", "", "", *means])
    return {
        "machine": f"{processor()}, {thread_count()} threads, float32, about {n} x {n}",
        "versions": versions(torch),
        "date": datetime.date.today().isoformat(),
        "command": "python -m benchmarks.cpu",
        "columns": ["program", "kernels", "polyfuse ms", "NumPy ms", "torch.compile ms", "over NumPy", "over torch"],
        "rows": cells,
    }


def mean_ratios(rows: Sequence[Row]) -> tuple[float, float | None]:
    """Geometric means of the speed-ups over NumPy and over torch."""
    over_torch = [r.over_torch for r in rows if r.over_torch is not None]
    return geometric_mean([r.over_numpy for r in rows]), geometric_mean(over_torch) if over_torch else None


def blank(value: float | None) -> float | str:
    return "" if value is None else value


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def processor() -> str:
    """The processor's model, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def thread_count() -> int:
    from numba import get_num_threads

    return int(get_num_threads())


def versions(torch: Any) -> str:
    names = ["numpy", "numba", *(["torch"] if torch is not None else [])]
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return f"Python {platform.python_version()}, {found}"


def shown(row: Row) -> str:
    torch = "" if row.torch is None else f"{row.torch:9.2f} ms   {row.over_torch:5.2f}x"
    return (
        f"{row.name:20} {row.kernels:2}   {row.polyfuse:8.2f} ms   {row.numpy:8.2f} ms   {row.over_numpy:5.2f}x {torch}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("programs", nargs="*", help="parts of names; all programs when left out")
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the matrices")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    torch = None if options.no_torch else find_torch()
    chosen = [p for p in PROGRAMS if not options.programs or any(part in p.name for part in options.programs)]
    rows = []
    print(f"{'program':20} kernels    polyfuse         NumPy      ratio   torch.compile  ratio")
    for program in chosen:
        rows.append(measured(program, options.size, options.rounds, torch))
        print(shown(rows[-1]), flush=True)
    over_numpy, over_torch = mean_ratios(rows)
    print(f"geometric mean: {over_numpy:.2f}x over NumPy, {times(over_torch) or 'no'} over torch.compile")
    if options.keep:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results(rows, options.size, torch), indent=1) + "\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
