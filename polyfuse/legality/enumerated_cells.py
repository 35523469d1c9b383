"""Cells of a shared box that the threads of a block put and get, one by one: where threads and slots alone choose them,
going through all is quicker than reasoning, above all where threads divide their index."""

from __future__ import annotations

from math import prod

import numpy as np

from polyfuse import sets
from polyfuse.legality.relations import Proof
from polyfuse.schedule import Placed


def are_apart(proof: Proof, put: Placed) -> bool | None:
    """Whether no two executions in a block put into one cell; None where that is left to others."""
    cells = _cells(proof, put)
    return None if cells is None else int(np.bincount(cells[cells >= 0], minlength=1).max()) <= 1


def are_filled(proof: Proof, put: Placed, get: Placed) -> bool:
    """Whether `put` puts each cell that `get` gets; False also where that is left to others."""
    filled, taken = _cells(proof, put), _cells(proof, get)
    if filled is None or taken is None or (taken < 0).any():
        return False
    return bool(np.isin(taken, filled).all())


def _cells(proof: Proof, move: Placed) -> np.ndarray | None:
    """The cell of each execution in a block, -1 outside of the box; None where loops, blocks or sizes choose it as
    well, or executions are too many.  A thread whose index is not asked for makes a put once, and any get."""
    local, known = proof.local(move), proof.digits_of(move)
    chosen = [d for d in proof.schedule.digits if d.name in known and d.kind in ("thread", "slot")]
    names = frozenset().union(*[entry.names() for entry in local])
    counts = [d.count for d in chosen]
    if proof.loops(move) or not names <= {f"${d.name}" for d in chosen} or prod(counts) > sets.POINTS:
        return None
    grid = np.indices(counts).reshape(len(counts), prod(counts))
    values = {f"${d.name}": axis for d, axis in zip(chosen, grid, strict=True)}
    none = np.zeros(prod(counts), np.int64)
    cells, inside = none, none == 0
    for entry, extent in zip(local, proof.boxes[move.value].extents, strict=True):
        at = none + entry.on_arrays(values)
        cells = cells * extent + at
        inside &= (at >= 0) & (at < extent)
    return np.where(inside, cells, -1)
