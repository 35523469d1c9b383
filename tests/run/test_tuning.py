"""Autotuning: which plans are measured, which one stays, and that it is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cache.store import DiskStore
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.planner import plan_program
from polyfuse.run import tuning
from polyfuse.run.dispatch import CacheInfo, Jitted
from polyfuse.run.prepare import Ready
from polyfuse.run.services import PlanKey, Services
from polyfuse.run.tuning import Signature, Tuner, signature


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def added(x, y):
    return x + y.T


def planned(spec: str = "f32[16384, 4096]") -> tuple[PlanKey, Ready]:
    """What a call that meets a new class begins with: the program as it was traced, and its plan."""
    lowered = pf.jit(softmax).lower(pf.spec(spec), target="h200")
    plan = lowered.plan
    program = replace(lowered.variant.traced.program, hints=plan.program.hints)
    return PlanKey(program, plan.options, plan.layouts, plan.target, "numba_cuda", ()), ready(plan)


def ready(plan: Plan) -> Ready:
    return Ready(plan, (), backend("interpreter"))


def search(seconds: Callable[[int, Plan], float], **options: Any) -> tuple[Ready, list[Plan]]:
    """The plan that stays where the k-th plan takes `seconds(k, plan)`, and all that were measured."""
    key, first = planned()
    measured: list[Plan] = []

    def measure(candidate: Ready) -> float:
        measured.append(candidate.plan)
        return seconds(len(measured) - 1, candidate.plan)

    return Tuner(key, ready, measure, **options).best(first, {}), measured


def only(plan: Plan) -> Signature:
    (launch,) = plan.launches
    return signature(launch.schedule)


def test_the_fastest_of_different_plans_stays() -> None:
    best, measured = search(lambda k, plan: [5.0, 9.0, 4.0, 2.0, 3.0][k] if k < 5 else 9.0)
    assert best.plan is measured[3] and len(measured) > 5
    assert len({frozenset(signature(launch.schedule) for launch in p.launches) for p in measured}) == len(measured)


def test_the_search_goes_on_from_the_fastest() -> None:
    """Fewer threads are faster here, down to one warp: three steps from what the planner chose."""

    def seconds(k: int, plan: Plan) -> float:
        return sum(dict(launch.schedule.parameters).get("threads", 1024) for launch in plan.launches) * 1e-6

    best, measured = search(seconds)
    threads = [dict(only(plan)[2])["threads"] for plan in (measured[0], best.plan)]
    assert threads[0] == 256 and threads[1] <= 64


def test_parameters_are_asked_for_by_names_that_the_user_knows() -> None:
    """One pass over long rows computes values that passes of the planner made."""
    key, first = planned("f32[512, 262144]")
    names, known = signature(first.plan.schedules[0])[0], tuning.value_names(key)
    assert min(names) not in known and names & known
    points = list(tuning.neighbours(tuning.Point(), first.plan, known))
    assert any(point.tiles for point in points) and all(known >= point.tiles.keys() for point in points)
    tuner = Tuner(key, ready, lambda candidate: 1.0)
    tuner.best(first, {})
    assert len(tuner.seen) > 3


def test_the_planners_choice_stays_unless_another_is_clearly_faster() -> None:
    best, measured = search(lambda k, plan: 1.0 - 0.001 * k)
    assert len(measured) > 2 and best.plan is measured[0]


def test_the_budget_ends_the_search() -> None:
    ticks = iter(range(0, 1000, 4))  # seconds
    _, measured = search(lambda k, plan: 1.0, clock=lambda: float(next(ticks)))
    assert 1 <= len(measured) <= 1 + 2


def test_progress_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "polyfuse.tune"):
        search(lambda k, plan: [5e-6, 4e-6, 2e-6, 3e-6][k] if k < 4 else 9e-6)
    lines = [r.getMessage() for r in caplog.records if r.name == "polyfuse.tune"]
    assert lines[0].startswith("softmax 0 of at most 12: 5.0 us, best 5.0 us: rows ")
    assert "2 of at most 12: 2.0 us, best 2.0 us" in lines[2] and "3.0 us, best 2.0 us" in lines[3]


# ---------------------------------------------------------------------------------------------- calls


def process(path: Path, function: Any, *arrays: Any, **options: Any) -> CacheInfo:
    """What a fresh process would do with the store at `path`."""
    services = Services(NumPyFrontend(), plan_program, backend, target_of, DiskStore(path))
    f = Jitted(function, Options().updated({"autotune": True} | options), services)
    expected = function(*(a.copy() for a in arrays))
    np.testing.assert_allclose(f(*arrays), expected, rtol=1e-5)
    return f.cache_info()


def test_the_winner_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    times = iter([2.0, 1.0, 3.0, 3.0, 3.0])
    monkeypatch.setattr(tuning, "timed", lambda run, wait: next(times))
    cold = process(tmp_path, added, x, x)
    assert cold.plans > 1
    monkeypatch.setattr(tuning, "timed", lambda run, wait: pytest.fail("a stored plan is measured again"))
    warm = process(tmp_path, added, x, x)
    assert (warm.plans, warm.compilations, warm.loads) == (0, 0, 1)


def test_the_plan_that_is_shown_is_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    times = iter([2.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0])
    monkeypatch.setattr(tuning, "timed", lambda run, wait: next(times))
    f = Jitted(added, Options(autotune=True), Services(NumPyFrontend(), plan_program, backend, target_of))
    before = f.plan(x, x)
    np.testing.assert_array_equal(f(x, x), added(x, x))
    assert only(f.plan(x, x)) != only(before) == only(f.plan(x, x, autotune=False))


def test_real_times() -> None:
    x = np.random.default_rng(0).standard_normal((40, 300)).astype(np.float32)
    f = Jitted(softmax, Options(autotune=True), Services(NumPyFrontend(), plan_program, backend, target_of))
    np.testing.assert_allclose(f(x), softmax(x), rtol=1e-5)
    assert f.cache_info().plans > 1
    waited: list[int] = []
    assert 0 < tuning.timed(lambda: None, lambda: waited.append(1)) < 1e-3 and len(waited) == 7


def test_what_writes_its_arguments_is_not_tuned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "timed", lambda run, wait: pytest.fail("measured"))
    with caplog.at_level(logging.WARNING):
        assert process(tmp_path, lambda x: x * 2, np.ones((3, 4), np.float32), donate="x").plans == 1
    assert "is not tuned: it writes its arguments" in caplog.text
