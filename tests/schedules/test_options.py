"""Every option does what it says, or is refused: none is ignored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError, DeviceError, OptionError
from polyfuse.kernel import Kernel
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning import assembly


def softmax(x):
    m = x.max(axis=1, keepdims=True)
    d = x - m
    e = np.exp(d)
    s = e.sum(axis=1, keepdims=True)
    y = e / s
    return y


def product(x, w):
    y = x @ w
    return y


def chain(x):
    a = x * 3
    b = a + 1
    y = b / 7
    return y


def plan_of(*specs: str, function: Callable[..., Any] = softmax, **options: Any) -> Plan:
    target = options.pop("target", "h200")
    return pf.jit(function).plan(*map(pf.spec, specs), target=target, **options)


def rows(**options: Any) -> Plan:
    return plan_of("f32[4096, 4096]", **options)


def test_fuse() -> None:
    assert [len(rows(fuse=how).kernels) for how in (False, "pointwise", True)] == [5, 4, 1]


def test_target() -> None:
    assert rows(target="sm_80").target.capability == (8, 0) and rows(target="cpu").target.kind == "cpu"
    with pytest.raises(OptionError, match="sm_42"):
        rows(target="sm_42")


def test_backend() -> None:
    x = np.ones((2, 3), np.float32)
    with pytest.raises(OptionError, match="cannot run plans for target cpu"):
        pf.jit(softmax, backend="numba_cuda", target="cpu")(x)
    with pytest.raises((ArgumentError, DeviceError), match="needs arrays on a cuda device|back end is not installed"):
        pf.jit(softmax, backend="numba_cuda", target="h200")(x)
    with pytest.raises(OptionError, match="fortran"):
        pf.jit(softmax, backend="fortran")(x)


def test_fastmath(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(fastmath=True).options.fastmath  # what the compiler does with it: tests/backends
    with pytest.raises(OptionError, match="fastmath=True is not supported on target cpu"):
        rows(fastmath=True, target="cpu")
    with pytest.raises(OptionError, match="fastmath='very'"):
        pf.jit(softmax, fastmath="very")


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_contract(target: str) -> None:
    sources = [
        plan_of("f32[512, 512]", "f32[512, 512]", function=product, target=target, contract=contract).source()
        for contract in (True, False)
    ]
    assert ["contract(" in source for source in sources] == [True, False]


def test_without_contraction_products_are_rounded() -> None:
    """-1 + (1 + e) (1 - e) is -e*e exactly, and 0 with a rounded product."""
    e = 2.0**-13
    x = np.tile(np.array([[1.0, 1 + e]], np.float32), (64, 64))
    w = np.tile(np.array([[-1.0], [1 - e]], np.float32), (64, 64))
    rounded = pf.jit(product, contract=False)(x, w)
    assert np.array_equal(rounded, np.zeros((64, 64), np.float32))
    assert not np.array_equal(pf.jit(product)(x, w), rounded)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("backend", [{}, {"backend": "interpreter", "target": "h200"}])
def test_round(dtype: Any, backend: dict[str, Any]) -> None:
    """As NumPy, which stores every intermediate: the bits of the program without fusion."""
    x = np.random.default_rng(0).standard_normal((5, 40)).astype(dtype)
    results = {how: pf.jit(chain, round=how, **backend)(x) for how in ("store", "every-op")}
    assert np.array_equal(results["every-op"], chain(x)) and not np.array_equal(results["store"], chain(x))
    every, loose = (pf.jit(both, **how, **backend) for how in ({"round": "every-op"}, {"fuse": False}))
    for fused, unfused in zip(every(x), loose(x), strict=True):
        assert fused.tobytes() == unfused.tobytes()


def both(x):
    y = softmax(x)
    return y, np.cumsum(y * 3, axis=1), (x * y).sum(axis=0), 1 / (1 + np.exp(-x))


def test_donate() -> None:
    assert rows(donate="x").reuses and not rows().reuses
    with pytest.raises(OptionError, match="donate='q' is no parameter"):
        pf.jit(softmax, donate="q")


def test_static() -> None:
    def power(x, n):
        return x**n

    x = np.arange(3.0, dtype=np.float32)
    f = pf.jit(power, static=("n",))
    assert np.array_equal(f(x, 2), x**2) and np.array_equal(f(x, 3), x**3) and f.cache_info().traces == 2


def test_steering() -> None:
    assert len(rows(apart=("m", "s")).kernels) > 1
    assert len(plan_of("f32[4096, 4096]", together=("m", "y")).kernels) == 1
    assert len(rows(max_fusion_size=2).kernels) > 1
    assert "block 512" in str(rows(tiles={"m": {"threads": 512}}))
    assert rows(strategies={"m": "rows"}).kernels[0].strategy == "rows"
    assert max(k.registers for k in rows(max_registers=40).kernels) <= 40 < max(k.registers for k in rows().kernels)
    for wrong in (-1, 1.5, "many"):
        with pytest.raises(OptionError, match="max_registers"):
            pf.jit(softmax, max_registers=wrong)


def test_bounds() -> None:
    sources = {how: plan_of("f32[N]", "i64[K]", function=lambda x, i: x[i], bounds=how).source() for how in BOUNDS}
    assert ["index_fault" in sources[how] for how in BOUNDS] == [True, False, False]
    assert ["minimum(" in sources[how] for how in BOUNDS] == [True, True, False]
    with pytest.raises(OptionError, match="bounds='wrap'"):
        pf.jit(softmax, bounds="wrap")


BOUNDS = ("raise", "clip", "assume")


def test_batch_invariant() -> None:
    """Few long rows are not shared by blocks, and nothing is contracted (tests/run/test_batch_invariance.py)."""
    usual, alike = (
        plan_of("f32[2, 10000000]", function=lambda x: x.sum(axis=1), batch_invariant=how) for how in (False, True)
    )
    assert ["share" in dict(p.launches[0].schedule.parameters) for p in (usual, alike)] == [True, False]
    assert usual.options.contract and not alike.options.contract
    with pytest.raises(OptionError, match="batch_invariant='rows'"):
        pf.jit(softmax, batch_invariant="rows")


def test_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Kernel] = []
    monkeypatch.setattr(assembly, "verify_kernel", seen.append)
    rows()
    assert not seen
    assert rows(verify=True).launches[0].kernel in seen


def test_verify_knows_what_masked_loads_of_booleans_give() -> None:
    assert plan_of("bool[M, N]", function=lambda x: (~x, x.sum(axis=0)), verify=True).options.verify


def test_atomics() -> None:
    """A permission (tests/schedules/test_atomics.py)."""
    assert rows(atomics=True).options.atomics and not rows().options.atomics
    with pytest.raises(OptionError, match="atomics='yes'"):
        pf.jit(softmax, atomics="yes")


@pytest.mark.parametrize("name", ["max_registers", "max_fusion_size"])
@pytest.mark.parametrize("value", [True, -1, 2.0, "4"])
def test_limits_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"{name}="):
        pf.jit(softmax, **{name: value})


def test_every_option_has_a_test_here() -> None:
    steered = {"together", "apart", "max_fusion_size", "max_registers", "tiles", "strategies"}
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    elsewhere = {"autotune", "library", "planning_seconds"}  # test_tuning.py, test_contractions.py, test_bounded.py
    assert {f.name for f in fields(Options)} <= tested | steered | elsewhere


@pytest.mark.parametrize(
    "options",
    [
        {"target": "h300"},
        {"target": True},
        {"planning_seconds": 10**400},
        {"planning_seconds": float("nan")},
        {"strategies": {"m": ""}},
        {"tiles": {"m": {"threads": True}}},
        {"donate": True},
        {"batch_invariant": True, "fastmath": True},
        {"batch_invariant": True, "atomics": True},
    ],
)
def test_what_no_call_can_follow_is_refused_by_the_decorator(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="target|planning_seconds|strategies|tiles|donate|exclude each other"):
        pf.jit(softmax, **options)


def test_numbers_of_numpy_are_numbers() -> None:
    whole = np.int64(64)
    kept = Options().updated({"max_registers": whole, "donate": np.int64(0), "tiles": {"m": {"threads": whole}}})
    assert kept == Options(max_registers=64, donate=(0,), tiles=(("m", (("threads", 64),)),))
    assert all(type(n) is int for n in (kept.max_registers, *kept.donate, kept.tiles[0][1][0][1]))
    assert Options().updated({"planning_seconds": np.float32(2)}).planning_seconds == 2.0
