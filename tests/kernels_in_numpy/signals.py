"""Signal processing."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def fir(x, taps):
    n = len(x) - len(taps) + 1
    y = np.zeros(n, dtype=x.dtype)
    for k in range(len(taps)):
        y += taps[k] * x[k : k + n]
    return y


def convolve_same(x, h):
    return np.convolve(x, h, mode="same")


def haar(x, levels=3):
    """A wavelet transform: averages of the last level, then the details."""
    details = []
    for _ in range(levels):
        even, odd = x[0::2], x[1::2]
        details.append((even - odd) / np.sqrt(2))
        x = (even + odd) / np.sqrt(2)
    return np.concatenate([x, *details[::-1]])


def goertzel(x, k=3):
    """The power of one frequency, by a recurrence over the samples."""
    n = x.shape[-1]
    coefficient = 2 * np.cos(2 * np.pi * k / n)
    s1 = np.zeros_like(x[..., 0])
    s2 = np.zeros_like(x[..., 0])
    for t in range(n):
        s1, s2 = x[..., t] + coefficient * s1 - s2, s1
    return s1**2 + s2**2 - coefficient * s1 * s2


def cosine_transform(x):
    """DCT-II of every row by its matrix."""
    n = x.shape[-1]
    k = np.arange(n)
    basis = np.cos(np.pi / n * (k[:, None] + 0.5) * k[None, :]).astype(x.dtype)
    return x @ basis


def fourier(x):
    """The discrete Fourier transform as two real matrix products."""
    n = x.shape[0]
    angle = -2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    return np.cos(angle).astype(x.dtype) @ x, np.sin(angle).astype(x.dtype) @ x


def median_of_three(x):
    left, middle, right = x[:-2], x[1:-1], x[2:]
    result = x.copy()
    result[1:-1] = np.maximum(np.minimum(left, middle), np.minimum(np.maximum(left, middle), right))
    return result


def compressor(x, threshold=0.5, ratio=4.0):
    level = np.abs(x)
    over = np.maximum(level - threshold, 0)
    target = np.minimum(level, threshold) + over / ratio
    return np.sign(x) * target


def normalise_loudness(x, target=0.1):
    return x * (target / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True)))


def decimate(x):
    smooth = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return smooth[::2]


def amplitude_modulation(signal, carrier=0.2, depth=0.5):
    t = np.arange(len(signal), dtype=signal.dtype)
    return (1 + depth * signal) * np.cos(2 * np.pi * carrier * t)


def biquad(x, b, a):
    """A second-order section over channels, sample by sample."""
    y = np.zeros_like(x)
    z1 = np.zeros(x.shape[0], dtype=x.dtype)
    z2 = np.zeros(x.shape[0], dtype=x.dtype)
    for t in range(x.shape[1]):
        y[:, t] = b[0] * x[:, t] + z1
        z1 = b[1] * x[:, t] - a[0] * y[:, t] + z2
        z2 = b[2] * x[:, t] - a[1] * y[:, t]
    return y


def zero_crossings(x):
    return np.count_nonzero(np.diff(np.signbit(x), axis=-1), axis=-1)


def signal(n):
    return lambda rng: {"x": normal(rng, n)}


KERNELS = (
    Kernel(fir, lambda rng: {"x": normal(rng, 50), "taps": normal(rng, 5)}, 1, 1),
    Kernel(convolve_same, lambda rng: {"x": normal(rng, 50), "h": normal(rng, 7)}, 1, 1),
    Kernel(haar, signal(48), 1, 1),
    Kernel(goertzel, lambda rng: {"x": normal(rng, 9, 7)}, 1, 1, tolerance=1e-4),
    Kernel(cosine_transform, lambda rng: {"x": normal(rng, 9, 12)}, 1, 1),
    Kernel(fourier, signal(24), 1, 1, tolerance=1e-4),
    Kernel(median_of_three, signal(40), 1, 1),
    Kernel(compressor, signal(40), 1, 1),
    Kernel(normalise_loudness, lambda rng: {"x": normal(rng, 5, 40)}, 1, 1),
    Kernel(decimate, signal(41), 1, 1),
    Kernel(amplitude_modulation, lambda rng: {"signal": normal(rng, 40)}, 1, 1),
    Kernel(biquad, lambda rng: {"x": normal(rng, 7, 6), "b": uniform(rng, 3), "a": uniform(rng, 2)}, 1, 1),
    Kernel(zero_crossings, lambda rng: {"x": normal(rng, 6, 40)}, 1, 1),
)
