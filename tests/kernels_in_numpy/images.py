"""Photographs: filters, tone curves, morphology."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, uniform


def sobel(image):
    gx = np.zeros_like(image)
    gy = np.zeros_like(image)
    gx[1:-1, 1:-1] = (
        image[:-2, 2:] + 2 * image[1:-1, 2:] + image[2:, 2:] - image[:-2, :-2] - 2 * image[1:-1, :-2] - image[2:, :-2]
    )
    gy[1:-1, 1:-1] = (
        image[2:, :-2] + 2 * image[2:, 1:-1] + image[2:, 2:] - image[:-2, :-2] - 2 * image[:-2, 1:-1] - image[:-2, 2:]
    )
    return np.hypot(gx, gy), np.arctan2(gy, gx)


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


def equalise(image):
    """Histogram equalisation of an image of 64 grey levels."""
    levels = np.arange(64)
    histogram = np.sum(image[:, :, None] == levels, axis=(0, 1))
    cumulative = np.cumsum(histogram)
    low = cumulative.min()
    table = np.floor((cumulative - low) / (image.size - low) * 63 + 0.5)
    return table.astype(np.int32)[image]


def auto_contrast(image):
    low, high = image.min(), image.max()
    return (image - low) / (high - low)


def grey_image(rng):
    return {"image": uniform(rng, 19, 23)}


def photograph(rng):
    return {"photo": uniform(rng, 11, 13, 3)}


KERNELS = (
    Kernel(sobel, grey_image, h200=1, cpu=1),
    Kernel(opening, grey_image, h200=1, cpu=1),
    Kernel(tone, photograph, h200=1, cpu=1),
    # one block for all 64 counts would take longer than a third launch
    Kernel(equalise, lambda rng: {"image": rng.integers(0, 64, (17, 21))}, h200=3, cpu=2),
    Kernel(auto_contrast, grey_image, 1, 1),
)
