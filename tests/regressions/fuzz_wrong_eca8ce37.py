"""result 0 of call 1, fused: at (2, 1) found np.int32(1), expected np.int32(-3) within 0 (8 of 80 elements are w"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = np.take(x0, x1 % x0.shape[1], axis=1)
    v3 = np.pad(v2, ((1, 2), (0, 1)), constant_values=2)
    v4 = np.flip(v3)
    v5 = v4 | v3
    return v5
"""

agree(
    PROGRAM,
    [
        ArrayValue((7, 1), 'i32', 'whole', 0),
        ArrayValue((7,), 'i32', 'whole', 0),
    ],
    Way(name='fused', options=(('backend', 'interpreter'), ('target', 'cpu')), prices=None, out='new', effort=0),
)
