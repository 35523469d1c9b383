"""Dense linear algebra and data mining, as in the classical suites of loop nests."""

from __future__ import annotations

import numpy as np

from tests.kernels_in_numpy.kernel import Kernel, normal, uniform


def gemm(alpha, beta, a, b, c):
    c *= beta
    c += alpha * a @ b
    return c


def two_mm(alpha, beta, a, b, c, d):
    return alpha * a @ b @ c + beta * d


def three_mm(a, b, c, d):
    return (a @ b) @ (c @ d)


def atax(a, x):
    return (a @ x) @ a


def bicg(a, p, r):
    return r @ a, a @ p


def mvt(x1, x2, y1, y2, a):
    x1 += a @ y1
    x2 += y2 @ a
    return x1, x2


def gesummv(alpha, beta, a, b, x):
    return alpha * (a @ x) + beta * (b @ x)


def gemver(alpha, beta, a, u1, v1, u2, v2, y, z):
    a_hat = a + np.outer(u1, v1) + np.outer(u2, v2)
    x = beta * y @ a_hat + z
    w = alpha * a_hat @ x
    return a_hat, x, w


def doitgen(a, c4):
    nr, nq, np_ = a.shape
    return (a.reshape(nr, nq, 1, np_) @ c4).reshape(nr, nq, np_)


def syrk(alpha, beta, c, a):
    full = beta * c + alpha * a @ a.T
    return np.tril(full) + np.triu(c, 1)


def syr2k(alpha, beta, c, a, b):
    lower = beta * np.tril(c)
    lower += np.tril(alpha * (a @ b.T + b @ a.T))
    return lower + np.triu(c, 1)


def trmm(alpha, a, b):
    return alpha * (b + np.tril(a, -1).T @ b)


def covariance(data):
    centred = data - data.mean(axis=0)
    return centred.T @ centred / (data.shape[0] - 1)


def correlation(data):
    n = data.shape[0]
    deviation = data.std(axis=0)
    deviation[deviation <= 0.1] = 1.0
    scaled = (data - data.mean(axis=0)) / (np.sqrt(n) * deviation)
    result = scaled.T @ scaled
    m = data.shape[1]
    result[np.arange(m), np.arange(m)] = 1.0
    return result


def floyd_warshall(path):
    path = path.copy()
    for k in range(path.shape[0]):
        path[:] = np.minimum(path, np.add.outer(path[:, k], path[k, :]))
    return path


def floyd_warshall_step(path, k):
    return np.minimum(path, path[:, k][:, None] + path[k][None, :])


def forward_substitution(lower, b):
    x = np.zeros_like(b)
    for i in range(lower.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def power_iteration(a, v, steps=3):
    for _ in range(steps):
        v = a @ v
        v /= np.linalg.norm(v)
    return v, v @ a @ v


def conjugate_gradient_step(a, x, r, p):
    ap = a @ p
    rr = r @ r
    alpha = rr / (p @ ap)
    x = x + alpha * p
    r = r - alpha * ap
    return x, r, r + (r @ r) / rr * p


def lu(a):
    """Doolittle's factors without pivoting, in one array."""
    a = a.copy()
    n = a.shape[0]
    for k in range(n - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def cholesky(a):
    n = a.shape[0]
    low = np.zeros_like(a)
    for j in range(n):
        low[j, j] = np.sqrt(a[j, j] - np.sum(low[j, :j] ** 2))
        low[j + 1 :, j] = (a[j + 1 :, j] - low[j + 1 :, :j] @ low[j, :j]) / low[j, j]
    return low


def deriche_like(x, a=0.7):
    """A causal and an anticausal exponential filter along rows."""
    forward = np.zeros_like(x)
    backward = np.zeros_like(x)
    forward[:, 0] = x[:, 0]
    backward[:, -1] = x[:, -1]
    for j in range(1, x.shape[1]):
        forward[:, j] = a * forward[:, j - 1] + (1 - a) * x[:, j]
        backward[:, -1 - j] = a * backward[:, -j] + (1 - a) * x[:, -1 - j]
    return (forward + backward) / 2


def matrices(**shapes):
    def make(rng):
        scalars = {"alpha": 1.5, "beta": 1.25}
        return {n: scalars[n] if s is None else normal(rng, *s) for n, s in shapes.items()}

    return make


def positive_definite(rng, n):
    a = normal(rng, n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


KERNELS = (
    Kernel(gemm, matrices(alpha=None, beta=None, a=(12, 17), b=(17, 9), c=(12, 9)), 1, 1, options={"donate": "c"}),
    Kernel(two_mm, matrices(alpha=None, beta=None, a=(12, 17), b=(17, 9), c=(9, 11), d=(12, 11)), 1, 1),
    Kernel(three_mm, matrices(a=(8, 9), b=(9, 7), c=(7, 6), d=(6, 11)), 1, 1),
    Kernel(atax, matrices(a=(18, 13), x=(13,)), 1, 1),
    Kernel(bicg, matrices(a=(18, 13), p=(13,), r=(18,)), 1, 1),
    Kernel(
        mvt,
        matrices(x1=(15,), x2=(15,), y1=(15,), y2=(15,), a=(15, 15)),
        1,
        1,
        options={"donate": ("x1", "x2")},
    ),
    Kernel(gesummv, matrices(alpha=None, beta=None, a=(15, 15), b=(15, 15), x=(15,)), 1, 1),
    Kernel(
        gemver,
        matrices(alpha=None, beta=None, a=(14, 14), u1=(14,), v1=(14,), u2=(14,), v2=(14,), y=(14,), z=(14,)),
        1,
        2,
    ),
    Kernel(doitgen, matrices(a=(5, 7, 9), c4=(9, 9)), 1, 1),
    Kernel(syrk, matrices(alpha=None, beta=None, c=(13, 13), a=(13, 8)), 1, 1),
    Kernel(syr2k, matrices(alpha=None, beta=None, c=(13, 13), a=(13, 8), b=(13, 8)), 1, 1),
    Kernel(trmm, matrices(alpha=None, a=(11, 11), b=(11, 14)), 1, 1),
    Kernel(covariance, matrices(data=(20, 9)), 1, 1),
    Kernel(correlation, matrices(data=(20, 9)), 1, 1),
    Kernel(floyd_warshall, lambda rng: {"path": uniform(rng, 5, 5, high=9)}, 1, 1),
    Kernel(floyd_warshall_step, lambda rng: {"path": uniform(rng, 12, 12, high=9), "k": 3}, 1, 1),
    Kernel(
        forward_substitution,
        lambda rng: {"lower": normal(rng, 6, 6) + 6 * np.eye(6, dtype=np.float32), "b": normal(rng, 6)},
        1,
        1,
    ),
    Kernel(power_iteration, matrices(a=(12, 12), v=(12,)), 2, 3),
    Kernel(
        conjugate_gradient_step,
        lambda rng: {"a": positive_definite(rng, 9), **matrices(x=(9,), r=(9,), p=(9,))(rng)},
        1,
        1,
    ),
    Kernel(lu, lambda rng: {"a": positive_definite(rng, 5)}, 1, 1),
    Kernel(cholesky, lambda rng: {"a": positive_definite(rng, 5)}, 1, 1),
    Kernel(deriche_like, matrices(x=(9, 6)), 1, 1),
)
