"""Writes through index arrays that hit each element at most once, as a choice per element instead of a scatter.

a[np.arange(n), labels] += v     ->     a[i, j] = where(j == labels[i], a[i, j] + v[i], a[i, j])
a[np.arange(n), np.arange(n)] = 1  ->   a[i, j] = 1 where i == j

Every dimension of the updates has to be an affine index of some axis: then an element knows the only update that may
reach it, and the write fuses like any elementwise operation.  Other writes through arrays are scatters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyfuse import expr
from polyfuse.affine import Affine, dimension, dimensions
from polyfuse.dtypes import bool_, i64
from polyfuse.expr import DataIndex, IndexEntry, Node, Piece
from polyfuse.frontends.numpy_like import nodes


def spread(
    base: Node, updates: Node, operands: Sequence[Node], entries: Sequence[IndexEntry], bounds: str, own: Node
) -> tuple[Node, Node] | None:
    """(reached: bool, update) over the points of `base`; None where an element may be reached twice.

    `own`: what stood at the index, of which updates such as those of ``a[i, k] -= 1`` are a function.  There an element
    has it at hand: nothing is gathered, so that `base` needs no memory.
    """
    axes = _axes_of(updates.rank, entries)
    if axes is None:
        return None
    source = [_solved(entries[axis], d, axis) for d, axis in enumerate(axes)]
    where: list[Affine] = []
    for point, size in zip(source, updates.shape, strict=True):
        where += [point, size - 1 - point]
    at = {f"%{d}": point for d, point in enumerate(source)}
    for axis, entry in enumerate(entries):
        if isinstance(entry, Affine) and axis not in axes:
            distance = entry.substitute(at) - dimension(axis)
            where += [distance, -distance]

    def over_base(node: Node, otherwise: Node) -> Node:
        index = source if node.rank else ()
        rest = Piece((), otherwise, dimensions(otherwise.rank) if otherwise.rank else ())
        return nodes.region(base.shape, [Piece(tuple(where), node, tuple(index)), rest])

    reached = over_base(nodes.full((), True, bool_), nodes.full((), False, bool_))
    for axis, entry in enumerate(entries):
        if isinstance(entry, DataIndex):
            index = kept_inside(operands[entry.operand], base.shape[axis], bounds)
            chosen = over_base(index, nodes.full((), -1, i64))
            met = nodes.apply("equal", [chosen, nodes.iota(base.shape, dimension(axis))])
            everywhere = nodes.constant_value(reached) is True
            reached = met if everywhere else nodes.apply("bitwise_and", [reached, met])
    return reached, _of_own(updates, own, base, lambda node: over_base(node, base if node is updates else _zero(node)))


def _of_own(updates: Node, own: Node, base: Node, over_base: Callable[[Node], Node]) -> Node:
    """The updates over the points of `base`: elementwise functions of `own` are taken of `base` itself."""
    done: dict[bytes, Node] = {own.digest: base}
    holds = {own.digest}
    for node in expr.topological([updates]):
        if isinstance(node, expr.Map) and any(o.digest in holds for o in node.operands):
            holds.add(node.digest)
            operands = [done.get(o.digest) or (over_base(o) if o.rank else o) for o in node.operands]
            done[node.digest] = expr.map_(node.function, operands, node.dtype)
    return done.get(updates.digest) or over_base(updates)


def _zero(node: Node) -> Node:
    return nodes.full((), 0, node.dtype)


def _axes_of(rank: int, entries: Sequence[IndexEntry]) -> list[int] | None:
    """For each dimension of the updates an axis whose index is that dimension and a constant; None without one."""
    found = []
    for d in range(rank):
        axis = next((k for k, e in enumerate(entries) if isinstance(e, Affine) and _is_shifted(e, d)), None)
        if axis is None:
            return None
        found.append(axis)
    return found


def _is_shifted(entry: Affine, d: int) -> bool:
    return abs(entry.coefficient(f"%{d}")) == 1 and {n for n in entry.names() if n.startswith("%")} == {f"%{d}"}


def _solved(entry: IndexEntry, d: int, axis: int) -> Affine:
    """The point along dimension `d` whose index is the coordinate of `axis`."""
    assert isinstance(entry, Affine)
    return (dimension(axis) - entry.substitute({f"%{d}": 0})) * entry.coefficient(f"%{d}")


def kept_inside(node: Node, size: Affine, bounds: str) -> Node:
    """Data indices that are in bounds: clipped, or reported by a gather from zeros, which adds nothing."""
    index = nodes.cast(node, i64)
    if bounds == "clip":
        last = nodes.cast(nodes.iota((), size - 1), i64)
        return nodes.apply("minimum", [nodes.apply("maximum", [index, nodes.full((), 0, i64)]), last])
    if bounds == "assume":
        return index
    zeros = nodes.full((size,), 0, i64)
    return nodes.apply("add", [index, expr.gather(zeros, node.shape, [node], [DataIndex(0)], bounds)])
