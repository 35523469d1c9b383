"""Stores of four bytes each, whose place has the number of the last trip of a loop in it."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = (x0 - x0.mean(axis=-1, keepdims=True)) / (x0.std(axis=-1, keepdims=True) + 1)
    v2 = np.einsum('ij,kj->ik', v1, v1)
    v3 = np.clip(np.nan_to_num(x0), -100, 100).astype(i8)
    return v2, v3
"""

agree(
    PROGRAM,
    [
        ArrayValue((8, 8), "f16", "whole", 0),
    ],
    Way(name="fused", options=(("backend", "interpreter"), ("target", "generic")), prices=None, out="new", effort=None),
)
