"""Every scalar function on every dtype that it accepts, operators, casts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import gamma, inf, lgamma, nan

import numpy as np

from polyfuse import dtypes, scalars
from tests.gpu.checks import BY_NAME, FLOATS, INTEGERS, REGISTERS, TEXT, Check, check, random_values

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
SHORT = {"divide_short": 5e-7, "exp_short": 8e-6, "tanh_short": 6e-4}  # relative errors promised in single precision
PYTHON = {"erf": math.erf, "erfc": math.erfc, "lgamma": lgamma, "tgamma": gamma}


def reference(name: str, *operands: np.ndarray) -> np.ndarray:
    """NumPy's value, in float64 for floats that are not computed exactly."""
    name = name.removesuffix("_short")
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


def float_checks(t: str) -> Iterator[Check]:
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
        if f.name in ("sin", "cos"):  # of few turns, of many, of none
            turns = np.arange(1, 200) * (np.pi / 2)
            x[:400] = np.concatenate([turns, -turns * 331, [105615.0, -105616.0]]).astype(numpy)
            x[400:408] = np.array([0.0, -0.0, inf, -inf, nan, 3e4, -6e4, 1e-7 if t == "f16" else 1e30], numpy)
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
        tolerance = SHORT.get(f.name, tolerance) if t == "f32" else tolerance
        near_zero = {"lgamma": 0.1, "sin": 1e-3, "cos": 1e-3, "tan": 1e-3, "log": 1e-3, "fma": 1e-3}
        floor = near_zero.get(f.name, 1e-30)
        yield check(
            f"{f.name} {t}",
            body,
            dict(zip(names, operands, strict=True)),
            {"o": want},
            "V = Tile((4,), (1,), vector=4)",
            tolerance=tolerance,
            floor=floor,
            signed_zero=exact and f.name != "sign",
        )


def integer_checks(t: str) -> Iterator[Check]:
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
    yield check(
        f"integer functions {t}", "\n".join(body), {"px": x, "py": y}, expected, "V = Tile((4,), (1,), vector=4)"
    )


def cast_checks() -> Iterator[Check]:
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
        yield check(f"casts of {t}", "\n".join(body), {"x": x}, expected, "V = Tile((4,), (1,), vector=4)")


def quotient_checks() -> Iterator[Check]:
    """Of 16 slots each with a divisor of its own: numbers near 1, all bits that there are, nothing, quotients next
    to the middle between two floats; fragments of which some slot is odd and of which none is."""
    rng, blocks = np.random.default_rng(17), 256
    n = 4096 * blocks

    def near(low: int, high: int) -> np.ndarray:
        signs = rng.choice([-1, 1], n)
        return np.ldexp(signs * rng.integers(1 << 23, 1 << 24, n), rng.integers(low, high, n) - 23).astype(np.float32)

    def any_bits() -> np.ndarray:
        return rng.integers(0, 1 << 32, n, dtype=np.uint32).view(np.float32)

    d = near(-50, 50)
    middle = (np.ldexp(rng.integers(1 << 24, 1 << 25, n) | 1, -24) * d.astype(float)).astype(np.float32)
    zeros = np.where(rng.random(n) < 0.5, rng.choice(np.float32([0.0, -0.0]), n), near(-50, 50)).astype(np.float32)
    rare = np.where(rng.random(n) < 0.01, any_bits(), near(-30, 30)).astype(np.float32)
    special = rng.choice(np.array(SPECIAL, np.float32), n)
    pairs = {
        "near 1": (near(-59, 59), near(-59, 59)),
        "next to a middle": (middle, d),
        "nothing": (zeros, near(-50, 50)),
        "far": (near(-126, 127), near(-126, 127)),
        "any bits": (any_bits(), any_bits()),
        "few odd": (rare, rare[::-1].copy()),
        "special": (special, rng.permutation(special)),
    }
    tile = "V = Tile((4, 4), (1024, 1), vector=4)"
    lines = "at = 4096 * block(0) + 4 * thread()\nx, y = load(px, at, V), load(py, at, V)"
    for name, (x, y) in pairs.items():
        with np.errstate(all="ignore"):
            want = {"q": x / y, "r": np.float32(1) / y, "s": np.sqrt(np.abs(x))}
        body = f"{lines}\nstore(q, at, V, x / y)\nstore(r, at, V, 1.0 / y)\nstore(s, at, V, sqrt(absolute(x)))"
        yield check(f"quotients, {name}", body, {"px": x, "py": y}, want, tile, grid=(blocks,), signed_zero=True)
        several, body = "V = Tile((16, 4), (1024, 1), vector=4)", body.replace("4096 *", "16384 *")
        grid, found = (blocks // 4,), {"px": x, "py": y}
        yield check(f"64 quotients, {name}", body, found, want, several, grid=grid, signed_zero=True)


def function_checks() -> Iterator[Check]:
    yield from quotient_checks()
    for t in FLOATS:
        yield from float_checks(t)
    for t in ["bool", *INTEGERS]:
        yield from integer_checks(t)
    yield from cast_checks()
