"""The operation table on the GPU, with arrays of torch and of CuPy, against NumPy in float64; many processes.

    python -m tests.frontend.op_table_on_gpu --processes 16 --seconds 110 --out benchmarks/results/op_table_h200.json

A row runs `--times` times with each library, on arguments that NumPy does not refuse.  torch knows no negative
strides: arrays that have one are CuPy's in either round.  ``--backend numba_cpu --libraries numpy torch`` tries the
same on a CPU.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.fuzz.carriers import Carrier, InCuPy, InTorch, OnHost
from polyfuse.fuzz.record import commit, versions
from tests.frontend.op_check import check, flat
from tests.frontend.op_draws import Array
from tests.frontend.op_rows import CASES

DRAWS = 6  # of arguments, until NumPy takes them
LOST = ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED", "illegal memory access", "misaligned address")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the row `CASES[row]` with arrays of `library`: ok, refused (by NumPy too), or failed."""

    row: int
    library: str
    outcome: str
    text: str
    seconds: float


def carrier(library: str, backend: str, arrays: Sequence[Array]) -> Carrier:
    """What holds arguments of `library` where `backend` runs."""
    device = "cuda" if backend == "numba_cuda" else "cpu"
    backwards = any(s < 0 for a in arrays for s in a.strides)
    if library == "numpy" or (backwards and device == "cpu"):
        return OnHost()
    return InCuPy() if library == "cupy" or backwards else InTorch(device)


def held(by: Carrier, array: Array) -> Any:
    """The array in memory of its own, with the strides that it has."""
    strides = tuple(s // array.itemsize for s in array.strides)
    if 0 in array.shape:
        return by.hold(np.zeros(1, array.dtype), 0, array.shape, (1,) * array.ndim)
    reach = [(n - 1) * s for n, s in zip(array.shape, strides, strict=True)]
    start = -sum(r for r in reach if r < 0)
    memory = np.zeros(sum(map(abs, reach)) + 1, array.dtype)
    np.lib.stride_tricks.as_strided(memory[start:], array.shape, array.strides)[...] = array
    return by.hold(memory, start, array.shape, strides)


def runner(library: str, backend: str) -> Callable[[Callable[..., Any], dict[str, Array]], Any]:
    """Calls the jitted function with arrays of `library`; results as NumPy arrays, in one list."""

    def call(function: Callable[..., Any], arguments: dict[str, Array]) -> Any:
        by = carrier(library, backend, list(arguments.values()))
        found = pf.jit(function, backend=backend)(*(held(by, array) for array in arguments.values()))
        return [by.get(value) for value in flat(found)]

    return call


def outcome(row: int, library: str, backend: str, seed: int, times: int = 1) -> Outcome:
    """One row with one library, on so many arguments that NumPy takes; a program that runs without fusion after an
    internal failure has failed."""
    told: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log, case, started = logging.getLogger("polyfuse.failure"), CASES[row], time.monotonic()
    log.addHandler(handler)
    found, text = "refused", ""
    try:
        for turn in range(DRAWS * times):
            dice = random.Random(f"{seed} {turn} {library} {case.text} {case.arrays}")
            if check(case, dice, runner(library, backend)) == "ok":
                found, times = "ok", times - 1
            if not times:
                break
    except Exception as error:
        found, text = "failed", f"{type(error).__name__}: {error}"
    log.removeHandler(handler)
    if told and found != "failed":
        found, text = "failed", told[0]
    return Outcome(row, library, found, text[:1500], round(time.monotonic() - started, 3))


# ---------------------------------------------------------------------------------------------- processes


def work(
    tasks: Sequence[tuple[int, str]], turn: Any, backend: str, settings: Mapping[str, int], path: Path
) -> None:
    """Take tasks until none is left, a line of JSON before and behind each; stop where the device is lost."""
    os.environ["POLYFUSE_CACHE"] = "off"
    with path.open("a", buffering=1) as log:
        while True:
            with turn.get_lock():
                mine, turn.value = turn.value, turn.value + 1
            if mine >= len(tasks):
                return
            print(json.dumps({"begins": mine}), file=log)
            done = outcome(*tasks[mine], backend, **settings)
            print(json.dumps({"ends": mine, **asdict(done)}), file=log)
            if any(word in done.text for word in LOST):
                return


def outcomes(
    tasks: Sequence[tuple[int, str]], backend: str, settings: Mapping[str, int], processes: int, seconds: float
) -> list[Outcome]:
    """Of all tasks that the time allows; `settings`: seed and times.  A process that dies is the failure of the row
    that it was at."""
    context = multiprocessing.get_context("spawn")
    turn, deadline = context.Value("i", 0), time.monotonic() + seconds
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        logs = (Path(folder) / f"{number}.jsonl" for number in count())

        def begin() -> tuple[Any, Path]:
            path = next(logs)
            path.touch()
            process = context.Process(target=work, args=(tasks, turn, backend, settings, path))
            process.start()
            return process, path

        running = [begin() for _ in range(processes)]
        while running:
            time.sleep(0.1)
            late = time.monotonic() > deadline
            for process, path in [(p, log) for p, log in running if late or not p.is_alive()]:
                running.remove((process, path))
                died = not process.is_alive()
                process.kill()
                process.join()
                found += read_log(path, tasks, died)
                if not late and turn.value < len(tasks):
                    running.append(begin())
    return sorted(found, key=lambda o: (o.library, o.row))


def read_log(path: Path, tasks: Sequence[tuple[int, str]], died: bool) -> Iterator[Outcome]:
    """What a process wrote; of one that `died` by itself also the row that it died at."""
    at: int | None = None
    for line in map(json.loads, path.read_text().splitlines()):
        at = line.get("begins")
        if line.pop("ends", None) is not None:
            yield Outcome(**line)
    if died and at is not None:
        yield Outcome(*tasks[at], "failed", "the process died", 0.0)


# ---------------------------------------------------------------------------------------------- the record


def record(found: Sequence[Outcome], options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    libraries = {}
    for library in options.libraries:
        own = [o for o in found if o.library == library]
        libraries[library] = {
            "rows": len({o.row for o in own}),
            **{kind: sum(o.outcome == kind for o in own) for kind in ("ok", "refused", "failed")},
        }
    names = f"--libraries {' '.join(options.libraries)}"
    return {
        "what": f"every row of the operation table, {options.times} times with each array library on random arguments,"
        " against NumPy in float64",
        "command": f"python -m tests.frontend.op_table_on_gpu --backend {options.backend} {names}"
        f" --processes {options.processes} --seconds {options.seconds:g} --times {options.times} --seed {options.seed}",
        "date": date.today().isoformat(),
        "commit": options.commit or commit(),
        "device": _device(options.backend),
        "versions": {"python": platform.python_version(), **versions(*PACKAGES)},
        "rows_of_the_table": len(CASES),
        "libraries": libraries,
        "failed": [
            {"row": CASES[o.row].text, "arrays": CASES[o.row].arrays, "library": o.library, "text": o.text}
            for o in found
            if o.outcome == "failed"
        ],
        "refused_by_numpy_too": sorted({CASES[o.row].text for o in found if o.outcome == "refused"}),
        "seconds": round(seconds, 1),
        "slowest": [
            {"row": CASES[o.row].text, "library": o.library, "seconds": o.seconds}
            for o in sorted(found, key=lambda o: -o.seconds)[:10]
        ],
    }


PACKAGES = ("numpy", "islpy", "numba", "numba-cuda", "torch", "cupy-cuda12x", "cupy-cuda13x")


def _device(backend: str) -> str:
    if backend != "numba_cuda":
        return platform.processor() or platform.machine()
    torch: Any = import_module("torch")
    return str(torch.cuda.get_device_name())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontend.op_table_on_gpu", description=__doc__)
    parser.add_argument("--backend", default="numba_cuda", choices=("numba_cuda", "numba_cpu", "interpreter"))
    parser.add_argument("--libraries", nargs="+", default=["torch", "cupy"], choices=("torch", "cupy", "numpy"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=110)
    parser.add_argument("--times", type=int, default=1, help="arguments per row and library")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="the record, as JSON")
    parser.add_argument("--commit", default="", help="what runs, where git cannot say")
    parser.add_argument("words", nargs="*", help="only rows that contain one of these")
    options = parser.parse_args()
    rows = [k for k, row in enumerate(CASES) if not options.words or any(word in row.text for word in options.words)]
    tasks, started = [(row, library) for library in options.libraries for row in rows], time.monotonic()
    settings = {"seed": options.seed, "times": options.times}
    found = outcomes(tasks, options.backend, settings, options.processes, options.seconds)
    text = json.dumps(record(found, options, time.monotonic() - started), indent=1) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text)
    return int(len(found) < len(tasks) or any(o.outcome == "failed" for o in found))


if __name__ == "__main__":
    sys.exit(main())
