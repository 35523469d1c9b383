"""x + y.T: the transpose is an access relation; on a GPU its tile passes through shared memory, which is derived."""

import numpy as np

import polyfuse as pf


@pf.jit
def add_transposed(x, y):
    return x + y.T


rng = np.random.default_rng(0)
x, y = rng.standard_normal((600, 400), dtype=np.float32), rng.standard_normal((400, 600), dtype=np.float32)
np.testing.assert_array_equal(add_transposed(x, y), x + y.T)

plan = add_transposed.plan(pf.spec("f32[N, M]"), pf.spec("f32[M, N]"), target="h200")
print(plan, end="\n\n")
print(plan.source())
assert len(plan.kernels) == 1
assert "shared" in str(plan)
