"""A kernel of one block over the product of two sizes shares a launch with another one."""

import numpy as np

import polyfuse as pf


def all_and_mean(x):
    return np.mean(x, axis=(0, 1)), np.all(x, axis=-2, keepdims=True)


x = np.linspace(0, 1, 32 * 48).reshape(32, 48).astype(np.float16)
mean, every = pf.jit(all_and_mean, backend="interpreter", target="sm_80")(x)
np.testing.assert_allclose(mean, np.mean(x, dtype=np.float64), rtol=1e-3)
np.testing.assert_array_equal(every, np.all(x, axis=-2, keepdims=True))
