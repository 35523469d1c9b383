"""Kernels that differ in names alone are compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.codegen.alike import without_names
from polyfuse.codegen.printer import print_kernel
from polyfuse.plan import Launch

Array = Any

FIRST = """ROW4 = Tile((4,), (1,), vector=4)
COLUMN = Tile((1, 4), (Size("n0"), 1))


def add_u(u_in, u_out, n0):
    at = 512 * block(0) + 4 * thread()
    v = slots((4,), 0)
    mask = at + v < n0  # f.py:3
    for r in range(n0):
        u = load(u_in, at, COLUMN, (n0,), mask=mask, other=1.0)
    store(u_out, at, ROW4, u, mask=mask)
"""


def renamed(text: str, **names: str) -> str:
    for old, new in names.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "names",
    [
        {"u_in": "u_1_in", "u_out": "u_2_out", "add_u": "add_1_u_1"},
        {"n0": "n1"},
        {"ROW4": "ROW4_2"},
        {"f.py:3": "f.py:4"},
        {"mask = ": "rows = ", "=mask": "=rows"},
    ],
)
def test_names_and_lines_do_not_count(names: dict[str, str]) -> None:
    assert without_names(renamed(FIRST, **names)) == without_names(FIRST)


@pytest.mark.parametrize(
    "names",
    [
        {"store(u_out, at, ROW4, u": "store(u_in, at, ROW4, u"},
        {"512 * block(0)": "256 * block(0)"},
        {"Size(\"n0\")": "Size(\"n1\")"},
        {"other=1.0": "other=2.0"},
        {"load(u_in, at, COLUMN": "load(u_in, v, COLUMN"},
        {", mask=mask, other": ", other=mask, mask"},
        {"thread()": "block(1)"},
    ],
)
def test_everything_else_counts(names: dict[str, str]) -> None:
    assert without_names(renamed(FIRST, **names)) != without_names(FIRST)


def test_a_keyword_is_none_of_the_names() -> None:
    """`mask` and `other` are operands of a load whatever values are called."""
    one = "def f(a):\n    mask = a < 1\n    b = load(a, mask=mask)\n"
    other = "def f(a):\n    other = a < 1\n    b = load(a, other=other)\n"
    assert without_names(one) != without_names(other)


def test_what_is_said_beside_is_renamed_as_the_text_is() -> None:
    text, other = "def f(a):\n    b = a", "def g(c):\n    d = c"
    assert without_names(text, "Parameter('a')") == without_names(other, "Parameter('c')")
    assert without_names(text, "Parameter('a')") != without_names(text, "Parameter('b')")


def diffused(u: Array, steps: int) -> Array:
    for _ in range(steps):
        u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
    return u


def clustered(x: Array, c: Array) -> Array:
    for _ in range(6):
        nearest = ((x[:, None, :] - c[None]) ** 2).sum(-1).argmin(1)
        one = (nearest[:, None] == np.arange(c.shape[0])[None]).astype(x.dtype)
        c = (one.T @ x) / np.maximum(one.sum(0)[:, None], 1)
    return c


def text_of(launch: Launch) -> str:
    return without_names(print_kernel(launch.kernel), repr(launch.kernel.parameters))


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_steps_of_an_unrolled_loop_are_alike(target: str) -> None:
    plan = pf.jit(clustered).plan(pf.spec("f64[N~1000, 2]"), pf.spec("f64[5, 2]"), target=target)
    texts = [text_of(launch) for launch in plan.launches]
    assert len(texts) >= 12 and len(set(texts)) <= 4


def test_the_first_step_is_like_the_others() -> None:
    """A number comes behind an argument as it comes behind what is computed."""
    plan = pf.jit(diffused).plan(np.empty(101), 20)
    texts = [text_of(launch) for launch in plan.launches]
    assert len(texts) > 2 and len(set(texts)) == 1


def test_kernels_that_are_alike_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import polyfuse.face.numba_cpu as backend

    compiled: list[str] = []
    original = backend.compile_kernel

    def counted(source: str, name: str, *rest: Any, **settings: Any) -> Any:
        compiled.append(name)
        return original(source, name, *rest, **settings)

    rate = float(np.random.default_rng().random()) / 9  # of which no kernel is stored yet

    def diffused_further(u: Array) -> Array:
        for _ in range(20):
            u = u + rate * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return u

    monkeypatch.setattr(backend, "compile_kernel", counted)
    u = np.random.default_rng(0).standard_normal(101)
    function = pf.jit(diffused_further)
    np.testing.assert_allclose(function(u), diffused_further(u), rtol=1e-12)
    assert len(compiled) == function.cache_info().compilations == 1 < len(function.plan(u).kernels)


def test_streamed_outputs_are_those_of_their_kernel() -> None:
    """Outputs that bypass the cache go by their number: names differ between kernels that share their code."""
    x = np.random.default_rng(1).integers(-9, 9, (4000, 4500)).astype(np.float64)

    def twice(a: Array) -> tuple[Array, Array]:
        first = np.cumsum(a, axis=1)
        return first, np.cumsum(first, axis=1)

    for _ in range(2):  # compiled, and as stored
        for found, exact in zip(pf.jit(twice, fuse=False)(x), twice(x), strict=True):
            np.testing.assert_array_equal(found, exact)
