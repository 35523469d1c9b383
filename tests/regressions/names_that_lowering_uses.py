"""Values with the names that lowering gave its own: a part of a sum overwrote one, a scalar argument was hidden."""

import numpy as np

import polyfuse as pf


def columns(a, w):
    c_part = a * w
    c = c_part.sum(axis=0)
    d = c_part.max(axis=0)
    return c, d


def scaled(x, alpha):
    s1 = x * alpha
    last_b0 = np.exp(s1)
    y = (last_b0 + s1 * alpha).sum()
    return y, s1


random = np.random.default_rng(0)
a, w = random.random((3000, 8), dtype=np.float32), random.random(8, dtype=np.float32)
x, alpha = random.random(30000, dtype=np.float32), np.float32(0.5)
for function, arguments in ((columns, (a, w)), (scaled, (x, alpha))):
    found = pf.jit(function, backend="interpreter", target="sm_90")(*arguments)
    wide = function(*(np.asarray(v, np.float64) for v in arguments))
    for one, exact in zip(found, wide, strict=True):
        np.testing.assert_allclose(one, exact, rtol=1e-5)
