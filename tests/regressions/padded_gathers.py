"""The first element behind a padding was not read: a gather in a piece of a row asked whether elements exist that are
as far from the beginning of the piece."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.take(x0, x0, axis=0, mode='clip')
    v2 = np.pad(v1, ((1, 0),), constant_values=0)
    return v2
"""

WAY = Way("fused", (("backend", "interpreter"), ("target", "cpu")), out="strided")
agree(PROGRAM, [ArrayValue((7,), "i64", "whole", 290)], WAY)
