"""Products of an array with itself, turned: the second factor is a copy, which a kernel may keep apart from the first.

    s[i, j] = sum_k x[k, i] * x[k, j]     ->     y = x;  s[i, j] = sum_k x[k, i] * y[k, j]

A block has tiles of both, of other columns; of one value it keeps one part in shared memory.  Where all rows and
columns fit one tile, that part is both factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from polyfuse import expr
from polyfuse.affine import Affine, dimensions
from polyfuse.expr import Node, Program
from polyfuse.rewrites.rebuild import rebuild_program

ONE_TILE = 128
"""Rows and columns up to which one block may have all results."""


def factors_apart(program: Program, hints: Mapping[str, int]) -> Program:
    """The program in which sums of products of two views of one value read two values.  `hints`: typical sizes."""
    made: set[bytes] = set()
    copies: set[bytes] = set()

    def change(original: Node, node: Node) -> Node:
        del original
        if not isinstance(node, expr.Reduce) or node.monoid != "sum" or len(node.operands) != 1:
            return node
        (product,) = node.operands
        if not isinstance(product, expr.Map) or product.function != "multiply" or not _is_turned(product, node, hints):
            return node
        first, second = product.operands
        source, index = _seen(second)
        copy = expr.map_("cast", [source], source.dtype)
        turned = expr.map_("multiply", [first, expr.view(copy, second.shape, index)])
        made.update((copy.digest, turned.digest))
        copies.add(copy.digest)
        return expr.reduce_("sum", [turned], node.axes)

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, inner=rebuilt.inner | made, names={**rebuilt.names, **dict.fromkeys(copies, "copy")})


def _seen(node: Node) -> tuple[Node, tuple[Affine, ...]]:
    return (node.source, node.index) if isinstance(node, expr.View) else (node, dimensions(node.rank))


def _is_turned(product: expr.Map, total: expr.Reduce, hints: Mapping[str, int]) -> bool:
    """Whether the factors are one value, each without kept dimensions that the other has, and more than one tile."""
    (one, at), (other, there) = map(_seen, product.operands)
    if one is not other or not product.rank or not all(o.shape for o in product.operands):
        return False
    kept = {f"%{d}" for d in range(product.rank) if d not in total.axes}
    dims = [frozenset().union(*(entry.names() for entry in index)) & kept for index in (at, there)]
    apart = dims[0] - dims[1], dims[1] - dims[0]
    sizes = [prod(product.shape[int(name[1:])].evaluate(hints) for name in names) for names in apart]
    return all(apart) and max(sizes) > ONE_TILE
