"""Programs in batches of consecutive seeds, in one process or in many; what is finished is in the record at once.

A process that dies in a batch is itself a finding: its seeds are written down, and a new process goes on behind them.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from polyfuse.fuzz.check import Failure, check
from polyfuse.fuzz.generate import counts, random_program
from polyfuse.fuzz.program import RandomProgram
from polyfuse.fuzz.record import Record
from polyfuse.fuzz.script import save
from polyfuse.fuzz.shrink import shrunk

SHRINKING = 30.0  # seconds per failure
SHRUNK = 2  # failures per batch that are made smaller: where everything fails, that is enough to see why
BATCH = 10  # programs: a tenth of a minute or so


@dataclass(frozen=True, slots=True)
class Corpus:
    """Which programs run, and how.  `folder`: where scripts of failures go."""

    backend: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Batch:
    """Seeds ``first .. behind - 1`` and what came of them.  `lost`: the device of its process answers no more."""

    first: int
    behind: int
    record: Record
    lost: bool = False


def run_batch(corpus: Corpus, first: int, count: int, deadline: float) -> Batch:
    """Check programs of consecutive seeds, until `deadline` (of ``time.time``)."""
    record = Record()
    for seed in range(first, first + count):
        if time.time() >= deadline:
            return Batch(first, seed, record)
        program = random_program(seed)
        assert counts(program)
        before = time.monotonic()
        report = check(program.written, seed, corpus.backend)
        record.add(program, report, time.monotonic() - before, seed)
        if report.failure is not None:
            lost = corpus.backend == "numba_cuda" and _is_sticky(report.failure)
            write_down(program, report.failure, seed, corpus, record, shrink=not lost and len(record.failures) < SHRUNK)
            if lost:
                return Batch(first, seed + 1, record, True)
    return Batch(first, first + count, record)


def batches(corpus: Corpus, first: int, processes: int, programs: int, seconds: float) -> Iterator[Batch]:
    """Batches in the order in which they finish, until `programs` are checked (0: no limit) or the time is over."""
    deadline, behind = time.time() + seconds, first + programs if programs else None
    if processes == 1:
        while time.time() < deadline and first != behind:
            count = min(BATCH, behind - first) if behind is not None else BATCH
            yield (batch := run_batch(corpus, first, count, deadline))
            first = batch.behind
        return
    todo = _starts(first, behind)
    while time.time() < deadline and (start := next(todo, None)) is not None:
        yield from _in_pool(corpus, [start], todo, processes, deadline)


def _starts(first: int, behind: int | None) -> Iterator[tuple[int, int]]:
    while first != behind:
        count = min(BATCH, behind - first) if behind is not None else BATCH
        yield first, count
        first += count


def _in_pool(
    corpus: Corpus, waiting: list[tuple[int, int]], todo: Iterator[tuple[int, int]], processes: int, deadline: float
) -> Iterator[Batch]:
    """Batches by new processes, until the time is over or one of the processes is of no more use."""
    running: dict[Future[Batch], tuple[int, int]] = {}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        healthy = True
        while True:
            while healthy and time.time() < deadline and len(running) < 2 * processes:
                start = waiting.pop() if waiting else next(todo, None)
                if start is None:
                    break
                running[pool.submit(run_batch, corpus, *start, deadline)] = start
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                first, count = running.pop(future)
                try:
                    batch = future.result()
                except BrokenProcessPool:
                    batch = Batch(first, first + count, _died(first, count), True)
                healthy = healthy and not batch.lost
                yield batch


def _died(first: int, count: int) -> Record:
    text = f"a process died while it, or one beside it, ran seeds {first} to {first + count - 1}"
    return Record(failures=[{"seed": first, "kind": "death", "script": "", "text": text}])


def _is_sticky(failure: Failure) -> bool:
    """Whether the driver refuses all that follows: after a fault of a kernel the context is gone."""
    words = ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED", "illegal memory access", "misaligned address")
    return any(word in failure.text for word in words)


def write_down(
    program: RandomProgram, failure: Failure, seed: int, corpus: Corpus, record: Record, *, shrink: bool = True
) -> None:
    """Shrink a failure and save it as a script; failures that shrink to the same text are one file."""
    small, left = smallest(program, failure, seed, corpus.backend) if shrink else (program, failure)
    path = save(small, left, corpus.folder)
    text = left.text.strip()[-300:]
    record.failures.append({"seed": seed, "kind": failure.kind, "script": path.name, "text": text})
    print(f"seed {seed}: {failure.kind}, {path}\n{small.written.source}{text}\n", flush=True)


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
