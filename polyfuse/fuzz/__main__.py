"""``python -m polyfuse.fuzz --seconds N --seed S``: random programs until the time is over; 1 if one failed."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from pathlib import Path

from polyfuse.fuzz.check import Failure, check
from polyfuse.fuzz.generate import random_program
from polyfuse.fuzz.program import RandomProgram
from polyfuse.fuzz.record import Record, finished, merged
from polyfuse.fuzz.script import save
from polyfuse.fuzz.shrink import shrunk

SHRINKING = 60.0  # seconds per failure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m polyfuse.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the next one has the next seed")
    parser.add_argument("--backend", default="interpreter", choices=("interpreter", "numba_cpu", "numba_cuda"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--programs", type=int, default=0, help="stop after so many; 0: when the time is over")
    parser.add_argument("--save", type=Path, default=Path("tests/regressions"), help="folder of the shrunk failures")
    parser.add_argument("--out", type=Path, help="write the record here as JSON")
    options = parser.parse_args()
    started = time.monotonic()
    jobs = [(options, k, started) for k in range(options.processes)]
    if options.processes == 1:
        records = [fuzz(*jobs[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
            records = pool.starmap(fuzz, jobs)
    record = merged(records)
    text = json.dumps(finished(record, vars(options), time.monotonic() - started), indent=2) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text)
    return 1 if record.failures else 0


def fuzz(options: argparse.Namespace, process: int, started: float) -> Record:
    """One process: every `processes`-th seed from its own on."""
    record = Record()
    seed = options.seed + process
    wanted = -(-options.programs // options.processes) if options.programs else sys.maxsize
    while time.monotonic() - started < options.seconds and record.programs < wanted:
        program = random_program(seed)
        before = time.monotonic()
        report = check(program.written, seed, options.backend)
        record.add(program, report, time.monotonic() - before, seed)
        if report.failure is not None:
            failed(program, report.failure, seed, options, record)
        seed += options.processes
    return record


def failed(program: RandomProgram, failure: Failure, seed: int, options: argparse.Namespace, record: Record) -> None:
    """Shrink a failure and write it down; failures that shrink to the same text are one."""
    small, left = smallest(program, failure, seed, options.backend)
    path = save(small, left, options.save)
    record.failures.append({"seed": seed, "kind": failure.kind, "script": str(path), "text": left.text.strip()[-300:]})
    print(f"seed {seed}: {failure.kind}, {path}\n{small.written.source}{left.text.strip()[-300:]}\n", flush=True)


def smallest(program: RandomProgram, failure: Failure, seed: int, backend: str) -> tuple[RandomProgram, Failure]:
    """The shrunk program and how it fails."""
    ways = [failure.way] if failure.way is not None else []
    latest = [failure]

    def fails(candidate: RandomProgram) -> bool:
        try:
            found = check(candidate.written, seed, backend, ways).failure
        except Exception:  # not a program any more
            return False
        if found is None or found.signature != failure.signature:
            return False
        latest[0] = found
        return True

    return shrunk(program, fails, SHRINKING), latest[0]


if __name__ == "__main__":
    sys.exit(main())
