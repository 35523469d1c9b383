"""polyfuse.errors.KernelError: kernel multiply_v1_greater_v4, Load v1_s_2 from v1_tile: index -$b0 + 30*$h + 3*f"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0[1:, 1:] * 0.5 + x0[:-1, :-1]
    v2 = v1[:-2, 1:-1] + v1[2:, 1:-1] + v1[1:-1, :-2] + v1[1:-1, 2:] - 4 * v1[1:-1, 1:-1]
    v3 = v1.copy()
    v3[1::2, 2::3] += 1
    v4 = np.where(v3 > 0.5, v3, 0.5)
    return v2, v4
"""

agree(
    PROGRAM,
    [
        ArrayValue((26, 44), 'f32', 'normal', 553),
    ],
    Way(name='fused', options=(('backend', 'interpreter'), ('target', 'sm_90')), prices=None, out='new', effort=0),
)
