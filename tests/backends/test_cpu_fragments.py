"""Element-wise operations, conversions and selections of the CPU runtime against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyfuse.backends.numba_cpu.fragments import conversions
from polyfuse.errors import CompileError
from tests.backends.cpu_kernels import array, build, evaluate

INTEGERS = [np.dtype(f"{kind}{bytes_}") for kind in "iu" for bytes_ in (1, 2, 4, 8)]
FLOATS = [np.dtype("f4"), np.dtype("f8")]
Array = np.ndarray[Any, Any]


def integer_pairs(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """All pairs of edge values, and random ones."""
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.min + 1, -1 if info.min else 2, 0, 1, 3, 7, info.max - 1, info.max], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    rng = np.random.default_rng(1)
    more = rng.integers(info.min, info.max, (2, 200), dtype, endpoint=True)
    small = rng.integers(max(info.min, -9), 10, (2, 100), dtype)
    return np.concatenate([x, more[0], small[0], more[0][:100]]), np.concatenate([y, more[1], small[1], small[1]])


def float_pairs(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    info = np.finfo(dtype)
    edges = np.array(
        [0.0, -0.0, 1, -1, 0.5, -2.5, 3, 7, info.tiny, -info.smallest_subnormal]
        + [info.max, -info.max, np.inf, -np.inf, np.nan],
        dtype,
    )
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    more = np.random.default_rng(2).normal(0, 10, (2, 300)).astype(dtype)
    return np.concatenate([x, more[0]]), np.concatenate([y, more[1]])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_operations_follow_numpy(dtype: np.dtype[Any]) -> None:
    x, y = integer_pairs(dtype)
    functions = "add subtract multiply floor_divide remainder fmod maximum minimum bitwise_and bitwise_or bitwise_xor"
    unary = "negative absolute sign invert"
    names = [*functions.split(), "left_shift", "right_shift"]
    expressions = [f"{name}(x, y)" for name in names] + [f"{name}(x)" for name in unary.split()]
    outputs = evaluate(expressions, {"x": x, "y": y}, [dtype] * len(expressions))
    with np.errstate(all="ignore"):
        wanted = [getattr(np, name)(x, y) for name in names] + [getattr(np, name)(x) for name in unary.split()]
    for expression, got, want in zip(expressions, outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=expression)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_operators_and_powers(dtype: np.dtype[Any]) -> None:
    x, y = integer_pairs(dtype)
    small = np.abs(y.astype("i8")).astype("u8") % 14
    exponent = small.astype(dtype)
    operators = [f"x {symbol} y" for symbol in "+ - * & | ^ // %".split()] + ["~x", "-x", "x << e", "x >> e"]
    outputs = evaluate([*operators, "power(x, e)", "x // 7", "x % 7"], {"x": x, "y": y, "e": exponent}, [dtype] * 15)
    with np.errstate(all="ignore"):
        wanted = [eval(operator, {"x": x, "y": y, "e": exponent}) for operator in operators]
        wanted += [np.power(x, exponent), x // dtype.type(7), x % dtype.type(7)]
    for expression, got, want in zip([*operators, "power", "//7", "%7"], outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=expression)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, np.dtype("?")], ids=str)
def test_comparisons_and_selection(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "b":
        x, y = np.array([False, False, True, True] * 20), np.array([False, True] * 40)
    else:
        x, y = float_pairs(dtype) if dtype.kind == "f" else integer_pairs(dtype)
    names = "less less_equal greater greater_equal equal not_equal".split()
    outputs = evaluate([f"{n}(x, y)" for n in names] + ["where(x < y, y, x)"], {"x": x, "y": y}, ["?"] * 6 + [dtype])
    wanted = [getattr(np, name)(x, y) for name in names] + [np.where(x < y, y, x)]
    for name, got, want in zip([*names, "where"], outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=name)


def test_boolean_operations() -> None:
    x, y = np.array([False, False, True, True] * 11), np.array([False, True] * 22)
    expressions = ["x & y", "x | y", "x ^ y", "~x", "maximum(x, y)", "minimum(x, y)", "where(x, y, x)"]
    outputs = evaluate(expressions, {"x": x, "y": y}, ["?"] * 7)
    for got, want in zip(outputs, [x & y, x | y, x ^ y, ~x, x | y, x & y, np.where(x, y, x)], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_operations_follow_numpy_bit_by_bit(dtype: np.dtype[Any]) -> None:
    x, y = float_pairs(dtype)
    binary = "add subtract multiply divide floor_divide remainder fmod maximum minimum copysign nextafter fmax fmin"
    unary = "negative absolute sign floor ceil trunc rint sqrt"
    tests = "isnan isinf isfinite signbit"
    expressions = [f"{n}(x, y)" for n in binary.split()] + [f"{n}(x)" for n in (unary + " " + tests).split()]
    kinds = [dtype] * (len(expressions) - 4) + ["?"] * 4
    outputs = evaluate(expressions, {"x": x, "y": y}, kinds)
    with np.errstate(all="ignore"):
        wanted = [getattr(np, n)(x, y) for n in binary.split()]
        wanted += [getattr(np, n)(x) for n in (unary + " " + tests).split()]
    for expression, got, want in zip(expressions, outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=expression)
        free_zero = expression.startswith(("maximum", "minimum", "fmax", "fmin"))
        if got.dtype.kind == "f" and not free_zero:
            known = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]), err_msg=expression)


def test_fused_multiply_add_rounds_once() -> None:
    x = np.full(40, 1 + 2.0**-12, "f4")
    z = np.full(40, -(1 + 2.0**-11), "f4")
    fused, plain = evaluate(["fma(x, x, z)", "x * x + z"], {"x": x, "z": z}, ["f4", "f4"])
    assert (fused == np.float32(2.0**-24)).all()
    assert (plain == 0).all()


def test_multiply_high_is_the_upper_half() -> None:
    rng = np.random.default_rng(3)
    for bits in (8, 16, 32, 64):
        dtype = np.dtype(f"u{bits // 8}")
        x, y = rng.integers(0, np.iinfo(dtype).max, (2, 100), dtype, endpoint=True)
        (got,) = evaluate(["multiply_high(x, y)"], {"x": x, "y": y}, [dtype])
        assert got.tolist() == [(int(a) * int(b)) >> bits for a, b in zip(x, y, strict=True)]


# ---------------------------------------------------------------------------------------------- conversions

NAMES = {"?": "boolean", "i": "int", "u": "uint", "f": "float"}


def name_of(dtype: np.dtype[Any]) -> str:
    return "boolean" if dtype.kind == "b" else f"{NAMES[dtype.kind]}{8 * dtype.itemsize}"


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS, np.dtype("?")], ids=str)
def test_casts_follow_numpy(source: np.dtype[Any]) -> None:
    targets = [*INTEGERS, *FLOATS, np.dtype("?")]
    if source.kind == "f":
        x = np.concatenate([np.linspace(0, 127, 77), [0.0, -0.0, 0.99, 1e-30]]).astype(source)
    elif source.kind == "b":
        x = np.array([True, False] * 30)
    else:
        x = integer_pairs(source)[0]
    outputs = evaluate([f"cast(x, {name_of(t)})" for t in targets], {"x": x}, targets)
    for target, got in zip(targets, outputs, strict=True):
        np.testing.assert_array_equal(got, x.astype(target), err_msg=f"{source} to {target}")


def test_negative_floats_wrap_into_narrow_integers_as_in_numpy() -> None:
    x = np.array([-1.0, -127.5, -3.9] * 15, "f4")
    outputs = evaluate([f"cast(x, int{bits})" for bits in (8, 16, 32, 64)], {"x": x}, ["i1", "i2", "i4", "i8"])
    for got in outputs:
        np.testing.assert_array_equal(got, x.astype(got.dtype))


def test_floats_out_of_range_saturate() -> None:
    x = np.array([1e20, -1e20, np.nan, np.inf] * 10, "f4")
    (got,) = evaluate(["cast(x, int32)"], {"x": x}, ["i4"])
    assert got[:4].tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1]


def test_floats_out_of_range_wrap_after_they_saturate() -> None:
    """What docs/limits.md says of the CPU, of arrays and of numbers that are known when a kernel is compiled."""
    numbers = [np.inf, -np.inf, np.nan, -1.5, 300.5, 3e9, -3e9, 1e19]
    for bits in (8, 16, 32, 64):
        for kind in ("int", "uint"):
            passed = 32 if bits < 32 else 64 if kind == "uint" else bits
            least, most = -(2 ** (passed - 1)), 2 ** (passed - 1 + (kind == "uint" and bits == 64)) - 1
            whole = [0 if np.isnan(n) else most if n > most else least if n < least else int(n) for n in numbers]
            expected = np.array([n % 2**bits for n in whole], f"u{bits // 8}").view(f"{kind[0]}{bits // 8}")
            (got,) = evaluate([f"cast(x, {kind}{bits})"], {"x": np.array(numbers)}, [expected.dtype.str])
            np.testing.assert_array_equal(got, expected)
            nothing = {"x": np.zeros(8, expected.dtype)}
            (folded,) = evaluate([f"x + cast(3e9, {kind}{bits})"], nothing, [expected.dtype.str])
            np.testing.assert_array_equal(folded, expected[numbers.index(3e9)])


def test_bitcasts_keep_the_bits() -> None:
    x = np.random.default_rng(4).normal(size=70)
    words = x.astype("f4")
    outputs = evaluate(["bitcast(x, int64)", "bitcast(bitcast(x, uint64), float64)"], {"x": x}, ["i8", "f8"])
    np.testing.assert_array_equal(outputs[0], x.view("i8"))
    np.testing.assert_array_equal(outputs[1], x)
    (got,) = evaluate(["bitcast(x, uint32)"], {"x": words}, ["u4"])
    np.testing.assert_array_equal(got, words.view("u4"))


@pytest.mark.parametrize("instructions", [True, False])
@pytest.mark.parametrize("dtype", [np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_sixteen_bit_floats_widen_and_round_to_even(
    dtype: np.dtype[Any], instructions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if instructions and not conversions.HALF_INSTRUCTIONS:
        pytest.skip("this processor converts float16 in integer arithmetic only")
    monkeypatch.setattr(conversions, "HALF_INSTRUCTIONS", instructions)
    every = np.arange(1 << 16, dtype="u2").view(dtype)
    (wide,) = evaluate(["x"], {"x": every}, ["f4"])
    np.testing.assert_array_equal(wide, every.astype("f4"))
    rng = np.random.default_rng(5)
    exact = every.astype("f4")
    with np.errstate(all="ignore"):
        above = np.nextafter(exact, np.float32(np.inf))
        halfway = exact + (above - exact) / 2
        more = [rng.integers(0, 1 << 32, 20000, "u4").view("f4"), rng.normal(size=5000).astype("f4")]
    x = np.concatenate([exact, above, halfway, -exact, *more])
    name = "float16" if dtype.kind == "f" else "bfloat16"
    rounded, kept = evaluate(["x", f"cast(x, {name})"], {"x": x}, [dtype, "f4"])
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    np.testing.assert_array_equal(rounded.astype("f4"), want.astype("f4"))
    np.testing.assert_array_equal(kept, want.astype("f4"))


# ---------------------------------------------------------------------------------------------- typing


def test_numbers_take_the_dtype_of_the_fragment_they_meet() -> None:
    x = np.linspace(-3, 3, 50).astype("f4")
    i = np.arange(50, dtype="i1")
    outputs = evaluate(
        ["x * 0.1 + 2", "maximum(x, 0)", "where(x > 0, 1.5, x)", "i * 3 + 1", "full((40,), n, float32) + x"],
        {"x": x, "i": i},
        ["f4", "f4", "f4", "i1", "f4"],
    )
    np.testing.assert_array_equal(outputs[0], x * np.float32(0.1) + np.float32(2))
    np.testing.assert_array_equal(outputs[1], np.maximum(x, 0))
    np.testing.assert_array_equal(outputs[2], np.where(x > 0, np.float32(1.5), x))
    np.testing.assert_array_equal(outputs[3], i * np.int8(3) + np.int8(1))
    np.testing.assert_array_equal(outputs[4], x + 50)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("store(y, 0, T, load(x, 0, T) + load(d, 0, T))", "float32, float64 meet"),
        ("store(y, 0, T, load(i, 0, T) + 0.5)", "a float meets a fragment of dtype int32"),
        ("store(y, 0, T, load(d, 0, T))", "float64 slots into float32"),
        ("store(y, 0, T, sqrt(load(i, 0, T)))", "sqrt is not defined for int32"),
        ("store(y, 0, T, load(x, 0, T) + slots((5,), 0))", "float32, int32 meet"),
        ("store(y, 0, T, load(x, 0, S))", "needs the sizes"),
    ],
)
def test_ill_typed_kernels_are_refused_in_a_sentence(body: str, sentence: str) -> None:
    source = f"T = Tile((8,), (1,))\nS = Tile((8,), (Size('N'),))\ndef kernel(x, d, i, y):\n    {body}\n"
    parameters = [array("x", np.dtype("f4")), array("d", np.dtype("f8")), array("i", np.dtype("i4"))]
    with pytest.raises(CompileError, match=sentence):
        build(source, [*parameters, array("y", np.dtype("f4"), readonly=False)])
