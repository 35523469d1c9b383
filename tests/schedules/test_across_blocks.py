"""Reductions whose partial results lie in several blocks: one kernel, with what follows the total."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal
from polyfuse.text.apply import apply_text


def total(x):
    return x.sum()


def norm(x):
    return np.sqrt((x * x).sum())


def distance(x, y):
    return ((x - y) ** 2).mean()


def columns(x):
    return x.sum(axis=0)


def rows(x):
    return x.sum(axis=1) * 2


def largest(x):
    return x.argmax()


def both(x):
    return x.sum(0), x.sum(1)


def products(a, x, y):
    return a @ x, a.T @ y


def products_by_einsum(a, x, y):
    return np.einsum("ij,j->i", a, x), np.einsum("ij,i->j", a, y)


def products_by_sums(a, x, y):
    return (a * x).sum(1), (a * y[:, None]).sum(0)


def normal_equations(a, x):
    return a.T @ (a @ x)


PAIR = ("f32[M~16384, N~4096]", "f32[N]", "f32[M]")

CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...], int]] = {
    "total": (total, ("f32[5, 100000]",), 1),
    "norm": (norm, ("f32[M~16384, N~16384]",), 1),
    "distance": (distance, ("f32[M~700, N~300]", "f32[M, N]"), 1),
    "long columns": (columns, ("f32[100000, 64]",), 1),
    "long rows": (rows, ("f32[3, 700000]",), 1),
    "largest": (largest, ("f32[300000]",), 1),
    "both": (both, ("f32[M~16384, N~16384]",), 1),
    "products": (products, PAIR, 1),
    "normal equations": (normal_equations, ("f32[M~512, N~512]", "f32[N]"), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_that_is_right_whatever_block_arrives_last(name: str) -> None:
    function, specs, kernels = CASES[name]
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    assert len(plan.launches) == kernels, str(plan)
    assert_legal(plan)
    assert not [b.name for b in plan.buffers if b.within is not None]  # shares and counters are nobody else's memory
    random = np.random.default_rng(0)
    shapes = [tuple(n.evaluate({"M": 301, "N": 260}) for n in a.shape) for a in plan.program.arguments]
    arguments = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = function(*(a.astype(np.float64) for a in arguments))
    for seed in (0, 1):
        found = run_plan(plan, arguments, seed=seed)
        for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3 * max(1.0, float(np.max(np.abs(other))) / 100))


@pytest.mark.parametrize("spelled", [products_by_einsum, products_by_sums], ids=lambda f: f.__name__)
def test_products_with_a_matrix_and_its_transpose_are_one_plan(spelled: Callable[..., Any]) -> None:
    plans = [pf.jit(f).plan(*map(pf.spec, PAIR), target="h200") for f in (products, spelled)]
    assert plans[0] == plans[1]
    assert len(plans[0].launches) == 1


@pytest.mark.parametrize("name", CASES)
def test_the_text_gives_the_plan_back(name: str) -> None:
    function, specs, _ = CASES[name]
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    assert "combine grid" in str(plan) or name == "distance"
    assert apply_text(str(plan), plan) == plan


def test_a_quotient_by_a_total_is_no_serial_kernel() -> None:
    """Dividing by the total cannot run in the block that finishes it: the two stay apart, and every block divides."""
    found = pf.jit(lambda x: x / x.sum()).plan(pf.spec("f32[N~16777216]"), target="h200")
    assert 1 < len(found.kernels) <= 2
    assert "serial" not in {kernel.strategy for kernel in found.kernels}


def normalisation_gradient(dy, xh):
    centred = dy - dy.mean(axis=-1, keepdims=True)
    return centred - xh * (dy * xh).mean(axis=-1, keepdims=True), (dy * xh).sum(axis=0), dy.sum(axis=0)


@pytest.mark.parametrize("shape", ["65536, 1024", "8192, 1024", "65536, 768"])
def test_a_refuted_schedule_leaves_the_others_of_its_strategy(shape: str) -> None:
    """A tile narrower than the rows has the best price, and no proof: one as wide as the rows has both."""
    plan = pf.jit(normalisation_gradient).plan(*[pf.spec(f"f32[{shape}]")] * 2, target="h200")
    assert [kernel.strategy for kernel in plan.kernels] == ["one_pass"]


def standardised_rows(x):
    d = x - x.mean(axis=0)
    y = d / np.sqrt((d * d).mean(axis=0) + 1e-5)
    return y.sum(axis=1)


def test_rows_of_what_waits_for_columns_are_a_kernel_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    """No block that finishes column sums for all of them has rows of its own, so none is proposed: a refuted kernel
    would be taken apart, with all that is computed in it."""
    with caplog.at_level("INFO", logger="polyfuse.fusion"):
        plan = pf.jit(standardised_rows).plan(pf.spec("f32[M, N]"), target="h200")
    assert "refuted" not in caplog.text
    *columns, rows = [[s.name for s in kernel.statements] for kernel in plan.kernels]
    assert {"d", "y", "sum"} <= {*rows} and all("y" not in names for names in columns)


def test_blocks_that_nothing_tells_apart_leave_no_shares() -> None:
    """Sums of five masked copies, stacked: blocks of the stack would all store the shares of each sum.  While only the
    proof refused that, of one kernel after the other, 45 kernels were left of 200,000 elements, and three are now."""

    def reliability(a: Any, b: Any) -> Any:
        p = 1 / (1 + np.exp(-a))
        inside = [np.where((p >= 0.2 * k) & (p < 0.2 * k + 0.2), 0 * p + 1, 0 * p) for k in range(5)]
        return np.stack([np.sum(m * p) for m in inside]), np.stack([np.sum(m * b) for m in inside])

    plan = pf.jit(reliability).plan(pf.spec("f32[N~200000]"), pf.spec("u8[N~200000]"), target="h200")
    assert len(plan.kernels) <= 4
    assert not any("more than once" in str(verdict) for _, _, verdict in plan.refusals)
