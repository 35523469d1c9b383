"""A loop without a trip was written behind the middle of a short sum, where nothing holds and so everything is proved:
its loads were vectors."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.lib.stride_tricks.sliding_window_view(x0, 2, axis=-1) @ np.array([0.5, 2.0], f32)
    return v1
"""

WAY = Way("unfused", (("backend", "interpreter"), ("target", "cpu"), ("fuse", False)))
agree(PROGRAM, [ArrayValue((7,), "bf16", "whole", 0)], WAY)
