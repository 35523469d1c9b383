"""Results beside those of NumPy, nested as functions return them."""

from __future__ import annotations

from typing import Any

import numpy as np


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (tuple, list)):
        for pair in zip(found, wanted, strict=True):
            same(*pair)
        return
    assert isinstance(found, np.generic) or type(found) is np.ndarray
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=1e-5)
