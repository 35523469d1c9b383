"""Quickstart: decorate NumPy code, call it on arrays, look at what it became."""

import numpy as np

import polyfuse as pf


@pf.jit
def smooth_step(x, low, high):
    t = np.clip((x - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


x = np.linspace(-1, 2, 1_000_000, dtype=np.float32)
y = smooth_step(x, 0.25, 0.75)  # five operations, one kernel
plan = smooth_step.plan(x, 0.25, 0.75)

print(plan, end="\n\n")
print(plan.source())

t = np.clip((x - np.float32(0.25)) / np.float32(0.5), 0, 1)
np.testing.assert_allclose(y, t * t * (3 - 2 * t), atol=1e-6)
assert len(plan.kernels) == 1
assert y.dtype == np.float32
