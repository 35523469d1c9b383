"""Reductions of segments against NumPy, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.errors import IndexingError
from polyfuse.expr import Reduce, topological
from polyfuse.frontends.numpy_like import spec, trace
from tests.frontend.ops import assert_same, run

X = np.arange(12.0) * 1.5 - 3
M, K = X.reshape(4, 3).astype(np.float32), np.arange(12, dtype=np.int16)
L = [1, 1, 1, 4, 5, 9, 9, 12, 13, 14, 17, 17, 18, 20, 20, 21, 22, 23, 24, 30]

SAME = """
np.add.reduceat(x, [0, 4, 5, 9]) | np.maximum.reduceat(x, np.arange(0, 12, 3)) | np.add.reduceat(m, [0, 2], axis=0)
np.add.reduceat(m, [0, 2], 1) | np.add.reduceat(k, [0, 5, 3, 3, 11]) | np.logical_or.reduceat(k % 3 == 0, [0, 1, 2])
np.multiply.reduceat(x, [2, 7]) | np.add.reduceat(k, [0, 4], dtype=np.float32) | np.add.reduceat(k > 3, [0, 4])
np.subtract.reduceat(x, [0, 4]) | np.minimum.reduceat(m, np.arange(0, 4, 3)) | np.add.reduceat(x, [len(m)])
np.add.reduceat(x, np.arange(0, len(x), 5)) | np.add.reduceat(x, np.arange(0)) | np.bitwise_xor.reduceat(k, (0, 6))
np.add.reduceat(np.add.reduceat(m, np.arange(0, 4, 2)), np.arange(0, 3, 2), axis=1)
np.add.reduceat(np.tile(x, 9), L) | np.maximum.reduceat(np.tile(m, (9, 9)), L[:17], axis=1)
np.minimum.reduceat(np.tile(k, 9), L) | np.multiply.reduceat(np.tile(m, (9, 1)), [0, *L[:19]], dtype=np.float64)
np.add.reduceat(x, [0, 6], out=np.zeros(2)) | np.add.reduceat(x, [0, len(x) // 2, len(x) - 1])
"""


@pytest.mark.parametrize("text", [part.strip() for line in SAME.strip().splitlines() for part in line.split(" | ")])
def test_as_numpy(text: str) -> None:
    scope: dict[str, Any] = {"np": np, "L": L}
    exec(f"def function(x, m, k):\n    return {text}", scope)
    assert_same(run(scope["function"], X, M, K), scope["function"](X, M, K))


def test_segments_of_one_length_are_rows() -> None:
    program = trace(lambda x: np.add.reduceat(x, np.arange(0, 96, 4)), [spec("f32[96]")]).program
    assert sum(isinstance(n, Reduce) for n in topological(program.outputs)) == 1


@pytest.mark.parametrize("starts", ["k", "[0, 12]", "[-1]"])
def test_data_and_positions_outside_are_refused(starts: str) -> None:
    message = "positions that are data" if starts == "k" else "out of bounds for an axis of size 12"
    with pytest.raises(IndexingError, match=message):
        run(lambda x, k: np.add.reduceat(x, eval(starts, {"k": k})), X, K)
