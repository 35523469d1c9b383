"""Layers and losses of neural networks, written out."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def conv2d(x, w, b):
    """Images (N, H, W, C), filters (K, K, C, F), by windows."""
    k = w.shape[0]
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(1, 2))
    return np.einsum("nijcxy,xycf->nijf", windows, w) + b


def batch_norm(x, gamma, beta, eps=1e-5):
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return gamma * (x - mean) / np.sqrt(std**2 + eps) + beta


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(q, k, v):
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    return softmax(scores) @ v


def causal_attention(q, k, v):
    n = q.shape[1]
    scores = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((n, n), dtype=bool)), scores, -np.inf)
    return np.einsum("hij,hjd->hid", softmax(scores), v)


def relu(x):
    return np.maximum(x, 0)


def mlp(x, layers):
    for w, b in layers[:-1]:
        x = relu(x @ w + b)
    w, b = layers[-1]
    return softmax(x @ w + b)


def cross_entropy(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean()


def max_pool(x):
    n, height, width, c = x.shape
    return x.reshape(n, height // 2, 2, width // 2, 2, c).max(axis=(2, 4))


def lenet(x, filters, filter_bias, weights, bias):
    hidden = max_pool(relu(conv2d(x, filters, filter_bias)))
    flat = hidden.reshape(x.shape[0], -1)
    return flat @ weights + bias


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def lstm_cell(x, h, c, w, u, b):
    gates = x @ w + h @ u + b
    i, f, g, o = np.split(gates, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def embedding_bag(table, tokens, weight):
    vectors = table[tokens] * weight[..., None]
    return vectors.sum(axis=1) / np.maximum(weight.sum(axis=1, keepdims=True), 1e-6)


def rotary(x, theta=10000.0):
    half = x.shape[-1] // 2
    frequency = theta ** (-np.arange(half, dtype=x.dtype) / half)
    angle = np.arange(x.shape[-2], dtype=x.dtype)[:, None] * frequency
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1)


def label_smoothing(logits, labels, smoothing=0.1):
    n, classes = logits.shape
    target = np.full((n, classes), smoothing / classes, dtype=logits.dtype)
    target[np.arange(n), labels] += 1 - smoothing
    log_p = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    return -(target * log_p).sum(axis=1)


def focal_loss(logits, labels, gamma=2.0):
    """Labels as rows of the identity; what is sure already counts little."""
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    truth = np.eye(logits.shape[1], dtype=logits.dtype)[labels]
    return -(truth * (1 - np.exp(log_p)) ** gamma * log_p).sum(axis=1)


def head(rng):
    return {name: normal(rng, 2, 11, 8) for name in ("q", "k", "v")}


def perceptron(rng):
    sizes = (12, 9, 7, 5)
    layers = [(normal(rng, a, b), normal(rng, b)) for a, b in zip(sizes[:-1], sizes[1:], strict=True)]
    return {"x": normal(rng, 8, 12), "layers": layers}


def classified(rng):
    return {"logits": normal(rng, 13, 7), "labels": rng.integers(0, 7, 13)}


def small_network(rng):
    return {
        "x": normal(rng, 2, 10, 10, 2),
        "filters": normal(rng, 3, 3, 2, 3),
        "filter_bias": normal(rng, 3),
        "weights": normal(rng, 48, 5),
        "bias": normal(rng, 5),
    }


def arrays(**shapes):
    return lambda rng: {n: normal(rng, *s) for n, s in shapes.items()}


def bags(rng):
    return {"table": normal(rng, 20, 6), "tokens": rng.integers(0, 20, (5, 4)), "weight": uniform(rng, 5, 4)}


KERNELS = (
    Kernel(conv2d, arrays(x=(2, 8, 9, 3), w=(3, 3, 3, 4), b=(4,)), 1, 1),
    Kernel(batch_norm, arrays(x=(13, 9), gamma=(9,), beta=(9,)), 1, 1),
    Kernel(attention, head, 1, 2),
    Kernel(causal_attention, head, 1, 2),
    Kernel(mlp, perceptron, 1, 2),
    Kernel(cross_entropy, classified, 1, 1),
    Kernel(lenet, small_network, 1, 2),
    Kernel(lstm_cell, arrays(x=(5, 6), h=(5, 4), c=(5, 4), w=(6, 16), u=(4, 16), b=(16,)), 1, 1),
    Kernel(embedding_bag, bags, 1, 1),
    Kernel(rotary, arrays(x=(2, 7, 8)), 1, 1),
    Kernel(label_smoothing, classified, 1, 1),
    Kernel(focal_loss, classified, 1, 1),
)
