"""Rows of a few elements that end and begin within a sector: whether stores fill it at once, or soon after."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf


def normalised_turned(x):
    y = x.T + 1
    return y / np.sqrt((y * y).sum(axis=1, keepdims=True) + 1)


@pytest.mark.parametrize(("rows", "most"), [("16", 250), ("N~16", 250), ("N~15", 600)])
def test_rows_of_turned_columns_are_stored_in_vectors(rows: str, most: float) -> None:
    """On an H100, 16 x 4679536: 1299 us where a thread stores the elements of its row one by one, which was priced as
    vectors whatever the row begins at, 243 in vectors of four lanes."""
    plan = pf.jit(normalised_turned).plan(pf.spec(f"f32[{rows}, M~4679536]"), target="h100")
    (kernel,) = plan.kernels
    assert kernel.cost.seconds < most * 1e-6
    if most == 250:
        stored = [line for line in plan.source().splitlines() if line.strip().startswith("store(")]
        tiles = [line for line in plan.source().splitlines() if " = Tile(" in line]
        assert len(stored) == 1
        (tile,) = [line for line in tiles if line.split(" ")[0] == stored[0].split(", ")[2]]
        assert "vector=4" in tile or "span=4" in tile


def test_what_lies_side_by_side_is_summed_in_the_inner_loop() -> None:
    """On an H100, largest of axes 0 and 2 of 15825 x 9 x 4 x 78 float32, of which a copy is made, 268 us with the loop
    over axis 2 outside, 210 with it inside: rows of 312 bytes end within a sector."""
    plan = pf.jit(lambda x: (x.max(axis=(0, 2)), x * 1)).plan(pf.spec("f32[N~15825, A~9, B~4, C~78]"), target="h100")
    source = plan.source()
    assert source.index("for r in") < source.index("for k0 in")
