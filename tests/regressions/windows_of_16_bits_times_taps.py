"""polyfuse.errors.KernelError: kernel cast_multiply_v1, Load x0 from x0_in: a vector of 8 is not aligned: $r mov"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.lib.stride_tricks.sliding_window_view(x0, 2, axis=-1) @ np.array([0.5, 2.0], f32)
    return v1
"""

agree(
    PROGRAM,
    [
        ArrayValue((7,), 'bf16', 'whole', 0),
    ],
    Way(name='unfused', options=(('backend', 'interpreter'), ('target', 'cpu'), ('fuse', False)), prices=None, out='new', effort=None),
)
