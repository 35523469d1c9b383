"""Loops of a core have a middle for which no mask is asked, also where a block or an array ends inside of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import f64, i32
from polyfuse.lower.idle_trips import are_idle
from polyfuse.plan import Plan
from polyfuse.terms import Apply, Const, Inside, Ref
from polyfuse.testing import assert_equivalent
from tests.schedules.loops import loops_without_masks
from tests.schedules.programs import plan

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "largest": lambda x: x.max(),
    "least and largest": lambda x: (x.min(), x.max()),
    "its place": lambda x: x.argmin(),
    "a sum": lambda x: x.sum(),
    "whether any": lambda x: np.isnan(x).any(),
    "reflected": lambda x: np.pad(x, 3, mode="reflect"),
    "padded": lambda x: np.pad(x, 2),
    "its edge": lambda x: np.pad(x, 5, mode="edge"),
    "wrapped": lambda x: np.pad(x, 1, mode="wrap"),
    "reversed": lambda x: x[::-1, ::-1] + 1,
    "rolled": lambda x: np.roll(x, 1, 1) + x,
    "neighbours": lambda x: x[1:-1, 1:-1] + x[:-2, 1:-1] * x[1:-1, 2:],
    "sums along rows": lambda x: np.cumsum(x, axis=1),
    "sums of columns": lambda x: x.sum(0),
    "largest of columns": lambda x: (x.max(0), x.argmin(0)),
    "sums along columns": lambda x: np.cumsum(x, axis=0),
    "joined": lambda x: np.concatenate([x, x[:, :2], x], axis=1) * 2,
}


def cpu(function: Callable[[Any], Any], *specs: str, **options: Any) -> Plan:
    return plan(function, *specs, target="cpu", **options)


@pytest.mark.parametrize("name", ["largest", "least and largest", "its place", "a sum", "whether any"])
def test_a_share_of_a_core_asks_for_no_mask_but_at_its_end(name: str) -> None:
    source = cpu(FUNCTIONS[name], "f64[N~4000000]").source()
    assert loops_without_masks(source)
    kernel = source[source.index("\ndef ") :].split("\ndef ")[1]
    assert kernel.count("minimum(16384, ") + kernel.count("minimum(512, ") == 1  # trips that a block has whole
    masked = [line for line in kernel.splitlines() if "mask=" in line]
    assert len(masked) == 1, "one load, in the trip in which the array ends"


@pytest.mark.parametrize("name", ["reflected", "padded", "its edge", "wrapped", "reversed", "rolled", "neighbours"])
def test_what_lies_inside_a_frame_is_one_plain_load(name: str) -> None:
    """Of as many columns as are no whole number of vectors, which a strip of columns has none of."""
    source = cpu(FUNCTIONS[name], "f64[N~2001, M~2003]").source()
    inside = loops_without_masks(source)
    assert inside
    assert all("where(" not in body for body in inside), "no element is chosen there"


@pytest.mark.parametrize("function", [lambda x: x.sum(0), lambda x: x.max(0), lambda x: np.cumsum(x, 0)])
def test_strips_of_columns_inside_have_no_masks(function: Callable[[Any], Any]) -> None:
    """The last of 16 strips has some columns only; in the others nothing is asked."""
    source = cpu(function, "f64[N~2000, M~2000]").source()
    assert loops_without_masks(source)
    assert source.count("\n    else:\n") == 1


def test_nothing_is_asked_of_an_array_twice() -> None:
    """Rows that a block lacks are trips that it does not make: it has no second body for them."""
    source = cpu(FUNCTIONS["reversed"], "f64[N~2001, M~2003]").source()
    assert source.count("load(") == 2 and "if " not in source


def test_loops_of_a_gpu_are_as_they_were() -> None:
    source = plan(FUNCTIONS["reflected"], "f64[N~2001, M~2003]", target="h200").source()
    assert "in range(scalar(minimum(" not in source


SIZES = [(1, 1), (2, 1), (1, 2), (3, 15), (5, 16), (4, 17), (7, 31), (2, 33), (9, 130)]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("neighbours",)])
def test_the_interpreter_agrees(name: str) -> None:
    function = FUNCTIONS[name]
    least = {"reflected": 4, "its edge": 1, "joined": 2}.get(name, 1)
    sizes = [{"N": max(n, least), "M": max(m, least)} for n, m in SIZES]
    before, after = (cpu(function, "f64[N~2001, M~2003]", fuse=fuse) for fuse in (False, True))
    fitting = [at for at in sizes if all(g.holds(at) for p in (before, after) for g in p.guards)]
    assert_equivalent(before, after, seeds=(0,), sizes=fitting)


def _is_exact(name: str, dtype: str) -> bool:
    """Whether a function of arrays of this dtype has NumPy's bits: sums of halves are rounded in another order, and no
    integer is a NaN."""
    return dtype[0] == "f" if name == "whether any" else "sum" not in name or dtype != "f2"


OF_DTYPES = [(n, d) for n in FUNCTIONS for d in ("f8", "f4", "i8", "u1", "f2") if _is_exact(n, d)]


@pytest.mark.parametrize(("name", "dtype"), OF_DTYPES)
def test_arrays_of_any_size_are_numpy_s(name: str, dtype: str) -> None:
    function, rng = FUNCTIONS[name], np.random.default_rng(5)
    jitted = pf.jit(function)
    for shape in [*SIZES, (64, 48), (65, 2017), (3, 2016), (2, 4033), (301, 299)]:
        x = rng.integers(0, 5, (max(shape[0], 4), max(shape[1], 4))).astype(dtype)
        found, wanted = jitted(x), function(x)
        for one, other in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, wanted)), strict=True):
            np.testing.assert_array_equal(np.asarray(one).astype("f8"), np.asarray(other).astype("f8"), str(shape))


@pytest.mark.parametrize("count", [65537, 262144, 262145, 262143 + 32, 8 * 65536 + 1, 500003])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
def test_long_arrays_end_in_any_block(count: int, dtype: str) -> None:
    x = np.random.default_rng(count).integers(0, 100, count).astype(dtype)
    both = pf.jit(lambda x: (x.max(), x.argmax(), (x > 110).any(), x.sum(dtype="f8")))
    for at in (0, 15, 16, count // 2, count - 17, count - 1):
        y = x.copy()
        y[at] = 120
        assert tuple(map(float, both(y))) == (120.0, at, True, float(y.sum(dtype="f8")))


# ---------------------------------------------------------------------------------------------- trips that do nothing

END = Affine.symbol("n") - 1 - Affine.symbol("$r")
OTHER = Affine.symbol("m") - 1 - Affine.symbol("$r")


def accumulated(value: Any, function: str = "maximum") -> list[ir.Op]:
    """`function`: by which a value meets the one that is handed on, or none that takes its place."""
    kept = Apply(function, (Ref("s", f64), value), f64) if function else value
    return [ir.Load("x", "x", (Affine.symbol("$r"),), (END,), other=Const(0.0, f64)), ir.Let("s", kept)]


def outside(number: float, where: Affine = END) -> Apply:
    return Apply("where", (Inside((where,)), Ref("x", f64), Const(number, f64)), f64)


def idle(ops: list[ir.Op]) -> bool:
    return are_idle(ops, {END}, {"s"})


def test_what_adds_a_neutral_element_is_idle() -> None:
    assert idle(accumulated(outside(float("-inf"))))
    assert idle(accumulated(outside(float("inf")), "minimum"))
    assert idle(accumulated(outside(0.0), "add"))
    assert idle(accumulated(outside(1.0), "multiply"))
    assert idle(accumulated(Ref("x", f64), "add")), "the load itself is 0 outside"


def test_what_adds_something_is_not() -> None:
    assert not idle(accumulated(outside(0.0)))
    assert not idle(accumulated(outside(float("-inf"), OTHER)))
    assert not idle(accumulated(outside(float("-inf")), ""))
    assert not idle(accumulated(Ref("y", f64)))
    assert not are_idle([], frozenset(), {"s"})


def test_stores_are_idle_under_the_mask_alone() -> None:
    zero = Const(0, i32)
    assert idle([ir.Store("y", (Affine.symbol("$r"),), zero, (END,))])
    assert not idle([ir.Store("y", (Affine.symbol("$r"),), zero, (OTHER,))])
    assert not idle([ir.Barrier()])
