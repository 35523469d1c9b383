"""Totals of what is summed along fewer axes already are sums of those sums.

    r = sum(x, axis=1);  t = sum(x, axis=(0, 1))              ->     t = sum(r, axis=0)
    s = sum(x, axis=(0, 2));  t = sum(x, axis=(1, 2))         ->     r = sum(x, axis=2);  s = sum(r, axis=0);  ...

Only the association of sums changes; extremes have the same bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polyfuse import expr
from polyfuse.affine import dimension, dimensions
from polyfuse.dtypes import bf16, f16
from polyfuse.expr import Node, Program, Reduce, View
from polyfuse.rewrites.rebuild import rebuild_program

MONOIDS = ("sum", "max", "min")


@dataclass(frozen=True, slots=True)
class Nesting:
    """`total` runs over what `part` runs over and more."""

    total: Reduce
    part: Reduce


def nestings(program: Program) -> tuple[Nesting, ...]:
    """Of every reduction over elements that another one reduces along some of the same axes, the one with the fewest
    results; where there is none, one along the axes that several have in common."""
    reductions = [n for n in expr.topological(program.outputs) if isinstance(n, Reduce) and _is_exact(n)]
    alike: dict[Hashable, list[Reduce]] = defaultdict(list)
    for node in reductions:
        alike[node.monoid, node.dtype, _kept(node)[0].digest].append(node)
    found: list[Nesting] = []
    for total in reductions:
        source, kept = _kept(total)
        parts = [p for p in alike[total.monoid, total.dtype, source.digest] if p is not total]
        inside = [p for p in parts if set(kept) < set(_kept(p)[1])] or _common(total, parts)
        if inside:
            size = {p.digest: prod(n.evaluate(program.hints) for n in p.shape) for p in inside}
            found.append(Nesting(total, min(inside, key=lambda p: (size[p.digest], p.digest))))
    return tuple(found)


def _common(total: Reduce, others: Sequence[Reduce]) -> list[Reduce]:
    """What `total` and most of the others run over, if that is less than each of them does."""
    source, kept = _kept(total)
    axes = [frozenset(range(source.rank)) - set(_kept(r)[1]) for r in (total, *others)]
    shared = {axes[0] & a for a in axes[1:]} - {frozenset(), *axes}
    if not shared:
        return []
    most = max(shared, key=lambda a: (sum(a < b for b in axes), len(a), sorted(a)))
    return [expr.reduce_(total.monoid, [source], sorted(most))]


def nested(program: Program, chosen: tuple[Nesting, ...]) -> Program:
    """The program with these totals as reductions of their parts."""
    parts = {nesting.total.digest: nesting.part for nesting in chosen}

    def change(original: Node, node: Node) -> Node:
        part = parts.get(original.digest)
        if part is None or not isinstance(original, Reduce) or not isinstance(node, Reduce):
            return node
        return _of_part(_kept(node)[0], original, part, parts)

    return rebuild_program(program, change)


def _of_part(source: Node, total: Reduce, part: Reduce, parts: Mapping[bytes, Reduce]) -> Node:
    """A total of `source`, which may have been rebuilt, by a part that may be a total itself."""
    (operand,) = part.operands
    further = parts.get(part.digest)
    if further is not None:
        value = _of_part(source, part, further, parts)
    else:
        elements = source
        if isinstance(operand, View) and operand is not _kept(part)[0]:
            elements = expr.view(source, operand.shape, operand.index)
        value = expr.reduce_(part.monoid, [elements], part.axes)
    kept, held = _kept(total)[1], _kept(part)[1]
    value = expr.reduce_(total.monoid, [value], [k for k, d in enumerate(held) if d not in kept])
    order = [d for d in held if d in kept]
    return expr.view(value, total.shape, [dimension(kept.index(d)) for d in order]) if total.rank else value


def _is_exact(node: Reduce) -> bool:
    """Whether parts of it are no less exact than the whole: sums of 16-bit floats are rounded in the end."""
    narrow = node.monoid == "sum" and node.dtype in (f16, bf16)
    return node.monoid in MONOIDS and len(node.operands) == 1 and not narrow


def _kept(node: Reduce) -> tuple[Node, tuple[int, ...]]:
    """What is reduced, seen through permutations, and which of its dimensions are kept, in the order of the results."""
    (operand,) = node.operands
    source, index = operand, dimensions(operand.rank)
    if isinstance(operand, View) and sorted(map(str, operand.index)) == sorted(map(str, index)):
        order = [operand.index.index(at) for at in index]  # dimension of the source that each of the view's is
        if operand.source.shape == tuple(operand.shape[index.index(at)] for at in operand.index):
            return operand.source, tuple(order[k] for k in range(operand.rank) if k not in node.axes)
    return source, tuple(k for k in range(operand.rank) if k not in node.axes)
