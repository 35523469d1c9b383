"""Shares of blocks were loaded as a vector that the end of their array cuts, which no load of shares says it is."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0 / (1 + np.abs(x0).sum(axis=-1, keepdims=True))
    v2 = (v1 - v1.mean(axis=-1, keepdims=True)) / (v1.std(axis=-1, keepdims=True) + 1)
    v3 = (v2[..., 1:] + v2[..., :-1])[..., ::2]
    v4 = np.ptp(v3, axis=-1)
    return v4
"""

agree(
    PROGRAM,
    [
        ArrayValue((1, 1024), 'f64', 'normal', 634),
    ],
    Way(name='prices', options=(('backend', 'interpreter'), ('target', 'sm_80')), prices=796367, out='new', effort=0),
)
