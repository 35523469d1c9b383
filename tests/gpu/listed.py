"""Checks on a CUDA device as a list with one line each, and as a record: ``--save FILE``, ``--commit ID`` where git
cannot say what runs."""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.counters import device_name
from polyfuse.fuzz.record import commit, versions

Torch = Any


def run_checks(module: str, what: str, checks: Mapping[str, Callable[[Torch], None]]) -> int:
    """Run the checks that the command line names, or all; 1 if one failed.  `what`: they show, for the record."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("names", nargs="*", help="checks, by default all")
    parser.add_argument("--save", type=Path, help="results file to write")
    parser.add_argument("--commit", default="", help="what runs, where git does not say")
    options = parser.parse_args()
    import torch

    outcomes: dict[str, dict[str, Any]] = {}
    for name in options.names or checks:
        outcomes[name] = outcome(torch, name, checks[name])
        if options.save:  # as it grows: a machine may be taken away
            options.save.write_text(json.dumps(record(module, what, options.commit, outcomes), indent=1) + "\n")
    return 0 if all(o["outcome"] == "ok" for o in outcomes.values()) else 1


def outcome(torch: Torch, name: str, check: Callable[[Torch], None]) -> dict[str, Any]:
    """``ok``, or how the check failed, and seconds; printed as well."""
    start = time.perf_counter()
    try:
        check(torch)
        told = "ok"
    except Exception as error:  # one line of a list
        told = f"FAIL {type(error).__name__}: {str(error)[:300]}"
    seconds = round(time.perf_counter() - start, 1)
    gc.collect()
    torch.cuda.empty_cache()
    print(f"{name:40s} {told}  {seconds} s", flush=True)
    return {"outcome": told, "seconds": seconds}


def record(module: str, what: str, at: str, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "what": what,
        "command": f"python -m {module}",
        "commit": at or commit(),
        "date": datetime.date.today().isoformat(),
        "machine": device_name(),
        "versions": versions("numpy", "torch", "numba", "numba-cuda"),
        "checks": dict(outcomes),
    }
