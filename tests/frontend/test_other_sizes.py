"""A program traced for some sizes is right for every other size that its guards allow: all cases, several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.errors import ArgumentError
from polyfuse.frontends.numpy_like import Traced, specs_of_arrays, trace
from polyfuse.reference import evaluate
from tests.frontend.ops import Case, assert_same
from tests.frontend.test_shapes import ALL
from tests.frontend.test_updates import CASES

EVERY = ALL | {f"update: {name}": case for name, case in CASES.items()}
CHANGES = {"twice": lambda n: 2 * n, "one more": lambda n: n + 1, "less": lambda n: max(n - 1, 2), "two": lambda n: 2}


def allowed(traced: Traced, given: list[Any], arrays: list[Any]) -> bool:
    """Whether the guards hold for `arrays`; sizes 0 and 1 are another class."""
    sizes: dict[str, int] = {}
    for spec, array in zip(given, arrays, strict=True):
        for size, n in zip(spec.shape, array.shape, strict=True):
            if size.is_constant:
                if size.constant != n:
                    return False
            elif n < 2:
                return False
            else:
                sizes[str(size)] = n
    return all(guard.holds(sizes) for guard in traced.guards)


def changed(case: Case, change: str) -> Case:
    shapes = tuple(tuple(CHANGES[change](n) if n > 1 else n for n in shape) for shape in case.shapes)
    return Case(case.function, shapes, case.dtypes, case.low, case.high)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_guards_are_sufficient(name: str) -> None:
    case = EVERY[name]
    arguments = case.arguments()
    given = specs_of_arrays(arguments)
    traced = trace(case.function, given)
    for change in CHANGES:
        arrays = changed(case, change).arguments(1)
        if not allowed(traced, given, arrays):
            continue
        try:
            wanted = case.function(*(a.copy() for a in arrays))
        except IndexError:
            continue  # an index out of bounds depends on values
        got = traced.rebuild(evaluate(traced.program, [*arrays, *traced.captured]), {})
        assert_same(got, wanted)


def test_most_programs_serve_other_sizes() -> None:
    """Guards that always fail would make the test above empty."""
    served = 0
    for case in EVERY.values():
        given = specs_of_arrays(case.arguments())
        traced = trace(case.function, given)
        served += any(allowed(traced, given, changed(case, change).arguments()) for change in CHANGES)
    assert served > 0.6 * len(EVERY)


def test_a_call_of_other_sizes_is_refused_by_the_evaluator() -> None:
    traced = trace(lambda x: x + np.ones(4), specs_of_arrays([np.ones(4)]))
    with pytest.raises(ArgumentError, match="a size of 5"):
        evaluate(traced.program, [np.ones(5)])
