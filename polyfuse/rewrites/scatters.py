"""Scatters on a GPU, in the order of the updates: what kernels can do takes the place of what a library would.

    y = x.at[i].set(u)    ->    w = scatter max(-1, positions, i);  y[p, c] = w[p] < 0 ? x[p, c] : u[w[p], c]
    y = x.at[i].add(u)    ->    o = stable_order(i);  y = scatter_sorted(x, u, i, o)
    y = x.at[i].add(u)    ->    y = scatter_merged(x, u, i)            where updates may meet in any order

Of assignments the last one stays: the largest position of an update, which needs no order to be found.  Other updates
are combined in whatever way is the fastest of those that give the same bits in every run: sorted by their place and
walked (`polyfuse.lower.scatters.sorted_rows`; the library sorts, whole rows at a time), or merged as they come where
they are integers, or stand for floats (`polyfuse.rewrites.integer_scatters`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from polyfuse import expr
from polyfuse.affine import Affine, dimension, dimensions
from polyfuse.bindings import AnyGuard, Layout, VolumeGuard
from polyfuse.dtypes import DType, bool_, i16, i32, i64
from polyfuse.errors import Source
from polyfuse.expr import Call, DataIndex, Gather, IndexEntry, Node, Program, Scatter, Shape
from polyfuse.options import Options
from polyfuse.rewrites.integer_scatters import MOST, keyed_extreme, scaled_sum
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.scatters.elements import is_merged
from polyfuse.scatters.operands import narrowed
from polyfuse.scatters.rows import MERGED, ORDER, SORTED
from polyfuse.scatters.ways import Volume, Way, is_mergeable

LIMITS: Mapping[DType, int] = {i16: 2**15 - 1, i32: 2**31 - 1}
"""Numbers that a key holds: short ones take a radix sort fewer passes."""

UNSORTED = ("numba",)
"""Libraries that sort nothing on a device: their arrays are merged wherever that has the bits of every run."""


def ordered_scatters(
    program: Program,
    hints: Mapping[str, int],
    layouts: Sequence[Layout],
    options: Options,
    seconds: Callable[[Way, Volume], float],
) -> tuple[Program, tuple[AnyGuard, ...]]:
    """The program whose scatters are run by kernels, and guards for the sizes whose numbers fit the keys.  `hints`: a
    typical value of every size.  `layouts`: of the arguments.  `seconds`: of one way to combine updates."""
    nodes = tuple(expr.topological(program.outputs))
    if not any(isinstance(n, Scatter) for n in nodes):
        return program, ()
    given = _Given(hints, layouts, options, seconds)
    sources: dict[bytes, Source] = {}
    guards: dict[AnyGuard, None] = {}
    inner: set[bytes] = set()
    known = {n.digest for n in nodes}

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, Scatter) or not node.base.rank or is_merged(node, options.atomics):
            return node
        rows = _rows_of(node)
        if node.monoid == "set":
            result, fits = _last(rows, given)
        elif ways := _ways(rows, given):
            result, fits = _combined(rows, given, ways)
        else:
            return node
        guards.update(dict.fromkeys(fits))
        before = known | {n.digest for n in expr.topological(expr.operands_of(node))}
        inner.update(n.digest for n in expr.topological([result]) if n is not result and n.digest not in before)
        if original.digest in program.sources:
            made = [n for n in expr.topological([result]) if isinstance(n, (Gather, Scatter, expr.Opaque))]
            line = program.sources[original.digest]
            sources.update({n.digest: line for n in made if n.digest not in program.sources})
        return result

    rebuilt = rebuild_program(program, change)
    inner -= {output.digest for output in rebuilt.outputs}
    return replace(rebuilt, sources={**sources, **rebuilt.sources}, inner=rebuilt.inner | inner), tuple(guards)


@dataclass(frozen=True, slots=True)
class _Given:
    """What `ordered_scatters` was given."""

    hints: Mapping[str, int]
    layouts: Sequence[Layout]
    options: Options
    seconds: Callable[[Way, Volume], float]

    def elements(self, shape: Shape) -> int:
        return prod(n.evaluate(self.hints) for n in shape)

    def is_strided(self, node: Node) -> bool:
        if not isinstance(node, expr.Input) or node.position >= len(self.layouts):
            return False
        return self.layouts[node.position].strides is not None

    def number_type(self, shape: Shape) -> tuple[DType, tuple[AnyGuard, ...]]:
        """The shortest type that numbers the elements of an array, and a guard for the sizes for which it does."""
        elements = self.elements(shape)
        for dtype, limit in LIMITS.items():
            if elements <= limit:
                return dtype, () if all(n.is_constant for n in shape) else (VolumeGuard(shape, limit),)
        return i64, ()


@dataclass(frozen=True, slots=True)
class _Rows:
    """A scatter whose last `width` axes are whole rows; `operands` of the index, over the axes before."""

    node: Scatter
    width: int
    operands: tuple[Node, ...]

    @property
    def targets(self) -> Shape:
        return self.node.base.shape[: self.node.base.rank - self.width]

    @property
    def index(self) -> tuple[IndexEntry, ...]:
        return self.node.index[: self.node.base.rank - self.width]

    @property
    def over(self) -> Shape:
        """The axes of the updates before those of a row."""
        return self.node.updates.shape[: self.node.updates.rank - self.width]


def _rows_of(node: Scatter) -> _Rows:
    """The longest rows that the scatter moves whole, single elements at least."""
    for width in range(min(node.base.rank - 1, node.updates.rank), 0, -1):
        operands = [_narrow(o, node.updates.rank - width) for o in node.operands]
        found = tuple(o for o in operands if o is not None)
        if len(found) == len(operands) and _moves_rows(node, width):
            return _Rows(node, width, found)
    return _Rows(node, 0, node.operands)


def _moves_rows(node: Scatter, width: int) -> bool:
    """Whether the last `width` axes of the updates go to those of the base, and nothing else depends on them."""
    for k in range(1, width + 1):
        if node.index[-k] != dimension(node.updates.rank - k) or node.base.shape[-k] != node.updates.shape[-k]:
            return False
    columns = {f"%{node.updates.rank - k}" for k in range(1, width + 1)}
    before = node.index[: node.base.rank - width]
    return not any(isinstance(e, Affine) and e.names() & columns for e in before)


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


# ---------------------------------------------------------------------------------------------- combined


def _ways(rows: _Rows, given: _Given) -> list[Way]:
    """Those that give the same bits in every run, and others where the user allows them."""
    node, ways = rows.node, list[Way]()
    is_float = node.dtype.kind == "f"
    if is_mergeable(node.monoid, node.dtype, given.options.atomics):
        ways.append("merged")
    if is_float and node.monoid == "sum" and given.elements(node.updates.shape) <= MOST:
        ways.append("scaled")
    if is_float and node.monoid in ("max", "min"):
        ways.append("keyed")
    varies = given.options.batch_invariant and is_float  # where a run is cut depends on updates of other places
    return ways if varies or (ways and given.options.library in UNSORTED) else [*ways, "sorted"]


def _combined(rows: _Rows, given: _Given, ways: Sequence[Way]) -> tuple[Node, tuple[AnyGuard, ...]]:
    """The updates combined in the fastest way."""
    node = rows.node
    dtype, guards = given.number_type(rows.targets)
    row = node.base.shape[node.base.rank - rows.width :]
    count, width, places = (given.elements(shape) for shape in (rows.over, row, rows.targets))
    found = Volume(count, width, places, node.dtype.itemsize, dtype.itemsize)
    way = min(ways, key=lambda w: given.seconds(w, found))
    if way in ("sorted", "merged"):
        return _in_kernels(rows, given, way, dtype), guards
    fits = dict[AnyGuard, None]()

    def integers(made: Scatter) -> Node:
        result, more = _of_integers(made, given)
        fits.update(dict.fromkeys(more))
        return result

    result = scaled_sum(node, integers) if way == "scaled" else keyed_extreme(node, integers)
    if way == "scaled" and not all(n.is_constant for n in node.updates.shape):
        fits[VolumeGuard(node.updates.shape, MOST)] = None
    return result, tuple(fits)


def _of_integers(node: Scatter, given: _Given) -> tuple[Node, tuple[AnyGuard, ...]]:
    if is_merged(node, False):
        return node, ()
    ways: tuple[Way, ...] = ("merged",) if given.options.library in UNSORTED else ("merged", "sorted")
    return _combined(_rows_of(node), given, ways)


def _in_kernels(rows: _Rows, given: _Given, way: Way, dtype: DType) -> Node:
    """The updates sorted by their place, or merged as they come.  `dtype`: of the number of a place."""
    node, at = rows.node, _row_major(rows)
    at = at if at.dtype == dtype else expr.map_("cast", [at], dtype)
    order = [expr.opaque(Call(ORDER, in_place=True), [at], rows.over, i64)] if way == "sorted" else []
    operands = [narrowed(node.base), node.updates, at, *order]
    strided = tuple(k for k, o in enumerate(operands) if given.is_strided(o))
    settings = (("monoid", node.monoid), ("copied", strided))
    name = SORTED if way == "sorted" else MERGED
    return expr.opaque(Call(name, settings), operands, node.shape, node.dtype)


def _row_major(rows: _Rows) -> Node:
    """The row-major place of every row of updates, in bounds."""
    node, over = rows.node, rows.over
    at: Node | None = None
    for entry, extent in zip(rows.index, rows.targets, strict=True):
        if isinstance(entry, Affine):
            here: Node = expr.iota(over, entry, i64)
        else:
            operand = _inside(rows.operands[entry.operand], extent, node.bounds)
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


# ---------------------------------------------------------------------------------------------- the last one stays


def _last(rows: _Rows, given: _Given) -> tuple[Node, tuple[AnyGuard, ...]]:
    """Every row of the result: the last one of the updates that goes there, or that of the base."""
    node, over = rows.node, rows.over
    dtype, guards = given.number_type(over)
    dtype = i32 if dtype == i16 else dtype  # memory merges words
    none = expr.view(expr.constant(-1, dtype), rows.targets, ())
    found = expr.scatter(none, _positions(over, dtype), rows.operands, rows.index, "max", node.bounds)
    winners, more = _of_integers(found, given)
    row = expr.view(winners, node.shape, dimensions(len(rows.targets)))
    zero = expr.constant(0, dtype)
    is_any = expr.map_("greater_equal", [row, zero], bool_)
    place: Node = expr.map_("where", [is_any, row, zero], dtype)
    at: list[Node] = []
    for extent in reversed(over[1:]):
        size = expr.iota((), extent, dtype)
        at.insert(0, expr.map_("remainder", [place, size], dtype))
        place = expr.map_("floor_divide", [place, size], dtype)
    at = [place, *at] if over else []
    columns = dimensions(node.rank)[node.rank - rows.width :]
    chosen = expr.gather(node.updates, node.shape, at, [*map(DataIndex, range(len(at))), *columns], "assume")
    return expr.map_("where", [is_any, chosen, node.base], node.dtype), (*guards, *more)


def _positions(over: Shape, dtype: DType) -> Node:
    """The row-major number of every row of updates."""
    number: Node = expr.iota(over, dimension(0) if over else Affine.of(0), dtype)
    for k, extent in enumerate(over[1:], 1):
        scaled = expr.map_("multiply", [number, expr.iota((), extent, dtype)], dtype)
        number = expr.map_("add", [scaled, expr.iota(over, dimension(k), dtype)], dtype)
    return number
