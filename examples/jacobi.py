"""A stencil: two Jacobi steps in one kernel, whose halo and recomputed edges are derived, not annotated."""

import numpy as np

import polyfuse as pf


def step(u):
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) * 0.25


@pf.jit
def two_steps(u):
    return step(step(u))


u = np.zeros((514, 514), dtype=np.float32)
u[0] = 1  # one warm edge
v = two_steps(u)

plan = two_steps.plan(pf.spec("f32[N, M]"), target="h200")
print(plan)
assert len(plan.kernels) == 1
assert v.shape == (510, 510)
np.testing.assert_allclose(v, step(step(u.astype(np.float64))), atol=1e-6)
