"""Options, indicators and portfolios."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def cumulative_normal(x):
    """Abramowitz and Stegun 26.2.17."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * series
    return np.where(x < 0, tail, 1 - tail)


def black_scholes(price, strike, time, rate=0.02, volatility=0.3):
    spread = volatility * np.sqrt(time)
    d1 = (np.log(price / strike) + (rate + volatility**2 / 2) * time) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-rate * time)
    call = price * cumulative_normal(d1) - discounted * cumulative_normal(d2)
    put = discounted * cumulative_normal(-d2) - price * cumulative_normal(-d1)
    return call, put


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


def options_book(rng):
    return {name: uniform(rng, 33, low=0.5, high=2.0) for name in ("price", "strike", "time")}


def walk(name, n=40):
    return lambda rng: {name: (100 + np.cumsum(rng.standard_normal(n))).astype(np.float32)}


KERNELS = (
    Kernel(black_scholes, options_book, 1, 1),
    # one block for all 31 paths would take longer than a second launch
    Kernel(monte_carlo, lambda rng: {"normals": normal(rng, 31, 12)}, 2, 1, tolerance=1e-4),
    Kernel(moving_average, walk("x"), 2, 2, tolerance=1e-4),
    Kernel(bollinger, walk("x"), 1, 1, tolerance=1e-4),
    Kernel(drawdown, walk("prices"), 1, 1),
    Kernel(relative_strength, walk("prices"), 1, 1, tolerance=1e-3),
    Kernel(exponential_average, walk("x", 7), 1, 1),
)
