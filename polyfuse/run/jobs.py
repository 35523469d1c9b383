"""Compiling several kernels at once: threads for what leaves the interpreter's lock, processes where they pay.

Numba types and lowers under one lock, NVVM and ptxas run outside of it; so the jobs of a device run on a few threads.
One process more costs `START_SECONDS` before its first kernel: it is started where what it saves is more than that.
Jobs are handed out one by one, so a helper that starts late takes fewer, and this process never waits for one to start.

Helpers are plain subprocesses that import nothing of the user's (no ``__main__``), live as long as one call of
`run_jobs`, and send back bytes.  One that fails costs a line in the log: its job runs here.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from polyfuse.run.services import Job

START_SECONDS = 2.5  # until a helper has compiled its first kernel: imports, and what Numba does once per process
KERNEL_SECONDS = 0.07
"""A kernel on several threads.  Beside an H200, 31 kernels of a transformer block without fusion: 3.9 s one by one, 2.1
to 2.6 s on threads, 2.9 to 3.6 s with one to seven helpers, which had hardly begun by then."""
MOST_HELPERS = 8
THREADS = 3  # NVVM and ptxas together take as long as what is under the lock

_COMMAND = "from polyfuse.run.jobs import serve; serve()"

_log = logging.getLogger("polyfuse.run")


def run_jobs(jobs: Sequence[Job]) -> list[bytes]:
    """What every job makes, in order; jobs of equal code make it once.  Raises what a job raises."""
    if len(jobs) == 1:
        return [jobs[0].run()]
    firsts: dict[Hashable, int] = {}
    first = [firsts.setdefault(job.code, len(firsts)) for job in jobs]
    if len(firsts) < len(jobs):
        made = run_jobs([jobs[first.index(k)] for k in range(len(firsts))])
        return [made[k] for k in first]
    work = _Work(list(jobs), deque(sorted(range(len(jobs)), key=lambda k: -jobs[k].weight)))
    if not jobs[0].is_begun:
        work.take_one()  # what is made once per process is not made by several threads at a time
    helpers = [_Helper() for _ in range(helpers_for(len(jobs)))]
    try:
        threads = [threading.Thread(target=helper.work, args=(work,), daemon=True) for helper in helpers]
        beside = THREADS - 1 if jobs[0].is_concurrent else 0
        threads += [threading.Thread(target=work.run_all, daemon=True) for _ in range(beside)]
        for thread in threads:
            thread.start()
        work.run_all()
        for helper in helpers:
            helper.release()
        for thread in threads:
            thread.join()
        work.run_all()  # of helpers that failed
    finally:
        for helper in helpers:
            helper.end()
    if work.errors:
        raise work.errors[0]
    return [work.results[k] for k in range(len(jobs))]


def helpers_for(jobs: int) -> int:
    """How many processes pay beside this one."""
    helpers = min(processors() - 1, jobs - 1, MOST_HELPERS)
    saved = (jobs * KERNEL_SECONDS - START_SECONDS) * helpers / (helpers + 1)
    return helpers if saved > START_SECONDS else 0


def processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class _Work:
    """Jobs, the positions of those that nobody has taken, and what was made so far."""

    jobs: list[Job]
    waiting: deque[int]
    results: dict[int, bytes] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    def taken(self) -> Iterator[int]:
        while not self.errors:
            try:
                position = self.waiting.popleft()
            except IndexError:
                return
            yield position

    def run_all(self) -> None:
        for position in self.taken():
            self._run(position)

    def take_one(self) -> None:
        self._run(self.waiting.popleft())

    def _run(self, position: int) -> None:
        try:
            self.results[position] = self.jobs[position].run()
        except BaseException as error:
            self.errors.append(error)


class _Helper:
    """A process that runs jobs, and the thread's side of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = self._is_released = False

    def work(self, work: _Work) -> None:
        """Start the process and hand it jobs until none waits."""
        position = None
        try:
            process = self._start()
            if process is None or process.stdin is None or process.stdout is None:
                return
            _receive(process.stdout)  # it is ready
            with self._lock:
                if self._is_released:
                    return
                self._is_ready = True
            for position in work.taken():
                _send(process.stdin, work.jobs[position])
                outcome = _receive(process.stdout)
                if not isinstance(outcome, bytes):
                    raise RuntimeError(outcome)
                work.results[position] = outcome
                position = None
        except Exception as error:
            if not self._is_released or position is not None:
                _log.warning("a helper process does not compile, this one goes on alone: %r", error)
            if position is not None:
                work.waiting.append(position)

    def release(self) -> None:
        """No job waits any more: a process that has not started yet is ended."""
        with self._lock:
            self._is_released = True
            if self._process is not None and not self._is_ready:
                self._process.kill()

    def end(self) -> None:
        """The process has ended when this returns."""
        with self._lock:
            self._is_released = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout):
                    if pipe is not None:
                        pipe.close()

    def _start(self) -> subprocess.Popen[bytes] | None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with self._lock:
            if self._is_released:
                return None
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
            return self._process


# ---------------------------------------------------------------------------------------------- both sides


def serve() -> None:
    """What a helper does: say that it is there, then run jobs from its input until that ends."""
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # whatever prints, prints elsewhere
        _send(answers, "ready")
        while True:
            try:
                job = _receive(sys.stdin.buffer)
            except EOFError:
                return
            try:
                outcome: bytes | str = job.run()
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            _send(answers, outcome)


def _send(pipe: IO[bytes], value: Any) -> None:
    pickle.dump(value, pipe)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    """What the other side sent: a process of this package, started by this call or the one that started it."""
    return pickle.load(pipe)
