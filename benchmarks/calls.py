"""What a steady call costs on the host: `python -m benchmarks.calls`.

Arrays of 64 elements, so that next to nothing is computed.  Rounds of all calls alternate, and the fastest round of
each counts: other work on the machine only ever adds.  Calls on a GPU are in `tests/gpu/test_calls.py`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import polyfuse as pf

RESULTS = Path(__file__).parent / "results" / "calls.json"
ROUNDS, CALLS = 200, 50
Run = Callable[[], object]


def chain(x: Any, y: Any) -> Any:
    return np.maximum((x + y) * 2, 0) - 1


def total(*arrays: Any) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = result + array
    return result


def nested(tree: Mapping[str, Any]) -> Any:
    return tree["a"] * tree["b"]["c"] + tree["b"]["d"][0]


def calls_of(library: str) -> dict[str, Run]:
    """Calls with arrays of ``numpy`` or ``torch``."""
    module = importlib.import_module(library)
    x, y, z = (module.ones((8, 8), dtype=module.float32) for _ in range(3))
    many = [module.ones((8, 8), dtype=module.float32) for _ in range(20)]
    tree = {"a": x, "b": {"c": y, "d": [z]}}
    one, several, deep = pf.jit(chain), pf.jit(total), pf.jit(nested)
    out = module.empty((8, 8), dtype=module.float32)
    return {
        "two arrays": lambda: one(x, y),
        "one array twice": lambda: one(x, x),
        "out=": lambda: one(x, y, out=out),
        "bound": one.bind(x, y, out=out),
        "20 arrays": lambda: several(*many),
        "nested": lambda: deep(tree),
    }


def microseconds(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """The fastest round of each call, per call."""
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds + 3):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                run()
            if number >= 3:  # the first rounds compile
                best[name] = min(best[name], (time.perf_counter() - start) / CALLS)
    return {name: round(1e6 * seconds, 2) for name, seconds in best.items()}


def measure(rounds: int) -> dict[str, Any]:
    libraries = [name for name in ("numpy", "torch") if importlib.util.find_spec(name)]
    found = {name: microseconds(calls_of(name), rounds) for name in libraries}
    x = np.ones((8, 8), np.float32)
    itself = microseconds({"two arrays": lambda: chain(x, x)}, rounds)
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}",
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *(f"{n} {importlib.metadata.version(n)}" for n in libraries)]
        ),
        "date": str(datetime.date.today()),
        "command": "python -m benchmarks.calls",
        "unit": "microseconds of host time per call, everything included",
        "columns": ["call", *(f"{name} arrays" for name in libraries), "NumPy itself"],
        "rows": [[n, *(found[lib][n] for lib in libraries), itself.get(n, "")] for n in found["numpy"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    found = measure(chosen.rounds)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in [found["columns"], *found["rows"]]:
        print("  ".join(f"{cell!s:>16s}" for cell in row))


if __name__ == "__main__":
    main()
