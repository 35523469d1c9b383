"""Rules of `Neighbours`: loads that can share the aligned vectors that they lie in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from polyfuse.affine import Affine
from polyfuse.kernel import Kernel, Load, Neighbours
from polyfuse.kernel_types import Memory

HALF = 2
"""Bytes of elements that are moved by words and halves of words."""


def check_neighbours(
    op: Neighbours, memory: Mapping[str, Memory], kernel: Kernel, refuse: Callable[[str], NoReturn]
) -> None:
    """Each of its loads is checked as one of its own; `refuse` raises with the operation's name."""
    if len(op.loads) < 2:
        refuse("a load has no neighbour")
    first = op.loads[0]
    for load in op.loads:
        if not (load.across or load.cut) or any(not isinstance(entry, Affine) for entry in load.index):
            refuse(f"{load.name} is no vector that begins anywhere")
        if (load.array, load.vector, load.other) != (first.array, first.vector, first.other):
            refuse(f"{load.name} is not loaded as {first.name} is")
        if _apart(load, kernel) != _apart(first, kernel):
            refuse(f"{load.name} is loaded under other conditions than {first.name}")
        if load.index[:-1] != first.index[:-1] or (_last(load) - _last(first)).terms:
            refuse(f"{load.name} does not lie a constant number of elements behind {first.name}")
    if op.steps[0] != 0 or list(op.steps) != sorted(op.steps):
        refuse(f"its loads are not in the order of memory: {list(op.steps)}")
    if memory[first.array].dtype.itemsize < HALF:
        refuse(f"elements of {memory[first.array].dtype} are no halves of words")


def _last(load: Load) -> Affine:
    last = load.index[-1]
    assert isinstance(last, Affine)
    return last


def _apart(load: Load, kernel: Kernel) -> frozenset[Affine]:
    """Conditions of whole vectors."""
    slot = f"${kernel.slots[-1].name}"
    return frozenset([w for w in load.where if slot not in w.names()])
