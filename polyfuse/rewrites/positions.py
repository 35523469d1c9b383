"""Positions of extremes are 32-bit numbers inside a kernel where the axis is that short, and 64-bit ones in memory.

    y = argmax(x, i64 index, axis=1)    ->    y = i64(argmax(x, i32 index, axis=1))

A 64-bit position is two registers, and two instructions wherever it is computed, compared, selected or sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.dtypes import i32, i64
from polyfuse.expr import Iota, Node, Program, Reduce
from polyfuse.rewrites.rebuild import rebuild_program

LAST = 2**31 - 2  # one less than what stands for no position


def short_positions(program: Program, hints: Mapping[str, int]) -> tuple[Program, tuple[Guard, ...]]:
    """The program with short positions, and guards for the sizes for which they fit.  `hints`: typical sizes."""
    guards: dict[Guard, None] = {}
    inner: set[bytes] = set()

    def change(original: Node, node: Node) -> Node:
        del original
        if not isinstance(node, Reduce) or node.monoid not in ("argmax", "argmin"):
            return node
        value, index = node.operands
        if not isinstance(index, Iota) or index.dtype != i64 or not _is_short(index, hints, guards):
            return node
        short = expr.reduce_(node.monoid, [value, expr.iota(index.shape, index.index, i32)], node.axes, node.component)
        if node.component == 0:
            return short
        inner.add(short.digest)
        return expr.map_("cast", [short], i64)

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, inner=rebuilt.inner | inner), tuple(guards)


def _is_short(index: Iota, hints: Mapping[str, int], guards: dict[Guard, None]) -> bool:
    """Whether the index is known to fit, for the sizes of a guard where they are symbols."""
    highest = lowest = index.index
    for k, extent in enumerate(index.shape):
        factor = index.index.coefficient(f"%{k}")
        highest = highest.substitute({f"%{k}": extent - 1 if factor > 0 else Affine.of(0)})
        lowest = lowest.substitute({f"%{k}": Affine.of(0) if factor > 0 else extent - 1})
    if not lowest.is_constant or lowest.constant < 0 or highest.evaluate(hints) > LAST:
        return False
    if not highest.is_constant:
        guards[Guard(LAST - highest)] = None
    return True
