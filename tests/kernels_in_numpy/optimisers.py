"""Optimisers that update trees of parameters, in place or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.kernels_in_numpy.kernel import Array, Kernel, normal


def sgd_momentum(params, velocity, grads, lr=0.1, momentum=0.9):
    for name in params:
        velocity[name] *= momentum
        velocity[name] += grads[name]
        params[name] -= lr * velocity[name]
    return params, velocity


@dataclass
class LionState:
    weight: Array
    momentum: Array


def lion(state, grad, lr=1e-2, b1=0.9, b2=0.99, decay=0.1):
    update = np.sign(b1 * state.momentum + (1 - b1) * grad)
    state.weight -= lr * (update + decay * state.weight)
    state.momentum *= b2
    state.momentum += (1 - b2) * grad
    return state


def rmsprop(weight, cache, grad, lr=0.01, decay=0.9):
    cache[...] = decay * cache + (1 - decay) * grad**2
    weight[...] = weight - lr * grad / (np.sqrt(cache) + 1e-6)
    return weight, cache


def clip_by_global_norm(grads, limit=1.0):
    norm = np.sqrt(sum(np.sum(g**2) for g in grads))
    scale = np.minimum(1.0, limit / (norm + 1e-6))
    return [g * scale for g in grads], norm


def exponential_weights(average, weights, decay=0.99):
    return {name: decay * average[name] + (1 - decay) * weights[name] for name in weights}


def tree(rng):
    return {"w": normal(rng, 7, 5), "b": normal(rng, 5)}


KERNELS = (
    Kernel(
        sgd_momentum,
        lambda rng: {"params": tree(rng), "velocity": tree(rng), "grads": tree(rng)},
        1,
        2,
        options={"donate": ("params", "velocity")},
    ),
    Kernel(
        lion,
        lambda rng: {"state": LionState(normal(rng, 40), normal(rng, 40)), "grad": normal(rng, 40)},
        1,
        1,
        options={"donate": ("state",)},
    ),
    Kernel(
        rmsprop,
        lambda rng: {"weight": normal(rng, 40), "cache": np.abs(normal(rng, 40)), "grad": normal(rng, 40)},
        1,
        1,
        options={"donate": ("weight", "cache")},
    ),
    Kernel(clip_by_global_norm, lambda rng: {"grads": [normal(rng, 9, 4), normal(rng, 17)]}, 1, 1),
    Kernel(exponential_weights, lambda rng: {"average": tree(rng), "weights": tree(rng)}, 2, 2),
)
