"""Updates in place against Python's loops: whatever index notation accepts computes what the loops compute.

The oracle visits the points of the target's indices in order and reads what the loops before it have left.  Ranges are
found by trying every point.  A refusal is an answer too: new values that are read along several indices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import IndexingError, UnsupportedError
from tests.frontend.ops import run

i, j = pf.indices("i j")
RNG = np.random.default_rng(0)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "max": lambda a, b: np.maximum(a, b),
    "min": lambda a, b: np.minimum(a, b),
    "step": lambda a, b: (3 * a - b) % 17,
}


@dataclass(frozen=True, slots=True)
class Statement:
    """``y[target] = operation(y[source], z[added])``, each a factor and an offset per index: ``y[2*i + 1, j - 1]``."""

    operation: str
    target: tuple[tuple[int, int], ...]
    source: tuple[tuple[int, int], ...]
    added: tuple[tuple[int, int], ...]

    def traced(self, x: Any, z: Any) -> Any:
        y = x.copy()
        indices = (i, j)[: len(self.target)]
        at = [tuple(f * n + c for (f, c), n in zip(s, indices, strict=True)) for s in self.subscripts()]
        y[at[0]] = OPERATIONS[self.operation](y[at[1]], z[at[2]])
        return y

    def by_loops(self, x: Any, z: Any) -> Any:
        y = x.copy()
        for point in product(range(-20, 21), repeat=x.ndim):
            at = [tuple(f * n + c for (f, c), n in zip(s, point, strict=True)) for s in self.subscripts()]
            if all(0 <= position < size for where in at for position, size in zip(where, x.shape, strict=True)):
                y[at[0]] = OPERATIONS[self.operation](y[at[1]], z[at[2]])
        return y

    def subscripts(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return self.target, self.source, self.added


def _drawn(rank: int) -> Statement:
    def subscript(factors: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple((int(RNG.choice(factors)), int(RNG.integers(-2, 3))) for _ in range(rank))

    operation = str(RNG.choice(list(OPERATIONS)))
    kind = RNG.random()
    factors = (1,) if kind < 0.6 else (1, -1) if kind < 0.8 else (1, 2)
    return Statement(operation, subscript(factors), subscript(factors), subscript((1,)))


STATEMENTS = [_drawn(1) for _ in range(120)] + [_drawn(2) for _ in range(80)]


def test_accepted_statements_equal_the_loops() -> None:
    accepted = 0
    for statement in STATEMENTS:
        shape = (7,) if len(statement.target) == 1 else (4, 5)
        x, z = (RNG.integers(-3, 4, shape).astype(np.int64) for _ in range(2))
        try:
            found = run(statement.traced, x, z)
        except (IndexingError, UnsupportedError):
            continue
        accepted += 1
        np.testing.assert_array_equal(found, statement.by_loops(x, z), err_msg=str(statement))
    assert accepted >= 0.85 * len(STATEMENTS)


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("operation", ["+", "*", "max", "min"])
def test_one_step_behind_is_a_scan_along_either_axis(operation: str, axis: int, step: int) -> None:
    behind = tuple((1, -1 if k == axis else 0) for k in range(2))
    here = ((1, 0), (1, 0))
    forward = Statement(operation, here, behind, here)
    ahead = Statement(operation, here, tuple((1, -c) for _, c in behind), here)
    x, z = (RNG.integers(-3, 4, (4, 5)).astype(np.int64) for _ in range(2))
    statement = forward if step < 0 else ahead
    np.testing.assert_array_equal(run(statement.traced, x, z), statement.by_loops(x, z))
