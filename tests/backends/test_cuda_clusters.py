"""Combinations across the blocks of a cluster become distributed shared memory and split barriers; no GPU is needed."""

from __future__ import annotations

import re

import pytest

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.errors import CompileError
from polyfuse.kernel import ArrayParameter

pytestmark = pytest.mark.ptx


def compiled(body: str, dtype: str = "f32", threads: int = 256, blocks: int = 4) -> CompiledKernel:
    """A kernel of x and y over clusters: `at` is its first element, four to a thread."""
    lines = [f"at = {4 * threads * blocks} * block(0, {blocks}) + 4 * thread({threads}, {blocks})", "cluster_arrive()"]
    lines += ["v = load(x, at, ROW)", *body.splitlines(), "cluster_wait()"]
    source = "ROW = Tile((4,), (1,), vector=4)\n" + "def k(x, y):\n" + "".join(f"    {line}\n" for line in lines)
    n = Affine.symbol("N")
    parameters = [ArrayParameter(name, dtypes.BY_NAME[dtype], (n,), readonly=name == "x") for name in "xy"]
    kernel = compile_kernel(source, "k", parameters, threads, (9, 0), cluster=blocks)
    return assemble(kernel) if find_ptxas() else kernel


def count(kernel: CompiledKernel, pattern: str) -> int:
    return len(re.findall(pattern, kernel.ptx))


def test_one_push_and_one_barrier_a_combination() -> None:
    kernel = compiled("s = threads_sum(reduce_sum(v, (0,)), 1023, 256, 4)\nstore(y, at, ROW, v / s)")
    assert ".reqnctapercluster 4, 1, 1" in kernel.ptx and ".maxntid 256" in kernel.ptx
    assert kernel.cluster == 4 and kernel.threads == 256
    assert count(kernel, r"st\.shared::cluster\.b32") == 1
    assert count(kernel, r"bar\.sync") == 1
    # opened, after reading; and both halves around the push, at the end
    assert count(kernel, r"barrier\.cluster\.arrive\.aligned") == 3
    assert count(kernel, r"barrier\.cluster\.wait\.aligned") == 3
    assert kernel.shared_bytes == 2 * 8 * 4 + 4 * 4
    assert ".local" not in kernel.ptx


def test_bits_inside_a_block_leave_the_cluster_alone() -> None:
    kernel = compiled("store(y, at, ROW, v / threads_sum(reduce_sum(v, (0,)), 255, 256, 4))")
    assert count(kernel, r"st\.shared::cluster") == 0
    assert count(kernel, r"barrier\.cluster\.arrive") == count(kernel, r"barrier\.cluster\.wait") == 1


@pytest.mark.parametrize(
    ("dtype", "width", "pushes"),
    [
        *(("f64", "v2.b64", 2), ("i64", "v2.b64", 2), ("i32", "v4.b32", 1)),
        *(("i16", "b16", 4), ("u8", "b8", 4), ("bool", "b8", 4)),
    ],
)
def test_values_travel_at_their_width_and_words_side_by_side(dtype: str, width: str, pushes: int) -> None:
    """Word by word into places of 8 peers sums of 1,024 columns took an H200 17 us for each wave, 8 so."""
    name = "any" if dtype == "bool" else "max"
    kernel = compiled(f"store(y, at, ROW, threads_{name}(v, 1023, 256, 4))", dtype)
    assert count(kernel, r"st\.shared::cluster") == count(kernel, rf"st\.shared::cluster\.{width} ") == pushes


@pytest.mark.parametrize(("blocks", "pushes", "width"), [(4, 4, "v4"), (8, 16, "v2"), (16, 64, "b32")])
def test_what_does_not_fit_at_once_travels_in_rounds(blocks: int, pushes: int, width: str) -> None:
    """Of 256 classes of threads with four sums each, 16 KB of shared memory hold those of four blocks."""
    kernel = compiled(f"store(y, at, ROW, threads_sum(v, {256 * (blocks - 1)}, 256, {blocks}))", blocks=blocks)
    assert count(kernel, r"st\.shared::cluster") == count(kernel, rf"st\.shared::cluster\.{width}") == pushes
    assert kernel.shared_bytes == 16384


def test_a_state_of_two_values_travels_whole() -> None:
    body = "k = slots((4,), 0)\nw, i = threads_argmax(v, k, 768, 256, 4)\nstore(y, at, ROW, w + cast(i, float32))"
    kernel = compiled(body)
    assert count(kernel, r"st\.shared::cluster\.v2\.b32") == 2 * 2 * 4  # two at once, of four blocks
    assert count(kernel, r"shfl|bar\.sync") == 0  # bits of the block do not meet


def test_a_combination_in_a_loop_waits_for_the_readers_of_the_last_visit() -> None:
    kernel = compiled("for i in range(7):\n    v = threads_sum(v, 1023, 256, 4) * 0.5\nstore(y, at, ROW, v)")
    arrivals, waits = (count(kernel, rf"barrier\.cluster\.{kind}\.aligned") for kind in ("arrive", "wait"))
    assert arrivals == waits
    assert count(kernel, r"st\.shared::cluster") >= 1


def test_bits_beyond_the_cluster_are_refused() -> None:
    with pytest.raises(CompileError, match="do not fit 4 blocks of 256 threads"):
        compiled("store(y, at, ROW, threads_sum(v, 1024, 256, 4))")


def test_one_thread_of_a_cluster_counts_and_tells_the_others() -> None:
    source = (
        "ROW = Tile((4,), (1,), vector=4)\n"
        "def k(x, y, n):\n"
        "    cluster_arrive()\n"
        "    at = 4096 * block(0, 4) + 4 * thread(256, 4)\n"
        "    store(y, at, ROW, load(x, at, ROW))\n"
        "    if elect(n, 0, 7, 4):\n"
        "        store(y, at, ROW, 0.0)\n"
        "    cluster_wait()\n"
    )
    n = Affine.symbol("N")
    arrays = [ArrayParameter(name, dtypes.f32, (n,), readonly=name == "x") for name in "xy"]
    counter = ArrayParameter("n", dtypes.i32, (Affine.of(1),), readonly=False)
    kernel = compile_kernel(source, "k", [*arrays, counter], 256, (9, 0), cluster=4)
    assert count(kernel, r"atom\.acq_rel\.gpu\.global\.inc") == 1
    assert count(kernel, r"st\.shared::cluster\.b32") == 4
    assert count(kernel, r"membar\.gl|fence\.acq_rel\.gpu|fence\.sc\.gpu") == 2
    assert count(kernel, r"barrier\.cluster\.arrive") == count(kernel, r"barrier\.cluster\.wait") == 4
    assert count(kernel, r"bar\.sync|barrier0") == 0
