"""Gathers in a piece of a row asked whether elements exist that are as far from its beginning, not from the row's: the
last column of a padded array was not read."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = x0.reshape(-1)[::2]
    v3 = np.take(x1, v2 % x1.shape[1], axis=1)
    v4 = np.pad(v3, ((1, 2), (0, 1)), constant_values=2)
    v5 = np.flip(v4)
    return v5 | v4
"""

WAY = Way("fused", (("backend", "interpreter"), ("target", "cpu")))
agree(PROGRAM, [ArrayValue((24, 9), "i32", "special", 783), ArrayValue((9, 24), "i32", "special", 815)], WAY)
