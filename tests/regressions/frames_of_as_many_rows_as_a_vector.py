"""polyfuse.errors.KernelError: kernel greater_cast_v1_v2, Load x0_2 from x0_in: a vector of 2 is not aligned: $t"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0 * ((x0 > 0).sum(axis=-1, keepdims=True))
    v2 = v1.astype(f16)
    return v2, v1
"""

agree(
    PROGRAM,
    [
        ArrayValue((2, 3), 'f64', 'whole', 0),
    ],
    Way(name='prices', options=(('backend', 'interpreter'), ('target', 'generic')), prices=438464, out='new', effort=0),
)
