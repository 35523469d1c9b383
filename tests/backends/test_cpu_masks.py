"""Rows of a few elements under masks: LLVM 22 took the mask of one row for that of another on AVX-512."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cpu.fragments import object_code


def rows_summed(x: Any) -> Any:
    return x.sum(axis=0)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "f2", "u1"])
@pytest.mark.parametrize("columns", [2, 3, 5, 7])
def test_sums_of_rows_have_the_last_ones(dtype: str, columns: int) -> None:
    """65537 rows of three lost up to three of the last, by their number modulo eight."""
    sums = pf.jit(rows_summed)
    for rows in range(65536, 65545):
        x = np.random.default_rng(rows).integers(0, 2, (rows, columns)).astype(dtype)
        expected = x.sum(axis=0, dtype="f8" if dtype.startswith("f") else None)
        np.testing.assert_allclose(sums(x).astype("f8"), expected.astype("f8"), rtol=1e-3 if dtype == "f2" else 1e-6)


def test_sums_do_not_depend_on_what_ran_before() -> None:
    """Lanes that the wrong mask took were whatever memory had."""
    x = np.ones((65537, 3, 3))
    both = pf.jit(lambda a: a.sum((0, 1)))
    doubled = pf.jit(lambda a: (a * 2).sum(0))
    for shape in ((331, 211, 3), (65537, 3, 1), (131073, 3)):
        doubled(np.ones(shape))
        np.testing.assert_array_equal(both(x), np.full(3, 65537.0 * 3))


def test_no_kernel_keeps_a_mask_that_was_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What LLVM folded is compiled again, without the instructions that make such masks."""
    kept: list[bytes] = []

    def watched(module: Any) -> bytes:
        kept.append(object_code.object_code(module))
        return kept[-1]

    factor = float(np.random.default_rng().random())  # of which no kernel is stored yet
    monkeypatch.setattr("polyfuse.backends.numba_cpu.fragments.entry.object_code", watched)
    pf.jit(lambda x: x.sum(axis=0) * factor)(np.ones((65539, 3)))
    assert kept and not any(map(object_code.may_have_folded_masks, kept))


def test_folded_masks_are_found_by_their_instructions() -> None:
    """vmovmskps %xmm5, %r11d; vmovmskpd %ymm1, %eax; vpmovmskb %xmm10, %eax; vaddps is none."""
    for code in (b"\xc5\x78\x50\xdd", b"\xc5\xfd\x50\xc1", b"\xc4\xc1\x79\xd7\xc2"):
        assert object_code.SIGNS.search(code)
    assert not object_code.SIGNS.search(b"\xc5\xd0\x58\xee")
