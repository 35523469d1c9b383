"""What rows are known to begin at multiples of: a kernel knows what guards say of sizes, not the sizes at hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import gcd

from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.schedule import KernelSchedule


def rows_begin_at(shape: Sequence[Affine], schedule: KernelSchedule) -> int:
    """The power of two of which rows, and planes of rows, begin at multiples, as far as extents and guards say.  Those
    of constant extents alone are not asked: their places are known."""
    step, most, is_known = 1, sys.maxsize, True
    for extent in reversed(shape[1:]):
        factor, exact = _factor(extent, schedule)
        step, is_known = step * factor, is_known and exact
        if not is_known and step:
            most = min(most, step & -step)
    return most


def _factor(extent: Affine, schedule: KernelSchedule) -> tuple[int, bool]:
    """What an extent is a multiple of, and whether it is just that."""
    if extent.is_constant:
        return extent.constant, True
    stated = [g for g in schedule.guards if isinstance(g, Guard) and not (g.negated or g.advisory)]
    bounds = {g.expression for g in stated if not g.modulus}
    for least in bounds:
        over = least - extent
        if over.is_constant and -extent - over in bounds:
            return -over.constant, True
    factors = [g.modulus for g in stated if g.modulus and g.expression == extent]
    return max(gcd(extent.constant, *[f for _, f in extent.terms]), *factors, 1), False
