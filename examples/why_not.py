"""Fusions that would be wrong are refused, with two instances of the program that prove it."""

import numpy as np

import polyfuse as pf


@pf.jit
def picked(x, index):
    sums = np.cumsum(x)
    y = sums[index]
    return y


@pf.jit
def summed_area(x):
    down = np.cumsum(x, axis=0)
    across = np.cumsum(down, axis=1)
    return across


cases = (
    (picked, (pf.spec("f32[N]"), pf.spec("i64[M]")), ("sums", "y")),  # which a thread needs is known at run time
    (summed_area, (pf.spec("f32[N~8192, M~8192]"),), ("down", "across")),  # one runs down, the next across what it made
)
for function, specs, (first, second) in cases:
    plan = function.plan(*specs, target="h200")
    verdict = plan.why_not(first, second)
    print(f"{plan}\n\n{first} and {second} in one kernel: {verdict}\n")
    assert not verdict and verdict.witness is not None
    assert len(plan.kernels) == 2

x = np.random.default_rng(0).random((300, 200), dtype=np.float32)
np.testing.assert_allclose(summed_area(x), x.cumsum(0).cumsum(1), rtol=1e-4)
np.testing.assert_allclose(picked(x[0], np.array([3, 1, 1])), x[0].cumsum()[[3, 1, 1]], rtol=1e-5)
