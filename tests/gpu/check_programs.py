"""Atomics, elections, parameters, and whole programs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from polyfuse import dtypes
from polyfuse.codegen.printer import print_kernel
from polyfuse.kernel import ArrayParameter
from tests.gpu.checks import NUMPY_MONOID, Check, check, monoids_of, random_values
from tests.kernel import kernels


def elect_check() -> Iterator[Check]:
    x = random_values("f32", 64 * 1024, 19)
    body = """
c = 4 * thread()
acc = full((1, 4), 0.0, float32)
for k in range(0, 4):
    acc = acc + reduce_sum(load(x, (32 * block(0) + 8 * k) * n + 1024 * block(1) + c, ROWS, (n,)), (0,))
store(partial, (block(1) * 4 + block(0)) * 1024 + c, LINE, acc)
last = elect(counter, block(1), 4)
if last:
    store(y, 1024 * block(1) + c, LINE, reduce_sum(load(partial, 4096 * block(1) + c, PARTS), (0,)))
"""
    x = random_values("f32", 128 * 2048, 19)
    n, columns = 2048, x.reshape(128, 2048).astype(np.float64)
    tiles = """
ROWS, LINE = Tile((8, 4), (Size("n"), 1), vector=4), Tile((1, 4), (0, 1), vector=4)
PARTS = Tile((4, 4), (1024, 1), vector=4)
"""
    partial = columns.reshape(4, 32, 2, 1024).sum(axis=1).transpose(1, 0, 2)
    expected = {
        "partial": partial.astype(np.float32).reshape(-1),
        "counter": np.zeros(2, np.int32),
        "y": columns.sum(axis=0).astype(np.float32),
    }
    yield check(
        "column sum by the last block, three launches",
        body,
        {"x": x},
        expected,
        tiles,
        sizes={"n": n},
        grid=(4, 2),
        launches=3,
        floor=1.0,
        tolerance=2e-5,
    )


def atomic_checks() -> Iterator[Check]:
    for t in dtypes.ALL:
        for name in monoids_of(t.compute.name):
            if name == "prod" and t.name in ("f16", "bf16"):
                continue
            rng = np.random.default_rng(21)
            values = random_values(t.name, 1024, 22, small=True)
            if t.is_float:  # small integers: every order of addition gives the same bits
                values = rng.integers(-3, 4, 1024).astype(t.numpy)
                values = np.where(values == 0, 1, values).astype(t.numpy)
            if name == "prod":
                values = np.where(values == 0, 1, np.sign(values.astype(np.float64))).astype(t.numpy)
            start = values[:32].copy()
            spots = rng.integers(0, 32, 1024).astype(np.int32)
            kept = np.arange(1024) % 3 != 0
            want = start.astype(t.compute.numpy)
            with np.errstate(all="ignore"):
                NUMPY_MONOID[name].at(want, spots[kept], values[kept].astype(want.dtype))
            body = f"""
v, i = load(x, 4 * thread(), V), load(spots, 4 * thread(), V)
atomic("{name}", y, i, ANY, v, mask=(4 * thread() + slots((4,), 0)) % 3 != 0)
"""
            tiles = "V, ANY = Tile((4,), (1,), vector=4), Tile((4,), (0,))"
            yield check(
                f"atomic {name} {t}",
                body,
                {"x": values, "spots": spots, "y": start},
                {"y": want.astype(t.numpy)},
                tiles,
            )
    x = np.random.default_rng(23).integers(-3, 4, 4096).astype(np.float32)
    body = """
s = shared(float32, 16)
store(s, thread(), ONE, 0.0, mask=thread() < 16)
barrier()
atomic("sum", s, 0, ROW, load(x, 16 * thread(), ROW))
barrier()
atomic("sum", y, 0, ROW, load(s, 0, ROW), mask=thread() == 7)
"""
    yield check(
        "atomic vectors and shared memory",
        body,
        {"x": x, "y": np.ones(16, np.float32)},
        {"y": 1 + x.reshape(256, 16).sum(axis=0)},
        "ROW, ONE = Tile((16,), (1,), vector=4), Tile((), ())",
    )


def program_checks() -> Iterator[Check]:
    rng = np.random.default_rng(25)
    x = rng.standard_normal((64, 4096)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    softmax = """
at = 4096 * block(0) + 4 * thread()
x_ = load(x, at, ROW)
m = threads_max(reduce_max(x_, (0, 1)), 255, 256)
e = exp(x_ - m)
s = threads_sum(reduce_sum(e, (0, 1)), 255, 256)
store(y, at, ROW, e / s)
"""
    want = (e / e.sum(axis=1, keepdims=True)).astype(np.float32).reshape(-1)
    for bits in (32, 64):
        yield check(
            f"softmax index {bits}",
            softmax,
            {"x": x.reshape(-1)},
            {"y": want},
            "ROW = Tile((4, 4), (1024, 1), vector=4)",
            grid=(64,),
            floor=1e-6,
            tolerance=1e-5,
            index_bits=bits,
        )
    t = rng.standard_normal((256, 192)).astype(np.float32)
    transpose = """
r, c = thread() // 16, 4 * (thread() % 16)
tile = shared(float32, 64 * 65)
store(tile, c * 65 + r, PUT, load(x, (64 * block(1) + r) * n + 64 * block(0) + c, IN, (n,)))
barrier()
store(y, (64 * block(0) + r) * m + 64 * block(1) + c, OUT, load(tile, r * 65 + c, GET), (m,))
"""
    tiles = """
IN, OUT = Tile((4, 4), (16 * Size("n"), 1), vector=4), Tile((4, 4), (16 * Size("m"), 1), vector=4)
PUT, GET = Tile((4, 4), (16, 65)), Tile((4, 4), (16 * 65, 1))
"""
    yield check(
        "transpose through shared memory",
        transpose,
        {"x": t.reshape(-1)},
        {"y": t.T.reshape(-1)},
        tiles,
        grid=(3, 4),
        sizes={"m": 256, "n": 192},
    )
    big = rng.standard_normal(32768).astype(np.float32)
    yield check(
        "100 KB of shared memory",
        """
a, b = shared(float32, 16384), shared(float32, 9216)
store(a, 4 * thread(), HALF, load(x, 4 * thread(), HALF))
store(b, 4 * thread(), NINE, load(x, 16384 + 4 * thread(), NINE))
barrier()
i = 1023 - thread()
store(y, 4 * thread(), HALF, load(a, 4 * i, HALF))
store(y, 16384 + 4 * thread(), NINE, load(b, 4 * i, NINE))
""",
        {"x": big[:25600]},
        {
            "y": np.concatenate(
                [
                    big[:16384].reshape(4, 1024, 4)[:, ::-1].reshape(-1),
                    big[16384:25600].reshape(-1)[:8192].reshape(2, 1024, 4)[:, ::-1].reshape(-1),
                    np.zeros(1024, np.float32),
                ]
            )
        },
        "HALF, NINE = Tile((4, 4), (4096, 1), vector=4), Tile((2, 4), (4096, 1), vector=4)",
        threads=1024,
    )
    yield check(
        "scalar parameters",
        "store(y, thread(), ONE, load(x, thread(), ONE) * a + b - exp(a))\n"
        "store(z, thread(), ONE, where(flag, seed + 1, 0))",
        {"x": big[:256]},
        {
            "y": (big[:256].astype(np.float64) * 0.5 + 3 - np.exp(0.5)).astype(np.float32),
            "z": np.full(256, 2**63 + 6, np.uint64),
        },
        "ONE = Tile((), ())",
        floor=1.0,
        tolerance=1e-5,
        scalars={"a": ("f32", 0.5), "b": ("bf16", 3.0), "seed": ("u64", 2**63 + 5), "flag": ("bool", True)},
    )
    far = np.arange(1024, dtype=np.float32)
    yield check(
        "64-bit offsets",
        "store(y, thread(), ONE, load(advance(x, index64(n) * 4000000000), index64(thread()) - n * 4000000000, ONE))",
        {"x": far[:256]},
        {"y": far[:256]},
        "ONE = Tile((), ())",
        sizes={"n": 3},
        index_bits=64,
    )


def printed_checks() -> Iterator[Check]:
    """The kernels that the tests build by hand in kernel IR, as the printer prints them."""
    for name, build in kernels.CASES.items():
        case = build()
        kernel = case.kernel
        arrays = [p for p in kernel.parameters if isinstance(p, ArrayParameter)]
        every = {p.name: np.ascontiguousarray(case.arrays[p.name]) for p in arrays}  # what the card holds is packed
        packed = {p.strides[0]: 1 for p in arrays if p.strides is not None and isinstance(p.strides[0], str)}
        yield Check(
            f"printed {name}",
            print_kernel(kernel),
            every,
            case.expected,
            tolerance=max(case.tolerance, 1e-5),
            floor=1.0,
            threads=kernel.threads,
            grid=(math.prod(extent.evaluate(case.sizes) for extent in kernel.grid),),  # launched as one axis
            values={**case.sizes, **case.scalars, **packed},
            index_bits=kernel.index_bits,
            printed=kernel.parameters,
            entry=kernel.name,
        )
