"""KeyError: 'n0': a kernel of one block over a product of sizes, beside another or alone."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

BESIDE = """
def program(x0):
    v1 = np.all(x0, axis=-2, keepdims=True)
    v2 = np.mean(x0, axis=(0, 1))
    return v2, v1
"""
ALONE = """
def program(x0):
    v1 = np.nanmin(x0, axis=(0, 1, 2), keepdims=True)
    return v1
"""

agree(
    BESIDE,
    [ArrayValue((32, 48), "f16", "whole", 178)],
    Way("fused", (("backend", "interpreter"), ("target", "sm_80")), out="onto", effort=0),
)
agree(
    ALONE,
    [ArrayValue((15, 2, 5), "f32", "normal", 302, None, 3)],
    Way("unfused", (("backend", "interpreter"), ("target", "sm_90"), ("fuse", False))),
)
