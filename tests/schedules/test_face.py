"""The same through the public names: ``import polyfuse as pf``."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.testing import assert_equivalent, assert_refused, assert_schedule
from polyfuse.verdict import Hazard


@pf.jit
def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pf.jit
def gate(x: Any, w: Any, b: Any) -> Any:
    return pf.sigmoid(x * w + b)


N = pf.spec("f32[N]")


def test_a_plan_prints_compares_and_explains_itself() -> None:
    spec = pf.spec("f32[N, 4096]")
    loose, fused = softmax.plan(spec, fuse=False), softmax.plan(spec, target="sm_90")
    difference = pf.compare(loose, fused)
    assert difference.launches[1] == 1 and fused.hbm_bytes < loose.hbm_bytes
    assert "predicted" in fused.explain()
    assert softmax.plan(spec) == fused


def test_gated_sigmoid_touches_eight_tensors_then_four() -> None:
    difference = pf.compare(gate.plan(N, N, N, fuse=False), gate.plan(N, N, N))
    assert difference.accesses == (8, 4)
    assert difference.intermediates_removed == 2


def test_a_text_steers() -> None:
    spec = pf.spec("f32[N, 4096]")
    plan = softmax.plan(spec)
    wider = pf.parse_schedule(str(plan).replace("block 256", "block 512"), softmax, spec)
    assert wider.kernels[0].threads == 512
    assert_equivalent(plan, wider, seeds=(0,), sizes=[{"N": 3}])
    assert pf.parse_schedule(str(plan), softmax, [spec]) == plan
    wide = str(plan).replace("vector=4", "vector=16")
    assert_refused(lambda: pf.parse_schedule(wide, softmax, spec), hazard=Hazard.STEERING)


def test_parameters_of_a_text_have_no_other_effect_than_they_had_in_its_plan() -> None:
    along = pf.jit(lambda x, i: np.take_along_axis(x, i, axis=1))
    twice = pf.jit(lambda x, i: x[i, :, i])
    cases = [(along, (7, 35), (7, 3)), (twice, (4, 7, 5), (3,))]  # of rows so short that the block's shape follows them
    for function, shape, chosen in cases:
        arrays = np.ones(shape, np.float32), np.zeros(chosen, np.int64)
        plan = function.plan(*arrays, target="h200")
        assert_schedule(pf.parse_schedule(str(plan), function, *arrays, target="h200"), str(plan))


def test_a_cpu_plan_for_arrays() -> None:
    x = np.ones((10, 64), np.float32)
    plan = softmax.plan(x)
    assert plan.target.name == "cpu"
    assert_schedule(plan, str(plan))
