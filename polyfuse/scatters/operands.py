"""What a call of a scatter reads: the least that says the same.

    np.add.at(h, i, 1)    ->    scatter(h, 1, i), i as the caller gave it; a negative index is moved up by who reads it

Updates that are one number everywhere are passed as one element, indices before negative ones were wrapped and before
short ones were widened.
"""

from __future__ import annotations

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.dtypes import DType, i64
from polyfuse.expr import DataIndex, IndexEntry, Node, Scatter


def narrow_updates(node: Scatter) -> Node:
    """One element where all updates are the same and an operand of the index tells how many there are."""
    counted = any(operand.shape == node.updates.shape for operand in node.operands)
    return narrowed(node.updates) if counted else node.updates


def narrowed(node: Node) -> Node:
    """One element of an array whose elements are all the same; any other as it is."""
    if not isinstance(node, expr.View) or any(n.startswith("%") for e in node.index for n in e.names()):
        return node
    return expr.view(node.source, (Affine.of(1),) * node.rank, node.index)


def index_operands(node: Scatter) -> tuple[list[Node], tuple[IndexEntry, ...], tuple[bool, ...]]:
    """The arrays of the index, its entries, of which no affine one mentions a size, and per array whether negative
    indices in it count from the end of their axis."""
    bare = [_bare(operand, _extents(node, k)) for k, operand in enumerate(node.operands)]
    wraps = [b is not None for b in bare]
    operands = [_integers(o if b is None else b) for b, o in zip(bare, node.operands, strict=True)]
    index: list[IndexEntry] = []
    for entry in node.index:
        if isinstance(entry, Affine) and not all(name.startswith("%") for name in entry.names()):
            operands.append(expr.iota(node.updates.shape, entry, i64))
            wraps.append(False)
            index.append(DataIndex(len(operands) - 1))
        else:
            index.append(entry)
    return operands, tuple(index), tuple(wraps)


def _integers(operand: Node) -> Node:
    """Numbers that are integers; short ones as they are stored, before a cast to longer ones: who reads them widens."""
    match operand:
        case expr.Map(function="cast", operands=(x,)) if _is_short(x.dtype) and operand.dtype == i64:
            return x
        case expr.View(source=expr.Map(function="cast", operands=(x,))) if _is_short(x.dtype) and operand.dtype == i64:
            return expr.view(x, operand.shape, operand.index)
    return operand if operand.dtype == i64 or _is_short(operand.dtype) else expr.map_("cast", [operand], i64)


def _is_short(dtype: DType) -> bool:
    """Whether i64 has every number of it."""
    return dtype.kind in "iu" and dtype.itemsize < i64.itemsize


def _extents(node: Scatter, operand: int) -> set[Affine]:
    """Of the axes that an operand indexes."""
    pairs = zip(node.index, node.base.shape, strict=True)
    return {extent for entry, extent in pairs if isinstance(entry, DataIndex) and entry.operand == operand}


def _bare(operand: Node, extents: set[Affine]) -> Node | None:
    """`x` of ``where(x < 0, x + n, x)``, with n the extent of the axis; None for other nodes."""
    match operand:
        case expr.Map(function="where", operands=(below, expr.Map(function="add", operands=moved), x)):
            others = [o for o in moved if o is not x]
            zero = expr.map_("less", [x, expr.constant(0, x.dtype)], below.dtype)
            is_moved = len(others) == 1 and {_number(others[0])} == extents
            return x if below is zero and is_moved and x.dtype.kind == "i" else None
    return None


def _number(node: Node) -> Affine | None:
    """A number of rank 0 as an expression of sizes."""
    match node:
        case expr.Map(function="cast", operands=(operand,)):
            return _number(operand)
        case expr.Constant(value=int(value)):
            return Affine.of(value)
        case expr.Iota(index=index) if node.rank == 0:
            return index
        case expr.View(source=source) if source.rank == 0:
            return _number(source)
    return None
