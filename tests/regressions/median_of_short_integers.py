"""np.median of 8-bit integers is float64, not float16."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree

PROGRAM = """
def program(x0):
    v1 = np.median(x0, axis=0)
    return v1
"""

agree(PROGRAM, [ArrayValue((2, 12), "u8", "normal", 163)])
