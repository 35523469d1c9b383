"""Building small fragment kernels for the CPU tests: expressions in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.backends.numba_cpu.compile import CompiledKernel, compile_kernel
from polyfuse.kernel import ArrayParameter, Parameter, ScalarParameter, SizeParameter

SLOTS = 40  # one whole vector and a shorter one


def array(name: str, dtype: np.dtype[Any], readonly: bool = True) -> ArrayParameter:
    found = dtypes.from_numpy(dtype)
    assert found is not None
    return ArrayParameter(name, found, (Affine.symbol("N"),), readonly=readonly)


def size(name: str) -> SizeParameter:
    return SizeParameter(name)


def scalar(name: str, dtype: dtypes.DType) -> ScalarParameter:
    return ScalarParameter(name, dtype)


def build(source: str, parameters: Sequence[Parameter], **options: Any) -> CompiledKernel:
    return compile_kernel(source, "kernel", parameters, **options)


def address(values: np.ndarray[Any, Any]) -> int:
    return int(values.__array_interface__["data"][0])


def evaluate(
    expressions: Sequence[str], inputs: Mapping[str, np.ndarray[Any, Any]], results: Sequence[Any]
) -> list[np.ndarray[Any, Any]]:
    """Every expression over 1-d inputs of one length, by one kernel with masked tails; `results` are their dtypes."""
    count = len(next(iter(inputs.values())))
    names = list(inputs)
    outputs = [np.empty(count, dtype) for dtype in results]
    lines = [
        f"T = Tile(({SLOTS},), (1,), vector={SLOTS})",
        f"def kernel({', '.join([*names, *(f'out{k}' for k in range(len(outputs)))])}, n):",
        f"    at = {SLOTS} * block(0)",
        f"    here = inside(n - 1 - at - slots(({SLOTS},), 0))",
        *(f"    {name} = load({name}, at, T, mask=here)" for name in names),
        *(f"    store(out{k}, at, T, {expression}, mask=here)" for k, expression in enumerate(expressions)),
    ]
    parameters: list[Parameter] = [array(name, values.dtype) for name, values in inputs.items()]
    parameters += [array(f"out{k}", out.dtype, readonly=False) for k, out in enumerate(outputs)]
    kernel = build("\n".join(lines), [*parameters, size("n")])
    columns = [np.ascontiguousarray(values) for values in inputs.values()]
    kernel.run((-(-count // SLOTS),), [*map(address, columns), *map(address, outputs), count])
    return outputs
