"""Residual connection and RMS normalisation: two results, one kernel, every array touched once."""

import numpy as np

import polyfuse as pf


@pf.jit
def residual_rmsnorm(x, update, gain):
    h = x + update
    scale = 1 / np.sqrt((h * h).mean(axis=-1, keepdims=True) + 1e-6)
    return h, h * scale * gain


rng = np.random.default_rng(0)
x, update = rng.standard_normal((2, 500, 1024), dtype=np.float32)
gain = rng.standard_normal(1024, dtype=np.float32)
h, y = residual_rmsnorm(x, update, gain)

plan = residual_rmsnorm.plan(pf.spec("f32[N, 1024]"), pf.spec("f32[N, 1024]"), pf.spec("f32[1024]"), target="h200")
print(plan)
print(f"\nbytes moved: {plan.hbm_bytes}")  # two reads and two writes of N x 1024, one read of the gain
assert len(plan.kernels) == 1

wide = x.astype(np.float64) + update
np.testing.assert_allclose(h, wide, atol=1e-6)
np.testing.assert_allclose(y, wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * gain, atol=1e-5)
