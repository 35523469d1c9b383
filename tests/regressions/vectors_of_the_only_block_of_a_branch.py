"""A branch that one block takes reads at that block's own place, 11 * 1 - 11, where vectors are aligned: the rules
refused it for the rows of other blocks."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0.reshape(3, 11)
    v2 = np.concatenate([v1, v1], axis=-1)
    return v2
"""

WAY = Way("unfused", (("backend", "numba_cpu"), ("fuse", False)))
agree(PROGRAM, [ArrayValue((33,), "f32", "whole", 0)], WAY)
