"""polyfuse.errors.KernelError: kernel v5_v6, Load region from region_in: a vector of 2 is not aligned: $ty moves"""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = np.maximum(x0[:, :-2], x0[:, 2:]) - x0[:, 1:-1]
    v2 = v1[:-2, 1:-1] + v1[2:, 1:-1] + v1[1:-1, :-2] + v1[1:-1, 2:] - 4 * v1[1:-1, 1:-1]
    v3 = np.lib.stride_tricks.sliding_window_view(v2, (3, 3)).sum(axis=(-1, -2))
    v4 = v3.copy()
    v4[3:-2:2, :] *= 2
    v5 = v4[..., :-2] + v4[..., 1:-1] * 2 + v4[..., 2:]
    v6 = -1 / v5
    return v4, v6
"""

agree(
    PROGRAM,
    [
        ArrayValue((38, 37), 'f64', 'normal', 617),
    ],
    Way(name='prices', options=(('backend', 'interpreter'), ('target', 'sm_90')), prices=619311, out='new', effort=0),
)
