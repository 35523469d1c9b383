"""Every strategy against float64: on the CPU, and the H200's schedules in the checking interpreter.

Sizes 0, 1, odd and larger; transposed, strided, reversed and unaligned arrays; ``--trials`` sets how many of each.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from tests.run.conftest import Jit
from tests.schedules.strategies import EXAMPLES, Example, assert_close, expected

INTERPRETED: dict[str, Any] = {"backend": "interpreter", "target": "h200"}


def seed(example: Example, trial: int) -> np.random.Generator:
    return np.random.default_rng([trial, zlib.crc32(example.name.encode())])


def check(jit: Jit, example: Example, trial: int, **options: Any) -> None:
    random = seed(example, trial)
    dtype = example.dtypes[trial % len(example.dtypes)]
    arrays = example.arrays(random, example.extents(random), dtype)
    got = jit(example.function, **options)(*arrays)
    assert_close(got, expected(example.function, arrays), arrays[0].dtype.name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "trial" in metafunc.fixturenames:
        count = metafunc.config.getoption("--trials")
        compiled = metafunc.function is test_cpu  # a few of the same trials: compiling takes longer
        metafunc.parametrize("trial", range(0, count, 3 if compiled else 1), ids=lambda trial: f"trial{trial}")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_strategy_asked_for(jit: Jit, example: Example) -> None:
    arrays = example.arrays(seed(example, 0), example.typical, example.dtypes[-1], "plain")
    value = example.value or jit(example.function).plan(*arrays).program.output_names[0]
    function = jit(example.function, strategies={value: example.strategy}, **INTERPRETED)
    assert example.strategy in [launch.schedule.strategy for launch in function.plan(*arrays).launches]
    assert_close(function(*arrays), expected(example.function, arrays), arrays[0].dtype.name)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_h200_schedules_in_the_interpreter(jit: Jit, example: Example, trial: int) -> None:
    check(jit, example, trial, **INTERPRETED)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_cpu(jit: Jit, example: Example, trial: int) -> None:
    check(jit, example, trial, backend="numba_cpu")
