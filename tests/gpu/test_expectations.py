"""What the check of the CUDA fragment runtime expects of scans and reductions is what monoids are defined to do."""

from __future__ import annotations

import numpy as np
import pytest

from polyfuse.backends.interpreter.collectives import neutral, scan
from tests.gpu.check_reductions import MASKS, apart_scan_checks, over_threads, reduce_over, scan_checks
from tests.gpu.checks import NUMPY_MONOID, REGISTERS, Check, monoids_of, random_values

SCANS = [c for t in ("f32", "f64", "i32", "u64", "i8", "bool") for c in scan_checks(t)]


def folded(name: str, line: np.ndarray, exclusive: bool) -> np.ndarray:
    """The scan of one line by its definition: a fold from the neutral element."""
    state, states = neutral(name, line.dtype), []
    for value in line:
        after = NUMPY_MONOID[name](state, value)
        states.append(state if exclusive else after)
        state = after
    return np.array(states, line.dtype)


@pytest.mark.parametrize("check", SCANS, ids=lambda c: c.name)
def test_scans_are_folds_from_the_neutral_element(check: Check) -> None:
    _, name, _, _, mask = check.name.split()
    line = check.arrays["x"].reshape(-1, 4 * (int(mask) + 1))[0]
    for exclusive in (False, True):
        for reverse in (False, True):
            want = folded(name, line[::-1] if reverse else line, exclusive)
            got = check.expected[f"p{int(exclusive)}{int(reverse)}"][: line.size]
            np.testing.assert_allclose(got[::-1] if reverse else got, want, check.tolerance, check.tolerance)


@pytest.mark.parametrize("check", list(apart_scan_checks("i32")), ids=lambda c: c.name)
def test_scans_of_threads_apart_are_those_of_the_interpreter(check: Check) -> None:
    _, _, numbers = check.name.partition(" bits ")
    mask, reverse = int(numbers.split()[0]), "reverse" in numbers
    for axis, label in ((None, "each"), (2, "through")):
        for exclusive, suffix in ((False, ""), (True, "_before")):
            x = check.arrays["x"].reshape(1, 256, 4)
            prefix, total = scan("sum", x, axis, mask, 256, exclusive, reverse)
            np.testing.assert_array_equal(prefix.reshape(-1), check.expected[f"{label}{suffix}"])
            np.testing.assert_array_equal(total.reshape(-1), check.expected[f"t{label}{suffix}"])


@pytest.mark.parametrize("t", REGISTERS)
def test_reductions_over_masks_of_threads_do_not_depend_on_neutral_elements(t: str) -> None:
    values = random_values(t, 64, 3, small=True)
    if values.dtype.kind == "f":
        values[[0, 1, 2, 3, 40]] = np.nan  # nothing but NaN in the groups of mask 3
    for name in monoids_of(t):
        unit = neutral(name, values.dtype)
        np.testing.assert_array_equal(NUMPY_MONOID[name](values, unit), values)
        for mask in (m for m in (*MASKS, 3) if m < 64):
            want = [
                reduce_over(
                    name, np.array([unit, *(values[j] for j in range(64) if not (j ^ k) & ~mask)], values.dtype), (0,)
                )[0]
                for k in range(64)
            ]
            np.testing.assert_allclose(over_threads(name, values, mask), want, 1e-5)
