"""Gathers sink to what is in memory: an element that data choose of a computed array is computed where it is needed.

    written                                     becomes
    (x.astype(f32))[i, t[i]]                    x[i, t[i]].astype(f32)
    softmax(x)[i, t[i]], max and sum of row i   exp(x[i, t[i]] - max[i]) / sum[i]

A gather may need any element of its source, so that a computed source is stored as a whole by another kernel.  Nothing
sinks that data would then choose of an array which is not an argument either, or where more elements are chosen than
the source has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from polyfuse import expr
from polyfuse.affine import Affine, dimension
from polyfuse.errors import Source
from polyfuse.expr import DataIndex, IndexEntry, Node, Program, Shape
from polyfuse.rewrites.rebuild import rebuild_program


def sink_gathers(program: Program, hints: Mapping[str, int]) -> Program:
    """The same program with gathers of computed elements as computations of gathered elements.  `hints`: a typical
    value of every size."""
    sources: dict[bytes, Source] = {}
    names: dict[bytes, str] = {}

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, expr.Gather) or not isinstance(_below_views(node.source), expr.Map):
            return node
        if _volume(node.shape, hints) > _volume(node.source.shape, hints):
            return node
        chosen = _Chosen(node)
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
    tests all data as the one does that it stands for; others take what is in bounds in any case.  `origins`: of each
    computed element, the array that it is of."""

    def __init__(self, gather: expr.Gather) -> None:
        self.gather = gather
        self.data = _data(gather.index)
        self.checked: Node | None = None
        self.origins: dict[bytes, bytes] = {}

    def of(self, source: Node, index: tuple[IndexEntry, ...]) -> Node | None:
        """``source[index]``; None where that is a gather from no argument."""
        match source:
            case expr.Constant() | expr.Scalar():
                return source
            case expr.Map():
                operands = [self.of(o, index if o.rank else ()) for o in source.operands]
                known = [o for o in operands if o is not None]
                if len(known) < len(operands):
                    return None
                found = expr.map_(source.function, known, source.dtype)
                self.origins[found.digest] = source.digest
                return found
            case expr.View():
                below = _through(source, index)
                if below is None or (_data(below) and isinstance(source.source, expr.Input)):
                    return None if below is None else self._element(source, index)
                return self.of(source.source, below)
            case _:
                return self._element(source, index)

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
