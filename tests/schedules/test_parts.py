"""Rows in parts: a thread that has the same vector of every part computes of each what its piece says, and no more."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, digit
from polyfuse.places.boxes import only_slots
from polyfuse.plan import Plan
from polyfuse.schedule import Digit
from polyfuse.testing import assert_equivalent, assert_legal


def rotary(x: Any, cosine: Any, sine: Any) -> Any:
    half = x.shape[-1] // 2
    low, high, c, s = x[..., :half], x[..., half:], cosine[:, None, :], sine[:, None, :]
    return np.concatenate((low * c - high * s, high * c + low * s), axis=-1)


def halves_swapped(x: Any) -> Any:
    return np.roll(x, 32, axis=-1) * 2


def three_pieces(x: Any, y: Any) -> Any:
    return np.concatenate((np.exp(x[:, 16:]), x[:, :16] + 1, y), axis=1)


def shifted_by_three(x: Any) -> Any:
    return np.roll(x, 3, axis=-1) * 2


ROTARY = ("bf16[B~4, S~4096, H~32, 128]", "bf16[S, 64]", "bf16[S, 64]")


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


def test_rotary_loads_each_element_once_and_computes_each_half_once() -> None:
    plan = planned(rotary, *ROTARY)
    (kernel,) = plan.kernels
    assert kernel.strategy == "pointwise" and dict(kernel.schedule.parameters)["lanes"] == 8
    digits = {d.name: d for d in kernel.schedule.digits}
    halves = next(d.name for d in digits.values() if d.kind == "slot" and d.count == 2)
    moved = [p for p in kernel.schedule.placed if p.role == "load"]
    assert len(moved) == 4 and not any(halves in p.digits() for p in moved)
    computed = [p for p in kernel.schedule.placed if p.role == "compute" and halves in p.digits()]
    assert [plan.scop.statements[p.value].name for p in computed] == ["region"]
    assert_legal(plan)


@pytest.mark.ptx
def test_rotary_moves_sixteen_bytes_an_instruction_and_chooses_nothing_at_run_time() -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.codegen.names import function_name
    from polyfuse.codegen.printer import print_kernel

    (launch,) = planned(rotary, "bf16[4, 4096, 32, 128]", *["bf16[4096, 64]"] * 2).launches
    k = launch.kernel
    name = function_name(k.name)
    ptx = compile_kernel(print_kernel(k), name, k.parameters, k.threads, (9, 0), index_bits=k.index_bits).ptx
    assert len(re.findall(r"ld\.global\.nc(?:\.L2::cache_hint)?\.v4", ptx)) == len(re.findall(r"ld\.global", ptx)) == 4
    assert len(re.findall(r"st\.global\.v4", ptx)) == len(re.findall(r"st\.global", ptx)) == 2
    assert "selp.f32" not in ptx


@pytest.mark.parametrize(
    ("function", "specs", "sizes", "tiles"),
    [
        (rotary, ROTARY, {"B": 4, "S": 3, "H": 5}, {"region": {"lanes": 8}}),
        (halves_swapped, ("f32[N~65536, 64]",), {"N": 7}, {"multiply": {"lanes": 8, "unroll": 2}}),
        (three_pieces, ("f32[N~65536, 32]", "f32[N, 32]"), {"N": 9}, {"region": {"lanes": 4, "unroll": 4}}),
        (shifted_by_three, ("f32[N~65536, 64]",), {"N": 5}, {}),
    ],
)
def test_pieces_are_right(function: Any, specs: tuple[str, ...], sizes: dict[str, int], tiles: Any) -> None:
    loose, fused = planned(function, *specs, fuse=False), planned(function, *specs, tiles=tiles)
    assert_equivalent(loose, fused, seeds=(0,), sizes=[sizes])
    assert_legal(fused)
    assert all(size == dict(fused.kernels[-1].schedule.parameters)[n] for t in tiles.values() for n, size in t.items())


def test_shifts_by_less_than_a_vector_make_no_parts() -> None:
    (kernel,) = planned(shifted_by_three, "f32[N~65536, 64]", tiles={"multiply": {"lanes": 4}}).kernels
    assert kernel.strategy == "windows"


def test_no_element_makes_no_part() -> None:
    plan = planned(halves_swapped, "f32[N~65536, 0]")
    assert plan.kernels == () or dict(plan.kernels[0].schedule.parameters).get("lanes") is None


DIGITS = {
    "b": Digit("b", "block", Affine.symbol("B")),
    "t": Digit("t", "thread", Affine.of(8)),
    "h": Digit("h", "slot", Affine.of(2)),
    "v": Digit("v", "slot", Affine.of(8)),
}


def test_conditions_decide_slots_or_leave_them_open() -> None:
    at = digit("h") * 64 + digit("t") * 8 + digit("v")
    assert only_slots([63 - at], DIGITS) == {"$h": 0}
    assert only_slots([at - 64], DIGITS) == {"$h": 1}
    assert only_slots([62 - at], DIGITS) == {"$h": 0}
    assert only_slots([64 - at], DIGITS) == {}  # h = 1, t = v = 0 as well
    assert only_slots([127 - at], DIGITS) == {}
    assert only_slots([63 - at - digit("b") * 128], DIGITS) == {}  # a block further on has neither
    assert only_slots([-digit("v")], DIGITS) == {"$v": 0}
    assert only_slots([], DIGITS) == {}
