"""result 0 of call 1, fused: at (3,) found np.int64(0), expected np.int64(-2) within 0 (2 of 53 elements are wro"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.take(x0, x0, axis=0, mode='clip')
    v2 = np.where(x0 > v1, x0, v1)
    v3 = np.pad(v2, ((1, 0),), constant_values=0)
    v4 = x0 << 2
    v5 = np.pad(v3, ((2, 2),), mode='edge')
    v6 = np.flip(v4)
    v7 = np.roll(v6, 2, axis=0)
    return v5, v7
"""

agree(
    PROGRAM,
    [
        ArrayValue((48,), 'i64', 'positive', 290),
    ],
    Way(name='fused', options=(('backend', 'interpreter'), ('target', 'cpu')), prices=None, out='strided', effort=0),
)
