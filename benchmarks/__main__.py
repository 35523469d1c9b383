"""Benchmarks beside peers: `python -m benchmarks run [--only REGEX] [--peers a,b] [--set NAME] [--save FILE]`.

Needs a CUDA device and torch; the CPU's benchmark is `python -m benchmarks.cpu`.  `python -m benchmarks roofline RECORD
PLOT` draws what a run saved.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
import traceback
from pathlib import Path
from typing import Any

from benchmarks import roofline
from benchmarks.everyday import EVERYDAY
from benchmarks.fields import FIELDS
from benchmarks.layers import LAYERS
from benchmarks.more import MORE
from benchmarks.one_read import ONE_READ
from benchmarks.practice import PRACTICE
from benchmarks.programs import ATOMICS, DRAWN, HELD_OUT, HOST, LENGTHS, PROGRAMS
from benchmarks.records import RECORDS
from benchmarks.surveyed import SURVEYED
from benchmarks.wide import WIDE

SETS = {
    **{"table": PROGRAMS, "held-out": HELD_OUT, "drawn": DRAWN, "host": HOST},
    **{"atomics": ATOMICS, "lengths": LENGTHS, "more": MORE, "wide": WIDE, "one-read": ONE_READ},
    **{"everyday": EVERYDAY, "surveyed": SURVEYED, "layers": LAYERS, "fields": FIELDS, "practice": PRACTICE},
    **{"records": RECORDS},
}
PEERS = ("torch", "torch.compile", "max-autotune", "jax", "cupy.fuse")


def run(arguments: argparse.Namespace) -> int:
    from benchmarks import gpu, report

    peers = frozenset(filter(None, arguments.peers.split(",")))
    programs = SETS[arguments.set]
    speed = gpu.copy_bandwidth()
    rows: list[gpu.Row] = []
    failed = 0
    for program in programs:
        if not re.search(arguments.only, program.name):
            continue
        try:
            rows.append(gpu.measured(program, peers))
            print(report.line(rows[-1], speed), flush=True)
        except Exception:  # one program's failure must not hide the other lines
            failed += 1
            print(f"{program.name} FAILED", flush=True)
            traceback.print_exc(limit=-3)
        gpu.torch.cuda.empty_cache()
    print(report.summary(rows, speed))
    if arguments.save:
        target = Path(arguments.save)
        command = [word.replace(arguments.save, target.name) for word in sys.argv[1:]]  # folders say nothing elsewhere
        target.write_text(json.dumps(record(rows, speed, command), indent=1) + "\n")
    return 1 if failed else 0


def record(rows: list[Any], speed: float, command: list[str]) -> dict[str, Any]:
    """What `benchmarks/readme.py` reads, and every figure behind it."""
    from benchmarks import gpu, report

    return {
        "machine": gpu.device_name(),
        "versions": gpu.versions(),
        "date": datetime.date.today().isoformat(),
        "command": "python -m benchmarks " + " ".join(command),
        "copy_bytes_per_second": speed,
        **report.table(rows, speed),
        "figures": [report.figures(row) for row in rows],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--only", default="", help="regular expression over the names of programs")
    runner.add_argument("--peers", default=",".join(PEERS), help="comma list; empty for none")
    runner.add_argument("--set", choices=tuple(SETS), default="table")
    runner.add_argument("--save", help="results file to write")
    runner.set_defaults(call=run)
    plotter = commands.add_parser("roofline")
    plotter.add_argument("record", help="results file that a run saved")
    plotter.add_argument("plot", help="file to write: .svg, .png or .pdf")
    plotter.add_argument("--target", default="h200")
    plotter.set_defaults(call=lambda a: roofline.main(a.record, a.plot, a.target))
    arguments = parser.parse_args()
    return int(arguments.call(arguments))


if __name__ == "__main__":
    sys.exit(main())
