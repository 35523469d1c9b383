"""Sums relative to an earlier reduction over the same elements, taken in the same pass as it.

    m = max(x);  s = sum(exp(x - m))      ->   (m, t) = max_sumexp(x, 1);   s = t + (m - m)
    a = sum(x);  s = sum((x - d)^2)       ->   (n, u, q) = moments(1, x, 0);  a = n * u;  s = q + n * (u - d)^2

Parts of both are merged without waiting for the earlier one (`scalars.CASCADES`): the sum over a part is moved from
the part's own maximum or mean to the common one.  For the second, d may be anything that depends on a and is the same
for all elements summed.  Only the association of sums changes: no term cancels.  ``m - m`` is 0, or NaN where m is no
number: so is the sum of exponentials then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from polyfuse import expr
from polyfuse.affine import dimension, dimensions, names_of
from polyfuse.dtypes import f32, f64
from polyfuse.expr import Map, Node, Program, Reduce, View
from polyfuse.rebuild import rebuild_program


@dataclass(frozen=True, slots=True)
class Site:
    """Two reductions over the same elements: `total` sums what depends on `first` as `monoid` allows."""

    monoid: str
    first: Reduce
    total: Reduce


def sites(program: Program) -> tuple[Site, ...]:
    """The pairs of reductions that one pass may compute, in topological order of the sums; no reduction twice."""
    sums: dict[bytes, Reduce] = {}
    found: dict[bytes, Site] = {}
    for node in expr.topological(program.outputs):
        if not isinstance(node, Reduce) or node.monoid != "sum" or node.dtype not in (f32, f64):
            continue
        site = _exponentials(node) or _squares(node, sums)
        if site is not None:
            found.setdefault(site.first.digest, site)
        sums.setdefault(_elements(node.operands[0], node.axes), node)
    return tuple(found.values())


def _exponentials(total: Reduce) -> Site | None:
    match total.operands[0]:
        case Map(function="exp", operands=(Map(function="subtract", operands=(x, View() as repeated)),)):
            first = _per_result(repeated, total)
            if isinstance(first, Reduce) and first.monoid == "max":
                alike = _elements(first.operands[0], first.axes) == _elements(x, total.axes)
                return Site("max_sumexp", first, total) if alike else None
    return None


def _squares(total: Reduce, sums: Mapping[bytes, Reduce]) -> Site | None:
    match total.operands[0]:
        case Map(function="multiply", operands=(Map(function="subtract", operands=(x, View() as d)) as left, right)):
            first = sums.get(_elements(x, total.axes))
            follows = first is not None and any(node is first for node in expr.topological((d.source,)))
            if first is not None and follows and left is right and _per_result(d, total) is not None:
                return Site("moments", first, total)
    return None


def _elements(operand: Node, axes: tuple[int, ...]) -> bytes:
    """What a reduction takes together for which result, in whatever order its operand has the dimensions."""
    source, index = operand, dimensions(operand.rank)
    if isinstance(operand, View) and sorted(map(str, operand.index)) == sorted(map(str, index)):
        source, index = operand.source, operand.index
    kept = [dimension(k) for k in range(operand.rank) if k not in axes]
    return expr.digest_of(source, tuple(kept.index(at) if at in kept else -1 for at in index))


def _per_result(repeated: View, total: Reduce) -> Node | None:
    """What a view repeats along the reduced axes, at the points of the result; None where it varies along them."""
    kept = [k for k in range(repeated.rank) if k not in total.axes]
    if any(f"%{axis}" in names_of(repeated.index) for axis in total.axes):
        return None
    at = {f"%{k}": dimension(position) for position, k in enumerate(kept)}
    return expr.view(repeated.source, total.shape, [entry.substitute(at) for entry in repeated.index])


def cascaded(program: Program, chosen: Collection[Site]) -> Program:
    """The program with both reductions of each site taken in one pass."""
    monoids = {site.first.digest: site.monoid for site in chosen}
    firsts = {site.total.digest: site.first.digest for site in chosen}
    states: dict[bytes, tuple[Reduce, ...]] = {}

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, Reduce):
            return node
        if monoid := monoids.get(original.digest):
            state = states[original.digest] = _state(monoid, node.operands[0], node.axes)
            return state[0] if monoid == "max_sumexp" else expr.map_("multiply", (state[0], state[1]))
        first = firsts.get(original.digest)
        return node if first is None else _total(states[first], node)

    return rebuild_program(program, change)


def _state(monoid: str, x: Node, axes: tuple[int, ...]) -> tuple[Reduce, ...]:
    """The components of the state of all elements."""
    one, zero = (expr.view(expr.constant(value, x.dtype), x.shape, ()) for value in (1, 0))
    operands = (x, one) if monoid == "max_sumexp" else (one, x, zero)
    return tuple(expr.reduce_(monoid, operands, axes, component) for component in range(len(operands)))


def _total(state: tuple[Reduce, ...], node: Reduce) -> Node:
    """The sum `node` from the state of the elements that it is over."""
    if len(state) == 2:
        top, total = state
        return expr.map_("add", (total, expr.map_("subtract", (top, top))))
    (square,) = node.operands
    assert isinstance(square, Map) and isinstance(square.operands[0], Map)
    repeated = square.operands[0].operands[1]
    assert isinstance(repeated, View)
    d = _per_result(repeated, node)
    assert d is not None
    count, mean, spread = state
    distance = expr.map_("subtract", (mean, d))
    return expr.map_("add", (spread, expr.map_("multiply", (count, expr.map_("multiply", (distance, distance))))))
