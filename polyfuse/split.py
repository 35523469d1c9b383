"""Split long reductions with few results on a CPU, so that all cores can share them.

A GPU's blocks share a reduction inside one kernel (`strategies/reduction.py`); cores gain nothing from that.

    s = sum(x[k], 0 <= k < N)
 -> p[q] = sum(x[4096*q + r], 0 <= r < 4096, 4096*q + r < N);   s = sum(p[q])

The monoid's associativity makes it legal; both halves are ordinary reductions for everything that follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import Affine, dimension
from polyfuse.bindings import Guard
from polyfuse.expr import Node, Piece, Program
from polyfuse.rebuild import rebuild_program
from polyfuse.scop import neutral
from polyfuse.target import Target

FEW_RESULTS = 4  # per core: fewer leave cores idle when each result is the work of one
LONG = 1 << 16  # elements per result below which one core is as fast as two launches


def split_reductions(program: Program, target: Target, hints: Mapping[str, int]) -> tuple[Program, tuple[Guard, ...]]:
    """The program with long reductions in two stages, and guards for the sizes that made it worth while."""
    if target.kind != "cpu":
        return program, ()
    guards: dict[Guard, None] = {}
    names: dict[bytes, str] = {}
    padded: set[bytes] = set()

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, expr.Reduce):
            return node
        plan = _plan(node, target, hints)
        if plan is None:
            return node
        axis, chunk = plan
        extent = node.operands[0].shape[axis]
        if not extent.is_constant:
            guards[Guard(extent - chunk)] = None
        final = _two_stages(node, axis, chunk, names, program.names.get(original.digest))
        padded.update(o.digest for partial in final.operands for o in expr.operands_of(partial))
        return final

    rebuilt = rebuild_program(program, change)
    inner = rebuilt.inner | padded  # the padded operand is no value of the user's
    return replace(rebuilt, names={**rebuilt.names, **names}, inner=inner), tuple(guards)


def _plan(node: expr.Reduce, target: Target, hints: Mapping[str, int]) -> tuple[int, int] | None:
    """(axis to split, elements per part), or None where one stage serves."""
    shape = [n.evaluate(hints) for n in node.operands[0].shape]
    kept = reduced = 1
    for k, n in enumerate(shape):
        if k in node.axes:
            reduced *= n
        else:
            kept *= n
    if kept >= FEW_RESULTS * target.processors or reduced < LONG:
        return None
    parts = max(2, min(8 * target.processors // max(1, kept), reduced // 8192))
    long = [k for k in node.axes if shape[k] >= parts]  # the outermost long axis: rows stay whole
    axis = long[0] if long else max(node.axes, key=lambda k: (shape[k], -k))
    parts = min(parts, shape[axis])
    chunk = 1 << max(0, -(-shape[axis] // parts) - 1).bit_length()
    return (axis, chunk) if chunk < shape[axis] else None


def _two_stages(node: expr.Reduce, axis: int, chunk: int, names: dict[bytes, str], name: str | None) -> expr.Reduce:
    source = node.operands[0].shape
    extent = source[axis]
    parts = extent.ceildiv(chunk)
    shape = (*source[:axis], parts, Affine.of(chunk), *source[axis + 1 :])
    points = [dimension(k if k < axis else k + 1) for k in range(len(source))]
    points[axis] = dimension(axis) * chunk + dimension(axis + 1)
    inside = extent - points[axis] - 1
    fill = neutral(node.monoid, [o.dtype for o in node.operands])
    exact = extent.is_constant and extent.constant % chunk == 0
    cut: list[Node] = []
    for operand, other in zip(node.operands, fill, strict=True):
        if exact:
            cut.append(expr.view(operand, shape, points))
            continue
        rest = Piece((), expr.constant(other.value, operand.dtype), ())
        cut.append(expr.region(shape, [Piece((inside,), operand, tuple(points)), rest]))
    inner = tuple(a if a < axis else a + 1 for a in node.axes)  # the part's own axis stays, the chunk's is reduced
    state = range(len(node.operands))
    partial = [expr.reduce_(node.monoid, cut, inner, component) for component in state]
    if name:
        names[partial[0].digest] = f"{name}_part"
    left = axis - sum(a < axis for a in node.axes)  # where the parts' axis lies among what the first stage keeps
    return expr.reduce_(node.monoid, partial, [left], node.component)
