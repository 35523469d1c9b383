"""Planning ends: programs made to take long stay within the allowance, and what was left out is said."""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import dependences
from polyfuse.grouping.allowance import AGAIN, AGAIN_IN_ALL, UNIT, Allowance, allowance, further, left_for_refusals
from polyfuse.grouping.moves import Move
from polyfuse.grouping.queue import Queue, Trial
from polyfuse.grouping.search import search
from polyfuse.scop import Statement
from polyfuse.testing import assert_equivalent
from tests.grouping.programs import adversarial


def fourier(x: Any) -> Any:
    """Recursive halves of coprime strides, concatenated at every level."""

    def transform(real: Any, imaginary: Any, n: int) -> tuple[Any, Any]:
        if n == 1:
            return real, imaginary
        halves = [transform(real[k::2], imaginary[k::2], n // 2) for k in (0, 1)]
        angle = -2 * np.pi * np.arange(n // 2) / n
        c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        (a, b), (p, q) = halves
        turned = c * p - s * q, c * q + s * p
        return np.concatenate([a + turned[0], a - turned[0]]), np.concatenate([b + turned[1], b - turned[1]])

    return transform(x, x * 0, 8)


def coprime_strides(x: Any) -> Any:
    total = 0
    for a, b in ((7, 11), (13, 17), (19, 23), (29, 31)):
        total = total + x[a::b][:2000] * x[b::a][:2000]
    return total + np.cumsum(total)[::-1]


def many_dimensions(x: Any) -> Any:
    for k in range(3):
        x = np.exp(x.transpose(1, 2, 3, 4, 5, 6, 7, 0)) + x.sum(axis=k, keepdims=True)
    return x


def long_einsum(a: Any) -> Any:
    return np.einsum("ab,bc,cd,de,ef,fg,gh,hi,ij,jk->ak", *[a] * 10)


def triangle(lower: Any, x: Any) -> Any:
    return np.stack([lower[i, : i + 1] @ x[: i + 1] for i in range(8)])


def shrinking(x: Any) -> Any:
    for _ in range(10):
        x = (x[1:] - x[:-1]) * np.float32(0.5) + x[1:] * np.float32(0.25)
    return x


def many_outputs(x: Any) -> Any:
    return tuple((x[k:] * x[: 4096 - k]).sum() for k in range(60))


def recurrence(x: Any, h: Any, w: Any, u: Any) -> Any:
    """A gated recurrent unit."""
    n, states = h.shape[1], []
    for t in range(x.shape[0]):
        given, carried = x[t] @ w, h @ u
        update, reset = (
            1 / (1 + np.exp(-(given[:, k * n : (k + 1) * n] + carried[:, k * n : (k + 1) * n]))) for k in (0, 1)
        )
        h = update * h + (1 - update) * np.tanh(given[:, 2 * n :] + reset * carried[:, 2 * n :])
        states.append(h)
    return np.stack(states)


def different_axes(count: int) -> Callable[[Any], Any]:
    """Reductions of one array over every set of its axes: each pair of them may or may not share a kernel."""
    axes = [a for r in range(1, 5) for a in itertools.combinations(range(4), r)]

    def function(x: Any) -> Any:
        return tuple((x * (k + 1)).sum(axis=axes[k % len(axes)]) for k in range(count))

    return function


def normalised(x: Any) -> Any:
    """Reductions over the same rows that depend on each other: a search for each of two forms."""
    c = x - x.mean(axis=1, keepdims=True)
    e = np.exp(c / np.sqrt((c * c).mean(axis=1, keepdims=True) + 1))
    return e / e.sum(axis=1, keepdims=True), x.sum(axis=0)


def triangular_solve(lower: Any, b: Any) -> Any:
    """Forward substitution, its static loop unrolled."""
    x: list[Any] = []
    for i in range(9):
        s = b[i] - (lower[i, :i] * np.stack(x)).sum() if i else b[i]
        x.append(s / lower[i, i])
    return np.stack(x)


def cholesky(a: Any) -> Any:
    a = a.copy()
    for j in range(4):
        for i in range(j):
            a[j, i] = (a[j, i] - a[j, :i] @ a[i, :i]) / a[i, i]
        a[j, j] = np.sqrt(a[j, j] - a[j, :j] @ a[j, :j])
    return np.tril(a)


def written_rows(lower: Any, x: Any) -> Any:
    out = np.zeros_like(x)
    for i in range(12):
        out[i] = (lower[i, :i] * x[:i]).sum()
    return out


def coprime_steps(x: Any) -> Any:
    return tuple(x[a :: b * 97 + 1][:50] * x[:: a * 89 + 3][:50] for a in range(1, 5) for b in range(1, 5))


def hundreds_of_outputs(x: Any) -> Any:
    return tuple(np.tanh(x[k]) + k for k in range(200))


def twelve_axes(x: Any) -> Any:
    for k in range(3):
        x = x.transpose(*range(1, 12), 0) * 2 + x.max(axis=k, keepdims=True)
    return x


def long_chain(x: Any) -> Any:
    for _ in range(60):
        x = np.sin(x) * np.float32(1.01) + x[::-1]
    return x


def deep_sharing(x: Any) -> Any:
    for _ in range(60):
        x = np.tanh(x * x + x) * x
    return x


def gram_schmidt(a: Any) -> Any:
    a = a.copy()
    q, r = np.zeros_like(a), np.zeros((a.shape[1], a.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt((a[:, k] * a[:, k]).sum())
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = (q[:, k] * a[:, j]).sum()
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


def elimination(a: Any) -> Any:
    """LU without pivots, its static loop unrolled."""
    a = a.copy()
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k : k + 1, k + 1 :]
    return a


def subsequence(a: Any, b: Any) -> Any:
    """The longest common one: a table of dynamic programming."""
    table = np.zeros((a.shape[0] + 1, b.shape[0] + 1), np.int32)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            longer = np.maximum(table[i, j + 1], table[i + 1, j])
            table[i + 1, j + 1] = np.where(a[i] == b[j], table[i, j] + 1, longer)
    return table


def shortest_paths(d: Any) -> Any:
    """Floyd and Warshall."""
    for k in range(d.shape[0]):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return d


def substitution(lower: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    for i in range(b.shape[0]):
        x[i] = (b[i] - (lower[i, :i] * x[:i]).sum()) / lower[i, i] if i else b[0] / lower[0, 0]
    return x


PROGRAMS: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (fourier, ("f32[8]",)),
    (coprime_strides, ("f32[100003]",)),
    (many_dimensions, ("f32[4, 4, 4, 4, 4, 4, 4, 4]",)),
    (long_einsum, ("f32[256, 256]",)),
    (triangle, ("f32[8, 8]", "f32[8, 32]")),
    (shrinking, ("f32[100000]",)),
    (many_outputs, ("f32[4096]",)),
    (recurrence, ("f32[2, 32, 128]", "f32[32, 64]", "f32[128, 192]", "f32[64, 192]")),
    (different_axes(7), ("f32[16, 24, 32, 40]",)),
    (deep_sharing, ("f32[N, M]",)),
    (triangular_solve, ("f32[9, 9]", "f32[9]")),
    (cholesky, ("f32[4, 4]",)),
    (written_rows, ("f32[12, 12]", "f32[12]")),
    (coprime_steps, ("f32[1000003]",)),
    (hundreds_of_outputs, ("f32[200, 1000]",)),
    (twelve_axes, (f"f32[{', '.join(['2'] * 12)}]",)),
    (long_chain, ("f32[1000]",)),
    (gram_schmidt, ("f64[30, 5]",)),
    (elimination, ("f32[8, 8]",)),
    (subsequence, ("i32[4]", "i32[4]")),
    (shortest_paths, ("f32[8, 8]",)),
    (substitution, ("f64[10, 10]", "f64[10]")),
]
SECONDS = 60
"""Of a core, which no program of PROGRAMS takes a tenth of: a search without a bound takes minutes."""


@pytest.mark.parametrize(("function", "specs"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_work_is_bounded_by_the_number_of_statements(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    start = time.process_time()
    plan = pf.jit(function, library=False).plan(*map(pf.spec, specs), target="h200")
    assert time.process_time() - start < SECONDS
    count = len(plan.scop.statements)
    allowed = allowance(count)
    assert not plan.fallback
    assert plan.work < 1.25 * allowed.all  # the last price may go over it, final kernels are built once more


def test_kernels_of_launches_are_joined_without_looking_for_the_very_best() -> None:
    """Every move wins a launch: to price all of them before each is made took 113,000 units."""
    plan = pf.jit(substitution).plan(pf.spec("f64[16, 16]"), pf.spec("f64[16]"), target="h200")
    assert (plan.unweighed, len(plan.kernels)) == (0, 1)
    assert plan.work < 55_000, plan.work


def test_proposals_that_place_everything_alike_are_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drafted: list[tuple[Any, Any]] = []
    module = sys.modules["polyfuse.planning.choose"]
    draft = module.draft_schedule

    def counted(name: str, group: Any, proposal: Any) -> Any:
        drafted.append((group, replace(proposal, strategy="", parameters=())))
        return draft(name, group, proposal)

    monkeypatch.setattr(module, "draft_schedule", counted)
    pf.jit(different_axes(7)).plan(pf.spec("f32[16, 24, 32, 40]"), target="h200")
    assert len(drafted) > 100
    assert not [k for k, d in enumerate(drafted[1:]) if any(d[0] is e[0] and d[1] == e[1] for e in drafted[:k])]


def test_values_share_memory_without_dependences_of_the_whole_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel per statement, whose intermediates live in each other: 698 walks over all dependences for the 315
    statements of a Gram-Schmidt of 12 columns were a fifth of its planning."""
    made, original = 0, dependences._dependence

    def counted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return original(*arguments)

    monkeypatch.setattr(dependences, "_dependence", counted)
    plan = pf.jit(gram_schmidt, fuse=False).plan(pf.spec("f64[30, 5]"), target="h200")
    reads = sum(len(s.reads) for s in plan.scop.statements if isinstance(s, Statement))
    assert len(plan.kernels) > 40
    assert made < 2 * reads, (made, reads)


GRANTED = 0.05
"""Seconds, as `planning_seconds`: what every program above plans within, and a few seconds of a core."""


@pytest.mark.parametrize(("function", "specs"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_work_stays_within_what_the_user_grants(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    start = time.process_time()
    plan = pf.jit(function, library=False, planning_seconds=GRANTED).plan(*map(pf.spec, specs), target="h200")
    assert time.process_time() - start < SECONDS / 4
    placed = sum(len(kernel.schedule.placed) for kernel in plan.kernels)
    assert not plan.fallback
    assert plan.work < GRANTED / UNIT + 20 * placed  # of single statements, and of final kernels by all proposals


@pytest.fixture
def stingy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that may cost next to nothing."""
    module = sys.modules["polyfuse.grouping.search"]  # the package has a function of that name
    monkeypatch.setattr(module, "allowance", lambda statements, done=0, granted=None: Allowance(done + 20, done + 40))


@pytest.mark.usefixtures("stingy")
def test_moves_that_cost_nothing_to_price_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's prices are no work at all; trying thousands of moves would be."""
    tried, original = 0, Queue._tried

    def counted(self: Queue, move: Move, **how: bool) -> Trial:
        nonlocal tried
        tried += 1
        return original(self, move, **how)

    monkeypatch.setattr(Queue, "_tried", counted)
    grouping = search(adversarial(1, 40))
    assert grouping.unweighed > 0
    assert tried < 100, tried  # 40 units, and what is no choice: chains, shakes, stores that nobody reads


@pytest.mark.usefixtures("stingy")
def test_moves_are_not_even_entered_when_nothing_is_weighed_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded, original = 0, Queue.bound

    def counted(self: Queue, move: Move) -> int:
        nonlocal bounded
        bounded += 1
        return original(self, move)

    monkeypatch.setattr(Queue, "bound", counted)
    assert search(adversarial(1, 40)).unweighed > 0
    assert bounded < 150, bounded  # 40 units at a third of a unit each


def test_searches_after_refusals_share_an_allowance() -> None:
    assert further(100, 10**9) == further(100, AGAIN)
    assert further(100, 7) == Allowance(107, 100 + 7 * 1.5, 100)
    assert further(100, -3) == Allowance(100, 100, 100)


def test_moves_that_hope_for_little_are_left_out_in_the_second_half() -> None:
    """Of large kernels: those of a few statements cost next to nothing to price."""
    allowed = Allowance(200, 300, 100)
    assert allowed.permits(150, 50, 0.0) and not allowed.permits(151, 50, 0.0)
    assert allowed.permits(175, 50, 0.5) and not allowed.permits(176, 50, 0.5)
    assert allowed.permits(200, 50, 3.0) and not allowed.permits(201, 50, 3.0)
    assert allowed.permits(300, 5, 0.0) and not allowed.permits(301, 5, 0.0)
    assert allowed.part(0.5) == Allowance(150, 200, 100)


FACTORISATIONS: list[tuple[Callable[..., Any], tuple[str, ...], int, int, int]] = [
    (substitution, ("f64[64, 64]", "f64[64]"), 1, 50, 12_000),
    (gram_schmidt, ("f64[30, 16]",), 1, 14, 12_000),
    (elimination, ("f32[16, 16]",), 1, 6, 8_000),
    (elimination, ("f32[64, 64]",), 12, 80, 110_000),
]


@pytest.mark.parametrize(("function", "specs", "kernels", "microseconds", "work"), FACTORISATIONS)
def test_unrolled_factorisations_are_planned_in_seconds(
    function: Callable[..., Any], specs: tuple[str, ...], kernels: int, microseconds: int, work: int
) -> None:
    """Grown by one statement after another they took 20 to 100 seconds, and what was left when the work was spent were
    dozens of kernels."""
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    count, seconds = len(plan.kernels), sum(kernel.seconds for kernel in plan.kernels)
    assert count <= kernels  # of numbers: the text of such a plan is exponentially long
    assert seconds <= microseconds * 1e-6
    assert plan.work < work, plan.work


def test_all_searches_of_a_plan_stay_within_what_the_user_grants() -> None:
    first = allowance(1000, done=50, granted=1200)
    assert first == Allowance(50 + 600, 50 + 900, 50)
    assert left_for_refusals(1200) == 200  # and half as much again for small kernels: the other quarter
    assert left_for_refusals(None) == AGAIN_IN_ALL


@pytest.mark.parametrize("function", [shrinking, normalised], ids=lambda f: f.__name__)
def test_a_user_may_grant_less(function: Callable[..., Any]) -> None:
    """Less work, the same answers, and a line that says what was left out; the same plan every time."""
    spec = pf.spec("f32[64, 96]" if function is normalised else "f32[2003]")
    whole = pf.jit(function).plan(spec, target="h200")
    assert whole.unweighed == 0
    plans = [pf.jit(function, planning_seconds=s).plan(spec, target="h200") for s in (1e-6, 0.01, 0.01, 100)]
    none, little, again, plenty = plans
    assert none.work <= little.work < whole.work
    assert len(none.kernels) >= len(little.kernels) >= len(whole.kernels)
    assert little == again and plenty == whole
    for plan in (none, little):
        assert plan.unweighed > 0 and "planning_seconds= allows more" in plan.explain()
    assert_equivalent(none, little)
    assert_equivalent(none, whole)


@pytest.mark.usefixtures("stingy")
def test_what_was_not_weighed_is_logged_and_explained(caplog: pytest.LogCaptureFixture) -> None:
    x = pf.spec("f32[64]")
    with caplog.at_level(logging.WARNING, "polyfuse.fusion"):
        plan = pf.jit(shrinking).plan(x, target="h200")
    assert plan.unweighed > 0
    assert "possible fusions were not weighed" in plan.explain()
    assert "possible fusions were not weighed" in caplog.text
    assert_equivalent(pf.jit(shrinking).plan(x, target="h200", fuse=False), plan)


def test_a_plan_that_weighed_everything_does_not_say_so() -> None:
    plan = pf.jit(shrinking).plan(pf.spec("f32[64]"), target="h200")
    assert plan.unweighed == 0
    assert "not weighed" not in plan.explain()


def test_the_length_of_an_axis_takes_no_time() -> None:
    plan = pf.jit(lambda x: np.exp(x - x.max()).sum()).plan(pf.spec("f32[9223372036854775807]"), target="h200")
    assert not plan.unweighed
