"""Vectors that begin anywhere, next to each other, are made of aligned ones that are read once.

    a = load x[i, 4*t + v - s] across                   a, b = load x[i, 4*t + v - s] across, 0 and 1 further on
    b = load x[i, 4*t + v - s + 1] across       ->      d = b - a
    d = b - a

Of four aligned vectors two are left; of three places in a row three of six.  An aligned vector that a row's ends cut is
one of them where its neighbour begins elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.spans import read_together, vectors_across

HALF = 2
"""Bytes of an element, at least: bytes are moved by parts of halves of words."""


def with_neighbours(body: tuple[ir.Op, ...], slot: str, itemsizes: Mapping[str, int]) -> tuple[ir.Op, ...]:
    """The body whose loads that stand together and lie in the same aligned vectors are one operation.  `slot`: the
    innermost one, along which vectors lie; `itemsizes`: of arrays, in bytes."""
    found: list[ir.Op] = []
    for are_loads, ops in groupby(body, lambda op: isinstance(op, ir.Load)):
        if are_loads:
            found += _together([op for op in ops if isinstance(op, ir.Load)], f"${slot}", itemsizes)
            continue
        for op in ops:
            match op:
                case ir.For():
                    found.append(replace(op, body=with_neighbours(op.body, slot, itemsizes)))
                case ir.If():
                    branches = [with_neighbours(part, slot, itemsizes) for part in (op.body, op.orelse)]
                    found.append(replace(op, body=branches[0], orelse=branches[1]))
                case _:
                    found.append(op)
    return tuple(found)


def _together(loads: Sequence[ir.Load], slot: str, itemsizes: Mapping[str, int]) -> list[ir.Op]:
    """The loads, those that become one in place of the first of them."""
    alike: dict[object, list[int]] = {}
    for number, load in enumerate(loads):
        last = load.index[-1] if load.index else None
        if isinstance(last, Affine) and (load.across or load.cut) and itemsizes.get(load.array, 0) >= HALF:
            apart = frozenset([w for w in load.where if slot not in w.names()])
            key = load.array, load.index[:-1], last.terms, load.vector, load.other, apart
            alike.setdefault(key, []).append(number)
    found: dict[int, ir.Op | None] = dict(enumerate(loads))
    for numbers in alike.values():
        begins = tuple([_begins(loads[n]) for n in numbers])
        for group in read_together(begins, loads[numbers[0]].vector):
            if len(group) > 1:
                found |= dict.fromkeys([numbers[k] for k in group])
                found[min(numbers[k] for k in group)] = ir.Neighbours(tuple([loads[numbers[k]] for k in group]))
    return [op for op in found.values() if op is not None]


def _begins(load: ir.Load) -> tuple[int, int]:
    """The constant of where a load begins, and the aligned vectors that it takes alone."""
    last = load.index[-1]
    assert isinstance(last, Affine)
    return last.constant, vectors_across(load.vector) if load.across else 1
