"""Node constructors in canonical form: what different spellings share.

Every rewrite here is exact: bit for bit the value that the plain node has (NaN payloads aside).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polyfuse import expr
from polyfuse.affine import ONE, ZERO, Affine, AffineLike, dimension, dimensions
from polyfuse.dtypes import DType, bool_, i64, integer_limits
from polyfuse.expr import Constant, Iota, Node, Piece, Region, Shape, View
from polyfuse.frontends.numpy_like import simplify
from polyfuse.frontends.numpy_like.bounds import holds_everywhere, holds_nowhere
from polyfuse.frontends.numpy_like.bounds import simplify as shorten

Index = tuple[Affine, ...]


def shape_of(sizes: Sequence[AffineLike]) -> Shape:
    return tuple(Affine.of(n) for n in sizes)


# ---------------------------------------------------------------------------------------------- views


def _without_unit_points(entry: Affine, target: Shape) -> Affine:
    unit = {f"%{k}": ZERO for k, n in enumerate(target) if n == ONE}
    return shorten(entry.substitute(unit) if unit else entry, target)


def _canonical_index(index: Sequence[Affine], source: Shape, target: Shape) -> Index:
    """Entries without the points of unit axes and without removable floors; 0 into unit axes of the source."""
    pairs = zip(index, source, strict=True)
    return tuple(ZERO if n == ONE else _without_unit_points(e, target) for e, n in pairs)


def is_identity(index: Index, source: Shape, target: Shape) -> bool:
    points = (ZERO if n == ONE else dimension(k) for k, n in enumerate(target))
    return source == target and index == tuple(points)


def view(source: Node, shape: Sequence[AffineLike], index: Sequence[AffineLike]) -> Node:
    """``source[index]``: views compose, identities vanish, index vectors stay index vectors, and a view that lies in
    one piece of a region reads that piece."""
    target = shape_of(shape)
    entries = _canonical_index([Affine.of(e) for e in index], source.shape, target)
    if is_identity(entries, source.shape, target):
        return source
    at = {f"%{k}": entry for k, entry in enumerate(entries)}
    match source:
        case View():
            return view(source.source, target, [e.substitute(at) for e in source.index])
        case Iota():
            return iota(target, source.index.substitute(at), source.dtype)
        case Region():
            return _view_of_region(source, target, entries, at)
    return expr.view(source, target, entries)


def _view_of_region(source: Region, target: Shape, entries: Index, at: dict[str, Affine]) -> Node:
    point = {name: entry.constant for name, entry in at.items() if entry.is_constant}
    for piece in source.pieces:
        if any(c.names() <= point.keys() and c.evaluate(point) < 0 for c in piece.where):
            continue  # nearly always, where one element of an array is read that is written element by element
        here = _holds(piece.where, at, target)
        if here:
            return view(piece.source, target, [e.substitute(at) for e in piece.index])
        if here is not None:
            break
    return expr.view(source, target, entries)


def _holds(where: Index, at: dict[str, Affine], target: Shape) -> bool | None:
    """Whether all conditions hold at all points; None where one of them holds at none, which says that of most pieces
    of an array written element by element."""
    everywhere = True
    for c in where:
        condition = shorten(c.substitute(at), target)
        if holds_nowhere(condition, target):
            return None
        everywhere = everywhere and holds_everywhere(condition, target)
    return everywhere


def iota(shape: Sequence[AffineLike], index: Affine, dtype: DType = i64) -> Node:
    """The affine expression `index` of the output point as an integer; constants fold."""
    target = shape_of(shape)
    entry = _without_unit_points(index, target)
    if entry.is_constant:
        return full(target, entry.constant, dtype)
    return expr.iota(target, entry, dtype)


def full(shape: Sequence[AffineLike], value: bool | int | float, dtype: DType) -> Node:
    constant = expr.constant(value, dtype)
    return expr.view(constant, shape_of(shape), ()) if shape else constant


def broadcast(source: Node, shape: Sequence[AffineLike]) -> Node:
    """NumPy broadcasting to `shape`, of rank-0 nodes too; sizes are known to match."""
    target = shape_of(shape)
    if source.shape == target:
        return source
    points = dimensions(len(target))[len(target) - source.rank :]
    return view(source, target, [ZERO if n == ONE else p for n, p in zip(source.shape, points, strict=True)])


def region(shape: Sequence[AffineLike], pieces: Sequence[Piece]) -> Node:
    """The first piece whose conditions hold.

    Views inside pieces compose, pieces that earlier ones cover vanish (a time loop that writes the same interior again
    and again keeps one), a region in the last place is spliced in.
    """
    target = shape_of(shape)
    kept, taken = list[Piece](), _Taken({})
    for piece in pieces:
        if whole := _same_points(piece, target):
            return _region_of(target, [*kept, *(p for p in whole if not taken.covers(p.where))])
        for part in _parts(piece, target):
            if any(holds_nowhere(c, target) for c in part.where):
                continue
            part = replace(part, where=tuple(c for c in part.where if not holds_everywhere(c, target)))
            if taken.covers(part.where):
                continue  # an earlier piece takes all of its points
            kept.append(part)
            if not part.where:
                return _region_of(target, kept)
            taken.add(part.where)
    return _region_of(target, kept)


def _same_points(piece: Piece, target: Shape) -> tuple[Piece, ...]:
    """The pieces of a region that is read as it stands, which are in canonical form: arrays that are written element
    by element have many.  Empty for others."""
    source = piece.source
    if piece.where or not isinstance(source, Region) or not is_identity(piece.index, source.shape, target):
        return ()
    return source.pieces


@dataclass(frozen=True, slots=True)
class _Taken:
    """Sets of conditions, each found by one of them."""

    by_condition: dict[Affine, list[frozenset[Affine]]]

    def add(self, where: Index) -> None:
        rarest = min(where, key=lambda c: len(self.by_condition.get(c, ())))
        self.by_condition.setdefault(rarest, []).append(frozenset(where))

    def covers(self, where: Index) -> bool:
        """Whether all conditions of some set are among these."""
        if self.by_condition.keys().isdisjoint(where):
            return False  # nearly always, where an array is written element by element
        known = [conditions for c in where for conditions in self.by_condition.get(c, ())]
        return bool(known) and any(map(frozenset(where).issuperset, known))


def _region_of(target: Shape, pieces: list[Piece]) -> Node:
    last = pieces[-1]
    if len(pieces) == 1 or (last.source.rank == 0 and all(p.source is last.source for p in pieces)):
        return view(last.source, target, last.index)
    return expr.region(target, [*pieces[:-1], replace(last, where=())])


def _parts(piece: Piece, target: Shape) -> list[Piece]:
    """The piece with views composed into its index; an unconditional region dissolves into its pieces."""
    source, index = piece.source, piece.index
    at = {f"%{k}": entry for k, entry in enumerate(index)}
    match source:
        case View():
            return _parts(Piece(piece.where, source.source, tuple(e.substitute(at) for e in source.index)), target)
        case Region() if not piece.where:
            return [
                Piece(tuple(c.substitute(at) for c in p.where), p.source, tuple(e.substitute(at) for e in p.index))
                for p in source.pieces
            ]
    conditions = tuple(shorten(c, target) for c in piece.where)
    return [Piece(conditions, source, _canonical_index(index, source.shape, target))]


# ---------------------------------------------------------------------------------------------- scalar functions


def _without_broadcast(node: Node) -> Node:
    """The rank-0 node that `node` repeats, if it does."""
    return node.source if isinstance(node, View) and node.source.rank == 0 else node


def apply(function: str, operands: Sequence[Node], dtype: DType | None = None) -> Node:
    """A scalar function of operands of equal shape or rank 0, simplified; repeated scalars stay scalars."""
    shape = next((o.shape for o in operands if o.shape), ())
    bare = [_without_broadcast(o) for o in operands]
    result = simplify.simplified(function, bare, dtype)
    return broadcast(result, shape)


def cast(node: Node, dtype: DType) -> Node:
    return node if node.dtype == dtype else apply("cast", [node], dtype)


def where(condition: Node, then: Node, otherwise: Node) -> Node:
    return apply("where", [condition, then, otherwise])


def logical(node: Node) -> Node:
    """`node` as truth values."""
    return cast(node, bool_)


def reduce_(monoid: str, operands: Sequence[Node], axes: Sequence[int], component: int = 0) -> Node:
    return expr.reduce_(monoid, operands, axes, component) if axes else operands[component]


def constant_value(node: Node) -> bool | int | float | None:
    """The number that `node` is known to be (everywhere), or None."""
    bare = _without_broadcast(node)
    return bare.value if isinstance(bare, Constant) else None


def neutral(which: str, dtype: DType) -> bool | int | float:
    """The number for a monoid's neutral element: a literal, or `lowest` / `highest` of `dtype`."""
    if which == "nan":
        return float("nan")
    if which not in ("lowest", "highest"):
        return int(which)
    sign = -1 if which == "lowest" else 1
    if dtype.is_float:
        return sign * float("inf")
    if dtype.kind == "b":
        return sign > 0
    limits = integer_limits(dtype)
    return int(limits.min if sign < 0 else limits.max)
