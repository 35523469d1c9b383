"""A sum of products of two arrays over axes that both have, as a call of an array library.

    s[i, j] = sum(x[i, k] * w[k, j], axis=k)        i: rows, j: columns, k: summed
    o[b, h, q, d] = sum(a[b, h, q, p] * qkv[b, p, 64*h + d + 1536], axis=p)      b, h: in both and in the result

An operand may be read through any view that is strided: reshapes, transposes, slices; the library then gets that view
of the array itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from polyfuse.affine import Affine
from polyfuse.dtypes import DType, bf16, f16, f64
from polyfuse.expr import Shape
from polyfuse.target import Target

NAME = "contraction"  # of the call
Groups = tuple[list[int], list[int], list[int], list[int]]


@dataclass(frozen=True, slots=True)
class Operand:
    """``array[index]`` over the letters ``%0, %1, ...`` of a contraction.

    `flat`: `index` is one entry, the position in C order, because some reshape mixes the axes.
    """

    index: tuple[Affine, ...]
    flat: bool = False

    def letters(self) -> frozenset[str]:
        return frozenset(n for entry in self.index for n in entry.names() if n.startswith("%"))

    def starts(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Per entry, the first position that is read, at these sizes."""
        zero = {**sizes, **dict.fromkeys(self.letters(), 0)}
        return tuple(entry.evaluate(zero) for entry in self.index)

    def stride(self, letter: int, strides: Sequence[int]) -> int:
        """How far apart neighbours along a letter are in an array with these strides."""
        return sum(entry.coefficient(f"%{letter}") * s for entry, s in zip(self.index, strides, strict=True))


@dataclass(frozen=True, slots=True)
class Contraction:
    """``result[kept] = sum(left * right, axes=summed)`` over letters of these `extents`; kept letters in order.

    `result`: the dtype that the sum is rounded to.
    """

    extents: Shape
    summed: tuple[int, ...]
    left: Operand
    right: Operand
    result: DType

    def letters(self) -> Groups:
        """Which letters are in both operands and kept, only in the left (rows), only in the right, summed."""
        left, right = self.left.letters(), self.right.letters()
        kept = [k for k in range(len(self.extents)) if k not in self.summed]
        both = [k for k in kept if {f"%{k}"} <= left & right]
        return (
            both,
            [k for k in kept if f"%{k}" in left - right],
            [k for k in kept if f"%{k}" in right - left],
            list(self.summed),
        )

    def seconds(self, target: Target, sizes: Mapping[str, int], dtype: DType) -> float:
        """Predicted time of a good library for operands of `dtype`: whole tiles at the rate of the matrix units, or
        the memory's."""
        extents = [e.evaluate(sizes) for e in self.extents]
        both, rows, columns, summed = ([extents[k] for k in group] for group in self.letters())
        batch, m, n, k = prod(both), prod(rows), prod(columns), prod(summed)
        moved: float = batch * (m * k + k * n) * dtype.itemsize + batch * m * n * self.result.itemsize
        deep = -(-k // DEPTH) * DEPTH if target.kind == "cuda" else k
        rates = target.library
        rate = {f16: rates.half, bf16: rates.half, f64: rates.double}.get(dtype, rates.single)
        tile = TILE if target.kind == "cuda" else 1
        if tile > 1 and dtype.itemsize == 2:
            moved = max(moved, _of_odd_rows(batch, m, n, k, self._alignment(extents), target) * target.bandwidth)
        if tile > 1 and max(m, n) <= SMALL[0][0]:
            least = self._least(extents, dtype, min(m, n))
            return target.launch + max(_of_small(batch, m, n, deep, target, rate, least), moved / target.bandwidth)
        narrow = next((t for t in NARROW if min(m, n) <= t), tile) if tile > 1 else 1
        tiles = batch * -(-max(m, n) // tile) * -(-min(m, n) // narrow)
        shares = max(1, min(target.processors // max(1, tiles), deep // SHARE)) if tile > 1 else 1
        waves = -(-tiles * shares // target.processors)
        compute = waves * target.processors * 2 * tile * narrow * (deep / shares) / rate
        if narrow < tile:
            compute = compute / NARROW_RATE + waves * NARROW_TILE
        if shares > 1:
            compute += target.launch + 2 * shares * batch * m * n * 4 / target.bandwidth
        return target.launch + max(compute, moved / target.bandwidth)

    def _least(self, extents: Sequence[int], dtype: DType, narrow: int) -> float:
        """Seconds that a small product takes of a processor, by its rows and the fewer of its results' sides."""
        if narrow == 1:
            return SMALL_VECTOR
        return SMALL_HALF[self._alignment(extents)] if dtype.itemsize == 2 else SMALL_TILE

    def _alignment(self, extents: Sequence[int]) -> int:
        """Elements, up to `EVEN`, of which rows of both operands are whole multiples, where that is known."""
        found = EVEN
        for operand in (self.left, self.right):
            last = operand.index[-1] if operand.index and not operand.flat else None
            if last is not None:
                found = gcd(found, *[extents[int(name[1:])] for name in last.names() if name in operand.letters()])
        return found


def _of_odd_rows(batch: int, m: int, n: int, k: int, alignment: int, target: Target) -> float:
    """Seconds that narrow products of 16-bit elements take at least, where rows are not whole accesses."""
    narrow = min(m, n)
    if alignment >= EVEN or not 1 < narrow <= TILE or batch > 1 and max(m, n) <= SMALL[1][0]:
        return 0.0
    each = max(ODD[0], ODD[1] + (ODD[2] if alignment > 1 else ODD[3]) * k)
    tiles = batch * -(-max(m, n) // TILE)
    return -(-tiles // target.processors) * each * (ODD_WIDE if narrow > NARROW[-1] else 1.0)


def _of_small(batch: int, m: int, n: int, deep: int, target: Target, rate: float, least: float) -> float:
    """Seconds of the operations of products whose results fit one small tile: the sum is dealt to all processors, or
    each has products of its own, of `least` seconds."""
    tile, part = SMALL[0] if batch == 1 or max(m, n) > SMALL[1][0] else SMALL[1]
    seconds = batch * 2 * tile**2 * deep / (part * rate)
    if batch == 1:
        shares = max(1, min(target.processors, deep // SHARE))
        return seconds * target.processors / shares + target.launch
    return max(seconds, -(-batch // target.processors) * least)


TILE = 128  # rows and columns of a block of the usual library kernel
NARROW = (32, 64)
NARROW_RATE, NARROW_TILE = 0.65, 0.6e-6
"""Columns of a block where they are few, the share of its rate that it reaches, and the seconds that its end takes.  By
cuBLAS on an H200, of float32: a million rows of 64 times 16 columns 147 us, of 128 times 8 247, of 64 times 64 263;
300,000 of 256 times 32 147, 200,000 of 768 times 10 277, 4 million of 16 times 16 276, 20 million of 3 times 3 970."""
SHARE = 256
"""Of a long sum with few results, that a block takes at least: libraries deal such sums to the processors that tiles
leave idle, and add up the shares in a second kernel."""
SMALL, SMALL_TILE = ((64, 0.65), (32, 0.4)), 0.26e-6
"""Rows and columns of small tiles, the latter of products in batches, the share of its rate that each reaches, and the
seconds that a small product takes at least.  By cuBLAS on an H200, of float32: sums over 2**20 rows of 8 times 8 184
us, 16 times 16 189, 32 times 32 250, 64 times 64 256, 128 times 128 679; over 65536 rows of 32 times 32 34, 64 times 64
35; 100,000 products of 16 x 32 with 32 x 16 346, 50,000 of 16 x 64 with 64 x 16 271, 10,000 of 64 x 64 190, a million
of 8 x 8 2025."""
DEPTH = 8  # that it sums at a time: 10 million rows of 3 times a 3 x 3 matrix take 476 us on an H200
SMALL_VECTOR, SMALL_HALF = 0.1e-6, {1: 0.36e-6, 2: 0.115e-6, 4: 0.115e-6, 8: 0.4e-6}
"""The same of a matrix and a vector, and of 16-bit elements by how many of them rows are whole multiples of.  By cuBLAS
on an H100, of 160 MB of bfloat16: 416,666 products of 8 x 8 1328 us, 740,740 of 6 x 6 597, 118,694 of 14 x 16 with 16 x
15 334, 1,269,841 of 7 x 7 with 7 842."""
EVEN = 8
"""Elements of 16 bits of which whole rows are accesses of 16 bytes."""
ODD, ODD_WIDE = (1.65e-6, 0.65e-6, 0.017e-6, 0.033e-6), 1.45
"""Seconds of a tile of 128 rows where they are not: at least, and its begin, and each element summed of even rows and
of odd ones; and times as many of more than 64 columns.  By cuBLAS on an H100 (benchmarks/results/library_h100.json), of
160 MB of bfloat16: 32 columns times 5 231 us, times 8 88; 8 times 25 250, times 24 134; 100 times 12 117, times 31 151;
256 times 10 89, times 7 158, times 8 63."""
