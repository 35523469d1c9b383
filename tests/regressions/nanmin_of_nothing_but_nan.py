"""nanmin and nanmax of nothing but NaN are NaN, not infinite."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree

PROGRAM = """
def program(x0):
    v1 = np.sqrt(-1 - np.abs(x0))
    return np.nanmin(v1, axis=-1), np.nanmax(v1, axis=0), np.nanmin(v1), np.fmax.accumulate(v1, axis=0)
"""

agree(PROGRAM, [ArrayValue((5, 70), "f32", "normal", 1)])
