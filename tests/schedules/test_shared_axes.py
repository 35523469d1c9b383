"""Short axes along which results share what they read lie in the registers of one thread."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal

STEPS = ((0, 0), (1, 0), (0, 1), (-1, 0), (-1, 1))


def streamed_and_collided(f: Any) -> Any:
    """A step of a lattice Boltzmann method: rolled planes, sums over all of them, as many planes of results."""
    f = [np.roll(f[k], step, (0, 1)) for k, step in enumerate(STEPS)]
    density = sum(f)
    down = sum(step[0] * plane for step, plane in zip(STEPS, f, strict=True) if step[0]) / density
    right = sum(step[1] * plane for step, plane in zip(STEPS, f, strict=True) if step[1]) / density
    flows = [3 * (a * down + b * right) for a, b in STEPS]
    rest = [density * (1 + u + 0.5 * u * u) for u in flows]
    return np.stack([plane - 0.6 * (plane - at_rest) for plane, at_rest in zip(f, rest, strict=True)])


def three_of_two(a: Any, b: Any) -> Any:
    return np.stack([a + b, a - b, a * b])


def weighted(x: Any, w: Any) -> Any:
    return np.tanh(x[:, None] * w[None, :, None])


def pieces(a: Any) -> Any:
    return np.concatenate([a[0:1] + a[1:2], a[1:2] * 2, a[2:4] - a[0:1]])


PROGRAMS = {
    "lattice": (streamed_and_collided, ("f32[5, H~3072, W~3072]",), 5, {"H": 5, "W": 8}),
    "stack": (three_of_two, ("f32[H~4096, W~8192]", "f32[H, W]"), 3, {"H": 3, "W": 132}),
    "stack of halves": (three_of_two, ("bf16[H~4096, W~8192]", "bf16[H, W]"), 3, {"H": 3, "W": 136}),
    "outer product": (weighted, ("f32[H~8192, W~4096]", "f32[8]"), 8, {"H": 5, "W": 132}),
    "pieces": (pieces, ("f32[4, H~2048, W~4096]",), 4, {"H": 3, "W": 260}),
}


def planned(case: str, **options: Any) -> Plan:
    function, specs, _, _ = PROGRAMS[case]
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


@pytest.mark.parametrize("case", PROGRAMS)
def test_one_kernel_computes_once_what_results_share(case: str) -> None:
    plan = planned(case)
    (kernel,) = plan.kernels
    count = PROGRAMS[case][2]
    assert dict(kernel.parameters)["columns"] == count
    slots = [d.name for d in kernel.schedule.digits if d.kind == "slot" and d.count == count]
    computed = [p for p in kernel.schedule.placed if p.role == "compute"]
    assert min(sum(along in p.digits() for p in computed) for along in slots) <= 2
    assert_legal(plan)


@pytest.mark.parametrize("case", PROGRAMS)
def test_results_are_those_of_kernels_apart(case: str) -> None:
    assert_equivalent(planned(case, fuse=False), planned(case), seeds=(0,), sizes=[PROGRAMS[case][3]])


def test_an_axis_of_unknown_length_is_no_slot() -> None:
    plan = pf.jit(weighted).plan(pf.spec("f32[H~8192, W~4096]"), pf.spec("f32[C~8]"), target="h200")
    assert all("columns" not in dict(kernel.parameters) for kernel in plan.kernels)


def test_elements_that_share_nothing_are_dealt_to_threads() -> None:
    plan = pf.jit(lambda x, y: x * y).plan(pf.spec("f32[3, W~8192, H~4096]"), pf.spec("f32[3, W, H]"), target="h200")
    assert all("columns" not in dict(kernel.parameters) for kernel in plan.kernels)


@pytest.mark.ptx
def test_pieces_are_chosen_when_the_kernel_is_compiled() -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.codegen.names import function_name
    from polyfuse.codegen.printer import print_kernel

    specs = [pf.spec("f32[4096, 8192]")] * 2
    (launch,) = pf.jit(three_of_two).plan(*specs, target="h200").launches
    k = launch.kernel
    name = function_name(k.name)
    ptx = compile_kernel(print_kernel(k), name, k.parameters, k.threads, (9, 0), index_bits=k.index_bits).ptx
    assert len(re.findall(r"ld\.global\.nc(?:\.L2::cache_hint)?\.v4", ptx)) == len(re.findall(r"ld\.global", ptx)) == 4
    assert len(re.findall(r"st\.global\.v4", ptx)) == len(re.findall(r"st\.global", ptx)) == 6
    assert "selp.f32" not in ptx


def test_rows_of_a_few_elements_have_as_many_in_a_class_where_there_are_many() -> None:
    reverse = pf.jit(lambda x: x[..., ::-1] * 2)
    for shape, classes in (((5000, 3), 1), ((6000, 3), 1), ((5000, 4), 2), ((5000, 7), 3), ((6000, 9), 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(reverse(x), x[..., ::-1] * 2)
        assert reverse.cache_info().traces == classes
