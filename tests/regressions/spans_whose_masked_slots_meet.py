"""Slots that step by sizes meet in one place where a matrix has as many rows as threads are apart: not one span."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0 @ x0.T
    v2 = np.fmin(x0, -x0)
    v3 = np.fmin(x0, -v2)
    v4 = (v3[..., 1:] + v3[..., :-1])[..., ::2]
    v5 = np.concatenate([v3, v1], axis=1)
    v1[:, 2::2] = 0
    v6 = v1 + 0
    return v4, v5, v6, v1
"""

agree(
    PROGRAM,
    [
        ArrayValue((32, 48), 'f16', 'normal', 356),
    ],
    Way(
        name='apart',
        options=(('backend', 'interpreter'), ('target', 'sm_90'), ('apart', (('multiply', 'v3'),))),
        prices=None,
        out='new',
        effort=0,
    ),
)
