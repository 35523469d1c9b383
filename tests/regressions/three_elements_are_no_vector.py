"""Sums of three elements, which a thread loads one by one: no access has three."""

import numpy as np

import polyfuse as pf

x = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
for target in ("sm_90", "sm_80"):
    found = pf.jit(lambda x: np.count_nonzero(x, axis=-1), backend="interpreter", target=target)(x)
    np.testing.assert_array_equal(found, np.count_nonzero(x, axis=-1))
