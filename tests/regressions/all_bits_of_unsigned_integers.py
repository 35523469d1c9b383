"""OverflowError: what `&` leaves as it is has all bits set, which is no -1 in an unsigned integer."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    return np.bitwise_and.reduce(x0, axis=0), np.bitwise_and.accumulate(x0, axis=0)
"""

agree(
    PROGRAM,
    [ArrayValue((70, 2), "u16", "whole", 266, None, 0)],
    Way("fused", (("backend", "interpreter"), ("target", "sm_90"))),
)
