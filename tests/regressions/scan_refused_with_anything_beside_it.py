"""no schedule was proved: a scan that is refused beside whatever else a kernel computes is a kernel of its own."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.nanmean(x0, axis=(1,))
    v2 = np.maximum.accumulate(x0, axis=0)
    v3 = np.cos(v2)
    v4 = v2[1:-3, ::2]
    return v1, v3, v4, v2
"""

agree(
    PROGRAM,
    [ArrayValue((7, 2), "f32", "normal", 266, None, 2)],
    Way("fused", (("backend", "interpreter"), ("target", "cpu"))),
)
