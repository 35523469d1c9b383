"""What the first call of a program costs: `python -m benchmarks.compile`.

Each lane is measured in processes of its own, the smallest of several runs counting, in seconds of processor time, that
of an assembler included: other work on the machine does not count.

    cold          plan, and Numba with LLVM (and ptxas where there is one), behind the first compilation of a process
    warm          the first call in a process that finds the plan on disk, behind the first such call
    import        `import polyfuse` alone; then the first warm call, with all that it imports and the start of threads

Cold figures exist for the CPU and, ahead of time, for CUDA (no device needed; without ptxas they end with PTX); of all
programs of other benchmarks, in `benchmarks.compile_programs`.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "compile.json"
ROUNDS = 5
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """`code` over arrays of `shapes`; `limit`: seconds that a cold compilation may take."""

    name: str
    code: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    limit: float = 0.3


def chain(x: Any, y: Any) -> Any:
    import numpy as np

    return 1 / (1 + np.exp(-(np.maximum((x + y) * 2, 0) - 1)))


def softmax(x: Any) -> Any:
    import numpy as np

    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layernorm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred * (variance + 1e-5) ** -0.5 * gain + bias


def column_sum(x: Any) -> Any:
    return x.sum(axis=0)


def transposed_add(x: Any, y: Any) -> Any:
    return x + y.T


def two_jacobi_steps(x: Any) -> Any:
    for _ in range(2):
        x = (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.2
    return x


def dense(x: Any, w: Any, b: Any) -> Any:
    import numpy as np

    return np.maximum(x @ w + b, 0)


N = 512
CASES = (
    Case("sigmoid chain", chain, ((N, N), (N, N))),
    Case("softmax of rows", softmax, ((N, N),)),
    Case("layernorm", layernorm, ((N, N), (N,), (N,))),
    Case("column sum", column_sum, ((N, N),)),
    Case("x + y.T", transposed_add, ((N, N), (N, N)), 0.8),
    Case("two Jacobi steps", two_jacobi_steps, ((N, N),), 0.8),
    Case("relu(x @ w + b)", dense, ((N, N), (N, N), (N,)), 0.8),
)


# ---------------------------------------------------------------------------------------------- in a child


@contextlib.contextmanager
def stopwatch(found: Figures, name: str) -> Iterator[None]:
    """Adds seconds of processor time, of this process and those that it started, under `name`."""
    start = processor_seconds()
    yield
    found[name] = processor_seconds() - start


def processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def ahead_of_time(cases: Sequence[Case]) -> Figures:
    """Plan and compile each case for an H200."""
    import polyfuse as pf
    from polyfuse.backends.numba_cuda.assemble import find_ptxas

    pf.jit(lambda x: x + 1).compile(pf.spec("f32[N]"), target="h200")
    found: Figures = {"ends with": "machine code" if find_ptxas() else "PTX"}
    for case in cases:
        specs = [pf.spec(f"f32[{', '.join(map(str, shape))}]") for shape in case.shapes]
        with stopwatch(found, f"{case.name} plan"):
            lowered = pf.jit(case.code).lower(*specs, target="h200")
        with stopwatch(found, f"{case.name} compile"):
            lowered.compile()
    return found


def first_calls(cases: Sequence[Case]) -> Figures:
    """The first call of each case on the CPU, with the disk cache that the environment names; counts of work done."""
    found: Figures = {}
    with stopwatch(found, "import"):
        import polyfuse as pf
    import numpy as np

    with stopwatch(found, "first call"):
        pf.jit(lambda x: x + 1)(np.ones((N, N), np.float32))
    for case in cases:
        arrays = [np.ones(shape, np.float32) for shape in case.shapes]
        function = pf.jit(case.code)
        with stopwatch(found, f"{case.name} call"):
            function(*arrays)
        info = function.cache_info()
        found[f"{case.name} work"] = (info.plans, info.compilations, info.loads)
    found["modules"] = sorted(m for m in ("islpy", "polyfuse.planning.planner", "sympy") if m in sys.modules)
    return found


# ---------------------------------------------------------------------------------------------- in the parent


def child(lane: str, cache: str, cases: int = len(CASES)) -> Figures:
    """The figures of one lane in a fresh process, for the first `cases`."""
    environment = {**os.environ, "POLYFUSE_CACHE": cache}
    command = [sys.executable, "-m", "benchmarks.compile", "--child", lane, "--cases", str(cases)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def smallest(runs: list[Figures]) -> Figures:
    """The least of every time; what is no time is of the last run."""
    return {name: min(run[name] for run in runs) if isinstance(v, float) else v for name, v in runs[-1].items()}


def measure(rounds: int, cuda: bool) -> Figures:
    """All lanes.  Raises RuntimeError where a warm process planned or compiled."""
    with tempfile.TemporaryDirectory() as cache:
        child("calls", cache)
        warm = smallest([child("calls", cache) for _ in range(rounds)])
    cold = smallest([child("calls", "off") for _ in range(rounds)])
    worked = [case.name for case in CASES if warm[f"{case.name} work"] != [0, 0, 1]]
    if worked or warm["modules"]:
        raise RuntimeError(f"a warm process planned or compiled {worked}, or loaded {warm['modules']}")
    lanes: Figures = {"cpu cold": cold, "cpu warm": warm}
    if cuda:
        lanes["h200 ahead of time"] = smallest([child("ahead", "off") for _ in range(rounds)])
    return lanes


def rows(lanes: Figures) -> list[list[Any]]:
    """Milliseconds of processor time per case."""

    def of(lane: str, *names: str) -> Any:
        return round(1e3 * sum(lanes[lane][name] for name in names), 1) if lane in lanes else ""

    return [
        [
            case.name,
            of("cpu cold", f"{case.name} call"),
            of("h200 ahead of time", f"{case.name} plan", f"{case.name} compile"),
            1e3 * case.limit,
            of("cpu warm", f"{case.name} call"),
            30,
        ]
        for case in CASES
    ]


COLUMNS = ["program", "CPU cold, ms", "CUDA ahead of time, ms", "limit, ms", "CPU warm, ms", "limit, ms"]


def record(lanes: Figures) -> Figures:
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}",
        "versions": versions(),
        "date": str(datetime.date.today()),
        "command": "python -m benchmarks.compile",
        "unit": "milliseconds of processor time, the smallest of several processes",
        "ends with": lanes.get("h200 ahead of time", {}).get("ends with", "no CUDA"),
        "import ms": round(1e3 * lanes["cpu warm"]["import"], 1),
        "first warm call with its imports ms": round(1e3 * lanes["cpu warm"]["first call"], 1),
        "columns": COLUMNS,
        "rows": rows(lanes),
    }


def versions() -> str:
    """Of Python and of what compiles."""
    names = ("numpy", "numba", "llvmlite", "numba-cuda", "islpy")
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {_version(n)}" for n in names if _version(n))])


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", choices=("calls", "ahead"), help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=int, default=len(CASES), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps({"calls": first_calls, "ahead": ahead_of_time}[chosen.child](CASES[: chosen.cases])))
        return
    found = record(measure(chosen.rounds, bool(_version("numba-cuda"))))
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"import {found['import ms']} ms, first warm call {found['first warm call with its imports ms']} ms")
    for row in [COLUMNS, *found["rows"]]:
        print("  ".join(f"{cell!s:>22s}" for cell in row))


if __name__ == "__main__":
    main()
