"""Several kernels at once: the same outcomes whoever runs a job, whatever a helper does, and nothing left behind."""

from __future__ import annotations

import io
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polyfuse.run import jobs as jobs_module
from polyfuse.run.dispatch import Jitted
from polyfuse.run.jobs import helpers_for, run_jobs

COUNT = 6


def wait_for(marker: Path) -> None:
    until = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < until:
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Told:
    """A job that tells who ran it; in a helper it may fail first.  `marker`: a file that a helper makes, without which
    the parent ends no job but the first."""

    number: int
    parent: int
    how: str = "well"
    is_concurrent: bool = False
    marker: str = ""
    is_begun: bool = False

    @property
    def weight(self) -> int:
        return self.number

    @property
    def code(self) -> int:
        return self.number

    def run(self) -> bytes:
        if os.getpid() != self.parent:
            Path(self.marker).touch()
            if self.how == "raises":
                raise ValueError("not here")
            if self.how == "dies":
                os._exit(3)
            if self.how == "prints":
                print("a line that is no answer")
        elif self.how == "wrong":
            raise LookupError(f"job {self.number}")
        elif self.marker and self.number < COUNT - 1:
            wait_for(Path(self.marker))
        return f"{self.number} {'here' if os.getpid() == self.parent else 'there'}".encode()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Processes started; one helper is used for every list of jobs."""
    found: list[Any] = []
    monkeypatch.setattr(jobs_module, "helpers_for", lambda count: 1)
    real = subprocess.Popen

    def popen(*args: Any, **kwargs: Any) -> Any:
        found.append(real(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(jobs_module.subprocess, "Popen", popen)
    return found


def numbers(outcomes: list[bytes]) -> list[int]:
    return [int(outcome.split()[0]) for outcome in outcomes]


@pytest.mark.parametrize("how", ["well", "prints"])
def test_a_helper_takes_jobs(how: str, started: list[Any], tmp_path: Path) -> None:
    outcomes = run_jobs([Told(k, os.getpid(), how, marker=str(tmp_path / "m")) for k in range(COUNT)])
    assert numbers(outcomes) == list(range(COUNT))
    assert any(outcome.endswith(b"there") for outcome in outcomes)
    assert [process.poll() is not None for process in started] == [True]


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_what_a_helper_fails_at_is_done_here(
    how: str, started: list[Any], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(logging.WARNING, "polyfuse.run"):
        outcomes = run_jobs([Told(k, os.getpid(), how, marker=str(tmp_path / "m")) for k in range(COUNT)])
    assert outcomes == [f"{k} here".encode() for k in range(COUNT)]
    assert ["this one goes on alone" in record.message for record in caplog.records] == [True]
    assert started[0].poll() is not None


def test_nobody_waits_for_a_helper_to_start(started: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "polyfuse.run"):
        assert numbers(run_jobs([Told(k, os.getpid()) for k in range(5)])) == list(range(5))
    assert not caplog.records
    assert all(process.poll() is not None for process in started)


def test_no_process_can_be_started(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module.sys, "executable", "/nowhere/python")
    assert numbers(run_jobs([Told(k, os.getpid()) for k in range(5)])) == list(range(5))
    assert not started


@pytest.mark.parametrize("is_concurrent", [False, True])
def test_an_error_of_a_job_is_raised(is_concurrent: bool) -> None:
    with pytest.raises(LookupError, match="job 3"):
        run_jobs([Told(k, os.getpid(), "wrong" if k == 3 else "well", is_concurrent) for k in range(6)])


@dataclass(slots=True)
class Meeting:
    """A job that ends once so many others run beside it."""

    barrier: threading.Barrier
    is_begun: bool
    is_concurrent: bool = True
    weight: int = 1

    @property
    def code(self) -> int:
        return id(self)

    def run(self) -> bytes:
        self.barrier.wait(20 if self.is_begun else 0.2)
        return b""


def test_two_kernels_are_compiled_side_by_side_unless_they_are_the_first_of_a_process() -> None:
    met = threading.Barrier(2)
    assert run_jobs([Meeting(met, True), Meeting(met, True)]) == [b"", b""]
    with pytest.raises(threading.BrokenBarrierError):
        run_jobs([Meeting(met, False), Meeting(met, False)])


def served(monkeypatch: pytest.MonkeyPatch, *jobs: Told) -> list[Any]:
    """What a helper answers that is given these jobs."""
    stream = io.BytesIO(b"".join(pickle.dumps(job) for job in jobs))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    with tempfile.TemporaryFile() as answers:
        kept = os.dup(1)
        os.dup2(answers.fileno(), 1)
        try:
            jobs_module.serve()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        answers.seek(0)
        return [pickle.load(answers) for _ in range(1 + len(jobs))]


def test_a_helper_answers_with_bytes_or_with_what_went_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere, marker = os.getpid() + 1, str(tmp_path / "m")
    jobs = [Told(k, elsewhere, how, marker=marker) for k, how in enumerate(("well", "raises", "prints"))]
    assert served(monkeypatch, *jobs) == ["ready", b"0 there", "ValueError: not here", b"2 there"]


def test_one_job_needs_no_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "_Work", None)
    assert run_jobs([Told(4, os.getpid())]) == [b"4 here"]


def test_a_process_is_not_started_after_it_was_released() -> None:
    helper = jobs_module._Helper()
    helper.release()
    assert helper._start() is None
    work = jobs_module._Work([Told(0, os.getpid())], deque([0]))
    helper.work(work)
    assert list(work.waiting) == [0]
    helper.end()


def test_processes_are_started_only_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "processors", lambda: 16)
    counts = [helpers_for(jobs) for jobs in range(1, 200)]
    assert counts[:60] == [0] * 60 and counts[120] == 8 and counts == sorted(counts)
    monkeypatch.setattr(jobs_module, "processors", lambda: 1)
    assert not any(helpers_for(jobs) for jobs in range(1, 200))


def steps(x):
    y = np.exp(x) + 1
    z = np.sqrt(np.abs(y)) * 2
    return (z - z.mean(axis=1, keepdims=True)).sum(axis=0)


def test_kernels_of_a_helper_run(services: Any, started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All jobs but the first go to the helper."""
    from polyfuse.options import Options

    monkeypatch.setattr(jobs_module._Work, "run_all", lambda self: time.sleep(0))
    monkeypatch.setattr(jobs_module._Helper, "release", lambda self: None)
    x = np.random.default_rng(0).normal(size=(40, 50)).astype("f4")
    f = Jitted(steps, Options(fuse=False), services)
    np.testing.assert_allclose(f(x), steps(x), rtol=1e-4, atol=1e-4)
    assert len(started) == 1
    assert f.cache_info().compilations > 2


SCRIPT = """
import numpy as np
import polyfuse.run.jobs as jobs
import polyfuse as pf
jobs.helpers_for = lambda count: 1
f = pf.jit(lambda x: np.exp(x).sum(axis=0) / np.abs(x).max(), fuse=False)
x = np.ones((4, 5), np.float32)
assert np.allclose(f(x), np.exp(x).sum(axis=0))
print("ran once")
"""


def test_a_script_without_a_main_guard_runs_once() -> None:
    environment = {**os.environ, "POLYFUSE_CACHE": "off", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-"], input=SCRIPT, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("ran once\n", 0), done.stderr


HASHES = """
import pickle, sys
from polyfuse.affine import Affine, dimension
from polyfuse.dtypes import f32
from polyfuse.terms import Apply, Index, Ref
term = Apply("add", (Ref("x", f32), Index(dimension(0) * 2 + 1, f32)), f32)
if sys.argv[1] == "write":
    hash(term)
    sys.stdout.buffer.write(pickle.dumps(term))
else:
    received = pickle.loads(sys.stdin.buffer.read())
    assert received == term and received in {term} and received.operands[1].affine in {dimension(0) * 2 + 1}
"""


def test_a_term_is_found_in_another_process() -> None:
    """Strings hash differently there, so a remembered hash must not travel."""
    sent = b""
    for seed, role in (("1", "write"), ("2", "read")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", HASHES, role]
        sent = subprocess.run(command, input=sent, env=environment, capture_output=True, check=True).stdout
        assert bool(sent) == (role == "write")  # the reader has found it, or would have failed
