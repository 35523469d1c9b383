"""Check the CUDA fragment runtime on a GPU against NumPy: every operation, dtype, width, mask and thread mask.

    python tests/gpu/fragment_check.py [--compile-only] [--only TEXT]

Prints one line per check and exits with 1 on a mismatch.  `--compile-only` stops after the assembler and needs no GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from math import gamma, inf, lgamma, nan
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import math

import numpy as np

from polyfuse import dtypes, scalars
from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.kernel import ArrayParameter, ScalarParameter, SizeParameter

BY_NAME = dtypes.BY_NAME
TEXT = {"bool": "boolean", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"} | {
    f"{k}{n}": f"{word}{n}" for k, word in (("i", "int"), ("u", "uint")) for n in (8, 16, 32, 64)
}
REGISTERS = [t.name for t in dtypes.ALL if t.compute == t]
FLOATS = ["f32", "f64"]
INTEGERS = [f"{k}{n}" for k in "iu" for n in (8, 16, 32, 64)]


@dataclass
class Check:
    """One kernel, its arrays by name (inputs are those without an expectation), and what they hold afterwards."""

    name: str
    source: str
    arrays: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    tolerance: float = 0.0
    threads: int = 256
    grid: tuple[int, ...] = (1,)
    sizes: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, tuple[str, float]] = field(default_factory=dict)
    index_bits: int = 32
    launches: int = 1
    signed_zero: bool = False
    dtypes: dict[str, str] = field(default_factory=dict)

    def parameters(self):
        """Arrays, then sizes, then scalars."""
        found = []
        for name, array in self.arrays.items():
            dtype = dtypes.from_numpy(array.dtype)
            found.append(ArrayParameter(name, dtype, (Affine.of(array.size),), readonly=name not in self.expected))
        found += [SizeParameter(name) for name in self.sizes]
        found += [ScalarParameter(name, BY_NAME[dtype]) for name, (dtype, _) in self.scalars.items()]
        return found


CHECKS: list[Check] = []


def check(name: str, body: str, arrays, expected, tiles: str = "", **options) -> None:
    """Add a check whose kernel has `body`."""
    outputs = {key: np.zeros_like(value) for key, value in expected.items() if key not in arrays}
    every = {**arrays, **outputs}
    names = [*every, *options.get("sizes", {}), *options.get("scalars", {})]
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    source = f"{tiles}\ndef kernel({', '.join(names)}):\n{lines}\n"
    CHECKS.append(Check(name, source, every, expected, **options))


def random_values(dtype: str, count: int, seed: int = 0, small: bool = False) -> np.ndarray:
    """Values of all magnitudes; `small`: safe to add up and multiply."""
    rng = np.random.default_rng(seed)
    numpy = BY_NAME[dtype].numpy
    if dtype == "bool":
        return rng.random(count) < 0.5
    if BY_NAME[dtype].is_float:
        return rng.standard_normal(count).astype(numpy)
    if small:
        return rng.integers(0 if dtype[0] == "u" else -5, 6, count).astype(numpy)
    bounds = np.iinfo(numpy)
    return rng.integers(bounds.min, bounds.max, count, dtype=numpy, endpoint=True)


# ---------------------------------------------------------------------------------------------- memory


def memory_checks() -> None:
    for t in dtypes.ALL:
        x = random_values(t.name, 4096)
        for bits in (32, 64) if t.name in ("bf16", "f32", "i8", "f64") else (32,):
            copies, widths = [], [1, 2, 4, 8, 16]
            for w in widths:
                copies.append(f"store(y{w}, 16 * thread(), W{w}, load(x, 16 * thread(), W{w}))")
            tiles = "\n".join(f"W{w} = Tile((16,), (1,), vector={w})" for w in widths)
            check(
                f"copy {t} index {bits}",
                "\n".join(copies),
                {"x": x},
                {f"y{w}": x for w in widths},
                tiles,
                index_bits=bits,
            )
        masked(t, x)
        gathered(t, x)
        through_shared(t, x)


def masked(t, x: np.ndarray) -> None:
    n, kept = 4096 - 37, np.arange(4096) < 4096 - 37
    one = np.ones((), t.numpy)
    whole = np.where(np.arange(4096) // 8 * 8 + 7 < n, x, one)  # by vectors of 8: all or nothing
    single = np.where(kept, x, one)
    stored = np.where(kept, x, np.zeros((), t.numpy))
    body = """
at = 16 * thread()
s = slots((16,), 0)
g = at + 8 * slots((2, 1), 0)
store(whole, at, PAIR, load(x, at, PAIR, mask=inside(n - 8 - g), other=1))
store(single, at, ROW, load(x, at, ROW, mask=at + s < n, other=1))
store(stored, at, ROW, load(x, at, ROW), mask=inside(n - 1 - at - s))
store(late, at, PAIR, load(x, at, PAIR), mask=g + 8 <= n)
"""
    late = np.where(np.arange(4096) // 8 * 8 + 8 <= n, x, np.zeros((), t.numpy))
    tiles = "ROW = Tile((16,), (1,), vector=8)\nPAIR = Tile((2, 8), (8, 1), vector=8)"
    expected = {"whole": whole, "single": single, "stored": stored, "late": late}
    check(f"masked {t}", body, {"x": x}, expected, tiles, sizes={"n": n})


def gathered(t, x: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    index = rng.integers(0, 1024, 1024).astype(np.int32)
    wide = (rng.permutation(1024) * 4).astype(np.int64)
    body = """
i = load(index, 4 * thread(), LINE)
store(a, 4 * thread(), LINE, load(x, i, ANY))
j = load(wide, 4 * thread(), LINE)
store(b, 16 * thread(), ROWS, load(x, j, GROUP))
store(c, j, GROUP, load(x, 16 * thread(), ROWS))
store(d, 4 * thread(), LINE, load(advance(x, 256), 1 + thread(), STRIDED, (m, n)))
"""
    tiles = """
LINE, ANY = Tile((4, 1), (1, 0)), Tile((4, 1), (0, 0))
GROUP, ROWS = Tile((4, 4), (0, 1), vector=4), Tile((4, 4), (4, 1), vector=4)
STRIDED = Tile((2, 2), (2 * Size("m"), Size("n")))
"""
    tiles = tiles.replace("STRIDED = Tile((2, 2), (2 * Size", "STRIDED = Tile((2, 2), (2 * Size")
    c = np.zeros_like(x)
    c.reshape(-1, 4)[wide // 4] = x.reshape(-1, 4)
    start = 257 + np.arange(256)[:, None, None]
    m, n = 100, 9
    d = x[(start + 2 * m * np.arange(2)[:, None] + n * np.arange(2)).reshape(-1)]
    expected = {"a": x[index], "b": x.reshape(-1, 4)[wide // 4].reshape(-1), "c": c, "d": d}
    body = body.replace("store(d, 4 * thread(), LINE,", "store(d, 4 * thread(), FOUR,")
    tiles += "FOUR = Tile((2, 2), (2, 1))\n"
    check(f"gather {t}", body, {"x": x, "index": index, "wide": wide}, expected, tiles, sizes={"m": m, "n": n})


def through_shared(t, x: np.ndarray) -> None:
    body = f"""
s = shared({TEXT[t.name]}, 4096)
store(s, 16 * thread(), ROW, load(x, 16 * thread(), ROW))
barrier()
store(y, thread(), COLUMN, load(s, thread(), COLUMN, mask=thread() < 255, other=0), mask=thread() < 255)
"""
    tiles = "ROW, COLUMN = Tile((16,), (1,), vector=16), Tile((16,), (256,))"
    y = x.copy()
    y[255::256] = np.zeros((), t.numpy)
    check(f"shared {t}", body, {"x": x}, {"y": y}, tiles)


# ---------------------------------------------------------------------------------------------- scalar functions

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 1e-30, 1e30, -1e30, inf, -inf, nan, 1e-40, 7.0]
EXACT = set(
    "negative absolute sign floor_divide remainder fmod maximum minimum fmax fmin isnan isinf isfinite signbit floor "
    "ceil trunc rint copysign nextafter sqrt add subtract multiply divide".split()
)
DOMAIN = {"log": (0, 50), "log2": (0, 50), "log10": (0, 50), "log1p": (-1, 50), "sqrt": (0, 50), "rsqrt": (0, 50)} | {
    "arcsin": (-1, 1),
    "arccos": (-1, 1),
    "arccosh": (1, 50),
    "arctanh": (-1, 1),
    "lgamma": (0.1, 30),
    "tgamma": (0.1, 20),
}
PYTHON = {"erf": math.erf, "erfc": math.erfc, "lgamma": lgamma, "tgamma": gamma}


def reference(name: str, *operands: np.ndarray) -> np.ndarray:
    """NumPy's value, in float64 for floats that are not computed exactly."""
    with np.errstate(all="ignore"):
        match name:
            case "rsqrt":
                return 1 / np.sqrt(operands[0])
            case "fma":
                a, b, c = (o.astype(np.longdouble) for o in operands)
                return (a * b + c).astype(np.float64)
            case "multiply_high":
                product = operands[0].astype(object) * operands[1].astype(object)
                return (product >> (8 * operands[0].itemsize)).astype(operands[0].dtype)
            case _ if name in PYTHON:
                return np.array([PYTHON[name](v) for v in operands[0].tolist()])
        return getattr(np, name)(*operands)


def float_checks(t: str) -> None:
    numpy, functions = BY_NAME[t].numpy, [f for f in scalars.FUNCTIONS.values() if "f" in f.kinds]
    functions = [f for f in functions if f.name not in ("where", "cast", "bitcast")]
    for f in functions:
        rng = np.random.default_rng(len(f.name))
        low, high = DOMAIN.get(f.name, (-20, 20))
        x, y, z = (rng.uniform(low, high, 1024).astype(numpy) for _ in range(3))
        if f.name in EXACT and f.arity <= 2:
            pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL], numpy)
            x[: len(pairs)], y[: len(pairs)] = pairs[:, 0], pairs[:, 1]
        if f.name in ("maximum", "minimum", "fmax", "fmin"):
            x[x == 0], y[y == 0] = 0.0, 0.0  # which zero wins is not specified
        if f.name == "power":
            x = np.abs(x) / 4
        operands = [x, y, z][: f.arity]
        exact = f.name in EXACT
        if exact:
            want = reference(f.name, *operands)
        else:
            with np.errstate(all="ignore"):
                want = reference(f.name, *(o.astype(np.float64) for o in operands))
            want = want if f.result == "bool" else want.astype(numpy)
        names = ["x", "y", "z"][: f.arity]
        loads = ", ".join(f"load({n}, 4 * thread(), V)" for n in names)
        body = f"store(o, 4 * thread(), V, {f.name}({loads}))"
        tolerance = 0.0 if exact else (4e-6 if t == "f32" else 4e-14)
        check(
            f"{f.name} {t}",
            body,
            dict(zip(names, operands, strict=True)),
            {"o": want},
            "V = Tile((4,), (1,), vector=4)",
            tolerance=tolerance,
            signed_zero=exact and f.name != "sign",
        )


def integer_checks(t: str) -> None:
    numpy = BY_NAME[t].numpy
    x, y = random_values(t, 1024, 1), random_values(t, 1024, 2)
    y[::3] = random_values(t, 1024, 3, small=True)[::3]
    if t != "bool":
        bounds = np.iinfo(numpy)
        edge = np.array([(a, b) for a in (bounds.min, bounds.max, 0, 1) for b in (bounds.max, 0, 1, bounds.min)], numpy)
        x[:16], y[:16] = edge[:, 0], edge[:, 1]
        if t[0] == "i":
            x[16:18], y[16:18] = (bounds.min, bounds.max), -1
    body, expected = ["x, y = load(px, 4 * thread(), V), load(py, 4 * thread(), V)"], {}
    for f in scalars.FUNCTIONS.values():
        if t[0] not in f.kinds or f.name in ("where", "cast", "bitcast"):
            continue
        left, right = x, y
        text = f"{f.name}({', '.join('xy'[: f.arity])})"
        if f.name == "power":
            text, right = f"power(x, y & {7})", y & numpy.type(7)
        elif f.infix:
            text = f"x {f.infix} y"
        with np.errstate(all="ignore"):
            want = reference(f.name, *((left, right)[: f.arity]))
        if f.name in ("less", "right_shift", "left_shift", "floor_divide", "remainder"):  # operators as well
            symbol = {"less": "<", "right_shift": ">>", "left_shift": "<<", "floor_divide": "//", "remainder": "%"}
            body.append(f"store(op_{f.name}, 4 * thread(), V, x {symbol[f.name]} y)")
            expected[f"op_{f.name}"] = want
        body.append(f"store({f.name}_, 4 * thread(), V, {text})")
        expected[f"{f.name}_"] = want
    if t != "bool":
        with np.errstate(all="ignore"):
            for name, text, want in (
                (
                    "by_literal",
                    "x // 8 + x % 8 + (x << 3) + (x >> 2)",
                    x // numpy.type(8) + x % numpy.type(8) + (x << numpy.type(3)) + (x >> numpy.type(2)),
                ),
                ("by_seven", "x // 7 + x % 7 - 5", x // numpy.type(7) + x % numpy.type(7) - numpy.type(5)),
                ("cubed", "x ** 3", x**3),
                ("chosen", "where((x > y) & ~(x == y), x, 3)", np.where(x > y, x, numpy.type(3))),
            ):
                body.append(f"store({name}, 4 * thread(), V, {text})")
                expected[name] = want.astype(numpy)
    check(f"integer functions {t}", "\n".join(body), {"px": x, "py": y}, expected, "V = Tile((4,), (1,), vector=4)")


def cast_checks() -> None:
    for t in REGISTERS:
        x = random_values(t, 1024, 5, small=BY_NAME[t].is_float)
        if t in FLOATS:
            x = (x * 30).astype(x.dtype)
        body, expected = ["v = load(x, 4 * thread(), V)"], {}
        for target in dtypes.ALL:
            source = "v"
            values = x
            if target.kind == "u" and BY_NAME[t].is_float:
                source, values = "absolute(v)", np.abs(x)
            with np.errstate(all="ignore"):
                want = values.astype(target.numpy)
                if target.name == "bf16":
                    want = values.astype(np.float32).astype(target.numpy)
            body.append(f"store(to_{target}, 4 * thread(), V, cast({source}, {TEXT[target.name]}))")
            expected[f"to_{target}"] = want
        for target in (u for u in REGISTERS if BY_NAME[u].itemsize == BY_NAME[t].itemsize and "bool" not in (t, u)):
            body.append(f"store(bits_{target}, 4 * thread(), V, bitcast(v, {TEXT[target]}))")
            expected[f"bits_{target}"] = x.view(BY_NAME[target].numpy)
        check(f"casts of {t}", "\n".join(body), {"x": x}, expected, "V = Tile((4,), (1,), vector=4)")


# ---------------------------------------------------------------------------------------------- reductions

NUMPY_MONOID = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "any": np.logical_or,
    "all": np.logical_and,
    "bitor": np.bitwise_or,
    "bitand": np.bitwise_and,
    "bitxor": np.bitwise_xor,
}
MASKS = [0, 1, 16, 31, 32, 255, 224, 0b10100101, 28, 192]


def reduce_over(name: str, values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """NumPy's reduction in the dtype of the values, kept dimensions."""
    function = NUMPY_MONOID[name]
    with np.errstate(all="ignore"):
        exact = values.astype(np.float64) if values.dtype == np.float32 else values
        for axis in axes:
            keep = {} if name in ("any", "all") else {"dtype": exact.dtype}
            exact = function.reduce(exact, axis=axis, keepdims=True, **keep)
        return exact.astype(values.dtype)


def over_threads(name: str, values: np.ndarray, mask: int) -> np.ndarray:
    """Combine the rows (threads) that differ in the bits of `mask`."""
    count = len(values)
    bits = values.reshape([2] * (count.bit_length() - 1) + list(values.shape[1:]))
    last = count.bit_length() - 2
    combined = reduce_over(name, bits, tuple(last - k for k in range(last + 1) if mask >> k & 1))
    return np.broadcast_to(combined, bits.shape).reshape(values.shape)


def monoids_of(t: str) -> list[str]:
    return [
        m.name
        for m in scalars.MONOIDS.values()
        if t[0] in m.kinds.replace("f", "f" if t in FLOATS else "-") or (t in FLOATS and "f" in m.kinds)
    ]


def reduction_checks(t: str) -> None:
    numpy = BY_NAME[t].numpy
    x = random_values(t, 256 * 6, 7, small=True)
    if t in FLOATS:
        x = (1 + x / 8).astype(numpy)
    cube = x.reshape(256, 2, 3)
    tiles = "X, R = Tile((2, 3), (3, 1)), Tile((2, 1), (1, 0))\nC, S = Tile((1, 3), (0, 1)), Tile((1, 1), (0, 0))"
    for name in [m for m in monoids_of(t) if not m.startswith("arg")]:
        body, expected = ["v = load(x, 6 * thread(), X)"], {}
        for label, axes, tile, size in (("rows", (1,), "R", 2), ("columns", (0,), "C", 3), ("both", (0, 1), "S", 1)):
            body.append(f"store({label}, {size} * thread(), {tile}, reduce_{name}(v, {axes}))")
            expected[label] = reduce_over(name, cube, tuple(a + 1 for a in axes)).reshape(-1)
        body.append(f"one = reduce_{name}(v, (0,))" if name != "prod" else "one = load(x, 6 * thread(), C)")
        each = reduce_over(name, cube, (1,)).reshape(256, 3) if name != "prod" else cube[:, 0]
        for mask in MASKS if name in ("sum", "max", "any", "bitxor") else (31, 255):
            body.append(f"store(mask{mask}, 3 * thread(), C, threads_{name}(one, {mask}, 256))")
            expected[f"mask{mask}"] = over_threads(name, each, mask).reshape(-1)
        tolerance = 0.0 if t not in FLOATS or name not in ("sum", "prod") else (2e-4 if t == "f32" else 1e-11)
        check(f"reduce {name} {t}", "\n".join(body), {"x": x}, expected, tiles, tolerance=tolerance)


def pair_checks(t: str) -> None:
    x = random_values(t, 256 * 6, 9, small=True)
    if t in FLOATS:
        x = np.round(x * 2).astype(x.dtype)
        x[100], x[900] = nan, nan
    for name, index_type in (("argmax", "int32"), ("argmin", "int64")):
        body = f"""
v = load(x, 6 * thread(), X)
i = cast(6 * thread(), {index_type}) + cast(3 * slots((2, 3), 0) + slots((2, 3), 1), {index_type})
a, k = reduce_{name}(v, i, (0, 1))
store(local, thread(), S, k)
w, j = threads_{name}(a, k, 31, 256)
store(warp, thread(), S, j)
w, j = threads_{name}(a, k, 255, 256)
store(whole, thread(), S, j)
store(value, thread(), S, w)
"""
        function = getattr(np, name)
        with np.errstate(all="ignore"):
            rows, warps = x.reshape(256, 6), x.reshape(8, 192)
            local = np.arange(256) * 6 + function(rows, axis=1)
            warp = np.repeat(np.arange(8) * 192 + function(warps, axis=1), 32)
        k = np.int32 if index_type == "int32" else np.int64
        best = np.full(256, function(x))
        expected = {"local": local.astype(k), "warp": warp.astype(k), "whole": best.astype(k), "value": x[best]}
        check(f"{name} {t}", body, {"x": x}, expected, "X, S = Tile((2, 3), (3, 1)), Tile((1, 1), (0, 0))")


def loop_checks() -> None:
    x = random_values("f32", 256 * 8, 11)
    body = """
total = constant(0.0, float32)
for k in range(n):
    v = load(x, 256 * k + thread(), ONE)
    total = total + threads_sum(v, 255, 256)
    total = total * 0.5
    if total > 1.0:
        total = total - 0.25
store(y, thread(), ONE, total)
"""
    total = 0.0
    for row in x.reshape(8, 256).astype(np.float64):
        total = (total + row.sum()) * 0.5
        total -= 0.25 if total > 1.0 else 0.0
    want = np.full(256, total, np.float32)
    check("combination in a loop", body, {"x": x}, {"y": want}, "ONE = Tile((), ())", sizes={"n": 8}, tolerance=1e-4)
    rows = random_values("f32", 1024 * 8, 12)
    wide = """
v = load(x, 8 * thread(), ROW)
for k in range(3):
    v = threads_max(v, 992, 1024) - cast(k, float32)
store(y, 8 * thread(), ROW, v)
"""
    table = rows.reshape(32, 32, 8).max(axis=0, keepdims=True) - np.float32(3)
    want = np.broadcast_to(table, (32, 32, 8)).reshape(-1)
    check(
        "warps through a large buffer, in a loop",
        wide,
        {"x": rows},
        {"y": want},
        "ROW = Tile((8,), (1,), vector=8)",
        threads=1024,
    )
    small = random_values("i32", 16, 13, small=True)
    check(
        "a block of 16 threads",
        "store(y, thread(), ONE, threads_sum(load(x, thread(), ONE), 15, 16))",
        {"x": small},
        {"y": np.full(16, small.sum(), np.int32)},
        "ONE = Tile((), ())",
        threads=16,
    )


def scan_checks(t: str) -> None:
    x = random_values(t, 256 * 4, 15, small=True)
    names = {"b": ["any", "all", "bitxor"], "f": ["sum", "max", "fmin"], "i": ["sum", "min"], "u": ["sum", "max"]}
    neutral = {"sum": 0, "any": False, "all": True, "bitxor": False, "fmin": inf}
    bounds = None if t[0] in "bf" else np.iinfo(x.dtype)
    neutral["max"] = -inf if bounds is None else bounds.min
    neutral["min"] = inf if bounds is None else bounds.max
    for name in names[t[0]]:
        function = NUMPY_MONOID[name]
        for mask, count in ((0, 256), (7, 256), (31, 256), (255, 256), (63, 256), (1023, 1024)):
            if mask not in (255, 31) and name != "sum":
                continue
            data = random_values(t, count * 4, 16, small=True) if count != 256 else x
            body, expected = ["v = load(x, 4 * thread(), V)"], {}
            group = (mask + 1) * 4
            lines = data.reshape(-1, group)
            for exclusive in (False, True):
                for reverse in (False, True):
                    label = f"p{int(exclusive)}{int(reverse)}"
                    seen = lines[:, ::-1] if reverse else lines
                    exact = seen.astype(np.float64) if t == "f32" else seen
                    with np.errstate(all="ignore"):
                        keep = {} if name in ("any", "all") else {"dtype": exact.dtype}
                        prefix = function.accumulate(exact, axis=1, **keep)
                    prefix = prefix.astype(data.dtype)
                    total = prefix[:, -1:]
                    if exclusive:
                        first = np.full((len(prefix), 1), neutral[name], data.dtype)
                        prefix = np.concatenate([first, prefix[:, :-1]], axis=1)
                    prefix = prefix[:, ::-1] if reverse else prefix
                    body += [f"p, t = scan_{name}(v, 0, {mask}, {count}, {exclusive}, {reverse})"]
                    body += [f"store({label}, 4 * thread(), V, p)", f"store(t{label}, thread(), S, t)"]
                    expected[label] = prefix.reshape(-1)
                    expected[f"t{label}"] = np.repeat(total.reshape(-1), mask + 1)
            tolerance = 0.0 if t not in FLOATS or name != "sum" else (1e-4 if t == "f32" else 1e-10)
            check(
                f"scan {name} {t} bits {mask}",
                "\n".join(body),
                {"x": data},
                expected,
                "V, S = Tile((4,), (1,), vector=4), Tile((1,), (0,))",
                threads=count,
                tolerance=tolerance,
            )


def contract_checks() -> None:
    for t in ("f32", "f64", "i32"):
        x, y = random_values(t, 256 * 8, 17, small=True), random_values(t, 256 * 12, 18, small=True)
        body = f"""
a = load(x, 8 * thread(), A)
b = load(y, 12 * thread(), B)
c = full((1, 2, 3), 1, {TEXT[t]})
store(z, 6 * thread(), C, contract(c, a, b, (0,)))
"""
        tiles = "A, B = Tile((4, 2, 1), (2, 1, 0)), Tile((4, 1, 3), (3, 0, 1))\nC = Tile((1, 2, 3), (0, 3, 1))"
        want = 1 + np.einsum("tki,tkj->tij", x.reshape(256, 4, 2).astype(np.float64), y.reshape(256, 4, 3))
        check(
            f"contract {t}",
            body,
            {"x": x, "y": y},
            {"z": want.astype(x.dtype).reshape(-1)},
            tiles,
            tolerance=0.0 if t == "i32" else 1e-5 if t == "f32" else 1e-12,
        )


# ---------------------------------------------------------------------------------------------- blocks and atomics


def elect_check() -> None:
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
    check(
        "column sum by the last block, three launches",
        body,
        {"x": x},
        expected,
        tiles,
        sizes={"n": n},
        grid=(4, 2),
        launches=3,
        tolerance=2e-5,
    )


def atomic_checks() -> None:
    for t in dtypes.ALL:
        for name in [m for m in monoids_of(t.compute.name) if not m.startswith("arg")]:
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
            check(
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
    check(
        "atomic vectors and shared memory",
        body,
        {"x": x, "y": np.ones(16, np.float32)},
        {"y": 1 + x.reshape(256, 16).sum(axis=0)},
        "ROW, ONE = Tile((16,), (1,), vector=4), Tile((), ())",
    )


def program_checks() -> None:
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
        check(
            f"softmax index {bits}",
            softmax,
            {"x": x.reshape(-1)},
            {"y": want},
            "ROW = Tile((4, 4), (1024, 1), vector=4)",
            grid=(64,),
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
    check(
        "transpose through shared memory",
        transpose,
        {"x": t.reshape(-1)},
        {"y": t.T.reshape(-1)},
        tiles,
        grid=(3, 4),
        sizes={"m": 256, "n": 192},
    )
    big = rng.standard_normal(32768).astype(np.float32)
    check(
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
    check(
        "scalar parameters",
        "store(y, thread(), ONE, load(x, thread(), ONE) * a + b - exp(a))\n"
        "store(z, thread(), ONE, where(flag, seed + 1, 0))",
        {"x": big[:256]},
        {
            "y": (big[:256].astype(np.float64) * 0.5 + 3 - np.exp(0.5)).astype(np.float32),
            "z": np.full(256, 2**63 + 6, np.uint64),
        },
        "ONE = Tile((), ())",
        tolerance=1e-5,
        scalars={"a": ("f32", 0.5), "b": ("bf16", 3.0), "seed": ("u64", 2**63 + 5), "flag": ("bool", True)},
    )
    far = np.arange(1024, dtype=np.float32)
    check(
        "64-bit offsets",
        "store(y, thread(), ONE, load(advance(x, index64(n) * 4000000000), index64(thread()) - n * 4000000000, ONE))",
        {"x": far[:256]},
        {"y": far[:256]},
        "ONE = Tile((), ())",
        sizes={"n": 3},
        index_bits=64,
    )


def build() -> None:
    memory_checks()
    for t in FLOATS:
        float_checks(t)
    for t in ["bool", *INTEGERS]:
        integer_checks(t)
    cast_checks()
    for t in REGISTERS:
        reduction_checks(t)
        pair_checks(t)
    loop_checks()
    for t in ("f32", "f64", "i32", "u64", "i8", "bool"):
        scan_checks(t)
    contract_checks()
    elect_check()
    atomic_checks()
    program_checks()


# ---------------------------------------------------------------------------------------------- running


def compile_one(position: int) -> CompiledKernel | str:
    c = CHECKS[position]
    try:
        kernel = compile_kernel(c.source, "kernel", c.parameters(), c.threads, CAPABILITY, index_bits=c.index_bits)
        return assemble(kernel) if find_ptxas() else kernel
    except Exception as error:  # a check that does not compile is one failed line, not the end
        lines = "".join(traceback.format_exception_only(error))
        return f"{lines}\n{c.source}"


def compile_all() -> list[CompiledKernel | str]:
    """In parallel: the compiler holds a global lock, so in processes."""
    workers = min(os.cpu_count() or 1, 16)
    if workers < 3:
        return [compile_one(k) for k in range(len(CHECKS))]
    from polyfuse.backends.numba_cuda.fragments import runtime  # noqa: F401  imported once, inherited by the workers

    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        return list(pool.map(compile_one, range(len(CHECKS)), chunksize=4))


def same(got: np.ndarray, want: np.ndarray, c: Check) -> str:
    """Empty, or how they differ."""
    got, want = got.reshape(-1), want.reshape(-1)
    if got.dtype.kind not in "fV" and got.dtype.name != "bfloat16":
        wrong = got != want
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            close = (g == w) | (np.isnan(g) & np.isnan(w))
            if c.tolerance:
                scale = np.maximum(np.abs(w), 1e-3 if c.tolerance > 1e-8 else 1e-12)
                close |= np.abs(g - w) <= c.tolerance * scale
            if c.signed_zero:
                close &= (np.signbit(g) == np.signbit(w)) | np.isnan(w)
        wrong = ~close
    if not wrong.any():
        return ""
    k = int(np.argmax(wrong))
    inputs = {n: a.reshape(-1)[k] for n, a in c.arrays.items() if n not in c.expected and a.size == got.size}
    return f"{int(wrong.sum())} of {wrong.size} differ; at {k} got {got[k]!r}, expected {want[k]!r}, inputs {inputs}"


def run_one(c: Check, kernel: CompiledKernel) -> str:
    from polyfuse.backends.numba_cuda.driver import check as ok
    from polyfuse.backends.numba_cuda.driver import current_context, driver
    from polyfuse.backends.numba_cuda.launch import Launcher

    with current_context():
        api, places = driver(), {}
        for name, array in c.arrays.items():
            places[name] = ok(api.cuMemAlloc(max(array.nbytes, 16)), "allocating")
            data = np.ascontiguousarray(array)
            ok(api.cuMemcpyHtoD(places[name], data.ctypes.data, data.nbytes), "copying in")
        arguments = [int(p) for p in places.values()]
        arguments += [*c.sizes.values(), *(value for _, value in c.scalars.values())]
        launcher = Launcher(kernel)
        for _ in range(c.launches):
            launcher.launch(c.grid, arguments)
        ok(api.cuCtxSynchronize(), "running")
        problems = []
        for name, want in c.expected.items():
            got = np.empty_like(c.arrays[name])
            ok(api.cuMemcpyDtoH(got.ctypes.data, places[name], got.nbytes), "copying out")
            difference = same(got, want, c)
            if difference:
                problems.append(f"{name}: {difference}")
        for place in places.values():
            ok(api.cuMemFree(place), "freeing")
    return "; ".join(problems)


def launch_cost() -> None:
    from polyfuse.backends.numba_cuda.driver import current_context, driver
    from polyfuse.backends.numba_cuda.launch import Launcher

    text = "ONE = Tile((), ())\ndef nothing(x, n):\n    store(x, thread(), ONE, 0.0, mask=thread() < n)\n"
    parameters = (ArrayParameter("x", dtypes.f32, (Affine.of(1),), readonly=False), SizeParameter("n"))
    launcher = Launcher(compile_kernel(text, "nothing", parameters, 32, CAPABILITY))
    with current_context():
        launcher.launch((0,), (0, 0))
        for _ in range(1000):
            launcher.launch((1, 1, 1), (0, 0))
        driver().cuCtxSynchronize()
        start = time.perf_counter()
        for _ in range(1000):
            launcher.launch((1, 1, 1), (0, 0))
        cost = time.perf_counter() - start
        driver().cuCtxSynchronize()
    print(f"launch {1e3 * cost:.2f} us of host time; resources {launcher.resources()}")


def main() -> int:
    global CAPABILITY
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--capability", default="9.0", help="with --compile-only")
    options = parser.parse_args()
    CAPABILITY = tuple(int(part) for part in options.capability.split("."))
    begin = time.perf_counter()
    build()
    if options.only:
        CHECKS[:] = [c for c in CHECKS if options.only in c.name]
    kernels = compile_all()
    print(f"{len(CHECKS)} kernels compiled in {time.perf_counter() - begin:.1f} s")
    if not options.compile_only:
        from polyfuse.backends.numba_cuda.driver import capability

        if capability() != CAPABILITY:
            CAPABILITY = capability()
            kernels = compile_all()
    failed = 0
    for c, kernel in zip(CHECKS, kernels, strict=True):
        if isinstance(kernel, str):
            outcome = f"DOES NOT COMPILE {kernel}"
        else:
            try:
                outcome = "" if options.compile_only else run_one(c, kernel)
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
        failed += bool(outcome)
        used = getattr(kernel, "resources", None)
        facts = f"{used.registers} registers, {used.local_bytes} local" if used else ""
        print(f"{'ok  ' if not outcome else 'FAIL'} {c.name}  {outcome or facts}", flush=True)
    if not options.compile_only:
        launch_cost()
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} pass, {time.perf_counter() - begin:.1f} s")
    return 1 if failed else 0


CAPABILITY = (9, 0)

if __name__ == "__main__":
    sys.exit(main())
