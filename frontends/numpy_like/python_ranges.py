"""Integers that Python computes have as many digits as they need, those of a program 64 bits.

A number that follows from the integers that the caller passes is computed at run time where these lie in a range that
leaves it within 64 bits; any other call has a trace of its own, in which Python computes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.expr import Node
from polyfuse.frontends.numpy_like.state import Trace

Range = tuple[int, int]
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_MOST_BITS = 63
_BITS_OF_SIZES = 48  # more elements than memory has bytes
_MOST = 64  # bits of a result that is computed to find that it does not fit


def keep_in_range(trace: Trace, node: Node) -> None:
    """Confine the integers and sizes that `node` follows from so that it fits, as far as its functions are known.  Asks
    for a retrace where one of the call lies beyond."""
    bits = _bits_that_fit(trace, node)
    if bits is None or bits == _MOST_BITS:
        return
    below = list(expr.topological([node]))
    sizes = sorted({name for n in below if isinstance(n, expr.Iota) for name in n.index.names()} & trace.fresh)
    for scalar in (n for n in below if isinstance(n, expr.Scalar)):
        trace.confine(scalar, -(1 << bits), 1 << bits)
    if bits < _BITS_OF_SIZES and not all(trace.decide(Affine.of(1 << bits) - Affine.symbol(n)) for n in sizes):
        trace.scalar_value(node)


def keep_sign(trace: Trace, node: Node) -> bool:
    """Confine the integer that `node` is, or of which it is the negative, to those of its present sign, zero among the
    positive ones.  False where it follows from several, and its sign is not the same for all of them."""
    low, high = _anywhere(node)
    if low >= 0 or high < 0:
        return True
    negated = isinstance(node, expr.Map) and node.function == "negative"
    scalar = node.operands[0] if isinstance(node, expr.Map) and negated else node
    if not isinstance(scalar, expr.Scalar):
        return False
    value = trace.scalars.get(scalar.position, 0)
    if negated:
        trace.confine(scalar, *((1, _HIGHEST) if value > 0 else (_LOWEST, 0)))
    else:
        trace.confine(scalar, *((_LOWEST, -1) if value < 0 else (0, _HIGHEST)))
    return True


def is_negative(trace: Trace, node: Node) -> bool:
    """Whether an integer whose sign is known is below zero."""
    match node:
        case expr.Scalar():
            return trace.ranges[node.position][1] < 0 if node.position in trace.ranges else False
        case expr.Map(function="negative", operands=(expr.Scalar() as scalar,)):
            return trace.ranges[scalar.position][0] > 0
    return _anywhere(node)[1] < 0


def _anywhere(node: Node) -> Range:
    """The numbers that an integer of Python may be, whatever is passed; a reduction counts the elements of a
    selection."""
    found: dict[bytes, Range | None] = {}
    for n in expr.topological([node]):
        operands = [found[o.digest] for o in expr.operands_of(n)]
        found[n.digest] = (0, 1 << _BITS_OF_SIZES) if isinstance(n, expr.Reduce) else _range_of(n, operands, _MOST_BITS)
    return found[node.digest] or (_LOWEST, _HIGHEST)


def _bits_that_fit(trace: Trace, node: Node) -> int | None:
    """How many bits what is passed, and sizes, may have for `node` to have 64; None where that is not known."""
    for bits in range(_MOST_BITS, 0, -1):
        found = _range_at(trace, node, bits)
        if found is None:
            return None
        if found[0] >= _LOWEST and found[1] <= _HIGHEST:
            return bits
    return 0


def _range_at(trace: Trace, node: Node, bits: int) -> Range | None:
    """The numbers that a node may have where those of the caller have so many bits.  What it is computed from fits: it
    was looked at before."""
    known = trace.spans
    operands = expr.operands_of(node)
    if not all((o.digest, bits) in known for o in operands):
        for below in expr.topological(operands):
            if (below.digest, bits) not in known:
                found = _range_of(below, [known[o.digest, bits] for o in expr.operands_of(below)], bits)
                known[below.digest, bits] = found and (max(found[0], _LOWEST), min(found[1], _HIGHEST))
    return _range_of(node, [known[o.digest, bits] for o in operands], bits)


def may_overflow(factors: Sequence[Affine]) -> bool:
    """Whether a product of sizes is to be compared with the largest integer: powers of one size, and large multiples.
    Of the sizes of an array the product is how many elements it has."""
    names = [name for f in factors for name in f.names()]
    bits = sum(31 + max(abs(factor).bit_length() for _, factor in f.terms) for f in factors if f.terms)
    return max(map(abs, _numbers(factors))).bit_length() > 31 or (len(set(names)) < len(names) and bits > 63)


def exceeds(trace: Trace, factors: Sequence[Affine]) -> bool:
    """Whether a product of sizes is beyond 64 bits here; a guard keeps it so elsewhere."""
    if any(abs(n) > _HIGHEST for n in _numbers(factors)):
        return True
    first, *others = factors
    if trace.decide_volume((first, *others), _HIGHEST):
        return True
    return min(_numbers(factors)) < 0 and trace.decide_volume((first * -1, *others), _HIGHEST)


def _numbers(factors: Sequence[Affine]) -> list[int]:
    return [n for f in factors for n in (f.constant, *(factor for _, factor in f.terms))]


def _range_of(node: Node, operands: Sequence[Range | None], bits: int) -> Range | None:
    """The numbers that a node may have, by those of its operands; None where that is not known."""
    match node:
        case expr.Scalar():
            return (max(-(1 << bits), _LOWEST), min(1 << bits, _HIGHEST)) if node.dtype.kind == "i" else None
        case expr.Iota(index=size):
            numbers = _numbers([size])
            largest = sum(map(abs, numbers)) << min(bits, _BITS_OF_SIZES)
            return (0 if min(numbers) >= 0 else -largest), largest
        case expr.Constant() if node.dtype.kind in "iu":
            return int(node.value), int(node.value)
        case expr.Map(function=function) if node.dtype.kind == "i":
            known = [r for r in operands if r is not None]
            return _of_function(function, known) if len(known) == len(operands) else None
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
