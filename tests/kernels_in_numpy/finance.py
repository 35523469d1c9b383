"""Options, indicators and portfolios."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal


def monte_carlo(normals, price=100.0, strike=105.0, rate=0.01, volatility=0.2, years=1.0):
    """An Asian call from given normals, paths in rows: its value and standard error."""
    paths, steps = normals.shape
    dt = years / steps
    log_steps = (rate - volatility**2 / 2) * dt + volatility * np.sqrt(dt) * normals
    path = price * np.exp(np.cumsum(log_steps, axis=1))
    payoff = np.exp(-rate * years) * np.maximum(path.mean(axis=1) - strike, 0)
    return payoff.mean(), payoff.std() / np.sqrt(paths)


def moving_average(x, window=5):
    total = np.cumsum(x)
    total[window:] = total[window:] - total[:-window]
    return total[window - 1 :] / window


def bollinger(x, window=5, width=2.0):
    windows = np.lib.stride_tricks.sliding_window_view(x, window)
    middle = windows.mean(axis=-1)
    spread = windows.std(axis=-1)
    return middle, middle + width * spread, middle - width * spread


def drawdown(prices):
    peak = np.maximum.accumulate(prices)
    loss = (peak - prices) / peak
    return loss, loss.max()


def relative_strength(prices, window=6):
    change = np.diff(prices)
    gain = np.where(change > 0, change, 0.0)
    loss = np.where(change < 0, -change, 0.0)
    weights = np.ones(window, dtype=prices.dtype) / window
    average_gain = np.convolve(gain, weights, mode="valid")
    average_loss = np.convolve(loss, weights, mode="valid")
    return 100 - 100 / (1 + average_gain / average_loss)


def exponential_average(x, alpha=0.3):
    result = np.empty_like(x)
    result[0] = x[0]
    for t in range(1, len(x)):
        result[t] = alpha * x[t] + (1 - alpha) * result[t - 1]
    return result


def walk(name, n=40):
    return lambda rng: {name: (100 + np.cumsum(rng.standard_normal(n))).astype(np.float32)}


KERNELS = (
    Kernel(monte_carlo, lambda rng: {"normals": normal(rng, 31, 12)}, 1, 1, tolerance=1e-4),
    Kernel(moving_average, walk("x"), 2, 2, tolerance=1e-4),
    Kernel(bollinger, walk("x"), 1, 1, tolerance=1e-4),
    Kernel(drawdown, walk("prices"), 1, 1),
    Kernel(relative_strength, walk("prices"), 1, 1, tolerance=1e-3),
    Kernel(exponential_average, walk("x", 7), 1, 1),
)
