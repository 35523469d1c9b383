"""Symbols are solved from shapes one at a time, and what does not fit is refused."""

from __future__ import annotations

import pytest

from polyfuse.affine import Affine
from polyfuse.run.sizes import solve

N, M = Affine.symbol("N"), Affine.symbol("M")
FOUR = Affine((), 4)


@pytest.mark.parametrize(
    ("shapes", "actual", "expected"),
    [
        ([(N, FOUR)], [(7, 4)], {"N": 7}),
        ([(N, FOUR)], [(7, 5)], None),
        ([(N,), (N,)], [(7,), (7,)], {"N": 7}),
        ([(N,), (N,)], [(7,), (8,)], None),
        ([(2 * N + 1,)], [(9,)], {"N": 4}),
        ([(2 * N + 1,)], [(8,)], None),
        ([(N + M,), (N,)], [(9,), (4,)], {"N": 4, "M": 5}),
        ([(N + M,)], [(9,)], None),
        ([(N // 2,), (N,)], [(3,), (7,)], {"N": 7}),
        ([(N - 5,)], [(3,)], {"N": 8}),
        ([(N + 5,)], [(3,)], None),
        ([(N,)], [(3, 3)], None),
        ([()], [()], {}),
    ],
)
def test_solve(shapes, actual, expected) -> None:
    assert solve(shapes, actual) == expected
