"""Schedules are values: this is how a test pins what was fused, and counts what fusing saves."""

import numpy as np

import polyfuse as pf
from polyfuse.testing import assert_equivalent, assert_legal, assert_schedule


@pf.jit
def softmax(x):
    m = x.max(axis=-1, keepdims=True)
    e = np.exp(x - m)
    s = e.sum(axis=-1, keepdims=True)
    y = e / s
    return y


@pf.jit
def respelled(rows):
    shifted = rows - np.max(rows, axis=1)[:, None]
    powers = np.exp(shifted)
    result = powers / np.sum(powers, 1)[:, None]
    return result


def test_softmax_is_one_kernel():
    plan = softmax.plan(pf.spec("f32[N~65536, 4096]"), target="h200")
    print(plan)
    assert len(plan.kernels) == 1
    assert_legal(plan)
    assert_schedule(plan, str(plan))


def test_spelling_does_not_matter():
    spec = pf.spec("f32[N, 4096]")
    assert softmax.plan(spec, target="h200") == respelled.plan(spec, target="h200")


def test_fusing_saves_traffic_and_changes_nothing_else():
    spec = pf.spec("f32[N, 4096]")
    loose, fused = softmax.plan(spec, fuse=False, target="h200"), softmax.plan(spec, target="h200")
    difference = pf.compare(loose, fused)
    print(difference)
    assert fused.hbm_bytes < loose.hbm_bytes  # for every N, decided symbolically
    assert_equivalent(loose, fused)


if __name__ == "__main__":
    test_softmax_is_one_kernel()
    test_spelling_does_not_matter()
    test_fusing_saves_traffic_and_changes_nothing_else()
