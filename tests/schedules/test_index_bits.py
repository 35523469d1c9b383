"""32-bit indices are used only where every index and offset fits, padding included; 64 bits otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine
from polyfuse.plan import Plan

Function = Callable[..., Any]
RANGE = 2**31


def plan_of(function: Function, *specs: str, target: str = "h200") -> Plan:
    return pf.jit(function, library=False).plan(*map(pf.spec, specs), target=target)


def bits(plan: Plan) -> set[int]:
    return {launch.kernel.index_bits for launch in plan.launches}


def furthest(plan: Plan, **sizes: int) -> int:
    """The largest index that any place of any kernel takes, masked or not, by enumeration of its digits' ends."""
    found = 0
    for kernel in plan.kernels:
        names = dict(kernel.group.scop.program.derived)
        known = sizes | {name: int(np.prod([f.evaluate(sizes) for f in factors])) for name, factors in names.items()}
        ends = {f"${d.name}": d.extent.evaluate(known) - 1 for d in kernel.schedule.digits}
        for placed in kernel.schedule.placed:
            for entry in (e for e in placed.place if isinstance(e, Affine)):
                at_ends = known | {name: end for name, end in ends.items() if entry.coefficient(name) > 0}
                found = max(found, entry.evaluate(at_ends | {name: 0 for name in ends if name not in at_ends}))
    return found


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


SMALL: dict[str, tuple[Function, tuple[str, ...]]] = {
    "elements": (lambda x: x + 1, ("i8[65535, 32767]",)),
    "a product of many more products": (lambda x, w: x @ w, ("f32[4096, 4096]", "f32[4096, 4096]")),
    "differences of all pairs": (lambda x, y: abs(x[:, None] - y).sum(), ("f32[65536]", "f32[65536]")),
    "rows": (softmax, ("f16[65535, 32760]",)),
}
LARGE: dict[str, tuple[Function, tuple[str, ...]]] = {
    "elements": (lambda x: x + 1, ("i8[65536, 32768]",)),
    "a result alone": (lambda x, y: x[:, None] + y, ("i8[65536]", "i8[40000]")),
    "every other of many": (lambda x: x[::2, ::3] + 1, ("i8[65536, 32768]",)),
    "rows": (softmax, ("f16[65537, 32768]",)),
    "no array at all": (lambda: np.arange(2**32).sum(), ()),
    "a dimension that only an index has": (lambda x: (np.arange(3 * 2**30) * x).max(), ("i64[]",)),
    "ones": (lambda: np.ones((70000, 70000)).sum(), ()),
    "less than a block's share below the limit": (lambda x: x.sum(), (f"i8[{RANGE - 2**16}]",)),
    "few long rows below the limit": (lambda x: x.sum(axis=1), (f"i8[2, {2**30 - 2**16}]",)),
    "one intermediate": (lambda x, y: np.sort(x[:, None] + y, axis=1), ("f32[65536]", "f32[65536]")),
}


@pytest.mark.parametrize("case", SMALL)
def test_small_programs_have_short_indices(case: str) -> None:
    plan = plan_of(SMALL[case][0], *SMALL[case][1])
    assert bits(plan) == {32}
    assert furthest(plan) < RANGE


@pytest.mark.parametrize("case", LARGE)
def test_large_programs_have_not(case: str) -> None:
    function, specs = LARGE[case]
    assert bits(plan_of(function, *specs)) == {64}
    host = plan_of(function, *specs, target="cpu")  # the same rule; two stages of a long sum may have short indices
    assert bits(host) == {64} or furthest(host) < RANGE


@pytest.mark.parametrize("rows", [1, 100, 2**20])
@pytest.mark.parametrize("offset", [0, 1, 2**15, 2**16, 2**17, 2**22, 2**23, 2**25])
def test_no_place_of_a_short_index_passes_its_range(rows: int, offset: int) -> None:
    """Around the limit, where rounding up to whole blocks decides."""
    columns = (RANGE - offset) // rows
    for function in (lambda x: x * 2, lambda x: x.sum(), lambda x: x.sum(axis=0), lambda x: x.sum(axis=1)):
        plan = plan_of(function, f"i8[{rows}, {columns}]")
        if bits(plan) == {32}:
            assert furthest(plan) < RANGE, plan
            assert offset > 0


def test_a_plan_for_all_sizes_says_up_to_which() -> None:
    """The guard is exact about the call after which another plan is needed."""
    plan = plan_of(lambda x: x * 2, "i8[N, M]")
    assert bits(plan) == {32}
    fits = [g for g in plan.guards if not g.holds({"N": 2**16, "M": 2**15})]
    assert any("N" in str(g) and "M" in str(g) for g in fits)
    wide = plan_of(lambda x: x * 2, "i8[N~65536, M~32768]")
    assert bits(wide) == {64}


def test_positions_that_are_values_count() -> None:
    """Rows and columns are few, and no array has the elements whose numbers are computed."""

    def numbered(x):
        rows = x.shape[0]
        return (np.arange(rows * 70000).reshape(rows, 70000) % 7).sum(axis=0)

    assert bits(plan_of(numbered, "f32[N~60000]")) == {64}
    small = plan_of(numbered, "f32[N~20000]")
    assert bits(small) == {32}
    assert any(not g.holds({"N": 32000}) and "70000*N" in str(g) for g in small.guards)
    assert bits(plan_of(lambda x: (np.arange(0, x.shape[0] * 1000, 1000) % 7).sum(), "f32[N~10000000]")) == {64}


def test_indices_that_no_array_has_are_guarded() -> None:
    """The reduced dimension exists in the program only."""
    plan = plan_of(lambda x: (np.arange(2 * x.shape[0]) % 7).sum(), "f32[N]")
    assert any(not g.holds({"N": 2**30}) and "2*N" in str(g) for g in plan.guards)
