"""Softmax: two reductions and three elementwise operations over a row become one kernel that reads the row once."""

import numpy as np

import polyfuse as pf


@pf.jit
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


x = np.random.default_rng(0).standard_normal((1000, 2048), dtype=np.float32)
y = softmax(x)

for target in ("cpu", "h200"):
    plan = softmax.plan(pf.spec("f32[N, 2048]"), target=target)
    print(f"on {target}:\n{plan}\n")
    assert len(plan.kernels) == 1

np.testing.assert_allclose(y.sum(axis=-1), 1, rtol=1e-5)
e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
np.testing.assert_allclose(y, e / e.sum(axis=-1, keepdims=True), rtol=1e-5)
