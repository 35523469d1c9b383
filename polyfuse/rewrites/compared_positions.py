"""On a CPU positions of extremes are found by comparison with the extreme, in two passes of vectors.

    y = argmax(x, axis=1)    ->    y = min(where(x == max(x, axis=1) | x != x, i, last), axis=1)

One pass has a value and its position in every lane and chooses between two of them, which no vector unit does at once:
argmax of 2 million float32 takes two cores 1.05 ms, 0.39 in two passes, of 1000 x 2000 bytes along rows 0.25 and 0.05
(benchmarks/results/cpu_positions.json).

Both passes compute x, which has to have the same bits in both: what is read, chosen or rounded once has, what may be
contracted or comes from a function of vectors may not; nor have 16-bit floats that are computed, which round where the
extreme is stored between the passes and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import Affine, dimension
from polyfuse.bindings import Guard
from polyfuse.dtypes import i32, i64, integer_limits
from polyfuse.expr import Iota, Map, Node, Program, Reduce
from polyfuse.rewrites.positions import LAST
from polyfuse.rewrites.rebuild import rebuild_program

_EXTREME = {"argmax": "max", "argmin": "min"}
_ROUNDED = frozenset(("add", "subtract", "multiply"))
_CHOSEN = frozenset(("negative", "absolute", "maximum", "minimum", "fmax", "fmin", "where", "cast"))
_READ = (expr.Input, expr.Scalar, expr.Constant, expr.Iota)


def compared_positions(program: Program, hints: Mapping[str, int]) -> tuple[Program, tuple[Guard, ...]]:
    """The program with such positions, and guards for the sizes for which they are 32-bit numbers in its kernels.
    `hints`: typical sizes."""
    guards: dict[Guard, None] = {}
    inner: set[bytes] = set()
    exact: dict[bytes, bool] = {}

    def change(original: Node, node: Node) -> Node:
        del original
        if not isinstance(node, Reduce) or node.monoid not in _EXTREME:
            return node
        value, index = node.operands
        if not _is_exact(value, exact):
            return node
        extreme = expr.reduce_(_EXTREME[node.monoid], [value], node.axes)
        if node.component == 0:
            return extreme
        last = _last(index) if isinstance(index, Iota) else None
        places: list[Node] = [index, expr.constant(int(integer_limits(index.dtype).max), index.dtype)]
        if isinstance(index, Iota) and last is not None:  # then an index that is proved to lie inside
            dtype = i32 if last.evaluate(hints) <= LAST else i64
            if dtype == i32 and not last.is_constant:
                guards[Guard(LAST - last)] = None
            places = [expr.iota(value.shape, entry, dtype) for entry in (index.index, last)]
        left = [dimension(k) for k in range(value.rank) if k not in node.axes]
        found: Node = expr.map_("equal", [value, expr.view(extreme, value.shape, left)])
        if value.dtype.is_float:
            found = expr.map_("bitwise_or", [found, expr.map_("not_equal", [value, value])])
        first = expr.reduce_("min", [expr.map_("where", [found, *places])], node.axes)
        inner.update((extreme.digest, first.digest))
        return first if first.dtype == node.dtype else expr.map_("cast", [first], node.dtype)

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, inner=rebuilt.inner | inner), tuple(guards)


def _last(index: Iota) -> Affine | None:
    """The last of positions that count upwards from 0."""
    last = index.index
    for k, extent in enumerate(index.shape):
        if index.index.coefficient(f"%{k}") < 0:
            return None
        last = last.substitute({f"%{k}": extent - 1})
    return last


def _is_exact(node: Node, known: dict[bytes, bool]) -> bool:
    """Whether a value has the same bits however often, and in whatever vectors, it is computed."""
    for part in expr.topological([node]):
        if part.digest not in known:
            known[part.digest] = _is_one_step(part) and all(known[o.digest] for o in expr.operands_of(part))
    return known[node.digest]


def _is_one_step(node: Node) -> bool:
    if not isinstance(node, Map):
        return isinstance(node, (*_READ, expr.View, expr.Region, expr.Gather))
    if node.dtype.compute != node.dtype:
        return node.function in _CHOSEN and node.function != "cast"
    if not any(o.dtype.is_float for o in node.operands) or node.dtype.name == "bool":
        return True
    if node.function not in _ROUNDED:
        return node.function in _CHOSEN
    return node.function == "multiply" or not any(map(_is_product, node.operands))


def _is_product(node: Node) -> bool:
    """Whether a sum with it may be one fused multiply-add."""
    while isinstance(node, (expr.View, Map)):
        if isinstance(node, Map) and node.function not in ("negative", "absolute"):
            return node.function in ("multiply", "where")
        node = expr.operands_of(node)[0]
    return isinstance(node, expr.Region)
