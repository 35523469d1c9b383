"""How often Python looks for unreachable cycles while a plan is made and compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 100_000
"""New objects behind which it looks for cycles.  A plan makes millions of small ones that stay, and hardly a cycle:
behind every 700, as is usual, 11 to 20 parts in a hundred of the planning of 1,000 statements were spent looking.  For
a kernel Numba makes 100,000, and one look through all objects of a process that has compiled a few takes 160 ms."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Look for cycles seldom; a user's settings that do so already stay.  To be used with `PLANNING` held."""
    usual = gc.get_threshold()
    if not 0 < usual[0] < OBJECTS:
        yield
        return
    gc.set_threshold(OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
