"""``pf.custom``: a user's kernel as one statement of the plan, on arrays of the caller's library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cache.store import DiskStore
from polyfuse.errors import ArgumentError
from polyfuse.face.interpreted import run_plan
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services

Jit = Callable[..., Jitted]


@numba.njit
def running_maximum(x: Any, result: Any) -> None:
    for i in range(x.shape[0]):
        best = x[i, 0]
        for j in range(x.shape[1]):
            best = max(best, x[i, j])
            result[i, j] = best


def pairs(x: Any, y: Any, result: Any) -> None:
    result[...] = x[:, :1] + y


maximum = pf.custom(running_maximum, writes=lambda x: (x.shape, x.dtype))
paired = pf.custom(
    pairs, writes=lambda x, y: ((x.shape[0], y.shape[0]), x.dtype), name="paired", reads=("left", "right")
)
X = np.random.default_rng(0).standard_normal((6, 9)).astype(np.float32)


def program(x: Any) -> Any:
    y = maximum(x * 2)
    return y + 1


def wanted(x: np.ndarray) -> np.ndarray:
    return np.maximum.accumulate(x * 2, axis=1) + 1


def test_a_numba_kernel_between_two_fused_kernels(jit: Jit) -> None:
    f = jit(program)
    np.testing.assert_allclose(f(X), wanted(X))
    np.testing.assert_allclose(f(X[::-1, 1:]), wanted(X[::-1, 1:]))
    plan = f.plan(X)
    assert [type(step).__name__ for step in plan.steps] == ["Launch", "LibraryCall", "Launch"]
    assert [step.call.name for step in plan.library_calls] == ["running_maximum"]
    assert "call y = running_maximum(multiply)" in str(plan)
    np.testing.assert_allclose(run_plan(plan, [X])[0], wanted(X))


def test_inputs_go_in_and_results_come_out_without_copies(jit: Jit) -> None:
    f = jit(maximum_of)
    np.testing.assert_array_equal(f(X), np.maximum.accumulate(X, axis=1))
    assert [type(step).__name__ for step in f.plan(X).steps] == ["LibraryCall"]


def maximum_of(x: Any) -> Any:
    return maximum(x)


def test_several_operands_and_sizes(jit: Jit) -> None:
    f = jit(lambda x, y: paired(x, y) * 3)
    for rows, count in ((4, 5), (7, 2), (0, 3)):
        x, y = np.ones((rows, 3)), np.arange(float(count))
        np.testing.assert_array_equal(f(x, y), (x[:, :1] + y) * 3)
    assert "call paired = paired(left=x, right=y)" in str(f.plan(np.ones((4, 3)), np.ones(5)))


def test_outside_of_a_jitted_function() -> None:
    np.testing.assert_array_equal(maximum(X), np.maximum.accumulate(X, axis=1))
    with pytest.raises(ArgumentError, match="running_maximum needs an array"):
        maximum(3)
    with pytest.raises(ArgumentError, match="paired takes 2 operands, not 1"):
        paired(X)


def test_torch_tensors(jit: Jit) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    for found in (jit(program)(tensor), maximum(tensor * 2) + 1):
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.numpy(), wanted(X))


def test_a_launch_gets_all_arrays_and_the_kernel_its_configuration(jit: Jit) -> None:
    seen: list[Any] = []

    class Kernel:
        def __getitem__(self, configuration: Any) -> Callable[..., None]:
            def run(x: np.ndarray, result: np.ndarray) -> None:
                seen.append(configuration)
                result[...] = x + 5

            return run

    added = pf.custom(Kernel(), writes=lambda x: (x.shape, x.dtype), launch=lambda x, result: (result.size, 32))
    np.testing.assert_array_equal(jit(lambda x: added(x))(X), X + 5)
    assert seen == [(54, 32, 0)]


def test_two_kernels_of_one_name_stay_apart(jit: Jit) -> None:
    def make(value: float) -> Any:
        def fill(x: Any, result: Any) -> None:
            result[...] = value

        return pf.custom(fill, writes=lambda x: (x.shape, x.dtype))

    one, two = make(1.0), make(2.0)
    found = jit(lambda x: (one(x), two(x)))(X)
    assert [float(a[0, 0]) for a in found] == [1.0, 2.0]


def test_such_plans_are_not_kept_on_disk(tmp_path: Path) -> None:
    for function, kept in ((program, 0), (lambda x: x + 1, 1)):
        store = DiskStore(tmp_path / str(kept))
        services = Services(NumPyFrontend(), plan_program, backend, target_of, store)
        Jitted(function, Options(), services)(X)
        assert len([p for p in (tmp_path / str(kept)).rglob("*") if p.is_file() and "-" in p.name]) == kept
