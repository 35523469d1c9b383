"""Pairs that neighbours in a thread gather, each with an index of its own, were vectors along a slot that is not the
innermost of the load: MisalignedVector at x0_in[1, 0]."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

ONE_INDEX = """
def program(x0, x1):
    v2 = x0[x1 % x0.shape[0]]
    return v2
"""
TWO_INDICES = """
def program(x0, x1):
    v2 = x0[x1 % x0.shape[0], (x1 + 1) % x0.shape[1]]
    return v2
"""
WAYS = (
    Way("fused", (("backend", "interpreter"), ("target", "sm_90"))),
    Way("unfused", (("backend", "interpreter"), ("target", "sm_90"), ("fuse", False))),
)
INDICES = ArrayValue((10, 1), "i64", "normal", 74)

agree(ONE_INDEX, [ArrayValue((64, 2), "f32", "normal", 448), INDICES], *WAYS)
agree(TWO_INDICES, [ArrayValue((10, 1, 2), "i64", "normal", 448), INDICES], *WAYS)
