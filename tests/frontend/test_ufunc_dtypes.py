"""``dtype=``, ``initial=`` and operands that are numbers, of ufuncs and their methods, as NumPy resolves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.errors import DTypeError
from tests.frontend.ops import assert_same, run

I = np.array([[5, 3, 200], [7, 0, 2]], np.int32)
U = np.array([3, 250, 7], np.uint64)
H = np.array([[1.5, -2.25, 300.0]], np.float16)
B = np.array([True, False, True])

TAKEN = """
np.bitwise_or.reduce(i, axis=0, dtype="u1"); np.bitwise_and.reduce(i, dtype="i8", keepdims=True)
np.bitwise_xor.reduce(u, dtype=np.int16); np.maximum.reduce(i, dtype="f4"); np.fmin.reduce(h, axis=1, dtype="f8")
np.maximum.accumulate(i, dtype="i2"); np.bitwise_or.accumulate(u, dtype="u1"); np.maximum.accumulate(i, 1, np.float64)
np.hypot.reduce(i, axis=1, dtype="f4"); np.logaddexp.reduce(i % 9, axis=1, dtype="f4"); np.subtract.reduce(i, dtype="i1")
np.logical_or.reduce(b & False, initial=-1); np.logical_and.reduce(b | True, initial=0)
np.logical_and.reduce(i, axis=1, dtype=bool); np.bitwise_or.reduceat(u, [0, 2], dtype="u1")
np.multiply.outer(h, 7); np.add.outer(2.5, h); np.multiply.outer(u, 7); np.less.outer(u, 7); np.add.outer(b, True)
np.ldexp(h, u.astype("i4") % 5, dtype="f4"); np.add(i, h, dtype="f8"); np.divide(i, 3, dtype="f4")
np.maximum(i, h, dtype="f4", casting="unsafe"); np.add(h, 1, dtype="f4"); np.modf(h, dtype="f8")
np.divmod(i, 4, dtype="i8")
"""


def parts(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("; ")]


@pytest.mark.parametrize("call", parts(TAKEN))
def test_as_numpy(call: str) -> None:
    function: Any = eval(f"lambda i, u, h, b: {call}", {"np": np})
    assert_same(run(function, I, U, H, B), function(I, U, H, B))


REFUSED = """
np.bitwise_or.reduce(i, dtype="f4"); np.hypot.reduce(i, dtype="i1"); np.logical_or.reduce(i, dtype="i1")
np.true_divide(i, 2, dtype="i4"); np.exp(u, dtype="u8"); np.hypot(i, u, dtype="i1"); np.left_shift(i, 1, dtype="f4")
np.maximum(h, 1, dtype="i4"); np.frexp(h, dtype="f8"); np.copysign.reduce(i, dtype="u4")
"""


@pytest.mark.parametrize("call", parts(REFUSED))
def test_dtypes_without_a_loop_are_refused(call: str) -> None:
    function: Any = eval(f"lambda i, u, h, b: {call}", {"np": np})
    with pytest.raises(TypeError):
        function(I, U, H, B)
    with pytest.raises(DTypeError, match="does not compute in dtype="):
        run(function, I, U, H, B)
