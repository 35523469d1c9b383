"""A core's loop over rows was cut where rows are read otherwise, in a block that begins behind the cut: what is known
of its trips was taken for trips counted from there, and a row behind the last one was stored."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.pad(x0, ((0, 0), (2, 1)), mode='symmetric')
    v2 = np.broadcast_to(v1, (3, *v1.shape))
    return np.flip(np.swapaxes(v2[..., None], 3, -3))
"""

WAY = Way("prices", (("backend", "interpreter"), ("target", "cpu")), prices=827990, effort=0)
agree(PROGRAM, [ArrayValue((4, 4), "f32", "whole", 0)], WAY)
