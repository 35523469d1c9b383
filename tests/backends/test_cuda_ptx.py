"""Kernels over fragments become the PTX that hardware wants; no GPU is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from polyfuse import dtypes, scalars
from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.backends.numba_cuda.standalone import standalone_source
from polyfuse.errors import CompileError
from polyfuse.kernel import ArrayParameter, Parameter, ScalarParameter, SizeParameter

pytestmark = pytest.mark.ptx

AMPERE, HOPPER = (8, 0), (9, 0)
SPELLED = {"bool": "boolean", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"} | {
    f"{kind}{bits}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)
}
ROW4 = "ROW4 = Tile((4, 4), (1024, 1), vector=4)\n"


def array(name: str, dtype: str = "f32") -> ArrayParameter:
    """An input, or an output where the name ends in an underscore."""
    return ArrayParameter(name, dtypes.BY_NAME[dtype], (Affine.symbol("N"),), readonly=not name.endswith("_"))


def compiled(
    source: str,
    *parameters: Parameter | str,
    threads: int = 256,
    capability: tuple[int, int] = HOPPER,
    dtype: str = "f32",
    **options: object,
) -> CompiledKernel:
    """The kernel `k`; names of parameters are arrays of `dtype`, capitals are sizes."""
    every: Sequence[Parameter] = [
        p if not isinstance(p, str) else SizeParameter(p) if p.isupper() else array(p, dtype) for p in parameters
    ]
    kernel = compile_kernel(source, "k", every, threads, capability, **options)  # type: ignore[arg-type]
    if find_ptxas() and "power" not in source:
        found = assemble(kernel)
        assert found.cubin and found.resources
        return found
    return kernel


def count(kernel: CompiledKernel, pattern: str) -> int:
    return len(re.findall(pattern, kernel.ptx))


def assert_in_registers(kernel: CompiledKernel) -> None:
    assert ".local" not in kernel.ptx
    if kernel.resources:
        assert kernel.resources.local_bytes == kernel.resources.spilled_bytes == 0


# ---------------------------------------------------------------------------------------------- whole programs


@pytest.mark.parametrize("capability", [AMPERE, HOPPER])
def test_pointwise_moves_sixteen_bytes_an_instruction(capability: tuple[int, int]) -> None:
    source = ROW4 + (
        "def k(x, w, y_):\n"
        "    at = 4096 * block(0) + 4 * thread()\n"
        "    v = load(x, at, ROW4)\n"
        "    store(y_, at, ROW4, tanh(v * 0.5 + load(w, at, ROW4)) + v)\n"
    )
    kernel = compiled(source, "x", "w", "y_", capability=capability)
    assert kernel.entry == "k" and f".target sm_{capability[0]}{capability[1]}" in kernel.ptx
    assert count(kernel, r"ld\.global\.nc\.v4\.f32") == 8 and count(kernel, r"st\.global\.v4\.f32") == 4
    assert count(kernel, r"ld\.global") == 8 and count(kernel, r"bar\.sync") == 0
    assert ".maxntid 256, 1, 1" in kernel.ptx and ".f64" not in kernel.ptx
    assert_in_registers(kernel)


def test_a_policy_of_the_cache_goes_to_every_load_of_its_array_and_to_no_other() -> None:
    source = ROW4 + (
        "def k(x, w, y_, N):\n"
        "    at = 4096 * block(0) + 4 * thread()\n"
        "    x = evict_last(x)\n"
        "    v = load(x, at, ROW4, mask=at + 1024 * slots((4, 4), 0) + 3 < N) + load(w, at, ROW4)\n"
        "    store(y_, at, ROW4, v + load(x, at, ROW4))\n"
    )
    kernel = compiled(source, "x", "w", "y_", "N")
    assert count(kernel, r"createpolicy\.fractional\.L2::evict_last\.b64") == 1
    assert count(kernel, r"ld\.global\.nc\.L2::cache_hint\.v4\.b32 \{[^}]*\}, \[[^]]*\], %rd\d+;") == 8
    assert count(kernel, r"ld\.global\.nc\.v4\.f32") == 4 and count(kernel, r"st\.global\.v4\.f32") == 4
    assert_in_registers(kernel)


def test_memory_that_a_kernel_writes_has_no_policy_of_the_cache() -> None:
    source = ROW4 + "def k(y_):\n    store(y_, 0, ROW4, load(evict_last(y_), 4 * thread(), ROW4))\n"
    with pytest.raises(CompileError, match="not to a read-only array"):
        compiled(source, "y_")



def test_large_angles_have_one_reduction_however_many_elements_a_thread_has() -> None:
    """16 elements had 16 copies of libdevice's, and took twice as long to compile as all else."""
    source = ROW4 + (
        "def k(x, y_):\n"
        "    at = 4096 * block(0) + 4 * thread()\n"
        "    store(y_, at, ROW4, sin(load(x, at, ROW4)))\n"
    )
    kernel = compiled(source, "x", "y_")
    usual = kernel.ptx[kernel.ptx.index(".entry") :].partition("bra")[0]
    assert count(kernel, r"mad\.lo\.cc\.u32") <= 6  # words of 2/pi
    assert "st.local" not in usual, "angles of a few turns touch no memory"
    assert count(kernel, r"ld\.global\.nc\.v4\.f32") == 4 and count(kernel, r"st\.global\.v4\.f32") == 4



def test_softmax_keeps_its_row_in_registers() -> None:
    source = ROW4 + (
        "def k(x, y_):\n"
        "    at = 4096 * block(0) + 4 * thread()\n"
        "    v = load(x, at, ROW4)\n"
        "    m = threads_max(reduce_max(v, (0, 1)), 255, 256)\n"
        "    e = exp(v - m)\n"
        "    s = threads_sum(reduce_sum(e, (0, 1)), 255, 256)\n"
        "    store(y_, at, ROW4, e / s)\n"
    )
    kernel = compiled(source, "x", "y_")
    assert count(kernel, r"ld\.global\.nc\.v4\.f32") == 4 == count(kernel, r"st\.global\.v4\.f32")
    assert count(kernel, r"shfl\.sync\.bfly") == 10 and count(kernel, r"bar\.sync") == 2
    assert count(kernel, r"max\.NaN\.f32") == 15 + 5 + 7
    assert 0 < kernel.shared_bytes <= 256 and kernel.dynamic_shared == 0
    assert_in_registers(kernel)


def test_layernorm_in_bfloat16_packs_two_values_a_word() -> None:
    source = (
        "ROW = Tile((2, 8), (2048, 1), vector=8)\n"
        "def k(x, g, b, y_):\n"
        "    c = 8 * thread()\n"
        "    at = 4096 * block(0) + c\n"
        "    h = load(x, at, ROW)\n"
        "    d = h - threads_sum(reduce_sum(h, (0, 1)), 255, 256) * (1 / 4096)\n"
        "    v = threads_sum(reduce_sum(d * d, (0, 1)), 255, 256) * (1 / 4096)\n"
        "    store(y_, at, ROW, d * rsqrt(v + 1e-5) * load(g, c, ROW) + load(b, c, ROW))\n"
    )
    kernel = compiled(source, "x", "g", "b", "y_", dtype="bf16")
    assert count(kernel, r"ld\.global\.nc\.v4\.u32") == 6 and count(kernel, r"st\.global\.v4") == 2
    assert count(kernel, r"cvt\.rn\.bf16x2\.f32") == 8 and ".f64" not in kernel.ptx
    assert_in_registers(kernel)


def test_column_sum_ends_in_the_block_that_arrives_last() -> None:
    source = (
        'ROWS, LINE = Tile((8, 4), (Size("N"), 1), vector=4), Tile((1, 4), (0, 1), vector=4)\n'
        "PARTS = Tile((4, 4), (1024, 1), vector=4)\n"
        "def k(x, partial_, counter_, y_, N):\n"
        "    c = 4 * thread()\n"
        "    acc = full((1, 4), 0.0, float32)\n"
        "    for r in range(16):\n"
        "        acc = acc + reduce_sum(load(x, 8 * r * N + 1024 * block(0) + c, ROWS, (N,)), (0,))\n"
        "    store(partial_, 1024 * block(1) + c, LINE, acc)\n"
        "    last = elect(counter_, block(0), 4)\n"
        "    if last:\n"
        "        store(y_, c, LINE, reduce_sum(load(partial_, c, PARTS), (0,)))\n"
    )
    kernel = compiled(source, "x", "partial_", array("counter_", "i32"), "y_", "N")
    assert count(kernel, r"atom\.acq_rel\.gpu\.global\.inc\.u32") == 1 and count(kernel, r"membar|fence") == 0
    assert count(kernel, r"bar\.sync") == 1 and count(kernel, r"bar\.red") == 1
    assert count(kernel, r"ld\.global\.v4\.f32") == 4, "partial sums of other blocks are not read-only data"
    assert_in_registers(kernel)


def test_argmax_carries_value_and_index() -> None:
    source = (
        "ROW, ONE = Tile((4,), (1,), vector=4), Tile((1,), (0,))\n"
        "def k(x, y_):\n"
        "    v, i = reduce_argmax(load(x, 4 * thread(), ROW), 4 * thread() + slots((4,), 0), (0,))\n"
        "    v, i = threads_argmax(v, i, 255, 256)\n"
        "    store(y_, 0, ONE, i, mask=thread() == 0)\n"
    )
    kernel = compiled(source, "x", array("y_", "i32"))
    assert count(kernel, r"shfl\.sync") == 5 and count(kernel, r"redux\.sync\.min") == 1  # values, then positions
    assert count(kernel, r"bar\.sync") == 1
    assert count(kernel, r"@p st\.global\.b32") == 1
    assert_in_registers(kernel)


def test_scan_of_a_row_takes_one_barrier() -> None:
    source = (
        "V, S = Tile((4,), (1,), vector=4), Tile((1,), (0,))\n"
        "def k(x, y_, t_):\n"
        "    p, t = scan_sum(load(x, 4 * thread(), V), 0, 255, 256)\n"
        "    store(y_, 4 * thread(), V, p)\n"
        "    store(t_, thread(), S, t)\n"
    )
    kernel = compiled(source, "x", "y_", "t_")
    assert count(kernel, r"bar\.sync") == 1 and count(kernel, r"shfl\.sync\.up") == 6
    assert_in_registers(kernel)


def test_gather_follows_a_fragment_of_offsets() -> None:
    source = (
        "I, GROUP, OUT = Tile((4, 1), (1, 0)), Tile((4, 4), (0, 1), vector=4), Tile((4, 4), (4, 1), vector=4)\n"
        "def k(i, x, y_):\n"
        "    rows = load(i, 4 * thread(), I)\n"
        "    store(y_, 16 * thread(), OUT, load(x, rows * 4, GROUP))\n"
    )
    kernel = compiled(source, array("i", "i64"), "x", "y_")
    assert count(kernel, r"ld\.global\.nc\.v4\.f32") == 4
    varying = source.replace("Tile((4, 4), (0, 1), vector=4)", "Tile((4, 4), (0, 0))")
    assert count(compiled(varying, array("i", "i64"), "x", "y_"), r"ld\.global\.nc\.f32") == 4


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "f64"])
def test_masked_accesses_are_predicated_vectors(dtype: str) -> None:
    width = 16 // dtypes.BY_NAME[dtype].itemsize
    source = (
        f"V = Tile(({width},), (1,), vector={width})\n"
        "def k(x, y_, N):\n"
        f"    at = {width} * thread()\n"
        "    inner = at < N\n"
        "    store(y_, at, V, load(x, at, V, mask=inner, other=1), mask=inner)\n"
    )
    kernel = compiled(source, "x", "y_", "N", dtype=dtype)
    words = r"v2\.b64" if dtype == "f64" else r"v4\.b32"
    assert count(kernel, rf"@p ld\.global\.nc\.{words}") == 1 and count(kernel, rf"@p st\.global\.{words}") == 1
    assert count(kernel, r"\bbra\b") == 0
    narrow = source.replace("at < N", f"at + slots(({width},), 0) < N")
    assert count(compiled(narrow, "x", "y_", "N", dtype=dtype), r"@p ld\.global\.nc\.b") == width


def test_shared_transpose_has_one_barrier() -> None:
    source = (
        'IN, OUT = Tile((4, 4), (16 * Size("N"), 1), vector=4), Tile((4, 4), (16 * Size("N"), 1), vector=4)\n'
        "PUT, GET = Tile((4, 4), (16, 65)), Tile((4, 4), (1040, 1))\n"
        "def k(x, y_, N):\n"
        "    r, c = thread() // 16, 4 * (thread() % 16)\n"
        "    tile = shared(float32, 64 * 65)\n"
        "    store(tile, c * 65 + r, PUT, load(x, (64 * block(1) + r) * N + 64 * block(0) + c, IN, (N,)))\n"
        "    barrier()\n"
        "    store(y_, (64 * block(0) + r) * N + 64 * block(1) + c, OUT, load(tile, r * 65 + c, GET), (N,))\n"
    )
    kernel = compiled(source, "x", "y_", "N")
    assert count(kernel, r"bar\.sync") == 1 and kernel.shared_bytes == 64 * 65 * 4
    assert count(kernel, r"st\.shared") == 16 == count(kernel, r"ld\.shared")
    assert count(kernel, r"\bdiv\.|\brem\.") == 0
    assert_in_registers(kernel)


def test_contract_is_a_chain_of_fused_multiply_adds() -> None:
    source = (
        "A, B = Tile((4, 2, 1), (2, 1, 0), vector=2), Tile((4, 1, 4), (4, 0, 1), vector=4)\n"
        "C = Tile((1, 2, 4), (0, 4, 1), vector=4)\n"
        "def k(x, w, y_, K):\n"
        "    acc = full((1, 2, 4), 0.0, float32)\n"
        "    for i in range(K):\n"
        "        acc = contract(acc, load(x, 8 * i, A), load(w, 16 * i, B), (0,))\n"
        "    store(y_, 8 * thread(), C, acc)\n"
    )
    kernel = compiled(source, "x", "w", "y_", "K")
    assert count(kernel, r"fma\.rn\.f32") % 32 == 0 and count(kernel, r"fma\.rn\.f32") > 0
    assert_in_registers(kernel)


# ---------------------------------------------------------------------------------------------- threads and memory


def loop(mask: int, threads: int, extent: int = 1) -> CompiledKernel:
    source = (
        f"V = Tile(({extent},), (1,))\n"
        "def k(x, y_, N):\n"
        f"    v = load(x, {extent} * thread(), V)\n"
        "    for i in range(N):\n"
        f"        v = threads_sum(v, {mask}, {threads}) * 0.5\n"
        f"    store(y_, {extent} * thread(), V, v)\n"
    )
    return compiled(source, "x", "y_", "N", threads=threads)


@pytest.mark.parametrize(
    ("mask", "shuffles", "barriers"), [(31, 5, 0), (0, 0, 0), (5, 2, 0), (255, 5, 1), (32, 0, 1), (160 + 3, 2, 1)]
)
def test_thread_masks_take_as_few_shuffles_and_barriers_as_they_need(mask: int, shuffles: int, barriers: int) -> None:
    sum_of_threads = f"threads_sum(load(x, thread(), ONE), {mask}, 256)"
    source = f"ONE = Tile((), ())\ndef k(x, y_):\n    store(y_, thread(), ONE, {sum_of_threads})\n"
    kernel = compiled(source, "x", "y_")
    assert count(kernel, r"shfl\.sync\.bfly") == shuffles
    assert count(kernel, r"bar\.sync") == barriers


def test_a_combination_in_a_loop_alternates_buffers_or_adds_a_barrier() -> None:
    small, large = loop(255, 256), loop(992, 1024, 8)
    once = compiled(
        "ONE = Tile((), ())\ndef k(x, y_):\n"
        "    store(y_, thread(), ONE, threads_sum(load(x, thread(), ONE), 255, 256))\n",
        "x",
        "y_",
    )
    assert small.shared_bytes == once.shared_bytes == 2 * 8 * 4
    assert large.shared_bytes <= 16384 and large.dynamic_shared == 0
    for kernel in (small, large):
        assert_in_registers(kernel)


def test_eight_byte_values_shuffle_as_two_words() -> None:
    source = (
        "ONE = Tile((), ())\ndef k(x, y_):\n    store(y_, thread(), ONE, threads_max(load(x, thread(), ONE), 31, 32))\n"
    )
    for dtype, instructions in (("f64", 10), ("i64", 10), ("i8", 5), ("f32", 5), ("bool", 5)):
        kernel = compiled(source, "x", "y_", dtype=dtype, threads=32)
        assert count(kernel, r"shfl\.sync") == instructions


@pytest.mark.parametrize("dtype", [t.name for t in dtypes.ALL])
@pytest.mark.parametrize("index_bits", [32, 64])
def test_every_dtype_moves_in_sixteen_byte_accesses(dtype: str, index_bits: int) -> None:
    width = 16 // dtypes.BY_NAME[dtype].itemsize
    source = (
        f"V = Tile(({2 * width},), (1,), vector={2 * width})\n"
        f"def k(x, y_):\n    store(y_, {2 * width} * thread(), V, load(x, {2 * width} * thread(), V))\n"
    )
    kernel = compiled(source, "x", "y_", dtype=dtype, index_bits=index_bits)
    assert count(kernel, r"ld\.global\.nc\.v[24]") == 2 == count(kernel, r"st\.global\.v[24]")
    assert count(kernel, r"[^@]ld\.global") == 2
    assert_in_registers(kernel)


def test_more_than_48_kb_of_shared_memory_is_dynamic() -> None:
    source = (
        "V = Tile((4,), (1,), vector=4)\n"
        "def k(x, y_):\n"
        "    a, b = shared(float32, 12288), shared(float32, 4096)\n"
        "    store(a, 4 * thread(), V, load(x, 4 * thread(), V))\n"
        "    store(b, 4 * thread(), V, load(x, 4096 + 4 * thread(), V))\n"
        "    barrier()\n"
        "    store(y_, 4 * thread(), V, load(a, 1020 - 4 * thread(), V) + load(b, 1020 - 4 * thread(), V))\n"
    )
    kernel = compiled(source, "x", "y_")
    assert kernel.dynamic_shared == kernel.shared_bytes == 65536
    assert count(kernel, r"\.extern \.shared") == 1 and count(kernel, r"\.shared \.align") == 1


@pytest.mark.parametrize(
    ("monoid", "dtype", "capability", "pattern"),
    [
        ("sum", "f32", HOPPER, r"red\.global\.add\.v4\.f32"),
        ("sum", "f32", AMPERE, r"red\.global\.add\.f32"),
        ("sum", "f64", AMPERE, r"red\.global\.add\.f64"),
        ("sum", "u64", AMPERE, r"(atom|red)\.global\.add\.u64"),
        ("max", "i32", AMPERE, r"(atom|red)\.global\.max\.s32"),
        ("max", "u32", AMPERE, r"(atom|red)\.global\.max\.u32"),
        ("prod", "f32", AMPERE, r"atom\.global\.cas\.b32"),
        ("max", "f64", AMPERE, r"atom\.global\.cas\.b64"),
        ("sum", "bf16", AMPERE, r"atom\.global\.cas\.b32"),
        ("any", "bool", AMPERE, r"atom\.global\.cas\.b32"),
        ("bitxor", "i16", AMPERE, r"atom\.global\.cas\.b32"),
    ],
)
def test_atomics_are_native_where_there_is_an_instruction(
    monoid: str, dtype: str, capability: tuple[int, int], pattern: str
) -> None:
    source = (
        "V = Tile((4,), (1,), vector=4)\n"
        "def k(x, y_, N):\n"
        f'    atomic("{monoid}", y_, 4 * thread(), V, load(x, 4 * thread(), V), mask=4 * thread() < N)\n'
    )
    kernel = compiled(source, "x", "y_", "N", dtype=dtype, capability=capability)
    vector = monoid == "sum" and dtype == "f32" and capability == HOPPER
    assert count(kernel, pattern) == (1 if vector else 4)


@pytest.mark.parametrize(("monoid", "updates"), [("max", 1), ("bitor", 1), ("sum", 4)])
def test_slots_that_leave_one_word_the_same_update_it_once(monoid: str, updates: int) -> None:
    """As a thread does that reports any of several data indices; sums count them."""
    source = (
        "V = Tile((4,), (1,), vector=4)\nSAME = Tile((4,), (0,))\n"
        "def k(x, y_):\n"
        f'    atomic("{monoid}", y_, 0, SAME, constant(1, int32), mask=load(x, 4 * thread(), V) > 7)\n'
    )
    assert count(compiled(source, "x", "y_", dtype="i32"), r"(atom|red)\.global") == updates


@pytest.mark.parametrize(("quotient", "selects"), [("a / b", 8), ("a / 8.0", 0), ("1.0 / b", 0)])
def test_quotients_of_zero_take_no_long_way(quotient: str, selects: int) -> None:
    """Where each of several slots has a divisor: one select in front of a division and one behind it, which neither
    powers of two nor dividends in the text need."""
    source = (
        "V = Tile((4,), (1,), vector=4)\n"
        "def k(x, y_, N):\n"
        "    a, b = load(x, 4 * thread(), V), load(x, 4 * thread() + N, V)\n"
        f"    store(y_, 4 * thread(), V, {quotient})\n"
    )
    kernel = compiled(source, "x", "y_", "N", dtype="f32")
    assert count(kernel, r"selp\.f32") == selects


# ---------------------------------------------------------------------------------------------- scalar functions


@pytest.mark.parametrize("capability", [AMPERE, HOPPER])
@pytest.mark.parametrize("dtype", [t.name for t in dtypes.ALL if t.compute == t])
def test_every_scalar_function_compiles_for_every_kind_it_accepts(dtype: str, capability: tuple[int, int]) -> None:
    kind = dtypes.BY_NAME[dtype].kind
    lines, parameters = [], []
    for f in scalars.FUNCTIONS.values():
        if kind not in f.kinds or f.name in ("where", "cast", "bitcast"):
            continue
        operands = ", ".join("vwu"[: f.arity])
        lines.append(f"    store({f.name}_, thread(), ONE, {f.name}({operands}))")
        parameters.append(array(f"{f.name}_", "bool" if f.result == "bool" else dtype))
    for target in dtypes.ALL:
        lines.append(f"    store(to_{target}_, thread(), ONE, cast(v, {SPELLED[target.name]}))")
        parameters.append(array(f"to_{target}_", target.name))
    lines.append("    store(where_, thread(), ONE, where(v == w, v, u))")
    parameters.append(array("where_", dtype))
    names = ", ".join(["x", *(p.name for p in parameters)])
    loads = "    v, w, u = load(x, thread(), ONE), load(x, 32 + thread(), ONE), load(x, 64 + thread(), ONE)"
    source = "\n".join(["ONE = Tile((), ())", f"def k({names}):", loads, *lines])
    kernel = compile_kernel(source, "k", [array("x", dtype), *parameters], 32, capability)
    assert count(kernel, r"st\.global") == len(parameters)
    assert ".extern .func" not in kernel.ptx, "a function that libdevice does not have"


def test_signedness_decides_instructions() -> None:
    source = (
        "ONE = Tile((), ())\ndef k(x, y_, b_):\n"
        "    v, w = load(x, thread(), ONE), load(x, 32 + thread(), ONE)\n"
        "    store(y_, thread(), ONE, (v >> w) + v // w)\n"
        "    store(b_, thread(), ONE, v < w)\n"
    )
    signed = compiled(source, "x", "y_", array("b_", "bool"), dtype="i32")
    unsigned = compiled(source, "x", "y_", array("b_", "bool"), dtype="u32")
    for kernel, letter in ((signed, "s"), (unsigned, "u")):
        assert count(kernel, rf"div\.{letter}32") == 1 and count(kernel, rf"setp\.(lt|ge)\.{letter}32") >= 1
    assert count(signed, r"shr\.s32") >= 1 and count(unsigned, r"shr\.s32") == 0


def test_contraction_can_be_forbidden() -> None:
    source = (
        "ONE = Tile((), ())\ndef k(x, y_):\n    v = load(x, thread(), ONE)\n    store(y_, thread(), ONE, v * v + v)\n"
    )
    assert count(compiled(source, "x", "y_"), r"fma\.rn") == 1
    apart = compiled(source, "x", "y_", contract=False)
    assert count(apart, r"fma\.") == 0 and count(apart, r"mul\.rn\.f32") == 1 and count(apart, r"add\.rn\.f32") == 1


# ---------------------------------------------------------------------------------------------- parameters, errors


def test_arguments_follow_the_parameters() -> None:
    source = (
        "ONE = Tile((), ())\ndef k(x, y_, N, a, s, f):\n"
        "    store(y_, thread() * N, ONE, where(f, load(x, thread(), ONE) * a + cast(s + 1, float32), 0.0))\n"
    )
    parameters = (
        ScalarParameter("a", dtypes.bf16),
        ScalarParameter("s", dtypes.u64),
        ScalarParameter("f", dtypes.bool_),
    )
    kernel = compiled(source, "x", "y_", "N", *parameters)
    assert kernel.argument_format == "QQifQ?"
    assert compiled(source, "x", "y_", "N", *parameters, index_bits=64).argument_format == "QQqfQ?"
    declared = re.findall(r"\.param \.(\w+) k_param", kernel.ptx)
    assert declared == ["u64", "u64", "u32", "f32", "u64", "u8"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("store(y_, 0, ONE, load(x, 0, ONE) + cast(1, float64))", "different dtypes meet"),
        ("store(y_, 0, ONE, cast(1, float64))", "cannot store"),
        ("store(y_, 0, Tile2, load(x, 0, ONE))", "does not broadcast"),
        ("store(y_, 0, RUN, load(x, 0, ONE))", "takes the sizes"),
        ("store(y_, 0, ONE, threads_any(load(x, 0, ONE), 31, 32))", "does not accept float32"),
        ("store(y_, 0, ONE, threads_sum(load(x, 0, ONE), 64, 32))", "do not fit a block"),
        ("store(y_, 0, ONE, load(x, 0, ONE) << 1)", "does not accept float32"),
        ("store(y_, thread() * 0.5, ONE, 0.0)", "a float scalar meets"),
    ],
)
def test_a_kernel_that_breaks_a_rule_says_which(line: str, said: str) -> None:
    tiles = 'ONE, TWO, RUN = Tile((1,), (0,)), Tile((2,), (1,)), Tile((2,), (Size("M"),))\n'
    line = line.replace("store(y_, 0, Tile2, load(x, 0, ONE))", "store(y_, 0, ONE, load(x, 0, TWO))")
    with pytest.raises(CompileError, match="kernel k does not compile") as caught:
        compiled(f"{tiles}def k(x, y_):\n    {line}\n", "x", "y_")
    assert said in str(caught.value)


def test_a_tile_that_cannot_be_a_vector_is_refused() -> None:
    with pytest.raises(ValueError, match="unit stride"):
        compiled("V = Tile((4,), (2,), vector=4)\ndef k(x):\n    barrier()\n", "x")


# ---------------------------------------------------------------------------------------------- packaging


def test_importing_the_package_does_not_import_numba() -> None:
    code = (
        "import sys, polyfuse.backends.numba_cuda, polyfuse.backends.numba_cuda.launch; "
        "print({'numba', 'llvmlite', 'cuda'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("index_bits", [32, 64])
def test_the_runtime_stands_alone(index_bits: int, tmp_path: object) -> None:
    text = standalone_source(index_bits)
    assert "polyfuse" not in text
    main = (
        "\nROW = Tile((4,), (1,), vector=4)\n"
        "def k(x, y):\n"
        "    v = load(x, 4 * thread(), ROW)\n"
        "    store(y, 4 * thread(), ROW, floor_divide(v, threads_sum(v, 255, 256)) + power(v, 2.0) + fma(v, v, v))\n"
        "ptx = compile_ptx(k, (Pointer(float32, readonly=True), Pointer(float32)), (9, 0), (256, 1))\n"
        "import sys\n"
        "assert 'polyfuse' not in sys.modules\n"
        "print(ptx.count('ld.global.nc.v4.f32'), thread().__class__ if False else thread.__name__)\n"
    )
    file = tmp_path / "kernel.py"  # type: ignore[operator]
    file.write_text(text + main)
    done = subprocess.run(
        [sys.executable, "-P", str(file)], capture_output=True, text=True, check=True, cwd=str(tmp_path)
    )
    assert done.stdout.split() == ["1", "thread64" if index_bits == 64 else "thread"]


# ---------------------------------------------------------------------------------------------- vectors begin anywhere


@pytest.mark.parametrize("dtype", ["f32", "i32", "f64", "i64", "bf16"])
def test_neighbours_are_read_once(dtype: str) -> None:
    """Two vectors a step apart lie in two aligned ones, each of which is one load of 16 bytes where it lies inside."""
    width = 16 // dtypes.BY_NAME[dtype].itemsize
    source = f"V = Tile((1, {width}), (0, 1), vector={width})\n" + (
        "def k(x, y_, N):\n"
        "    at = 1000 * block(0) + 16 * thread()\n"
        "    low, high = 0 - at, N - at\n"
        "    a, b = load_neighbours(x, at, V, (0, 1), (low, low - 1), (high, high - 1), end=N, other=None)\n"
        f"    store(y_, {width} * thread(), V, b - a)\n"
    )
    kernel = compiled(source, "x", "y_", "N", dtype=dtype)
    assert count(kernel, r"ld\.global\.nc\.v\d\.") == 2
    assert (count(kernel, "shf.r.clamp") > 0) == (width == 8)  # the second one of short elements is shifted further
    assert_in_registers(kernel)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_words_across_vectors_are_not_shifted(dtype: str) -> None:
    width = 16 // dtypes.BY_NAME[dtype].itemsize
    source = f"V = Tile((2, {width}), (512, 1), vector={width})\n" + (
        "def k(x, y_, N):\n"
        "    at = 1001 * block(0) + 4 * thread()\n"
        "    store(y_, 4 * thread(), V, load_across(x, at, V, 0 - at, N - at, end=N, other=None))\n"
    )
    kernel = compiled(source, "x", "y_", "N", dtype=dtype)
    assert count(kernel, r"ld\.global\.nc\.v\d\.") == 4 and count(kernel, "shf") == 0
    assert_in_registers(kernel)


NO_NEIGHBOURS = {
    "out of order": ("(1, 0)", "(0, 0)", "f32"),
    "not from the first": ("(1, 2)", "(0, 0)", "f32"),
    "without bounds": ("(0, 1)", "(0,)", "f32"),
    "bytes": ("(0, 1)", "(0, 0)", "i8"),
}


@pytest.mark.parametrize("case", NO_NEIGHBOURS)
def test_other_neighbours_are_refused(case: str) -> None:
    steps, lows, dtype = NO_NEIGHBOURS[case]
    source = "V = Tile((1, 4), (0, 1), vector=4)\n" + (
        "def k(x, y_, N):\n"
        f"    a, b = load_neighbours(x, thread(), V, {steps}, {lows}, (4, 4), end=N, other=None)\n"
        "    store(y_, 4 * thread(), V, b - a)\n"
    )
    with pytest.raises(CompileError, match="neighbours"):
        compiled(source, "x", "y_", "N", dtype=dtype)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_bytes_at_the_end_of_an_array_are_read_once_for_all_vectors(dtype: str) -> None:
    """It ends in one vector at most, of all that a thread reads, of which a load for each power of two has the rest."""
    size = dtypes.BY_NAME[dtype].itemsize
    width = min(8, 16 // size)
    source = f"TILE4 = Tile((4, {width}), (1024, 1), vector={width})\n" + (
        "def k(x, y_, N):\n"
        f"    at = {width} * thread()\n"
        "    store(y_, at, TILE4, load_cut(x, at, TILE4, 0, N - at, end=N, other=None))\n"
    )
    kernel = compiled(source, "x", "y_", "N", dtype=dtype)
    loads = re.findall(r"ld\.global\.nc\.(?:v(\d)\.)?b(\d+) ", kernel.ptx)
    sizes = [int(count or 1) * int(bits) // 8 for count, bits in loads]
    assert sorted(sizes) == sorted([size * width] * 4 + [size * 2**k for k in range(width.bit_length() - 1)])
    assert_in_registers(kernel)
