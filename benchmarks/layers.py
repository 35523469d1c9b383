"""Layers and losses of networks at large sizes: what benchmarks of kernels for PyTorch ask for beside products and
convolutions, some of it along odd sizes.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

from benchmarks.programs import Array, Input, Namespace, Program, matrix

LOOSE = 1e-4
"""The relative error of sums of very many float32."""


# ---------------------------------------------------------------------------------------------- along a middle axis


def largest_between(xp: Namespace, x: Array) -> Array:
    return xp.max(x, axis=1)


def ranges_between(xp: Namespace, x: Array) -> Array:
    return xp.max(x, axis=1) + xp.max(-x, axis=1)


def powers_between(xp: Namespace, x: Array) -> Array:
    return xp.log(xp.sum(xp.exp(x), axis=1))


def rmsnorm_of_channels(xp: Namespace, x: Array) -> Array:
    return x / xp.sqrt(xp.mean(x * x, axis=1, keepdims=True) + 1e-5)


def gates_of_channels(xp: Namespace, x: Array, bias: Array) -> Array:
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return 1 / (1 + xp.exp(-(e / xp.sum(e, axis=1, keepdims=True) + bias) * 2))


# ---------------------------------------------------------------------------------------------- normalisations


def layernorm_of_images(xp: Namespace, x: Array, gain: Array, bias: Array) -> Array:
    centred = x - xp.mean(x, axis=(1, 2, 3), keepdims=True)
    variance = xp.mean(centred * centred, axis=(1, 2, 3), keepdims=True)
    return centred / xp.sqrt(variance + 1e-5) * gain + bias


def instance_norm(xp: Namespace, x: Array) -> Array:
    centred = x - xp.mean(x, axis=(2, 3), keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=(2, 3), keepdims=True) + 1e-5)


def gated_groups(xp: Namespace, x: Array) -> Array:
    """Swish, group normalisation, hard swish."""
    y = x / (1 + xp.exp(-x))
    centred = y - xp.mean(y, axis=2, keepdims=True)
    z = centred / xp.sqrt(xp.mean(centred * centred, axis=2, keepdims=True) + 1e-5)
    return z * xp.clip(z + 3, 0, 6) / 6


def over_mean_magnitude(xp: Namespace, x: Array) -> Array:
    return x / xp.mean(xp.abs(x), axis=1, keepdims=True)


# ---------------------------------------------------------------------------------------------- pooling


def far_largest(xp: Namespace, x: Array) -> Array:
    """Of eight neighbours, each three apart from the next."""
    n = x.shape[2] - 21
    y = x[:, :, :n]
    for k in range(1, 8):
        y = xp.maximum(y, x[:, :, 3 * k : 3 * k + n])
    return y


def moving_means(xp: Namespace, x: Array) -> Array:
    n = x.shape[1] - 19
    return sum(x[:, k : k + n] for k in range(20)) / 20


def box_means(xp: Namespace, x: Array) -> Array:
    """Of 3 x 3 x 3 around every second element."""
    a, b, c = ((n - 1) // 2 * 2 for n in x.shape[1:])
    boxes = [x[:, i : i + a : 2, j : j + b : 2, k : k + c : 2] for i in range(3) for j in range(3) for k in range(3)]
    return sum(boxes) / 27


def pooled_activation(xp: Namespace, x: Array) -> Array:
    """The mean of each channel after pooling by 2 x 2."""
    b, c, n, m = x.shape
    largest = xp.max(x.reshape(b, c, n // 2, 2, m // 2, 2), axis=(3, 5))
    return xp.tanh(xp.mean(xp.clip(largest, -1, 1), axis=(2, 3)))


# ---------------------------------------------------------------------------------------------- encodings


def octaves(xp: Namespace, x: Array) -> Array:
    """Coordinates, and sines and cosines of ten octaves of each."""
    parts = [function(x * 2.0**k) for k in range(10) for function in (xp.sin, xp.cos)]
    return xp.concatenate([x, *parts], axis=-1)


def harmonics(xp: Namespace, x: Array) -> Array:
    return xp.stack([xp.sin(x * k) for k in range(1, 25)])


# ---------------------------------------------------------------------------------------------- losses


def cross_entropy_mean(xp: Namespace, logits: Array, labels: Array) -> Array:
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    picked = xp.take_along_axis(shifted, labels[:, None], 1)[:, 0]
    return xp.mean(xp.log(xp.sum(xp.exp(shifted), axis=-1)) - picked)


def triplet(xp: Namespace, anchor: Array, near: Array, far: Array) -> Array:
    of_near = xp.sqrt(xp.sum((anchor - near + 1e-6) ** 2, axis=1))
    of_far = xp.sqrt(xp.sum((anchor - far + 1e-6) ** 2, axis=1))
    return xp.mean(xp.maximum(of_near - of_far + 1, 0))


BETWEEN = Input((64, 4096, 1023))
IMAGES = Input((64, 64, 256, 256))

LAYERS: tuple[Program, ...] = (
    Program("largest of 64 x 4096 x 1023 between", largest_between, (BETWEEN,)),
    Program("ranges of 64 x 4096 x 1023 between", ranges_between, (BETWEEN,)),
    Program("sums of powers of 64 x 4096 x 1023 between", powers_between, (BETWEEN,)),
    Program("rmsnorm of 64 channels of 512 x 512", rmsnorm_of_channels, (Input((16, 64, 512, 512)),)),
    Program("softmax gates of 64 channels", gates_of_channels, (IMAGES, Input((64, 1, 1)))),
    Program(
        "layernorm of images of 64 x 256 x 256",
        layernorm_of_images,
        (Input((16, 64, 256, 256)), *(Input((64, 256, 256)),) * 2),
        LOOSE,
    ),
    Program("instance norm of 256 x 256", instance_norm, (IMAGES,), LOOSE),
    Program("swish, groups of 131072, hard swish", gated_groups, (Input((64, 16, 131072)),), LOOSE),
    Program("rows of 65535 over their mean magnitude", over_mean_magnitude, (matrix(4096, 65535),), LOOSE),
    Program("largest of 8 neighbours 3 apart", far_largest, (Input((64, 96, 16384)),)),
    Program("means of 20 along 20000 x 2520", moving_means, (matrix(20000, 2520),)),
    Program("means of 3 x 3 x 3 of every second", box_means, (Input((256, 127, 127, 127)),)),
    Program("mean of pooled 256 x 256", pooled_activation, (IMAGES,), LOOSE),
    Program(
        "mean cross-entropy of 4096 classes",
        cross_entropy_mean,
        (matrix(32768, 4096), Input((32768,), "i64", below=4096)),
    ),
    Program("triplet margin loss of 8192", triplet, (matrix(16384, 8192),) * 3, LOOSE),
    Program("ten octaves of 1048576 points", octaves, (Input((1048576, 3)),), LOOSE),
    Program("24 harmonics of 4000000", harmonics, (Input((4000000,)),), LOOSE),
)
