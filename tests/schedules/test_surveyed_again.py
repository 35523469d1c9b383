"""What a fifth survey of programs found: shares for sizes that are not the plan's, levels of steps, few rows, scans of
long words, grids of many small blocks, two steps of a field that is rolled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import Guard as SizeGuard
from polyfuse.bindings import VolumeGuard, is_advisory
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import If, Let, Load, Store
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.run.sizes import hold
from polyfuse.terms import Ref
from polyfuse.testing import assert_legal
from polyfuse.verify.kernel import verify_kernel


def planned(function: Callable[..., Any], *specs: str, target: str = "h100", **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target=target)


# ---------------------------------------------------------------------------------------------- shares
def total(x):
    return x.sum()


def scaled_total(x):
    return x * 2, x.sum()


def columns(x):
    return x.max(0), x.min(0)


@pytest.mark.parametrize("function", [total, scaled_total])
def test_shares_are_for_sizes_like_those_that_they_were_made_for(function: Callable[..., Any]) -> None:
    """Shares of a hundred million in a sum of two: 87 us on an H100 instead of 7, in a dozen blocks."""
    plan = planned(function, "f32[N~100000001]")
    assert hold(plan.guards, {"N": 100_000_001})
    assert hold(plan.guards, {"N": 80_000_001})
    assert not hold(plan.guards, {"N": 2_000_001})
    right = [g for g in plan.guards if not is_advisory(g)]
    assert hold(right, {"N": 2_000_001})  # slow, not wrong
    assert hold(right, {"N": 200_000_001})


def test_shares_that_all_run_at_once_do_for_no_block_more() -> None:
    plan = planned(total, "f32[N~100000000]")
    (kernel,) = plan.kernels
    share, blocks = dict(kernel.parameters)["share"], kernel.cost.blocks
    resident = -(-blocks // 132)
    assert resident <= 8
    assert hold(plan.guards, {"N": resident * 132 * share})
    assert not hold(plan.guards, {"N": resident * 132 * share + 4})


def test_bounds_on_blocks_are_part_of_the_explanation() -> None:
    text = str(planned(total, "f32[N~100000000]").explain())
    assert "blocks in ceil(N/" in text.split("chosen for")[1]


def test_shares_of_a_short_kernel_do_for_shorter_ones() -> None:
    plan = planned(columns, "f32[N~40000, 3]")
    assert hold(plan.guards, {"N": 17_000})


def test_bounds_on_blocks_go_with_products_of_sizes() -> None:
    """The rows of one reduced class that two dimensions make up."""
    plan = planned(total, "f32[N~1000, M~100000]")
    bounds = [g for g in plan.guards if is_advisory(g) and not isinstance(g, SizeGuard)]
    assert bounds
    assert all(g.holds({"N": 1000, "M": 100_000}) for g in bounds)
    assert not all(g.holds({"N": 1000, "M": 3000}) for g in bounds)


def test_a_volume_guard_may_be_advice() -> None:
    guard = VolumeGuard(planned(total, "f32[N~100000000]").program.arguments[0].shape, 10, advisory=True)
    assert is_advisory(guard)
    assert not is_advisory(replace(guard, advisory=False))


# ---------------------------------------------------------------------------------------------- levels
def haar(a):
    x, y = (a[:, ::2] + a[:, 1::2]) * 0.5, (a[:, ::2] - a[:, 1::2]) * 0.5
    return (x[::2] + x[1::2]) * 0.5, (x[::2] - x[1::2]) * 0.5, (y[::2] + y[1::2]) * 0.5, (y[::2] - y[1::2]) * 0.5


def beside(a):
    x = a[:, ::2] + a[:, 1::2]
    return x[::2] + x[1::2], a[::2, ::2] * 2


def apart(a):
    return (a * 2)[::2] + 1, (a * 3)[::3] + 1


@pytest.mark.parametrize("function", [haar, beside])
def test_what_steps_alike_along_what_runs_together_is_one_kernel(function: Callable[..., Any]) -> None:
    """Four bands of 8192 x 8192: 180 us on an H100 in one kernel, 269 in two that both read all of it."""
    plan = planned(function, "f32[8192, 8192]")
    assert len(plan.kernels) == 1
    assert_legal(plan)


@pytest.mark.parametrize("function", [haar, beside])
@pytest.mark.parametrize("shape", [(8, 12), (64, 66), (130, 260)])
def test_levels_of_steps_are_right(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    a = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    plan = pf.jit(function).plan(a, target="h100")
    for got, wanted in zip(run_plan(plan, [a]), function(a), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_other_steps_are_other_dimensions() -> None:
    plan = planned(apart, "f32[6000000]")
    assert len(plan.kernels) == 2


# ---------------------------------------------------------------------------------------------- the border
def energy(a):
    return -a * (np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1))


def waves(h, u, v):
    x = np.roll(h, -1, 0) - np.roll(h, 1, 0)
    y = np.roll(h, -1, 1) - np.roll(h, 1, 1)
    return h - 0.1 * (np.roll(u, -1, 0) - np.roll(u, 1, 0) + np.roll(v, -1, 1)), u - 0.1 * x, v - 0.1 * y


def reacted(u, v):
    def laplacian(x):
        return np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4 * x

    for _ in range(2):
        r = u * v * v
        u, v = u + 0.1 * laplacian(u) - r + 0.03 * (1 - u), v + 0.05 * laplacian(v) + r - 0.09 * v
    return u, v


def border_loads(plan: Plan) -> list[Load]:
    (launch,) = plan.launches
    return [op for op in flatten(launch.kernel.body) if isinstance(op, Load) and op.some]


@pytest.mark.parametrize(("function", "count"), [(energy, 1), (waves, 3)])
def test_blocks_at_the_border_pass_by_what_they_do_not_need(function: Callable[..., Any], count: int) -> None:
    """4 MB of such energies: 6.6 us on an H100 when each block at the border loaded all sides, 4.7 since."""
    plan = planned(function, "f32[N~8192, M~8192]", *["f32[N, M]"] * (count - 1))
    loads = border_loads(plan)
    assert len(loads) >= 4
    assert all(load.instead is not None for load in loads)
    assert "some=" in plan.source()
    assert "where(" not in plan.source().split("else:")[1]


@pytest.mark.parametrize("shape", [(2, 3), (5, 300), (37, 131), (70, 64), (40, 520)])
@pytest.mark.parametrize(("function", "count"), [(energy, 1), (waves, 3), (reacted, 2)])
def test_what_is_rolled_is_right_at_every_edge(
    function: Callable[..., Any], count: int, shape: tuple[int, int]
) -> None:
    random = np.random.default_rng(9)
    arrays = [random.standard_normal(shape).astype(np.float32) for _ in range(count)]
    plan = pf.jit(function).plan(*arrays, target="h100")
    wanted = function(*arrays)
    for got, right in zip(run_plan(plan, arrays), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-5, atol=1e-5)


def test_half_precision_is_right_at_every_edge() -> None:
    a = np.random.default_rng(3).standard_normal((70, 130)).astype(np.float16)
    plan = pf.jit(energy).plan(a, target="h100")
    np.testing.assert_allclose(run_plan(plan, [a])[0], energy(a.astype(np.float64)), rtol=2e-2, atol=2e-2)


def test_a_block_that_passes_by_what_it_needs_is_refused() -> None:
    (launch,) = planned(energy, "f32[8192, 8192]").launches

    def wrong(op: Any) -> Any:
        if isinstance(op, If):
            return replace(op, body=tuple(map(wrong, op.body)), orelse=tuple(map(wrong, op.orelse)))
        return replace(op, some=tuple(c - 64 for c in op.some)) if isinstance(op, Load) and op.some else op

    verify_kernel(launch.kernel)
    with pytest.raises(KernelError, match="passes a_in by"):
        verify_kernel(replace(launch.kernel, body=tuple(map(wrong, launch.kernel.body))))


def test_no_load_moves_behind_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result may take the memory of an argument, element by element after its last read."""
    from polyfuse.lower import kernel as lowering
    from polyfuse.lower.pieces import with_pieces

    monkeypatch.setattr(lowering, "with_pieces", lambda kernel: kernel)
    (launch,) = planned(energy, "f32[N~8192, M~8192]").launches
    (split,) = [op for op in launch.kernel.body if isinstance(op, If)]
    choices = [k for k, op in enumerate(split.orelse) if isinstance(op, Let) and op.name.startswith("region")]
    (store,) = [op for op in split.orelse if isinstance(op, Store)]

    def joined(orelse: tuple[Any, ...]) -> int:
        kernel = replace(launch.kernel, body=tuple(replace(split, orelse=orelse) if op is split else op
                                                   for op in launch.kernel.body))  # fmt: skip
        return sum(isinstance(op, Load) and op.instead is not None for op in flatten(with_pieces(kernel).body))

    assert joined(split.orelse) == len(choices) == 4
    early = replace(store, value=Ref(split.orelse[choices[1]].name, store.value.dtype))
    assert joined((*split.orelse[: choices[1] + 1], early, *split.orelse[choices[1] + 1 :])) == 2


def test_two_steps_of_what_is_rolled_are_two_kernels() -> None:
    """200 MB on an H100: 413 us in one, whose blocks at the border compute the first step five times; 294 in two."""
    plan = planned(reacted, "f32[N~5000, M~5000]", "f32[N, M]")
    assert len(plan.kernels) == 2


# ---------------------------------------------------------------------------------------------- rows, scans, blocks
def gradient(z, t):
    e = np.exp(z - z.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) - t) / z.shape[0]


def test_few_rows_have_more_lanes() -> None:
    """500 rows of 1000: 7.2 us on an H100 in 32 lanes each, 4.6 in 64, 4.5 in 256; of 65536 memory is the limit."""
    (few,) = planned(gradient, "f32[N~500, M~1000]", "f32[N, M]").kernels
    (many,) = planned(gradient, "f32[N~65536, M~1000]", "f32[N, M]").kernels
    assert dict(few.parameters)["lanes"] >= 64
    assert dict(many.parameters)["lanes"] <= 64
    assert_legal(planned(gradient, "f32[N~500, M~1000]", "f32[N, M]"))


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: np.cumsum(x, 1), "i64[N~32768, M~1024]"),
        (lambda x: np.cumsum(np.where(x > 0, 1, 0), axis=1), "f32[N~32768, M~1024]"),
    ],
)
def test_prefixes_of_long_words_have_one_access_a_lane(function: Callable[..., Any], spec: str) -> None:
    """An H100 takes 261 and 268 us for pieces of two accesses, 183 to 199 and 137 for one."""
    (kernel,) = planned(function, spec).kernels
    assert dict(kernel.parameters)["vector"] == 2
    assert dict(kernel.parameters)["lanes"] <= 256


def test_prefixes_that_something_sums_over_stay_in_one_trip() -> None:
    (kernel,) = planned(lambda x: np.cumsum(x, 1) / x.sum(1, keepdims=True), "f32[N~80000, M~2001]").kernels
    assert not kernel.schedule.of_kind("loop")


def test_millions_of_small_blocks_are_priced() -> None:
    """500,000 matrices of 8 x 8 on both sides: 2778 us on an H100 in four million blocks of 16 threads."""
    plan = planned(lambda a, b, c: b @ a @ c, "f32[500000, 8, 8]", "f32[8, 8]", "f32[8, 8]")
    assert all(kernel.cost.blocks < 1_000_000 for kernel in plan.kernels)


def test_elements_picked_from_rows_are_picked_along_them() -> None:
    """Two of 1001 interpolated at 1500 places of 20000 rows: 246 us on an H100 in blocks of 64 places, 141 in 1024."""
    plan = planned(
        lambda a, b, c: a[:, b] * (1 - c) + a[:, b + 1] * c, "f32[N~20000, M~1001]", "i64[P~1500]", "f32[P]"
    )
    assert all(kernel.strategy == "pointwise" for kernel in plan.kernels)


def test_a_cluster_is_one_block_of_the_grid() -> None:
    """The plan must hold for the call that it is made for."""

    def centred(x):
        return x - x.sum(0) / 3 - x.sum(1, keepdims=True) / 5 + x.sum() / 7

    for shape in ((16384, 4096), (1000, 5000), (131, 300)):
        x = np.empty(shape, np.float32)
        plan = pf.jit(centred).plan(x, target="h100")
        assert hold(plan.guards, plan.program.hints)


@pytest.mark.parametrize("counts", [9, (3, 4), (9, 11)])
def test_an_array_that_is_tiled_many_times_is_read_once(counts: Any) -> None:
    """9 x 11 copies of 1001 x 1003 float32 took an H200 595 us as regions beside each other, in two kernels."""
    tiled, x = pf.jit(lambda x: np.tile(x, counts)), np.zeros((1001, 1003), np.float32)
    (kernel,) = tiled.plan(x, target="h100").kernels
    assert kernel.cost.bytes_read <= x.nbytes * 1.01
    assert tiled.plan(pf.spec("f32[N~1001, M~1003]"), target="h100").kernels  # as regions


@pytest.mark.parametrize("spec", ["f32[B~600, 1000, M~77]", "f32[1000, M~50001]"])
def test_narrow_panels_of_odd_rows_write_parts_of_sectors(spec: str) -> None:
    """Softmax between and of columns took an H200 202 and 180 us in panels of 128 bytes, 163 and 163 in two kernels."""

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-2, keepdims=True))
        return e / e.sum(axis=-2, keepdims=True)

    assert [kernel.strategy for kernel in planned(softmax, spec, target="h200").kernels] == ["columns", "flat"]


def test_wide_panels_of_odd_rows_stay() -> None:
    def standardised(x: Any) -> Any:
        return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-6)

    (kernel,) = planned(standardised, "f32[B~64, 96, M~3249]", target="h200").kernels
    assert kernel.strategy == "panels"
