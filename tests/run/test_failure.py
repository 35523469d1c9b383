"""Internal failures: a reproducer, one line in the log, the unfused answer; never a traceback of isl or Numba first."""

from __future__ import annotations

import logging
import stat
import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import islpy
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import CompileError, OptionError
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.face.reproduce import script, write
from polyfuse.options import Environment, Options
from polyfuse.plan import Launch, Plan
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.failure import Attempt, is_internal
from polyfuse.run.services import Backend, Services

pytestmark = pytest.mark.fails_inside

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).standard_normal((7, 30)).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def failing_planner(error: Exception, always: bool = False) -> Any:
    def plan(program: Any, target: Any, options: Options, layouts: Any) -> Plan:
        if options.fuse != "none" or always:
            raise error
        return plan_program(program, target, options, layouts)

    return plan


def jitted(folder: Path, planner: Any = plan_program, find: Any = backend, **options: Any) -> Jitted:
    services = Services(
        NumPyFrontend(), planner, find, target_of, None, lambda what, error: write(what, error, str(folder))
    )
    return Jitted(softmax, Options().updated(options), services)


@pytest.mark.parametrize("error", [islpy.Error("isl_map_read: unknown"), KeyError("v3"), AssertionError("a hole")])
def test_the_unfused_answer_is_right_and_said_to_be_unfused(
    error: Exception, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    f = jitted(tmp_path, failing_planner(error))
    np.testing.assert_allclose(f(X), softmax(X), rtol=1e-5)
    np.testing.assert_allclose(f(X), softmax(X), rtol=1e-5)
    (script,) = tmp_path.iterdir()
    (told,) = (r for r in caplog.records if r.name == "polyfuse.failure")
    assert told.levelno == logging.ERROR
    assert "softmax runs without fusion, because polyfuse failed" in told.message
    assert type(error).__name__ in told.message
    assert str(script) in told.message
    plan = f.plan(X)
    assert len(plan.launches) > 1
    assert "runs without fusion, because polyfuse failed" in plan.explain()


def test_what_fails_unfused_too_is_one_sentence_with_the_file(tmp_path: Path) -> None:
    f = jitted(tmp_path, failing_planner(islpy.Error("out of dims"), always=True))
    words = "softmax cannot be compiled: polyfuse failed with Error: out of dims"
    with pytest.raises(CompileError, match=words) as caught:
        f(X)
    (script,) = tmp_path.iterdir()
    assert str(script) in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert "islpy" not in shown and "direct cause" not in shown


def test_a_kernel_that_does_not_compile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = backend("numba_cpu")

    class Broken:
        name, device = own.name, own.device
        versions, load, allocator = own.versions, own.load, own.allocator

        def compile(self, launch: Launch, plan: Plan) -> Any:
            if plan.options.fuse != "none":
                raise CompileError("kernel k does not compile:\nNo implementation of function")
            return own.compile(launch, plan)

        def job(self, launch: Launch, plan: Plan) -> None:
            return None

    def find(name: str) -> Backend:
        return Broken()  # type: ignore[return-value]

    np.testing.assert_allclose(jitted(tmp_path, find=find)(X), softmax(X), rtol=1e-5)
    assert "CompileError: kernel k does not compile:" in caplog.text


def test_the_reproducer_is_the_users_alone_and_repeats_the_failure(tmp_path: Path) -> None:
    jitted(tmp_path, failing_planner(KeyError("v3")))(X)
    (script,) = tmp_path.iterdir()
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    text = script.read_text()
    assert "# KeyError: 'v3'" in text
    done = subprocess.run(
        [sys.executable, str(script)], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "softmax: no failure\n"  # the planner of that process is whole
    broken = text.replace("again(", "import polyfuse.planning.proving as p\np.prove = None\nagain(")
    script.write_text(broken)
    done = subprocess.run(
        [sys.executable, str(script)], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1 and "TypeError" in done.stderr


def attempted(name: str = "numba_cpu") -> Attempt:
    plan = plan_of_softmax()
    return Attempt(plan.program, plan.target, Options(), (), name)


def plan_of_softmax() -> Plan:
    return pf.jit(softmax).plan(X, target="cpu")


def repeat(text: str) -> None:
    """Run a reproducer in this process."""
    exec(compile(text, "reproducer", "exec"), {})


@pytest.mark.parametrize("name", ["", "numba_cpu"])
def test_a_reproducer_plans_and_compiles_again(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    found = backend("numba_cpu")

    class Told:
        def compile(self, launch: Launch, plan: Plan) -> None:
            assert found.name == name and plan.program.name == "softmax"
            compiled.append(launch.kernel.name)

    monkeypatch.setattr("polyfuse.face.joined.backend", lambda asked: Told())
    text = script(attempted(name), KeyError("v3"))
    repeat(text)
    assert capsys.readouterr().out == "softmax: no failure\n"
    assert len(compiled) == (len(plan_of_softmax().launches) if name else 0)


def test_a_reproducer_fails_as_the_program_did(monkeypatch: pytest.MonkeyPatch) -> None:
    text = script(attempted(), KeyError("v3"))

    def fail(*arguments: Any) -> None:
        raise KeyError("v3")

    monkeypatch.setattr("polyfuse.planning.planner.plan_program", fail)
    with pytest.raises(KeyError, match="v3"):
        repeat(text)


def test_a_program_that_cannot_be_written_down_says_so() -> None:
    unstorable = replace(attempted(), options=object())  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match="this program cannot be written down: "):
        repeat(script(unstorable, KeyError("v3")))


def test_where_nothing_can_be_written_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    assert write(attempted(), KeyError("v3"), str(tmp_path / "taken" / "below")) == ""


def test_errors_of_users_stay_what_they_are(tmp_path: Path) -> None:
    f = jitted(tmp_path, tiles={"nobody": {"threads": 3}})
    with pytest.raises(OptionError):
        f(X)
    assert not list(tmp_path.iterdir())
    assert not is_internal(OptionError("x")) and not is_internal(MemoryError())


def test_without_a_reporter_failures_are_raised_as_they_are(tmp_path: Path) -> None:
    services = Services(NumPyFrontend(), failing_planner(KeyError("v3")), backend, target_of)
    with pytest.raises(KeyError):
        Jitted(softmax, Options(), services)(X)


def test_the_public_face_reports_into_the_dump_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from polyfuse.face.joined import services

    own = services(Environment(dump=str(tmp_path), cache="off"))
    f = Jitted(softmax, Options(), replace(own, planner=failing_planner(KeyError("v3"))))
    np.testing.assert_allclose(f(X), softmax(X), rtol=1e-5)
    assert [p.name.startswith("reproduce_softmax") for p in tmp_path.iterdir()] == [True]
