"""Which data indices can leave their array: value ranges of integer expressions, compared with extents by isl.

    x[i % n]                  0 <= i % n <= n - 1           in bounds: no kernel checks it
    table[pixel]  (u8, 256)   0 <= pixel <= 255             in bounds
    x[i]                      the range of i's dtype        checked while the kernel runs, as `Options.bounds` says

A range is a set of affine bounds over size symbols.  Integer arithmetic that could wrap has the range of its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from polyfuse import expr, sets
from polyfuse.affine import Affine
from polyfuse.dtypes import DType, integer_limits
from polyfuse.expr import DataIndex, Gather, IndexEntry, Iota, Map, Node, Program, Reduce, Scatter, Shape
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.sets import Constraint

_SIZE_LIMIT = 1 << 48  # no address space holds an array with a longer axis
_BOUNDS_KEPT = 4  # per side: more are never needed to compare with one extent
_KEEPS_VALUES = ("max", "min", "fmax", "fmin", "argmax", "argmin")


@dataclass(frozen=True, slots=True)
class Range:
    """All values are at least each of `lows` and at most each of `highs`."""

    lows: tuple[Affine, ...] = ()
    highs: tuple[Affine, ...] = ()

    @staticmethod
    def of(low: int, high: int) -> Range:
        return Range((Affine.of(low),), (Affine.of(high),))

    def __add__(self, other: Range) -> Range:
        return Range(_pairs(self.lows, other.lows), _pairs(self.highs, other.highs))

    def __neg__(self) -> Range:
        return Range(tuple(-h for h in self.highs), tuple(-low for low in self.lows))


def _pairs(ones: Sequence[Affine], others: Sequence[Affine]) -> tuple[Affine, ...]:
    return tuple(dict.fromkeys(a + b for a in ones for b in others))[:_BOUNDS_KEPT]


def settle_bounds(program: Program, bounds: str) -> Program:
    """The program whose data indices are checked only where they can leave their array, and there as `bounds` says.

    ``raise`` stays where neither a proof nor an option settles it, and for arrays without elements.
    """
    ranges = _Ranges(program)

    def change(original: Node, node: Node) -> Node:
        del original
        match node:
            case Gather(source=source, bounds="raise") if 0 not in (n.constant for n in source.shape if n.is_constant):
                settled = "assume" if ranges.inside(node.index, node.operands, source.shape) else bounds
                return expr.gather(source, node.shape, node.operands, node.index, settled)
            case Scatter(base=base, bounds="raise"):
                settled = "assume" if ranges.inside(node.index, node.operands, base.shape) else bounds
                return expr.scatter(base, node.updates, node.operands, node.index, node.monoid, settled)
        return node

    if not any(isinstance(n, (Gather, Scatter)) and n.bounds == "raise" for n in expr.topological(program.outputs)):
        return program
    return rebuild_program(program, change)


class _Ranges:
    """Ranges of the integer nodes of one program, each found once."""

    def __init__(self, program: Program) -> None:
        sizes = [Affine.symbol(s) for s in program.symbols]
        self.context = (
            *(Constraint(s - 1) for s in sizes),
            *(Constraint(_SIZE_LIMIT - s) for s in sizes),
            *(Constraint(f) for f in program.facts),
        )
        self.known: dict[bytes, Range] = {}

    def inside(self, index: Sequence[IndexEntry], operands: Sequence[Node], shape: Shape) -> bool:
        """Whether every data entry is proved to lie in its axis."""
        pairs = zip(index, shape, strict=True)
        return all(self._within(self.range(operands[e.operand]), n) for e, n in pairs if isinstance(e, DataIndex))

    def _within(self, found: Range, extent: Affine) -> bool:
        return self._some(found.lows) and self._some(extent - 1 - high for high in found.highs)

    def _some(self, conditions: Iterable[Affine]) -> bool:
        """Whether one of `conditions` is proved to be >= 0 for all sizes."""
        try:
            return any(sets.implied(c, self.context) for c in conditions)
        except sets.BudgetExceeded:
            return False

    def range(self, node: Node) -> Range:
        for below in expr.topological([node]):
            if below.digest not in self.known:
                self.known[below.digest] = self._fitting(self._of(below), below.dtype)
        return self.known[node.digest]

    def _fitting(self, found: Range, dtype: DType) -> Range:
        """`found` where the dtype can hold it; otherwise arithmetic may wrap, and any value of the dtype comes out."""
        if dtype.kind not in "iub":
            return Range()
        limits = _limits(dtype)
        (least,), (most,) = limits.lows, limits.highs
        fits = self._some(low - least for low in found.lows) and self._some(most - high for high in found.highs)
        return found if fits else limits

    def _of(self, node: Node) -> Range:
        """The range of exact arithmetic; empty where nothing is known."""
        match node:
            case expr.Constant() if node.dtype.kind in "iub":
                return Range.of(int(node.value), int(node.value))
            case Iota():
                return _affine_range(node.index, node.shape)
            case expr.View(source=source):
                return self.known[source.digest]
            case expr.Region(pieces=pieces):
                return self._either([self.known[p.source.digest] for p in pieces])
            case Gather(source=source):
                return self._either([self.known[source.digest], Range.of(0, 0)])  # what is not read is 0
            case Reduce(monoid=monoid) if monoid in _KEEPS_VALUES:
                return self.known[node.operands[node.component].digest]
            case Map():
                return self._applied(node)
        return Range()

    def _applied(self, node: Map) -> Range:
        if node.function == "where":
            return self._where(*node.operands)
        rule = _RULES.get(node.function)
        return rule(self, *(self.known[o.digest] for o in node.operands)) if rule is not None else Range()

    def _where(self, condition: Node, chosen: Node, other: Node) -> Range:
        """Both branches, knowing of ``where(i < c, ...)`` on which side of c each meets i: negative indices wrap."""
        if not (isinstance(condition, Map) and condition.function == "less"):
            return self._either([self.known[chosen.digest], self.known[other.digest]])
        value, limit = condition.operands
        found, bound = self.known[value.digest], self.known[limit.digest]
        below = Range(found.lows, (*(h - 1 for h in bound.highs), *found.highs)[:_BOUNDS_KEPT])
        above = Range((*bound.lows, *found.lows)[:_BOUNDS_KEPT], found.highs)
        return self._either([self._knowing(chosen, value, below), self._knowing(other, value, above)])

    def _knowing(self, node: Node, value: Node, found: Range) -> Range:
        """The range of `node`, which may be `value` or a sum with it, where `value` lies in `found`."""
        if node is value:
            return found
        if isinstance(node, Map) and node.function == "add" and value in node.operands:
            first, second = node.operands
            return found + self.known[(second if first is value else first).digest]
        return self.known[node.digest]

    def _either(self, ranges: Sequence[Range]) -> Range:
        lows = tuple(low for r in ranges for low in r.lows if all(self._bounded(o.lows, low, 1) for o in ranges))
        highs = tuple(high for r in ranges for high in r.highs if all(self._bounded(o.highs, high, -1) for o in ranges))
        return Range(tuple(dict.fromkeys(lows))[:_BOUNDS_KEPT], tuple(dict.fromkeys(highs))[:_BOUNDS_KEPT])

    def _bounded(self, bounds: Sequence[Affine], by: Affine, sign: int) -> bool:
        return self._some((b - by) * sign for b in bounds)

    def minimum(self, a: Range, b: Range) -> Range:
        return Range(self._either([a, b]).lows, (*a.highs, *b.highs)[:_BOUNDS_KEPT])

    def maximum(self, a: Range, b: Range) -> Range:
        return Range((*a.lows, *b.lows)[:_BOUNDS_KEPT], self._either([a, b]).highs)

    def remainder(self, a: Range, b: Range) -> Range:
        if not self._some(low - 1 for low in b.lows):
            return Range()
        most = tuple(h - 1 for h in b.highs)
        return Range((Affine.of(0),), (*most, *(a.highs if self._some(a.lows) else ()))[:_BOUNDS_KEPT])

    def masked(self, a: Range, b: Range) -> Range:
        """Of ``a & b``: no more than an operand that is never negative."""
        highs = [h for r in (a, b) if self._some(r.lows) for h in r.highs]
        return Range((Affine.of(0),), tuple(highs)[:_BOUNDS_KEPT]) if highs else Range()

    def quotient(self, a: Range, b: Range) -> Range:
        if not (self._some(a.lows) and self._some(low - 1 for low in b.lows)):
            return Range()
        return Range((Affine.of(0),), a.highs)


_RULES: Mapping[str, Callable[..., Range]] = {
    "cast": lambda ranges, a: a,
    "add": lambda ranges, a, b: a + b,
    "subtract": lambda ranges, a, b: a + -b,
    "negative": lambda ranges, a: -a,
    "minimum": _Ranges.minimum,
    "maximum": _Ranges.maximum,
    "remainder": _Ranges.remainder,
    "bitwise_and": _Ranges.masked,
    "floor_divide": _Ranges.quotient,
}


def _affine_range(index: Affine, extents: Shape) -> Range:
    """Of an affine expression over the points of a box; sizes stand for themselves."""
    low = high = Affine.of(index.constant)
    for atom, factor in index.terms:
        if not isinstance(atom, str):
            return Range()
        if not atom.startswith("%"):
            low, high = low + Affine.symbol(atom) * factor, high + Affine.symbol(atom) * factor
        elif factor > 0:
            high += (extents[int(atom[1:])] - 1) * factor
        else:
            low += (extents[int(atom[1:])] - 1) * factor
    return Range((low,), (high,))


def _limits(dtype: DType) -> Range:
    if dtype.kind == "b":
        return Range.of(0, 1)
    limits = integer_limits(dtype)
    return Range.of(int(limits.min), int(limits.max))
