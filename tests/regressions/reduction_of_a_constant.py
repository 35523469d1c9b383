"""IndexError: tuple index out of range"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = np.where(x0 > x1, x0, x1)
    v2[...] = 0
    v3 = v2 + 0
    v4 = np.any(v3, axis=0, keepdims=True)
    return v4
"""

agree(
    PROGRAM,
    [
        ArrayValue((2,), "f32", "whole", 0),
        ArrayValue((), "f32", "whole", 0),
    ],
    Way(
        name="unfused", options=(("backend", "interpreter"), ("target", "cpu"), ("fuse", False)), prices=None, out="new"
    ),
)
