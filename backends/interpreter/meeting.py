"""Barriers and collective operations need every thread of a block or warp: the check that they are there."""

from __future__ import annotations

import numpy as np

from polyfuse.backends.interpreter.faults import BarrierDivergence, Witness
from polyfuse.backends.interpreter.tracker import Bools, Ints


def check_meeting(active: Bools, among: Bools | None, blocks: Ints, threads: int, together: int, what: str) -> None:
    """All of each `together` neighbouring threads are active or none; with `among`, all of those.

    `active` and `among` broadcast to ``(blocks, threads)``.

    Raises:
        BarrierDivergence: with a thread that stays away.
    """
    shape = (len(blocks), threads)
    takes = np.broadcast_to(active, shape)
    counted = np.ones(shape, np.bool_) if among is None else np.broadcast_to(among, shape)
    width = min(together, threads)
    for start in range(0, threads, width):
        here, there = takes[:, start : start + width], counted[:, start : start + width]
        split = here.any(axis=1) & (there & ~here).any(axis=1)
        if split.any():
            row = int(np.argmax(split))
            thread = start + int(np.argmax(there[row] & ~here[row]))
            sentence = f"a thread does not reach {what} that others of its block reach"
            raise BarrierDivergence(sentence, Witness(int(blocks[row]), thread))
