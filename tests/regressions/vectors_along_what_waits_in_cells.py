"""ValueError: a vector of two along a slot of which one place is in registers, the other in shared memory"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0 / (1 + np.abs(x0).sum(axis=-1, keepdims=True))
    v2 = v1 - v1.max(axis=-1, keepdims=True)
    v3 = np.lib.stride_tricks.sliding_window_view(v2, 2, axis=-1) @ np.array([0.5, 2.0], f32)
    return v3, np.isinf(1 / v2)
"""

agree(
    PROGRAM,
    [
        ArrayValue((1, 3000), "f16", "positive", 829),
    ],
    Way("tiles", (("backend", "interpreter"), ("target", "h200"), ("tiles", {"v3": {"lanes": 128}})), effort=0),
)
