"""Loads of vectors that begin anywhere stand together.

    g = load gains[j] across                            g = load gains[j] across
    p = x * g                                           b = load biases[j] across
    b = load biases[j] across                   ->      p = x * g
    y = p + b                                           y = p + b

Each asks which words of two vectors are wanted, in a branch.  A product in front of one and its sum behind it are no
longer one instruction, and the second load waits for the first.
"""

from __future__ import annotations

from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.inspect import bound


def with_loads_together(body: tuple[ir.Op, ...]) -> tuple[ir.Op, ...]:
    """The body whose loads across stand behind the load in front of them where only values are bound in between."""
    found: list[ir.Op] = []
    for op in body:
        match op:
            case ir.For():
                found.append(replace(op, body=with_loads_together(op.body)))
            case ir.If():
                branches = [with_loads_together(part) for part in (op.body, op.orelse)]
                found.append(replace(op, body=branches[0], orelse=branches[1]))
            case ir.Load(across=True) if all(isinstance(entry, Affine) for entry in op.index):
                found.insert(_behind_a_load(found, op.name), op)
            case _:
                found.append(op)
    return tuple(found)


def _behind_a_load(before: list[ir.Op], name: str) -> int:
    """The place behind the last load, or the last one where there is none that a load of `name` may stand behind."""
    place = len(before)
    while place and isinstance(before[place - 1], ir.Let) and name not in bound(before[place - 1]):
        place -= 1
    return place if place and isinstance(before[place - 1], ir.Load) else len(before)
