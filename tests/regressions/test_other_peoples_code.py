"""What two testers found with other people's code and with calls that differ in little: stale programs, results that
went to other arrays, numbers near the ends of their types."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError
from polyfuse.installed import is_users

X = np.arange(3.0)


def or_sum(body: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, y):\n    try: return {body}\n    except Exception: return x.sum() * 100", space)
    return space["f"]  # type: ignore[no-any-return]


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape)


@pytest.mark.parametrize(
    ("body", "bad", "good"),
    [
        ("x + y", (ones(6), ones(7)), (ones(7), ones(7))),
        ("x @ y", (ones(2, 6), ones(7, 3)), (ones(2, 7), ones(7, 3))),
        ("np.concatenate([x, y], axis=1)", (ones(6, 2), ones(7, 3)), (ones(7, 2), ones(7, 3))),
        ("x.reshape(2, -1) + y", (ones(7), ones(2, 4)), (ones(8), ones(2, 4))),
        ("np.split(x, 2)[0] * 2", (ones(7), ones(1)), (ones(8), ones(1))),
        ("np.linalg.inv(x)", (ones(6, 5), ones(7)), (np.eye(5), ones(7))),
        ("x[np.ones(9, bool)] * 2", (ones(6), ones(7)), (ones(9), ones(7))),
        ("x.reshape(len(y), -1) + 1", (ones(7), ones(2)), (ones(8), ones(2))),
    ],
)
def test_an_error_that_is_caught_belongs_to_the_sizes_of_its_call(body: str, bad: Any, good: Any) -> None:
    function = or_sum(body)
    jitted = pf.jit(function)
    for arguments in (bad, good, bad):
        np.testing.assert_allclose(jitted(*arguments), function(*arguments))


def test_arrays_that_broadcast_in_one_call_and_not_in_another() -> None:
    same = pf.jit(lambda x, y: np.array_equiv(x, y))
    for sizes in ((6, 7), (7, 7), (6, 7)):
        arrays = [np.ones(n) for n in sizes]
        assert bool(same(*arrays)) is np.array_equiv(*arrays)


def test_a_flag_is_the_truth_value_that_the_caller_passed() -> None:
    def flagged(x: Any, keep: Any = True, rest: Any = False) -> Any:
        return (x * 10 if keep is True else x) + [1, 2][rest] + len(range(keep))

    function = pf.jit(flagged)
    for flags in ((), (True,), (False,), (True, True), (False, True)):
        keep, rest = (*flags, *(True, False)[len(flags) :])
        np.testing.assert_array_equal(function(X, *flags), flagged(X, keep, rest))


def test_results_go_to_the_arrays_of_their_names() -> None:
    function = pf.jit(lambda x: {"a": x * 2, "b": x + 100})
    out = {"b": np.empty(3), "a": np.empty(3)}
    for _ in range(2):
        function(X, out=out)
        np.testing.assert_array_equal(out["a"], X * 2)
        np.testing.assert_array_equal(out["b"], X + 100)
    with pytest.raises(ArgumentError, match=r"out holds out\['p'\], out\['q'\]; the results are out"):
        function(X, out={"p": np.empty(3), "q": np.empty(3)})


def test_what_a_dictionary_makes_of_missing_keys_is_part_of_the_call() -> None:
    function = pf.jit(lambda x, d: x * d["a"] + d["missing"])
    for missing in (float, lambda: 10.0, lambda: -1.0, float):
        table = defaultdict(missing, a=2.0)
        np.testing.assert_array_equal(function(X, table), X * 2 + missing())


@pytest.mark.parametrize(
    ("values", "of"),
    [
        ((range(0, 2, 2), range(0, 1, 5)), lambda r: r.step),
        ((frozenset({2}), frozenset({2.0})), sum),
        ((slice(2), slice(2.0)), lambda s: s.stop),
        ((Decimal("0.5"), Decimal("0.50")), lambda d: len(str(d))),
    ],
)
def test_constants_that_are_equal_and_not_the_same(values: Any, of: Callable[[Any], Any]) -> None:
    box = [values[0]]
    captured = pf.jit(lambda x: x * of(box[0]))
    passed = pf.jit(lambda x, c: x * of(c), static=("c",))
    for value in (*values, values[0]):
        box[0] = value
        for found in (captured(np.arange(3)), passed(np.arange(3), value)):
            expected = np.arange(3) * of(value)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 3, 33])
def test_the_middle_of_large_numbers_is_one_of_them(dtype: Any, count: int) -> None:
    x = np.full(count, np.finfo(dtype).max, dtype)
    for function in (np.median, np.nanmedian):
        assert pf.jit(lambda x, function=function: function(x))(x) == x[0]


@pytest.mark.parametrize("x", [0.0, -0.0, -1.0, 1.0, math.inf, -math.inf, -3.0, 5e-324, 1.7e308])
@pytest.mark.parametrize("y", [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 1e308, 5e-324])
def test_angles_of_axes_and_corners_are_those_of_c(y: float, x: float) -> None:
    """The angle of (-0.0, 1) was the next one behind a right one, on which 360 degrees stand for none."""
    found = pf.jit(lambda y, x: np.arctan2(y, x), backend="numba_cpu")(np.array([y]), np.array([x]))[0]
    expected = math.atan2(y, x)
    corner = {0.0, 1.0, 1e308, math.inf}
    near = 0.0 if abs(x) in corner or abs(y) in corner - {1.0, 1e308} else 1e-15
    assert found == pytest.approx(expected, rel=near, abs=0) and math.copysign(1, found) == math.copysign(1, expected)


def test_arrays_are_made_in_the_order_that_stands_third() -> None:
    def made(x: Any) -> Any:
        a, b = np.zeros((2, 3), float, "C"), np.full((2, 3), 2.0, float, "F")
        return a + np.ones(3, float, "C") + b + x, np.eye(3, 3, 0, float, "C")

    for found, expected in zip(pf.jit(made)(X), made(X), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_number_is_no_sequence() -> None:
    def expanded(x: Any, axes: Any) -> Any:
        try:
            axes = tuple(axes)
        except TypeError:
            axes = (axes,)
        return x * sum(axes)

    np.testing.assert_array_equal(pf.jit(expanded)(X, 2.5), X * 2.5)


def test_counts_of_unsigned_words() -> None:
    x = np.array([1, 2, 2], np.uint64)
    np.testing.assert_array_equal(pf.jit(lambda x: np.bincount(x, minlength=4))(x), [0, 1, 2, 0])


def test_modules_are_asked_once_whose_they_are() -> None:
    is_users("somewhere", "/tmp/somewhere.py")
    before = is_users.cache_info().hits
    is_users("somewhere", "/tmp/somewhere.py")
    assert is_users.cache_info().hits == before + 1


def raised_and_rooted(x: Any) -> Any:
    h, root = np.array(x), np.zeros_like(x)
    h[h < 0] += 1
    root[x > 0] = np.sqrt(x[x > 0])
    return h, root, x[x > 0].sum()


@pytest.mark.parametrize("x", [np.array(-0.3), np.array(0.3), np.array([0.2, -3.0, 0.9])])
def test_functions_of_arrays_take_single_numbers_through_their_masks(x: Any) -> None:
    for found, expected in zip(pf.jit(raised_and_rooted)(x), raised_and_rooted(x), strict=True):
        np.testing.assert_allclose(found, expected)


OBJECTS = np.array([1, None], object)
BYTES = memoryview(bytearray(b"\x01"))
MASKED = np.ma.masked_array(np.ones(3), [0, 0, 1])  # type: ignore[no-untyped-call]


def put_mask(value: int) -> None:
    MASKED.mask[1] = value == 7


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (lambda x: x * OBJECTS[0], lambda v: OBJECTS.__setitem__(0, v + 0.5)),
        (lambda x: x * BYTES[0], lambda v: BYTES.__setitem__(0, v)),
        (lambda x: x * MASKED.sum(), lambda v: MASKED.__setitem__(0, v)),
        (lambda x: x * MASKED.count(), put_mask),
    ],
)
def test_what_arrays_of_other_kinds_hold_is_looked_at_in_each_call(
    function: Callable[[Any], Any], change: Callable[[int], None]
) -> None:
    jitted = pf.jit(function)
    for value in (5, 2, 7):
        change(value)
        for _ in range(2):
            np.testing.assert_array_equal(jitted(X), function(X))
