"""Reshapes as finer dimensions: values run over the common refinement of all shapes that they are read in.

    written                                         computed
    y = x.reshape(n, 32, 16*3136) - m[i, j]         y[i, j, q, r] = x[i, 16*j + q, r] - m[i, j]
    s = y.sum(axis=2)                               s[i, j] = the sum over q and r
    z = y.reshape(n, 512, 56, 56) * g[c]            z[i, j, q, h, w] = y[i, j, q, 56*h + w] * g[16*j + q]

A dimension k of which something takes ``floor(k/16)`` becomes two, k = 16*j + q: no index divides any more, and values
that were reshaped in between share their dimensions.  What is written in row-major order keeps its place in memory, so
that an output is stored over its refined dimensions (`relabelled`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from polyfuse import expr
from polyfuse.affine import Affine, FloorDiv, dimension
from polyfuse.expr import Node, Program, Shape
from polyfuse.rewrites.rebuild import rebuild_program


def refine(program: Program) -> Program:
    """The same program with reductions and elementwise values over finer dimensions, as views of these."""
    return rebuild_program(program, lambda _, node: _refined(node))


def relabelled(node: Node) -> Node:
    """What to store for an output: its elements in the same order over finer dimensions, if that makes its index
    linear; else `node` itself."""
    if not isinstance(node, expr.View) or all(e.is_linear for e in node.index):
        return node
    split = _split(node.shape, [node])
    return node if split is None else split.read(node)


# ---------------------------------------------------------------------------------------------- values


def _refined(node: Node) -> Node:
    match node:
        case expr.View():
            return settled(node)
        case expr.Map(operands=operands):
            split = _split(node.shape, operands)
            if split is None:
                return node
            finer = [split.read(o) if o.rank else o for o in operands]
            return split.whole(expr.map_(node.function, finer, node.dtype))
        case expr.Reduce(operands=operands):
            split = _split(operands[0].shape, operands)
            if split is None:
                return node
            axes = [d for axis in node.axes for d in split.digits(axis)]
            value = expr.reduce_(node.monoid, [split.read(o) for o in operands], axes, node.component)
            return split.without(node.axes).whole(value)
        case expr.Region(pieces=pieces):
            composed = [_composed(piece) for piece in pieces]
            split = _finest(node.shape, [floor for piece in composed for floor in _divisions(piece.index)])
            if split is None:
                return node
            return split.whole(expr.region(split.finer, [split.piece(piece) for piece in composed]))
        case _:
            return node


@dataclass(frozen=True, slots=True)
class _Split:
    """Per dimension of `shape`: the factors of its digits but the last, outermost first; none where it stays whole."""

    shape: Shape
    factors: tuple[tuple[int, ...], ...]

    def digits(self, dimension_: int) -> range:
        """The finer dimensions of one."""
        first = sum(len(f) + 1 for f in self.factors[:dimension_])
        return range(first, first + len(self.factors[dimension_]) + 1)

    @property
    def finer(self) -> Shape:
        found: list[Affine] = []
        for extent, factors in zip(self.shape, self.factors, strict=True):
            bounds = (*factors, 1)
            found.append(_exactly(extent, bounds[0]))
            found += [Affine.of(a // b) for a, b in zip(bounds, bounds[1:], strict=False)]
        return tuple(found)

    def without(self, axes: Sequence[int]) -> _Split:
        kept = [d for d in range(len(self.shape)) if d not in axes]
        return _Split(tuple(self.shape[d] for d in kept), tuple(self.factors[d] for d in kept))

    @property
    def coarse(self) -> list[Affine]:
        """The dimensions of `shape` in the finer ones."""
        index: list[Affine] = []
        for d, factors in enumerate(self.factors):
            digits = zip(self.digits(d), (*factors, 1), strict=True)
            index.append(sum((dimension(k) * f for k, f in digits), Affine.of(0)))
        return index

    def read(self, node: Node) -> Node:
        """A value over `shape`, over the finer dimensions."""
        return settled(expr.view(node, self.finer, self.coarse))

    def piece(self, piece: expr.Piece) -> expr.Piece:
        """A piece of a value over `shape`, over the finer dimensions."""
        at = {f"%{d}": entry for d, entry in enumerate(self.coarse)}
        last = _last(self.finer)
        where = tuple([condition.substitute(at) for condition in piece.where])
        return expr.Piece(where, piece.source, tuple([_settled(e.substitute(at), last) for e in piece.index]))

    def whole(self, node: Node) -> Node:
        """A value over the finer dimensions, over `shape`."""
        index: list[Affine] = []
        for d, factors in enumerate(self.factors):
            above = Affine.of(0)
            for factor in (*factors, 1):
                quotient = dimension(d) // factor
                index.append(quotient - above)
                above = quotient * (factor // _below(factor, factors))
        return settled(expr.view(node, self.shape, index))


def _below(factor: int, factors: Sequence[int]) -> int:
    """The next smaller factor, at last 1."""
    bounds = (*factors, 1)
    return bounds[min(bounds.index(factor) + 1, len(bounds) - 1)]


def _composed(piece: expr.Piece) -> expr.Piece:
    """A piece of a view as one of what that shows."""
    source = piece.source
    if not isinstance(source, expr.View):
        return piece
    at = {f"%{d}": entry for d, entry in enumerate(piece.index)}
    return expr.Piece(piece.where, source.source, tuple([entry.substitute(at) for entry in source.index]))


def _split(shape: Shape, operands: Sequence[Node]) -> _Split | None:
    """How the dimensions of a value are to be split so that nothing divides where its operands are read; None where
    nothing does, or no split is enough."""
    return _finest(shape, [floor for o in operands if isinstance(o, expr.View) for floor in _divisions(o.index)])


def _finest(shape: Shape, floors: Sequence[FloorDiv]) -> _Split | None:
    found: list[set[int]] = [set() for _ in shape]
    for floor in floors:
        name, divided = _divided(floor)
        if not name:
            return None
        found[int(name[1:])].add(divided)
    factors = [tuple(sorted(f, reverse=True)) for f in found]
    chains = all(a % b == 0 for f in factors for a, b in zip(f, f[1:], strict=False))
    whole = all(not f or _divides(f[0], extent) for f, extent in zip(factors, shape, strict=True))
    return _Split(shape, tuple(factors)) if any(factors) and chains and whole else None


def _divisions(index: Sequence[Affine]) -> list[FloorDiv]:
    return [atom for entry in index for atom, _ in entry.terms if isinstance(atom, FloorDiv)]


def _divided(floor: FloorDiv) -> tuple[str, int]:
    """The dimension that a floor divides and by how much; no name where it divides anything else."""
    numerator = floor.numerator
    if len(numerator.terms) == 1 and not numerator.constant and numerator.terms[0][1] == 1:
        atom = numerator.terms[0][0]
        if isinstance(atom, str) and atom.startswith("%"):
            return atom, floor.denominator
    return "", 0


def _divides(factor: int, extent: Affine) -> bool:
    return extent.constant % factor == 0 and all(f % factor == 0 for _, f in extent.terms)


def _exactly(extent: Affine, factor: int) -> Affine:
    return Affine(tuple((a, f // factor) for a, f in extent.terms), extent.constant // factor)


# ---------------------------------------------------------------------------------------------- floors that are known


def settled(node: Node) -> Node:
    """A view without the floor divisions that the extents of its dimensions decide: of ``56*h + w`` by 3136."""
    if not isinstance(node, expr.View) or all(e.is_linear for e in node.index):
        return node
    last = _last(node.shape)
    return expr.view(node.source, node.shape, [_settled(e, last) for e in node.index])


def _last(shape: Shape) -> dict[str, float]:
    return {f"%{d}": n.constant - 1 if n.is_constant else inf for d, n in enumerate(shape)}


def _settled(entry: Affine, last: Mapping[str, float]) -> Affine:
    found = Affine.of(entry.constant)
    for atom, factor in entry.terms:
        quotient = _quotient(atom, last) if isinstance(atom, FloorDiv) else None
        found += Affine(((atom, factor),)) if quotient is None else Affine.of(quotient * factor)
    return found


def _quotient(floor: FloorDiv, last: Mapping[str, float]) -> int | None:
    """The only value that a floor takes."""
    low = high = float(floor.numerator.constant)
    for atom, factor in floor.numerator.terms:
        if not isinstance(atom, str) or atom not in last:
            return None
        reach = factor * last[atom] if last[atom] else 0.0
        low, high = low + min(reach, 0.0), high + max(reach, 0.0)
    if high == inf or low == -inf or low // floor.denominator != high // floor.denominator:
        return None
    return int(low // floor.denominator)
