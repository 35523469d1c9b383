"""Kernels built by hand: one per mechanism of the IR, with what NumPy says about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polyfuse import dtypes
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import DType, f32, i32, u64
from polyfuse.kernel import (
    Apply,
    ArrayParameter,
    AtomicUpdate,
    Barrier,
    Carry,
    Combine,
    Const,
    Contract,
    Elect,
    Expr,
    For,
    If,
    Index,
    Inside,
    Kernel,
    Leave,
    Let,
    Load,
    Op,
    Reduce,
    Ref,
    ScalarParameter,
    Scan,
    SharedBuffer,
    SizeParameter,
    Slot,
    Store,
    Take,
    ThreadDigit,
    carry_counters,
    carry_rows,
)
from polyfuse.lower.peel import at_trip

Arrays = dict[str, npt.NDArray]
M, N, K = (Affine.symbol(n) for n in "MNK")
B0, B1, T, LANE, WARP = (digit(n) for n in ("b0", "b1", "t", "lane", "warp"))
C, V, R = (digit(n) for n in ("c", "v", "r"))
BLOCKS = Affine.symbol("blocks")
LOWEST = Const(float("-inf"), f32)


def ref(name: str, dtype: DType = f32) -> Ref:
    return Ref(name, dtype)


def call(function: str, *operands: Expr, dtype: DType = f32) -> Apply:
    return Apply(function, operands, dtype)


def add(a: Expr, b: Expr) -> Apply:
    return call("add", a, b)


def array(name: str, *shape: Affine | int, dtype: DType = f32, out: bool = False, **fields: object) -> ArrayParameter:
    extents = tuple(Affine.of(n) for n in shape)
    return ArrayParameter(name, dtype, extents, readonly=not out, **fields)  # type: ignore[arg-type]


def sizes(*names: str) -> tuple[SizeParameter, ...]:
    return tuple(SizeParameter(n) for n in names)


@dataclass(frozen=True)
class Case:
    """A kernel with arguments and the expected content of the arrays that it writes."""

    kernel: Kernel
    arrays: Arrays
    sizes: Mapping[str, int]
    expected: Arrays
    scalars: Mapping[str, object] = field(default_factory=dict)
    tolerance: float = 1e-5


def normal(*shape: int, seed: int = 0) -> npt.NDArray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ---------------------------------------------------------------------------------------------- pointwise


def pointwise() -> Case:
    at = 512 * B0 + 4 * T + V
    body = (
        Load("xv", "x", (at,), where=(N - 4 - 512 * B0 - 4 * T,), vector=4),
        Let("scaled", add(call("multiply", ref("xv"), ref("alpha")), Const(0.1, f32))),
        Store("y", (at,), call("maximum", ref("scaled"), Const(0.0, f32)), where=(N - 4 - 512 * B0 - 4 * T,), vector=4),
    )
    kernel = Kernel(
        "scale", (array("x", N), array("y", N, out=True), *sizes("N"), ScalarParameter("alpha", f32)),
        (N.ceildiv(512),), 128, (), (Slot("v", 4),), (), body,
        header=("y = max(alpha * x + 0.1, 0)",), notes=(("scaled", "line 3"),),
    )  # fmt: skip
    x = normal(1220)
    expected = np.maximum(x * np.float32(2.5) + np.float32(0.1), 0)
    return Case(kernel, {"x": x, "y": np.zeros_like(x)}, {"N": 1220}, {"y": expected}, {"alpha": 2.5})


def halves() -> Case:
    """bfloat16 in memory, float32 in registers; a strided operand."""
    at = 8 * T + V
    x = ArrayParameter("x", dtypes.bf16, (Affine.of(1024),))
    z = ArrayParameter("z", f32, (Affine.of(1024),), strides=("step",), alignment=4)
    body = (
        Load("xv", "x", (at,), vector=8),
        Load("zv", "z", (at,)),
        Store("y", (at,), add(ref("xv"), ref("zv")), vector=8),
    )
    kernel = Kernel(
        "halves", (x, z, array("y", 1024, dtype=dtypes.bf16, out=True), *sizes("step")),
        (Affine.of(1),), 128, (), (Slot("v", 8),), (), body,
    )  # fmt: skip
    a, b = normal(1024).astype(dtypes.bf16.numpy), normal(1024 * 3, seed=1)[::-3]
    expected = (a.astype(np.float32) + b).astype(dtypes.bf16.numpy)
    return Case(kernel, {"x": a, "z": b, "y": np.zeros_like(a)}, {"step": -3}, {"y": expected}, tolerance=0)


# ---------------------------------------------------------------------------------------------- rows


def softmax() -> Case:
    """Odd row lengths, masked: a row per block."""
    index = (B0, 128 * C + T)
    where = (N - 1 - 128 * C - T,)
    body = (
        Load("xv", "x", index, where=where, other=LOWEST),
        Reduce(("most",), "max", (ref("xv"),), ("c",)),
        Combine(("m",), "max", (ref("most"),), 127),
        Let("e", call("exp", call("subtract", ref("xv"), ref("m")))),
        Reduce(("part",), "sum", (ref("e"),), ("c",)),
        Combine(("s",), "sum", (ref("part"),), 127),
        Store("y", index, call("divide", ref("e"), ref("s")), where=where),
    )
    kernel = Kernel(
        "softmax", (array("x", M, N), array("y", M, N, out=True), *sizes("M", "N")),
        (M,), 128, (), (Slot("c", 4),), (), body,
        header=("softmax over rows", "y[M, N] = exp(x - m) / s"), notes=(("m", "row maximum"), ("s", "row sum")),
    )  # fmt: skip
    x = normal(37, 317)
    e = np.exp(x - x.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    return Case(kernel, {"x": x, "y": np.zeros_like(x)}, {"M": 37, "N": 317}, {"y": expected})


def argmax() -> Case:
    """Tuple state, a row per warp: the first NaN wins, else the lower index."""
    row = 4 * B0 + WARP
    where = (M - 1 - row, N - 1 - 32 * C - LANE)
    column = Index(32 * C + LANE, i32)
    body = (
        Load("xv", "x", (row, 32 * C + LANE), where=where, other=LOWEST),
        Reduce(("best", "place"), "argmax", (ref("xv"), column), ("c",)),
        Combine(("top", "index"), "argmax", (ref("best"), ref("place", i32)), 31),
        Store("y", (row,), ref("index", i32), where=(M - 1 - row, -LANE)),
    )
    kernel = Kernel(
        "argmax", (array("x", M, N), array("y", M, dtype=i32, out=True), *sizes("M", "N")),
        (M.ceildiv(4),), 128, (ThreadDigit("lane", 1, 32), ThreadDigit("warp", 32, 4)), (Slot("c", 4),), (), body,
    )  # fmt: skip
    x = np.round(normal(10, 101) * 2)
    x[3, 77], x[3, 90] = np.nan, np.nan
    expected = np.argmax(x, 1).astype(np.int32)
    return Case(kernel, {"x": x, "y": np.zeros(10, np.int32)}, {"M": 10, "N": 101}, {"y": expected}, tolerance=0)


def cumsum(exclusive: bool = False, reverse: bool = False) -> Case:
    """A row of 1024 by 256 threads of 4."""
    index = (B0, 4 * T + V)
    body = (
        Load("xv", "x", index, vector=4),
        Scan("before", "total", "sum", ref("xv"), "v", 255, exclusive, reverse),
        Store("y", index, ref("before"), vector=4),
        Store("z", (B0,), ref("total"), where=(-T,)),
    )
    kernel = Kernel(
        "cumsum", (array("x", M, 1024), array("y", M, 1024, out=True), array("z", M, out=True), *sizes("M")),
        (M,), 256, (), (Slot("v", 4),), (), body,
    )  # fmt: skip
    x = normal(3, 1024)
    wide = x.astype(np.float64)
    flipped = wide[:, ::-1] if reverse else wide
    total = np.cumsum(flipped, 1) - (flipped if exclusive else 0)
    expected = total[:, ::-1] if reverse else total
    arrays = {"x": x, "y": np.zeros_like(x), "z": np.zeros(3, np.float32)}
    return Case(kernel, arrays, {"M": 3}, {"y": expected, "z": wide.sum(1)}, tolerance=1e-4)


def prefix_in_order(lead: int = 0, columns: bool = False) -> Case:
    """Rows of which each block has 64 elements, or 2 rows of 32 columns; three totals are left as one."""
    bits, each = (32, 32) if columns else (63, 1)
    number, at = B1 - lead, (B0, 2 * B1 + WARP, LANE) if columns else (B0, B1, T)
    load = Load("xv", "x", at)
    scan = Scan("part", "all", "sum", ref("xv"), None, bits)
    leave = Leave(ref("all"), bits, "words", (B0,), B1, BLOCKS, 3)
    carry = Carry("front", "sum", ref("all"), bits, "words", "arrived", (B0,), B1, BLOCKS, 3)
    stored = Let("sum", add(ref("front"), ref("part"))), Store("y", at, ref("sum"))
    body: tuple[Op, ...] = (load, scan, leave, carry, *stored)
    if lead:
        behind = at_trip((load, scan, carry, *stored), "b1", number)
        body = If(Inside((BLOCKS - 1 - B1,)), (load, scan, leave)), If(Inside((number,)), behind)
    shape = (M, 2 * BLOCKS, 32) if columns else (M, BLOCKS, 64)
    kernel = Kernel(
        "prefix_in_order", (
            array("x", *shape), array("y", *shape, out=True),
            array("words", M, carry_rows(BLOCKS, 3, 1), each, dtype=u64, out=True),
            array("arrived", M, carry_counters(BLOCKS, 3, 1), dtype=i32, out=True),
            array("turns", 1, dtype=i32, out=True),
            *sizes("M", "blocks"),
        ),
        (M, BLOCKS + lead), 64, (ThreadDigit("lane", 1, 32), ThreadDigit("warp", 32, 2)), (), (), body,
        turns="turns",
    )  # fmt: skip
    x = normal(3, 60, 32) if columns else normal(3, 30, 64)
    wide = x.astype(np.float64)
    expected = np.cumsum(wide, 1) if columns else np.cumsum(wide.reshape(3, -1), 1).reshape(x.shape)
    zeros = {"words": np.zeros((3, 30 + 10, each), np.uint64), "arrived": np.zeros((3, 1), np.int32)}
    arrays = {"x": x, "y": np.zeros_like(x), **zeros, "turns": np.zeros(1, np.int32)}
    return Case(kernel, arrays, {"M": 3, "blocks": 30}, {"y": expected}, tolerance=1e-4)


# ---------------------------------------------------------------------------------------------- shared memory


def transpose(barrier: bool = True, pitch: int = 33) -> Case:
    """Tiles of 32 x 32 through shared memory, odd sizes masked."""
    row, col = 4 * R + WARP, LANE
    body = (
        Load("xv", "x", (32 * B1 + row, 32 * B0 + col), where=(M - 1 - 32 * B1 - row, N - 1 - 32 * B0 - col)),
        Store("tile", (row, col), ref("xv")),
        *([Barrier()] if barrier else []),
        Load("turned", "tile", (col, row)),
        Store("y", (32 * B0 + row, 32 * B1 + col), ref("turned"), where=(N - 1 - 32 * B0 - row, M - 1 - 32 * B1 - col)),
    )
    kernel = Kernel(
        "transpose", (array("x", M, N), array("y", N, M, out=True), *sizes("M", "N")),
        (N.ceildiv(32), M.ceildiv(32)), 128, (ThreadDigit("lane", 1, 32), ThreadDigit("warp", 32, 4)),
        (Slot("r", 8),), (SharedBuffer("tile", f32, (32, 32), (pitch, 1)),), body,
    )  # fmt: skip
    x = normal(70, 45)
    return Case(kernel, {"x": x, "y": np.zeros((45, 70), np.float32)}, {"M": 70, "N": 45}, {"y": x.T}, tolerance=0)


def matmul(barriers: int = 2) -> Case:
    """Tiles of 16 x 32 of the result, 8 of k at a time, through shared memory."""
    i, j, kk = digit("i"), digit("j"), digit("k")
    tx, ty = digit("tx"), digit("ty")
    step = digit("kt")
    body = (
        Let("acc", Const(0.0, f32)),
        For("kt", K // 8, (
            Load("av", "a", (16 * B1 + 8 * i + ty, 8 * step + tx)),
            Load("bv", "b", (8 * step + ty, 32 * B0 + 8 * j + tx)),
            *([Barrier()] if barriers > 1 else []),
            Store("left", (tx, 8 * i + ty), ref("av")),
            Store("right", (ty, 8 * j + tx), ref("bv")),
            *([Barrier()] if barriers > 0 else []),
            Load("x", "left", (kk, 8 * i + ty)),
            Load("w", "right", (kk, 8 * j + tx)),
            Contract("acc", ref("x"), ref("w"), ("k",)),
        )),
        Load("bias", "bias", (32 * B0 + 8 * j + tx,)),
        Let("sum", add(ref("acc"), ref("bias"))),
        Store("c", (16 * B1 + 8 * i + ty, 32 * B0 + 8 * j + tx), call("maximum", ref("sum"), Const(0, f32))),
    )  # fmt: skip
    kernel = Kernel(
        "matmul",
        (array("a", M, K), array("b", K, N), array("bias", N), array("c", M, N, out=True), *sizes("M", "N", "K")),
        (N // 32, M // 16), 64, (ThreadDigit("tx", 1, 8), ThreadDigit("ty", 8, 8)),
        (Slot("k", 8), Slot("i", 2), Slot("j", 4)),
        (SharedBuffer("left", f32, (8, 16), (16, 1)), SharedBuffer("right", f32, (8, 32), (32, 1))), body,
    )  # fmt: skip
    a, b, bias = normal(48, 40), normal(40, 64, seed=1), normal(64, seed=2)
    expected = np.maximum(a.astype(np.float64) @ b + bias, 0)
    arrays = {"a": a, "b": b, "bias": bias, "c": np.zeros((48, 64), np.float32)}
    return Case(kernel, arrays, {"M": 48, "N": 64, "K": 40}, {"c": expected}, tolerance=1e-4)


# ---------------------------------------------------------------------------------------------- across blocks


def column_sum(elect: bool = True) -> Case:
    """Partial sums of chunks of 8 rows, finished by the block that arrives last for its columns."""
    column = 64 * B0 + T
    k = digit("k")
    chunks = M.ceildiv(8)
    finish = (
        Let("total", Const(0.0, f32)),
        For("k", chunks, (
            Load("part", "partial", (k, column), where=(N - 1 - column,)),
            Let("total", add(ref("total"), ref("part"))),
        )),
        Store("y", (column,), ref("total"), where=(N - 1 - column,)),
    )  # fmt: skip
    last: Expr = ref("last", dtypes.bool_) if elect else Inside((B1 - chunks + 1,))
    body = (
        Load("xv", "x", (8 * B1 + R, column), where=(M - 1 - 8 * B1 - R, N - 1 - column)),
        Reduce(("sum",), "sum", (ref("xv"),), ("r",)),
        Store("partial", (B1, column), ref("sum"), where=(N - 1 - column,)),
        *([Elect("last", "counter", (B0,), chunks)] if elect else []),
        If(last, finish),
    )
    kernel = Kernel(
        "column_sum",
        (array("x", M, N), array("partial", chunks, N, out=True), array("counter", N.ceildiv(64), dtype=i32, out=True),
         array("y", N, out=True), *sizes("M", "N")),
        (N.ceildiv(64), chunks), 64, (), (Slot("r", 8),), (), body,
    )  # fmt: skip
    x = normal(43, 150)
    arrays = {
        "x": x, "partial": np.full((6, 150), np.nan, np.float32),
        "counter": np.zeros(3, np.int32), "y": np.zeros(150, np.float32),
    }  # fmt: skip
    return Case(kernel, arrays, {"M": 43, "N": 150}, {"y": x.sum(0)}, tolerance=1e-4)


def histogram() -> Case:
    """Atomic updates at gathered places."""
    at = 64 * B0 + T
    body = (
        Load("bin", "x", (at,), where=(N - 1 - at,)),
        AtomicUpdate("y", (ref("bin", i32),), "sum", Const(1, i32), where=(N - 1 - at,)),
    )
    kernel = Kernel(
        "histogram", (array("x", N, dtype=i32), array("y", 10, dtype=i32, out=True), *sizes("N")),
        (N.ceildiv(64),), 64, (), (Slot("v", 1),), (), body,
    )  # fmt: skip
    x = np.random.default_rng(0).integers(0, 10, 300).astype(np.int32)
    expected = np.bincount(x, minlength=10).astype(np.int32)
    return Case(kernel, {"x": x, "y": np.zeros(10, np.int32)}, {"N": 300}, {"y": expected}, tolerance=0)


def gather() -> Case:
    """Rows of a table chosen by data, shifted by a floor division of slots and a block-dependent trip count."""
    at = 8 * T + V
    k = digit("k")
    body = (
        Load("row", "ids", (B0,)),
        Let("acc", Const(0.0, f32)),
        For("k", B0 + 1, (
            Load("value", "table", (ref("row", i32), (at + k) // 3)),
            Let("acc", add(ref("acc"), ref("value"))),
        )),
        Store("y", (B0, at), ref("acc")),
    )  # fmt: skip
    kernel = Kernel(
        "gather",
        (array("ids", M, dtype=i32), array("table", K, N), array("y", M, 256, out=True), *sizes("M", "N", "K")),
        (M,), 32, (), (Slot("v", 8),), (), body,
    )  # fmt: skip
    ids, table = np.array([2, 0, 4, 4, 1], np.int32), normal(5, 90)
    lanes = np.arange(256)
    expected = np.stack([sum(table[r, (lanes + s) // 3] for s in range(n + 1)) for n, r in enumerate(ids)])
    arrays = {"ids": ids, "table": table, "y": np.zeros((5, 256), np.float32)}
    return Case(kernel, arrays, {"M": 5, "N": 90, "K": 5}, {"y": expected})


def divergent() -> Case:
    """A branch that some threads take, with a value that survives it, and reserved words as names."""
    at = 64 * B0 + T
    body = (
        Load("lambda", "load", (at,)),
        If(Inside((LANE - 8,)), (Let("lambda", call("negative", ref("lambda"))),),
           (Let("lambda", add(ref("lambda"), Const(1.0, f32))),), uniform=False),
        Store("max", (at,), ref("lambda")),
    )  # fmt: skip
    kernel = Kernel(
        "divergent", (array("load", 192), array("max", 192, out=True)),
        (Affine.of(3),), 64, (ThreadDigit("lane", 1, 32),), (), (), body,
    )  # fmt: skip
    x = normal(192)
    expected = np.where(np.arange(192) % 32 >= 8, -x, x + 1)
    return Case(kernel, {"load": x, "max": np.zeros_like(x)}, {}, {"max": expected}, tolerance=0)


def window() -> Case:
    """Two rows of four results from a window of three rows of eight registers; a column of it backwards."""
    row, column = 2 * WARP, 4 * LANE
    body = (
        Load("xv", "x", (row + digit("r"), column + 4 * digit("c") + V), where=(132 - 8 - column,), vector=4),
        Take("here", ref("xv"), ((("r",), digit("q")), (("c", "v"), digit("h") + 1))),
        Take("below", ref("xv"), ((("r",), digit("q") + 1), (("c", "v"), digit("h") + 2))),
        Take("mirrored", ref("xv"), ((("r",), 1 - digit("q")), (("c", "v"), 7 - digit("h")))),
        Let("both", call("subtract", add(ref("here"), ref("below")), ref("mirrored"))),
        Store("y", (row + digit("q"), column + digit("h")), ref("both"), where=(132 - 8 - column,)),
    )
    kernel = Kernel(
        "window", (array("x", 9, 132), array("y", 8, 128, out=True)), (Affine.of(1),), 128,
        (ThreadDigit("lane", 1, 32), ThreadDigit("warp", 32, 4)),
        (Slot("q", 2), Slot("h", 4), Slot("r", 3), Slot("c", 2), Slot("v", 4)), (), body,
    )  # fmt: skip
    x = normal(9, 132)
    expected = np.zeros((8, 128), np.float32)
    for i in range(8):
        for j in range(0, 128, 4):
            first, block = i - i % 2, x[:, j : j + 8]
            rows = block[i, 1:5] + block[i + 1, 2:6] - block[first + 1 - i % 2, 7:3:-1]
            expected[i, j : j + 4] = rows
    return Case(kernel, {"x": x, "y": np.zeros_like(expected)}, {}, {"y": expected}, tolerance=0)


CASES: dict[str, Callable[[], Case]] = {
    f.__name__: f
    for f in (
        pointwise, halves, softmax, argmax, cumsum, prefix_in_order, transpose, matmul, column_sum,
        histogram, gather, divergent, window,
    )
}
