"""polyfuse.backends.interpreter.faults.MisalignedVector: the elements of a vector are not consecutive, not align"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = x0[x1 % x0.shape[0], (x1 + 1) % x0.shape[1]]
    return v2
"""

agree(
    PROGRAM,
    [
        ArrayValue((2, 1, 2), 'f32', 'whole', 0),
        ArrayValue((2, 1), 'i64', 'whole', 0),
    ],
    Way(name='unfused', options=(('backend', 'interpreter'), ('target', 'sm_90'), ('fuse', False)), prices=None, out='new', effort=None),
)
