"""Computer graphics."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def zoom(image):
    """Twice the size, by linear interpolation between pixels."""
    h, w = image.shape
    y, x = np.linspace(0, h - 1, 2 * h), np.linspace(0, w - 1, 2 * w)
    y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
    y1, x1 = np.minimum(y0 + 1, h - 1), np.minimum(x0 + 1, w - 1)
    fy, fx = (y - y0)[:, None], (x - x0)[None, :]
    top = (1 - fx) * image[np.ix_(y0, x0)] + fx * image[np.ix_(y0, x1)]
    bottom = (1 - fx) * image[np.ix_(y1, x0)] + fx * image[np.ix_(y1, x1)]
    return (1 - fy) * top + fy * bottom


def spheres(directions, centres):
    """Rays from the origin: how far each goes, which unit sphere it meets, and the normal there."""
    d = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    b = (d[:, None] * centres[None]).sum(-1)
    disc = b * b - (centres**2).sum(-1) + 1
    t = np.where(disc > 0, b - np.sqrt(np.maximum(disc, 0)), np.inf)
    nearest = t.argmin(axis=1)
    far = t.min(axis=1)
    hit = far < np.inf
    normals = d * np.where(hit, far, 0)[:, None] - centres[nearest]
    return far, nearest, np.where(hit[:, None], normals, 0)


def palette(indices):
    """A grey ramp and a heat map, looked up."""
    ramp = np.linspace(0, 1, 256)
    heat = np.stack([np.minimum(ramp * 3, 1), np.clip(ramp * 3 - 1, 0, 1), np.clip(ramp * 3 - 2, 0, 1)], axis=1)
    return ramp[indices], heat[indices]


KERNELS = (
    Kernel(zoom, lambda rng: {"image": uniform(rng, 61, 47)}, 1, 1),
    Kernel(spheres, lambda rng: {"directions": normal(rng, 301, 3), "centres": 3 * normal(rng, 17, 3)}, 1, 2),
    Kernel(palette, lambda rng: {"indices": rng.integers(0, 256, (40, 30)).astype(np.uint8)}, 2, 2),
)
