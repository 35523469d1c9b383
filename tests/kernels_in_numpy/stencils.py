"""Finite differences: relaxation, waves, electromagnetics."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def jacobi_1d(a, b, steps=2):
    for _ in range(steps):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])
    return a, b


def jacobi_2d(u, steps=2):
    for _ in range(steps):
        new = u.copy()
        new[1:-1, 1:-1] = 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1])
        u = new
    return u


def heat_3d(a):
    b = np.copy(a)
    c = a[1:-1, 1:-1, 1:-1]
    b[1:-1, 1:-1, 1:-1] = (
        0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * c + a[:-2, 1:-1, 1:-1])
        + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * c + a[1:-1, :-2, 1:-1])
        + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * c + a[1:-1, 1:-1, :-2])
        + c
    )
    return b


def fdtd_2d(ex, ey, hz, source):
    for t in range(2):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


def seidel_rows(u):
    """Gauss-Seidel between rows, Jacobi inside a row."""
    u = u.copy()
    for i in range(1, u.shape[0] - 1):
        u[i, 1:-1] = 0.25 * (u[i - 1, 1:-1] + u[i + 1, 1:-1] + u[i, :-2] + u[i, 2:])
    return u


def red_black(u):
    """One red-black sweep of Gauss-Seidel on a square lattice."""
    i, j = np.indices(u.shape)
    red = (i + j) % 2 == 0
    inside = (i > 0) & (i < u.shape[0] - 1) & (j > 0) & (j < u.shape[1] - 1)
    for colour in (red, ~red):
        around = (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)) / 4
        u = np.where(colour & inside, around, u)
    return u


def adi_sweep(u, a=0.1):
    """Thomas' algorithm along rows: implicit diffusion in one direction."""
    n = u.shape[1]
    p = np.zeros_like(u)
    q = np.zeros_like(u)
    v = np.zeros_like(u)
    v[:, 0] = v[:, -1] = 1.0
    q[:, 0] = v[:, 0]
    for j in range(1, n - 1):
        scale = 1.0 / (1 + 2 * a - a * p[:, j - 1])
        p[:, j] = a * scale
        q[:, j] = (u[:, j] + a * q[:, j - 1]) * scale
    for j in range(n - 2, 0, -1):
        v[:, j] = p[:, j] * v[:, j + 1] + q[:, j]
    return v


def wave(now, before, speed=0.4, damping=0.01):
    around = np.roll(now, 1, axis=0) + np.roll(now, -1, axis=0) + np.roll(now, 1, axis=1) + np.roll(now, -1, axis=1)
    after = (2 - damping) * now - (1 - damping) * before + speed**2 * (around - 4 * now)
    return after, now


def laplacian(field):
    padded = np.pad(field, 1, mode="wrap")
    return padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * field


def gray_scott(u, v, feed=0.055, kill=0.062):
    reaction = u * v * v
    u += 0.16 * laplacian(u) - reaction + feed * (1 - u)
    v += 0.08 * laplacian(v) + reaction - (feed + kill) * v
    return u, v


def life(cells):
    neighbours = sum(
        np.roll(np.roll(cells, dy, 0), dx, 1) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)
    )
    return ((neighbours == 3) | ((cells == 1) & (neighbours == 2))).astype(cells.dtype)


def upwind(c, u, dt_dx=0.3):
    flux = np.where(u > 0, np.roll(c, 1), c) * u
    return c - dt_dx * (np.roll(flux, -1) - flux)


def fields(*names, shape=(15, 17), **extra):
    def make(rng):
        return {n: normal(rng, *shape) for n in names} | {n: normal(rng, *s) for n, s in extra.items()}

    return make


KERNELS = (
    Kernel(jacobi_1d, fields("a", "b", shape=(40,)), 1, 1, options={"donate": ("a", "b")}),
    Kernel(jacobi_2d, fields("u"), 1, 1),
    Kernel(heat_3d, fields("a", shape=(8, 9, 10)), 1, 1),
    Kernel(fdtd_2d, fields("ex", "ey", "hz", source=(4,)), 1, 1, options={"donate": ("ex", "ey", "hz")}),
    Kernel(seidel_rows, fields("u", shape=(6, 12)), 1, 1),
    Kernel(red_black, fields("u"), 1, 1),
    Kernel(adi_sweep, fields("u", shape=(9, 7)), 1, 1),
    Kernel(wave, fields("now", "before"), 1, 1),
    Kernel(gray_scott, fields("u", "v"), 1, 1, options={"donate": ("u", "v")}),
    Kernel(life, lambda rng: {"cells": rng.integers(0, 2, (13, 14)).astype(np.int8)}, 1, 1),
    Kernel(upwind, lambda rng: {"c": uniform(rng, 33), "u": normal(rng, 33)}, 1, 1),
)
