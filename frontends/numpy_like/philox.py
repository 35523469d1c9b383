"""Philox 4x32-10, the counter-based generator: plain scalar functions of a 128-bit counter and a 64-bit key.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), and its library Random123.
"""

from __future__ import annotations

from polyfuse import expr
from polyfuse.affine import ONE, Affine, dimension
from polyfuse.dtypes import i64, u32
from polyfuse.expr import Node, Shape
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.lifting import product_node

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1: what the key grows by in each round

Words = tuple[Node, Node, Node, Node]
Key = tuple[Node, Node]


def philox(counter: Words, key: Key) -> Words:
    """Four random u32 words for every counter.  Words of the counter have one shape or rank 0, those of the key rank 0;
    all are u32, low words first."""
    for number in range(ROUNDS):
        key = _bumped(key) if number else key
        counter = _round(counter, key)
    return counter


def _round(c: Words, key: Key) -> Words:
    (high0, low0), (high1, low1) = (_product(m, word) for m, word in zip(_MULTIPLIERS, (c[0], c[2]), strict=True))
    return _xor(_xor(high1, c[1]), key[0]), low1, _xor(_xor(high0, c[3]), key[1]), low0


def _bumped(key: Key) -> Key:
    low, high = (nodes.apply("add", [word, expr.constant(w, u32)]) for word, w in zip(key, _WEYL, strict=True))
    return low, high


def _product(multiplier: int, word: Node) -> tuple[Node, Node]:
    """The upper and the lower half of a 64-bit product."""
    factor = expr.constant(multiplier, u32)
    if (number := nodes.constant_value(word)) is not None:
        whole = int(number) * multiplier
        return expr.constant(whole >> 32, u32), expr.constant(whole & 0xFFFFFFFF, u32)
    return nodes.apply("multiply_high", [word, factor]), nodes.apply("multiply", [word, factor])


def _xor(a: Node, b: Node) -> Node:
    if nodes.constant_value(b) == 0:
        return a
    return b if nodes.constant_value(a) == 0 else nodes.apply("bitwise_xor", [a, b])


# ---------------------------------------------------------------------------------------------- counters and keys


def split(value: Node) -> tuple[Node, Node]:
    """The lower and the upper 32 bits of an int64."""
    if (number := nodes.constant_value(value)) is not None:
        return expr.constant(int(number) & 0xFFFFFFFF, u32), expr.constant(int(number) >> 32 & 0xFFFFFFFF, u32)
    upper = nodes.apply("right_shift", [value, expr.constant(32, i64)])
    return nodes.cast(value, u32), nodes.cast(upper, u32)


def element_counter(shape: Shape) -> Words:
    """The row-major number of every element of `shape`, as a counter: what makes a number independent of the schedule.

    isl knows no products of sizes, so a symbolic stride is a scalar factor.
    """
    zero = expr.constant(0, u32)
    constant = all(n.is_constant for n in shape)
    if constant and _volume(shape) <= 1 << 32:
        index = Affine.of(0)
        for axis, extent in enumerate(shape):
            index = index * extent.constant + dimension(axis)
        return nodes.cast(nodes.iota(shape, index, i64), u32), zero, zero, zero
    number: Node = expr.constant(0, i64)
    for axis in range(len(shape)):
        stride = product_node(tuple(n for n in shape[axis + 1 :] if n != ONE))
        step = nodes.apply("multiply", [nodes.iota(shape, dimension(axis), i64), stride])
        number = nodes.apply("add", [number, step])
    low, high = split(number)
    return low, high, zero, zero


def _volume(shape: Shape) -> int:
    volume = 1
    for extent in shape:
        volume *= extent.constant
    return volume
