"""Normalisations by an axis, as the tests of long rows, panels and planes write them."""

from __future__ import annotations

from typing import Any

import numpy as np


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y


def log_softmax(x: Any) -> Any:
    d = x - x.max(axis=-1, keepdims=True)
    y = d - np.log(np.exp(d).sum(axis=-1, keepdims=True))
    return y


def standardise(x: Any) -> Any:
    d = x - x.mean(axis=0)
    y = d / np.sqrt((d * d).mean(axis=0) + 1e-5)
    return y


def batch(x: Any) -> Any:
    d = x - x.mean(axis=(0, 2), keepdims=True)
    y = d / np.sqrt((d * d).mean(axis=(0, 2), keepdims=True) + 1e-5)
    return y
