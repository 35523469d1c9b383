"""The bits of a number as a number of another dtype of the same width.

Kernels hold 16-bit floats in float32, so their bits are computed, in steps that every back end has: IEEE 754 binary16
by moving exponent and mantissa, bfloat16 as the upper half of float32.  A value that is not rounded yet is rounded.
"""

from __future__ import annotations

from polyfuse import expr
from polyfuse.dtypes import DType, bf16, f16, f32, i32, u16, u32
from polyfuse.expr import Node
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.tracer import Buffer, Tracer


class Reinterpreted(Buffer):
    """The memory of `base` as numbers of another dtype of its width: who writes one writes the other."""

    __slots__ = ("base", "dtype")

    def __init__(self, base: Tracer, dtype: DType) -> None:
        self.base, self.dtype, self.owner, self.is_array = base, dtype, base.buffer.owner, not base.is_scalar

    @property
    def node(self) -> Node:
        return same_bits(self.base.node, self.dtype)

    @node.setter
    def node(self, node: Node) -> None:
        self.base[...] = Tracer(self.base.state, same_bits(node, self.base.element))


_MAGNITUDE = 0x7FFFFFFF
_INFINITE = 0x7F800000
_BIAS = (127 - 15) << 23  # between the exponents of float32 and binary16
_NORMAL = (127 - 14) << 23  # float32's 2**-14, the least normal number of binary16


def same_bits(node: Node, dtype: DType) -> Node:
    """`node` seen as `dtype`, which has its width."""
    source = node.dtype
    if dtype == source:
        return node
    if "b" in (source.kind, dtype.kind):  # a truth value is held as one bit
        return nodes.cast(node, dtype)
    if source in (f16, bf16):
        return nodes.cast(_to_bits(node), dtype) if dtype.kind in "iu" else same_bits(_to_bits(node), dtype)
    if dtype in (f16, bf16):
        return _from_bits(nodes.cast(node, u16), dtype)
    return nodes.apply("bitcast", [node], dtype)


def _apply(function: str, node: Node, number: int) -> Node:
    return nodes.apply(function, [node, expr.constant(number, node.dtype)])


def _either(condition: Node, then: Node, otherwise: Node) -> Node:
    return nodes.where(condition, then, otherwise)


def _to_bits(node: Node) -> Node:
    """uint16 bits of a 16-bit float, rounded to nearest, ties to even."""
    wide = nodes.cast(node, f32)
    word = nodes.apply("bitcast", [wide], u32)
    size = _apply("bitwise_and", word, _MAGNITUDE)
    drop = 13 if node.dtype == f16 else 16
    odd = _apply("bitwise_and", _apply("right_shift", size, drop), 1)
    rounded = nodes.apply("add", [_apply("add", size, (1 << (drop - 1)) - 1), odd])
    bits = _apply("right_shift", rounded, drop)
    if node.dtype == f16:
        bits = _half_bits(nodes.apply("absolute", [wide]), size, rounded)
    # NaN keeps the upper bits of its payload, and stays one.
    top = 0x7E00 if node.dtype == f16 else 0x7FC0
    payload = _apply("bitwise_and", _apply("right_shift", size, drop), 0x3FF if node.dtype == f16 else 0x7F)
    bits = _either(_apply("greater", size, _INFINITE), _apply("bitwise_or", payload, top), bits)
    sign = _apply("bitwise_and", _apply("right_shift", word, 16), 0x8000)
    return nodes.cast(nodes.apply("bitwise_or", [bits, sign]), u16)


def _half_bits(wide: Node, size: Node, rounded: Node) -> Node:
    """Bits of the magnitude in binary16: multiples of 2**-24 below its normal numbers, infinity above its largest."""
    small = nodes.cast(nodes.apply("rint", [nodes.apply("multiply", [wide, expr.constant(2.0**24, f32)])]), i32)
    normal = _apply("right_shift", _apply("subtract", rounded, _BIAS), 13)
    finite = _either(_apply("less", size, _NORMAL), nodes.cast(small, u32), normal)
    return _either(_apply("less", rounded, (127 + 16) << 23), finite, expr.constant(0x7C00, u32))


def _from_bits(bits: Node, dtype: DType) -> Node:
    """The 16-bit float of uint16 bits."""
    word = nodes.cast(bits, u32)
    sign = _apply("left_shift", _apply("bitwise_and", word, 0x8000), 16)
    if dtype == bf16:
        return nodes.cast(nodes.apply("bitcast", [_apply("left_shift", word, 16)], f32), bf16)
    size = _apply("bitwise_and", word, 0x7FFF)
    moved = _apply("left_shift", size, 13)
    special = _apply("greater_equal", size, 0x7C00)
    pattern = _either(special, _apply("bitwise_or", moved, _INFINITE), _apply("add", moved, _BIAS))
    small = nodes.apply("multiply", [nodes.cast(size, f32), expr.constant(2.0**-24, f32)])
    subnormal = nodes.apply("bitcast", [small], u32)
    pattern = _either(_apply("less", size, 0x400), subnormal, pattern)
    return nodes.cast(nodes.apply("bitcast", [nodes.apply("bitwise_or", [pattern, sign])], f32), f16)
