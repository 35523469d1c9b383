"""KernelError: inside, nothing reads a product that a region takes at the border; it was added to nothing there."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = np.einsum('ij,ik->kj', x0, x1)
    v2[:-1, -8] = v2[:-1, -8][::-1]
    v3 = v2 + 0
    v4 = np.take_along_axis(v3, np.argmax(v3, axis=-2, keepdims=True), axis=-2)
    return v4
"""

agree(
    PROGRAM,
    [
        ArrayValue((9, 64), "f16", "whole", 0, strides=(128, 2)),
        ArrayValue((9, 64), "f16", "whole", 0),
    ],
    Way(
        name="prices",
        options=(("backend", "interpreter"), ("target", "sm_90")),
        prices=610167,
        out="new",
        effort=0,
    ),
)
