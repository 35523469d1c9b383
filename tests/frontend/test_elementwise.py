"""Every elementwise function against NumPy: values, shapes and result dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError
from polyfuse.frontends.numpy_like import spec, trace
from tests.frontend.ops import Case, assert_same, run

REAL = "f2 f4 f8".split()
INTEGER = "i1 i2 i4 i8 u1 u2 u4 u8".split()

UNARY = """negative absolute sign square reciprocal floor ceil trunc rint sqrt exp exp2 expm1 log log2 log10 log1p sin
    cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt isnan isinf isfinite signbit positive fabs
    deg2rad rad2deg logical_not conjugate""".split()
UNARY_INTEGER = (
    "negative absolute sign square floor ceil trunc invert logical_not isnan isfinite signbit sqrt exp".split()
)
BINARY = """add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin less less_equal
    greater greater_equal equal not_equal copysign nextafter arctan2 hypot logaddexp logaddexp2 logical_and logical_or
    logical_xor heaviside float_power""".split()
BINARY_INTEGER = """add subtract multiply divide floor_divide remainder maximum minimum less equal bitwise_and
    bitwise_or bitwise_xor logical_and logical_or fmax arctan2""".split()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", REAL)
def test_unary(name: str, dtype: str) -> None:
    function = getattr(np, name)
    (x,) = Case(function, ((4, 3),), dtype, 0.1, 0.9).arguments()
    if name == "arccosh":
        x = x + np.dtype(dtype).type(1)
    assert_same(run(lambda x: function(x), x), function(x))


@pytest.mark.parametrize("name", UNARY_INTEGER)
@pytest.mark.parametrize("dtype", INTEGER)
def test_unary_on_integers(name: str, dtype: str) -> None:
    function = getattr(np, name)
    (x,) = Case(function, ((7,),), dtype, 0, 9).arguments()
    assert_same(run(lambda x: function(x), x), function(x))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtypes", ["f8 f8", "f4 f8", "f2 f4", "f4 f4", "f4 i4", "i2 f4", "f2 i1"])
def test_binary(name: str, dtypes: str) -> None:
    function = getattr(np, name)
    x, y = Case(function, ((4, 1, 3), (5, 1)), dtypes, 1, 3).arguments()
    assert_same(run(lambda x, y: function(x, y), x, y), function(x, y))


@pytest.mark.parametrize("name", BINARY_INTEGER)
@pytest.mark.parametrize("dtypes", ["i4 i4", "i1 u1", "u4 i8", "i8 u8", "b1 i4", "u1 u1"])
def test_binary_on_integers(name: str, dtypes: str) -> None:
    function = getattr(np, name)
    x, y = Case(function, ((6,), (6,)), dtypes, 1, 9).arguments()
    if name == "bitwise_and" and dtypes == "i8 u8":
        with pytest.raises(DTypeError):
            run(lambda x, y: function(x, y), x, y)
    elif name in ("bitwise_or", "bitwise_xor") and dtypes == "i8 u8":
        return
    else:
        assert_same(run(lambda x, y: function(x, y), x, y), function(x, y))


@pytest.mark.parametrize("name", "add multiply maximum minimum bitwise_xor logical_or equal not_equal less".split())
def test_binary_on_booleans(name: str) -> None:
    function = getattr(np, name)
    x, y = Case(function, ((9,), (9,)), "b1").arguments()
    assert_same(run(lambda x, y: function(x, y), x, y), function(x, y))


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_signed_with_unsigned_compare_by_value(name: str) -> None:
    function = getattr(np, name)
    x, y = np.array([-1, 0, 5], np.int64), np.array([2**63, 0, 4], np.uint64)
    assert_same(run(lambda x, y: (function(x, y), function(y, x)), x, y), [function(x, y), function(y, x)])


@pytest.mark.parametrize("dtype", [bool, np.bool_, "?"])
def test_the_dtype_of_truth_values_is_that_of_the_result(dtype: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        both = (np.equal(x, y, dtype=dtype), np.less(x, 2, dtype=dtype), np.logical_and(x, y, dtype=dtype))
        return *both, np.isnan(y, dtype=dtype), np.logical_not(x, dtype=dtype), np.signbit(y, dtype=dtype)

    x, y = np.arange(4), np.array([0.0, 2.0, np.nan, -0.0])
    assert_same(run(function, x, y), function(x, y))
    for name in ("less", "logical_or"):
        with pytest.raises(TypeError, match="No loop matching"):
            getattr(np, name)(x, y, dtype=int)
        with pytest.raises(DTypeError, match=f"np.{name} gives truth values, not int64"):
            run(lambda x, y, name=name: getattr(np, name)(x, y, dtype=int), x, y)


SCALARS: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: x * 2.5 + 1,
    "reflected": lambda x: 1 - (2 / (3 + x)),
    "int": lambda x: x + 3,
    "power": lambda x: x**2 + x**3 + x**0.5 + x**-1,
    "bool": lambda x: x + True,
    "mod": lambda x: (x % 3, 7 // x, divmod(x, 2)),
    "numpy scalar": lambda x: x * np.float64(2) + np.float32(1),
    "compare": lambda x: (x > 1, np.less(1, x), x <= 2, x == 1, x != 1),
    "abs": lambda x: (abs(x), -x, +x),
    "round": lambda x: (x.round(2), np.round(x, 1), np.round(x * 100, -1)),
    "clip": lambda x: (x.clip(1, 2), np.clip(x, None, 2), np.clip(x, x.min(), 2.5)),
    "where": lambda x: np.where(x > 2, x, 0),
    "select": lambda x: np.select([x < 1.5, x < 2.5], [x, x * 10], -1),
    "nan_to_num": lambda x: np.nan_to_num(x / (x - x)),
    "isclose": lambda x: np.isclose(x, x + 1e-9),
    "piecewise": lambda x: np.piecewise(x, [x < 2, x >= 2], [lambda v: -v, lambda v: v * v]),
    "astype": lambda x: (x.astype(np.int32), x.astype("f4"), x.astype(bool), x.astype(np.float16)),
    "modf": lambda x: np.modf(x),
    "sinc": lambda x: np.sinc(x),
}


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_python_scalars_are_weak(name: str, dtype: str) -> None:
    (x,) = Case(SCALARS[name], ((3, 2),), dtype, 1, 3).arguments()
    with np.errstate(all="ignore"):
        assert_same(run(SCALARS[name], x), SCALARS[name](x))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_spacing_where_exponents_end(dtype: Any) -> None:
    """Zeros, the least and the largest numbers, and both sides of powers of two."""
    limits = np.finfo(dtype)
    few = [0.0, -0.0, limits.max, limits.max / 2, limits.tiny, limits.smallest_subnormal, 1, 1.5, 2, 0.25, 3, np.inf]
    x = np.array(few, dtype)
    x = np.concatenate([x, -x, np.nextafter(x, dtype(1)), np.nextafter(-x, dtype(1))])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(lambda x: np.spacing(x), x), np.spacing(x))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (1, 5), (3, 0, 2), (7, 1)])
def test_shapes_of_zero_and_one(shape: tuple[int, ...]) -> None:
    (x,) = Case(np.exp, (shape,)).arguments()
    assert_same(run(lambda x: np.exp(x) + x * 2 - x.sum(), x), np.exp(x) + x * 2 - x.sum())


def test_python_scalar_arguments_take_the_type_of_what_they_meet() -> None:
    x = np.linspace(0, 1, 5, dtype=np.float32)
    for a in (2, 0.1, True):
        got = run(lambda x, a: (x * a, a * 2 + x, x + np.sqrt(a)), x, a)
        assert_same(got, (x * a, a * 2 + x, x + np.sqrt(a)))


def test_scalar_arguments_stay_runtime_values() -> None:
    program = trace(lambda x, a: x * a + a / 2, [spec("f32[N]"), spec("f64")]).program
    assert [a.is_scalar for a in program.arguments] == [False, True]
    assert program.outputs[0].dtype.name == "f32"


def test_integer_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(DTypeError, match="300 is out of bounds for uint8"):
        trace(lambda x: x + 300, [spec("u8[4]")])


def test_bfloat16_with_python_scalars_stays_bfloat16() -> None:
    ((program,), wanted) = ([trace(lambda x: np.exp(x) * 2 + 1, [spec("bf16[4]")]).program], "bf16")
    assert program.outputs[0].dtype.name == wanted
    assert trace(lambda x, y: x + y, [spec("bf16[4]"), spec("f16[4]")]).program.outputs[0].dtype.name == "f32"


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_bounds_behind_all_integers_of_a_dtype_bound_nothing(dtype: str) -> None:
    x = np.array([0, 1, 5, 100], dtype)

    def function(x: Any) -> Any:
        return np.clip(x, -40000, 3), x.clip(1, 70000), np.clip(x, 2, 2**80)

    for found, wanted in zip(pf.jit(function, backend="interpreter")(x), function(x), strict=True):
        assert_same(found, wanted)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("exponent", [3, 4, 5, 6, -2, -3, -6])
def test_small_whole_powers_are_products(dtype: str, exponent: int) -> None:
    """Within 3 units of the last place, reciprocals within 5, and special values are NumPy's."""
    function = pf.jit(lambda x: x**exponent)
    assert "power" not in str(function.plan(pf.spec(f"{dtype}[N]")))
    random = np.random.default_rng(3)
    kind = pf.spec(dtype).dtype.numpy
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e30]
    x = np.concatenate([random.choice([-1, 1], 5000) * np.exp(3 * random.normal(size=5000)), special]).astype(kind)
    with np.errstate(all="ignore"):
        want = x.astype(np.longdouble) ** exponent
        got, unit = function(x), np.spacing(np.abs(want).astype(kind))
        normal = np.isfinite(unit) & (np.abs(want) > np.finfo(kind).tiny)
        np.testing.assert_array_equal(got[~normal], (x**exponent)[~normal])
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit((x**exponent)[got == 0]))
    assert (np.abs(got[normal] - want[normal]) / unit[normal]).max() < (3.5 if exponent > 0 else 5)


def test_whole_powers_of_short_floats_round_once() -> None:
    x = np.linspace(0.001, 0.1, 1000).astype(np.float16)
    np.testing.assert_array_equal(pf.jit(lambda x: x**3)(x), x**3)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])
def test_one_exponent_of_a_half_is_a_root(dtype: str, backend: str) -> None:
    def function(x: Any, p: float, powers: Any) -> Any:
        return x**0.5, np.power(x, 0.5), x**p, np.power(x, p), x**powers

    x = np.array([-np.inf, -0.0, 0.0, 4.0, -1.0, np.nan, np.inf], dtype)
    with np.errstate(all="ignore"):
        for p in (0.5, 0.25, -0.5):
            powers = np.full_like(x, p)
            assert_same(pf.jit(backend=backend)(function)(x, p, powers), function(x, p, powers))
