"""The levels above kernels as text, for dumps and tests: tensor DAG, SCoP, places and order.

    e: f32[N, 4096] = exp(d)
    e[i, j] = exp(d)        0 <= i < N, 0 <= j < 4096        f32
    e      compute   i = b0, j = 1024*c + 4*tx + v
"""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.explain.kernels import KernelView
from polyfuse.expr import DataIndex, Node, Program
from polyfuse.schedule import Digit, LoopNest, Placed, TreeItem
from polyfuse.scop import InputStatement, OpaqueStatement, Scop, Statement
from polyfuse.text.bodies import body_text, dimension_names
from polyfuse.text.guards import guard_text
from polyfuse.text.sizes import bound_text, derived_names, entry_text, size_text

# ---------------------------------------------------------------------------------------------- tensor DAG


def program_text(program: Program) -> str:
    """One line per node, operands before users; nodes without a name are numbered."""
    names: dict[bytes, str] = {}
    lines = []
    for node in expr.topological(program.outputs):
        if isinstance(node, expr.Input):
            names[node.digest] = program.arguments[node.position].path
        else:
            names[node.digest] = program.names.get(node.digest, f"%{len(names)}")
        shape = ", ".join(map(size_text, node.shape))
        lines.append(f"{names[node.digest]}: {node.dtype.name}[{shape}] = {_node_text(node, names, program)}")
    results = ", ".join(names[o.digest] for o in program.outputs)
    return "\n".join([f"program {program.name}", *(f"  {line}" for line in lines), f"  return {results}"])


def _node_text(node: Node, names: dict[bytes, str], program: Program) -> str:
    reads = [names[o.digest] for o in expr.operands_of(node)]
    match node:
        case expr.Input():
            return f"argument {node.position}"
        case expr.Scalar():
            return f"scalar {program.arguments[node.position].path}"
        case expr.Constant():
            return repr(node.value)
        case expr.Iota():
            return f"iota({_index_text((node.index,), node.rank)})"
        case expr.Map():
            return f"{node.function}({', '.join(reads)})"
        case expr.Reduce():
            component = f".{node.component}" if node.component else ""
            return f"reduce {node.monoid}({', '.join(reads)}, axes={list(node.axes)}){component}"
        case expr.Scan():
            flags = "".join(f", {flag}" for flag in ("exclusive", "reverse") if getattr(node, flag))
            flags += f", run={node.run}" if node.run else ""
            return f"scan {node.monoid}({reads[0]}, axis={node.axis}{flags})"
        case expr.Recurrence():
            component = f".{node.component}" if node.component else ""
            return f"recurrence({', '.join(reads)}, axis={node.axis}, lags={list(node.lags)}){component}"
        case expr.View():
            return f"{reads[0]}[{_index_text(node.index, node.rank)}]"
        case expr.Region():
            pieces = (_piece_text(p, names, node.rank) for p in node.pieces)
            return f"region({'; '.join(pieces)})"
        case expr.Gather():
            return f"gather({', '.join(reads)}, [{_data_text(node.index, reads[1:], node.rank)}])"
        case expr.Scatter():
            index = _data_text(node.index, reads[2:], node.updates.rank)
            return f"scatter {node.monoid}({', '.join(reads)}, [{index}])"
        case expr.Opaque():
            return f"call {node.call.name}({', '.join(reads)}) result {node.result}"


def _index_text(index: tuple[Affine, ...], rank: int) -> str:
    return ", ".join(size_text(e, dimension_names(rank)) for e in index)


def _data_text(index: tuple[expr.IndexEntry, ...], operands: list[str], rank: int) -> str:
    names = dimension_names(rank)
    return ", ".join(operands[e.operand] if isinstance(e, DataIndex) else size_text(e, names) for e in index)


def _piece_text(piece: expr.Piece, names: dict[bytes, str], rank: int) -> str:
    where = " and ".join(bound_text(w, dimension_names(rank)) for w in piece.where) or "else"
    return f"{where}: {names[piece.source.digest]}[{_index_text(piece.index, rank)}]"


# ---------------------------------------------------------------------------------------------- SCoP


def scop_text(scop: Scop) -> str:
    """One line per statement: what it computes, over which points, in which dtype."""
    return "\n".join(_statement_text(scop, s.id) for s in scop.statements)


def _statement_text(scop: Scop, value: int) -> str:
    statement = scop.statements[value]
    dtypes = ", ".join(d.name for d in statement.dtypes)
    match statement:
        case InputStatement(name=name, shape=shape):
            return f"{name} is an array of {dtypes}[{', '.join(map(size_text, shape))}]"
        case OpaqueStatement(name=name, shape=shape):
            return f"{name} = {body_text(scop, value)}, {dtypes}[{', '.join(map(size_text, shape))}]"
        case Statement():
            names = dimension_names(len(statement.extents))
            target = ", ".join(names[f"%{d}"] for d in statement.kept)
            extents = enumerate(statement.extents)
            domain = ", ".join(f"0 <= {names[f'%{d}']} < {size_text(extent)}" for d, extent in extents)
            return f"{statement.name}[{target}] = {body_text(scop, value)}   {domain or 'one point'}   {dtypes}"


# ---------------------------------------------------------------------------------------------- places


def places_text(kernel: KernelView) -> str:
    """Everything that a schedule decides and derives: digits, places, shared boxes, the order tree, guards."""
    schedule = kernel.schedule
    names = derived_names(kernel.group.scop.program)
    lines = [f"kernel {kernel.name}", "  digits"]
    lines += [f"    {_digit_text(d, names)}" for d in schedule.digits]
    lines += ["  places", *(f"    {_placed_text(p)}" for p in schedule.placed)]
    for box in schedule.shared:
        origin = ", ".join(size_text(o, names) for o in box.origin)
        size = " x ".join(map(str, box.extents))
        copied = f", copied by {box.copied}" if box.copied else ""
        lines.append(f"  shared {box.name}: {size} from [{origin}], pitch {', '.join(map(str, box.pitch))}{copied}")
    if cells := schedule.cells:
        lines.append(f"  cells {cells.slot} >= {cells.first}: {', '.join(cells.values)}")
    lines += ["  order", *(f"    {line}" for line in _order_lines(schedule.order))]
    lines += [f"  where {guard_text(g, names)}" for g in schedule.guards]
    return "\n".join(lines)


def _digit_text(digit: Digit, names: dict[str, str]) -> str:
    stride = f", stride {digit.stride}" if digit.kind == "thread" else ""
    return f"{digit.kind} {digit.name} < {size_text(digit.extent, names)}{stride}"


def _placed_text(placed: Placed) -> str:
    names = dimension_names(len(placed.place))
    place = ", ".join(f"{names[f'%{k}']} = {entry_text(entry)}" for k, entry in enumerate(placed.place))
    source = f" from {', '.join(placed.providers)}" if placed.providers else ""
    return f"{placed.role} {placed.name}: {place or 'everywhere'}{source}"


def _order_lines(order: tuple[TreeItem, ...], indent: str = "") -> Iterator[str]:
    for item in order:
        if isinstance(item, str):
            yield f"{indent}{item}"
        else:
            yield f"{indent}for {item.digit}" if isinstance(item, LoopNest) else f"{indent}last of {item.digit}"
            yield from _order_lines(item.items, f"{indent}  ")
