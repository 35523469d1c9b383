"""Sums relative to an earlier reduction over the same elements, taken in the same pass as it.

    m = max(x);  s = sum(exp(x - m))      ->   (m, t) = max_sumexp(x, 1);   s = t + (m - m)
    and then     a = sum((x - d) - e)     ->   (m, t, n, b) = max_sumexp_sum(x, 1, 1, 0);  a = b + n * ((m - d) - e)
    a = sum(x);  s = sum((x - d)^2)       ->   (n, u, q) = moments(1, x, 0);  a = n * u;  s = q + n * (u - d)^2
    s = sum((x - d) * (y - e))            ->   (n, u, v, q) = comoments(1, x, y, 0);  s = q + n * (u - d) * (v - e)
    several of these of two or three      ->   (n, u, v, q, r, t) = moments2(1, x, y, 0, 0, 0);  a = n * u;  ...

Parts of both are merged without waiting for the earlier one (`scalars.CASCADES`): the sum over a part is moved from
the part's own maximum or mean to the common one.  In the others d and e may be anything that depends on a and is the
same for all elements summed.  Only the association of sums changes: no term cancels.  ``m - m`` is 0, or NaN where m is
no number: so is the sum of exponentials then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from polyfuse import expr
from polyfuse.affine import dimension, dimensions, names_of
from polyfuse.dtypes import DType, bf16, f16, f32, f64
from polyfuse.expr import Map, Node, Program, Reduce, View
from polyfuse.rewrites.rebuild import rebuild_program, rebuilt
from polyfuse.scalars import CASCADES

OF_EXPONENTIALS = ("max_sumexp", "max_sumexp_short")
"""The cascades of sums of exponentials: of float32 or float64, and of 16-bit floats."""


@dataclass(frozen=True, slots=True)
class Site:
    """`total`, a reduction of what `firsts` decide over the same elements, as `monoid` allows."""

    monoid: str
    firsts: tuple[Reduce, ...]
    total: Reduce


def sites(program: Program) -> tuple[Site, ...]:
    """The reductions that one pass may compute with those that they depend on, in topological order."""
    sums: dict[bytes, Reduce] = {}
    maxima: dict[bytes, Reduce] = {}  # of what is summed relative to them
    found: list[Site] = []
    for node in expr.topological(program.outputs):
        if not isinstance(node, Reduce) or node.monoid != "sum" or node.dtype not in (f32, f64):
            continue
        site = _exponentials(node) or _products(node, sums) or _distances(node, maxima)
        found += [site] if site is not None else []
        if site is not None and site.monoid in OF_EXPONENTIALS:
            maxima[_elements(site.firsts[0].operands[0], node.axes)] = site.firsts[0]
        sums.setdefault(_elements(node.operands[0], node.axes), node)
    return tuple(found)


def _exponentials(total: Reduce) -> Site | None:
    match _narrow(total.operands[0]):
        case Map(function="exp", operands=(Map(function="subtract", operands=(x, repeated)),)) as taken:
            first = _per_result(repeated, total)
            if isinstance(first, Reduce) and first.monoid == "max":
                alike = _elements(first.operands[0], first.axes) == _elements(x, total.axes)
                monoid = OF_EXPONENTIALS[taken.dtype in (f16, bf16)]
                return Site(monoid, (first,), total) if alike else None
    return None


def _distances(total: Reduce, maxima: Mapping[bytes, Reduce]) -> Site | None:
    """A sum of distances from what follows from the maximum of the same elements, as from a logarithm of their sum."""
    elements, points = _apart(total)
    first = maxima.get(_elements(elements, total.axes)) if points else None
    follows = first is not None and first.digest in {node.digest for node in expr.topological(points)}
    return Site("max_sumexp_sum", (first,), total) if first is not None and follows else None


def _apart(total: Reduce) -> tuple[Node, tuple[Node, ...]]:
    """What a sum takes the distances of, and from which points: x and (d, e) of ``(x - d) - e``."""
    elements, points = _narrow(total.operands[0]), list[Node]()
    while isinstance(elements, Map) and elements.function == "subtract":
        point = _per_result(elements.operands[1], total)
        if point is None:
            break
        elements, points = elements.operands[0], [point, *points]
    return elements, tuple(points)


def _products(total: Reduce, sums: Mapping[bytes, Reduce]) -> Site | None:
    """A sum of products of distances from what follows from the sum of either factor's elements."""
    match [_seen(factor) for factor in _factors(total)]:
        case [
            Map(function="subtract", operands=(x, d)) as left,
            Map(function="subtract", operands=(y, e)) as right,
        ]:
            if _per_result(d, total) is None or _per_result(e, total) is None:
                return None
            known = [sums.get(_elements(operand, total.axes)) for operand in dict.fromkeys((x, y))]
            below = {node.digest for node in expr.topological((d, e))}
            firsts = tuple(first for first in known if first is not None and first.digest in below)
            return Site("moments" if left is right else "comoments", firsts, total) if firsts else None
    return None


def _factors(total: Reduce) -> tuple[Node, ...]:
    """Of the products that a sum takes together."""
    product = _narrow(total.operands[0])
    return product.operands if isinstance(product, Map) and product.function == "multiply" else ()


def _seen(factor: Node) -> Node:
    """The same elements as a difference, where they are a view of one."""
    match factor:
        case View(source=Map(function="subtract", operands=operands)):
            seen = [expr.view(o, factor.shape, factor.index) if o.shape else o for o in operands]  # scalars stay
            return expr.map_("subtract", seen)
        case _:
            return factor


def _elements(operand: Node, axes: tuple[int, ...]) -> bytes:
    """What a reduction takes together for which result, in whatever order its operand has the dimensions."""
    operand = _narrow(operand)
    source, index = operand, dimensions(operand.rank)
    if isinstance(operand, View) and set(operand.index) == set(index) and operand.source.rank == operand.rank:
        order = [index.index(at) for at in operand.index]
        if operand.source.shape == tuple(operand.shape[k] for k in order):  # all of it, dimensions permuted
            source, index = _narrow(operand.source), operand.index
    kept = [dimension(k) for k in range(operand.rank) if k not in axes]
    return expr.digest_of(source, tuple(kept.index(at) if at in kept else -1 for at in index))


def _narrow(operand: Node) -> Node:
    """What a sum of 16-bit floats widens: in registers both are one, and nothing rounds in between."""
    if isinstance(operand, Map) and operand.function == "cast" and operand.operands[0].dtype in (f16, bf16):
        return operand.operands[0]
    return operand


def _as(node: Node, dtype: DType) -> Node:
    return node if node.dtype == dtype else expr.map_("cast", (node,), dtype)


def _per_result(repeated: Node, total: Reduce) -> Node | None:
    """What is repeated along the reduced axes, at the points of the result; None for what varies along them."""
    if not repeated.shape:
        return repeated
    if not isinstance(repeated, View):
        return None
    kept = [k for k in range(repeated.rank) if k not in total.axes]
    if any(f"%{axis}" in names_of(repeated.index) for axis in total.axes):
        return None
    at = {f"%{k}": dimension(position) for position, k in enumerate(kept)}
    return expr.view(repeated.source, total.shape, [entry.substitute(at) for entry in repeated.index])


def cascaded(program: Program, chosen: Collection[Site]) -> Program:
    """The program with the reductions of each site taken in one pass.  A sum whose elements have two means of their own
    leaves the sums that these follow from as they are: the pass takes them besides."""
    joint = _joint(chosen)
    inside = {id(site) for meeting in joint for site in meeting.sites}
    by_digest = {node.digest: meeting for meeting in joint for node in meeting.taken()}
    chosen = [s for s in chosen if id(s) not in inside and not (s.monoid == "moments" and _meets(s, by_digest))]
    last = "max_sumexp", "max_sumexp_sum"  # the state of the latter has that of the former, exact ones serve for short
    wide = sorted(chosen, key=lambda site: last.index(site.monoid) if site.monoid in last else -1)
    monoids = {f.digest: site.monoid for site in wide if site.monoid != "comoments" for f in site.firsts}
    totals = {site.total.digest: site for site in chosen}
    states: dict[bytes, tuple[Reduce, ...]] = {}
    made: dict[bytes, tuple[Node, ...]] = {}

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, Reduce):
            return node
        if (meeting := by_digest.get(original.digest)) is not None and isinstance(original, Reduce):
            key = meeting.sites[0].total.digest
            if key not in states:  # its elements depend on nothing that it changes
                made[key] = rebuilt(meeting.elements, change)
                elements = tuple(_as(_narrow(e), node.dtype) for e in made[key])
                states[key] = _state(f"moments{len(elements)}", elements, node.axes)
            is_total = any(original.digest == site.total.digest for site in meeting.sites)
            return _of_joint(node, states[key], [_narrow(e).digest for e in made[key]], is_total=is_total)
        if monoid := monoids.get(original.digest):
            wide = f64 if node.dtype == f64 else f32
            elements = tuple(_as(_narrow(x), wide) for x in node.operands)
            state = states[original.digest] = _state(monoid, elements, node.axes)
            whole = state[0] if monoid.startswith("max") else expr.map_("multiply", (state[0], state[1]))
            return _as(whole, node.dtype)
        site = totals.get(original.digest)
        if site is None:
            return node
        if site.monoid in OF_EXPONENTIALS:
            top, total, *_ = states[site.firsts[0].digest]
            return expr.map_("add", (total, expr.map_("subtract", (top, top))))
        if site.monoid == "max_sumexp_sum":
            return _from_points(node, states[site.firsts[0].digest])
        return _around(node, states.get(site.firsts[0].digest) if site.monoid == "moments" else None)

    return rebuild_program(program, change)


MOST_JOINT = 3
"""Arrays whose means and products of distances one pass takes together: there is a cascade of each number."""


@dataclass(frozen=True, slots=True)
class _Joint:
    """Sums of products of distances that are taken together, of `elements`."""

    sites: tuple[Site, ...]
    elements: tuple[Node, ...]

    def taken(self) -> tuple[Reduce, ...]:
        """What takes part, and is no reduction of its own any more."""
        return tuple(node for site in self.sites for node in (*site.firsts, site.total))


def _of_joint(node: Reduce, state: tuple[Reduce, ...], elements: Sequence[bytes], *, is_total: bool) -> Node:
    """What takes the place of a sum, of `elements` or of products (`is_total`), by the joint state of all."""
    count, means = state[0], state[1 : 1 + len(elements)]
    if not is_total:
        mean = means[elements.index(_narrow(node.operands[0]).digest)]
        return _as(expr.map_("multiply", (count, mean)), node.dtype)
    factors = [f for f in dict.fromkeys(map(_seen, _factors(node))) if isinstance(f, Map)]
    places = [elements.index(_narrow(f.operands[0]).digest) for f in factors]
    pair = CASCADES[count.monoid].pairs.index((min(places), max(places)))
    return _around(node, (count, *[means[place] for place in places], state[1 + len(means) + pair]))


def _meets(site: Site, taken: Collection[bytes]) -> bool:
    """Whether a sum that a site depends on is taken with others, which leaves it without a state."""
    return any(first.digest in taken for first in site.firsts)


def _joint(chosen: Collection[Site]) -> list[_Joint]:
    """Sites of the same elements, or of pairs of a few, that one pass takes together: each by itself counts, and has
    means of its own."""
    alike: dict[object, list[Site]] = {}
    for site in chosen:
        if site.monoid in ("moments", "comoments") and _sides(site) is not None:
            key = site.total.axes, site.total.operands[0].shape, site.total.dtype
            alike.setdefault(key, []).append(site)
    found = []
    for sites_ in alike.values():
        elements = {e.digest: e for site in sites_ for e in _sides(site) or ()}
        meeting = _Joint(tuple(sites_), tuple(elements.values()))
        below = {node.digest for node in expr.topological(meeting.elements)}
        apart = below.isdisjoint({node.digest for node in meeting.taken()})
        if len(sites_) > 1 and 1 < len(elements) <= MOST_JOINT and apart:
            found.append(meeting)
    return found


def _sides(site: Site) -> tuple[Node, ...] | None:
    """The elements whose distances a site takes the products of; None where a sum that it depends on has them in
    another order, or is of another type."""
    factors = [f for f in dict.fromkeys(map(_seen, _factors(site.total))) if isinstance(f, Map)]
    elements = tuple(_narrow(f.operands[0]) for f in factors)
    known = {element.digest for element in elements}
    for first in site.firsts:
        if _narrow(first.operands[0]).digest not in known or first.axes != site.total.axes:
            return None
        if first.dtype != site.total.dtype:
            return None
    return elements


def _from_points(node: Reduce, state: tuple[Reduce, ...]) -> Node:
    """The sum of distances from other points than the maximum, by those from it."""
    distance, _, count, apart = state
    _, points = _apart(node)
    moved: Node = distance
    for point in points:
        moved = expr.map_("subtract", (moved, _as(point, node.dtype)))
    return expr.map_("add", (apart, expr.map_("multiply", (count, moved))))


def _state(monoid: str, elements: tuple[Node, ...], axes: tuple[int, ...]) -> tuple[Reduce, ...]:
    """The components of the state of all elements."""
    first = elements[0]
    one, zero = (expr.view(expr.constant(value, first.dtype), first.shape, ()) for value in (1, 0))
    exponentials = (*elements, one, one, zero) if monoid == "max_sumexp_sum" else (*elements, one)
    zeros = (zero,) * len(CASCADES[monoid].pairs)
    operands = exponentials if monoid.startswith("max") else (one, *elements, *zeros)
    return tuple(expr.reduce_(monoid, operands, axes, component) for component in range(len(operands)))


def _around(node: Reduce, state: tuple[Reduce, ...] | None) -> Node:
    """The sum of products of distances from other points than the means, by the state around the means (by default one
    of its own)."""
    factors = [f for f in dict.fromkeys(map(_seen, _factors(node))) if isinstance(f, Map)]
    if state is None:
        state = _state("comoments", tuple(_as(f.operands[0], node.dtype) for f in factors), node.axes)
    count, *means, spread = state
    distances = []
    for factor, mean in zip(factors, means, strict=True):
        point = _per_result(factor.operands[1], node)
        assert point is not None
        distances.append(expr.map_("subtract", (mean, _as(point, node.dtype))))
    apart = expr.map_("multiply", (distances[0], distances[-1]))
    return expr.map_("add", (spread, expr.map_("multiply", (count, apart))))
