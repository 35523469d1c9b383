"""Rows of three elements are no vector: MisalignedVector at x0_in[1, 0]."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.count_nonzero(x0, axis=-1)
    return v1
"""

agree(
    PROGRAM,
    [ArrayValue((3, 3), "f64", "normal", 682)],
    Way("fused", (("backend", "interpreter"), ("target", "sm_90"))),
    Way("unfused", (("backend", "interpreter"), ("target", "sm_90"), ("fuse", False))),
)
