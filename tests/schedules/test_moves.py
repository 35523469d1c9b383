"""What a computed array that is only moved around is computed of is moved instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import expr
from polyfuse.expr import Program
from polyfuse.rewrites.moves import sink_moves

Array = Any
RNG = np.random.default_rng(3)


def traced(function: Callable[..., Any], *specs: str) -> Program:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200", fuse=False).program


def moves_arguments(function: Callable[..., Any], *specs: str) -> bool:
    """Whether the regions that are left read nothing computed."""
    nodes = list(expr.topological(sink_moves(traced(function, *specs)).outputs))
    regions = [node for node in nodes if isinstance(node, expr.Region)]
    return bool(regions) and not any(isinstance(p.source, expr.Map) for node in regions for p in node.pieces)


SUNK: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "a roll": (lambda x: np.roll(np.exp(x), 3, axis=1), ("f32[N, M]",)),
    "a roll along both axes": (lambda x: np.roll(np.exp(x), (3, 5), (0, 1)), ("f32[N, M]",)),
    "a spectrum": (lambda x: np.fft.fftshift(np.log1p(np.abs(x))), ("f32[N, M]",)),
    "of two arrays": (lambda x, y: np.fft.fftshift(np.sqrt(x * x + y * y)), ("f32[N, M]", "f32[N, M]")),
    "of a shared row": (lambda x, w: np.roll(x * w, 2, axis=0), ("f32[N, M]", "f32[M]")),
    "of a shared column": (lambda x, w: np.roll(x * w[:, None], 2, axis=0), ("f32[N, M]", "f32[N]")),
    "of what is turned": (lambda x: np.roll(np.tanh(x.T), 1, axis=0), ("f32[N, M]",)),
    "an edge": (lambda x: np.pad(np.sqrt(x), 2, mode="edge"), ("f32[N, M]",)),
    "a mirror": (lambda x: np.pad(x * 2 + 1, 3, mode="reflect"), ("f32[N, M]",)),
    "of positions": (lambda x: np.roll(x * np.arange(x.shape[0]), 4), ("f32[N]",)),
}
LEFT: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "zeros beside it": (lambda x: np.pad(np.exp(x), 2), ("f32[N, M]",)),
    "needed as it is": (lambda x: np.exp(x) - np.roll(np.exp(x), 1, axis=1), ("f32[N, M]",)),
    "a result": (lambda x: (e := np.exp(x), np.roll(e, 1)), ("f32[N]",)),
    "moved twice": (lambda x: np.roll(e := np.exp(x), 1) + np.roll(e, 2), ("f32[N]",)),
    "of sums": (lambda x: np.roll(x / x.sum(axis=1, keepdims=True), 1, axis=1), ("f32[N, M]",)),
    "of two": (lambda x, y: np.concatenate([np.exp(x), np.exp(y)]), ("f32[N]", "f32[M]")),
    "of neighbours": (lambda x: np.pad(x[1:] - x[:-1], 1, mode="edge").cumsum(), ("f32[N]",)),
}


@pytest.mark.parametrize(("function", "specs"), SUNK.values(), ids=SUNK)
def test_moves_sink_to_arguments(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    assert moves_arguments(function, *specs)


@pytest.mark.parametrize(("function", "specs"), [v for k, v in LEFT.items() if k != "of neighbours"])
def test_what_something_else_needs_is_computed_once(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    program = traced(function, *specs)
    assert sink_moves(program) is program


@pytest.mark.parametrize("sizes", [(7, 9), (8, 16), (5, 40)])
@pytest.mark.parametrize(("function", "specs"), [*SUNK.values(), *LEFT.values()], ids=[*SUNK, *LEFT])
@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_results_are_those_of_numpy(
    function: Callable[..., Any], specs: tuple[str, ...], sizes: tuple[int, int], target: str
) -> None:
    letters = dict(zip("NM", sizes, strict=True))
    shapes = [[letters[k.strip()] for k in spec[spec.index("[") + 1 : -1].split(",")] for spec in specs]
    arrays = [RNG.uniform(0.1, 2.0, shape).astype(np.float32) for shape in shapes]
    found = pf.jit(function, target=target, backend="interpreter")(*arrays)
    wanted = function(*[a.astype(np.float64) for a in arrays])
    found, wanted = (v if isinstance(v, tuple) else (v,) for v in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("spec", ["f32[N~6001, M~8003]", "f32[6000, 8000]", "bf16[N~6001, M~8003]"])
def test_a_spectrum_that_is_shifted_is_one_kernel(spec: str) -> None:
    """In two kernels 196 us on an H200, where 94 are possible: a block in which the quarters meet had four logarithms
    per element."""
    plan = pf.jit(lambda x: np.fft.fftshift(np.log1p(np.abs(x)))).plan(pf.spec(spec), target="h200")
    source = plan.source()
    assert len(plan.kernels) == 1
    assert source.count(" = log1p(") == source.count(" store")  # one per branch


def test_names_and_lines_stay() -> None:
    def shifted(x: Array) -> Array:
        power = x * x
        level = np.log(power)
        return np.roll(level, 5)

    source = pf.jit(shifted).plan(pf.spec("f32[N~100000]"), target="h200").source()
    assert "power_ = " in source and "level = log(power_)" in source


def test_what_has_four_pieces_has_no_frames() -> None:
    """Each block would make all four of whole vectors: 117 us on an H200, 75 in windows."""
    specs = pf.spec("bf16[N~6001, M~8003]")
    both = pf.jit(lambda x: np.fft.fftshift(np.tanh(x))).plan(specs, target="h200")
    along = pf.jit(lambda x: np.roll(np.tanh(x), 5, axis=1)).plan(specs, target="h200")
    assert ["frames" in dict(k.schedule.parameters) for plan in (both, along) for k in plan.kernels] == [False, True]
