"""Printed kernels type and lower in the compiled runtime: no GPU needed, but its compiler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyfuse.codegen.names import function_name
from polyfuse.codegen.printer import print_kernel
from tests.kernel import kernels


@pytest.mark.ptx
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", kernels.CASES)
def test_printed_kernels_compile_to_ptx(name: str, bits: int) -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    kernel = replace(kernels.CASES[name]().kernel, index_bits=bits)
    entry = function_name(kernel.name)
    compiled = compile_kernel(print_kernel(kernel), entry, kernel.parameters, kernel.threads, (9, 0), 1, bits)
    assert ".entry" in compiled.ptx
