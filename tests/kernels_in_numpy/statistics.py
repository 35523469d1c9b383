"""Statistics and classical machine learning."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def standardise(x, eps=1e-6):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + eps)


def moments(x):
    m = np.mean(x)
    d = x - m
    variance = np.mean(d**2)
    return m, variance, np.mean(d**3) / variance**1.5, np.mean(d**4) / variance**2 - 3


def pearson(x, y):
    dx, dy = x - x.mean(), y - y.mean()
    return (dx * dy).sum() / np.sqrt((dx**2).sum() * (dy**2).sum())


def linear_fit(x, y):
    slope = np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2)
    intercept = y.mean() - slope * x.mean()
    residual = y - (slope * x + intercept)
    return slope, intercept, 1 - np.sum(residual**2) / np.sum((y - y.mean()) ** 2)


def kernel_density(samples, at, width=0.4):
    z = (at[:, None] - samples[None, :]) / width
    return np.exp(-0.5 * z**2).sum(axis=1) / (len(samples) * width * np.sqrt(2 * np.pi))


def pairwise_distances(a, b):
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T
    return np.sqrt(np.maximum(squared, 0))


def k_means_step(points, centres):
    distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    nearest = np.argmin(distance, axis=1)
    member = (nearest[:, None] == np.arange(len(centres))).astype(points.dtype)
    count = member.sum(axis=0)
    return nearest, (member.T @ points) / np.maximum(count, 1)[:, None]


def naive_bayes(x, mean, variance, prior):
    log_density = -0.5 * (np.log(2 * np.pi * variance) + (x[:, None, :] - mean) ** 2 / variance)
    joint = log_density.sum(axis=-1) + np.log(prior)
    top = joint.max(axis=1, keepdims=True)
    return joint - (top + np.log(np.exp(joint - top).sum(axis=1, keepdims=True)))


def logistic_gradient(weights, x, y, penalty=0.01):
    p = 1 / (1 + np.exp(-(x @ weights)))
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)) + penalty * np.sum(weights**2)
    return loss, x.T @ (p - y) / len(y) + 2 * penalty * weights


def autocorrelation(x, lags=5):
    d = x - x.mean()
    variance = np.dot(d, d)
    result = np.ones(lags + 1, dtype=x.dtype)
    for lag in range(1, lags + 1):
        result[lag] = np.dot(d[lag:], d[:-lag]) / variance
    return result


def resample(x, index):
    """Bootstrap: the standard error of the mean from given resampling indices."""
    means = x[index].mean(axis=1)
    return means.mean(), means.std(ddof=1)


def one_way_anova(groups):
    """The F statistic of equally large groups, one a row."""
    k, n = groups.shape
    centre = groups.mean(axis=1)
    between = n * ((centre - groups.mean()) ** 2).sum() / (k - 1)
    within = ((groups - centre[:, None]) ** 2).sum() / (k * (n - 1))
    return between / within


def gaussian_mixture(x, mean, deviation, weight):
    """Responsibilities and new parameters of a one-dimensional mixture."""
    density = weight * np.exp(-0.5 * ((x[:, None] - mean) / deviation) ** 2) / deviation
    share = density / density.sum(axis=1, keepdims=True)
    total = share.sum(axis=0)
    centre = (share * x[:, None]).sum(axis=0) / total
    spread = np.sqrt((share * (x[:, None] - centre) ** 2).sum(axis=0) / total)
    return total / len(x), centre, spread


def vectors(**shapes):
    return lambda rng: {n: normal(rng, *s) for n, s in shapes.items()}


def bayes_model(rng):
    return {
        "x": normal(rng, 14, 5),
        "mean": normal(rng, 3, 5),
        "variance": uniform(rng, 3, 5, low=0.5),
        "prior": np.full(3, 1 / 3, np.float32),
    }


def labelled(rng):
    return {"weights": normal(rng, 6), "x": normal(rng, 25, 6), "y": (rng.random(25) < 0.5).astype(np.float32)}


def mixture(rng):
    return {
        "x": normal(rng, 30),
        "mean": normal(rng, 3),
        "deviation": uniform(rng, 3, low=0.5),
        "weight": np.full(3, 1 / 3, np.float32),
    }


KERNELS = (
    Kernel(standardise, vectors(x=(21, 9)), 1, 1),
    Kernel(moments, vectors(x=(60,)), 1, 1, tolerance=1e-4),
    Kernel(pearson, vectors(x=(50,), y=(50,)), 1, 1),
    Kernel(linear_fit, vectors(x=(50,), y=(50,)), 1, 1),
    Kernel(kernel_density, vectors(samples=(30,), at=(17,)), 1, 1),
    Kernel(pairwise_distances, vectors(a=(12, 5), b=(14, 5)), 1, 1, tolerance=1e-4),
    Kernel(k_means_step, vectors(points=(25, 3), centres=(4, 3)), 1, 2),
    Kernel(naive_bayes, bayes_model, 1, 1),
    Kernel(logistic_gradient, labelled, 1, 1),
    Kernel(autocorrelation, vectors(x=(40,)), 1, 1),
    Kernel(resample, lambda rng: {"x": normal(rng, 20), "index": rng.integers(0, 20, (9, 20))}, 1, 1),
    Kernel(one_way_anova, vectors(groups=(4, 15)), 1, 1, tolerance=1e-4),
    Kernel(gaussian_mixture, mixture, 1, 2),
)
