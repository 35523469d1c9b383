"""Small programs built by hand from the tensor DAG, for proofs and for their enumeration."""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse import dtypes, expr
from polyfuse.affine import Affine, AffineLike, dimension, dimensions
from polyfuse.expr import DataIndex, Node, Piece, Program, Shape
from polyfuse.places.proposal import Group
from polyfuse.scop import InputStatement, Scop, Statement
from polyfuse.scop_builder import build_scop
from polyfuse.terms import Apply, Ref

Size = AffineLike


def array(position: int, *shape: Size, integer: bool = False) -> Node:
    return expr.input_(position, shape, dtypes.i64 if integer else dtypes.f32)


def program(inputs: Sequence[Node], outputs: Sequence[Node], **hints: int) -> Program:
    """Arguments ``x0, x1, ...``, outputs ``y0, y1, ...``."""
    return Program(
        "test",
        tuple(expr.Argument(f"x{k}", node.shape, node.dtype) for k, node in enumerate(inputs)),
        tuple(outputs),
        tuple(f"y{k}" for k in range(len(outputs))),
        hints=hints,
    )


def whole(traced: Program) -> tuple[Scop, Group]:
    """The SCoP, and everything it computes as one kernel."""
    scop = build_scop(traced)
    body = frozenset(s.id for s in scop.statements if isinstance(s, Statement))
    loads = frozenset(s.id for s in scop.statements if isinstance(s, InputStatement))
    return scop, Group(scop, body, frozenset(scop.outputs), loads)


def statement(scop: Scop, name: str) -> int:
    return next(s.id for s in scop.statements if s.name == name)


# ---------------------------------------------------------------------------------------------- operations


def exp(x: Node) -> Node:
    return expr.map_("exp", [x])


def add(x: Node, y: Node) -> Node:
    return expr.map_("add", [x, y])


def multiply(x: Node, y: Node) -> Node:
    return expr.map_("multiply", [x, y])


def reduce(monoid: str, x: Node, *axes: int) -> Node:
    return expr.reduce_(monoid, [x], axes)


def along(x: Node, shape: Shape, *axes: int) -> Node:
    """`x` broadcast to `shape`, its dimensions laid along `axes`."""
    return expr.view(x, shape, [dimension(a) for a in axes])


def shifted(x: Node, extent: Size, offset: int) -> Node:
    """``x[offset : offset + extent]`` along the last axis."""
    *rows, last = dimensions(x.rank)
    return expr.view(x, (*x.shape[:-1], Affine.of(extent)), [*rows, last + offset])


def transposed(x: Node) -> Node:
    return expr.view(x, (x.shape[1], x.shape[0]), [dimension(1), dimension(0)])


def gathered(x: Node, index: Node) -> Node:
    """``x[index]`` along axis 0."""
    rest = [dimension(index.rank + k) for k in range(x.rank - 1)]
    shape = (*index.shape, *x.shape[1:])
    operand = along(index, shape, *range(index.rank)) if rest else index
    return expr.gather(x, shape, [operand], [DataIndex(0), *rest])


def joined(x: Node, y: Node) -> Node:
    """``concatenate([x, y], axis=0)`` of vectors."""
    (i,) = dimensions(1)
    first = Piece((x.shape[0] - i - 1,), x, (i,))
    return expr.region((x.shape[0] + y.shape[0],), [first, Piece((i - x.shape[0],), y, (i - x.shape[0],))])


# ---------------------------------------------------------------------------------------------- programs


def chain(n: Size) -> Program:
    x, y = array(0, n), array(1, n)
    return program([x, y], [exp(add(x, y))])


def bias(m: Size, n: Size) -> Program:
    x, b = array(0, m, n), array(1, n)
    return program([x, b], [exp(add(x, along(b, x.shape, 1)))])


def softmax(m: Size, n: Size) -> Program:
    x = array(0, m, n)
    e = exp(expr.map_("subtract", [x, along(reduce("max", x, 1), x.shape, 0)]))
    return program([x], [expr.map_("divide", [e, along(reduce("sum", e, 1), x.shape, 0)])])


def normalised(m: Size, n: Size, axis: int) -> Program:
    """``e / e.sum(axis)`` with ``e = exp(x)``."""
    x = array(0, m, n)
    e = exp(x)
    return program([x], [expr.map_("divide", [e, along(reduce("sum", e, axis), x.shape, 1 - axis)])])


def sums(m: Size, n: Size, axis: int) -> Program:
    """Sums that are results themselves."""
    x = array(0, m, n)
    return program([x], [reduce("sum", exp(x), axis)])


def summed(m: Size, n: Size, *axes: int, monoid: str = "sum") -> Program:
    x = array(0, m, n)
    return program([x], [exp(reduce(monoid, exp(x), *axes))])


def recurrent(m: Size, n: Size) -> Program:
    """``exp(h)`` with ``h[i, j] = h[i, j - 1] * x[i, j] + x[i, j]`` from 0 on."""
    x = array(0, m, n)
    start = expr.view(expr.constant(0.0, dtypes.f32), x.shape, ())
    before, factor = Ref("b1", dtypes.f32), Ref("o1", dtypes.f32)
    step = Apply("add", (Apply("multiply", (before, factor), dtypes.f32), factor), dtypes.f32)
    return program([x], [exp(expr.recurrence([step], [start, x], [1], 1))])


def stencil(n: Size) -> Program:
    """``y[i] = e[i] + e[i+1] + e[i+2]`` with ``e = exp(x)``; `n` is the length of `y`."""
    x = array(0, Affine.of(n) + 2)
    e = exp(x)
    return program([x], [add(add(shifted(e, n, 0), shifted(e, n, 1)), shifted(e, n, 2))])


def five_points(m: Size, n: Size) -> Program:
    """An element and its four neighbours of ``exp(x)``; `m` and `n` are the extents of the result."""
    e = exp(array(0, Affine.of(m) + 2, Affine.of(n) + 2))
    i, j = dimensions(2)
    shape, offsets = (Affine.of(m), Affine.of(n)), ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
    near = [expr.view(e, shape, [i + a, j + b]) for a, b in offsets]
    total = near[0]
    for each in near[1:]:
        total = add(total, each)
    return program([array(0, Affine.of(m) + 2, Affine.of(n) + 2)], [total])


def two_stencils(n: Size) -> Program:
    """A stencil of a stencil, each over two points."""
    x = array(0, Affine.of(n) + 2)
    inner = add(shifted(x, Affine.of(n) + 1, 0), shifted(x, Affine.of(n) + 1, 1))
    return program([x], [add(shifted(inner, n, 0), shifted(inner, n, 1))])


def symmetric(n: Size) -> Program:
    """``e + e.T``"""
    e = exp(array(0, n, n))
    return program([array(0, n, n)], [add(e, transposed(e))])


def transposed_sum(m: Size, n: Size) -> Program:
    """``x + y.T``"""
    x, y = array(0, m, n), array(1, n, m)
    return program([x, y], [add(x, transposed(y))])


def prefix(
    m: Size, n: Size, axis: int, *, exclusive: bool = False, reverse: bool = False, run: int = 0
) -> Program:
    x = array(0, m, n)
    return program([x], [exp(expr.scan("sum", exp(x), axis, exclusive, reverse, run))])


def every_second_prefix(n: int) -> Program:
    """``cumsum(x)[::2]`` of a vector of length 2n."""
    x = array(0, 2 * n)
    (i,) = dimensions(1)
    return program([x], [expr.view(expr.scan("sum", x, 0), (n,), [2 * i])])


def gather(n: Size, m: Size) -> Program:
    """``exp(x[idx] + z)``"""
    x, index, z = array(0, n), array(1, m, integer=True), array(2, m)
    return program([x, index, z], [exp(add(gathered(x, index), z))])


def gather_rows(n: Size, m: Size, k: Size) -> Program:
    """``x[idx + idx] * 1`` by rows, the index computed in the kernel."""
    x, index = array(0, n, k), array(1, m, integer=True)
    return program([x, index], [exp(gathered(x, add(index, index)))])


def concatenated(m: Size, n: Size) -> Program:
    x, y = array(0, m), array(1, n)
    return program([x, y], [exp(joined(exp(x), y))])


def largest(m: Size, n: Size) -> Program:
    """The pair (max, argmax) of rows, both returned."""
    x = array(0, m, n)
    position = expr.iota(x.shape, dimension(1), dtypes.i64)
    pair = [expr.reduce_("argmax", [x, position], [1], k) for k in range(2)]
    return program([x], pair)


def product_sum(m: Size, n: Size, k: Size) -> Program:
    """``x @ w``"""
    x, w = array(0, m, k), array(1, k, n)
    shape = (Affine.of(m), Affine.of(k), Affine.of(n))
    return program([x, w], [reduce("sum", multiply(along(x, shape, 0, 1), along(w, shape, 1, 2)), 1)])


def twice_used(n: Size) -> Program:
    """Two outputs that share a producer."""
    x = array(0, n)
    e = exp(x)
    return program([x], [add(e, x), multiply(e, e)])
