"""Algorithms by steps: each works on what the steps before have found."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def levinson(r, order=5):
    """The coefficients of a linear prediction from autocorrelations."""
    a = np.zeros(order + 1, r.dtype)
    a[0] = 1
    error = r[0]
    for k in range(1, order + 1):
        reflection = -(a[:k] * r[k:0:-1]).sum() / error
        a[: k + 1] += reflection * a[: k + 1][::-1].copy()
        error = error * (1 - reflection**2)
    return a, error


def volatility(returns, omega=0.1, alpha=0.2, beta=0.7):
    """GARCH(1, 1) of many series side by side, with its likelihood."""
    variance = returns.var(axis=1)
    total = np.zeros_like(variance)
    for t in range(returns.shape[1]):
        total += np.log(variance) + returns[:, t] ** 2 / variance
        variance = omega + alpha * returns[:, t] ** 2 + beta * variance
    return variance, -0.5 * total


def lattice_gas(f, rate=0.6):
    """A step of lattice Boltzmann with five velocities."""
    moves = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1)]
    weights = np.array([2, 1, 1, 1, 1], f.dtype) / 6
    moved = np.stack([np.roll(f[k], move, axis=(0, 1)) for k, move in enumerate(moves)])
    density = moved.sum(axis=0)
    u, v = (moved[1] - moved[3]) / density, (moved[2] - moved[4]) / density
    along = np.stack([a * u + b * v for a, b in moves])
    balance = weights[:, None, None] * density * (1 + 3 * along)
    return moved - rate * (moved - balance)


def soliton(u, h=0.1, dt=0.0005):
    """Two steps of the Korteweg-de Vries equation."""
    for _ in range(2):
        ux = (np.roll(u, -1) - np.roll(u, 1)) / (2 * h)
        uxxx = (np.roll(u, -2) - 2 * np.roll(u, -1) + 2 * np.roll(u, 1) - np.roll(u, 2)) / (2 * h**3)
        u = u - dt * (6 * u * ux + uxxx)
    return u


KERNELS = (
    Kernel(levinson, lambda rng: {"r": np.array([4, 2, 1, 0.5, 0.3, 0.1], np.float32)}, 1, 1),
    Kernel(volatility, lambda rng: {"returns": normal(rng, 65, 6)}, 1, 1),
    Kernel(lattice_gas, lambda rng: {"f": uniform(rng, 5, 31, 37, low=0.5)}, 1, 1),
    Kernel(soliton, lambda rng: {"u": uniform(rng, 101)}, 1, 1),
)
