"""An array over the product of two sizes, of which the kernel itself needs neither: all of them are reduced exactly."""

import numpy as np

import polyfuse as pf


def least_and_centred(x):
    return np.nanmin(np.expand_dims(x, 1), axis=(0, 1, 2), keepdims=True), x - x.mean(axis=-1, keepdims=True)


x = np.random.default_rng(0).random((15, 2, 5), dtype=np.float32)
for fuse in (False, True):
    least, centred = pf.jit(least_and_centred, backend="interpreter", target="sm_90", fuse=fuse)(x)
    np.testing.assert_array_equal(least, np.nanmin(x[:, None], axis=(0, 1, 2), keepdims=True))
    np.testing.assert_allclose(centred, x - x.mean(axis=-1, keepdims=True, dtype=np.float64), atol=1e-6)
