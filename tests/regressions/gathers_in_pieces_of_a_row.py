"""result 0 of call 1, fused: at (2, 108) found np.int32(2), expected np.int32(6) within 0 (13 of 1308 elements a"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = x0.reshape(-1)[::2]
    v3 = np.take(x1, v2 % x1.shape[1], axis=1)
    v4 = np.pad(v3, ((1, 2), (0, 1)), constant_values=2)
    v5 = np.flip(v4)
    v6 = v5 | v4
    v7 = v5.reshape(-1)
    v8 = v3[1:-3:2, :]
    return v6, v7, v8
"""

agree(
    PROGRAM,
    [
        ArrayValue((24, 9), 'i32', 'special', 783, strides=(-9, 1), offset=1),
        ArrayValue((9, 24), 'i32', 'special', 815),
    ],
    Way(name='fused', options=(('backend', 'interpreter'), ('target', 'cpu')), prices=None, out='new', effort=0),
)
