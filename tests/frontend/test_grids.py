"""``np.mgrid`` and ``np.ogrid`` are index vectors of the trace where they are large, or of symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError, TraceError

Array = Any
Function = Callable[..., Any]
Z = np.random.default_rng(3).standard_normal((71, 67)).astype(np.float32)


def cloud(z: Array) -> Array:
    h, w = z.shape
    v, u = np.mgrid[:h, :w]
    return np.stack([(u - w / 2) * z, (v - h / 2) * z, z], axis=-1).astype(np.float32)


GRIDS: dict[str, Function] = {
    "a cloud of points": cloud,
    "open": lambda z: np.ogrid[: z.shape[0], : z.shape[1]][0] * z,
    "both at once": lambda z: np.add(*np.ogrid[: z.shape[0], 1 : z.shape[1] + 1]) + z,
    "one axis": lambda z: np.mgrid[0 : z.shape[1]] * z,
    "one open axis": lambda z: np.ogrid[2 : z.shape[1] + 2] * z,
    "backwards": lambda z: np.mgrid[z.shape[0] : 0 : -1, : z.shape[1]][0] - z,
    "every other": lambda z: np.mgrid[: z.shape[0], 0 : 2 * z.shape[1] : 2][1] - z,
    "three axes": lambda z: np.mgrid[:3, : z.shape[0], : z.shape[1]].sum(axis=0) + z,
}
NUMBERS: dict[str, Function] = {
    "points between ends": lambda z: np.mgrid[0:1:71j, -1:1:67j].sum(axis=0) * z,
    "steps of less than one": lambda z: np.mgrid[0:71:1.0, 0:33.5:0.5][1] * z,
    "floats beside integers": lambda z: np.ogrid[-1:1:71j, 0:67][1] + z,
    "one point": lambda z: np.mgrid[0:1:1j, 0:67, 0:71][0, 0].T + z,
    "floats on one axis": lambda z: np.mgrid[0:4:67j] + z,
    "few, of a loop": lambda z: sum(z[i : i + 60, j : j + 60] for i, j in np.mgrid[0:3, 0:3].reshape(2, -1).T),
}


@pytest.mark.parametrize("case", [*GRIDS, *NUMBERS])
def test_values_and_dtypes_are_those_of_numpy(case: str) -> None:
    function = (GRIDS | NUMBERS)[case]
    found, wanted = pf.jit(function)(Z), function(Z)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", GRIDS)
def test_sizes_may_be_symbolic_and_nothing_is_captured(case: str) -> None:
    plan = pf.jit(GRIDS[case]).plan(pf.spec("f32[N, M]"), target="h200")
    assert "captured" not in str(plan)
    assert str(sum(kernel.bytes_read for kernel in plan.kernels)) == "4*M*N", "z alone is read"


def test_grids_of_large_numbers_are_no_arrays_in_memory() -> None:
    """The grid of 6001 x 4001 was a captured array of 384 MB, which each call compared: 0.39 s on an H200's host."""
    plan = pf.jit(cloud).plan(pf.spec("f32[6001, 4001]"), target="h200")
    assert "captured" not in str(plan)


@pytest.mark.parametrize("key", [3, slice(1, None), (slice(0, 3), 2)])
@pytest.mark.parametrize("name", ["mgrid", "ogrid"])
def test_what_is_no_grid_says_what_to_write(name: str, key: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"np\.{name} takes slices that end somewhere(.|\n)*Write np\.{name}\[0:n"):
        pf.jit(lambda z: z + getattr(np, name)[key])(Z)


def test_ends_that_data_decide_are_refused() -> None:
    with pytest.raises(TraceError):
        pf.jit(lambda z: np.mgrid[: z.sum(), :3] + z)(Z)
