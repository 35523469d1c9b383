"""Recurrences along one index as scans.

    s[i] = s[i - 1] + b[i]       1 <= i < N       ->      s = Scan(sum, Region{ i = 0: s[0]; else: b[i] })

The operation of a scan is associative (a monoid), which is what lets it run in parallel; other recurrences are errors
that say what to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyfuse.affine import ZERO, Affine, dimension, dimensions
from polyfuse.errors import UnsupportedError
from polyfuse.expr import Node, Piece
from polyfuse.frontends.index_notation.affine_terms import affine
from polyfuse.frontends.index_notation.bounds import Space, text_of
from polyfuse.frontends.index_notation.domains import Range, at_point, shape_of
from polyfuse.frontends.index_notation.evaluation import Evaluation, Keys, Ranges
from polyfuse.frontends.index_notation.terms import Access, Apply, Term, apply
from polyfuse.frontends.numpy_like import nodes, scans
from polyfuse.frontends.numpy_like.lifting import as_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer

_UFUNCS = frozenset("add multiply maximum minimum fmax fmin logical_and logical_or bitwise_and bitwise_or".split())


def recurrence(
    target: Access, value: Term, again: Sequence[Access], keys: Keys, space: Space, evaluation: Evaluation
) -> tuple[Tracer, Ranges]:
    """The values of the target over `keys`, and their ranges, which begin one earlier along the recurrence.

    Raises UnsupportedError for recurrences that are no scan.
    """
    along = _direction(target, again, keys)
    parts = _parts(value, again) if along is not None else None
    if along is None or parts is None:
        raise _refusal(target, again[0])
    name, rest = parts
    longer = {**space.ranges, along: Range(space.ranges[along].low - 1, space.ranges[along].high)}
    operand = _operand(target, rest, along, keys, space, longer, evaluation)
    result = scans.accumulate(name, Tracer(evaluation.trace, operand), keys.index(along))
    return Tracer(evaluation.trace, nodes.cast(result.node, target.array.element)), longer


def _direction(target: Access, again: Sequence[Access], keys: Keys) -> str | None:
    """The variable along which the one recurrent access lags by one."""
    if len(again) != 1:
        return None
    written = [affine(s) for s in target.subscripts]
    read = [affine(s) for s in again[0].subscripts]
    for key in keys:
        before = [w.substitute({key: Affine.symbol(key) - 1}) for w in written if w is not None]
        if before == read:
            return key
    return None


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


def _refusal(target: Access, read: Access) -> UnsupportedError:
    name = target.name
    return UnsupportedError(
        f"{text_of(target)} depends on {text_of(read)}, a new value, in a way that is no prefix operation",
        advice=f"A recurrence is {text_of(target)} = {text_of(read)} + ..., by + * max min & |, one step along "
        f"one index. For the old values read from a copy: old = {name}.copy(). "
        "s[i] = a[i]*s[i-1] + b[i] is p * (s0 + np.cumsum(b / p)) with p = np.cumprod(a).",
        source=read.location.source() if read.location else None,
    )
