"""Rows of three elements are no vector: MisalignedVector at x0_in[1, 0]."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = (x0 - x0.mean(axis=1, keepdims=True)) / (x0.std(axis=1, keepdims=True) + 1)
    return v1
"""

agree(
    PROGRAM,
    [ArrayValue((8, 3), "f64", "normal", 493, (1, 8))],
    Way("unfused", (("backend", "interpreter"), ("target", "sm_90"), ("fuse", False))),
)
