"""A hundred random shapes of one function: `python -m benchmarks.shapes [--cpu] [--count N] [--save FILE]`.

Every program meets shapes that it has not seen; each result is checked against float64.  What counts is how many plans
and kernels they take, and what the call costs that meets a new shape: where its class of sizes is known, the time to
find that out; else planning and compiling (no disk cache is read).  On a GPU, `torch.compile` meets the same shapes,
with sizes dynamic from its second one on, as by default.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.programs import PROGRAMS, Program

NAMES = ("chain", "softmax", "layernorm", "column sum", "two Jacobi steps")
LONGEST = 20_000  # of either axis
LARGEST = 1 << 24  # elements
SEED = 4
Shape = tuple[int, int]


def random_shapes(count: int, rows: int, seed: int) -> list[Shape]:
    """`count` different shapes, both axes from 2 on; as many lengths below 200 as above.

    `rows`: the most of the first axis."""
    random, found = np.random.default_rng(seed), dict[Shape, None]()
    while len(found) < count:
        height, width = (int(np.exp(random.uniform(np.log(2), np.log(most)))) for most in (rows, LONGEST))
        if height * width <= LARGEST:
            found[height, width] = None
    return list(found)


def arrays(program: Program, shape: Shape, random: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Arguments whose matrices have `shape`, and vectors its second length."""
    return [random.standard_normal(shape if len(i.shape) == 2 else shape[1:], np.float32) for i in program.inputs]


class Host:
    """NumPy arrays; nothing to wait for."""

    name = platform.machine()
    versions = f"numpy {np.__version__}"

    @staticmethod
    def put(array: Any) -> Any:
        return array

    @staticmethod
    def get(array: Any) -> Any:
        return array

    @staticmethod
    def wait() -> None:
        pass

    @staticmethod
    def peer(program: Program) -> Callable[..., Any] | None:
        return None


class Gpu:
    """torch tensors on the current CUDA device."""

    def __init__(self) -> None:
        import torch

        from benchmarks import gpu

        self.torch = torch
        self.name, self.versions, self.wait = gpu.device_name(), gpu.versions(), torch.cuda.synchronize

    def put(self, array: Any) -> Any:
        return self.torch.from_numpy(array).cuda()

    @staticmethod
    def get(array: Any) -> Any:
        return array.cpu().numpy()

    def peer(self, program: Program) -> Callable[..., Any]:
        from benchmarks.peers import TorchNamespace, bound

        self.torch._dynamo.reset()
        self.torch._dynamo.utils.counters.clear()
        return self.torch.compile(bound(program, TorchNamespace(self.torch)))  # type: ignore[no-any-return]

    def graphs(self) -> int:
        """What `torch.compile` compiled since `peer`."""
        return int(self.torch._dynamo.utils.counters["stats"]["unique_graphs"])


def milliseconds(machine: Host | Gpu, call: Callable[..., Any], given: list[Any]) -> tuple[float, Any]:
    machine.wait()
    start = time.perf_counter()
    result = call(*given)
    machine.wait()
    return 1e3 * (time.perf_counter() - start), result


def check(program: Program, given: list[Any], result: Any) -> None:
    """Raises AssertionError unless `result` is the float64 result."""
    from benchmarks.peers import bound

    exact = bound(program, np)(*(a.astype(np.float64) for a in given))
    worst = float(np.max(np.abs(result - exact)) / np.max(np.abs(exact))) if exact.size else 0.0
    assert result.shape == exact.shape and worst <= program.tolerance, (program.name, exact.shape, worst)


def measured(machine: Host | Gpu, program: Program, shapes: list[Shape]) -> list[Any]:
    """The row of a program: see `COLUMNS`."""
    from benchmarks.peers import polyfuse_function

    ours, peer = polyfuse_function(program), machine.peer(program)
    random = np.random.default_rng(SEED)
    known: list[float] = []
    compiled: list[float] = []
    again: list[float] = []
    theirs: list[float] = []
    for shape in shapes:
        given = arrays(program, shape, random)
        tensors = [machine.put(a) for a in given]
        before = ours.cache_info()
        took, result = milliseconds(machine, ours, tensors)
        after = ours.cache_info()
        (known if after.plans == before.plans else compiled).append(took)
        check(program, given, machine.get(result))
        again.append(milliseconds(machine, ours, tensors)[0])
        if peer:
            theirs.append(milliseconds(machine, peer, tensors)[0])
    info = ours.cache_info()
    row: list[Any] = [info.traces, info.plans, info.compilations]
    row += [round(f(values), 3) if values else "" for values in (known, compiled) for f in (statistics.median, max)]
    row += [round(statistics.median(again), 3)]
    if isinstance(machine, Gpu):
        row += [machine.graphs(), round(statistics.median(theirs), 3), round(sum(theirs) / 1e3, 2)]
        row += [round((sum(known) + sum(compiled)) / 1e3, 2)]
    return row


COLUMNS: tuple[str, ...] = ("program", "shapes", "traces", "plans", "kernels")
COLUMNS += tuple(f"{known} class: {which} ms" for known in ("known", "new") for which in ("median", "most"))
COLUMNS += ("second call: median ms",)
GPU_COLUMNS = ("torch.compile: graphs", "torch.compile: median ms", "torch.compile: all first calls, s", "ours: all, s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="NumPy arrays and the CPU back end")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--save", type=Path, help="results file to write")
    chosen = parser.parse_args()
    os.environ["POLYFUSE_CACHE"] = "off"  # before polyfuse is imported
    found = record(Host() if chosen.cpu else Gpu(), chosen.count)
    if chosen.save:
        chosen.save.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def record(machine: Host | Gpu, count: int) -> dict[str, Any]:
    by_name = {p.name: p for p in PROGRAMS}
    columns = [*COLUMNS, *(GPU_COLUMNS if isinstance(machine, Gpu) else ())]
    print("  ".join(columns))
    rows = []
    for name in NAMES:
        for label, most in (("a few rows", 12), ("any rows", LONGEST)):
            figures = measured(machine, by_name[name], random_shapes(count, most, SEED))
            rows.append([name, f"{count}, {label}", *figures])
            print("  ".join(map(str, rows[-1])), flush=True)
    cpu = " --cpu" * isinstance(machine, Host)
    return {
        "machine": machine.name,
        "versions": machine.versions,
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.shapes{cpu} --count {count}",
        "columns": columns,
        "rows": rows,
    }


if __name__ == "__main__":
    main()
