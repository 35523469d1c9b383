"""The value of a term over a space of index variables, as a node of the tensor DAG.

A term is evaluated over the variables that it depends on, in the order of the statement; arrays are read through views,
NumPy's functions combine them, so that promotion, names and simplifications are those of the whole-array spelling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from polyfuse import expr
from polyfuse.affine import Affine, dimension
from polyfuse.errors import IndexingError, TraceError
from polyfuse.expr import DataIndex, IndexEntry, Node, Piece
from polyfuse.frontends.index_notation.affine_terms import Conjunction, affine, condition, keys_of, negated
from polyfuse.frontends.index_notation.bounds import Bounds, Space
from polyfuse.frontends.index_notation.domains import Range, at_point, shape_of
from polyfuse.frontends.index_notation.terms import Access, Apply, Index, Reduction, Term
from polyfuse.frontends.numpy_like import nodes, promotion
from polyfuse.frontends.numpy_like.indexing import gather, index_array, wrap_negative
from polyfuse.frontends.numpy_like.lifting import as_dtype, kind_of, lift
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer

Ranges = Mapping[str, Range]
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """An array whose axes are the index variables `keys`, counted from the low ends of their ranges."""

    tracer: Tracer
    keys: Keys


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluates the terms of one statement.  `order`: all its variables.  `stand_ins`: by the identity of an access
    that meets new values, what stands for it over the ranges of the statement."""

    trace: Trace
    order: Keys
    bounds: Bounds
    elementwise: frozenset[str]
    stand_ins: Mapping[int, tuple[Node, Keys, Ranges]] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------ terms
    def value(self, term: Any, space: Space) -> Value:
        match term:
            case Index():
                node = nodes.iota(
                    (space.ranges[term.key].extent,), at_point(Affine.symbol(term.key), [term.key], space.ranges)
                )
                return Value(Tracer(self.trace, node, weak=int), (term.key,))
            case Access() if id(term) in self.stand_ins:
                self.bounds.guards_needed(term, space)
                return self._stand_in(*self.stand_ins[id(term)], space)
            case Access():
                return self._access(term, space)
            case Reduction():
                return self._reduction(term, space)
            case Apply(name="where", operands=(chosen, a, b)) if (known := condition(chosen)) is not None:
                if not self.bounds.hold(a, space) or not self.bounds.hold(b, space):
                    return self._by_region(known, a, b, space)
            case Term():
                pass
            case _:
                return Value(lift(self.trace, term), ())
        assert isinstance(term, Apply), term
        return self._apply(term, space)

    def _apply(self, term: Apply, space: Space) -> Value:
        if term.name not in self.elementwise:
            raise TraceError(
                f"{term.name} takes whole arrays, not elements",
                advice="Apply it to an array outside of index notation; both mix freely.",
                source=term.location.source() if term.location else None,
            )
        values = [None if o is None else self.value(o, space) for o in term.operands]
        keys = self._sorted(key for v in values if v is not None for key in v.keys)
        tracers = [None if v is None else self.over(v, keys, space.ranges).tracer for v in values]
        weak = all(t is not None and t.weak is not None for t in tracers) and not term.options
        if weak and term.name in ("add", "subtract", "multiply", "floor_divide", "remainder", "negative"):
            return Value(self.trace.functions["weak"](term.name, *tracers), keys)
        return Value(self.trace.functions[term.name](*tracers, **dict(term.options)), keys)

    def _reduction(self, term: Reduction, space: Space) -> Value:
        own = tuple(index.key for index in term.indices)
        body = self.value(term.body, space)
        kept = self._sorted(key for key in body.keys if key not in own)
        spread = self.over(body, (*kept, *own), space.ranges)
        axes = tuple(range(len(kept), len(kept) + len(own)))
        axis = axes if len(axes) > 1 else axes[0]
        tracer = self.trace.functions[term.function](spread.tracer, axis=axis)
        if term.function in ("argmax", "argmin"):
            tracer = tracer + lift(self.trace, Tracer(self.trace, nodes.iota((), space.ranges[own[0]].low)))
        return Value(tracer, kept)

    # ------------------------------------------------------------------------------------------ accesses
    def _access(self, term: Access, space: Space) -> Value:
        needed = self.bounds.guards_needed(term, space)
        entries = [affine(s) for s in term.subscripts]
        data = [self.data(term, axis, space) for axis, e in enumerate(entries) if e is None]
        known = [e for e in entries if e is not None]
        keys = self._sorted((*keys_of([*known, *needed]), *(key for d in data for key in d.keys)))
        shape = shape_of(keys, space.ranges)
        points = [None if e is None else at_point(e, keys, space.ranges) for e in entries]
        if data:
            if needed:
                raise IndexingError(
                    "an access by values under a condition on indices is not supported",
                    advice="Clamp the values with np.clip, and choose with pf.where on the result.",
                )
            return Value(Tracer(self.trace, self._gathered(term.value, shape, points, data, keys, space)), keys)
        index = [p for p in points if p is not None]
        if not needed:
            return Value(Tracer(self.trace, nodes.view(term.value, shape, index)), keys)
        conditions = tuple(at_point(g, keys, space.ranges) for g in needed)
        pieces = [Piece(conditions, term.value, tuple(index)), Piece((), expr.constant(0, term.value.dtype), ())]
        return Value(Tracer(self.trace, nodes.region(shape, pieces)), keys)

    def _stand_in(self, node: Node, keys: Keys, ranges: Ranges, space: Space) -> Value:
        moved = [dimension(k) + space.ranges[key].low - ranges[key].low for k, key in enumerate(keys)]
        return Value(Tracer(self.trace, nodes.view(node, shape_of(keys, space.ranges), moved)), keys)

    def data(self, term: Access, axis: int, space: Space) -> Value:
        """A subscript that is a value, wrapped when negative, as NumPy's index arrays are."""
        value = self.value(term.subscripts[axis], space)
        if value.tracer.element.kind not in "iu":
            raise IndexingError(
                f"the subscript of axis {axis} of {term.name} is of {value.tracer.dtype}, not an integer",
                advice="Subscripts are sums of indices and sizes with constant factors, or integer elements.",
                source=term.location.source() if term.location else None,
            )
        chosen = index_array(self.trace, value.tracer)
        wrapped = wrap_negative(self.trace, chosen.node, term.array.sizes[axis])
        return Value(Tracer(self.trace, wrapped), value.keys)

    def _gathered(
        self,
        source: Node,
        shape: expr.Shape,
        points: Sequence[Affine | None],
        data: Sequence[Value],
        keys: Keys,
        space: Space,
    ) -> Node:
        operands = [self.over(d, keys, space.ranges).tracer.node for d in data]
        positions = iter(range(len(data)))
        entries: list[IndexEntry] = [DataIndex(next(positions)) if p is None else p for p in points]
        return gather(source, shape, operands, entries)

    # ------------------------------------------------------------------------------------------ regions
    def _by_region(self, known: tuple[Conjunction, ...], a: Any, b: Any, space: Space) -> Value:
        """``where`` whose branches exist only under their conditions: one piece per conjunction."""
        choices = [(conjunction, a) for conjunction in known]
        choices += [((), b)] if self.bounds.hold(b, space) else [(c, b) for c in negated(known)]
        found: list[tuple[Conjunction, Value, Ranges]] = []
        for conjunction, branch in choices:
            inner = self._narrowed(conjunction, space)
            if inner is not None:
                found.append((conjunction, self.value(branch, inner), inner.ranges))
        dtype = promotion.common(tuple(kind_of(v.tracer) for _, v, _ in found))
        keys = self._sorted(key for c, v, _ in found for key in (*v.keys, *keys_of(c)))
        pieces = []
        for conjunction, value, ranges in found:
            moved = {key: space.ranges[key].low - ranges[key].low for key in value.keys}
            index = tuple(dimension(keys.index(key)) + moved[key] for key in value.keys)
            conditions = tuple(at_point(c, keys, space.ranges) for c in conjunction)
            pieces.append(Piece(conditions, as_dtype(value.tracer, dtype), index))
        pieces[-1] = replace(pieces[-1], where=())
        return Value(Tracer(self.trace, nodes.region(shape_of(keys, space.ranges), pieces)), keys)

    def _narrowed(self, conjunction: Conjunction, space: Space) -> Space | None:
        """The space under further conditions: limits of one variable narrow its range; None where empty."""
        ranges, guards = dict(space.ranges), list(space.guards)
        for limit in conjunction:
            keys = keys_of([limit])
            if len(keys) != 1 or not limit.is_linear:
                guards.append(limit)
                continue
            (key,) = keys
            ranges[key] = self._limited(ranges[key], limit, key)
            if not self.trace.decide(ranges[key].extent - 1):
                return None
        return Space(ranges, tuple(guards))

    def _limited(self, given: Range, limit: Affine, key: str) -> Range:
        factor = limit.coefficient(key)
        rest = limit - Affine.symbol(key) * factor
        if factor > 0:
            low = (-rest).ceildiv(factor)
            return given if self.trace.decide(given.low - low) else replace(given, low=low)
        high = rest // -factor + 1
        return given if self.trace.decide(high - given.high) else replace(given, high=high)

    # ------------------------------------------------------------------------------------------ spaces
    def _sorted(self, keys: Any) -> Keys:
        wanted = set(keys)
        return tuple(key for key in self.order if key in wanted)

    def over(self, value: Value, keys: Keys, ranges: Ranges) -> Value:
        """`value`, repeated along the variables of `keys` that it does not depend on."""
        if value.keys == keys:
            return value
        index = [dimension(keys.index(key)) for key in value.keys]
        node = nodes.view(value.tracer.node, shape_of(keys, ranges), index)
        return Value(Tracer(self.trace, node, weak=value.tracer.weak), keys)
