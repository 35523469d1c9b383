"""Kernels that store over what they read: no read-only cache holds any of it, and the disk cache keeps their plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cache.store import DiskStore
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.planner import plan_program
from polyfuse.planning.sharing import in_place
from polyfuse.run.dispatch import CacheInfo, Jitted
from polyfuse.run.services import Services


def scaled(x, w):
    return x * w + 1


def normalised(x):
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True) + 1)


def loads_of(plan: Plan) -> list[tuple[int, int]]:
    """Per kernel: loads through the read-only cache, and other loads of global memory."""
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.codegen.names import function_name
    from polyfuse.codegen.printer import print_kernel

    found = []
    for launch in plan.launches:
        k = launch.kernel
        ptx = compile_kernel(
            print_kernel(k), function_name(k.name), k.parameters, k.threads, (9, 0), index_bits=k.index_bits
        ).ptx
        constant = len(re.findall(r"ld\.global\.nc", ptx))
        found.append((constant, len(re.findall(r"ld\.global", ptx)) - constant))
    return found


def plan_of(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


@pytest.mark.ptx
def test_what_a_kernel_writes_is_not_read_through_the_read_only_cache() -> None:
    specs = "f32[4096, 1024]", "f32[4096, 1024]"
    ((constant, other),) = loads_of(plan_of(scaled, *specs))
    assert constant > 0 and other == 0
    over_x = in_place(plan_of(scaled, *specs), ((0, 0),))
    assert over_x.reuses == ((0, 0),)
    assert loads_of(over_x) == [(constant // 2, constant // 2)]  # of w, and of x
    assert loads_of(plan_of(scaled, *specs, donate="x")) == [(constant // 2, constant // 2)]
    ((constant, other),) = loads_of(in_place(plan_of(normalised, specs[0]), ((0, 0),)))
    assert constant == 0 and other > 0


@pytest.mark.ptx
def test_an_intermediate_over_an_earlier_one_is_not_read_through_the_read_only_cache() -> None:
    def chain(x):
        a = np.exp(x)
        b = a + 1
        c = b * b
        return c - x

    plan = plan_of(chain, "f32[1048576]", fuse=False)
    over = [any(getattr(p, "overwritten", False) for p in launch.kernel.parameters) for launch in plan.launches]
    assert over == [False, True, True, False]
    assert [other > 0 for _, other in loads_of(plan)] == over


def process(path: Path, x: np.ndarray[Any, Any], out: np.ndarray[Any, Any] | None, **options: Any) -> CacheInfo:
    """What a fresh process would do with the store at `path`."""
    services = Services(NumPyFrontend(), plan_program, backend, target_of, DiskStore(path))
    f = Jitted(normalised, Options().updated(options), services)
    expected = normalised(x)
    np.testing.assert_allclose(f(x) if out is None else f(x, out=out), expected, rtol=1e-6)
    return f.cache_info()


def test_the_disk_cache_keeps_variants_in_place(tmp_path: Path) -> None:
    """Each has an entry of its own: the one that writes over x must never serve a call that does not."""
    rng = np.random.default_rng(0)

    def fresh() -> np.ndarray[Any, Any]:
        return rng.standard_normal((40, 64)).astype(np.float32)

    first = fresh()
    cold = process(tmp_path, first, first)
    assert (cold.plans, cold.loads) == (1, 0)
    again = fresh()
    warm = process(tmp_path, again, again)
    assert (warm.plans, warm.compilations, warm.loads) == (0, 0, 2)
    x = fresh()
    kept = x.copy()
    apart = process(tmp_path, x, np.empty_like(x))
    assert (apart.plans, apart.loads) == (0, 1) and np.array_equal(x, kept)
    donated = [process(tmp_path, fresh(), None, donate="x") for _ in range(2)]
    assert [(info.plans, info.loads) for info in donated] == [(1, 0), (0, 1)]
