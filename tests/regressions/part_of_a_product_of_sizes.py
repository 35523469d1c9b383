"""An extent that is a part of a product of sizes, in the proof that offsets fit 32 bits."""

import numpy as np

import polyfuse as pf

x = np.random.default_rng(0).random((15, 2, 5), dtype=np.float32)
least = pf.jit(lambda x: np.nanmin(x, axis=(0, 1, 2), keepdims=True), backend="interpreter", target="sm_90", fuse=False)
np.testing.assert_array_equal(least(x), np.nanmin(x, axis=(0, 1, 2), keepdims=True))
