"""Index notation: shortest paths by a product of matrices over (min, +), which no NumPy function computes."""

import numpy as np

import polyfuse as pf

i, j, k = pf.indices("i j k")


@pf.jit
def twice_as_far(d):
    """Shortest distances over twice as many edges as `d` allows."""
    best = pf.empty()
    best[i, j] = pf.min(k, d[i, k] + d[k, j])
    return best


@pf.jit
def by_broadcasting(d):
    return np.min(d[:, None, :] + d.T[None, :, :], axis=2)


# A ring of towns, each a kilometre from the next, and a road from town 0 to the one across.
towns = 64
d = np.full((towns, towns), np.inf, dtype=np.float32)
np.fill_diagonal(d, 0)
for a in range(towns):
    d[a, (a + 1) % towns] = d[(a + 1) % towns, a] = 1
d[0, towns // 2] = d[towns // 2, 0] = 3

edges = 1
while edges < towns:
    d, edges = twice_as_far(d), 2 * edges
print(f"from town 0: {d[0].astype(int)}")
assert d[0, 32] == 3 and d[0, 31] == 4 and d[16, 48] == 32

spec = pf.spec("f32[N, N]")
plan = twice_as_far.plan(spec, target="h200")
print(plan)
assert plan == by_broadcasting.plan(spec, target="h200")
assert len(plan.kernels) == 1
