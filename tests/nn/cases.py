"""The table: a function over ``pf.nn``, its arguments, its result by definition, and the kernels that it becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfuse import nn
from tests.nn import oracles
from tests.nn.oracles import Array


@dataclass(frozen=True, slots=True)
class Case:
    """`expected` gets the arguments in float64.  `cpu`, `h200`: the most kernels of the plans for these
    targets."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Array, ...]
    expected: Callable[..., Any]
    cpu: int = 1
    h200: int = 1


def draw(*shape: int) -> Array:
    """Standard normal in float32, the same for every shape in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return draw(*shape) ** 2 + np.float32(0.1)


def classes(high: int, *shape: int) -> Array:
    return np.random.default_rng(high).integers(0, high, shape)


def along_channels(values: Array, rank: int) -> Array:
    return values.reshape(-1, *[1] * (rank - 2))


CONVOLUTIONS = (
    Case(
        "conv of one axis, stride 2",
        lambda x, w, b: nn.conv(x, w, b, stride=2, padding=1),
        (draw(2, 3, 11), draw(4, 3, 3), draw(4)),
        lambda x, w, b: oracles.conv(x, w, b, [2], [(1, 1)], [1]),
    ),
    Case(
        "conv of two axes, uneven padding, dilation",
        lambda x, w: nn.conv(x, w, stride=(2, 1), padding=((1, 2), (0, 1)), dilation=(1, 2)),
        (draw(2, 3, 9, 7), draw(4, 3, 3, 2)),
        lambda x, w: oracles.conv(x, w, None, [2, 1], [(1, 2), (0, 1)], [1, 2]),
    ),
    Case(
        "conv of three axes",
        lambda x, w: nn.conv(x, w),
        (draw(1, 2, 5, 4, 6), draw(3, 2, 2, 3, 2)),
        lambda x, w: oracles.conv(x, w, None, [1, 1, 1], [(0, 0)] * 3, [1, 1, 1]),
    ),
    Case(
        "conv in groups, same size",
        lambda x, w: nn.conv(x, w, padding="same", groups=3),
        (draw(1, 6, 7, 5), draw(9, 2, 3, 4)),
        lambda x, w: oracles.conv(x, w, None, [1, 1], [(1, 1), (1, 2)], [1, 1], 3),
    ),
    Case(
        "conv of each channel",
        lambda x, w: nn.conv(x, w, padding=1, groups=5),
        (draw(2, 5, 7, 6), draw(5, 1, 3, 3)),
        lambda x, w: oracles.conv(x, w, None, [1, 1], [(1, 1), (1, 1)], [1, 1], 5),
    ),
    Case(
        "conv, inference batch norm, relu",
        lambda x, w, m, v, g, b: nn.relu(nn.batch_norm(nn.conv(x, w, padding=1), m, v, g, b)),
        (draw(2, 3, 8, 7), draw(5, 3, 3, 3), draw(5), positive(5), draw(5), draw(5)),
        lambda x, w, m, v, g, b: np.maximum(
            (oracles.conv(x, w, -m, [1, 1], [(1, 1)] * 2, [1, 1]) / np.sqrt(along_channels(v, 4) + 1e-5))
            * along_channels(g, 4)
            + along_channels(b, 4),
            0,
        ),
    ),
    Case(
        "conv_transpose of one axis",
        lambda x, w, b: nn.conv_transpose(x, w, b, stride=2, padding=1, output_padding=1),
        (draw(2, 4, 7), draw(4, 3, 3), draw(3)),
        lambda x, w, b: oracles.conv_transpose(x, w, b, [2], [1], [1], [1]),
    ),
    Case(
        "conv_transpose in groups, dilation, more padding than reach",
        lambda x, w: nn.conv_transpose(x, w, stride=(2, 1), padding=(0, 2), dilation=(2, 1), groups=2),
        (draw(1, 4, 5, 6), draw(4, 3, 3, 2)),
        lambda x, w: oracles.conv_transpose(x, w, None, [2, 1], [0, 2], [0, 0], [2, 1], 2),
    ),
)

POOLING = (
    Case(
        "max_pool, overlapping",
        lambda x: nn.max_pool(x, 3, 2, 1),
        (draw(2, 3, 9, 8),),
        lambda x: oracles.pool(x, [3, 3], [2, 2], [1, 1], "max"),
    ),
    Case(
        "avg_pool",
        lambda x: nn.avg_pool(x, (2, 3)),
        (draw(2, 3, 9, 8),),
        lambda x: oracles.pool(x, [2, 3], [2, 3], [0, 0], "mean"),
    ),
    Case(
        "avg_pool without its padding",
        lambda x: nn.avg_pool(x, 3, 2, 1, count_padding=False),
        (draw(2, 3, 9),),
        lambda x: oracles.pool(x, [3], [2], [1], "inside"),
    ),
    Case(
        "resize, bilinear",
        lambda x: nn.resize(x, (9, 3)),
        (draw(2, 3, 5, 7),),
        lambda x: oracles.resize(x, (9, 3), False),
    ),
    Case(
        "resize with aligned corners",
        lambda x: nn.resize(x, 11, align_corners=True),
        (draw(2, 3, 5),),
        lambda x: oracles.resize(x, (11,), True),
    ),
    Case(
        "resize to the nearest",
        lambda x: nn.resize(x, (6, 3), "nearest"),
        (draw(1, 2, 4, 5),),
        lambda x: x[:, :, [0, 0, 1, 2, 2, 3]][..., [0, 1, 3]],
    ),
)

NORMALISATIONS = (
    Case(
        "layer_norm",
        nn.layer_norm,
        (draw(7, 33), draw(33), draw(33)),
        lambda x, g, b: oracles.normalised(x, -1, 1e-5) * g + b,
    ),
    Case(
        "layer_norm over two axes",
        lambda x: nn.layer_norm(x, axis=(1, 2)),
        (draw(3, 5, 7),),
        lambda x: oracles.normalised(x, (1, 2), 1e-5),
    ),
    Case(
        "rms_norm",
        nn.rms_norm,
        (draw(7, 33), draw(33)),
        lambda x, g: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * g,
    ),
    Case(
        "batch_norm in training",
        lambda x, g, b: nn.batch_norm(x, None, None, g, b),
        (draw(4, 3, 5, 2), draw(3), draw(3)),
        lambda x, g, b: oracles.normalised(x, (0, 2, 3), 1e-5) * along_channels(g, 4) + along_channels(b, 4),
    ),
    Case(
        "group_norm",
        lambda x, g, b: nn.group_norm(x, 2, g, b),
        (draw(3, 6, 5), draw(6), draw(6)),
        lambda x, g, b: oracles.normalised(x.reshape(3, 2, 15), -1, 1e-5).reshape(3, 6, 5) * g[:, None] + b[:, None],
    ),
    Case(
        "instance_norm",
        nn.instance_norm,
        (draw(3, 4, 5, 6), draw(4), draw(4)),
        lambda x, g, b: oracles.normalised(x, (2, 3), 1e-5) * along_channels(g, 4) + along_channels(b, 4),
    ),
    Case(
        "softmax and its logarithm",
        lambda x: (nn.softmax(x), nn.log_softmax(x)),
        (draw(7, 33),),
        lambda x: (
            np.exp(x) / np.exp(x).sum(-1, keepdims=True),
            x - np.log(np.exp(x).sum(-1, keepdims=True)),
        ),
    ),
)


def mean_loss(losses_and_total: tuple[Array, float]) -> Any:
    return losses_and_total[0].sum() / losses_and_total[1]


LOSSES = (
    Case(
        "cross_entropy",
        nn.cross_entropy,
        (draw(9, 13), classes(13, 9)),
        lambda x, t: mean_loss(oracles.cross_entropy(x, t, np.ones(13))),
    ),
    Case(
        "cross_entropy, weighted, smooth, a class ignored",
        lambda x, t, w: nn.cross_entropy(x, t, weight=w, ignore_index=3, label_smoothing=0.1),
        (draw(19, 5), classes(5, 19), positive(5)),
        lambda x, t, w: mean_loss(oracles.cross_entropy(x, t, w, 3, 0.1)),
    ),
    Case(
        "cross_entropy of each pixel, channels in the middle",
        lambda x, t: nn.cross_entropy(x, t, axis=1, reduction="none"),
        (draw(2, 5, 7), classes(5, 2, 7)),
        lambda x, t: oracles.cross_entropy(x.swapaxes(1, 2).reshape(14, 5), t.ravel(), np.ones(5))[0].reshape(2, 7),
    ),
    Case(
        "cross_entropy of probabilities",
        lambda x, t: nn.cross_entropy(x, t, reduction="sum"),
        (draw(4, 5), positive(4, 5)),
        lambda x, t: -(t * (x - np.log(np.exp(x).sum(-1, keepdims=True)))).sum(),
    ),
    Case(
        "losses of differences",
        lambda x, y: (nn.mse_loss(x, y), nn.l1_loss(x, y, "none"), nn.huber_loss(x, y, 0.7, "sum")),
        (draw(7, 3), draw(7, 3) * 2),
        lambda x, y: (
            ((x - y) ** 2).mean(),
            abs(x - y),
            sum(d * d / 2 if d <= 0.7 else 0.7 * (d - 0.35) for d in abs(x - y).flat),
        ),
    ),
    Case(
        "binary cross entropy",
        lambda x, t, w: (
            nn.binary_cross_entropy_with_logits(x, t, w),
            nn.binary_cross_entropy(nn.sigmoid(x), t, "none"),
        ),
        (draw(7, 3), (draw(7, 3) > 0).astype(np.float32), positive(3)),
        lambda x, t, w: (
            (-w * t * np.log(1 / (1 + np.exp(-x))) - (1 - t) * np.log(1 / (1 + np.exp(x)))).mean(),
            -t * np.log(1 / (1 + np.exp(-x))) - (1 - t) * np.log(1 / (1 + np.exp(x))),
        ),
    ),
    Case(
        "kl_divergence",
        lambda x, t: nn.kl_divergence(nn.log_softmax(x), t, "sum"),
        (draw(5, 7), np.maximum(draw(5, 7), 0)),
        lambda x, t: sum(
            0 if q == 0 else q * (np.log(q) - p)
            for p, q in zip((x - np.log(np.exp(x).sum(-1, keepdims=True))).flat, t.flat, strict=True)
        ),
    ),
)

ATTENTION = (
    Case(
        "attention, causal",
        lambda q, k, v: nn.attention(q, k, v, causal=True),
        (draw(2, 3, 9, 8), draw(2, 3, 9, 8) * 2, draw(2, 3, 9, 5)),
        lambda q, k, v: oracles.attention(q, k, v, np.tri(9) > 0),
        cpu=2,
    ),
    Case(
        "attention with a mask",
        nn.attention,
        (draw(2, 5, 8), draw(2, 7, 8), draw(2, 7, 3), np.arange(35).reshape(5, 7) % 3 > 0),
        lambda q, k, v, m: oracles.attention(q, k, v, m),
        cpu=2,
    ),
    Case(
        "rotary_embedding",
        nn.rotary_embedding,
        (draw(2, 9, 8),),
        lambda x: oracles.rotary(x, np.arange(9), 10000.0, False),
    ),
    Case(
        "rotary_embedding of neighbours",
        lambda x: nn.rotary_embedding(x, interleaved=True),
        (draw(2, 9, 8),),
        lambda x: oracles.rotary(x, np.arange(9), 10000.0, True),
    ),
    Case(
        "rotary_embedding at positions",
        lambda x, p: nn.rotary_embedding(x, p, base=500.0),
        (draw(3, 5, 6), classes(40, 3, 5)),
        lambda x, p: oracles.rotary(x, p, 500.0, False),
    ),
)

LAYERS = (
    Case("linear", nn.linear, (draw(2, 9, 8), draw(5, 8), draw(5)), lambda x, w, b: np.einsum("abi,oi->abo", x, w) + b),
    Case("embedding", nn.embedding, (draw(9, 7), classes(9, 3, 2)), lambda t, i: t[i]),
    Case("one_hot", lambda i: nn.one_hot(i, 4), (classes(6, 5),), lambda i: np.eye(6)[i][:, :4]),
    Case("glu", nn.glu, (draw(5, 6),), lambda x: x[:, :3] / (1 + np.exp(-x[:, 3:]))),
    Case(
        "activations",
        lambda x: {name: getattr(nn, name)(x) for name in oracles.ACTIVATIONS},
        (draw(41) * 4,),
        lambda x: {name: np.vectorize(f, otypes="d")(x) for name, f in oracles.ACTIVATIONS.items()},
    ),
)

CASES = (*CONVOLUTIONS, *POOLING, *NORMALISATIONS, *LOSSES, *ATTENTION, *LAYERS)
