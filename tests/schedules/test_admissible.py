"""What no kernel could do is refused before any proof: shares that several blocks would store, prefixes that begin late
or that several threads would have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, digit
from polyfuse.constraints import at_least_zero
from polyfuse.places.admissible import check_carried, check_reached, check_scan, check_shares
from polyfuse.places.refused import Refused
from polyfuse.schedule import Digit
from polyfuse.scop import Statement

B0, B1, T = digit("b0"), digit("b1"), digit("t")
DIGITS = {
    "b0": Digit("b0", "block", Affine.symbol("N")),
    "b1": Digit("b1", "block", Affine.symbol("M")),
    "t": Digit("t", "thread", Affine.of(32), 1),
}


def statement(function: Any) -> Statement:
    """The last statement of a function of one matrix."""
    plan = pf.jit(function).plan(pf.spec("f32[N~64, M~64]"), target="h200")
    (found,) = [s for s in plan.scop.statements if isinstance(s, Statement)]
    return found


def test_blocks_of_one_share_store_it_once() -> None:
    rows = statement(lambda x: np.sum(x, axis=1))
    check_shares(rows, "b1", [B0], DIGITS)
    with pytest.raises(Refused, match="all blocks along b0 would store one share of sum"):
        check_shares(rows, "b1", [T], DIGITS)
    check_shares(rows, "b1", [T], DIGITS | {"b0": Digit("b0", "block", Affine.of(1))})


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (T + 20, "without the elements before it"),
        (Affine.symbol("M") - 1, "without the elements before it"),
        ((T + 32 * B0) // 64, "where several threads or blocks have each element"),
        (T + 32 * B0, "crosses blocks"),
        (31 - T, "from the last element to the first"),
        (-1 * T, "from the last element to the first"),
    ],
    ids=str,
)
def test_prefixes_that_are_not_whole(at: Affine, words: str) -> None:
    prefix = statement(lambda x: np.cumsum(x, axis=1))
    check_scan(prefix, [B1, T], DIGITS)
    with pytest.raises(Refused, match=words):
        check_scan(prefix, [B1, at], DIGITS)


def test_prefixes_go_on_in_one_row() -> None:
    prefix, r, q = statement(lambda x: np.cumsum(x, axis=0)), digit("r"), digit("q")
    check_carried(prefix, [r, 32 * q + T], [("q", 0), ("r", 0)])
    check_carried(prefix, [r, T], [("r", 0), ("q", 0)])
    with pytest.raises(Refused, match="would take in other rows, to which the loop q inside of its own goes on"):
        check_carried(prefix, [r, 32 * q + T], [("r", 0), ("q", 0)])


def test_prefixes_beside_sums_of_their_rows_are_refused_before_any_proof() -> None:
    """Refuted one by one, their kernels were taken apart into single statements: six, in twice the time."""

    def function(x: Any) -> Any:
        first = np.clip(np.cumsum(x, axis=0), -9, 9)
        second = np.clip(np.cumsum(first, axis=0), -9, 9)
        return second, np.where(np.abs(x) > first, np.abs(x), first * 0.5), np.clip(np.sum(first, axis=2), -9, 9)

    plan = pf.jit(function).plan(pf.spec("f32[16, 300, 50000]"), target="h200")
    assert [kernel.strategy for kernel in plan.kernels] == ["columns", "rows"]
    assert "would take in other rows" in plan.why_not("first", "sum_2").sentence


def test_what_all_blocks_store_is_stored_where_there_are_blocks() -> None:
    total, rows = statement(lambda x: np.sum(x)), statement(lambda x: np.sum(x, axis=1))
    later = {"b0": Digit("b0", "block", Affine.symbol("N").ceildiv(64) - 1)}
    known = at_least_zero([Affine.symbol(name) - 1 for name in ("M", "N")])
    check_reached(rows, [B0], later, known)
    with pytest.raises(Refused, match="sum is stored by no block where there is none along b0"):
        check_reached(total, [], later, known)
    check_reached(total, [], later, (*known, *at_least_zero([Affine.symbol("N") - 65])))
    check_reached(total, [], DIGITS, known)
    product = {"b0": Digit("b0", "block", Affine.symbol("MN"))}
    with pytest.raises(Refused, match="sum is stored by no block"):  # of extents of which one may be 0
        check_reached(total, [], product, (*known, *at_least_zero([Affine.symbol("MN")])))
