"""polyfuse.errors.KernelError: kernel multiply_v1_v2_v4, Load x0_3 from x0_in: a vector of 4 is not aligned: $b0"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.einsum('ij,ik->kj', x0, x0)
    v2 = x0 * ((x0 > 0).sum(axis=-2, keepdims=True))
    v3 = np.flip(v2)
    v4 = np.max(v3, axis=None)
    return v1, v4
"""

agree(
    PROGRAM,
    [
        ArrayValue((2, 2), 'f32', 'whole', 0),
    ],
    Way(name='fused', options=(('backend', 'interpreter'), ('target', 'sm_90')), prices=None, out='new', effort=0),
)
