"""Recurrences along one index as scans.

    s[i] = s[i - 1] + b[i]       1 <= i < N       ->      s = Scan(sum, Region{ i = 0: s[0]; else: b[i] })

The operation of a scan is associative (a monoid), which is what lets it run in parallel.  Any other step runs element
after element along its index, and in parallel along the others (`steps`):

    h[i] = a[i] * h[i - 1] + b[i]   1 <= i < N     ->      h = Recurrence(b1 * o1 + o2; h[i - 1], a[i], b[i])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from polyfuse import expr
from polyfuse.affine import ZERO, Affine, dimension, dimensions
from polyfuse.errors import UnsupportedError
from polyfuse.expr import Node, Piece, Shape
from polyfuse.frontends.index_notation.affine_terms import affine
from polyfuse.frontends.index_notation.bounds import Space, text_of
from polyfuse.frontends.index_notation.domains import Range, at_point, shape_of
from polyfuse.frontends.index_notation.evaluation import Evaluation, Keys, Ranges
from polyfuse.frontends.index_notation.terms import Access, Apply, Term, apply
from polyfuse.frontends.numpy_like import nodes, scans, steps
from polyfuse.frontends.numpy_like.lifting import as_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer

_UFUNCS = frozenset("add multiply maximum minimum fmax fmin logical_and logical_or bitwise_and bitwise_or".split())


def recurrence(
    target: Access, value: Term, again: Sequence[Access], keys: Keys, space: Space, evaluation: Evaluation
) -> tuple[Tracer, Ranges]:
    """The values of the target over `keys`, and their ranges, which a scan begins one earlier along the recurrence.

    Raises UnsupportedError for recurrences along several indices.
    """
    along, lags = direction([(read, target) for read in again], keys)
    parts = _parts(value, again) if lags == [1] and evaluation.bounds.hold(value, space) else None
    if parts is None:
        numbered = {id(read): (lag, 0) for read, lag in zip(again, lags, strict=True)}
        (result,), ranges = in_steps([target], [value], numbered, along, keys, space, evaluation)
        return result, ranges
    name, rest = parts
    longer = {**space.ranges, along: Range(space.ranges[along].low - 1, space.ranges[along].high)}
    operand = _operand(target, rest, along, keys, space, longer, evaluation)
    result = scans.accumulate(name, Tracer(evaluation.trace, operand), keys.index(along))
    return Tracer(evaluation.trace, nodes.cast(result.node, target.array.element)), longer


def in_steps(
    targets: Sequence[Access],
    values: Sequence[Term],
    again: Mapping[int, tuple[int, int]],
    along: str,
    keys: Keys,
    space: Space,
    evaluation: Evaluation,
) -> tuple[list[Tracer], Ranges]:
    """Element after element, as far as possible from the old values that the first ones read: their elements are then
    the same for the targets and for the results.  `again`: of the accesses to new values, by identity, the lag and the
    number of the target."""
    low, axis, lags = space.ranges[along].low, keys.index(along), sorted({lag for lag, _ in again.values()})
    every = list(zip(targets, values, strict=True))
    ahead = min(_elements_ahead(target, value, lags[-1], along, space, evaluation) for target, value in every)
    ranges = {**space.ranges, along: Range(low - ahead, space.ranges[along].high)}
    shape = shape_of(keys, ranges)
    nodes_of: dict[tuple[int, int], Node] = {
        (lag, k): expr.input_(-lag * len(targets) - k, shape, targets[k].array.element) for lag, k in again.values()
    }
    made = replace(evaluation, stand_ins={which: (nodes_of[of], keys, ranges) for which, of in again.items()})
    guards = (*space.guards, Affine.symbol(along) - low) if ahead else space.guards
    found, starts = list[Node](), list[Node]()
    for target, value in every:
        element = target.array.element
        step = as_dtype(made.over(made.value(value, Space(ranges, guards)), keys, ranges).tracer, element)
        step = nodes.broadcast(step, shape)
        if ahead:
            old = Piece((), target.value, _index(target, along, 0, keys, ranges))
            step = nodes.region(shape, [Piece((dimension(axis) - ahead,), step, dimensions(len(keys))), old])
        found.append(step)
        starts += [
            nodes.full(shape, 0, element)  # no element of the result asks for it
            if ahead == lags[-1]
            else _where_inside(target, shape, _index(target, along, lag, keys, ranges))
            for lag in lags
        ]
    results = steps.recurrences(found, {node: of for of, node in nodes_of.items()}, lags, starts, axis)
    return [Tracer(evaluation.trace, result) for result in results], ranges


def _elements_ahead(target: Access, value: Term, most: int, along: str, space: Space, evaluation: Evaluation) -> int:
    """How many elements of the target lie before the first instance, no more than `most`."""
    if any(isinstance(t, Access) and any(affine(s) is None for s in t.subscripts) for t in value.walk()):
        return 0  # an access by values takes no conditions on indices
    low, high = space.ranges[along].low, space.ranges[along].high
    for count in range(most, 0, -1):
        if evaluation.bounds.hold(target, Space({**space.ranges, along: Range(low - count, high)}, space.guards)):
            return count
    return 0


def _index(target: Access, along: str, lag: int, keys: Keys, ranges: Ranges) -> tuple[Affine, ...]:
    """The element of the target so many steps before the instances."""
    written = [w for w in map(affine, target.subscripts) if w is not None]
    before = {along: Affine.symbol(along) - lag}
    return tuple(at_point(w.substitute(before), keys, ranges) for w in written)


def _where_inside(target: Access, shape: Shape, index: Sequence[Affine]) -> Node:
    """The old values at `index`, and 0 outside of the array, where a guard keeps the step from reading them."""
    sizes = target.value.shape
    inside = tuple(e for at, n in zip(index, sizes, strict=True) for e in (at, n - 1 - at))
    rest = Piece((), expr.constant(0, target.value.dtype), ())
    return nodes.region(shape, [Piece(inside, target.value, tuple(index)), rest])


def direction(again: Sequence[tuple[Access, Access]], keys: Keys) -> tuple[str, list[int]]:
    """The variable along which all accesses to new values lag, each paired with the target that writes them, and by
    how much.  Raises UnsupportedError."""
    for read, target in again:
        if read.array.path != target.array.path:
            raise _through_another_view(target, read)
    for key in keys:
        lags = [_lag_of(read, target, key) for read, target in again]
        if all(lags):
            return key, lags
    without = [(read, target) for read, target in again if not any(_lag_of(read, target, key) for key in keys)]
    read, target = without[0] if without else again[-1]
    raise _refusal(target, read)


def _lag_of(read: Access, target: Access, key: str) -> int:
    of, written = ([s for s in map(affine, term.subscripts) if s is not None] for term in (read, target))
    return _lag(of, written, key)


def _lag(read: Sequence[Affine], written: Sequence[Affine], key: str) -> int:
    """How many steps of `key` before the target an access lies; 0 where it does not."""
    for r, w in zip(read, written, strict=True):
        if factor := w.coefficient(key):
            distance = w - r
            lag = distance.constant // factor if distance.is_constant else 0
            before = [e.substitute({key: Affine.symbol(key) - lag}) for e in written]
            return lag if lag > 0 and before == list(read) else 0
    return 0


def _parts(value: Term, again: Sequence[Access]) -> tuple[str, Term] | None:
    """``s[i - 1] (op) rest``: the operation and the rest."""
    if not isinstance(value, Apply) or len(value.operands) != 2:
        return None
    left, right = value.operands
    if value.name == "subtract" and _holds(left, again) and not _holds(right, again):
        return _parts(apply("add", left, apply("negative", right)), again)
    if value.name not in _UFUNCS:
        return None
    inner, rest = (left, right) if _holds(left, again) else (right, left)
    if _holds(rest, again):
        return None
    if inner is again[0]:
        return value.name, rest if isinstance(rest, Term) else apply("positive", rest)
    nested = _parts(inner, again) if isinstance(inner, Term) else None
    if nested is None or nested[0] != value.name:
        return None
    return value.name, apply(value.name, nested[1], rest)


def _holds(term: Any, again: Sequence[Access]) -> bool:
    return isinstance(term, Term) and any(t is a for t in term.walk() for a in again)


def _operand(
    target: Access, rest: Term, along: str, keys: Keys, space: Space, longer: Ranges, evaluation: Evaluation
) -> Node:
    """What is scanned: the element before the first instance, then `rest`."""
    position, element = keys.index(along), target.array.element
    shape = shape_of(keys, longer)

    def at(ranges: Ranges) -> Node:
        value = evaluation.over(evaluation.value(rest, Space(ranges, space.guards)), keys, ranges)
        return as_dtype(value.tracer, element)

    subscripts = [s for s in map(affine, target.subscripts) if s is not None]
    index = [at_point(s, keys, longer).substitute({f"%{position}": ZERO}) for s in subscripts]
    first_shape = [Affine.of(1) if k == position else n for k, n in enumerate(shape)]
    first = nodes.view(target.value, first_shape, index)
    if evaluation.bounds.hold(rest, Space(longer, space.guards)):
        whole = at(longer)
        origin = [ZERO if k == position else dimension(k) for k in range(len(keys))]
        if nodes.view(whole, first_shape, origin) is first:
            return whole  # s[0] = b[0] was written before: one formula for all elements
    later = tuple(p - 1 if k == position else p for k, p in enumerate(dimensions(len(keys))))
    pieces = [Piece((-dimension(position),), target.value, tuple(index)), Piece((), at(space.ranges), later)]
    return nodes.region(shape, pieces)


def _through_another_view(target: Access, read: Access) -> UnsupportedError:
    return UnsupportedError(
        f"{text_of(read)} is a new value of {text_of(target)}, read through another view of the same memory",
        advice=f"Read it by the name that is written, {target.name}, or from a copy for the old values.",
        source=read.location.source() if read.location else None,
    )


def _refusal(target: Access, read: Access) -> UnsupportedError:
    name = target.name
    return UnsupportedError(
        f"{text_of(target)} depends on {text_of(read)}, a new value, and not along one index alone",
        advice=f"A recurrence reads new values a number of steps back along one index, all along the same. For the old "
        f"values read from a copy: old = {name}.copy(). Steps along several indices are a Python loop over slices.",
        source=read.location.source() if read.location else None,
    )
