"""Bytes that become floats: what a warp writes has no gaps."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.lower.inspect import flatten
from polyfuse.strategies.situation import Situation
from polyfuse.testing import assert_equivalent


def normalised(x):
    return (x.astype(np.float32) / 255 - 0.5) * 4


WIDTHS = {
    "bytes to floats": (normalised, ("u8[N~4096, M~12288]",), 4),
    "halves to floats": (lambda x: x.astype(np.float32), ("bf16[N~4096, M~12288]",), 4),
    "floats to halves": (lambda x, y: x.astype(y.dtype), ("f32[N~4096, M~12288]", "bf16[2]"), 8),
    "floats where bytes say so": (lambda c, x: np.where(c, x, 0), ("bool[N~50000000]", "f32[N~50000000]"), 4),
    "halves": (lambda x: x * 2, ("bf16[N~50000000]",), 8),
}


@pytest.mark.parametrize("case", WIDTHS)
def test_vectors_are_as_wide_as_what_is_written_allows(case: str) -> None:
    function, specs, width = WIDTHS[case]
    (kernel,) = pf.jit(function).plan(*map(pf.spec, specs), target="h200").kernels
    assert dict(kernel.parameters)["vector"] == width


@pytest.mark.parametrize("function", [lambda x: x.sum(axis=1), lambda x: x.argmax(axis=1)])
def test_few_results_of_wide_elements_leave_loads_as_they_are(function) -> None:
    (kernel,) = pf.jit(function).plan(pf.spec("bf16[N~16384, M~8192]"), target="h200").kernels
    assert dict(kernel.parameters)["vector"] == 8


def test_indices_of_rows_do_not_narrow_what_a_thread_takes_of_them() -> None:
    (kernel,) = pf.jit(lambda t, i: t[i] * 2).plan(pf.spec("f32[V, 4096]"), pf.spec("i64[K]"), target="h200").kernels
    assert dict(kernel.parameters)["unroll"] == 2


def test_planes_of_pixels_are_read_pixel_by_pixel() -> None:
    plan = pf.jit(lambda x: normalised(x).transpose(2, 0, 1)).plan(pf.spec("u8[H~4096, W~4096, 3]"), target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.parameters)["columns"] == 3
    loose = pf.jit(lambda x: normalised(x).transpose(2, 0, 1)).plan(
        pf.spec("u8[H~4096, W~4096, 3]"), target="h200", fuse=False
    )
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"H": 6, "W": 42}])


def opponent(x):
    r, g, b = (x[..., k].astype(np.float32) for k in range(3))
    return np.stack([r + g + b, r - g, r + g - 2 * b]).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize(("spec", "vector"), [("u8[H~4096, W~4096, 3]", 4), ("u8[H~4097, W~4095, 3]", 1)])
def test_planes_that_begin_with_whole_vectors_are_written_in_vectors(spec: str, vector: int) -> None:
    """Pieces of one array behind each other are rows: 133 us of 67 million pixels on an H200 byte by byte."""
    plan = pf.jit(opponent).plan(pf.spec(spec), target="h200")
    (kernel,) = plan.kernels
    source = plan.source()
    (tile,) = set(re.findall(r"store\(\w+, \w+, (\w+)", source.partition("    else:")[0]))
    (layout,) = re.findall(rf"{tile} = Tile\((.*)\)", source)
    assert (f"vector={vector}" in layout) is (vector > 1), (layout, kernel.parameters)


def blended(front, back):
    share = front[..., 3:].astype(np.float32) / 255
    return (front[..., :3] * share + back * (1 - share) + 0.5).astype(np.uint8)


PIXELS = {
    "blended": (blended, ("u8[H~2048, W~2048, 4]", "u8[H, W, 3]"), 8),
    "turned around": (lambda x: x[..., ::-1].copy(), ("u8[H~2048, W~2048, 3]",), 8),
    "without the last": (lambda x: x[..., :3].copy(), ("f16[H~2048, W~2048, 4]",), 4),
    "scaled": (lambda x, s: (x * s).astype(np.uint8), ("u8[H~2048, W~2048, 3]", "f32[3]"), 8),
}


def test_points_that_three_arrays_make_lie_side_by_side_in_a_thread() -> None:
    """34 million on an H200: 257 us where a thread has two that are far apart, 195 where they are neighbours."""
    specs = [pf.spec("f32[N~30000000]")] * 3
    loose, plan = (
        pf.jit(lambda *xs: np.stack(xs, axis=-1) * 0.5).plan(*specs, target="h200", fuse=fuse) for fuse in (False, True)
    )
    (kernel,) = plan.kernels
    taken = dict(kernel.parameters)
    assert (taken["columns"], taken["vector"], taken["unroll"]) == (3, 2, 1)
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": 1026}])


@pytest.mark.parametrize("case", PIXELS)
def test_a_thread_takes_whole_pixels(case: str) -> None:
    function, specs, pixels = PIXELS[case]
    loose, plan = (
        pf.jit(function).plan(*map(pf.spec, specs), target="h200", fuse=fuse) for fuse in (False, True)
    )
    (kernel,) = plan.kernels
    taken = dict(kernel.parameters)
    assert (taken["columns"], taken["vector"]) == (3, pixels)
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"H": 6, "W": 32}])


@pytest.mark.ptx
@pytest.mark.parametrize(("case", "loads", "stores"), [("blended", 3, 3), ("turned around", 3, 3), ("scaled", 3, 3)])
def test_pixels_of_three_bytes_move_in_accesses_of_eight(case: str, loads: int, stores: int) -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.codegen.names import function_name
    from polyfuse.codegen.printer import print_kernel

    function, specs, _ = PIXELS[case]
    shapes = [spec.replace("H~2048, W~2048", "2048, 2048").replace("H, W", "2048, 2048") for spec in specs]
    (launch,) = pf.jit(function).plan(*map(pf.spec, shapes), target="h200").launches
    k = launch.kernel
    name = function_name(k.name)
    ptx = compile_kernel(print_kernel(k), name, k.parameters, k.threads, (9, 0), index_bits=k.index_bits).ptx
    assert ptx.count("ld.global.nc.v2.u32") == loads
    assert ptx.count("ld.global.nc.v4.u32") == (2 if case == "blended" else 0)  # pixels of four bytes
    assert ptx.count("st.global.v2.u32") == stores == ptx.count("st.global")
    assert not any(f"ld.global.nc.{word}" in ptx for word in ("u8", "u16", "u32"))


def test_elements_that_are_repeated_are_read_once_and_written_in_whole_vectors() -> None:
    """Each pixel four times: a thread reads two neighbours and writes pairs of them, and both rows of a block read the
    same."""
    function = pf.jit(lambda x: np.repeat(np.repeat(x, 2, axis=1), 2, axis=2))
    specs = pf.spec("f32[N~32768, 64, 64]")
    plan = function.plan(specs, target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.parameters)["vector"] == 2 and dict(kernel.parameters)["columns"] in (2, 4)
    assert "span=4" in plan.source() and "vector=2" in plan.source()
    assert_equivalent(function.plan(specs, target="h200", fuse=False), plan, seeds=(0,), sizes=[{"N": 3}])


def test_what_distant_blocks_read_again_comes_from_memory_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes of results of one plane of reads: where blocks of one plane follow those of another, the cache has
    forgotten what both read.  Blocks of the same place of all planes follow each other."""
    specs = pf.spec("f32[8192, 8192]"), pf.spec("f32[M~32]")
    once = (8192 * 8192 * 4) * 33 / 4.28e12

    def seconds() -> float:
        (kernel,) = pf.jit(lambda x, w: x[None] * w[:, None, None]).plan(*specs, target="h200").kernels
        return kernel.seconds

    assert seconds() < 1.15 * once
    monkeypatch.setattr(Situation, "_read_again", {})
    assert seconds() > 1.5 * once


def test_every_element_is_computed() -> None:
    spec = pf.spec("u8[N~50000000]")
    loose, plan = (pf.jit(normalised).plan(spec, target="h200", fuse=fuse) for fuse in (False, True))
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": n} for n in (1, 4095, 4096, 5003)])


@pytest.mark.parametrize(("dtype", "tile"), [("f32", {"tile": 64, "vector": 4}), ("bf16", {"tile": 128, "vector": 8})])
def test_tiles_that_are_transposed_have_lines_of_any_elements(dtype: str, tile: dict[str, int]) -> None:
    function = pf.jit(lambda x: x.T * 2)
    plan = function.plan(pf.spec(f"{dtype}[N~8192, M~8192]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "tiles" and tile.items() <= dict(kernel.parameters).items()
    loose = function.plan(pf.spec(f"{dtype}[N~8192, M~8192]"), target="h200", fuse=False)
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": 72, "M": 136}])


def test_positions_of_extremes_are_found_by_fewer_threads() -> None:
    """Threads take as long to compare what they found as to look for it."""
    for function in (lambda x: x.argmax(axis=1), lambda x: (x.max(axis=1), x.argmax(axis=1))):
        (kernel,) = pf.jit(function).plan(pf.spec("f32[N~16384, M~16384]"), target="h200").kernels
        assert kernel.strategy == "rows" and dict(kernel.parameters)["lanes"] == 256


@pytest.mark.parametrize(("spec", "length"), [("f16[N~8, M~700]", 600), ("bf16[N~300, M~9001]", 601)])
def test_narrow_prefixes_are_verified(spec: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a prefix stores is rounded in each trip, and nothing of it is left behind the loop."""
    monkeypatch.setenv("POLYFUSE_VERIFY", "1")
    function = pf.jit(lambda x: np.maximum.accumulate(x, axis=1))
    loose, plan = (
        function.plan(pf.spec(spec), target="h200", fuse=fuse, batch_invariant=fuse) for fuse in (False, True)
    )
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": 3, "M": length}])


NARROW_COLUMNS = {
    "bytes": ("u8[N~20001, M~8191]", {"threads": 1024, "lanes": 32}),
    "halves": ("bf16[N~20001, M~8191]", {"threads": 512, "lanes": 32}),
    "halves in shares": ("f16[N~20001, M~8191]", {"threads": 256, "lanes": 128, "share": 304}),
}


@pytest.mark.parametrize("case", NARROW_COLUMNS)
def test_sums_of_narrow_columns_test_no_row_but_the_last(case: str) -> None:
    """A mask for each byte is as much work as the byte: whole trips, or whole shares, have none."""
    spec, tile = NARROW_COLUMNS[case]
    plan = pf.jit(lambda x: x.sum(axis=0), tiles={"sum": tile}).plan(pf.spec(spec), target="h200")
    loads = [op for launch in plan.launches for op in flatten(launch.kernel.body) if isinstance(op, ir.Load)]
    assert any(op.array == "x_in" and not any("N" in str(c) for c in op.where) for op in loads)
    loose = pf.jit(lambda x: x.sum(axis=0), fuse=False).plan(pf.spec(spec), target="h200")
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": 700, "M": 39}])
