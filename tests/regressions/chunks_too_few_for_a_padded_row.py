"""StalePlanError: the plan of program excludes the call it was made for: -n1 + 510 >= 0"""

import numpy as np

import polyfuse as pf


def program(x0):
    v1 = x0 / (1 + np.abs(x0).sum(axis=-1, keepdims=True))
    v2 = np.exp(v1 - v1.max(axis=-1, keepdims=True))
    v3 = np.trace(v2)
    v4 = np.pad(x0, ((0, 1), (1, 1)), constant_values=1)
    return v3, v4


x = np.linspace(0, 1, 3 * 1024).reshape(3, 1024).astype(np.float16)
tiles = {"v4": {"chunks": 4}}
trace, padded = pf.jit(program, backend="interpreter", target="sm_90", tiles=tiles)(x)
wanted, same = program(x.astype(np.float64))
np.testing.assert_allclose(trace, wanted, rtol=5e-3)
np.testing.assert_array_equal(padded, same.astype(np.float16))
