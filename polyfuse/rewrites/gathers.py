"""Gathers sink to what is in memory: an element that data choose of a computed array is computed where it is needed.

    written                                     becomes
    (x.astype(f32))[i, t[i]]                    x[i, t[i]].astype(f32)
    softmax(x)[i, t[i]], max and sum of row i   exp(x[i, t[i]] - max[i]) / sum[i]
    eye[t[i], j], eye[k, j] = k == j            t[i] == j

A gather may need any element of its source, so that a computed source is stored as a whole by another kernel.  Nothing
sinks that data would then choose of an array which is not an argument either, or where more elements are chosen than
the source has, unless these are a few simple operations on positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from polyfuse import expr
from polyfuse.affine import ZERO, Affine, FloorDiv, dimension, dimensions
from polyfuse.dtypes import i64
from polyfuse.errors import Source
from polyfuse.expr import DataIndex, IndexEntry, Node, Program, Shape
from polyfuse.rewrites.rebuild import rebuild_program

Index = tuple[IndexEntry, ...]
_FEW = 24
_CHEAP = frozenset(
    "add subtract multiply negative absolute minimum maximum where cast equal not_equal less less_equal greater"
    " greater_equal bitwise_and bitwise_or bitwise_xor invert logical_not left_shift right_shift".split()
)


def sink_gathers(program: Program, hints: Mapping[str, int]) -> Program:
    """The same program with gathers of computed elements as computations of gathered elements.  `hints`: a typical
    value of every size."""
    sources: dict[bytes, Source] = {}
    names: dict[bytes, str] = {}

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, expr.Gather) or not isinstance(_below_views(node.source), (expr.Map, expr.Iota)):
            return node
        if _volume(node.shape, hints) > _volume(node.source.shape, hints) and not _is_simple(node.source):
            return node
        chosen = _Chosen(node)
        sunk = chosen.of(node.source, node.index)
        if sunk is not None and chosen.checked is None and chosen.is_computed:
            chosen = _Chosen(node, _check(node))
            sunk = chosen.of(node.source, node.index)
        if sunk is None or chosen.checked is None:
            return node
        if original.digest in program.sources:
            sources[chosen.checked.digest] = program.sources[original.digest]
        names.update({new: program.names[old] for new, old in chosen.origins.items() if old in program.names})
        return sunk

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, sources={**sources, **rebuilt.sources}, names={**names, **rebuilt.names})


class _Chosen:
    """The elements that one gather chooses, as values over its points.  `checked`: the gather from an argument that
    tests all data as the one does that it stands for; others take what is in bounds in any case.  Where no argument is
    read it is `check`, a zero that is part of every position.  `is_computed`: whether something follows from positions
    alone.  `origins`: of each computed element, the array that it is of."""

    def __init__(self, gather: expr.Gather, check: Node | None = None) -> None:
        self.gather = gather
        self.data = _data(gather.index)
        self.check = self.checked = check
        self.is_computed = False
        self.origins: dict[bytes, bytes] = {}
        self._found: dict[tuple[bytes, Index], Node | None] = {}

    def of(self, source: Node, index: Index) -> Node | None:
        """``source[index]``; None where that is a gather from no argument.  What is used twice is looked at once, and
        chains are followed without a call for each of their links."""
        todo = [(source, index)]
        while todo:
            node, at = todo[-1]
            needed = [(n, e) for n, e in self._needed(node, at) if (n.digest, e) not in self._found]
            if not needed:
                todo.pop()
                if (node.digest, at) not in self._found:  # one element tests the data for all
                    self._found[node.digest, at] = self._of(node, at)
            todo += needed
        return self._found[source.digest, index]

    def _needed(self, source: Node, index: Index) -> list[tuple[Node, Index]]:
        """The elements that an element is made of."""
        if isinstance(source, expr.Map):
            return [(o, index if o.rank else ()) for o in source.operands]
        if not isinstance(source, expr.View):
            return []
        below = _through(source, index)
        if below is None or (_data(below) and isinstance(source.source, expr.Input)):
            return []
        return [(source.source, below)]

    def _of(self, source: Node, index: Index) -> Node | None:
        needed = [self._found[node.digest, at] for node, at in self._needed(source, index)]
        known = [node for node in needed if node is not None]
        if len(known) < len(needed):
            return None
        match source:
            case expr.Constant() | expr.Scalar():
                return source
            case expr.Iota():
                return self._position(source, index)
            case expr.Map():
                found = expr.map_(source.function, known, source.dtype)
                self.origins[found.digest] = source.digest
                return found
            case expr.View() if known:
                return known[0]
            case expr.View() if _through(source, index) is None:
                return None
            case _:
                return self._element(source, index)

    def _position(self, iota: expr.Iota, index: tuple[IndexEntry, ...]) -> Node | None:
        """``iota[index]``; None where a quotient of data would be needed."""
        data = {f"%{k}": e.operand for k, e in enumerate(index) if isinstance(e, DataIndex)}
        affine = {f"%{k}": e for k, e in enumerate(index) if isinstance(e, Affine)}
        if any(isinstance(atom, FloorDiv) and atom.numerator.names() & data.keys() for atom, _ in iota.index.terms):
            return None
        rest = Affine(tuple(t for t in iota.index.terms if t[0] not in data), iota.index.constant)
        parts: list[Node] = [expr.iota(self.gather.shape, at, i64)] if (at := rest.substitute(affine)) != ZERO else []
        for atom, factor in iota.index.terms:
            if isinstance(atom, str) and atom in data:
                place = self._inside(data[atom])
                if place is None:
                    return None
                parts.append(place if factor == 1 else expr.map_("multiply", [place, expr.constant(factor, i64)]))
                self.is_computed = True
        found = reduce(lambda a, b: expr.map_("add", [a, b]), parts) if parts else expr.constant(0, i64)
        return found if iota.dtype == i64 else expr.map_("cast", [found], iota.dtype)

    def _inside(self, operand: int) -> Node | None:
        """A data index as a number, moved into its axis where that is asked for."""
        pairs = zip(self.gather.index, self.gather.source.shape, strict=True)
        extents = {n for e, n in pairs if isinstance(e, DataIndex) and e.operand == operand}
        if len(extents) != 1:
            return None
        place: Node = self.gather.operands[operand]
        if place.rank and place.shape != self.gather.shape:
            place = expr.view(place, self.gather.shape, dimensions(place.rank))
        place = place if place.dtype == i64 else expr.map_("cast", [place], i64)
        if self.gather.bounds == "clip":
            last = expr.iota((), extents.pop() - 1, i64)
            place = expr.map_("minimum", [expr.map_("maximum", [place, expr.constant(0, i64)]), last])
        return place if self.check is None else expr.map_("add", [place, self.check])

    def _element(self, source: Node, index: tuple[IndexEntry, ...]) -> Node | None:
        affine = [e for e in index if isinstance(e, Affine)]
        if len(affine) == len(index):
            return expr.view(source, self.gather.shape, affine)
        if not isinstance(_below_views(source), expr.Input):
            return None
        checks = self.checked is None and _data(index) == self.data
        bounds = self.gather.bounds if checks or self.gather.bounds == "assume" else "clip"
        found = expr.gather(source, self.gather.shape, self.gather.operands, index, bounds)
        self.checked = found if checks else self.checked
        return found


def _check(gather: expr.Gather) -> Node:
    """A zero that tests the data indices of `gather`, and reads no memory: one value, broadcast to its axes."""
    axes = [k for k, e in enumerate(gather.index) if isinstance(e, DataIndex)]
    spread = expr.view(expr.constant(0, i64), [gather.source.shape[k] for k in axes], ())
    return expr.gather(spread, gather.shape, gather.operands, [gather.index[k] for k in axes], gather.bounds)


def _is_simple(node: Node) -> bool:
    """Whether elements follow from their positions by a few operations that cost no more than a load."""
    found = list(expr.topological([node]))
    leaves = (expr.Iota, expr.Constant, expr.Scalar, expr.View)
    return len(found) <= _FEW and all(isinstance(n, leaves) or _is_cheap(n) for n in found)


def _is_cheap(node: Node) -> bool:
    return isinstance(node, expr.Map) and node.function in _CHEAP


def _data(index: Sequence[IndexEntry]) -> frozenset[int]:
    """The operands that choose."""
    return frozenset(e.operand for e in index if isinstance(e, DataIndex))


def _through(view: expr.View, index: Sequence[IndexEntry]) -> tuple[IndexEntry, ...] | None:
    """The index into the source of a view that permutes, repeats and fixes dimensions; None where data would be
    computed with, or tested against another extent."""
    found: list[IndexEntry] = []
    affine = {f"%{k}": e for k, e in enumerate(index) if isinstance(e, Affine)}
    for entry, extent in zip(view.index, view.source.shape, strict=True):
        if entry.names() <= affine.keys() | {n for n in entry.names() if not n.startswith("%")}:
            found.append(entry.substitute(affine))
            continue
        k = next((k for k in range(len(index)) if entry == dimension(k)), None)
        if k is None or view.shape[k] != extent:
            return None
        found.append(index[k])
    return tuple(found)


def _below_views(node: Node) -> Node:
    return node.source if isinstance(node, expr.View) else node


def _volume(shape: Shape, hints: Mapping[str, int]) -> int:
    return prod(max(0, extent.evaluate(hints)) for extent in shape)
