"""result 0 of call 1, fused: at (1,) found np.int64(0), expected np.int64(-2) within 0 (1 of 8 elements are wron"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.take(x0, x0, axis=0, mode='clip')
    v2 = np.pad(v1, ((1, 0),), constant_values=0)
    return v2
"""

agree(
    PROGRAM,
    [
        ArrayValue((7,), 'i64', 'whole', 290),
    ],
    Way(name='fused', options=(('backend', 'interpreter'), ('target', 'cpu')), prices=None, out='strided', effort=0),
)
