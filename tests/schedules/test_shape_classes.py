"""Many shapes, few kernels: one compiled kernel serves a class of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.testing import assert_equivalent
from tests.run.conftest import Jit
from tests.schedules.spellings import layernorm, softmax
from tests.schedules.strategies import assert_close, expected

H200: dict[str, Any] = {"backend": "interpreter", "target": "h200"}
CPU: dict[str, Any] = {"backend": "numba_cpu"}


def shapes(count: int, seed: int) -> list[tuple[int, int]]:
    """Rows by the dozen, as many lengths below 100 as between 1,000 and 10,000."""
    random = np.random.default_rng(seed)
    lengths = np.exp(random.uniform(np.log(2), np.log(20_000), count))
    return [(int(random.integers(2, 12)), int(n)) for n in lengths]


@pytest.mark.parametrize("options", [H200, CPU], ids=["h200", "cpu"])
def test_a_hundred_shapes_of_a_softmax_compile_at_most_nine_kernels(jit: Jit, options: dict[str, Any]) -> None:
    function = jit(softmax, **options)
    random = np.random.default_rng(7)
    for k, shape in enumerate(shapes(100, seed=1)):
        x = random.standard_normal(shape, dtype=np.float32)
        got = function(x)
        if k % 10 == 0:
            assert_close(got, expected(softmax, [x]), "float32")
    info = function.cache_info()
    assert info.misses == 100
    assert info.compilations <= 9
    assert info.traces == 1


def test_sizes_of_one_class_neither_plan_nor_compile_again(jit: Jit) -> None:
    function = jit(layernorm, **H200)
    for n in (1028, 2048, 3000, 4096):
        function(np.ones((5, n), np.float32), np.ones(n, np.float32), np.ones(n, np.float32))
    info = function.cache_info()
    assert (info.traces, info.plans, info.compilations) == (1, 1, 1)


def test_plans_that_run_the_same_kernel_compile_it_once(jit: Jit) -> None:
    """Rows beyond 64 are another class for the price; the kernel turns out the same."""
    function = jit(softmax, **H200)
    for rows in (50, 500):
        function(np.ones((rows, 256), np.float32))
    info = function.cache_info()
    assert info.plans == 2
    assert info.compilations == 1


def test_random_lists_of_parameters_do_not_mean_a_compilation_each(jit: Jit) -> None:
    """Classes of sizes multiply with every parameter; beyond a few dozen the plan for the most similar sizes runs."""

    def step(ps: list[Any], gs: list[Any]) -> list[Any]:
        return [p - 0.5 * g for p, g in zip(ps, gs, strict=True)]

    function, random = jit(step, **H200), np.random.default_rng(0)
    for _ in range(60):
        lengths = np.exp(random.uniform(1, 9, 7)).astype(int)
        ps = [np.ones(n, np.float32) for n in lengths]
        assert all((out == 0.5).all() for out in function(ps, ps))
    info = function.cache_info()
    assert info.traces == 1 and info.misses == 60
    assert info.plans == info.compilations == 24


def test_regular_rows_are_padded_little() -> None:
    """Rows of a multiple of 128 elements: at most half as many again as they have, beyond 512."""
    for n in (640, 768, 1024, 1536, 2048, 3072, 5120, 8192, 10240, 12288, 16384):
        (kernel,) = pf.jit(softmax).plan(pf.spec(f"f32[N~4096, M~{n}]"), target="h200").kernels
        tile = dict(kernel.parameters)
        held = tile["lanes"] * tile["chunks"] * tile["vector"]
        assert n <= held < 1.7 * n, (n, tile)


def held_of(spec: str, n: int) -> tuple[dict[str, int], int]:
    """The parameters of the softmax of 64 million elements in rows of `n`, and elements that a row's lanes hold."""
    (kernel,) = pf.jit(softmax).plan(pf.spec(f"{spec}[N~{(64 << 20) // n}, M~{n}]"), target="h200").kernels
    assert not kernel.schedule.of_kind("loop"), (n, kernel.parameters)
    tile = dict(kernel.parameters)
    return tile, tile["threads" if kernel.strategy == "held_rows" else "lanes"] * tile["vector"] * (
        tile["chunks"] + tile.get("shared", 0)
    )


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_rows_of_any_length_are_padded_little_where_there_is_much_to_do(dtype: str) -> None:
    """A third at most is padding, a fifth beyond 1,024 elements: softmax of rows of 66 float32 took 582 us on an H200
    where half of a class was, 139 now; of 1100 281 and 128."""
    for n in (10, 37, 50, 66, 101, 130, 200, 300, 301, 515, 1030, 1100, 1540, 1555, 2050, 2051, 3001, 3400, 5002):
        tile, held = held_of(dtype, n)
        places = n + tile["vector"] if "frames" in tile else n  # which begin anywhere in a vector
        assert n <= held <= (places * 5 / 4 if n > 1024 else places * 3 / 2), (n, tile)
    for n in (5004, 6324, 10004, 15996):  # whole vectors
        tile, held = held_of("f32", n)
        assert n <= held <= n * 5 / 4, (n, tile)


@pytest.mark.parametrize(("dtype", "n", "vector"), [("f32", 50, 2), ("f32", 51, 1), ("f16", 2052, 4), ("f16", 2054, 2)])
def test_rows_have_the_widest_accesses_that_divide_them_where_there_is_much_to_do(dtype, n, vector) -> None:
    assert held_of(dtype, n)[0]["vector"] == vector


def test_classes_of_busy_rows_are_a_few_dozen() -> None:
    """Each is compiled when it is first met: two to four to every power of two, by how many elements an access has.  A
    function has 24 plans at most, and then runs the most similar one."""
    random = np.random.default_rng(3)
    lengths = np.exp(random.uniform(np.log(8), np.log(4096), 150)).astype(int)
    kernels = {tuple(sorted(held_of("f32", int(n))[0].items())) for n in lengths}
    assert 12 <= len(kernels) <= 60


@pytest.mark.parametrize("n", [3, 5, 10, 37, 66, 301, 1100, 2050])
def test_rows_of_their_own_classes_are_right_at_their_ends(n: int) -> None:
    loose, plan = (
        pf.jit(softmax).plan(pf.spec(f"f32[N~{(64 << 20) // n}, M~{n}]"), target="h200", fuse=fuse)
        for fuse in (False, True)
    )
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": 67, "M": n}])


@pytest.mark.parametrize(
    ("spec", "lanes", "held"),
    [
        ("f32[N~65536, M~1003]", 32, 1024),  # words: 304 us in a loop on an H200, 132 so
        ("f16[N~20001, M~2047]", 64, 2560),  # with its shift it has 2054 places
        ("bf16[N~20001, M~4093]", 128, 5120),
        ("bf16[N~16384, M~5120]", 128, 5120),  # whole vectors: 101 us in 256 lanes with padding, 86 so
        ("bf16[N~32768, M~2560]", 64, 2560),
    ],
)
def test_many_rows_are_held_with_little_padding(spec: str, lanes: int, held: int) -> None:
    loose, plan = (pf.jit(softmax).plan(pf.spec(spec), target="h200", fuse=fuse) for fuse in (False, True))
    (kernel,) = plan.kernels
    tile = dict(kernel.parameters)
    assert (tile["lanes"], tile["lanes"] * tile["chunks"] * tile["vector"]) == (lanes, held)
    assert not kernel.schedule.of_kind("loop")
    letters = {"N": 5, "M": int(spec.split("~")[2].rstrip("]"))}
    assert_equivalent(loose, plan, seeds=(0,), sizes=[letters])


def test_few_rows_of_words_share_a_loop() -> None:
    """They leave the device idle in any case; a kernel for each class of lengths would not pay."""
    plans = [pf.jit(softmax).plan(pf.spec(f"f32[N~8, M~{n}]"), target="h200") for n in (1003, 4093)]
    assert all(plan.kernels[0].schedule.of_kind("loop") for plan in plans)


def test_rows_of_half_the_lanes_have_a_kernel_of_their_own() -> None:
    """20 million rows of 5 bfloat16 of a table take an H100 1407 us in the lanes of rows of 31, 757 in a kernel of
    their own."""
    for function, specs in (
        (lambda x, i: x[i] * 2, ("bf16[N~3000000, M~31]", "i64[K~3000000]")),
        (lambda x, y: x * y[:, :1], ("f32[N~3000000, M~37]", "f32[N, M]")),
    ):
        plan = pf.jit(function).plan(*map(pf.spec, specs), target="h100")
        lanes = 16 if "M~31" in specs[0] else 32
        sizes = {"N": 3_000_000, "K": 3_000_000}
        assert all(g.holds({**sizes, "M": lanes + 1}) for g in plan.guards if "mod" not in str(g))
        assert not all(g.holds({**sizes, "M": lanes}) for g in plan.guards if "mod" not in str(g))


def windows(x):
    """Least of the greatest of 3 x 3."""
    rows = np.maximum(np.maximum(x[:-2], x[1:-1]), x[2:])
    columns = np.maximum(np.maximum(rows[:, :-2], rows[:, 1:-1]), rows[:, 2:])
    return np.minimum(np.minimum(columns[:-2], columns[1:-1]), columns[2:])


def columns(x):
    return np.sum(x, axis=0)


@pytest.mark.parametrize("function", [windows, columns])
@pytest.mark.parametrize(("n", "other"), [(64, 8), (32, 8), (8, 64), (16, 64)])
def test_rows_that_would_leave_half_of_the_lanes_idle_are_another_class(function, n: int, other: int) -> None:
    """A plan that another shape left on the disk is no worse than one of its own."""
    plan = pf.jit(function).plan(pf.spec(f"f32[N~{52_428_800 // n}, M~{n}]"), target="h200")
    assert plan.kernels[0].strategy == function.__name__
    guards = [g for g in plan.guards if "N" not in str(g) and "mod" not in str(g)]  # of lengths alone
    assert all(g.holds({"M": n}) for g in guards)
    assert not all(g.holds({"M": other}) for g in guards)
