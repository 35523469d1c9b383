"""Recurrences of any form along one axis: what a value says about the ones before it, as a term.

    h[i] = a * h[i - 1] + x[i]     ->     Recurrence(step = b1 * o1 + o2; operands h[i - 1], a, x[i]; lags 1)

The right-hand side is evaluated as any other, with a stand-in for every new value that it reads.  What does not depend
on a stand-in becomes an operand; elementwise functions and choices by index on the way to them become the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from polyfuse import expr
from polyfuse.affine import ONE, Affine, dimensions
from polyfuse.errors import UnsupportedError
from polyfuse.expr import Node, Piece
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.bounds import holds_everywhere
from polyfuse.terms import Apply, Expr, Inside, Ref, before

Index = tuple[Affine, ...]
Where = tuple[Affine, ...]

LONGEST = 4096
"""Functions in one step, written out: a step that shares parts with itself many times over has more, and is refused."""


@dataclass(slots=True)
class Step:
    """The step of a recurrence over points of `shape`.  `names`: of the stand-ins, by digest; `operands`: first the
    `starts` values that stand for those before the first."""

    shape: expr.Shape
    names: Mapping[bytes, str]
    operands: list[Node]
    starts: int
    depends: dict[bytes, bool] = field(default_factory=dict)
    functions: int = 0

    def term(self, node: Node, index: Index, where: Where = ()) -> Expr:
        """``node[index]`` at the points of the recurrence where all of `where` are >= 0.

        Raises UnsupportedError where a new value goes into anything but elementwise functions at its own point.
        """
        if not self._depends(node):
            return self._operand(node, index, where)
        at = {f"%{k}": e for k, e in enumerate(index)}
        match node:
            case expr.Input() if node.digest in self.names:
                if any(n != ONE and e != p for n, e, p in zip(self.shape, index, dimensions(len(index)), strict=True)):
                    raise _refusal("at other points than its own")
                return Ref(self.names[node.digest], node.dtype)
            case expr.Map():
                self.functions += 1
                if self.functions > LONGEST:
                    raise _refusal(f"more than {LONGEST} times")
                operands = tuple(self.term(o, index if o.rank else (), where) for o in node.operands)
                return Apply(node.function, operands, node.dtype)
            case expr.View():
                return self.term(node.source, tuple(e.substitute(at) for e in node.index), where)
            case expr.Region():
                return self._region(node, at, where)
            case expr.Opaque(call=call):
                raise _refusal(f"in {call.name}, which is a call into a library")
            case _:
                raise _refusal(f"by a {type(node).__name__.lower()}")

    def _region(self, node: expr.Region, at: Mapping[str, Affine], where: Where) -> Expr:
        """Nested choices; a piece is read under its own conditions."""
        *guarded, last = node.pieces
        result = self._piece(last, at, (*where, *_outside(guarded, at)))
        for k, piece in reversed(list(enumerate(guarded))):
            conditions = tuple(c.substitute(at) for c in piece.where)
            inside = self._piece(piece, at, (*where, *_outside(guarded[:k], at)))
            result = Apply("where", (Inside(conditions), inside, result), node.dtype)
        return result

    def _piece(self, piece: Piece, at: Mapping[str, Affine], where: Where) -> Expr:
        conditions = tuple(c.substitute(at) for c in piece.where)
        return self.term(piece.source, tuple(e.substitute(at) for e in piece.index), (*where, *conditions))

    def _operand(self, node: Node, index: Index, where: Where) -> Expr:
        if not node.rank:
            return self._add(node)
        if not where or _in_bounds(index, node.shape, self.shape):
            return self._add(nodes.view(node, self.shape, index))
        if (everywhere := self._taken_inwards(node, index, {})) is not None:
            return self._add(everywhere)
        rest = Piece((), expr.constant(0, node.dtype), ())
        return self._add(nodes.region(self.shape, [Piece(where, node, index), rest]))

    def _taken_inwards(self, node: Node, index: Index, done: dict[tuple[bytes, Index], Node | None]) -> Node | None:
        """``node[index]`` with the index applied to what elementwise functions are of, where that is in bounds at all
        points: ``(x[1:] * y[1:])[i - 1]``, which is there from 1 on, is ``x[i] * y[i]``."""
        key = (node.digest, index)
        if key not in done:
            done[key] = self._inwards(node, index, done)
        return done[key]

    def _inwards(self, node: Node, index: Index, done: dict[tuple[bytes, Index], Node | None]) -> Node | None:
        match node:
            case expr.View():
                at = {f"%{k}": e for k, e in enumerate(index)}
                return self._taken_inwards(node.source, tuple(e.substitute(at) for e in node.index), done)
            case expr.Map() if node.rank:
                parts = [self._taken_inwards(o, index, done) if o.rank else o for o in node.operands]
                known = [part for part in parts if part is not None]
                return expr.map_(node.function, known, node.dtype) if len(known) == len(parts) else None
            case _ if _in_bounds(index, node.shape, self.shape):
                return nodes.view(node, self.shape, index)
            case _:
                return None

    def _add(self, node: Node) -> Expr:
        if node not in self.operands[self.starts :]:
            self.operands.append(node)
        return Ref(f"o{self.operands.index(node, self.starts)}", node.dtype)

    def _depends(self, node: Node) -> bool:
        for inner in expr.topological([node]) if node.digest not in self.depends else ():
            if inner.digest not in self.depends:
                found = any(self.depends[o.digest] for o in expr.operands_of(inner))
                self.depends[inner.digest] = found or inner.digest in self.names
        return self.depends[node.digest]


def _in_bounds(index: Index, source: expr.Shape, shape: expr.Shape) -> bool:
    return all(
        holds_everywhere(e, shape) and holds_everywhere(n - 1 - e, shape) for e, n in zip(index, source, strict=True)
    )


def _outside(pieces: Sequence[Piece], at: Mapping[str, Affine]) -> Where:
    """That no earlier piece has the point, as far as one condition says so."""
    return tuple(-p.where[0].substitute(at) - 1 for p in pieces if len(p.where) == 1)


def recurrence(value: Node, stand_ins: Mapping[Node, int], starts: Sequence[Node], axis: int) -> Node:
    """`value`, in terms of the stand-ins for values so many elements before along `axis`.

    `starts`: one per lag in rising order, the old values that stand where there is no new one.
    """
    lags = sorted(stand_ins.values())
    return recurrences([value], {node: (lag, 0) for node, lag in stand_ins.items()}, lags, starts, axis)[0]


def recurrences(
    values: Sequence[Node],
    stand_ins: Mapping[Node, tuple[int, int]],
    lags: Sequence[int],
    starts: Sequence[Node],
    axis: int,
) -> list[Node]:
    """`values` that follow from each other along `axis`, in terms of stand-ins for values so many elements before, of
    the value of a number.

    `starts`: for every value one per lag in rising order, the old values that stand where there is no new one.
    """
    first = values[0]
    step = Step(first.shape, {node.digest: before(*of) for node, of in stand_ins.items()}, list(starts), len(starts))
    terms = [step.term(value, dimensions(value.rank)) for value in values]
    return [expr.recurrence(terms, step.operands, lags, axis, component) for component in range(len(values))]


def _refusal(how: str) -> UnsupportedError:
    return UnsupportedError(
        f"the recurrence uses a new value {how}",
        advice="A recurrence goes along one index and takes new values into elementwise functions; write another one "
        "as a Python loop over slices: for t in range(1, n): h[t] = ...",
    )
