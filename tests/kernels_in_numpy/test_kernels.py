"""Plain NumPy functions, decorated and otherwise unchanged: right results from the number of kernels expected."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from tests.kernels_in_numpy.kernel import Array, Kernel

TOPICS = (
    *("images", "linear_algebra", "stencils", "weather", "physics"),
    *("statistics", "finance", "signals", "deep_learning", "optimisers"),
    *("graphics", "recursions"),
)
KERNELS: list[Kernel] = [k for topic in TOPICS for k in import_module(f"tests.kernels_in_numpy.{topic}").KERNELS]


def leaves(value: Any) -> list[Array]:
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in leaves(part)]
    if dataclasses.is_dataclass(value):
        return [leaf for field in dataclasses.fields(value) for leaf in leaves(getattr(value, field.name))]
    return [np.asarray(value)]


def widened(value: Any) -> Any:
    """Floats in double precision."""
    if isinstance(value, Mapping):
        return {name: widened(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(widened, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: widened(getattr(value, field.name)) for field in dataclasses.fields(value)})
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float64) if is_float else copy.deepcopy(value)


def test_there_are_at_least_sixty() -> None:
    assert len({kernel.name for kernel in KERNELS}) >= 60


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_right_and_fused(kernel: Kernel) -> None:
    arguments = kernel.arguments(np.random.default_rng(0))
    expected = leaves(kernel.function(**widened(arguments)))
    jitted = pf.jit(**kernel.options)(kernel.function)
    lowered = jitted.lower(**arguments)
    plans = [pf.jit(target="h200", **kernel.options)(kernel.function).plan(**arguments), lowered.plan]
    assert [len(p.launches) for p in plans] == [kernel.h200, kernel.cpu], "\n\n".join(map(str, plans))
    assert len(plans[0].library_calls) == kernel.calls
    found = leaves(lowered.compile()(**copy.deepcopy(dict(arguments))))
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        scale = np.max(np.abs(e[np.isfinite(e)]), initial=1e-30)
        np.testing.assert_allclose(f, e, rtol=kernel.tolerance, atol=kernel.tolerance * scale)
