"""Rows of a few elements that are read in another order than written pass through tiles in shared memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import compile_kernel
from polyfuse.codegen.printer import print_kernel
from polyfuse.codegen.strides import element_strides
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def turned(x):
    return np.rot90(x)


def swapped(x):
    return x.transpose(1, 0, 2)


def halves(x):
    return x.transpose(1, 0, 2) * 0.5


def with_bias(x, y, b):
    return np.maximum(x.swapaxes(0, 1) + y, b)


def batches(x):
    return x.transpose(0, 2, 1, 3)


def back(x):
    return np.rot90(x, -1)


def both_flipped(x):
    return x[::-1, ::-1].swapaxes(0, 1)


def normalised(x):
    return (np.swapaxes(x, 0, 1).astype(np.float32)) / 255


def planes_last(x):
    return x.transpose(2, 1, 0, 3)[:, ::-1]


CASES: tuple[tuple[Callable[..., Any], tuple[str, ...], float, tuple[dict[str, int], ...]], ...] = (
    (turned, ("u8[H~9001, W~7001, 3]",), 2.0, ({"H": 71, "W": 133}, {"H": 1, "W": 5})),
    (turned, ("u8[H~9000, W~7000, 3]",), 1.6, ({"H": 72, "W": 136}, {"H": 136, "W": 8})),
    (swapped, ("u8[H~9000, W~7000, 2]",), 2.1, ({"H": 72, "W": 136},)),
    (swapped, ("u8[H~9000, W~7000, 4]",), 1.7, ({"H": 72, "W": 136},)),
    (halves, ("bf16[H~9000, W~7000, 3]",), 1.2, ({"H": 72, "W": 136},)),
    (halves, ("f16[H~9001, W~7001, 4]",), 1.4, ({"H": 71, "W": 133},)),
    (swapped, ("f32[H~9000, W~7000, 2]",), 1.1, ({"H": 72, "W": 136},)),
    (swapped, ("f32[H~8000, W~7000, C~3]",), 1.1, ({"H": 72, "W": 136, "C": 3},)),
    (with_bias, ("f32[H~9000, W~7000, 2]", "f32[W~7000, H~9000, 2]", "f32[2]"), 1.1, ({"H": 72, "W": 136},)),
    (batches, ("bf16[B~16, H~2000, W~3000, 3]",), 1.2, ({"B": 2, "H": 72, "W": 136},)),
    (back, ("u8[H~9000, W~7000, 3]",), 1.3, ({"H": 72, "W": 136}, {"H": 200, "W": 72})),
    (both_flipped, ("u8[H~9000, W~7000, 3]",), 1.3, ({"H": 72, "W": 136},)),
    (both_flipped, ("u8[H~9002, W~7002, 3]",), 1.6, ({"H": 74, "W": 134},)),
    (back, ("u8[H~9001, W~7001, 4]",), 1.7, ({"H": 67, "W": 131},)),
    (back, ("u8[H~9001, W~7001, 2]",), 2.1, ({"H": 67, "W": 131},)),
    (both_flipped, ("f32[H~9001, W~7001, 3]",), 1.2, ({"H": 67, "W": 131},)),
    (swapped, ("u8[H~9000, W~7000, 5]",), 2.0, ({"H": 72, "W": 136},)),
    (swapped, ("u8[H~9000, W~7000, 9]",), 2.0, ({"H": 72, "W": 136},)),
    (normalised, ("u8[H~9000, W~7000, 3]",), 1.6, ({"H": 72, "W": 136},)),
    (normalised, ("u8[H~9001, W~7001, 3]",), 1.6, ({"H": 67, "W": 131},)),
    (planes_last, ("u8[B~2000, H~16, W~3000, 3]",), 1.6, ({"B": 72, "H": 2, "W": 136},)),
)


@pytest.mark.parametrize(("function", "specs", "most", "sizes"), CASES)
def test_short_rows_move_in_tiles(
    function: Callable[..., Any], specs: tuple[str, ...], most: float, sizes: tuple[dict[str, int], ...]
) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "pixel_tiles"
    cost = plan.cost_analysis()
    assert cost.seconds < most * (plan.target.launch + cost.hbm_bytes.at(**cost.sizes) / plan.target.bandwidth)
    assert_legal(plan)
    for size in sizes:
        arrays = []
        for k, argument in enumerate(plan.program.arguments):
            shape = [n.evaluate(size) for n in argument.shape]
            arrays.append(np.random.default_rng(k).integers(0, 99, shape).astype(argument.dtype.numpy))
        (found,) = run_plan(plan, arrays)
        np.testing.assert_array_equal(found, function(*arrays))


TURNED: tuple[tuple[Callable[..., Any], str], ...] = (
    (turned, "u8[8192, 8192, 3]"),
    (turned, "u8[8191, 8193, 3]"),
    (back, "u8[8192, 8192, 4]"),
    (swapped, "u8[8192, 8192, 2]"),
    (swapped, "u8[8192, 4096, 5]"),
    (swapped, "u8[8192, 4096, 9]"),
    (normalised, "u8[8192, 8192, 3]"),
    (both_flipped, "f32[8192, 4096, 3]"),
    (swapped, "f32[8192, 4096, 2]"),
    (halves, "bf16[8192, 4096, 3]"),
    (turned, "f16[8192, 4096, 4]"),
    (batches, "u8[64, 1024, 1024, 3]"),
)


@pytest.mark.parametrize(("function", "spec"), TURNED)
def test_few_lanes_wait_for_the_same_bank(function: Callable[..., Any], spec: str) -> None:
    """Sixteen did, byte by byte: 512 us of an H200 for the first of these."""
    kernel = _kernel(function, spec)
    for op in _accesses(kernel.body, {b.name for b in kernel.shared}):
        width = op.span * _memory(kernel, op.array).dtype.itemsize
        together = 32 if width <= 4 else 128 // width  # lanes that share a pass of the banks
        for access in _of_warps(kernel, op):
            for first in range(0, 32, together):
                words = {n // 4 for start in access[first : first + together] for n in range(start, start + width)}
                banks = [sum(word % 32 == bank for word in words) for bank in range(32)]
                assert max(banks) <= 4, f"{op} takes {max(banks)} passes"


@pytest.mark.parametrize(("function", "spec"), [t for t in TURNED if t[1] != "u8[8191, 8193, 3]"])
def test_warps_store_whole_sectors(function: Callable[..., Any], spec: str) -> None:
    kernel = _kernel(function, spec)
    arrays = {p.name for p in kernel.parameters if isinstance(p, ir.ArrayParameter) and not p.readonly}
    (op,) = _accesses(kernel.body, arrays)
    width = max(op.span, op.vector) * _memory(kernel, op.array).dtype.itemsize
    assert width >= 4
    for warp in range(kernel.threads // 32):
        found = {n for access in _of_warps(kernel, op, [warp]) for start in access for n in range(start, start + width)}
        assert len(found) == 32 * len({n // 32 for n in found})


def test_pixels_move_as_words_and_the_price_says_so() -> None:
    kernel = _kernel(turned, "u8[8192, 8192, 3]")
    found = [op.span for op in _accesses(kernel.body, {"x_in", "x_tile", f"{kernel.name}_out"})]
    assert found == [4, 4, 4, 4]
    loaded = [op.span for op in _accesses(_kernel(normalised, "u8[8192, 8192, 3]").body, {"x_in"})]
    assert loaded == [4]  # as what is read asks for, whatever is written
    cost = pf.jit(turned).plan(pf.spec("u8[8192, 8192, 3]"), target="h200").cost_analysis()
    assert cost.seconds < 120e-6


def _kernel(function: Callable[..., Any], spec: str) -> ir.Kernel:
    (launch,) = pf.jit(function).plan(pf.spec(spec), target="h200").launches
    assert isinstance(launch.kernel, ir.Kernel)
    return launch.kernel


def _memory(kernel: ir.Kernel, name: str) -> ir.ArrayParameter | ir.SharedBuffer:
    arrays = [p for p in kernel.parameters if isinstance(p, ir.ArrayParameter)]
    return next(m for m in (*kernel.shared, *arrays) if m.name == name)


def _accesses(body: Iterable[ir.Op], arrays: set[str]) -> Iterator[ir.Load | ir.Store]:
    for op in body:
        if isinstance(op, ir.If):
            yield from _accesses(op.body, arrays)
        elif isinstance(op, ir.Load | ir.Store) and op.array in arrays:
            yield op


def _of_warps(kernel: ir.Kernel, op: ir.Load | ir.Store, warps: Iterable[int] | None = None) -> Iterator[list[int]]:
    """Per access of a warp in block 0: the first byte that each lane takes."""
    memory = _memory(kernel, op.array)
    strides = [stride.constant for stride in element_strides(memory)]
    at = Affine.of(0)
    for entry, stride in zip(op.index, strides, strict=True):
        assert isinstance(entry, Affine) and stride is not None
        at += entry * stride
    slots = [s for s in kernel.slots if f"${s.name}" in at.names()]
    width = op.span * op.vector
    for warp in range(kernel.threads // 32) if warps is None else warps:
        taken = defaultdict[int, list[int]](list)
        for lane in range(32):
            t = 32 * warp + lane
            values = {f"${d.name}": t // d.stride % d.extent for d in kernel.digits}
            values |= {name: 0 for name in at.names() if name[1:] in ("b0", "b1", "b2")}
            starts = []
            for numbers in product(*(range(s.extent) for s in slots)):
                chosen = {f"${s.name}": n for s, n in zip(slots, numbers, strict=True)}
                starts.append(at.evaluate(values | chosen) // width * width)
            for number, start in enumerate(dict.fromkeys(starts)):
                taken[number].append(start * memory.dtype.itemsize)
        yield from taken.values()


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (swapped, "f32[H~9000, W~7000, 8]"),  # rows of a sector
        (lambda x: x + x.transpose(1, 0, 2), "f32[9000, 9000, 2]"),  # in both orders
        (lambda x: x[:, ::-1], "u8[9000, 9000, 3]"),  # in the order of what is written
    ],
)
def test_other_rows_are_left_alone(function: Callable[..., Any], spec: str) -> None:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    assert all(kernel.strategy != "pixel_tiles" for kernel in plan.kernels)


@pytest.mark.ptx
def test_the_kernels_compile() -> None:
    for function, specs, *_ in (CASES[0], CASES[1], CASES[4]):
        (launch,) = pf.jit(function).plan(*map(pf.spec, specs), target="h200").launches
        kernel = launch.kernel
        made = compile_kernel(print_kernel(kernel), kernel.name, kernel.parameters, kernel.block_threads, (9, 0))
        assert ".local" not in made.ptx
        assert not find_ptxas() or not assemble(made).resources.spilled_bytes
