"""A layer of a neural network: bias, GELU and dropout mask run on the product's registers, before it is stored."""

import numpy as np

import polyfuse as pf


@pf.jit
def layer(x, w, bias, keep):
    h = x @ w + bias
    activated = 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h**3)))
    return np.where(keep, activated / 0.9, 0)


rng = np.random.default_rng(0)
x, w = rng.standard_normal((256, 384), dtype=np.float32), rng.standard_normal((384, 512), dtype=np.float32)
bias, keep = rng.standard_normal(512, dtype=np.float32), rng.random((256, 512)) < 0.9
y = layer(x, w, bias, keep)

specs = [pf.spec(text) for text in ("f32[N, 384]", "f32[384, 512]", "f32[512]", "bool[N, 512]")]
plan = layer.plan(*specs, target="h200", library=False)
print(plan)
assert len(plan.kernels) == 1

h = x.astype(np.float64) @ w + bias
expected = np.where(keep, 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h**3))) / 0.9, 0)
np.testing.assert_allclose(y, expected, atol=1e-3)
print(f"\nlargest error: {np.abs(y - expected).max():.1e}")
