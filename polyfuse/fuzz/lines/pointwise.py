"""Elementwise lines: functions, arithmetic, comparisons, choices, bits, casts."""

from __future__ import annotations

from polyfuse.fuzz.pool import Pool, Proposal
from polyfuse.fuzz.program import Line

UNARY = """
-{0}|np.abs({0})|np.tanh({0})|np.exp(-np.abs({0}))|np.exp({0})|np.sqrt(np.abs({0}))|np.sqrt({0})|np.log({0})
np.log1p(np.abs({0}))|np.sin({0})|np.cos({0})|np.square({0})|np.sign({0})|np.floor({0})|np.ceil({0})|np.trunc({0})
np.rint({0})|np.expm1({0})|np.exp2({0})|np.log2(np.abs({0}))|np.log10(np.abs({0}))|np.arctan({0})|np.arcsinh({0})
np.reciprocal({0})|1 / (1 + np.exp(-{0}))|np.cbrt({0})|np.clip({0}, -1, 1)|np.clip({0}, 0, None)|np.nan_to_num({0})
np.arcsin(np.clip({0}, -1, 1))|np.sinh(np.clip({0}, -3, 3))|np.cosh(np.clip({0}, -3, 3))|np.degrees({0})
pf.sigmoid({0})|pf.relu({0})|pf.silu({0})|pf.gelu({0})|pf.erf({0})|pf.softplus({0})|pf.rsqrt(np.abs({0}) + 1)
np.round({0}, 1)|np.fabs({0})|np.positive({0})|np.tan({0})|np.sinc({0})|np.heaviside({0}, 0.5)|np.modf({0})[0]
pf.leaky_relu({0})|pf.elu({0})|pf.erfc({0})|pf.gelu_tanh({0})|np.arccosh(np.abs({0}) + 1)|np.arctanh(np.tanh({0}))
np.nan_to_num({0}, nan=1.5, posinf=7, neginf=-8)
np.deg2rad({0})|{0} * {0}|{0} + {0}|{0} ** 2|{0} ** 3|np.abs({0}) ** 0.5|np.arccos(np.clip({0}, -1, 1))
"""
BINARY = """
{0} + {1}|{0} - {1}|{0} * {1}|{0} / (1 + np.abs({1}))|{0} / {1}|np.maximum({0}, {1})|np.minimum({0}, {1})
np.fmax({0}, {1})|np.fmin({0}, {1})|np.hypot({0}, {1})|np.arctan2({0}, {1})|np.copysign({0}, {1})
np.where({0} > {1}, {0}, {1})|np.where({0} < 0, {1}, {0} * 2)|np.logaddexp({0}, {1})|{0} // (1 + np.abs({1}))
{0} % (1 + np.abs({1}))|np.fmod({0}, 1 + np.abs({1}))|np.power(np.abs({0}), np.clip({1}, -2, 2))|np.float_power({0}, 2)
np.fmax({0}, {1} * 2)|np.fmin({0}, -{1})
pf.fma({0}, {1}, {0})|np.divmod({0}, 1 + np.abs({1}))[1]|({0} + {1}) * ({0} - {1})|np.logaddexp2({0}, {1})
"""
COMPARE = """
{0} < {1}|{0} <= {1}|{0} > {1}|{0} >= {1}|{0} == {1}|{0} != {1}|np.isclose({0}, {1})
"""
TEST = """
np.isnan({0})|np.isinf({0})|np.isinf(1 / {0})|np.isfinite({0})|np.signbit({0})|{0} > 0|{0} != 0|np.logical_not({0})
"""
LOGIC = "{0} & {1}|{0} | {1}|{0} ^ {1}|np.logical_and({0}, {1})|np.logical_or({0}, {1})|np.logical_xor({0}, {1})"
WHOLE_UNARY = (
    "-{0}|~{0}|np.abs({0})|{0} * 3|{0} + 1|{0} << 2|{0} >> 1|np.sign({0})|{0} % 5|{0} // 3|np.square({0})|{0} ** 2"
)
WHOLE_BINARY = """
{0} + {1}|{0} - {1}|{0} * {1}|np.maximum({0}, {1})|np.minimum({0}, {1})|{0} & {1}|{0} | {1}|{0} ^ {1}
{0} // (({1} & 7) + 1)|{0} % (({1} & 7) + 1)|np.where({0} > {1}, {0}, {1})|{0} << ({1} & 3)|{0} >> ({1} & 3)
np.fmod({0}, ({1} & 3) + 1)|np.bitwise_xor({0}, {1} * 3)
"""
RARE = """
np.arccos(np.clip(#, -1, 1))|np.arcsin(np.clip(#, -1, 1))|np.arccosh(np.abs(#) + 1)|np.arctanh(np.tanh(#))
np.arcsinh(#)|np.arctan(#)|np.cbrt(#)|np.ceil(#)|np.floor(#)|np.trunc(#)|np.rint(#)|np.sign(#)|np.sin(#)|np.cos(#)
np.tan(#)|np.sinh(np.clip(#, -3, 3))|np.cosh(np.clip(#, -3, 3))|np.tanh(#)|pf.erf(#)|pf.erfc(#)|np.exp2(#)|np.expm1(#)
np.log10(np.abs(#))|np.log2(np.abs(#))|pf.rsqrt(np.abs(#) + 1)|np.signbit(#)|np.isinf(#)|np.sqrt(np.abs(#))
"""
"""Functions that few other lines have."""
FLOATS, WHOLES = ("f16", "bf16", "f32", "f64"), ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def split(text: str) -> list[str]:
    """Templates between bars; ``{0} | {1}`` has spaces around its own."""
    parts = text.replace("\n", "|").replace(" | ", "\0").split("|")
    return [part.replace("\0", " | ").strip() for part in parts if part.strip()]


UNARIES, BINARIES, COMPARISONS, TESTS, LOGICS = map(split, (UNARY, BINARY, COMPARE, TEST, LOGIC))
RARES = split(RARE)
WHOLE_UNARIES, WHOLE_BINARIES = split(WHOLE_UNARY), split(WHOLE_BINARY)


def _line(text: str, *operands: int) -> Line:
    return Line(text, text, operands, pointwise=True)


def unary(pool: Pool) -> Line | None:
    value = pool.some("f")
    return None if value is None else _line(pool.dice.choice(UNARIES), value)


def rare_pair(pool: Pool) -> Line | None:
    """Two functions that would else be rare, of one value."""
    value = pool.some("f")
    if value is None:
        return None
    first, second = (text.replace("#", "{0}") for text in pool.dice.sample(RARES, 2))
    text = f"{first} {pool.dice.choice('+-*')} {second}"
    return Line(text, text, (value,), pointwise=True)


def binary(pool: Pool) -> Line | None:
    value = pool.some("f")
    other = pool.like(value, "f") if value is not None else None
    if value is None or other is None:
        return None
    pair = (value, other) if pool.dice.random() < 0.5 else (other, value)
    return _line(pool.dice.choice(BINARIES), *pair)


def mixed(pool: Pool) -> Line | None:
    """Operands of different kinds: promotion."""
    value = pool.some("iu")
    other = pool.like(value, "f") if value is not None else None
    if value is None or other is None:
        return None
    text = pool.dice.choice(["{0} + {1}", "{0} * {1}", "{1} - {0}", "np.maximum({0}, {1})", "{0} < {1}"])
    return Line(f"mixed {text}", text, (value, other), pointwise=True)


def with_number(pool: Pool) -> Line | None:
    value = pool.some("f")
    if value is None:
        return None
    number = pool.number()
    text = pool.dice.choice(
        ["{0} * N", "{0} + N", "N - {0}", "np.maximum({0}, N)", "np.where({0} > N, {0}, N)", "N / {0}"]
    )
    return Line(f"{text}", text.replace("N", number), (value,), pointwise=True)


def comparison(pool: Pool) -> Line | None:
    value = pool.some("iuf")
    other = pool.like(value, "iuf") if value is not None else None
    if value is None or other is None:
        return None
    return _line(pool.dice.choice(COMPARISONS), value, other)


def test(pool: Pool) -> Line | None:
    value = pool.some("f")
    return None if value is None else _line(pool.dice.choice(TESTS), value)


def logic(pool: Pool) -> Line | None:
    value = pool.some("b")
    other = pool.like(value, "b") if value is not None else None
    if value is None or other is None:
        return None
    return _line(pool.dice.choice([*LOGICS, "~{0}"]), value, other)


def choice(pool: Pool) -> Line | None:
    condition = pool.some("b")
    value = pool.like(condition, "iuf") if condition is not None else None
    other = pool.like(value, "iuf") if value is not None else None
    if condition is None or value is None or other is None:
        return None
    return _line("np.where({0}, {1}, {2})", condition, value, other)


def whole_unary(pool: Pool) -> Line | None:
    value = pool.some("iu")
    return None if value is None else _line(pool.dice.choice(WHOLE_UNARIES), value)


def whole_binary(pool: Pool) -> Line | None:
    value = pool.some("iu")
    if value is None:
        return None
    kind = pool.values[value].dtype
    other = pool.like(value, "iu")
    if other is None or (pool.values[other].dtype != kind and pool.dice.random() < 0.7):
        other = value
    return _line(pool.dice.choice(WHOLE_BINARIES), value, other)


def cast(pool: Pool) -> Line | None:
    value = pool.some()
    if value is None:
        return None
    if pool.values[value].dtype.kind == "f" and pool.dice.random() < 0.4:
        target = pool.dice.choice(("i32", "i64", "i8", "u8"))
        low = 0 if target.startswith("u") else -100
        text = f"np.clip(np.nan_to_num({{0}}), {low}, 100).astype({target})"
        return Line(f"cast to {target}", text, (value,), pointwise=True)
    targets: tuple[str, ...] = FLOATS if pool.dice.random() < 0.7 else WHOLES
    if pool.values[value].dtype.kind == "f":
        targets = (*FLOATS, "bool")
    target = pool.dice.choice(targets)
    return Line(f"cast to {target}", f"{{0}}.astype({target})", (value,), pointwise=True)


PROPOSALS: dict[Proposal, float] = {
    unary: 4,
    rare_pair: 3.5,
    binary: 7.5,
    mixed: 1,
    with_number: 3,
    comparison: 1,
    test: 0.8,
    logic: 1.2,
    choice: 1.5,
    whole_unary: 1.5,
    whole_binary: 2.2,
    cast: 1.5,
}
