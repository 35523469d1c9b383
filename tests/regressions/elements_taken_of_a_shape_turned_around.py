"""What is wanted of an array was followed through an index that is a quotient of two dimensions: a crash."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = np.power(np.abs(x1), np.clip(x0, -2, 2))
    v3 = v2.reshape(v2.shape[::-1])
    v4 = np.take_along_axis(v3, np.argmax(v3, axis=-1, keepdims=True), axis=-1)
    return v4
"""

agree(
    PROGRAM,
    [
        ArrayValue((2, 3), 'f32', 'whole', 0),
        ArrayValue((3,), 'f32', 'whole', 0),
    ],
    Way(name='fused', options=(('backend', 'interpreter'), ('target', 'sm_90')), prices=None, out='new', effort=0),
)
