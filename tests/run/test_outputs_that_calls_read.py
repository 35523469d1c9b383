"""Values that a library's function reads and that are returned as well, in another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.run.conftest import Jit


def flat_and_product(x: Any) -> Any:
    y = x * 2
    return y.ravel(), y @ y.T


def flat_and_sorted(x: Any) -> Any:
    y = x * 2
    return y.ravel(), np.sort(y, axis=1)


def product_and_flat(x: Any) -> Any:
    y = x @ x.T
    return y.ravel(), y + 1


@pytest.mark.parametrize("function", [flat_and_product, flat_and_sorted, product_and_flat])
def test_each_has_its_shape(jit: Jit, function: Callable[..., Any]) -> None:
    """A call got the output's array, whose shape is another one."""
    x = np.random.default_rng(0).standard_normal((300, 400)).astype(np.float32)
    for got, expected in zip(jit(function)(x), function(x), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-2)
