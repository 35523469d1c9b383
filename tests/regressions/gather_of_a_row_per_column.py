"""Two columns that each gather from a row of their own are no vector: one address stood for both."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0[:-2, 1:-1] + x0[2:, 1:-1] + x0[1:-1, :-2] + x0[1:-1, 2:] - 4 * x0[1:-1, 1:-1]
    v2 = np.take_along_axis(v1, np.argmax(v1, axis=0, keepdims=True), axis=0)
    v3 = v2[..., :-2] + v2[..., 1:-1] * 2 + v2[..., 2:]
    return v1, v3
"""

WAY = Way("unfused", (("backend", "interpreter"), ("target", "sm_90"), ("fuse", False)))
agree(PROGRAM, [ArrayValue((24, 24), "f32", "normal", 831)], WAY)
