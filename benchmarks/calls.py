"""What a steady call costs on the host: `python -m benchmarks.calls`, on a GPU `python -m benchmarks.calls --cuda`.

Arrays of 64 elements, so that next to nothing is computed.  Rounds of all calls alternate, and the fastest round of
each counts: other work on the machine only ever adds.  "CUDA path": tensors of the host go the way of CUDA tensors, and
the launch returns at once (`benchmarks.standin`): what a call costs us but for the driver.
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
from benchmarks.standin import standin_jit

RESULTS = Path(__file__).parent / "results" / "calls.json"
CUDA_RESULTS = RESULTS.with_name("calls_cuda.json")
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


def scaled(x: Any, factor: float, offset: float) -> Any:
    return x * factor + offset


def unfused(x: Any) -> Any:
    return (x - x.mean()) / (x.std() + 1)


def calls_of(library: str, jit: Callable[..., Any] = pf.jit, **where: str) -> dict[str, Run]:
    """Calls with arrays of ``numpy``, ``torch`` or ``cupy``.  `where`: ``device="cuda"`` for torch's on a GPU."""
    module = importlib.import_module(library)
    many = [module.ones((8, 8), dtype=module.float32, **where) for _ in range(64)]
    x, y, z, out = (module.ones((8, 8), dtype=module.float32, **where) for _ in range(4))
    tree = {"a": x, "b": {"c": y, "d": [z]}}
    one, several, deep, scale = jit(chain), jit(total), jit(nested), jit(scaled)
    loose = jit(unfused, fuse=False)
    return {
        "two arrays": lambda: one(x, y),
        "one array twice": lambda: one(x, x),
        "an array, two numbers": lambda: scale(x, 2.0, offset=0.5),
        "nested": lambda: deep(tree),
        "out=": lambda: one(x, y, out=out),
        "bound": one.bind(x, y, out=out),
        "several kernels": lambda: loose(x),
        "several kernels, bound": loose.bind(x),
        "4 arrays": lambda: several(*many[:4]),
        "16 arrays": lambda: several(*many[:16]),
        "64 arrays": lambda: several(*many),
    }


def microseconds(runs: Mapping[str, Run], rounds: int, wait: Callable[[], object] = lambda: None) -> dict[str, float]:
    """The fastest round of each call, per call; `wait` for the device before each."""
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds + 3):
        for name, run in runs.items():
            wait()
            start = time.perf_counter()
            for _ in range(CALLS):
                run()
            if number >= 3:  # the first rounds compile
                best[name] = min(best[name], (time.perf_counter() - start) / CALLS)
    return {name: round(1e6 * seconds, 2) for name, seconds in best.items()}


def measure_cuda(rounds: int) -> dict[str, Any]:
    """Calls with arrays on a GPU, beside one call of their library."""
    import torch

    found: dict[str, dict[str, float]] = {}
    for library, where in (("torch", {"device": "cuda"}), ("cupy", {})):
        if importlib.util.find_spec(library):
            module = importlib.import_module(library)
            x = module.ones((8, 8), dtype=module.float32, **where)
            f = pf.jit(chain)
            more = {"graph": f.graph(x, x), f"{library}.add itself": lambda m=module, x=x: m.add(x, x)}
            more |= {"kernel launch alone": launch_of(f, x)}
            found[f"{library} arrays"] = microseconds(calls_of(library, **where) | more, rounds, torch.cuda.synchronize)
    rows = dict.fromkeys(name for times in found.values() for name in times)
    versions = [f"{n} {importlib.metadata.version(n)}" for n in ("torch", "cuda-bindings")]
    return {
        "machine": f"{torch.cuda.get_device_name()}, {platform.machine()}, load {os.getloadavg()[0]:.1f}",
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "date": str(datetime.date.today()),
        "command": "python -m benchmarks.calls --cuda",
        "unit": "microseconds of host time per call, everything included",
        "columns": ["call", *found],
        "rows": [[name, *(times.get(name, "") for times in found.values())] for name in rows],
    }


def launch_of(f: Any, x: Any) -> Run:
    """One kernel of `f` with its arguments, launched with nothing around it."""
    bound = f.bind(x, x)
    known = dict(enumerate([*bound.values, *map(bound.record.library.pointer, bound.outputs)]))
    launch, stream = bound.record.steps[0].fixed(known).launch, bound.record.stream()
    return lambda: launch(stream)


def measure(rounds: int) -> dict[str, Any]:
    libraries = [name for name in ("numpy", "torch") if importlib.util.find_spec(name)]
    found = {f"{name} arrays": microseconds(calls_of(name), rounds) for name in libraries}
    if "torch" in libraries:
        found["torch arrays, CUDA path"] = microseconds(calls_of("torch", standin_jit), rounds)
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
        "columns": ["call", *found, "NumPy itself"],
        "rows": [[n, *(times[n] for times in found.values()), itself.get(n, "")] for n in found["numpy arrays"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cuda", action="store_true", help="calls with arrays on a GPU")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    found = measure_cuda(chosen.rounds) if chosen.cuda else measure(chosen.rounds)
    out = chosen.out or (CUDA_RESULTS if chosen.cuda else RESULTS)
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in [found["columns"], *found["rows"]]:
        print("  ".join(f"{cell!s:>16s}" for cell in row))


if __name__ == "__main__":
    main()
