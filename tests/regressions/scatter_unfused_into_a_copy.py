"""RuntimeError: generator raised StopIteration, where a move of the search leaves a kernel nothing to store."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = x0.copy()
    np.add.at(v2, x0 % x0.shape[0], np.broadcast_to(x1, v2[x0 % x0.shape[0]].shape))
    return v2
"""

agree(
    PROGRAM,
    [
        ArrayValue((2,), "u64", "whole", 0),
        ArrayValue((2,), "f32", "whole", 0),
    ],
    Way("unfused", (("backend", "interpreter"), ("target", "cpu"), ("fuse", False)), prices=None, out="new"),
)
