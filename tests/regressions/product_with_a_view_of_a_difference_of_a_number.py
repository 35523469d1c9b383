"""AssertionError: a number was given the indices of a view"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = 7 - x0
    v3 = np.matmul(x1, v2)
    v4 = np.tensordot(x1, -1 - x1, axes=([0], [0]))
    return v3, v4
"""

agree(
    PROGRAM,
    [
        ArrayValue((7, 7), "f32", "positive", 14),
        ArrayValue((7, 7), "f32", "normal", 15),
    ],
    Way(name="fused", options=(("backend", "interpreter"), ("target", "sm_80")), effort=0),
)
