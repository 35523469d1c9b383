"""Hardware counters beside the price's bytes: `python -m benchmarks.counters [--save FILE]`, on a CUDA device.

Profiles one launch of each kernel of a few programs with Nsight Compute (``ncu``): bytes of main memory read and
written, achieved bandwidth, local memory, sectors per request.  Clocks stay as they are.  ncu empties the caches before
a kernel and measures until its end: of what it wrote, up to 25 MB may still lie in the second-level cache then and are
not counted.  Programs that write little more than that are run larger here than in the table.  Where the machine
refuses to count, the record says so.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.programs import PROGRAMS as benchmark_programs
from benchmarks.programs import Program
from polyfuse.fuzz.record import commit, versions

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = (
    *("chain", "residual rmsnorm bf16", "column sum", "softmax"),
    *("softmax longest", "x + y.T", "two Jacobi steps", "A p, A^T r"),
)
LARGER = {
    **dict.fromkeys(("softmax", "residual rmsnorm bf16"), {16384: 65536}),
    **dict.fromkeys(("x + y.T", "two Jacobi steps"), {8192: 16384}),
}
"""Extents that take the place of those of the table."""
READ, WRITTEN, TIME = "dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum"
LOCAL = ("l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum")
LOADS, STORES = (f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{op}.ratio" for op in ("ld", "st"))
METRICS = (READ, WRITTEN, TIME, *LOCAL, LOADS, STORES)
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
LIMIT = 150


def find_tool() -> str | None:
    """The path of ncu."""
    found = shutil.which("ncu", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    return found or next((str(p) for p in sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"))), None)


def enlarged(program: Program) -> Program:
    """The program at the sizes of this record."""
    sizes = LARGER.get(program.name, {})
    inputs = [replace(i, shape=tuple(sizes.get(n, n) for n in i.shape)) for i in program.inputs]
    return replace(program, inputs=tuple(inputs))


def profiled(target: str) -> None:
    """Run each program twice, the second time under the profiler; write what the price says of each kernel."""
    import torch

    from benchmarks import gpu
    from benchmarks.peers import polyfuse_function

    rows = []
    for program in benchmark_programs:
        if program.name not in PROGRAMS:
            continue
        program = enlarged(program)
        tensors, function = [gpu.draw(i) for i in program.inputs], polyfuse_function(program)
        plan = function.plan(*tensors)
        function(*tensors)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        function(*tensors)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        for kernel in plan.kernels:
            cost = kernel.cost
            rows.append(
                {
                    "program": program.name,
                    "shapes": [tuple(t.shape) for t in tensors],
                    "kernel": kernel.name,
                    "strategy": kernel.strategy,
                    "once_bytes": int(kernel.hbm_bytes.at(**kernel.hints)),
                    "predicted_bytes": cost.hbm_bytes,
                    "predicted_us": 1e6 * cost.seconds,
                }
            )
        del tensors
        torch.cuda.empty_cache()
    Path(target).write_text(json.dumps(rows))


def counted(path: str, predicted: Path, log: Path) -> tuple[int, str]:
    """Run this module's child under ncu; its exit status and what it said."""
    options = ["--clock-control", "none", "--profile-from-start", "off", "--metrics", ",".join(METRICS)]
    shape = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
    command = [path, *options, *shape, sys.executable, "-m", "benchmarks.counters", "--child", str(predicted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return -1, f"no end within {LIMIT} s"
    return done.returncode, done.stdout[-800:] + done.stderr[-1500:]


def read_csv(text: str) -> list[dict[str, str]]:
    """The rows of a raw page, one per kernel: a header, a line of units, then figures; lines of ``==`` are remarks."""
    lines = [line for line in text.splitlines() if line and not line.startswith("==")]
    return [row for row in csv.DictReader(lines) if row.get("ID", "").strip()]


def of_plans(found: list[dict[str, str]], names: list[str]) -> list[dict[str, str]]:
    """The kernels called so, in this order: a library may launch some of its own between them."""
    rows = iter(found)
    return [row for name in names if (row := next((r for r in rows if r["Kernel Name"] == name), None)) is not None]


def number(text: str) -> float:
    """A figure as ncu prints it, perhaps with separators."""
    return float(text.replace(",", "") or "nan")


def joined(row: dict[str, Any], found: dict[str, str]) -> dict[str, Any]:
    """One kernel: predicted and counted figures."""
    read, written, seconds = number(found[READ]), number(found[WRITTEN]), 1e-9 * number(found[TIME])
    return row | {
        "profiled_name": found.get("Kernel Name", ""),
        "bytes_read": read,
        "bytes_written": written,
        "measured_over_predicted": (read + written) / row["predicted_bytes"],
        "us": 1e6 * seconds,
        "bytes_per_second": (read + written) / seconds,
        "local_requests": sum(number(found[m]) for m in LOCAL),
        "sectors_per_load": number(found[LOADS]),
        "sectors_per_store": number(found[STORES]),
    }


def record(command: list[str]) -> dict[str, Any]:
    """Everything that a run found."""
    path = find_tool()
    facts: dict[str, Any] = {
        "command": "python -m benchmarks.counters " + without_folders(command),
        "date": datetime.date.today().isoformat(),
        "machine": device_name(),
        "versions": versions("polyfuse", "numba", "numba-cuda", "numpy", "torch", "islpy"),
        "commit": commit(),
        "metrics": METRICS,
        "options": "--clock-control none --profile-from-start off",
    }
    if path is None:
        return facts | {"refusal": "ncu is not on this machine"}
    with tempfile.TemporaryDirectory() as folder:
        predicted, log = Path(folder, "predicted"), Path(folder, "log")
        status, said = counted(path, predicted, log)
        text = log.read_text(errors="replace") if log.exists() else ""
        rows = json.loads(predicted.read_text()) if predicted.exists() else []
    found = of_plans(read_csv(text), [row["kernel"] for row in rows])
    if status or not rows or len(found) != len(rows):
        refusal = f"exit status {status}, {len(found)} of {len(rows)} kernels"
        return facts | {"refusal": refusal, "log": text[-1500:] + said}
    return facts | {"kernels": [joined(r, f) for r, f in zip(rows, found, strict=True)]}


def device_name() -> str:
    """In a process of its own: this one starts no driver."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")[0]
    except FileNotFoundError:
        return "no NVIDIA device"


def without_folders(command: list[str]) -> str:
    """The arguments as a record shows them."""
    return " ".join(part.rpartition("/")[2] for part in command)


def line(row: dict[str, Any]) -> str:
    """One kernel of the table that is printed."""
    moved = 1e-6 * (row["bytes_read"] + row["bytes_written"])
    speed = f"{row['us']:7.1f} us, {1e-12 * row['bytes_per_second']:.2f} TB/s"
    sectors = f"sectors {row['sectors_per_load']:.1f} a load, {row['sectors_per_store']:.1f} a store"
    return (
        f"{row['program']:22s} {row['kernel'][:28]:28s} {moved:8.1f} MB, "
        f"{row['measured_over_predicted']:.3f} of predicted, {speed}, local {row['local_requests']:.0f}, {sectors}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counters")
    parser.add_argument("--save", help="results file to write")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        profiled(arguments.child)
        return 0
    found = record(sys.argv[1:])
    if arguments.save:
        Path(arguments.save).write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(map(line, found.get("kernels", []))) or json.dumps(found, indent=1))
    return 1 if "refusal" in found else 0


if __name__ == "__main__":
    sys.exit(main())
