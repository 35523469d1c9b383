"""Results in the memory of arguments, and intermediates in each other's: only where the proof says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import FromArgument, FromBuffer
from polyfuse.errors import ArgumentError, OptionError, TraceError
from polyfuse.explain.compare import compare
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.planning.sharing import reuse_verdict
from polyfuse.run.dispatch import Jitted
from polyfuse.verdict import Hazard
from tests.schedules import programs

Jit = Callable[..., Jitted]


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def pairs_used(f: Jitted) -> list[tuple[tuple[int, int], ...]]:
    """Of all records of a function, the pairs (output, argument) for which one was made."""
    return [pairs for record in f._records.values() for pairs in record.siblings.records]


def affine(x, w):
    return np.exp(x) * w + 1


def soft(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# ---------------------------------------------------------------------------------------------- out=


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter", "target": "h200"}])
@pytest.mark.parametrize("fuse", [True, False])
def test_a_pointwise_function_writes_over_its_argument(jit: Jit, options: dict[str, Any], fuse: bool) -> None:
    f = jit(affine, fuse=fuse, **options)
    x, w = values(37, 65), values(65)
    expected = affine(x, w)
    for _ in range(2):
        y = x.copy()
        assert f(y, w, out=y) is y
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    assert pairs_used(f) == [((0, 0),)]
    assert f.cache_info().traces == 1


def test_a_row_held_in_registers_may_be_overwritten(jit: Jit) -> None:
    f, x = jit(soft, backend="interpreter", target="h200"), values(9, 64)
    expected = soft(x)
    f(x, out=x)
    np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)
    assert pairs_used(f) == [((0, 0),)]


def test_the_same_array_twice_needs_both_proofs(jit: Jit) -> None:
    plain, turned = jit(lambda x, y: x * 2 + y), jit(lambda x, y: x * 2 + y[::-1])
    for f, function in ((plain, lambda x: x * 3), (turned, lambda x: x * 2 + x[::-1])):
        x = values(4000)
        expected = function(x)
        f(x, x, out=x)
        np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert pairs_used(plain) == [((0, 0), (0, 1))]
    assert pairs_used(turned) == []


def test_two_results_over_two_arguments(jit: Jit) -> None:
    f = jit(lambda x, y: (x + y, x - y))
    x, y = values(500), values(500) * 2
    expected = x + y, x - y
    f(x, y, out=(y, x))
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(x, expected[1])
    assert pairs_used(f) == [((0, 1), (1, 0))]


def test_an_argument_that_is_a_result_too_is_copied_out_first(jit: Jit) -> None:
    f, x, z = jit(lambda x: (x, x + 1)), values(300), values(300)
    expected = x.copy()
    f(x, out=(z, x))
    np.testing.assert_array_equal(z, expected)
    np.testing.assert_array_equal(x, expected + 1)


def test_exchanging_arguments(jit: Jit) -> None:
    f, x, y = jit(lambda x, y: (y, x)), values(300), values(300) + 1
    expected = y.copy(), x.copy()
    f(x, y, out=(x, y))
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(y, expected[1])


@pytest.mark.parametrize("offset", [1, -1, 16, -16])
def test_a_partial_overlap_takes_a_temporary(jit: Jit, offset: int) -> None:
    f, memory = jit(lambda x: x * 2), values(2000)
    x, out = memory[100:1000], memory[100 + offset : 1000 + offset]
    expected = x * 2
    f(x, out=out)
    np.testing.assert_array_equal(out, expected)
    assert pairs_used(f) == []


def test_a_strided_argument_is_not_taken_for_the_plain_one(jit: Jit) -> None:
    """A transposed square has the address, the shape and the bytes of its target, in another order."""
    f, memory = jit(lambda x: x * 2), values(64, 64)
    expected = memory.T * 2
    f(memory.T, out=memory)
    np.testing.assert_array_equal(memory, expected)


def refused(function: Callable[..., Any], *specs: str, **options: Any) -> Any:
    verdict = reuse_verdict(programs.plan(function, *specs, **options), 0, 0)
    assert not verdict
    return verdict


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_an_in_place_transpose_is_refused_with_a_witness(target: str) -> None:
    verdict = refused(lambda x: x.T * 2, "f32[256, 256]", target=target)
    assert verdict.hazard is Hazard.WAR and verdict.rule == "reuse"
    assert str(verdict.witness).startswith("x[")


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_an_in_place_shifted_stencil_is_refused_with_a_witness(target: str) -> None:
    def stencil(x):
        y = x + np.roll(x, 1)
        return y

    verdict = refused(stencil, "f32[N]", target=target)
    assert verdict.hazard is Hazard.WAR
    assert "into the same element" in verdict.sentence
    assert verdict.witness.first.statement == "x" and verdict.witness.second.statement == "y"


def test_a_later_kernel_that_reads_the_argument_is_a_witness() -> None:
    def late(x):
        y = np.exp(x)
        total = y.sum()
        return y, x / total

    verdict = refused(late, "f32[N]", fuse=False)
    assert verdict.hazard is Hazard.WAR and "is read by kernel" in verdict.sentence
    assert verdict.witness is not None and verdict.witness.first.statement == "y"


def test_explain_says_what_out_will_do() -> None:
    text = programs.plan(lambda x, w: (np.exp(x) * w, x[::-1] + 1), "f32[N]", "f32[N]").explain()
    lines = text[text.index("\nmemory\n") :].splitlines()
    assert lines[2].startswith("  out=x: multiply is stored in a temporary first; illegal: add reads x, which exp")
    assert lines[3] == "  out=w: multiply is stored over w, every element after its last read"


# ---------------------------------------------------------------------------------------------- donate=


def test_a_donated_argument_is_written_without_a_temporary(jit: Jit) -> None:
    def step(x, y):
        x[...] = x * 2 + y
        return x.sum()

    f, x, y = jit(step, donate="x"), values(4000), values(4000)
    expected = x * 2 + y
    total = f(x, y)
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    assert np.isclose(total, expected.sum(), rtol=1e-4)
    (record,) = f._records.values()
    assert record.taken == (0,) and record.given == (-1, 0) and not record.needs_objects


def test_a_result_takes_the_memory_of_a_donated_argument(jit: Jit) -> None:
    f, x, w = jit(affine, donate=0), values(30, 64), values(64)
    expected = affine(x, w)
    y = f(x, w)
    assert np.shares_memory(x, y)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_arrays_of_any_number_are_donated_by_their_parameter(jit: Jit) -> None:
    def named(x, **a):
        a["b"][...] = x + 1
        return x * 2

    def counted(x, *a):
        a[0][...] = x + 1
        return x * 2

    b = values(5)
    jit(named, donate="a")(np.ones(5, np.float32), b=b)
    np.testing.assert_array_equal(b, 2)
    jit(counted, donate="a")(np.zeros(5, np.float32), b)
    np.testing.assert_array_equal(b, 1)
    with pytest.raises(TraceError, match=r"writes into the argument a\['b'\](.|\n)*donate=\('a',\)"):
        jit(named)(b, b=b)
    with pytest.raises(TraceError, match=r"writes into the argument a\[0\](.|\n)*donate=\('a',\)"):
        jit(counted)(b, b)


@pytest.mark.parametrize("what", ["the other is a view", "the same array", "read-only"])
def test_what_cannot_be_taken_is_left_alone(jit: Jit, what: str) -> None:
    f, x = jit(lambda x, y: np.exp(x) - y, donate="x"), values(64, 64)
    y = {"the other is a view": x.T, "the same array": x}.get(what, values(64, 64))
    if what == "read-only":
        x.flags.writeable = False
    before, expected = x.copy(), np.exp(x) - y
    result = f(x, y)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(x, before)


def both_written(x, y):
    x += 1
    y *= 3
    return x.sum()


@pytest.mark.parametrize("shift", [0, 2])
def test_written_arguments_that_share_memory_are_refused(jit: Jit, shift: int) -> None:
    f, memory = jit(both_written, donate=("x", "y")), np.ones((6, 6), np.float32)
    for _ in range(3):
        f(memory[:3], memory[3:])
        with pytest.raises(ArgumentError, match="x and y share memory, and the function writes both"):
            f(memory[:4], memory[shift : 4 + shift])
        with pytest.raises(ArgumentError, match="x and y share memory"):
            f.bind(memory[:4], memory[shift : 4 + shift])
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    between = np.ones(16, np.float32)
    assert f(x, y) == f(between[::2], between[1::2]) == 16
    np.testing.assert_array_equal(between.reshape(8, 2), np.stack([x, y], axis=1))


def exchanged_and_returned(x, y):
    x[...], y[...] = y * 1, x * 1
    return x, y, x


def filled_from_the_other(x, y):
    x[...] = y
    return y, x


def turned_and_returned(x, y):
    x[...] = x.T
    return x, x.sum(axis=0), y


@pytest.mark.parametrize("function", [exchanged_and_returned, filled_from_the_other, turned_and_returned])
def test_a_result_may_be_what_an_argument_becomes(jit: Jit, function: Callable[..., Any]) -> None:
    f = jit(function, donate=("x", "y") if function is exchanged_and_returned else "x")
    for _ in range(3):
        x, y = values(6, 6), values(6, 6) * 2
        after = x.copy(), y.copy()
        expected = [np.array(r) for r in function(*after)]
        for found, wanted in zip(f(x, y), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
        np.testing.assert_array_equal(x, after[0])
        np.testing.assert_array_equal(y, after[1])


def written_twice(x):
    before = x.copy()
    x *= 2
    np.add.at(x, np.arange(3) % 2, 1)
    x[1] = x[0].sum()
    return (before,)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("what", ["off its alignment", "transposed", "every other row"])
def test_a_donated_array_that_is_copied_first_is_not_taken(jit: Jit, what: str, ahead: bool) -> None:
    f = jit(written_twice, donate="x")
    call = f.compile(pf.spec("f32[N, N]"), target="cpu") if ahead else f
    contents = values(8, 8)
    memory = {
        "off its alignment": lambda: np.zeros(8 * 8 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(8, 8),
        "transposed": lambda: np.zeros((8, 8), np.float32).T,
        "every other row": lambda: np.zeros((16, 8), np.float32)[::2],
    }[what]
    for _ in range(3):
        x, after = memory(), contents.copy()
        x[...] = contents
        for found, expected in zip(call(x), written_twice(after), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(x, after, rtol=1e-5)


def test_a_read_only_argument_is_not_written(jit: Jit) -> None:
    f, x = jit(lambda x: x.__iadd__(1), donate="x"), np.zeros(5, np.float32)
    f(x)
    x.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ArgumentError, match="x is read-only, and the function writes it"):
            f(x)
    np.testing.assert_array_equal(x, np.ones(5))


def dead_early(x):
    a = np.exp(x)
    total = a.sum()
    b = a / total
    return b.sum(), b[::-1] * 2


def test_intermediates_live_in_a_donated_argument() -> None:
    given = programs.plan(dead_early, "f32[N]", fuse=False, donate="x")
    assert FromArgument(0) in {b.within for b in given.buffers}
    fresh = programs.plan(dead_early, "f32[N]", fuse=False)
    before, after = compare(fresh, given, sizes={"N": 1 << 20}).peak_bytes
    assert before - after >= 4 << 20
    x = values(700)
    expected = dead_early(x.copy())
    np.testing.assert_allclose(run_plan(given, [x.copy()])[1], expected[1], rtol=1e-5, atol=1e-6)


def test_a_donated_buffer_that_a_later_kernel_reads_is_not_taken(jit: Jit) -> None:
    def late(x):
        a = np.exp(x)
        total = a.sum()
        return x / total

    plan = programs.plan(late, "f32[N]", fuse=False, donate="x")
    assert [b.within for b in plan.buffers if b.name == "a"] == [None]
    verdict = plan.why_not("x", "x")
    assert verdict.hazard is Hazard.WAR and "is read by kernel" in verdict.sentence
    assert str(verdict.witness) == "a[0] -> divide[0] at N = 1"
    assert plan.reuses == ((0, 0),)  # the last kernel reads x[i] and stores the result there
    f, x = jit(late, fuse=False, donate="x"), values(4000)
    expected = late(x)
    np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-6)


def test_a_result_in_a_donated_buffer_lives_to_the_end(jit: Jit) -> None:
    def early(x, y):
        first = x - y  # takes the memory of x
        a = np.exp(y)
        b = a + 1
        return first, y * b

    plan = programs.plan(early, "f32[N]", "f32[N]", fuse=False, donate="x")
    assert plan.reuses == ((0, 0),)
    assert all(b.within != FromArgument(0) for b in plan.buffers)
    x, y = values(4000), values(4000) + 1
    expected = early(x, y)
    for found, wanted in zip(jit(early, fuse=False, donate="x")(x, y), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_unknown_donated_parameters_are_refused() -> None:
    with pytest.raises(OptionError, match="donate='z' is no parameter"):
        pf.jit(lambda x: x, donate="z")


def test_leaves_of_a_donated_container_are_donated(jit: Jit) -> None:
    def update(state, g):
        state["m"][...] = state["m"] * 0.9 + g
        return state["m"] * 2

    m, g = values(1000), values(1000)
    expected = m * np.float32(0.9) + g
    jit(update, donate="state")({"m": m}, g)
    np.testing.assert_allclose(m, expected, rtol=1e-6)


# ---------------------------------------------------------------------------------------------- workspace


def chain(x):
    a = np.exp(x)
    b = a + 1
    c = b * b
    d = c - x
    return d


def homes(plan: Plan) -> dict[str, Any]:
    return {b.name: b.within for b in plan.buffers}


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_a_chain_of_kernels_needs_one_buffer(target: str) -> None:
    plan = programs.plan(chain, "f32[N]", fuse=False, target=target)
    assert homes(plan) == {"a": None, "b": FromBuffer("a"), "c": FromBuffer("a")}
    x = values(5000)
    np.testing.assert_allclose(run_plan(plan, [x])[0], chain(x), rtol=1e-5, atol=1e-6)
    overwritten = {p.name for launch in plan.launches for p in launch.kernel.parameters if getattr(p, "overwritten", 0)}
    assert overwritten == ({"a_in", "b_in"} if target == "h200" else set())


def test_a_kernel_that_moves_elements_keeps_its_operand() -> None:
    def turned(x):
        a = np.exp(x)
        b = a + a[::-1]
        c = b * b
        return c

    assert homes(programs.plan(turned, "f32[N]", fuse=False)) == {"a": None, "b": None}


def test_a_value_with_a_later_reader_keeps_its_memory() -> None:
    def later(x):
        a = np.exp(x)
        b = a + 1
        c = b * 2
        return c + a

    plan = programs.plan(later, "f32[N]", fuse=False)
    assert homes(plan) == {"a": None, "b": None, "c": FromBuffer("b")}
    x = values(1000)
    np.testing.assert_allclose(run_plan(plan, [x])[0], later(x), rtol=1e-5, atol=1e-6)
