"""Reads that leave elements where they are: what a search may begin with as one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from polyfuse.affine import Affine, AffineLike, dimension
from polyfuse.dtypes import f32
from polyfuse.expr import DataIndex
from polyfuse.planning.in_place import is_in_place
from polyfuse.scop import Read, ReadEntry, Statement
from polyfuse.terms import Ref

N, M = Affine.symbol("N"), Affine.symbol("M")
D0, D1, D2 = map(dimension, range(3))


def statement(*extents: AffineLike, reads: Sequence[Read] = ()) -> Statement:
    shape = tuple([Affine.of(extent) for extent in extents])
    return Statement(len(reads), "s", shape, tuple(reads), (Ref("r0", f32),), (f32,), b"")


CASES: dict[str, tuple[Sequence[AffineLike], Sequence[AffineLike], Sequence[ReadEntry], Sequence[Affine], bool]] = {
    "the same element": ((N, M), (N, M), (D0, D1), (), True),
    "a part of its elements": ((N, M), (N, M), (D0, D1), (D1 - 3,), True),
    "first of a stack": ((N,), (4, N), (D1,), (-D0,), True),
    "third of a stack": ((N,), (N, 4), (D0,), (D1 - 2, 2 - D1), True),
    "last of a stack": ((N,), (N, 4), (D0,), (D1 - 3,), True),
    "every other place of a stack": ((N, M), (N, 3, M), (D0, D2), (2 - D1 * 2, D1 * 2 - 1), True),
    "a stack of one": ((N,), (N, 1), (D0,), (), True),
    "one place of a stack": ((N, 4), (N,), (D0, Affine.of(2)), (), True),
    "two places of a stack": ((N,), (N, 4), (D0,), (D1 - 1, 2 - D1), False),
    "two stacks, of one of which it is all": ((N,), (3, N, 3), (D1,), (-D0,), False),
    "stacked up to an unknown place": ((N,), (N, M), (D0,), (D1 - M + 1,), False),
    "repeated": ((N,), (M, N), (D1,), (), False),
    "transposed": ((N, N), (N, N), (D1, D0), (), False),
    "the diagonal": ((N, N), (N,), (D0, D0), (), False),
    "shifted": ((N,), (N,), (D0 - 1,), (D0 - 1,), False),
    "a slice of another": ((M,), (N,), (D0,), (), False),
    "chosen by data": ((N,), (N,), (DataIndex(0),), (), False),
}


@pytest.mark.parametrize("case", CASES)
def test_reads(case: str) -> None:
    source, domain, index, where, answer = CASES[case]
    read = Read(0, tuple(index), tuple(where))
    assert is_in_place(statement(*source), statement(*domain, reads=[read]), read) is answer
