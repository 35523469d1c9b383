"""Reductions over slots and threads, arguments of extrema, scans, contractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import inf, nan

import numpy as np

from tests.gpu.checks import BY_NAME, FLOATS, NUMPY_MONOID, REGISTERS, TEXT, Check, check, monoids_of, random_values

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


def reduction_checks(t: str) -> Iterator[Check]:
    numpy = BY_NAME[t].numpy
    x = random_values(t, 256 * 6, 7, small=True)
    if t in FLOATS:
        x = (1 + x / 8).astype(numpy)
    cube = x.reshape(256, 2, 3)
    tiles = "X, R = Tile((2, 3), (3, 1)), Tile((2, 1), (1, 0))\nC, S = Tile((1, 3), (0, 1)), Tile((1, 1), (0, 0))"
    for name in monoids_of(t):
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
        yield check(f"reduce {name} {t}", "\n".join(body), {"x": x}, expected, tiles, floor=1.0, tolerance=tolerance)


def slots_checks(t: str) -> Iterator[Check]:
    """Several slots of a thread, which lanes share out between them where they are even in number."""
    for slots in (2, 4, 12, 24):
        tile = f"V = Tile(({slots},), (1,))"
        x = random_values(t, 256 * slots, 8, small=True)
        x = np.round(x).astype(x.dtype) if t in FLOATS else x
        body, expected = [f"v = load(x, {slots} * thread(), V)"], {}
        for mask in (32, 63, 192, 224, 228, 252, 255):
            body.append(f"store(mask{mask}, {slots} * thread(), V, threads_sum(v, {mask}, 256))")
            expected[f"mask{mask}"] = over_threads("sum", x.reshape(256, slots), mask).reshape(-1)
        yield check(f"{slots} slots over threads {t}", "\n".join(body), {"x": x}, expected, tile)


def pair_checks(t: str) -> Iterator[Check]:
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
        yield check(f"{name} {t}", body, {"x": x}, expected, "X, S = Tile((2, 3), (3, 1)), Tile((1, 1), (0, 0))")


def loop_checks() -> Iterator[Check]:
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
    yield check(
        "combination in a loop",
        body,
        {"x": x},
        {"y": want},
        "ONE = Tile((), ())",
        sizes={"n": 8},
        floor=1.0,
        tolerance=1e-4,
    )
    rows = random_values("f32", 1024 * 8, 12)
    wide = """
v = load(x, 8 * thread(), ROW)
for k in range(3):
    v = threads_max(v, 992, 1024) - cast(k, float32)
store(y, 8 * thread(), ROW, v)
"""
    table = rows.reshape(32, 32, 8).max(axis=0, keepdims=True) - np.float32(3)
    want = np.broadcast_to(table, (32, 32, 8)).reshape(-1)
    yield check(
        "warps through a large buffer, in a loop",
        wide,
        {"x": rows},
        {"y": want},
        "ROW = Tile((8,), (1,), vector=8)",
        threads=1024,
    )
    small = random_values("i32", 16, 13, small=True)
    yield check(
        "a block of 16 threads",
        "store(y, thread(), ONE, threads_sum(load(x, thread(), ONE), 15, 16))",
        {"x": small},
        {"y": np.full(16, small.sum(), np.int32)},
        "ONE = Tile((), ())",
        threads=16,
    )


def scan_checks(t: str) -> Iterator[Check]:
    x = random_values(t, 256 * 4, 15, small=True)
    names = {"b": ["any", "all", "bitxor"], "i": ["sum", "min"], "u": ["sum", "max"]}
    names["f"] = ["sum", "max", "fmax", "fmin"]
    neutral = {"sum": 0, "any": False, "all": True, "bitxor": False}
    neutral |= {"fmax": nan, "fmin": nan}  # what they ignore; an infinity would hide that there was nothing but NaN
    bounds = None if t[0] in "bf" else np.iinfo(x.dtype)
    neutral["max"] = -inf if bounds is None else bounds.min
    neutral["min"] = inf if bounds is None else bounds.max
    for name in names[t[0]]:
        function = NUMPY_MONOID[name]
        for mask, count in ((0, 256), (7, 256), (31, 256), (255, 256), (63, 256), (1023, 1024)):
            if mask not in (255, 31) and name != "sum":
                continue
            data = random_values(t, count * 4, 16, small=True) if count != 256 else x.copy()
            if name in ("fmax", "fmin"):
                data[[0, 1, 130, 513]] = nan
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
            yield check(
                f"scan {name} {t} bits {mask}",
                "\n".join(body),
                {"x": data},
                expected,
                "V, S = Tile((4,), (1,), vector=4), Tile((1,), (0,))",
                threads=count,
                floor=1.0,
                tolerance=tolerance,
            )


def apart_scan_checks(t: str) -> Iterator[Check]:
    """Scans over threads that lie apart, lanes of a warp, whole warps or both, in each slot and through all of them."""
    x = random_values(t, 256 * 4, 15, small=True)
    for mask, reverse in itertools.product((32, 96, 224, 192, 2, 6, 16, 24, 28, 56, 240, 248), (False, True)):
        low = mask & -mask
        body, expected = ["v = load(x, 4 * thread(), V)"], {}
        for axis, exclusive in itertools.product((None, 0), (False, True)):
            lines = x.reshape(-1, mask // low + 1, low, 4)  # which group, place in it, its neighbour, slot
            order = (0, 2, 3, 1) if axis is None else (0, 2, 1, 3)
            seen = lines.transpose(order).astype(np.float64 if t == "f32" else x.dtype)
            flat = seen if axis is None else seen.reshape(*seen.shape[:2], -1)
            flat = flat[..., ::-1] if reverse else flat
            prefix = np.cumsum(flat, axis=-1, dtype=flat.dtype)
            total = prefix[..., -1:] * np.ones_like(prefix)
            prefix = prefix - flat if exclusive else prefix
            prefix = prefix[..., ::-1] if reverse else prefix
            label = f"{'each' if axis is None else 'through'}{'_before' if exclusive else ''}"
            body += [f"{label}_p, {label}_t = scan_sum(v, {axis}, {mask}, 256, {exclusive}, {reverse})"]
            body += [f"store({label}, 4 * thread(), V, {label}_p)"]
            at = "4 * thread(), V" if axis is None else "thread(), S"
            body += [f"store(t{label}, {at}, {label}_t)"]
            back = np.argsort(order)
            found = prefix.astype(x.dtype).reshape(seen.shape).transpose(back)
            totals = total.astype(x.dtype).reshape(seen.shape).transpose(back)
            expected[label] = np.ascontiguousarray(found).reshape(-1)
            expected[f"t{label}"] = np.ascontiguousarray(totals if axis is None else totals[..., :1]).reshape(-1)
        yield check(
            f"scan of threads apart sum {t} bits {mask}{' reverse' if reverse else ''}",
            "\n".join(body),
            {"x": x},
            expected,
            "V, S = Tile((4,), (1,), vector=4), Tile((1,), (0,))",
            floor=1.0,
            tolerance=1e-4 if t == "f32" else 0.0,
        )


def contract_checks() -> Iterator[Check]:
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
        yield check(
            f"contract {t}",
            body,
            {"x": x, "y": y},
            {"z": want.astype(x.dtype).reshape(-1)},
            tiles,
            floor=1.0,
            tolerance=0.0 if t == "i32" else 1e-5 if t == "f32" else 1e-12,
        )


def all_reduction_checks() -> Iterator[Check]:
    for t in REGISTERS:
        yield from reduction_checks(t)
        yield from pair_checks(t)
    yield from loop_checks()
    for t in ("f32", "f64", "i32", "u64", "i8", "bool"):
        yield from scan_checks(t)
    for t in ("f32", "f64", "i32", "i8"):
        yield from slots_checks(t)
    for t in ("f32", "i32"):
        yield from apart_scan_checks(t)
    yield from contract_checks()
