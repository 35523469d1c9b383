"""Photographs: filters, tone curves, morphology."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, uniform


def erode(image):
    return np.minimum(np.minimum(image[:-2], image[1:-1]), image[2:])


def dilate(image):
    return np.maximum(np.maximum(image[:-2], image[1:-1]), image[2:])


def opening(image):
    """Morphological opening by a 3 x 3 square."""
    small = erode(erode(image).T)
    return dilate(dilate(small).T)


def tone(photo, exposure=0.5, gamma=2.2):
    """Exposure, filmic curve, saturation and gamma of an RGB photograph."""
    linear = photo**gamma * 2.0**exposure
    mapped = (linear * (2.51 * linear + 0.03)) / (linear * (2.43 * linear + 0.59) + 0.14)
    grey = mapped @ np.array([0.2126, 0.7152, 0.0722], dtype=photo.dtype)
    coloured = grey[..., None] + 1.2 * (mapped - grey[..., None])
    return np.clip(coloured, 0, 1) ** (1 / gamma)


def grey_image(rng):
    return {"image": uniform(rng, 19, 23)}


def photograph(rng):
    return {"photo": uniform(rng, 11, 13, 3)}


KERNELS = (
    Kernel(opening, grey_image, h200=1, cpu=1),
    Kernel(tone, photograph, h200=1, cpu=1),
)
