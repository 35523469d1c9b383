"""np.isclose subtracts integers as float64: the difference of extremes is far from zero."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree

PROGRAM = """
def program(x0, x1):
    v2 = np.isclose(x1, x0)
    return v2
"""

agree(
    PROGRAM,
    [
        ArrayValue((3,), "i32", "special", 897),
        ArrayValue((2, 3), "i32", "normal", 5),
    ],
)
