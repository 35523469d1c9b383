"""Rules of what is known of conditions: of one slot, which moves them, as far as they hold further on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from polyfuse.affine import Affine
from polyfuse.kernel import Kernel, Settled


def check_settled(kernel: Kernel, refuse: Callable[[str], NoReturn]) -> None:
    """`refuse` raises.  Whether a condition holds is a question of sizes, which the proof has answered."""
    extents = {s.name: s.extent for s in kernel.slots}
    for known in kernel.settled:
        if known.slot not in extents:
            refuse(f"there is no slot {known.slot}, of which {known.condition} is known to hold")
        _check(known, extents[known.slot], refuse)
    twice = [k.condition for k in kernel.settled]
    if len(twice) > len(set(twice)):
        refuse("it is said twice where a condition holds")


def _check(known: Settled, extent: int, refuse: Callable[[str], NoReturn]) -> None:
    condition, name = known.condition, f"${known.slot}"
    factor = condition.coefficient(name)
    if not factor or name in (condition - Affine.symbol(name) * factor).names():
        refuse(f"{condition} does not go with the slot {known.slot}")
    if not 0 <= known.first < known.stop <= extent:
        refuse(f"{known.slot} has no places {known.first} to {known.stop - 1}")
    if (known.stop if factor > 0 else known.first) != (extent if factor > 0 else 0):
        sentence = f"{condition} is known at {known.first} to {known.stop - 1} of {known.slot}"
        refuse(f"{sentence}, and holds further on as well")
