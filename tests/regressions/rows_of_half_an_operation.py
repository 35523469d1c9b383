"""result 0: rows 0 to 1 of 2 alone have other bits: what lay inside of a softmax rounded only where it was stored"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = pf.softmax(x0, axis=-1)
    v2 = np.amax(x0, axis=-1, keepdims=True)
    v3 = np.argmax(v2, axis=-1, keepdims=True)
    return v1, v3, 7 - x0
"""

agree(
    PROGRAM,
    [
        ArrayValue((2, 2), "f16", "normal", 64),
    ],
    Way("alike", (("backend", "interpreter"), ("target", "generic"), ("batch_invariant", True)), effort=0),
)
