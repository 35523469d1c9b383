"""The end of an array cuts a vector of taps, which copies to shared memory move whole."""

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.script import agree
from polyfuse.fuzz.ways import Way

PROGRAM = """
def program(x0):
    v1 = x0[:, 2:-3]
    v2 = np.nanmin(v1, axis=(0, 1), keepdims=True)
    v3 = np.lib.stride_tricks.sliding_window_view(v1, 2, axis=-1) @ np.array([0.5, 2.0], f32)
    return v1, v2, v3
"""

agree(
    PROGRAM,
    [
        ArrayValue((1, 50), "f32", "whole", 0),
    ],
    Way(
        name="held",
        options=(
            ("backend", "interpreter"),
            ("target", "sm_90"),
            ("strategies", {"v3": "one_pass"}),
            ("tiles", {"v3": {"ring": 4, "lanes": 32, "share": 8}}),
        ),
        prices=None,
        out="new",
        effort=0,
    ),
)
