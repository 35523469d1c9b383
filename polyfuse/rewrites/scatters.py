"""Scatters of rows: the library sorts the targets, and a kernel adds up the rows that belong to each.

    y = x.at[i].add(u)    ->    t = scatter_table(i);  v = scatter_folded(u, i)
                                y[p, c] = x[p, c] + (u or v)[t[0, p], c] + u[t[1, p], c] + u[t[2, p], c] + ...

`t[k, p]` is the k-th row of updates for target p, or none.  Where a target has more than `TABLE` updates, they are
added up first, and the table names a row of `v` (`polyfuse.scatter_rows`).  Every row is read once, every
result written once, and what surrounds the scatter is fused with it.  The order of the updates of a target is kept, so
that results depend on the indices alone; only the association of float sums differs from NumPy's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse import expr
from polyfuse.affine import Affine, dimension, dimensions
from polyfuse.bindings import Guard
from polyfuse.dtypes import bool_, i32, i64, u16, u32, u64
from polyfuse.errors import Source
from polyfuse.expr import Call, DataIndex, Gather, IndexEntry, Node, Program, Scatter
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.scatter_rows import TABLE
from polyfuse.scop import neutral

SHORTEST_ROW = 64
"""Elements of a row below which the table is no small part of what is moved: 32 bytes per row."""
MOST_ROWS = 2**30 - 1
"""Along an axis of the updates: the table has 32-bit numbers, up to twice as many."""
_NO_ROWS = (bool_, u16, u32, u64)
"""What some library cannot fold: torch has next to no arithmetic for unsigned integers of more than 8 bits."""
_FUNCTIONS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def tabled_scatters(program: Program, hints: Mapping[str, int]) -> tuple[Program, tuple[Guard, ...]]:
    """The program whose scatters of whole rows are sums of the rows that a table names, and guards for the sizes for
    which the table holds their numbers.  `hints`: a typical value of every size."""
    sources: dict[bytes, Source] = {}
    guards: dict[Guard, None] = {}

    def change(original: Node, node: Node) -> Node:
        found = _rows_of(node) if isinstance(node, Scatter) else None
        if found is None or any(extent.evaluate(hints) > MOST_ROWS for extent in found.over):
            return node
        guards.update(dict.fromkeys(Guard(MOST_ROWS - n) for n in found.over if not n.is_constant))
        if original.digest in program.sources:
            line = program.sources[original.digest]
            sources.update({call.digest: line for call in (found.table(), found.folded()) if call is not None})
            checks = [n for n in expr.topological([found.at]) if isinstance(n, Gather) and n.bounds == "raise"]
            sources.update({n.digest: line for n in checks if n.digest not in program.sources})
        return found.result()

    if not any(isinstance(n, Scatter) for n in expr.topological(program.outputs)):
        return program, ()
    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, sources={**sources, **rebuilt.sources}), tuple(guards)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A scatter whose last `width` axes are whole rows; `at`: the row-major target of each among the axes before."""

    node: Scatter
    width: int
    at: Node

    @property
    def targets(self) -> tuple[Affine, ...]:
        return self.node.base.shape[: self.node.base.rank - self.width]

    @property
    def over(self) -> tuple[Affine, ...]:
        """The axes of the updates before those of a row."""
        return self.node.updates.shape[: self.node.updates.rank - self.width]

    @property
    def places(self) -> int:
        """Entries of the table per target: of assignments the last one alone counts."""
        return 1 if self.node.monoid == "set" else TABLE

    def table(self) -> Node:
        """i32[places, axes of `over`, *targets]"""
        shape = (Affine.of(self.places), Affine.of(len(self.over)), *self.targets)
        return expr.opaque(Call("scatter_table", in_place=True), [self.at], shape, i32)

    def folded(self) -> Node | None:
        if self.node.monoid == "set":
            return None
        call = Call("scatter_folded", (("monoid", self.node.monoid),), in_place=True)
        return expr.opaque(call, [self.node.updates, self.table(), self.at], self.node.updates.shape, self.node.dtype)

    def result(self) -> Node:
        """The base combined with the rows that the table names, in order."""
        found = self.node.base
        folded = self.folded()
        for k in range(self.places):
            found = self._with_row(found, k, folded)
        return found

    def _with_row(self, found: Node, k: int, folded: Node | None) -> Node:
        """`found` combined with the k-th row of each target; what leaves it as it is where there is none."""
        node, points = self.node, dimensions(len(self.targets))
        at = [
            expr.view(self.table(), node.base.shape, [Affine.of(k), Affine.of(d), *points])
            for d in range(len(self.over))
        ]
        row = self._chosen(node.updates, at)
        if folded is None:
            return expr.map_("where", [*row, found], node.dtype)
        fill = -0.0 if node.monoid == "sum" else neutral(node.monoid, [node.dtype])[0].value
        none: Node = expr.constant(fill, node.dtype)
        if k == 0:
            beyond = expr.map_("subtract", [at[0], expr.iota((), self.over[0], i32)], i32)
            none = expr.map_("where", [*self._chosen(folded, [beyond, *at[1:]]), none], node.dtype)
        values = expr.map_("where", [*row, none], node.dtype)
        return expr.map_(_FUNCTIONS[node.monoid], [found, values], node.dtype)

    def _chosen(self, source: Node, at: list[Node]) -> tuple[Node, Node]:
        """(whether the row is one of `source`, the row)"""
        shape = self.node.base.shape
        zero = expr.constant(0, i32)
        extent = expr.iota((), self.over[0], i32)
        here = expr.map_(
            "bitwise_and", [expr.map_("greater_equal", [at[0], zero]), expr.map_("less", [at[0], extent])], bool_
        )
        safe = [expr.map_("where", [here, place, zero], i32) for place in at]
        columns = dimensions(len(shape))[len(shape) - self.width :]
        index: list[IndexEntry] = [*map(DataIndex, range(len(at))), *columns]
        return here, expr.gather(source, shape, safe, index, "assume")


def _rows_of(node: Scatter) -> _Rows | None:
    """The longest rows that the scatter moves whole; None where they are short, or there are none."""
    if node.dtype in _NO_ROWS or (node.monoid != "set" and node.monoid not in _FUNCTIONS):
        return None
    for width in range(min(node.base.rank, node.updates.rank) - 1, 0, -1):
        over = node.updates.shape[: node.updates.rank - width]
        operands = [_narrow(o, len(over)) for o in node.operands]
        found = [o for o in operands if o is not None]
        if len(found) == len(operands) and any(o.rank for o in found) and _moves_rows(node, width):
            return _Rows(node, width, _target(node, node.index[: node.base.rank - width], over, found))
    return None


def _target(node: Scatter, index: Sequence[IndexEntry], over: tuple[Affine, ...], found: Sequence[Node]) -> Node:
    """The row-major target of every row of updates, in bounds."""
    at: Node | None = None
    for entry, extent in zip(index, node.base.shape, strict=False):
        if isinstance(entry, Affine):
            here: Node = expr.iota(over, entry, i64)
        else:
            operand = _inside(found[entry.operand], extent, node.bounds)
            here = operand if operand.rank else expr.view(operand, over, ())
        if at is not None:
            at = expr.map_("multiply", [at, expr.iota((), extent, i64)], i64)
            here = expr.map_("add", [at, here], i64)
        at = here
    assert at is not None, "rows of no axis"
    return at


def _inside(at: Node, extent: Affine, bounds: str) -> Node:
    """The index moved into an axis; where it has to be checked, by a gather from zeros, which adds nothing."""
    at = at if at.dtype == i64 else expr.map_("cast", [at], i64)
    if bounds == "assume":
        return at
    zero, last = expr.constant(0, i64), expr.iota((), extent - 1, i64)
    if bounds == "raise":
        zeros = expr.view(zero, (extent,), ())
        at = expr.map_("add", [at, expr.gather(zeros, at.shape, [at], [DataIndex(0)], "raise")], i64)
    return expr.map_("minimum", [expr.map_("maximum", [at, zero], i64), last], i64)


def _moves_rows(node: Scatter, width: int) -> bool:
    """Whether the last `width` axes of the updates go to those of the base, and nothing else depends on them."""
    elements = 1
    for k in range(1, width + 1):
        extent = node.base.shape[-k]
        if node.index[-k] != dimension(node.updates.rank - k) or extent != node.updates.shape[-k]:
            return False
        elements *= extent.constant if extent.is_constant else SHORTEST_ROW
    columns = {f"%{node.updates.rank - k}" for k in range(1, width + 1)}
    before = node.index[: node.base.rank - width]
    return elements >= SHORTEST_ROW and not any(isinstance(e, Affine) and e.names() & columns for e in before)


def _narrow(node: Node, rank: int) -> Node | None:
    """The node over its first `rank` axes; None where it may differ along others."""
    if not node.rank:
        return node
    kept = {f"%{k}" for k in range(rank)}
    match node:
        case expr.Map():
            operands = [_narrow(o, rank) for o in node.operands]
            found = [o for o in operands if o is not None]
            return expr.map_(node.function, found, node.dtype) if len(found) == len(operands) else None
        case expr.View() if all({n for n in e.names() if n.startswith("%")} <= kept for e in node.index):
            return expr.view(node.source, node.shape[:rank], node.index)
        case expr.Iota() if {n for n in node.index.names() if n.startswith("%")} <= kept:
            return expr.iota(node.shape[:rank], node.index, node.dtype)
        case _:
            return None

