"""``C[i, j] = term``: a statement for every point of its indices, as a write of one array.

    B[i, j] = (A[i - 1, j] + A[i + 1, j]) / 2      ->      B = Region{ interior: Map(View(A), View(A)); else: B }

The instances are meant in lexicographic order of the target's indices.  A read of the target itself meets old values
where no earlier instance writes what it reads, new ones where it is a recurrence; isl decides which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.affine import Affine, dimension
from polyfuse.errors import IndexingError, TraceError
from polyfuse.expr import DataIndex, IndexEntry, Node, scatter
from polyfuse.frontends.index_notation.affine_terms import affine, keys_of
from polyfuse.frontends.index_notation.bounds import Bounds, Space, text_of
from polyfuse.frontends.index_notation.domains import (
    Inference,
    Range,
    at_point,
    inferred_shape,
    reductions,
    shape_of,
    sites,
)
from polyfuse.frontends.index_notation.evaluation import Evaluation, Keys, Ranges
from polyfuse.frontends.index_notation.order import reads_of_new_values
from polyfuse.frontends.index_notation.recurrence import recurrence
from polyfuse.frontends.index_notation.terms import Access, Index, Reduction, Term, Update, apply, reduction
from polyfuse.frontends.numpy_like import nodes, updates
from polyfuse.frontends.numpy_like.lifting import as_dtype
from polyfuse.frontends.numpy_like.locations import here
from polyfuse.frontends.numpy_like.sizes import SymbolicSize, is_integer, size_of
from polyfuse.frontends.numpy_like.slicing import integer_index, items_of
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Path, Tracer, Unassigned

_ACCUMULATE = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_ACCUMULATE |= {"bitwise_or": "any", "bitwise_and": "all"}
_SCATTERED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


def access(x: Tracer, index: Any) -> Access:
    """The element ``x[i, j]``.  Raises IndexingError unless every axis has a subscript."""
    items = items_of(index)
    name = _name_of(x)
    if not x.assigned:
        return Access(x, None, tuple(items), name, here())
    for item in items:
        if not isinstance(item, (Term, SymbolicSize)) and not is_integer(item):
            raise IndexingError(
                f"{_kind(item)} among indices: index notation names every axis of {name} by one subscript",
                advice="Use an index for each axis, or slice the array first: row = A[0]; row[j].",
            )
    if len(items) != x.ndim:
        count = "1 subscript" if len(items) == 1 else f"{len(items)} subscripts"
        raise IndexingError(
            f"{name} has {x.ndim} {'axis' if x.ndim == 1 else 'axes'}, and is given {count}",
            advice="Write one subscript for every axis, all in one pair of brackets.",
        )
    subscripts = [item if isinstance(item, Term) else _position(x, item, axis) for axis, item in enumerate(items)]
    x.state.accesses += 1
    return Access(x, x.node, tuple(subscripts), name, here(), x.buffer.node, x.state.accesses)


def _position(x: Tracer, item: Any, axis: int) -> Any:
    return size_of(x.state, integer_index(x.state, item, x.sizes[axis], axis))


def _kind(item: Any) -> str:
    if isinstance(item, slice):
        return "a slice"
    return "an ellipsis" if item is Ellipsis else "None" if item is None else "an array"


def _name_of(x: Tracer) -> str:
    if isinstance(x.buffer, Unassigned):
        return x.buffer.name
    known = None if x.path is not None else x.state.names.get(x.buffer.node.digest)
    return known or x.buffer.owner or "the array"


def statement(x: Tracer, index: Any, value: Any, elementwise: frozenset[str]) -> Statement:
    """``x[index] = value``, where one of them holds index variables.  `elementwise`: the functions of elements."""
    target = access(x, index)
    return Statement(x, target, _as_term(target, value), elementwise)


def closed(term: Reduction, trace: Trace, elementwise: frozenset[str]) -> Tracer:
    """The value of a reduction without free indices."""
    inner = [index for r in reductions(term) for index in r.indices]
    ranges = Inference(trace, list(sites(term))).run([], inner)
    evaluation = Evaluation(trace, tuple(index.key for index in inner), Bounds(trace), elementwise)
    return evaluation.value(term, Space(ranges)).tracer


def _as_term(target: Access, value: Any) -> Term:
    if isinstance(value, Term):
        return _reduced_update(target, value) if isinstance(value, Update) else value
    if isinstance(value, Tracer) and value.sizes:
        raise TraceError(
            f"a whole array of rank {value.ndim} is assigned to the element {text_of(target)}",
            advice="Name its axes by indices as well, or assign it to a slice: C[:, 0] = x.",
        )
    return apply("positive", value)


def _reduced_update(target: Access, value: Update) -> Term:
    """``C[i] += A[i, k]`` sums over k, as the loop does."""
    own, change = value.operands
    extra = [index for key, index in value.free().items() if key not in target.free()]
    if not extra or not isinstance(change, Term):
        return value
    function = _ACCUMULATE.get(value.name)
    if function is None:
        raise IndexingError(
            f"index {extra[0].name} is not among those of {text_of(target)}, and np.{value.name} depends on order",
            advice="Reduce with pf.sum, pf.prod, pf.max or pf.min, then update.",
        )
    return apply(value.name, own, reduction(function, extra, change))


@dataclass(slots=True, eq=False)
class Statement:
    """One assignment.  Running it raises IndexingError and its kin."""

    array: Tracer
    target: Access
    value: Term
    elementwise: frozenset[str]

    def run(self) -> None:
        trace = self.array.state
        outer, inner = self.outer(), self.inner()
        self.check_indices(outer)
        made = not self.array.assigned
        found = [] if made else list(sites(self.target, is_target=True))
        ranges = Inference(trace, [*found, *sites(self.value)]).run(outer, inner)
        if any(not trace.decide(ranges[i.key].extent - 1) for i in outer) and not made:
            return  # no instance
        order = (*(i.key for i in outer), *(i.key for i in inner))
        evaluation = Evaluation(trace, order, Bounds(trace), self.elementwise)
        if made:
            self._make(outer, ranges, evaluation)
        elif any(affine(s) is None for s in self.target.subscripts):
            self._scatter(outer, Space(ranges), evaluation)
        else:
            self.write(outer, Space(ranges), evaluation)

    # ------------------------------------------------------------------------------------------ indices
    def outer(self) -> list[Index]:
        """The indices of the target."""
        found = {key: index for s in self.target.subscripts if isinstance(s, Term) for key, index in s.free().items()}
        return list(found.values())

    def inner(self) -> list[Index]:
        """The indices that the value is reduced over."""
        return [index for r in reductions(self.value) for index in r.indices]

    def check_indices(self, outer: Sequence[Index]) -> None:
        names = {index.name: index for index in outer}
        for key, index in self.value.free().items():
            if key not in {i.key for i in outer}:
                raise IndexingError(
                    f"index {index.name} is not among the subscripts of {text_of(self.target)}",
                    advice=f"Reduce over it, pf.sum({index.name}, ...), or make it a subscript of the result.",
                )
            if index.within != names[index.name].within:
                raise IndexingError(
                    f"two indices named {index.name} with different ranges meet in one statement",
                    advice="Give one of them another name.",
                )
        for term in reductions(self.value):
            for index in term.indices:
                if index.name in names:
                    raise IndexingError(
                        f"index {index.name} is reduced by pf.{term.function} and is a subscript of "
                        f"{text_of(self.target)}",
                        advice="Give the reduction an index of another name.",
                        source=term.location.source() if term.location else None,
                    )

    # ------------------------------------------------------------------------------------------ a new array
    def _make(self, outer: Sequence[Index], ranges: Mapping[str, Range], evaluation: Evaluation) -> None:
        """``C = pf.empty(); C[i, j] = ...``: shape and dtype follow from the value."""
        buffer, plain = self.array.buffer, tuple(self.target.subscripts)
        assert isinstance(buffer, Unassigned)
        if not all(isinstance(s, Index) for s in plain) or len({s.key for s in plain}) < len(plain):
            raise IndexingError(
                f"the shape of {buffer.name} follows from its first assignment, which takes a plain index per axis",
                advice=f"Write {buffer.name}[i, j] = ..., or give a shape: {buffer.name} = pf.zeros((n, m)).",
            )
        shape = inferred_shape(evaluation.trace, buffer.name, outer, ranges)
        keys = tuple(index.key for index in outer)
        value = evaluation.over(evaluation.value(self.value, Space(ranges)), keys, ranges).tracer
        assert value.sizes == shape or not shape
        buffer.node = value.node if buffer.dtype is None else as_dtype(value, numpy_dtype(buffer.dtype))
        evaluation.trace.call_it(buffer.node, buffer.name)

    # ------------------------------------------------------------------------------------------ a part of an array
    def write(self, outer: Sequence[Index], space: Space, evaluation: Evaluation) -> None:
        """Write the values of all points in `space`."""
        evaluation.bounds.guards_needed(self.target, space, is_target=True)
        keys = tuple(index.key for index in outer)
        _inverse(self.target, keys)  # before anything else that may be wrong with the statement
        again = reads_of_new_values(self.target, self.value, outer, space, evaluation.bounds)
        ranges: Ranges
        if again:
            value, ranges = recurrence(self.target, self.value, again, keys, space, evaluation)
        else:
            ranges = space.ranges
            value = evaluation.over(evaluation.value(self.value, space), keys, ranges).tracer
        self.store(value, keys, ranges, evaluation)

    def store(self, value: Tracer, keys: Keys, ranges: Ranges, evaluation: Evaluation) -> None:
        """Write the values of all points, over `keys` in their ranges."""
        subscripts, inverse = _subscripts(self.target), _inverse(self.target, keys)
        solved = {key: inverse[key].point for key in keys}
        where = [w for key in keys for w in inverse[key].conditions(ranges[key])]
        others = set(range(len(subscripts))) - {s.axis for s in inverse.values()}
        where += [w for q in sorted(others) for w in _equal(dimension(q), subscripts[q].substitute(solved))]
        back = tuple(solved[key] - ranges[key].low for key in keys)
        index = tuple(at_point(s, keys, ranges) for s in subscripts)
        path = Path(shape_of(keys, ranges), index, back, tuple(where))
        node = as_dtype(value, self.array.element)
        before = self.array.buffer.node
        updates.write(self.array.through(path), nodes.broadcast(node, path.shape) if node.rank else node)
        name = evaluation.trace.names.get(before.digest)
        if name is not None:
            evaluation.trace.call_it(self.array.buffer.node, name)

    # ------------------------------------------------------------------------------------------ scattered elements
    def _scatter(self, outer: Sequence[Index], space: Space, evaluation: Evaluation) -> None:
        """``h[b[i]] += w[i]``: elements chosen by values; duplicates combine in order of the indices."""
        how, value = "set", self.value
        if isinstance(value, Update) and value.name in _SCATTERED:
            how, value = _SCATTERED[value.name], value.operands[1]
        if any(isinstance(t, Access) and t.array.buffer is self.array.buffer for t in _walk(value)):
            raise IndexingError(
                f"{text_of(self.target)} is chosen by values, and the assigned value reads {self.target.name} as well",
                advice="Read from a copy: old = A.copy().",
            )
        trace, keys = evaluation.trace, tuple(index.key for index in outer)
        shape = shape_of(keys, space.ranges)
        updates_node = nodes.broadcast(
            as_dtype(evaluation.over(evaluation.value(value, space), keys, space.ranges).tracer, self.array.element),
            shape,
        )
        operands, entries = list[Node](), list[IndexEntry]()
        evaluation.bounds.guards_needed(self.target, space, is_target=True)
        for axis, subscript in enumerate(self.target.subscripts):
            known = affine(subscript)
            if known is not None:
                entries.append(at_point(known, keys, space.ranges))
                continue
            entries.append(DataIndex(len(operands)))
            operands.append(evaluation.over(evaluation.data(self.target, axis, space), keys, space.ranges).tracer.node)
        node = scatter(self.array.node, updates_node, operands, entries, how)
        updates.write(self.array, node)
        trace.call_it(node, self.target.name)


def _walk(value: Any) -> Any:
    return value.walk() if isinstance(value, Term) else ()


@dataclass(frozen=True, slots=True)
class _Solved:
    """An index as the position along one axis tells it: ``distance = factor * index``."""

    axis: int
    distance: Affine
    factor: int

    @property
    def point(self) -> Affine:
        return self.distance // self.factor

    def conditions(self, limits: Range) -> list[Affine]:
        """The position belongs to an index in `limits`."""
        offset = self.distance - limits.low * self.factor
        found = [offset, (limits.extent - 1) * self.factor - offset]
        return found if self.factor == 1 else [*found, (offset // self.factor) * self.factor - offset]


def _subscripts(target: Access) -> list[Affine]:
    return [s for s in map(affine, target.subscripts) if s is not None]


def _inverse(target: Access, keys: Sequence[str]) -> dict[str, _Solved]:
    """How the position of an element tells every index.  Raises IndexingError where it does not."""
    subscripts = _subscripts(target)
    found: dict[str, _Solved] = {}
    progress = True
    while progress and len(found) < len(keys):
        progress = False
        for axis, subscript in enumerate(subscripts):
            rest = subscript.substitute({key: s.point for key, s in found.items()})
            unknown = sorted(keys_of([rest]))
            if len(unknown) != 1 or (factor := rest.coefficient(unknown[0])) == 0:
                continue
            other = rest - Affine.symbol(unknown[0]) * factor
            if unknown[0] not in other.names():
                distance = (dimension(axis) - other) * (1 if factor > 0 else -1)
                found[unknown[0]] = _Solved(axis, distance, abs(factor))
                progress = True
    if len(found) < len(keys):
        missing = next(key for key in keys if key not in found)
        raise IndexingError(
            f"several points of index {missing[1:]} write the same element {text_of(target)}",
            advice="Reduce over it (pf.sum, pf.max), or subscript an axis of the target by the index alone.",
        )
    return found


def _equal(a: Affine, b: Affine) -> tuple[Affine, ...]:
    return () if a == b else (a - b, b - a)
