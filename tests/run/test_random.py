"""Random numbers in compiled programs: the same on every back end, fused with their neighbours, keys at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]


def block(x: Any, key: Any) -> Any:
    return pf.random.dropout(key, np.maximum(x * 2, 0), 0.25) + 1


def test_dropout_is_one_kernel_with_its_neighbours(jit: Jit) -> None:
    x = np.ones((30, 40), np.float32)
    assert len(jit(block).plan(x, pf.random.key(0)).steps) == 1


def test_another_seed_compiles_nothing(jit: Jit) -> None:
    f, x = jit(block), np.ones((30, 40), np.float32)
    for seed in (0, 1, 2**64 - 1):
        wanted = pf.random.dropout(pf.random.key(seed), x * 2, 0.25) + 1
        np.testing.assert_allclose(f(x, pf.random.key(seed)), wanted, rtol=1e-6)
    info = f.cache_info()
    assert (info.traces, info.plans, info.compilations) == (1, 1, 1)


def test_keys_of_integers_inside(jit: Jit) -> None:
    f = jit(lambda x, step: pf.random.bits(pf.random.fold_in(pf.random.key(3), step), x.shape))
    x = np.zeros((3, 5))
    for step in (0, 4):
        np.testing.assert_array_equal(f(x, step), pf.random.bits(pf.random.fold_in(pf.random.key(3), step), (3, 5)))
    assert f.cache_info().compilations == 1


def test_bits_do_not_depend_on_backend_or_schedule(jit: Jit) -> None:
    def draw(x: Any, key: Any) -> Any:
        return pf.random.bits(key, x.shape, np.uint64), pf.random.randint(key, x.shape, -5, 1000)

    x, key = np.zeros((6, 7)), pf.random.key(-9)
    wanted = pf.random.bits(key, (6, 7), np.uint64), pf.random.randint(key, (6, 7), -5, 1000)
    cuda = jit(draw, target="sm_90").plan(x, key)
    for found in (jit(draw)(x, key), jit(draw, fuse=False)(x, key), run_plan(cuda, [x, key.seed])):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_normal_feeds_a_reduction(jit: Jit) -> None:
    f = jit(lambda x, key: (x + pf.random.normal(key, x.shape)).sum(axis=1))
    x, key = np.zeros((9, 300), np.float32), pf.random.key(8)
    np.testing.assert_allclose(f(x, key), pf.random.normal(key, (9, 300)).sum(1), rtol=1e-4, atol=1e-4)
    assert len(f.plan(x, key).steps) == 1
