"""Weather and fluids: limited diffusion, vertical advection, cavity flow, shallow water, lattice Boltzmann."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def hdiff(field, coefficient):
    """Horizontal diffusion with a flux limiter; the field has a halo of two points on every side."""
    lap = 4.0 * field[1:-1, 1:-1] - (field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2])
    step = lap[1:, 1:-1] - lap[:-1, 1:-1]
    limited = np.where(step * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0, step)
    across = lap[1:-1, 1:] - lap[1:-1, :-1]
    limited_across = np.where(across * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0, across)
    divergence = limited[1:] - limited[:-1] + limited_across[:, 1:] - limited_across[:, :-1]
    return field[2:-2, 2:-2] - coefficient * divergence


def cavity_velocity(u, v, p, rho=1.0, nu=0.1, dt=0.01, dx=0.5, dy=0.4):
    un, vn = u.copy(), v.copy()
    for new, old, gradient in (
        (u, un, (p[1:-1, 2:] - p[1:-1, :-2]) / (2 * dx)),
        (v, vn, (p[2:, 1:-1] - p[:-2, 1:-1]) / (2 * dy)),
    ):
        inner = old[1:-1, 1:-1]
        new[1:-1, 1:-1] = (
            inner
            - un[1:-1, 1:-1] * dt / dx * (inner - old[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dy * (inner - old[:-2, 1:-1])
            - dt / rho * gradient
            + nu * dt / dx**2 * (old[1:-1, 2:] - 2 * inner + old[1:-1, :-2])
            + nu * dt / dy**2 * (old[2:, 1:-1] - 2 * inner + old[:-2, 1:-1])
        )
        new[0, :] = 0
        new[:, 0] = 0
        new[:, -1] = 0
        new[-1, :] = 0
    u[-1, :] = 1.0
    return u, v


def shallow_water(h, u, v, dt=0.01, g=9.81):
    """One Lax-Friedrichs step on a periodic lattice, momenta from the new height."""

    def mean(a):
        return (np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1)) / 4

    def ddx(a):
        return (np.roll(a, -1, axis=1) - np.roll(a, 1, axis=1)) / 2

    def ddy(a):
        return (np.roll(a, -1, axis=0) - np.roll(a, 1, axis=0)) / 2

    h_new = mean(h) - dt * (ddx(h * u) + ddy(h * v))
    hu = mean(h * u) - dt * (ddx(h * u * u + g * h * h / 2) + ddy(h * u * v))
    hv = mean(h * v) - dt * (ddx(h * u * v) + ddy(h * v * v + g * h * h / 2))
    return h_new, hu / h_new, hv / h_new


def burgers(u, v, nu=0.05, dt=0.002, dx=0.1):
    def step(w):
        inner = w[1:-1, 1:-1]
        advected = u[1:-1, 1:-1] * (inner - w[:-2, 1:-1]) + v[1:-1, 1:-1] * (inner - w[1:-1, :-2])
        diffused = w[2:, 1:-1] + w[:-2, 1:-1] + w[1:-1, 2:] + w[1:-1, :-2] - 4 * inner
        new = np.ones_like(w)
        new[1:-1, 1:-1] = inner - dt / dx * advected + nu * dt / dx**2 * diffused
        return new

    return step(u), step(v)


def vorticity(u, v, dx=0.1):
    dv = np.diff(v, axis=1)[:-1]
    du = np.diff(u, axis=0)[:, :-1]
    curl = (dv - du) / dx
    return curl, 0.5 * np.mean(curl**2)


def wet_bulb(temperature, humidity):
    """Stull's formula (2011), per cent and degrees Celsius."""
    root = np.sqrt(humidity + 8.313659)
    return (
        temperature * np.arctan(0.151977 * root)
        + np.arctan(temperature + humidity)
        - np.arctan(humidity - 1.676331)
        + 0.00391838 * humidity**1.5 * np.arctan(0.023101 * humidity)
        - 4.686035
    )


def named(*names, shape=(13, 16)):
    return lambda rng: {n: normal(rng, *shape) for n in names}


def water(rng):
    return {"h": uniform(rng, 12, 14, low=1, high=2), "u": normal(rng, 12, 14), "v": normal(rng, 12, 14)}


KERNELS = (
    Kernel(hdiff, lambda rng: {"field": normal(rng, 17, 19), "coefficient": uniform(rng, 13, 15)}, 1, 1),
    Kernel(cavity_velocity, named("u", "v", "p"), 1, 1, options={"donate": ("u", "v")}),
    Kernel(shallow_water, water, 1, 1, tolerance=1e-4),
    Kernel(burgers, named("u", "v"), 1, 1),
    Kernel(vorticity, named("u", "v"), 1, 1),
    Kernel(
        wet_bulb,
        lambda rng: {"temperature": uniform(rng, 50, high=40), "humidity": uniform(rng, 50, low=5, high=99)},
        1,
        1,
    ),
)
