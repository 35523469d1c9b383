"""Masks only where a class of lengths leaves open whether rows end: the first vectors of lanes and the last ones."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.backends.interpreter import run_source
from polyfuse.backends.interpreter.faults import UnknownCondition
from polyfuse.backends.interpreter.fragment import FragmentError
from polyfuse.bindings import Guard, is_advisory
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.context import kernel_context
from polyfuse.lower.inspect import flatten
from polyfuse.lower.settled import settled
from polyfuse.plan import Plan
from polyfuse.verify.kernel import verify_kernel

ROWS = "f16[N~20001, M~3001]"


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layernorm(x: Any, g: Any, b: Any) -> Any:
    c = x - x.mean(axis=1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=1, keepdims=True) + 1e-5) * g + b


def planned(length: int = 3001, rows: int = 20001) -> Plan:
    return pf.jit(softmax).plan(pf.spec(f"f16[N~{rows}, M~{length}]"), target="h200")


def places(kernel: ir.Kernel) -> dict[tuple[int, int], int]:
    """How often conditions are known at places of a slot."""
    found: dict[tuple[int, int], int] = {}
    for known in kernel.settled:
        found[known.first, known.stop] = found.get((known.first, known.stop), 0) + 1
    return found


def test_only_the_ends_of_a_row_are_asked_for() -> None:
    """Of three vectors a lane the first one begins in front of a row, the last one ends behind it."""
    plan = planned()
    assert dict(plan.kernels[0].parameters)["chunks"] == 3
    assert places(plan.launches[0].kernel) == {(1, 3): 1, (0, 2): 1}
    text = plan.source()
    assert len(re.findall(r"at_most\(.*, 0, 1, 3, 0\)", text)) == 1
    assert len(re.findall(r"at_least\(.*, 0, 0, 2, 8\)", text)) == 1


def test_what_is_known_of_the_ends_is_a_guard() -> None:
    """Rows of 2055 elements have more vectors that may end behind them, and a plan of their own."""
    (kernel,) = planned().kernels
    binding = [g for g in kernel.guards if isinstance(g, Guard) and not is_advisory(g)]
    assert all(g.holds({"M": 3001, "N": 5}) for g in binding)
    assert not all(g.holds({"M": 2049, "N": 5}) for g in binding)
    other = planned(2055).launches[0].kernel  # in five chunks of 512, of which two may end behind the row
    assert places(other) == {(1, 5): 1, (0, 3): 1}


def test_without_the_guard_the_end_is_asked_for_everywhere() -> None:
    plan = planned()
    (schedule,), kernel = plan.schedules, plan.launches[0].kernel
    slots = [d for d in schedule.digits if d.kind == "slot"]
    loose = replace(schedule, guards=tuple(g for g in schedule.guards if g.modulus))
    found = settled(kernel.body, slots, kernel_context(loose, plan.scop.program))
    assert [(k.first, k.stop) for k in found] == [(1, 3)]  # where rows begin is no question of sizes
    shorter = replace(schedule, guards=(*loose.guards, Guard(Affine.symbol("M") - 1024)))
    found = settled(kernel.body, slots, kernel_context(shorter, plan.scop.program))
    assert sorted((k.first, k.stop) for k in found) == [(0, 1), (1, 3)]


@pytest.mark.parametrize("length", [2042, 2049, 2051, 2055, 2057, 2500, 3058, 3065])
def test_results_agree_at_the_ends_of_classes(length: int) -> None:
    """The interpreter checks what is known as well."""
    length += 1 - length % 2
    plan = planned(length)
    x = np.random.default_rng(length).standard_normal((11, length)).astype(np.float16)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, softmax(x.astype(np.float64)), rtol=4e-3, atol=1e-6)


def test_single_elements_of_a_known_length_are_masked_at_the_end_alone() -> None:
    plan = pf.jit(softmax).plan(pf.spec("f32[N~65536, 1003]"), target="h200")
    chunks = dict(plan.kernels[0].parameters)["chunks"]
    assert places(plan.launches[0].kernel) == {(0, chunks - 1): 1}
    x = np.random.default_rng(0).standard_normal((7, 1003)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, softmax(x.astype(np.float64)), rtol=1e-5)


@pytest.mark.parametrize("length", [2065, 3001])
def test_vectors_of_gains_end_one_further(length: int) -> None:
    """They are made of the aligned vectors that they lie in, the second of which may end behind the row."""
    specs = (f"f16[N~44739, M~{length}]", f"f16[M~{length}]", f"f16[M~{length}]")
    plan = pf.jit(layernorm).plan(*map(pf.spec, specs), target="h200")
    last = dict(plan.kernels[0].parameters)["chunks"] - 1
    assert plan.source().count("load_across(") == 2 and f", 0, 0, {last}, 16)" in plan.source()
    rng = np.random.default_rng(1)
    x, g, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((11, length), (length,), (length,)))
    (found,) = run_plan(plan, [x, g, b])
    exact = layernorm(*[a.astype(np.float64) for a in (x, g, b)])
    np.testing.assert_allclose(found, exact, rtol=1e-2, atol=1e-2)


def wrongly(kernel: ir.Kernel, **changes: int) -> ir.Kernel:
    """With more known of where rows end."""
    return replace(kernel, settled=tuple(replace(k, **changes) if k.first == 0 else k for k in kernel.settled))


def test_what_is_not_so_is_found() -> None:
    """By the kernel, and by its text."""
    plan = planned()
    launch, x = plan.launches[0], np.zeros((3, 3001), np.float16)
    wrong = wrongly(launch.kernel, stop=3)
    with pytest.raises(UnknownCondition, match="is known to hold and does not"):
        run_plan(replace(plan, steps=(replace(launch, kernel=wrong),)), [x])
    arrays, sizes = {"x_in": x, "divide_out": np.zeros_like(x)}, {"N": 3, "M": 3001}
    run_source(print_kernel(launch.kernel), launch.kernel.name, launch.kernel, arrays, sizes, {})
    assert np.ptp(arrays["divide_out"]) == 0 and arrays["divide_out"][0, 0] > 0
    with pytest.raises(FragmentError, match="are not what they are known to be"):
        run_source(print_kernel(wrong), wrong.name, wrong, arrays, sizes, {})


def joined(x: Any, y: Any, z: Any) -> Any:
    return np.concatenate([x, y, z], axis=1)


PIECES = (300, 500, 701)


def pieces(rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [rng.integers(0, 100, (rows, length)).astype(np.float16) for length in PIECES]


def test_nothing_of_a_piece_is_loaded_where_it_has_nothing() -> None:
    """Of three vectors a lane the first piece has a part of the first one, the second one parts of two."""
    plan = pf.jit(joined).plan(*[pf.spec(f"f16[N~60000, {length}]") for length in PIECES], target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.parameters) == {"threads": 64, "unroll": 3, "vector": 8, "frames": 1}
    assert places(plan.launches[0].kernel)[1, 3] > 1
    text = plan.source()
    assert text.count(", 0, 1, 3, False)") == text.count(", 0, 2, 3, False)") == 1  # of which piece it is
    assert text.count("other=None") == 3
    for rows in (1, 2, 9):
        x = pieces(rows)
        (found,) = run_plan(plan, x)
        np.testing.assert_array_equal(found, joined(*x))


def test_where_a_piece_has_something_after_all_is_found() -> None:
    plan = pf.jit(joined).plan(*[pf.spec(f"f16[N~60000, {length}]") for length in PIECES], target="h200")
    launch, x = plan.launches[0], pieces(3)
    told = [k for k in launch.kernel.settled if -k.condition - 1 in conditions(launch.kernel)]
    assert told
    further = {k: replace(k, first=k.first - 1) for k in told if k.first == 1}
    wrong = replace(launch.kernel, settled=tuple(further.get(k, k) for k in launch.kernel.settled))
    with pytest.raises(UnknownCondition, match="is known to hold and does not"):
        run_plan(replace(plan, steps=(replace(launch, kernel=wrong),)), x)
    arrays = dict(zip(("x_in", "y_in", "z_in"), x, strict=True)) | {"region_out": np.zeros((3, 1501), np.float16)}
    run_source(print_kernel(launch.kernel), launch.kernel.name, launch.kernel, arrays, {"N": 3}, {})
    np.testing.assert_array_equal(arrays["region_out"], joined(*x))
    with pytest.raises(FragmentError, match="are not what they are known to be"):
        run_source(print_kernel(wrong), wrong.name, wrong, arrays, {"N": 3}, {})


def conditions(kernel: ir.Kernel) -> set[Affine]:
    return {w for op in flatten(kernel.body) if isinstance(op, ir.Load | ir.Store) for w in op.where}


MALFORMED = {
    "there is no slot w": {"slot": "w"},
    "has no places 0 to 3": {"stop": 4},
    "does not go with the slot v": {"slot": "v", "condition": Affine.symbol("$c")},
    "holds further on as well": {"first": 1},
}


@pytest.mark.parametrize("sentence", MALFORMED)
def test_what_cannot_be_known_is_no_kernel(sentence: str) -> None:
    kernel = planned().launches[0].kernel
    verify_kernel(kernel)
    with pytest.raises(KernelError, match=sentence):
        verify_kernel(wrongly(kernel, **MALFORMED[sentence]))  # type: ignore[arg-type]
    with pytest.raises(KernelError, match="said twice"):
        verify_kernel(replace(kernel, settled=(*kernel.settled, kernel.settled[0])))


@pytest.mark.ptx
def test_what_is_known_takes_no_instructions() -> None:
    """Of the softmax ptxas makes 486 instructions instead of 686."""
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    kernel = planned().launches[0].kernel

    def branches(kernel: ir.Kernel) -> int:
        text = print_kernel(kernel)
        ptx = compile_kernel(text, kernel.name, kernel.parameters, kernel.block_threads, (9, 0)).ptx
        return len(re.findall(r"\bbra\b", ptx))

    assert branches(kernel) < branches(replace(kernel, settled=())) - 4


@pytest.mark.ptx
def test_where_a_row_ends_is_no_matter_of_the_slots_that_it_ends_in() -> None:
    """The one row of an array that is cut says where by a number that no slot has: nothing is known of its places."""

    def picks(x: Any, y: Any) -> Any:
        odd = np.tan(x) * np.isinf(x)
        return np.argmax(y, axis=-2)[:], x @ y.T, np.pad(odd, ((0, 2), (0, 1)), mode="wrap")

    x = np.random.default_rng(0).standard_normal((2, 31, 3)).astype(np.float32)
    lowered = pf.jit(picks).lower(*x, target="h200")
    lowered.compile()
    for got, exact in zip(run_plan(lowered.plan, [*x]), picks(*x), strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)
