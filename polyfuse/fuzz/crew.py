"""Programs of consecutive seeds in processes of their own, one program at a time each.

A process that dies or hangs loses its program only: the seed is written down and a new process goes on.  The run ends
in time whatever its programs do.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from polyfuse.fuzz.check import Failure
from polyfuse.fuzz.findings import Corpus, group_of, is_sticky, run_one, smaller
from polyfuse.fuzz.record import Record

THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

ALIKE = 2  # failures of one group that are made smaller
GRACE = 8.0  # seconds behind the end for programs under way
STARTING = 120.0  # seconds that a process may take to import everything
READY = "ready"
RETIRED = 400, 3 << 20  # programs, KiB of memory: compiled code is never given back


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: of the run, of one program, and of making one failure smaller."""

    run: float
    program: float = 120.0
    shrinking: float = 30.0


@dataclass(frozen=True, slots=True)
class Task:
    """A program to check, or a failure of it to make smaller for some `seconds`."""

    seed: int
    failure: Failure | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a task.  `last`: the process ends now."""

    record: Record
    failure: Failure | None
    last: bool


@dataclass(slots=True)
class Worker:
    """A process, the task it is at, and the time by which it must answer.  `ready`: it has told that it runs."""

    process: BaseProcess
    pipe: Connection
    due: float
    task: Task | None = None
    ready: bool = False

    def start(self, task: Task, due: float) -> None:
        self.task, self.due = task, due
        self.pipe.send(task)

    def end(self) -> int | None:
        """Kill the process; the exit code that it had already, or None."""
        found = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return found


Work = Callable[[Corpus, int], tuple[Record, Failure | None]]


def serve(pipe: Connection, corpus: Corpus, work: Work) -> None:
    """What a process does: answer tasks."""
    pipe.send(READY)
    done = 0
    while True:
        task: Task = pipe.recv()
        if task.failure is None:
            record, failure = work(corpus, task.seed)
        else:
            record, failure = Record(failures=[smaller(corpus, task.seed, task.failure, task.seconds)]), None
        done += 1
        lost = failure is not None and corpus.backend == "numba_cuda" and is_sticky(failure)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        last = lost or done >= RETIRED[0] or used >= RETIRED[1]
        pipe.send(Answer(record, failure, last))
        if last:
            return


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """The environment of a process that is started meanwhile.  This process keeps its own: Numba reads it at every
    compilation, and refuses another number of threads than it has started."""
    missing = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, str(count)))
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


class Crew:
    """Processes at work on the seeds from `first` on.  `work`: what they do with a seed, a function of a module."""

    def __init__(
        self, corpus: Corpus, first: int, processes: int, programs: int, limits: Limits, work: Work = run_one
    ) -> None:
        self.corpus, self.limits, self.work = corpus, limits, work
        self.next, self.behind = first, first + programs if programs else None
        self.end = time.monotonic() + limits.run
        self.groups: Counter[str] = Counter()
        self.context = multiprocessing.get_context("spawn")
        self.threads = max(1, min(2, (os.cpu_count() or 1) // processes))  # of every process, not of the machine
        self.workers: list[Worker | None] = [None] * processes

    def records(self) -> Iterator[tuple[int, Record]]:
        """(first seed that nothing was started of, what is new), until all is done or the time is over."""
        try:
            while True:
                self._assign()
                busy = [w for w in self.workers if w is not None and (w.task is not None or not w.ready)]
                if not busy or time.monotonic() > self.end + GRACE:
                    break
                ready = wait([w.pipe for w in busy], 0.2)
                for worker in busy:
                    record = self._answered(worker) if worker.pipe in ready else self._overdue(worker)
                    if record is not None:
                        yield self.next, record
        finally:
            cut = [w.task.seed for w in self.workers if w is not None and w.task is not None]
            for index in range(len(self.workers)):
                self._dismiss(index)
        if cut:
            yield self.next, Record(unfinished=[{"seed": s, "why": "the run was over"} for s in sorted(cut)])

    def _assign(self) -> None:
        for index, worker in enumerate(self.workers):
            if self.next == self.behind or time.monotonic() >= self.end:
                continue
            if worker is None:
                worker = self.workers[index] = self._hired()
            if not worker.ready or worker.task is not None:
                continue
            worker.start(Task(self.next), time.monotonic() + self.limits.program)
            self.next += 1

    def _hired(self) -> Worker:
        here, there = self.context.Pipe()
        process = self.context.Process(target=serve, args=(there, self.corpus, self.work), daemon=True)
        with _threads(self.threads):
            process.start()
        there.close()
        return Worker(process, here, time.monotonic() + STARTING)

    def _dismiss(self, index: int) -> int | None:
        worker, self.workers[index] = self.workers[index], None
        return worker.end() if worker is not None else None

    def _answered(self, worker: Worker) -> Record | None:
        index, task = self.workers.index(worker), worker.task
        try:
            answer: Answer | str = worker.pipe.recv()
        except (EOFError, ConnectionError):
            worker.process.join(1.0)
            code = self._dismiss(index)
            if task is None:
                raise RuntimeError(f"a process for programs ended with {code} before it had one") from None
            return self._died(task, code)
        if isinstance(answer, str):
            worker.ready = True
            return None
        assert task is not None
        worker.task = None
        if answer.last:
            self._dismiss(index)
        elif answer.failure is not None:
            self._shrink(worker, task.seed, answer.failure, answer.record.failures[0])
        if task.failure is not None:
            for entry in answer.record.failures:
                entry["replaces"] = task.seed
        return answer.record

    def _shrink(self, worker: Worker, seed: int, failure: Failure, entry: dict[str, Any]) -> None:
        """Make a failure smaller unless others like it were, or the time is short."""
        group = group_of(entry)
        self.groups[group] += 1
        seconds = min(self.limits.shrinking, self.end - time.monotonic())
        if seconds > 1 and self.groups[group] <= ALIKE:
            due = time.monotonic() + seconds + self.limits.program
            worker.start(Task(seed, failure, seconds), due)

    def _overdue(self, worker: Worker) -> Record | None:
        if time.monotonic() < worker.due:
            return None
        task = worker.task
        self._dismiss(self.workers.index(worker))
        if task is None or task.failure is not None:
            return None  # the failure is in the record as it was found
        why = f"no answer after {self.limits.program:g} seconds"
        return Record(unfinished=[{"seed": task.seed, "why": why}])

    def _died(self, task: Task, code: int | None) -> Record:
        if task.failure is not None:
            return Record()
        text = f"the process ended with {code} while it ran seed {task.seed}"
        entry = {"seed": task.seed, "kind": "death", "backend": self.corpus.backend, "script": "", "text": text}
        return Record(failures=[entry])
