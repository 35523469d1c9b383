"""Programs as NumPy users write them that once failed to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]


def ising_energy(spins):
    """The last row stands alone after the loop; of its two neighbours one is never read."""
    right, down = np.roll(spins, -1, axis=1), np.roll(spins, -1, axis=0)
    return -np.sum(spins * (right + down)) - 0.1 * np.sum(spins)


def sum_of_constants(x):
    return np.full(x.shape, 2.0, np.float32).sum() + x.sum()


def k_means_step(points, centres):
    """An argmin and a value of nearly its name are both stored by one kernel."""
    distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    nearest = np.argmin(distance, axis=1)
    member = (nearest[:, None] == np.arange(len(centres))).astype(points.dtype)
    return nearest, (member.T @ points) / np.maximum(member.sum(axis=0), 1)[:, None]


CASES: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (ising_energy, ((14, 15),)),
    (sum_of_constants, ((40,),)),
    (k_means_step, ((25, 3), (4, 3))),
]


@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
@pytest.mark.parametrize(("function", "shapes"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_right(jit: Jit, function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], backend: str) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = function(*(a.astype(np.float64) for a in arrays))
    found = jit(function, backend=backend)(*arrays)
    for f, e in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-5)
