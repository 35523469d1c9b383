"""Rows of several pieces on a CPU core: each piece has a loop of its own, which chooses nothing and masks nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import f64
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import Const, Store
from polyfuse.lower.context import Context
from polyfuse.lower.sums import with_sums
from polyfuse.schedule import Digit
from polyfuse.sets import at_least_zero
from polyfuse.text.apply import apply_text


def joined(*parts):
    return np.concatenate(parts, axis=-1)


def computed(*parts):
    return np.concatenate([np.exp(part) for part in parts], axis=-1)


def softmax_of_joined(*parts):
    y = np.concatenate(parts, axis=-1)
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def planned(function: Callable[..., Any], count: int, rows: int = 1000, length: int = 40) -> pf.Plan:
    arrays = [np.empty((rows, length + k)) for k in range(count)]
    return pf.jit(function).plan(*arrays, target="cpu")


def loops(source: str) -> list[str]:
    """The bodies of loops over whole vectors of a row."""
    lines, found = source.splitlines(), []
    for k, line in enumerate(lines):
        if re.match(r" +for [cr](_\d+)? in", line):
            depth = len(line) - len(line.lstrip())
            inside = [len(inner) - len(inner.lstrip()) > depth for inner in lines[k + 1 :]]
            found.append("\n".join(lines[k + 1 : k + 1 + [*inside, False].index(False)]))
    return found


def test_a_join_of_rows_is_a_loop_for_each_part() -> None:
    plan = planned(joined, 2)
    assert str(plan) == SCHEDULE
    assert apply_text(str(plan), plan) == plan
    assert re.sub(r" *#.*", "", plan.source()).partition("\n\n\n")[2] == CODE


SCHEDULE = """\
kernel region   pointwise pieces=2 rows=16 vector=16   grid ceil(n0/16)
  region = where(j < n1, parts_0, parts_1[i, j - n1])   global"""

CODE = """\
def region(parts_0_in, parts_1_in, region_out, n1, n3, n0):
    pitch = n1 + n3
    col_2 = 16 * (n1 // 16)
    v = slots((16,), 0)
    mask = v < n1 % 16
    mask_2 = v < n3 % 16
    for k in range(16):
        row = 16 * block(0) + k
        rows = row < n0
        if rows:
            for c in range(n1 // 16):
                col = 16 * c
                parts_0 = load(parts_0_in, row * n1 + col, ROW16)
                region = parts_0
                store(region_out, row * pitch + col, ROW16, region)
            if inside(n1 % 16 - 1):
                parts_0 = load(parts_0_in, row * n1 + col_2, ROW16, mask=mask)
                region = parts_0
                store(region_out, row * pitch + col_2, ROW16, region, mask=mask)
    for k in range(16):
        row = 16 * block(0) + k
        rows = row < n0
        if rows:
            for c in range(n3 // 16):
                col = 16 * c
                parts_1 = load(parts_1_in, row * n3 + col, ROW16)
                region = parts_1
                store(region_out, row * pitch + n1 + 16 * c, ROW16, region)
            if inside(n3 % 16 - 1):
                parts_1 = load(parts_1_in, row * n3 + 16 * (n3 // 16), ROW16, mask=mask_2)
                region = parts_1
                store(region_out, row * pitch + 16 * (n3 // 16) + n1, ROW16, region, mask=mask_2)
"""


@pytest.mark.parametrize("count", [2, 5, 24])
def test_no_loop_chooses_or_masks(count: int) -> None:
    plan = planned(joined, count)
    found = loops(plan.source())
    assert len(found) == count
    assert all(body.count("load(") == body.count("store(") == 1 for body in found)
    assert not any(word in body for body in found for word in ("mask", "where(", "if "))


def test_each_part_is_computed_where_it_lies() -> None:
    plan = planned(computed, 12)
    assert len(plan.kernels) == 1
    found = loops(plan.source())
    assert len(found) == 12 and all(body.count("exp(") == body.count("load(") == 1 for body in found)


def test_reductions_go_through_the_parts_as_well() -> None:
    plan = planned(softmax_of_joined, 4)
    assert len(plan.kernels) == 1 and "pieces=4" in str(plan)
    found = loops(plan.source())
    assert len(found) == 3 * 4 and not any("mask" in body or "where(" in body for body in found)


@pytest.mark.parametrize("function", [joined, computed, softmax_of_joined])
def test_code_grows_with_the_number_of_parts(function: Callable[..., Any]) -> None:
    """So many more lines for eight more parts, whether behind 8 of them or behind 24; and each line is short."""
    sources = {count: planned(function, count).source() for count in (8, 16, 24, 32)}
    lines = {count: len(source.splitlines()) for count, source in sources.items()}
    assert lines[32] - lines[24] == lines[24] - lines[16] == lines[16] - lines[8]
    body = [line for line in sources[32].splitlines() if not re.match(r"def |    pitch = ", line)]
    assert max(map(len, body)) < 120


def assigned(x):
    y = x.copy()
    y[:, 2:-3] = x[:, 2:-3] * 2
    return y


BORDERS: dict[str, tuple[Callable[..., Any], int]] = {
    "pad": (lambda x: np.pad(x, [(0, 0), (2, 3)]) * 2, 3),
    "roll": (lambda x: np.roll(x, 3, axis=1) + x, 2),
    "assigned": (assigned, 3),
    "first columns": (lambda x: np.where(np.arange(x.shape[1]) < 7, x + 1, x), 2),
    "halves": (lambda x: np.concatenate([-x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], axis=1), 2),
    "diff": (lambda x: np.diff(x, axis=1, prepend=0), 2),
    "joined again": (lambda x: np.concatenate([x[:, 1:], np.concatenate([x, x + 1], axis=1)], axis=1), 3),
    "reversed": (lambda x: np.concatenate([x[:, ::-1], x], axis=1), 2),
}


@pytest.mark.parametrize("name", BORDERS)
def test_whatever_has_borders_in_a_row_is_cut(name: str) -> None:
    function, count = BORDERS[name]
    plan = pf.jit(function).plan(np.empty((500, 300)), target="cpu")
    found = loops(plan.source())
    assert len(plan.kernels) == 1 and 1 <= len(found) <= count
    assert not any("mask" in body or "where(" in body for body in found)


def test_what_is_chosen_by_columns_is_computed_there_alone() -> None:
    """The plan is for rows that have the first seven columns; shorter ones have another."""
    jitted = pf.jit(lambda x: np.where(np.arange(x.shape[1]) < 7, np.exp(x), np.sin(x)))
    plan = jitted.plan(np.empty((500, 300)), target="cpu")
    first, rest = plan.source().split("for k in")[1:]
    assert "exp(" in first and "sin(" not in first and "sin(" in rest and "exp(" not in rest
    assert "n1 >= 7" in plan.explain()
    assert "pieces" not in str(jitted.plan(np.empty((500, 6)), target="cpu"))


def causal(x):
    inside = np.arange(x.shape[0])[:, None] >= np.arange(x.shape[1])
    e = np.exp(np.where(inside, x, -np.inf) - np.where(inside, x, -np.inf).max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("function", [lambda x: np.tril(np.exp(x)), lambda x: np.triu(np.exp(x)), causal])
def test_half_of_a_triangle_is_neither_read_nor_chosen(function: Callable[..., Any]) -> None:
    jitted = pf.jit(function)
    plan = jitted.plan(np.empty((300, 400)), target="cpu")
    found = loops(plan.source())
    assert "pieces=2" in str(plan) and not any("mask" in body or "where(" in body for body in found)
    assert sum("load(" in body for body in found) == len(found) // 2
    rng = np.random.default_rng(4)
    for shape in [(300, 400), (400, 300), (1, 5), (17, 17), (40, 3)]:
        x = rng.standard_normal(shape)
        np.testing.assert_allclose(jitted(x), function(x), rtol=1e-13)


def test_what_is_divided_fits_32_bits() -> None:
    """Half of a row of n elements is n - n // 2, whose vectors are counted by dividing n + 15 * (n // 2)."""
    plan = pf.jit(BORDERS["halves"][0]).plan(np.empty((500, 300)), target="cpu")
    assert "at most 2147418112 elements in n1 + 15*ceil(n1/2)" in plan.explain()


def test_results_in_the_place_of_an_argument() -> None:
    function = pf.jit(lambda x: np.where(np.arange(x.shape[1]) < 7, x + 1, x * 2))
    for shape in [(40, 33), (1, 7), (100, 500)]:
        x = np.random.default_rng(5).standard_normal(shape)
        expected = function(x)
        function(x, out=x)
        np.testing.assert_array_equal(x, expected)


def test_blocks_of_blocks_have_a_kind_of_block_for_each_band() -> None:
    arrays = [np.empty((500, 300)) for _ in range(2)]
    source = pf.jit(lambda a, b: np.block([[a, b], [b, a]])).plan(*arrays, target="cpu").source()
    inside = loops(source.partition("else:")[0])
    assert inside and not any("mask" in body or "where(" in body for body in inside)


def test_borders_in_no_known_order_remain_masks() -> None:
    """Of N + M columns the first array has N, the second one M first: which of the two borders comes first is open."""

    def function(a, b, c, d):
        return np.concatenate([a, b], axis=1) + np.concatenate([c, d], axis=1)

    jitted = pf.jit(function)
    specs = [pf.spec(f"f64[R~1000, {n}~{size}]") for n, size in (("N", 90), ("M", 60), ("M", 60), ("N", 90))]
    plan = jitted.plan(*specs, target="cpu")
    found = loops(plan.source())
    assert len(found) == 2 and all("mask" in body for body in found)
    rng = np.random.default_rng(0)
    for n, m in [(90, 60), (60, 90), (3, 0), (17, 17)]:
        arrays = [rng.standard_normal((50, k)) for k in (n, m, m, n)]
        np.testing.assert_array_equal(run_plan(plan, arrays)[0], function(*arrays))
        np.testing.assert_array_equal(jitted(*arrays), function(*arrays))


SIZES = ((1, 1, 1), (0, 5, 16), (16, 0, 0), (15, 17, 33), (40, 40, 40), (64, 1, 31), (3, 250, 2))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("lead", [(), (70,), (3, 41), (2, 5, 9)])
def test_parts_of_any_length_agree_with_numpy(dtype: str, lead: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(lead))
    functions = (joined, lambda *p: joined(*(x + x for x in p), p[0]), lambda *p: joined(*p).max(-1))
    for function in functions:
        compiled = pf.jit(function)
        for sizes in SIZES:
            arrays = [rng.integers(-4, 5, (*lead, size)).astype(dtype) for size in sizes]
            found, expected = compiled(*arrays), function(*arrays)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", BORDERS)
@pytest.mark.parametrize("shape", [(500, 300), (1, 1), (40, 7), (9, 33), (3, 1000)])
def test_borders_agree_with_numpy(name: str, shape: tuple[int, int]) -> None:
    function, _ = BORDERS[name]
    x = np.random.default_rng(1).standard_normal(shape)
    np.testing.assert_array_equal(pf.jit(function)(x), function(x))


@pytest.mark.parametrize("function", [joined, computed, softmax_of_joined])
def test_one_plan_is_right_at_all_sizes(function: Callable[..., Any]) -> None:
    """Of the interpreter, which sees accesses out of bounds and elements that nobody stored."""
    plan = planned(function, 3)
    rng = np.random.default_rng(2)
    for sizes in SIZES[:6]:
        arrays = [rng.standard_normal((17, size)) for size in sizes]
        np.testing.assert_allclose(run_plan(plan, arrays)[0], function(*arrays), rtol=1e-13)


def test_many_parts_are_right() -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((37, int(rng.integers(0, 50)))) for _ in range(30)]
    np.testing.assert_array_equal(pf.jit(joined)(*arrays), joined(*arrays))
    np.testing.assert_allclose(pf.jit(softmax_of_joined)(*arrays), softmax_of_joined(*arrays), rtol=1e-13)


def test_few_long_rows_are_shared_by_cores() -> None:
    """As blocks that lie in one part, but for a few."""
    for arrays in ([np.empty(100_000) for _ in range(3)], [np.empty((2, 60_000)) for _ in range(3)]):
        assert "pieces" not in str(pf.jit(joined).plan(*arrays, target="cpu"))


def test_gpus_have_no_part_in_it() -> None:
    arrays = [np.empty((1000, 40)) for _ in range(4)]
    assert "pieces" not in str(pf.jit(joined).plan(*arrays, target="h200"))


# ---------------------------------------------------------------------------------------------- what it is made of
def symbols(names: str) -> Sequence[Affine]:
    return [Affine.symbol(name) for name in names.split()]


def test_sums_of_many_sizes_get_names() -> None:
    n, m, k, p = symbols("n m k sum_1")
    value = Const(0.0, f64)
    index = (n + m + k + digit("v"), n + m + digit("v"), digit("v") + 3 - n - m - k, n - m + k)
    ops = [Store("y", index, value)]
    (op,), sums = with_sums(ops, {"n", "m", "k"}, {"n", "m", "k", "sum_1"})
    whole = Affine.symbol("sum_2")
    assert sums == {"sum_2": n + m + k} and isinstance(op, Store)
    assert op.index == (whole + digit("v"), n + m + digit("v"), digit("v") + 3 - whole, n - m + k)
    assert p not in op.index


def test_slots_cancel_where_conditions_follow() -> None:
    """That an element is inside says as much of each slot of a vector."""
    v, n = Digit("v", "slot", Affine.of(16), 0), Affine.symbol("n")
    element = 16 * digit("c") + digit("v")
    context = Context(at_least_zero([n - 1 - element]), {"v": v})
    assert context.outcome(n - 1 - element) is True
    assert context.outcome(n - element) is True
