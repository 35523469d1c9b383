"""Tiles whose contiguous axis is not the last one: square blocks are transposed in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from polyfuse.backends.numba_cpu.fragments.layouts import LANES
from polyfuse.backends.numba_cpu.fragments.places import Place
from polyfuse.backends.numba_cpu.fragments.types import Fragment
from polyfuse.backends.numba_cpu.fragments.vectors import I64, Builder, Value, joined, lanes_of, shuffle

SMALLEST_BLOCK = 4
# Bytes of a row of a block: one register of AVX-512.  Rows of two take LLVM half as long again.
WIDEST_BLOCK = 64


def unit_axis(place: Place) -> tuple[int, int] | None:
    """(axis of unit stride before the last one, edge of the square blocks), where a transposition beats a gather."""
    tile = place.tile
    axis = tile.axis
    if axis is None or tile.strides[axis] == 1:
        return None
    rank = len(tile.shape)
    offset = place.offset.shape if isinstance(place.offset, Fragment) else ()
    varies = (1,) * (rank - len(offset)) + offset
    for inner in range(axis):
        edge = math.gcd(tile.shape[inner], tile.shape[axis], LANES, WIDEST_BLOCK // place.pointer.dtype.itemsize)
        fixed = varies[inner] == 1 and varies[axis] == 1
        if tile.strides[inner] == 1 and edge >= SMALLEST_BLOCK and fixed:
            return inner, edge
    return None


def transposed(builder: Builder, rows: Sequence[Value]) -> list[Value]:
    """Rows of a square matrix to its columns: log2(n) rounds, each swaps the off-diagonal blocks of half the size."""
    result = list(rows)
    count = len(result)
    step = count // 2
    while step:
        for upper in range(count):
            if upper & step:
                continue
            a, b = result[upper], result[upper + step]
            result[upper] = shuffle(builder, a, b, [k if not k & step else count + k - step for k in range(count)])
            result[upper + step] = shuffle(
                builder, a, b, [k + step if not k & step else count + k for k in range(count)]
            )
        step //= 2
    return result


def read_transposed(
    builder: Builder, place: Place, values: tuple[Value, Value, Value], inner: int, edge: int
) -> list[Value]:
    """The memory words of every vector of the tile; `values`: pointer, offset and sizes."""
    layout = Fragment(place.pointer.dtype, place.tile.shape).layout
    scalar, itemsize = place.pointer.dtype.memory, place.pointer.dtype.itemsize
    words: list[Value] = [None] * layout.vectors
    for rows, base, stride in place.matrices(builder, *values, inner):
        for top in range(0, len(rows), edge):
            blocks: list[list[Value]] = []
            for left in range(0, layout.extent, edge):
                loads = []
                for column in range(left, left + edge):
                    address = _slot(builder, base, top, column, stride, scalar)
                    instruction = builder.load(address, typ=ir.VectorType(scalar, edge))
                    instruction.align = itemsize
                    loads.append(instruction)
                blocks.append(transposed(builder, loads))
            for k in range(edge):
                pieces = [block[k] for block in blocks]
                start = rows[top + k] * len(layout.chunks)
                for chunk, lanes in enumerate(layout.chunks):
                    first = chunk * LANES // edge
                    words[start + chunk] = _whole(builder, pieces[first : first + lanes // edge])
    return words


def write_transposed(
    builder: Builder,
    place: Place,
    values: tuple[Value, Value, Value],
    inner: int,
    edge: int,
    words: Sequence[Value],
) -> None:
    """Store the words of every vector of the tile."""
    layout = Fragment(place.pointer.dtype, place.tile.shape).layout
    scalar, itemsize = place.pointer.dtype.memory, place.pointer.dtype.itemsize
    for rows, base, stride in place.matrices(builder, *values, inner):
        for top in range(0, len(rows), edge):
            for left in range(0, layout.extent, edge):
                chunk, lane = divmod(left, LANES)
                block = [
                    _part(builder, words[rows[top + k] * len(layout.chunks) + chunk], lane, edge) for k in range(edge)
                ]
                for column, word in enumerate(transposed(builder, block), left):
                    address = _slot(builder, base, top, column, stride, scalar)
                    builder.store(word, address).align = itemsize


def _slot(builder: Builder, base: Value, top: int, column: int, stride: int | Value, scalar: ir.Type) -> Value:
    step = I64(column * stride) if isinstance(stride, int) else builder.mul(stride, I64(column))
    return builder.gep(builder.gep(base, [step], source_etype=scalar), [I64(top)], source_etype=scalar)


def _whole(builder: Builder, pieces: Sequence[Value]) -> Value:
    """Neighbouring vectors as one."""
    result = list(pieces)
    while len(result) > 1:
        pairs = [joined(builder, result[k], result[k + 1]) for k in range(0, len(result) - 1, 2)]
        result = pairs + result[len(result) - len(result) % 2 :]
    return result[0]


def _part(builder: Builder, word: Value, lane: int, edge: int) -> Value:
    return word if lanes_of(word.type) == edge else shuffle(builder, word, None, list(range(lane, lane + edge)))
