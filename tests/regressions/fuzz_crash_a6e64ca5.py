"""polyfuse.backends.interpreter.faults.MisalignedVector: the elements of a vector are not consecutive, not align"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = x0.astype(i64)
    v3 = np.sign(x1)
    v4 = np.flip(v3)
    v5 = np.argmin(v4, axis=-1)
    v6 = x1[:]
    v7 = np.mean(v6, axis=0, keepdims=True)
    v8 = v2[3:-1:3, None]
    v9 = v8.copy()
    np.add.at(v9, v8 % v8.shape[0], 1)
    v10 = np.stack([v9, v9], axis=-1)
    v11 = v10[v9 % v10.shape[0], (v9 + 1) % v10.shape[1]]
    return v5, v7, v11, v3
"""

agree(
    PROGRAM,
    [
        ArrayValue((32,), 'i32', 'normal', 448, strides=(0,), offset=1),
        ArrayValue((32,), 'i32', 'normal', 74, strides=(1,)),
    ],
    Way(name='unfused', options=(('backend', 'interpreter'), ('target', 'sm_90'), ('fuse', False)), prices=None, out='new', effort=None),
)
