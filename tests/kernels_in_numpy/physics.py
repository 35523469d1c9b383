"""Particles and dynamical systems."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def pair_energy(position, charge):
    apart = position[:, None, :] - position[None, :, :]
    distance = np.sqrt((apart**2).sum(axis=-1))
    np.fill_diagonal(distance, np.inf)
    return 0.5 * np.sum(charge[:, None] * charge[None, :] / distance)


def lennard_jones(position, box=8.0, cutoff=2.5):
    """Forces and energy with periodic images and a cut-off."""
    n = len(position)
    apart = position[:, None] - position[None]
    apart = apart - box * np.round(apart / box)
    squared = np.sum(apart * apart, axis=-1) + np.eye(n, dtype=position.dtype)
    inside = (squared < cutoff**2) & ~np.eye(n, dtype=bool)
    sixth = np.where(inside, 1.0 / squared, 0.0) ** 3
    strength = 24 * (2 * sixth**2 - sixth) / squared
    return np.einsum("ij,ijk->ik", strength, apart), 2 * np.sum(sixth**2 - sixth)


def ising_energy(spins, coupling=1.0, field=0.1):
    right = np.roll(spins, -1, axis=1)
    down = np.roll(spins, -1, axis=0)
    return -coupling * np.sum(spins * (right + down)) - field * np.sum(spins)


def kepler(mean_anomaly, eccentricity):
    """Kepler's equation by five Newton steps."""
    e = mean_anomaly + eccentricity * np.sin(mean_anomaly)
    for _ in range(5):
        e -= (e - eccentricity * np.sin(e) - mean_anomaly) / (1 - eccentricity * np.cos(e))
    return np.stack((np.cos(e) - eccentricity, np.sqrt(1 - eccentricity**2) * np.sin(e)), axis=-1)


def rotate(points, axis, angle):
    """Rodrigues' formula."""
    axis = axis / np.linalg.norm(axis)
    along = (points @ axis)[:, None] * axis
    return points * np.cos(angle) + np.cross(axis, points) * np.sin(angle) + along * (1 - np.cos(angle))


def orbits(rng):
    return {"mean_anomaly": uniform(rng, 40, high=6.28), "eccentricity": uniform(rng, 40, high=0.6)}


KERNELS = (
    Kernel(pair_energy, lambda rng: {"position": normal(rng, 15, 3), "charge": normal(rng, 15)}, 1, 1, tolerance=1e-4),
    # one block for all 13 particles would take longer than a second launch
    Kernel(lennard_jones, lambda rng: {"position": uniform(rng, 13, 3, high=8)}, 2, 2, tolerance=1e-3),
    Kernel(ising_energy, lambda rng: {"spins": rng.choice([-1, 1], (14, 15)).astype(np.float32)}, 1, 1),
    Kernel(kepler, orbits, 1, 1),
    Kernel(rotate, lambda rng: {"points": normal(rng, 19, 3), "axis": normal(rng, 3), "angle": 0.7}, 1, 1),
)
