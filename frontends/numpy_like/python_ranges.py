"""Integers that Python computes have as many digits as they need, those of a program 64 bits.

A number that follows from the integers that the caller passes is computed at run time where these lie in a range that
leaves it within 64 bits; any other call has a trace of its own, in which Python computes it.
"""

from __future__ import annotations

from polyfuse import expr
from polyfuse.expr import Node
from polyfuse.frontends.numpy_like.state import Trace

Range = tuple[int, int]
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_SIZES = (0, 1 << 48)  # more elements than memory has bytes
_MOST = 64  # bits of a result that is computed to find that it does not fit


def keep_in_range(trace: Trace, node: Node) -> None:
    """Confine the integers that `node` follows from so that it fits, as far as its functions are known.  Asks for a
    retrace where one of the call lies beyond."""
    passed = [n for n in expr.topological([node]) if isinstance(n, expr.Scalar)]
    if not passed:
        return
    for bits in range(63, -1, -1):
        found = _range_of(node, (max(-(1 << bits), _LOWEST), min(1 << bits, _HIGHEST)))
        if found is None:
            return
        if found[0] >= _LOWEST and found[1] <= _HIGHEST:
            if bits < 63:
                for scalar in passed:
                    trace.confine(scalar, -(1 << bits), 1 << bits)
            return
    for scalar in passed:
        trace.scalar_value(scalar)


def _range_of(node: Node, passed: Range) -> Range | None:
    """The numbers that a node may have where those of the caller lie in `passed`; None where that is not known."""
    match node:
        case expr.Scalar():
            return passed if node.dtype.kind == "i" else None
        case expr.Iota():
            return _SIZES
        case expr.Constant() if node.dtype.kind in "iu":
            return int(node.value), int(node.value)
        case expr.Map(function=function, operands=operands) if node.dtype.kind == "i":
            ranges = [_range_of(operand, passed) for operand in operands]
            known = [r for r in ranges if r is not None]
            return _of_function(function, known) if len(known) == len(ranges) else None
    return None


def _of_function(function: str, given: list[Range]) -> Range | None:
    (low, high), *others = given
    match function, others:
        case "negative", []:
            return -high, -low
        case "absolute", []:
            return 0, max(high, -low)
        case "add", [(least, most)]:
            return low + least, high + most
        case "subtract", [(least, most)]:
            return low - most, high - least
        case "multiply", [(least, most)]:
            products = [a * b for a in (low, high) for b in (least, most)]
            return min(products), max(products)
        case "floor_divide", [(least, most)] if least == most > 0:
            return low // most, high // most
        case "remainder", [(least, most)] if least == most > 0:
            return 0, most - 1
        case "bitwise_and", [(least, most)] if least >= 0:
            return 0, most
        case "right_shift", [(least, _)] if least >= 0:
            return min(low, 0), max(high, 0)
        case "left_shift", [(least, most)] if least >= 0:
            most = min(most, _MOST)
            return min(low << most, low), max(high << most, high)
        case "power", [(least, most)] if least >= 0:
            most = min(most, _MOST)
            powers = [a**n for a in (low, high) for n in (most, max(most - 1, 0))]
            return min(*powers, 0), max(*powers, 1)
    return None
