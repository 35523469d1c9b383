"""What one entry of the collection is: a plain function, its arguments, and the kernels that it must become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Kernel:
    """`function` of the named arguments that `arguments` makes, floats in single precision.

    `h200`, `cpu`: launches of its plans for these targets; `calls`: library calls between them.  `options`: of the
    decorator, where the function writes into its arguments, say.  `tolerance`: relative to the largest result.
    """

    function: Callable[..., Any]
    arguments: Callable[[np.random.Generator], Mapping[str, Any]]
    h200: int
    cpu: int
    calls: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 2e-5

    @property
    def name(self) -> str:
        return self.function.__name__


def uniform(rng: np.random.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
    return rng.uniform(low, high, shape).astype(np.float32)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)
