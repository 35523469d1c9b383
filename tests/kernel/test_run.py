"""Hand-built kernels on both interpreters against NumPy, and against each other to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from polyfuse.backends.interpreter import run_kernel, run_source
from polyfuse.codegen.printer import print_kernel
from polyfuse.verify.kernel import verify_kernel
from tests.kernel import kernels


def run_both(case: kernels.Case) -> tuple[kernels.Arrays, kernels.Arrays]:
    direct = {n: a.copy() for n, a in case.arrays.items()}
    printed = {n: a.copy() for n, a in case.arrays.items()}
    verify_kernel(case.kernel)
    run_kernel(case.kernel, direct, case.sizes, case.scalars)
    text = print_kernel(case.kernel)
    run_source(text, case.kernel.name, case.kernel, printed, case.sizes, case.scalars)
    return direct, printed


def check(case: kernels.Case) -> None:
    direct, printed = run_both(case)
    for name, expected in case.expected.items():
        got = direct[name].astype(np.float64)
        np.testing.assert_allclose(got, expected.astype(np.float64), atol=case.tolerance, rtol=case.tolerance)
        np.testing.assert_array_equal(direct[name], printed[name])


@pytest.mark.parametrize("name", kernels.CASES)
def test_kernel_agrees_with_numpy(name: str) -> None:
    check(kernels.CASES[name]())


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_kind_of_scan(exclusive: bool, reverse: bool) -> None:
    check(kernels.cumsum(exclusive, reverse))


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_elections_do_not_depend_on_the_order_of_blocks(seed: int | None) -> None:
    case = kernels.column_sum()
    run_kernel(case.kernel, case.arrays, case.sizes, {}, seed=seed)
    np.testing.assert_allclose(case.arrays["y"], case.expected["y"], atol=1e-4)


def test_many_blocks_are_run_in_batches() -> None:
    case = kernels.softmax()
    x = kernels.normal(3000, 317, seed=5)
    y = np.zeros_like(x)
    run_kernel(case.kernel, {"x": x, "y": y}, {"M": 3000, "N": 317}, {})
    np.testing.assert_allclose(y.sum(1), 1, atol=1e-5)
