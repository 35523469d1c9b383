"""A wish to fuse what is read for its shape alone, which no kernel computes."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1, x2):
    v3 = x2 * 0
    np.add.at(v3, x1 % x2.shape[0], np.broadcast_to(x0, v3[x1 % x2.shape[0]].shape))
    return v3
"""

agree(
    PROGRAM,
    [
        ArrayValue((2, 2), "f32", "whole", 0),
        ArrayValue((2, 2), "i32", "whole", 0),
        ArrayValue((2,), "f32", "whole", 0),
    ],
    Way(
        name="pointwise",
        options=(("backend", "interpreter"), ("target", "cpu"), ("fuse", "pointwise")),
        prices=None,
        out="new",
        effort=0,
    ),
)
