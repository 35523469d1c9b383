"""Horizontal fusion: independent kernels in one launch, each in blocks of its own."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import target as targets
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import ScheduleError
from polyfuse.face.interpreted import run_plan
from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from polyfuse.kernel import ArrayParameter, ScalarParameter
from polyfuse.testing import assert_equivalent, assert_legal, assert_refused, assert_schedule
from polyfuse.verdict import Hazard, Kind

SHAPES = [(64, 32), (33,), (12, 64), (65,), (10, 12), (1,), (3, 3, 4, 8), (40, 64), (257,), (1000,)]
SHAPES = [*SHAPES, *((s[0] + 3, *s[1:]) for s in SHAPES)]


def adam(ps: Sequence[Any], gs: Sequence[Any], ms: Sequence[Any], vs: Sequence[Any]) -> list[Any]:
    out = []
    for p, g, m, v in zip(ps, gs, ms, vs, strict=True):
        m2 = 0.9 * m + 0.1 * g
        v2 = 0.999 * v + 0.001 * g * g
        out.append((p - 0.001 * m2 / (np.sqrt(v2) + 1e-8), m2, v2))
    return out


def specs(shapes: Sequence[Sequence[int | str]], dtype: str = "f32") -> list[Any]:
    return [pf.spec(f"{dtype}[{', '.join(map(str, shape))}]") for shape in shapes]


def arrays(shapes: Sequence[Sequence[int]], dtype: Any = np.float32, count: int = 4) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    return [[rng.random(shape).astype(dtype) for shape in shapes] for _ in range(count)]


def test_adam_over_twenty_parameters_is_one_launch() -> None:
    function, given = pf.jit(adam), specs(SHAPES)
    plan = function.plan(given, given, given, given, target="h200")
    loose = function.plan(given, given, given, given, target="h200", fuse=False)
    assert len(plan.launches) == 1 and len(plan.kernels) >= 19
    difference = pf.compare(loose, plan)
    assert difference.launches == (240, 1)
    assert difference.predicted[1] == plan.cost_analysis().seconds < plan.target.call + 2 * plan.target.launch
    assert sum(k.seconds for k in plan.kernels) > 19 * plan.target.launch
    assert plan.hbm_bytes.at() == sum(kernel.hbm_bytes.at() for kernel in plan.kernels)
    values = arrays(SHAPES)
    results = run_plan(plan, [a for group in values for a in group])
    wanted = [a for group in adam(*values) for a in group]
    for found, expected in zip(results, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_many_parameters_are_a_few_launches() -> None:
    given = specs([(100 + k,) for k in range(50)])
    plan = pf.jit(lambda ps, gs: [p - 0.1 * g for p, g in zip(ps, gs, strict=True)]).plan(given, given, target="h200")
    sizes = [len(launch.schedules) for launch in plan.launches]
    assert sum(sizes) == 50 and len(sizes) == 2 and max(sizes) <= plan.target.members


TWO = ("f32[N~1000]", "f32[M~300, K~64]")


def two(x: Any, y: Any) -> tuple[Any, Any]:
    a = np.exp(x) * 2
    b = np.abs(y).max(axis=1)
    return a, b


def test_the_text_says_which_kernel_runs_beside_which() -> None:
    plan = pf.jit(two).plan(*map(pf.spec, TWO), target="h200", tiles={"a": {"threads": 256}})
    assert_schedule(plan, '''
        kernel exp_a   pointwise unroll=1 vector=4   grid ceil(N/1024)   block 256
          exp = exp(x)    register
          a   = exp * 2.0   global
        beside absolute_b   rows lanes=8 chunks=8 vector=4   grid ceil(M/32)   block 256
          absolute = absolute(y)                  register
          b        = max(absolute, axis=1)   global, combine warp
    ''')
    assert pf.parse_schedule(str(plan), pf.jit(two), *map(pf.spec, TWO), target="h200") == plan
    apart = pf.parse_schedule(str(plan).replace("beside", "kernel"), pf.jit(two), *map(pf.spec, TWO), target="h200")
    assert apart != plan and pf.compare(apart, plan).launches == (2, 1)
    assert_legal(plan)
    assert_equivalent(apart, plan, sizes=[{"N": 1, "M": 17, "K": 60}, {"N": 2050, "M": 1, "K": 64}])


def test_source_has_one_branch_per_member_and_symbolic_ranges_are_parameters() -> None:
    plan = pf.jit(two).plan(*map(pf.spec, TWO), target="h200", tiles={"a": {"threads": 256}})
    source = plan.source()
    assert "if block(0) < first_1:  # exp_a" in source and "else:  # absolute_b" in source
    assert "b_2 = block(0) - first_1" in source or "b = block(0) - first_1" in source


def test_explain_names_the_launch_and_its_ranges() -> None:
    plan = pf.jit(two).plan(*map(pf.spec, TWO), target="h200", tiles={"a": {"threads": 256}})
    text = plan.explain()
    assert "in 2 kernels in 1 launch" in text
    assert "one launch exp_a_and_1" in text and "absolute_b from block first_1" in text
    verdict = plan.why_not("a", "b")
    assert verdict and "side by side" in verdict.sentence


def test_what_depends_on_each_other_is_refused_with_a_witness() -> None:
    def centred(x: Any) -> Any:
        total = x.sum(axis=0)
        return x - total

    text = '''
        kernel first columns
          total   global
        beside second pointwise threads=512
          subtract   global
    '''
    given = pf.spec("f32[N~100000, 128]")
    verdict = assert_refused(
        lambda: pf.parse_schedule(text, pf.jit(centred), given, target="h200"), hazard=Hazard.RAW, says="same launch"
    )
    assert verdict.rule == "independent" and str(verdict.witness) == "total[0] -> subtract[0, 0] at N = 1"


def test_nothing_to_run_beside_is_an_error_with_its_line() -> None:
    with pytest.raises(ScheduleError, match="line 1: no kernel stands above"):
        pf.parse_schedule("beside a pointwise\n  a   global", pf.jit(two), *map(pf.spec, TWO), target="h200")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"apart": ("a", "b")}, "keeps these values apart"),
        ({"max_fusion_size": 3}, "max_fusion_size is 3"),
        ({"tiles": {"a": {"threads": 512}, "b": {"threads": 128}}}, "blocks of 512 threads"),
    ],
)
def test_wishes_keep_kernels_in_launches_of_their_own(options: dict[str, Any], says: str) -> None:
    options = {"tiles": {"a": {"threads": 256}}, **options}
    plan = pf.jit(two).plan(*map(pf.spec, TWO), target="h200", **options)
    assert len(plan.launches) == 2
    assert any(says in verdict.sentence for *_, verdict in plan.refusals), plan.refusals
    assert says in plan.explain()


@pytest.mark.parametrize("fuse", [False, "pointwise"])
def test_only_full_fusion_packs(fuse: Any) -> None:
    given = specs([(100,), (37,)])
    plan = pf.jit(lambda ps: [np.exp(p) for p in ps]).plan(given, target="h200", fuse=fuse)
    assert len(plan.launches) == 2


def test_kernels_that_wait_for_each_other_through_a_third_do_not_meet() -> None:
    def chain(x: Any, y: Any) -> Any:
        a = x.sum(axis=0)
        b = np.cumsum(a)[::-1] @ y
        return b, np.exp(y)

    plan = pf.jit(chain).plan(pf.spec("f32[4096, 512]"), pf.spec("f32[512, 300]"), target="h200", library=False)
    stored: set[int] = set()
    for launch in plan.launches:
        computed = {r for later in plan.launches for r in later.roots}
        assert {v for v in launch.loads if v in computed} <= stored, str(plan)
        stored |= set(launch.roots)


def test_elections_of_members_have_counters_of_their_own() -> None:
    function = pf.jit(lambda x, y, z: ((x * x).sum(), y.sum(), np.exp(z)))
    given = [pf.spec("f32[N~300000]"), pf.spec("f32[M~200000]"), pf.spec("f32[K~50]")]
    plan = function.plan(*given, target="h200", tiles={"exp": {"threads": 256}})
    assert [len(launch.schedules) for launch in plan.launches] == [3]
    counters = [b for b in plan.buffers if b.zeroed]
    assert len(counters) == 2 and len({b.name for b in counters}) == 2
    loose = function.plan(*given, target="h200", fuse=False)
    assert_equivalent(loose, plan, seeds=(0, 1, 2), sizes=[{"N": 9000, "M": 4100, "K": 5}])


@pytest.mark.parametrize("dtype", ["f16", "f64", "i32", "bf16"])
def test_dtypes_and_empty_members(dtype: str) -> None:
    function = pf.jit(lambda ps, gs: [p + g * 2 for p, g in zip(ps, gs, strict=True)])
    shapes = [(7, 5), (0, 3), (1,), (300,), (0,)]
    plan = function.plan(specs(shapes, dtype), specs(shapes, dtype), target="h200")
    assert len(plan.launches) == 1
    values = arrays(shapes, plan.program.arguments[0].dtype.numpy, 2)
    results = run_plan(plan, [a for group in values for a in group])
    for found, p, g in zip(results, *values, strict=True):
        np.testing.assert_allclose(found.astype(float), (p + g * 2).astype(float), rtol=1e-2)


def test_a_member_of_symbolic_size_may_be_empty() -> None:
    function = pf.jit(lambda x, y: (np.exp(x) * 2, np.abs(y) + 1))
    plan = function.plan(pf.spec("f32[N~1000]"), pf.spec("f32[M~300]"), target="h200")
    assert len(plan.launches) == 1
    x, y = np.ones(0, np.float32), np.arange(-5, 5, dtype=np.float32)
    results = run_plan(plan, [x, y])
    np.testing.assert_array_equal(results[1], np.abs(y) + 1)


def test_donated_arguments_are_overwritten_by_their_own_member_only() -> None:
    def step(ps: Any, gs: Any) -> Any:
        return [p - 0.5 * g for p, g in zip(ps, gs, strict=True)]

    shapes = [(4000,), (70, 64), (1029,)]
    plan = pf.jit(step, donate="ps").plan(specs(shapes), specs(shapes), target="h200")
    assert len(plan.launches) == 1 and len(plan.reuses) == 3
    assert_legal(plan)
    overwritten = [p.name for p in plan.launches[0].kernel.parameters if getattr(p, "overwritten", False)]
    assert len(overwritten) == 3
    values = arrays(shapes, count=2)
    wanted = step(*values)
    for found, expected in zip(run_plan(plan, [a for group in values for a in group]), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_argument_that_another_member_reads_is_not_overwritten() -> None:
    def step(p: Any, q: Any) -> Any:
        return p * 2, np.abs(q).sum(), p[:7] + 1

    plan = pf.jit(step, donate="p").plan(pf.spec("f32[1000]"), pf.spec("f32[100]"), target="h200")
    p, q = np.arange(1000, dtype=np.float32), np.ones(100, np.float32)
    wanted = step(p.copy(), q)
    for found, expected in zip(run_plan(plan, [p, q]), wanted, strict=True):
        np.testing.assert_allclose(found, expected)


def test_cpu_launches_stay_apart_by_the_target_and_run_side_by_side_on_demand(monkeypatch: Any) -> None:
    function = pf.jit(two)
    plain = function.plan(*map(pf.spec, TWO), target="cpu")
    assert len(plain.launches) == 2
    monkeypatch.setitem(targets.BUILT_IN, "cpu", replace(targets.CPU, members=8))
    values = np.linspace(-1, 1, 1003, dtype=np.float32), np.arange(-60, 60, dtype=np.float32).reshape(12, 10)
    packed = pf.jit(two, target="cpu")
    assert len(packed.plan(*values).launches) == 1
    for found, expected in zip(packed(*values), two(*values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_large_kernels_share_a_launch_only_where_registers_allow() -> None:
    cost = pf.jit(two).plan(*map(pf.spec, TWO), target="h200").kernels[0].cost
    from polyfuse.cost.members import price_together

    heavy = replace(cost, registers=250, occupancy=1, blocks=100_000, seconds=1e-3, bytes_read=1)
    light = replace(cost, registers=32, occupancy=8, blocks=100_000, seconds=1e-3, bytes_read=1)
    together = price_together([heavy, light], 256, targets.H200)
    assert together.registers == 250 and together.seconds > heavy.seconds + light.seconds
    small = replace(light, blocks=10, seconds=9e-6, bytes_written=1, flops=1)
    assert price_together([small] * 8, 256, targets.H200).seconds < 10e-6


def test_the_order_of_statements_changes_nothing() -> None:
    def swapped(x: Any, y: Any) -> tuple[Any, Any]:
        b = np.abs(y).max(axis=1)
        a = np.exp(x) * 2
        return a, b

    options = {"target": "h200", "tiles": {"a": {"threads": 256}}}
    assert pf.jit(two).plan(*map(pf.spec, TWO), **options) == pf.jit(swapped).plan(*map(pf.spec, TWO), **options)


def test_unprofitable_is_a_reason_with_its_kind() -> None:
    given = specs([(100 + k,) for k in range(40)])
    plan = pf.jit(lambda ps: [np.exp(p) for p in ps]).plan(given, target="h200")
    reasons = [v for *_, v in plan.refusals if "members at most" in v.sentence]
    assert reasons and all(v.kind is Kind.UNPROFITABLE for v in reasons)


@pytest.mark.ptx
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_members_compile_to_one_entry(capability: tuple[int, int]) -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    function = pf.jit(lambda x, y, z: ((x * x).sum(), np.abs(y).max(axis=1), np.exp(z)))
    plan = function.plan(
        pf.spec("f32[N~300000]"), pf.spec("f32[M~300, K~64]"), pf.spec("f32[A~77, B~40]"), target="h200"
    )
    (kernel,) = [launch.kernel for launch in plan.launches]
    assert len(kernel.members) == 3
    made = compile_kernel(
        print_kernel(kernel), kernel.name, kernel.parameters, kernel.threads, capability, kernel.minimum_blocks
    )
    assert made.ptx.count(".visible .entry") == 1 and ".local" not in made.ptx


def test_a_launch_of_several_kernels_is_exported(tmp_path: Any, monkeypatch: Any) -> None:
    text = str(pf.jit(two).plan(*map(pf.spec, TWO), target="cpu")).replace("\n\nkernel", "\nbeside")
    plan = pf.parse_schedule(text, pf.jit(two), *map(pf.spec, TWO), target="cpu")
    assert len(plan.launches) == 1
    plan.export(tmp_path / "exported_side_by_side.py")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("exported_side_by_side")
    x, y = np.linspace(-1, 1, 1003, dtype=np.float32), np.arange(-960, 960, dtype=np.float32).reshape(30, 64)
    for found, expected in zip(module.two(x, y), two(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_no_body_can_compute_is_kept_together_in_a_launch() -> None:
    def far(x: Any, y: Any) -> tuple[Any, Any]:
        a = np.cumsum(x, axis=1)
        b = np.exp(y) * 2
        return a, b

    given = [pf.spec("f32[N~500, K~600]"), pf.spec("f32[M~30000000]")]
    plan = pf.jit(far).plan(*given, target="h200", together=("a", "b"))
    assert len(plan.launches) == 1 and plan.why_not("a", "b")


def test_sums_of_different_arrays_are_not_one_body_over_the_product_of_their_spaces() -> None:
    given = specs([(1000 + 700 * k,) for k in range(12)])
    plan = pf.jit(lambda xs: [(x * x).sum() for x in xs]).plan(given, target="h200")
    assert len(plan.launches) == 1 and len(plan.kernels) == 12
    assert all(len(kernel.loads) == 1 for kernel in plan.kernels)


def test_members_share_scalars_and_take_strided_and_misaligned_arrays() -> None:
    def step(ps: Any, gs: Any, rate: float) -> Any:
        return [p - rate * g for p, g in zip(ps, gs, strict=True)]

    function = pf.jit(step, backend="interpreter", target="h200")
    wide, long = np.arange(60 * 40, dtype=np.float32).reshape(60, 40), np.arange(1001, dtype=np.float32)
    ps = [wide[::2, ::-1], long[1:], wide.T, long[::3]]
    gs = [np.ones_like(p) for p in ps]
    plan = function.plan(ps, gs, 0.25)
    assert len(plan.launches) == 1
    scalars = [p for p in plan.launches[0].kernel.parameters if isinstance(p, ScalarParameter)]
    assert len(scalars) == 1
    for found, expected in zip(function(ps, gs, 0.25), step(ps, gs, 0.25), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_each_member_reports_its_own_data_indices() -> None:
    def picked(x: Any, i: Any, y: Any, j: Any) -> tuple[Any, Any]:
        a = x[i] * 2
        b = y[j] + 1
        return a, b

    function = pf.jit(picked, backend="interpreter", target="h200")
    x, i, y, j = np.ones(50, np.float32), np.arange(30), np.ones((7, 9), np.float32), np.arange(5)
    plan = function.plan(x, i, y, j)
    assert len(plan.launches) == 1 and len(plan.sites) == 2
    for found, expected in zip(function(x, i, y, j), picked(x, i, y, j), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(IndexError, match="an index into y"):
        function(x, i, y, j + 4)
    with pytest.raises(IndexError, match="an index into x"):
        function(x, i + 40, y, j)


def test_an_input_that_members_share_is_one_parameter() -> None:
    plan = pf.jit(lambda x, y: (np.exp(x) + y[:, None], x.sum(), np.sqrt(y))).plan(
        pf.spec("f32[64, 48]"), pf.spec("f32[64]"), target="h200"
    )
    for launch in plan.launches:
        bound = [
            (b, p.shape)
            for p, b in zip(launch.kernel.parameters, launch.bindings, strict=True)
            if isinstance(p, ArrayParameter) and p.readonly
        ]
        assert len(bound) == len(set(bound))


KINDS: list[Any] = [
    lambda x: np.exp(x) * 2,
    lambda x: np.abs(x).max(axis=1),
    lambda x: (x * x).sum(axis=0),
    lambda x: x.sum(),
    lambda x: np.cumsum(x, axis=1),
    lambda x: x.T * 2 + 1,
    lambda x: x - x.mean(axis=1, keepdims=True),
    lambda x: x[1:-1] + x[2:] - x[:-2],
    lambda x: np.argmax(x, axis=1),
]


@pytest.mark.parametrize("seed", range(6))
def test_random_members_compute_what_numpy_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds = random.choice(len(KINDS), 5)
    shapes = [(int(random.integers(3, 90)), int(random.integers(2, 300))) for _ in kinds]

    def all_of(xs: Any) -> Any:
        return [KINDS[k](x) for k, x in zip(kinds, xs, strict=True)]

    function = pf.jit(all_of, backend="interpreter", target="h200")
    xs = [random.standard_normal(shape, dtype=np.float32) for shape in shapes]
    plan = function.plan(xs)
    assert len(plan.launches) < len(plan.kernels), str(plan)
    assert_legal(plan)
    for found, expected in zip(function(xs), all_of(xs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    printed = pf.parse_schedule(str(plan), function, [xs])
    assert str(printed) == str(plan)


def test_a_list_of_many_parameters_is_traced_to_its_end() -> None:
    """Each pair of sizes found equal is one more attempt: lists of a network's length need hundreds."""
    lists = [[np.ones(5 + k, np.float32) for k in range(68)] for _ in range(4)]
    traced = trace(lambda *of: [p * g + m - v for p, g, m, v in zip(*of, strict=True)], specs_of_arrays(lists))
    assert len(traced.program.symbols) == 68


def test_what_a_list_of_many_arrays_says_of_sizes_is_asked_of_none_but_their_kernels() -> None:
    """Facts about the sizes of all arrays, in every question about one, took it over isl's budget: no schedule at all
    was proved."""
    given = [np.ones((5 + k, 100 + k), np.float32) for k in range(60)]
    plan = pf.jit(lambda xs: [(x * x).sum() for x in xs], target="h200").lower(given).plan
    assert len(plan.program.symbols) == 120
    assert " serial " not in str(plan)
