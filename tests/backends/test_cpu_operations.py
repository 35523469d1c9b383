"""Memory, reductions, scans, contractions and atomics of the CPU runtime."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyfuse.backends.numba_cpu.fragments import accesses
from polyfuse.scalars import MONOIDS
from tests.backends.cpu_kernels import address, array, build, size

Array = np.ndarray[Any, Any]
DTYPES = [np.dtype(d) for d in "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split()] + [np.dtype(ml_dtypes.bfloat16)]


def sample(dtype: np.dtype[Any], shape: int | tuple[int, ...], seed: int = 7) -> Array:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


# ---------------------------------------------------------------------------------------------- masked tails


@pytest.fixture
def guarded() -> Iterator[Any]:
    """``make(values)``: a copy of an array that ends where unreadable memory starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.PAGESIZE
    kept: list[Any] = []

    def make(values: Array) -> Array:
        pages = -(-values.nbytes // page) + 1
        region = mmap.mmap(-1, pages * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(region))
        assert libc.mprotect(ctypes.c_void_p(base + (pages - 1) * page), page, 0) == 0
        start = (pages - 1) * page - values.nbytes
        copy = np.frombuffer(region, values.dtype, values.size, start)
        copy[:] = values
        kept.append((region, libc, base, pages))
        return copy

    yield make
    for region, _, base, pages in kept:
        libc.mprotect(ctypes.c_void_p(base + (pages - 1) * page), page, mmap.PROT_READ | mmap.PROT_WRITE)
        del region


MASKED = """
T = Tile((3, 40), (40, 1), vector=8)
def kernel(x, y, n):
    here = inside(n - 1 - 40 * slots((3, 40), 0) - slots((3, 40), 1))
    store(y, 0, T, load(x, 0, T, mask=here, other=1), mask=here)
"""
SCATTERED = """
T = Tile((40,), (0,))
def kernel(x, y, n):
    k = slots((40,), 0)
    here = inside(n - 1 - k)
    store(y, n - 1 - k, T, load(x, n - 1 - k, T, mask=here), mask=here)
"""
CELLS = """
CELL, ROW = Tile((1,), (0,)), Tile((9,), (1,))
def kernel(x, y, n):
    for k in range(4):
        here = k < n
        store(y, k, CELL, load(x, k, CELL, mask=here, other=1), mask=here)
    for k in range(4):
        here = inside(n - 5 - 9 * k - slots((9,), 0))
        store(y, 4 + 9 * k, ROW, load(x, 4 + 9 * k, ROW, mask=here), mask=here)
"""
STRIDED = """
T = Tile((40,), (STRIDE,))
def kernel(x, y, n):
    store(y, START, T, load(x, START, T))
"""


@pytest.mark.parametrize("instructions", [True, False], ids=["instructions", "loops"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("source", [MASKED, SCATTERED, CELLS], ids=["vectors", "scatter", "cells"])
def test_masked_slots_touch_no_memory(
    dtype: np.dtype[Any], source: str, instructions: bool, guarded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not instructions:
        none = accesses.AccessInstructions(accesses.NEVER, accesses.NEVER, accesses.NEVER)
        monkeypatch.setattr(accesses, "INSTRUCTIONS", none)
    kernel = build(source, [array("x", dtype), array("y", dtype, readonly=False), size("n")])
    for count in (1, 7, 31, 32, 33, 39):
        x, y = guarded(sample(dtype, count)), guarded(np.zeros(count, dtype))
        kernel.run((1,), [address(x), address(y), count])
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("stride", [-3, -2, -1, 1, 2, 3, 4, 5, 17])
@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("i1"), np.dtype("f8")], ids=str)
def test_strided_rows_read_nothing_beyond_their_last_slot(stride: int, dtype: np.dtype[Any], guarded: Any) -> None:
    span = 39 * abs(stride) + 1
    start = span - 1 if stride < 0 else 0
    source = STRIDED.replace("STRIDE", str(stride)).replace("START", str(start))
    kernel = build(source, [array("x", dtype), array("y", dtype, readonly=False), size("n")])
    x, y = guarded(sample(dtype, span)), guarded(np.zeros(span, dtype))
    kernel.run((1,), [address(x), address(y), span])
    want = np.zeros(span, dtype)
    want[:: abs(stride)] = x[:: abs(stride)]
    np.testing.assert_array_equal(y, want)


def test_masked_slots_get_the_other_value() -> None:
    source = """
T = Tile((40,), (1,))
def kernel(x, y):
    k = slots((40,), 0)
    store(y, 0, T, load(x, 0, T, mask=k < 5, other=-INF))
"""
    kernel = build(source, [array("x", np.dtype("f4")), array("y", np.dtype("f4"), readonly=False)])
    x, y = np.arange(5, dtype="f4"), np.zeros(40, "f4")
    kernel.run((1,), [address(x), address(y)])
    np.testing.assert_array_equal(y, [*x, *[-np.inf] * 35])


# ---------------------------------------------------------------------------------------------- layouts


def test_strides_of_launch_time_sizes() -> None:
    source = """
COLUMNS = Tile((4, 8), (Size("N"), 2 * Size("M")))
ROWS = Tile((4, 8), (8, 1), vector=8)
def kernel(x, y, N, M):
    store(y, 0, ROWS, load(advance(x, 3), N - N, COLUMNS, (N, M)))
"""
    kernel = build(
        source, [array("x", np.dtype("i4")), array("y", np.dtype("i4"), readonly=False), size("N"), size("M")]
    )
    x, y = np.arange(4000, dtype="i4"), np.zeros((4, 8), "i4")
    kernel.run((1,), [address(x), address(y), 100, 7])
    np.testing.assert_array_equal(y, 3 + 100 * np.arange(4)[:, None] + 14 * np.arange(8))


def test_gather_by_rows_and_by_slots() -> None:
    source = """
ROWS = Tile((6, 40), (0, 1))
SLOTS = Tile((6, 40), (0, 0))
LIST = Tile((6, 1), (1, 0))
def kernel(x, index, rows, slots_out, n):
    at = load(index, 0, LIST)
    row = cast(at, int32) * n
    k = slots((6, 40), 1)
    store(rows, 40 * slots((6, 40), 0), ROWS, load(x, row, ROWS))
    store(slots_out, 40 * slots((6, 40), 0) + k, SLOTS, load(x, row + 2 * k, SLOTS))
"""
    f4 = np.dtype("f4")
    outputs = [array("rows", f4, False), array("slots_out", f4, False)]
    kernel = build(source, [array("x", f4), array("index", np.dtype("i8")), *outputs, size("n")])
    x = np.random.default_rng(0).normal(size=(20, 100)).astype("f4")
    index = np.array([3, 0, 19, 7, 7, 1])
    rows, slots = np.zeros((2, 6, 40), "f4")
    kernel.run((1,), [address(x), address(index), address(rows), address(slots), 100])
    np.testing.assert_array_equal(rows, x[index, :40])
    np.testing.assert_array_equal(slots, x[index, :80:2])


def test_broadcasting_meets_by_axis() -> None:
    source = """
A = Tile((3, 1, 5), (5, 0, 1))
B = Tile((1, 4, 1), (0, 1, 0))
C = Tile((3, 4, 5), (20, 5, 1))
def kernel(a, b, c):
    store(c, 0, C, load(a, 0, A) * load(b, 0, B) + load(b, 2, Tile1))
""".replace("Tile1", "POINT").replace("A = Tile", "POINT = Tile((1,), (0,))\nA = Tile", 1)
    f4 = np.dtype("f4")
    kernel = build(source, [array("a", f4), array("b", f4), array("c", f4, False)])
    a, b, c = np.arange(15, dtype="f4"), np.arange(1, 5, dtype="f4"), np.zeros((3, 4, 5), "f4")
    kernel.run((1,), [address(a), address(b), address(c)])
    np.testing.assert_array_equal(c, a.reshape(3, 1, 5) * b.reshape(1, 4, 1) + b[2])


@pytest.mark.parametrize("shape", [(32, 32), (8, 64), (12, 40), (16, 1, 32), (3, 5)])
@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("?"), np.dtype("f2")], ids=str)
def test_tiles_contiguous_along_an_earlier_axis(shape: tuple[int, ...], dtype: np.dtype[Any], guarded: Any) -> None:
    rows, columns = shape[0], shape[-1]
    strides = "(1, Size('P'))" if len(shape) == 2 else "(1, 0, Size('P'))"
    source = f"""
ACROSS = Tile({shape}, {strides})
ALONG = Tile({shape}, {(columns, 1) if len(shape) == 2 else (columns, 0, 1)}, vector={columns})
def kernel(x, y, z, m, n, P):
    i = slots({shape}, 0)
    j = slots({shape}, {len(shape) - 1})
    here = inside(m - 1 - i, n - 1 - j)
    v = load(x, 0, ACROSS, (P,), mask=here, other=1)
    store(y, 0, ALONG, v)
    store(z, 0, ACROSS, v, (P,), mask=here)
    if m == {rows}:
        if n == {columns}:
            store(z, 0, ACROSS, load(x, 0, ACROSS, (P,)), (P,))
"""
    arrays = [array("x", dtype), array("y", dtype, False), array("z", dtype, False)]
    kernel = build(source, [*arrays, size("m"), size("n"), size("P")])
    for m, n in ((rows, columns), (rows - 1, columns), (rows, columns - 2), (1, 1)):
        pitch = m + 3
        x = guarded(sample(dtype, (n - 1) * pitch + m))
        y, z = np.zeros((rows, columns), dtype), guarded(np.zeros(x.size, dtype))
        kernel.run((1,), [address(x), address(y), address(z), m, n, pitch])
        matrix = np.lib.stride_tricks.as_strided(x, (m, n), (x.itemsize, pitch * x.itemsize))
        want = np.ones((rows, columns), dtype)
        want[:m, :n] = matrix
        np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(np.lib.stride_tricks.as_strided(z, matrix.shape, matrix.strides), matrix)


def test_scratch_memory_up_to_a_megabyte() -> None:
    source = """
ROW = Tile((64,), (1,), vector=16)
def kernel(x, y):
    small = shared(int32, 64)
    large = shared(float32, COUNT)
    at = COUNT * block(0)
    store(small, 0, ROW, full((64,), 5, int32))
    for k in range(COUNT // 64):
        store(large, 64 * k, ROW, load(x, at + 64 * k, ROW))
    barrier()
    for k in range(COUNT // 64):
        store(y, at + 64 * k, ROW, load(large, COUNT - 64 - 64 * k, ROW) + cast(load(small, 0, ROW), float32))
"""
    f4 = np.dtype("f4")
    for count in (128, 1 << 18):
        kernel = build(source.replace("COUNT", str(count)), [array("x", f4), array("y", f4, False)])
        x = np.random.default_rng(0).normal(size=(6, count)).astype("f4")
        y = np.zeros_like(x)
        kernel.run((6,), [address(x), address(y)])
        np.testing.assert_array_equal(y, x.reshape(6, -1, 64)[:, ::-1].reshape(6, -1) + 5)


@pytest.mark.parametrize("offset", [0, 4])
def test_nontemporal_stores_on_and_off_cache_lines(offset: int) -> None:
    source = """
T = Tile((4, 64), (64, 1), vector=64)
def kernel(x, y):
    store(y, 256 * block(0), T, load(x, 256 * block(0), T) * 2)
"""
    kernel = build(source, [array("x", np.dtype("f4")), array("y", np.dtype("f4"), False)], nontemporal=True)
    x = np.arange(2560, dtype="f4")
    memory = np.zeros(2560 * 4 + 128, "u1")
    start = -address(memory) % 64 + offset
    y = memory[start : start + 2560 * 4].view("f4")
    kernel.run((10,), [address(x), address(y)])
    np.testing.assert_array_equal(y, 2 * x)


# ---------------------------------------------------------------------------------------------- reductions


def balanced(values: list[Any], merge: Any) -> Any:
    """The tree of docs/fragments.md: neighbours first, an odd one moves up."""
    while len(values) > 1:
        pairs = [merge(values[k], values[k + 1]) for k in range(0, len(values) - 1, 2)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


MERGES: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "any": np.logical_or, "all": np.logical_and, "bitor": np.bitwise_or, "bitand": np.bitwise_and,
    "bitxor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reductions_are_balanced_trees_bit_by_bit(dtype: np.dtype[Any]) -> None:
    compute = np.dtype("f4") if dtype.itemsize == 2 and dtype.kind in "fV" else dtype
    kind = "f" if compute.kind == "f" else dtype.kind
    monoids = [m.name for m in MONOIDS.values() if kind in m.kinds and m.state == 1]
    shape = (3, 4, 37)
    cases = [((0,), (1, 4, 37)), ((2,), (3, 4, 1)), ((1, 2), (3, 1, 1)), ((0, 1, 2), (1, 1, 1)), ((0, 2), (1, 4, 1))]
    lines, outputs, parameters = ["X = Tile((3, 4, 37), (148, 37, 1), vector=37)"], [], [array("x", dtype)]
    body = ["    v = load(x, 0, X)"]
    for number, (axes, kept) in enumerate(cases):
        strides = (kept[1] * kept[2], kept[2], 1)
        lines.append(f"K{number} = Tile({kept}, {strides})")
        for monoid in monoids:
            name = f"out{len(outputs)}"
            outputs.append((monoid, axes, np.zeros(kept, compute)))
            parameters.append(array(name, compute, False))
            body.append(f"    store({name}, 0, K{number}, reduce_{monoid}(v, {axes}))")
    header = f"def kernel(x, {', '.join(f'out{k}' for k in range(len(outputs)))}):"
    kernel = build("\n".join([*lines, header, *body]), parameters)
    rng = np.random.default_rng(3)
    x = rng.normal(1, 0.1, shape).astype(dtype) if kind == "f" else rng.integers(0, 120, shape).astype(dtype)
    kernel.run((1,), [address(x), *(address(out) for *_, out in outputs)])
    wide = x.astype(compute)
    for monoid, axes, out in outputs:
        merge = MERGES["any" if monoid == "bitxor" and kind == "b" else monoid]
        merge = np.logical_xor if monoid == "bitxor" and kind == "b" else merge
        for kept_index in np.ndindex(out.shape):
            picked = wide[tuple(slice(None) if d in axes else i for d, i in enumerate(kept_index))].ravel()
            with np.errstate(all="ignore"):
                want = balanced(list(picked), merge)
            assert out[kept_index] == want, (monoid, axes, kept_index)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 31, 33, 40, 64, 65, 97, 128, 200])
def test_float_sums_of_any_length_are_balanced_trees(count: int) -> None:
    source = f"""
X = Tile(({count},), (1,))
P = Tile((1,), (0,))
def kernel(x, y):
    store(y, 0, P, reduce_sum(load(x, 0, X), (0,)))
"""
    kernel = build(source, [array("x", np.dtype("f4")), array("y", np.dtype("f4"), False)])
    x, y = np.random.default_rng(count).normal(size=count).astype("f4"), np.zeros(1, "f4")
    kernel.run((1,), [address(x), address(y)])
    assert y[0] == balanced(list(x), np.add)


ARG = """
X = Tile((4, 50), (50, 1))
R = Tile((4, 1), (1, 0))
def kernel(x, best, at):
    v, k = reduce_NAME(load(x, 0, X), slots((4, 50), 1), (1,))
    v, k = threads_NAME(v, k, 0, 1)
    store(best, 0, R, v)
    store(at, 0, R, k)
"""


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.dtype(d) for d in ("f4", "f8", "i4", "u1", "?")], ids=str)
def test_arguments_of_extrema_as_numpy_finds_them(name: str, dtype: np.dtype[Any]) -> None:
    outputs = [array("best", dtype, False), array("at", np.dtype("i4"), False)]
    kernel = build(ARG.replace("NAME", name), [array("x", dtype), *outputs])
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2 if dtype.kind == "b" else 9, (4, 50)).astype(dtype)
    if dtype.kind == "f":
        x[1, [30, 17, 44]] = np.nan
        x[2] = -np.inf if name == "argmax" else np.inf
        x[3, 7], x[3, 3] = 0.0, -0.0
    best, at = np.zeros(4, dtype), np.zeros(4, "i4")
    kernel.run((1,), [address(x), address(best), address(at)])
    want = getattr(np, name)(x, axis=1)
    np.testing.assert_array_equal(at, want)
    np.testing.assert_array_equal(best, x[np.arange(4), want])


def test_nan_propagates_through_max_but_not_fmax() -> None:
    source = """
X = Tile((70,), (1,))
P = Tile((1,), (0,))
def kernel(x, y):
    v = load(x, 0, X)
    store(y, 0, P, reduce_max(v, (0,)))
    store(y, 1, P, reduce_fmax(v, (0,)))
    store(y, 2, P, reduce_min(v, (0,)))
    store(y, 3, P, reduce_fmin(v, (0,)))
"""
    kernel = build(source, [array("x", np.dtype("f4")), array("y", np.dtype("f4"), False)])
    for position in (0, 33, 69):
        x, y = np.arange(70, dtype="f4"), np.zeros(4, "f4")
        x[position] = np.nan
        kernel.run((1,), [address(x), address(y)])
        np.testing.assert_array_equal(y, [np.nan, np.nanmax(x), np.nan, np.nanmin(x)])


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8"), np.dtype("i4")], ids=str)
def test_contractions_are_chains_of_fused_multiply_adds(dtype: np.dtype[Any]) -> None:
    source = """
X = Tile((6, 7, 1), (7, 1, 0))
Y = Tile((1, 7, 40), (0, 40, 1))
Z = Tile((6, 1, 40), (40, 0, 1))
def kernel(x, y, z):
    store(z, 0, Z, contract(load(z, 0, Z), load(x, 0, X), load(y, 0, Y), (1,)))
"""
    kernel = build(source, [array("x", dtype), array("y", dtype), array("z", dtype, False)])
    rng = np.random.default_rng(8)
    x, y, z = (rng.integers(-9, 9, s).astype(dtype) for s in ((6, 7), (7, 40), (6, 40)))
    if dtype.kind == "f":
        x = (x / 7).astype(dtype)
    want = z.astype(np.longdouble if dtype == "f8" else "f8")
    for k in range(7):
        want = (want + x[:, k, None].astype(want.dtype) * y[k]).astype(dtype).astype(want.dtype)
    kernel.run((1,), [address(x), address(y), address(z)])
    np.testing.assert_array_equal(z, want.astype(dtype))


def test_a_contraction_along_lanes_sums_them_as_a_tree() -> None:
    source = """
X = Tile((3, 5, 70), (350, 70, 1))
R = Tile((3, 1, 1), (1, 0, 0))
def kernel(x, y, z):
    store(z, 0, R, contract(load(z, 0, R), load(x, 0, X), load(y, 0, X), (1, 2)))
"""
    f4 = np.dtype("f4")
    kernel = build(source, [array("x", f4), array("y", f4), array("z", f4, False)])
    x, y = np.random.default_rng(6).normal(size=(2, 3, 5, 70)).astype("f4")
    z = np.arange(3, dtype="f4")
    chains = x[:, 0] * y[:, 0]
    for k in range(1, 5):
        chains = (x[:, k].astype("f8") * y[:, k] + chains).astype("f4")
    want = [z[i] + balanced(list(chains[i]), np.add) for i in range(3)]
    kernel.run((1,), [address(x), address(y), address(z)])
    assert z.tolist() == want


# ---------------------------------------------------------------------------------------------- registers


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("i8"), np.dtype("u1")], ids=str)
def test_registers_taken_at_other_slots_forwards_and_backwards(dtype: np.dtype[Any]) -> None:
    source = """
X = Tile((3, 40), (40, 1))
Y = Tile((2, 33), (33, 1))
Z = Tile((3, 5), (5, 1))
INNER = Tile((2, 33), (40, 1))
BACK = Tile((3, 5), (-40, -2))
def kernel(x, y, z):
    held = load(x, 0, X)
    store(y, 0, Y, take(held, 44, INNER))
    store(z, 0, Z, take(held, 119, BACK))
"""
    kernel = build(source, [array("x", dtype), array("y", dtype, False), array("z", dtype, False)])
    x = sample(dtype, (3, 40))
    y, z = np.zeros((2, 33), dtype), np.zeros((3, 5), dtype)
    kernel.run((1,), [address(x), address(y), address(z)])
    np.testing.assert_array_equal(y, x[1:, 4:37])
    np.testing.assert_array_equal(z, x[::-1, 39:30:-2])


# ---------------------------------------------------------------------------------------------- scans


@pytest.mark.parametrize("monoid", ["sum", "max", "min", "prod", "bitxor"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_along_every_axis(monoid: str, axis: int, exclusive: bool, reverse: bool) -> None:
    source = f"""
X = Tile((3, 5, 45), (225, 45, 1))
T = Tile({tuple(1 if d == axis else n for d, n in enumerate((3, 5, 45)))}, (225, 45, 1))
def kernel(x, y, t):
    prefix, total = scan_{monoid}(load(x, 0, X), {axis}, 0, 1, {exclusive}, {reverse})
    store(y, 0, X, prefix)
    store(t, 0, T, total)
"""
    i4 = np.dtype("i4")
    kernel = build(source, [array("x", i4), array("y", i4, False), array("t", i4, False)])
    x = np.random.default_rng(2).integers(-3, 4, (3, 5, 45)).astype("i4")
    y, t = np.zeros_like(x), np.zeros_like(x)
    kernel.run((1,), [address(x), address(y), address(t)])
    ordered = np.flip(x, axis) if reverse else x
    inclusive = MERGES[monoid].accumulate(ordered, axis=axis, dtype="i4")
    want = inclusive
    if exclusive:
        neutral = {"sum": 0, "max": -(2**31), "min": 2**31 - 1, "prod": 1, "bitxor": 0}[monoid]
        want = np.roll(inclusive, 1, axis)
        want[tuple(0 if d == axis else slice(None) for d in range(3))] = neutral
    np.testing.assert_array_equal(y, np.flip(want, axis) if reverse else want)
    first = tuple(slice(0, 1) if d == axis else slice(None) for d in range(3))
    last = tuple(slice(-1, None) if d == axis else slice(None) for d in range(3))
    np.testing.assert_array_equal(t[first], inclusive[last])


# ---------------------------------------------------------------------------------------------- blocks


def test_elect_is_true_once_per_group_in_the_last_block() -> None:
    source = """
P = Tile((1,), (0,))
ROW = Tile((64,), (1,))
def kernel(partial, total, counter, count):
    group = block(0)
    store(partial, count * group + block(1), P, cast(block(1) + 1, int64))
    if elect(counter, group, count):
        acc = full((1,), 0, int64)
        for k in range(count):
            acc = acc + load(partial, count * group + k, P)
        store(total, group, P, acc + load(total, group, P))
"""
    i8, i4 = np.dtype("i8"), np.dtype("i4")
    parameters = [array("partial", i8, False), array("total", i8, False), array("counter", i4, False), size("count")]
    kernel = build(source, parameters)
    groups, count = 5, 700
    counter, total = np.zeros(groups, "i4"), np.zeros(groups, "i8")
    for launch in range(1, 21):
        partial = np.full(groups * count, -1, "i8")
        kernel.run((groups, count), [address(partial), address(total), address(counter), count])
        assert (total == launch * count * (count + 1) // 2).all()
        assert not counter.any()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "b"], ids=str)
def test_atomic_updates_of_all_blocks_arrive(dtype: np.dtype[Any]) -> None:
    source = """
T = Tile((8,), (1,))
def kernel(y, most, n):
    k = slots((8,), 0)
    atomic("sum", y, 0, T, cast(k % 2, TYPE), mask=k < n)
    atomic("max", most, k // 4, Z, cast(block(0) % 50 + k, TYPE))
Z = Tile((8,), (0,))
"""
    compute = "float32" if dtype.itemsize == 2 and dtype.kind in "fV" else None
    names = {"i": "int", "u": "uint", "f": "float"}
    name = compute or f"{names[dtype.kind]}{8 * dtype.itemsize}"
    kernel = build(source.replace("TYPE", name), [array("y", dtype, False), array("most", dtype, False), size("n")])
    y, most = np.zeros(8, dtype), np.zeros(2, dtype)
    blocks = 100
    kernel.run((blocks,), [address(y), address(most), 6])
    np.testing.assert_array_equal(y.astype("f4"), [0, blocks, 0, blocks, 0, blocks, 0, 0])
    np.testing.assert_array_equal(most.astype("f4"), [52, 56])


def test_atomic_monoids_that_need_a_retry_loop() -> None:
    source = """
P = Tile((1,), (0,))
def kernel(y, flag):
    atomic("prod", y, 0, P, full((1,), 2, float32))
    atomic("min", y, 1, P, cast(block(0), float32))
    atomic("any", flag, 0, P, full((1,), 1, boolean))
"""
    kernel = build(source, [array("y", np.dtype("f4"), False), array("flag", np.dtype("?"), False)])
    y, flag = np.array([1, 1e9], "f4"), np.zeros(1, "?")
    kernel.run((60,), [address(y), address(flag)])
    assert y.tolist() == [2.0**60, 0.0]
    assert flag[0]
