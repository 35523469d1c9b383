"""Results that share no array have classes of their own, of which a flat walk has one: the planner crashed."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0, x1):
    v2 = np.roll(x1, -2, axis=0)
    v3 = np.maximum(v2, x0)
    v4 = pf.softmax(v3, axis=1)
    v5 = np.argmax(v4, axis=-1)
    v6 = x0.copy()
    np.add.at(v6, v5 % x0.shape[0], 1)
    return v6
"""

agree(
    PROGRAM,
    [
        ArrayValue((7, 17), 'bf16', 'normal', 730, strides=(1, 7), offset=1),
        ArrayValue((7, 17), 'f16', 'normal', 845),
    ],
    Way(name='prices', options=(('backend', 'interpreter'), ('target', 'sm_90')), prices=198617, out='new', effort=0),
)
