"""Sums of many sizes are numbers that the launch passes: where a piece of a row begins.

    store y[i, n1 + n2 + n3 + n4 + 16*c + v]      ->      store y[i, sum_1 + 16*c + v]      sum_1 = n1 + n2 + n3 + n4

Of 40 arrays that are joined along their rows the last begins at a sum of 39 sizes.  LLVM looks for common parts of all
such sums that it sees, in a time that grows with the third power of how many they are: 20 s for these, 0.8 s so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count

from polyfuse import kernel as ir
from polyfuse.affine import Affine, Atom
from polyfuse.lower.peel import changed

FEWEST = 3
"""Sizes of a sum that has a name: shorter ones say more."""


def with_sums(
    ops: Sequence[ir.Op], sizes: Collection[str], taken: Collection[str]
) -> tuple[tuple[ir.Op, ...], Mapping[str, Affine]]:
    """The operations with names for long sums of `sizes`, and what these mean.  `taken`: names that are not free."""
    sums: dict[Affine, str] = {}
    known = set(taken)

    def named(expression: Affine) -> Affine:
        parts: list[tuple[Atom, int]] = [(atom, factor) for atom, factor in expression.terms if atom in sizes]
        sign = -1 if parts and parts[0][1] < 0 else 1
        if len(parts) < FEWEST or any(factor * sign < 0 for _, factor in parts):
            return expression  # what may be negative is no size
        whole = Affine(tuple([(atom, factor * sign) for atom, factor in parts]))
        if whole not in sums:
            sums[whole] = next(name for k in count(1) if (name := f"sum_{k}") not in known)
            known.add(sums[whole])
        return expression + (Affine.symbol(sums[whole]) - whole) * sign

    found = changed(ops, named)
    return found, {name: whole for whole, name in sums.items()}
