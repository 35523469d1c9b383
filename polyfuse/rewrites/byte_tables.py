"""Functions of one byte are tables: what follows from an element of 8 bits alone has 256 values.

    y = (255 * (x / 255.0) ** 2.2).astype(u8)    ->    t[k] = (255 * (k / 255.0) ** 2.2).astype(u8),  y = t[x]

A kernel of its own computes the table on the same device by the same functions, so that the bits are the same.  It
pays where a function takes many instructions and is asked for often: gammas of 144 million bytes take an H200 1,493 us
in float64 and 476 in float32, and 67 by their bytes (benchmarks/results/twentyfirst_survey_h200.json).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from polyfuse import expr
from polyfuse.affine import dimension
from polyfuse.dtypes import DType, i64, integer_limits
from polyfuse.expr import Constant, DataIndex, Map, Node, Program, Scalar, View
from polyfuse.rewrites.rebuild import rebuild_program

ENTRIES = 256
LEAST = 64
"""Instructions, in those of float32, that a table takes the place of: threads of a warp find theirs in up to eight
lines of one."""
IN_ALL = 1 << 28
"""The same of all elements: less takes about as long as the launch of one more kernel."""


def byte_tables(program: Program, hints: Mapping[str, int], instructions: Callable[[str, DType], int]) -> Program:
    """The program in which long functions of single bytes are read from tables.  `hints`: a typical value of every
    size.  `instructions`: of one application of a function whose result has a dtype."""
    leaves: dict[bytes, Node | None] = {}  # of a node: what it is a function of, if that is one array of bytes
    nodes = tuple(expr.topological(program.outputs))
    for node in nodes:
        leaves[node.digest] = _leaf(node, leaves)
    apart = {o.digest for n in nodes for o in expr.operands_of(n) if leaves[n.digest] is not leaves[o.digest]}
    apart |= {output.digest for output in program.outputs}
    tables, origins = dict[bytes, tuple[Node, Node]](), dict[bytes, bytes]()
    for node in nodes:
        leaf = leaves[node.digest]
        if node.digest in apart and isinstance(node, Map) and leaf is not None:
            inside = [n for n in expr.topological([node]) if isinstance(n, Map) and leaves[n.digest] is leaf]
            each = sum([instructions(n.function, n.dtype) for n in inside])
            if each >= LEAST and each * prod([max(1, n.evaluate(hints)) for n in node.shape]) >= IN_ALL:
                entries = _entries(node, leaf)
                tables[node.digest] = leaf, entries[node.digest]
                origins |= {entry.digest: digest for digest, entry in entries.items()}
    copies: dict[bytes, Node] = {}

    def change(original: Node, node: Node) -> Node:
        copies[original.digest] = node
        if original.digest not in tables:
            return node
        leaf, table = tables[original.digest]
        place = expr.map_("cast", [copies[leaf.digest]], i64)
        first = int(integer_limits(leaf.dtype).min)
        place = expr.map_("subtract", [place, expr.constant(first, i64)]) if first else place
        return expr.gather(table, node.shape, [place], [DataIndex(0)], "assume")

    if not tables:
        return program
    rebuilt = rebuild_program(program, change)
    lines = {new: program.sources[old] for new, old in origins.items() if old in program.sources}
    return replace(rebuilt, sources={**lines, **rebuilt.sources}, inner=rebuilt.inner | origins.keys())


def _leaf(node: Node, leaves: Mapping[bytes, Node | None]) -> Node | None:
    """The only array that an elementwise function is a function of, if its elements are bytes; itself if it is one."""
    if isinstance(node, Map):
        found = {id(o): leaves[o.digest] for o in node.operands if not _is_number(o)}
        of = {id(leaf): leaf for leaf in found.values()}
        if len(of) == 1 and (leaf := next(iter(of.values()))) is not None and node.shape == leaf.shape:
            return leaf
    return node if node.dtype.kind in "iu" and node.dtype.itemsize == 1 and node.shape else None


def _is_number(node: Node) -> bool:
    return isinstance(_number(node), (Constant, Scalar))


def _number(node: Node) -> Node:
    """What a node is a view of."""
    return node.source if isinstance(node, View) else node


def _entries(node: Node, leaf: Node) -> dict[bytes, Node]:
    """The function of every byte, in order, with all that it is computed of: by the nodes of the program."""
    first = int(integer_limits(leaf.dtype).min)
    places = expr.iota((ENTRIES,), dimension(0) + first, i64)
    found: dict[bytes, Node] = {leaf.digest: expr.map_("cast", [places], leaf.dtype)}
    for each in expr.topological([node]):
        if isinstance(each, Map) and each.digest not in found:
            operands = [_number(o) if _is_number(o) else found.get(o.digest) for o in each.operands]
            if all(o is not None for o in operands):  # else it is what bytes are computed of
                found[each.digest] = expr.map_(each.function, [o for o in operands if o is not None], each.dtype)
    return found
