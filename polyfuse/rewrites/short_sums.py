"""Sums of small integers are 32-bit numbers inside a kernel where they fit, and as wide as NumPy's in memory.

    y = sum(i64(m), axis=1)    ->    y = i64(sum(i32(m), axis=1))    where m is of booleans: at most 2**31 - 1 a row
    y = sum(f64(m), axis=1)    ->    y = f64(sum(i32(m), axis=1))    likewise, or of i64, as in means

The bits are the same: no sum of any part leaves the range, nor is one rounded; of float32, whose sums would be, the
total alone is.  A 64-bit number is two registers, and two instructions wherever it is added, selected or sent; and a
processor makes few floats of integers at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from polyfuse import expr
from polyfuse.bindings import AnyGuard, VolumeGuard
from polyfuse.dtypes import bool_, f32, f64, i32, i64, integer_limits, u64
from polyfuse.expr import Map, Node, Program, Reduce, Scan, Shape
from polyfuse.rewrites.rebuild import rebuild_program

LONG, FLOATS = (i64, u64), (f32, f64)
LAST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Short:
    """The same values as 32-bit integers, from `least` to `most`."""

    node: Node
    least: int
    most: int


def short_sums(program: Program, hints: Mapping[str, int]) -> tuple[Program, tuple[AnyGuard, ...]]:
    """The program with short sums, and guards for the sizes for which they fit.  `hints`: typical sizes."""
    guards: dict[AnyGuard, None] = {}
    inner: set[bytes] = set()
    readers = Counter([o.digest for node in expr.topological(program.outputs) for o in expr.operands_of(node)])
    readers.update([output.digest for output in program.outputs])

    def change(original: Node, node: Node) -> Node:
        match node:
            case Reduce(monoid="sum", operands=(operand,), axes=axes) if node.dtype in (*LONG, *FLOATS):
                over: Shape = tuple(operand.shape[a] for a in axes)
            case Scan(monoid="sum", operand=operand, axis=axis) if node.dtype in LONG:
                over = (operand.shape[axis],)
            case _:
                return node
        short = _short(operand)
        if short is None or short.least < 0 and node.dtype == u64:
            return node
        if node.dtype in FLOATS and not all(_is_read_once(o, readers) for o in expr.operands_of(original)):
            return node  # moments need the elements as they are
        if not _fits(short, over, hints, guards):
            if node.dtype != f64:
                return node
            short = replace(short, node=expr.map_("cast", [short.node], i64))
        if isinstance(node, Reduce):
            total: Node = expr.reduce_(node.monoid, [short.node], node.axes)
        else:
            total = expr.scan(node.monoid, short.node, node.axis, node.exclusive, node.reverse, node.run)
        inner.add(total.digest)
        return expr.map_("cast", [total], node.dtype)

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, inner=rebuilt.inner | inner), tuple(guards)


def _is_read_once(node: Node, readers: Counter[bytes]) -> bool:
    """Whether one reduction alone reads a node, and what it is a view of."""
    while readers[node.digest] == 1 and isinstance(node, expr.View):
        node = node.source
    return readers[node.digest] == 1


def _short(node: Node) -> Short | None:
    """The values of a node of a long type in a short one; None where they are not known to be small."""
    match node:
        case expr.Constant() if _is_whole(node):
            value = int(node.value)
            return Short(expr.constant(value, i32), value, value)
        case expr.View(source=source):
            short = _short(source)
            return short and replace(short, node=expr.view(short.node, node.shape, node.index))
        case Map(function="cast", operands=(source,)) if source.dtype.kind in "iub" and source.dtype.itemsize <= 2:
            least, most = 0, 1
            if source.dtype != bool_:
                limits = integer_limits(source.dtype)
                least, most = int(limits.min), int(limits.max)
            return Short(expr.map_("cast", [source], i32), least, most)
        case Map(function="where", operands=(condition, chosen, other)):
            left, right = _short(chosen), _short(other)
            if left is None or right is None:
                return None
            both = expr.map_("where", [condition, left.node, right.node], i32)
            return Short(both, min(left.least, right.least), max(left.most, right.most))
    return None


def _is_whole(node: expr.Constant) -> bool:
    """Whether a number is a small integer; -0.0 is none."""
    if node.dtype in LONG:
        return abs(int(node.value)) <= LAST
    value = float(node.value) if node.dtype == f64 else math.nan
    return math.isfinite(value) and abs(value) <= LAST and value.is_integer() and str(value) != "-0.0"


def _fits(short: Short, over: Shape, hints: Mapping[str, int], guards: dict[AnyGuard, None]) -> bool:
    """Whether a sum of so many elements is known to fit, for the sizes of a guard where they are symbols."""
    limit = LAST // max(1, -short.least, short.most)
    if prod(max(1, extent.evaluate(hints)) for extent in over) > limit:
        return False
    if not all(extent.is_constant for extent in over):
        guards[VolumeGuard(over, limit)] = None
    return True
