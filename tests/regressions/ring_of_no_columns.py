"""Rows of no element: the trips of their ring were divided by what a trip copies, nothing."""

import numpy as np

import polyfuse as pf

matrix, x = np.ones((5, 0), np.float32), np.ones(0, np.float32)
jitted = pf.jit(lambda a, x: (a.T @ (a @ x), a @ x), backend="interpreter", target="sm_90")
assert not jitted.plan(matrix, x).fallback
for found, shape in zip(jitted(matrix, x), ((0,), (5,)), strict=True):
    np.testing.assert_array_equal(found, np.zeros(shape, np.float32))
