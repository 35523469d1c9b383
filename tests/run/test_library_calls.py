"""Library calls between kernels: operands and results are arrays of the caller's library, also in the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import dtypes, expr
from polyfuse.affine import Affine
from polyfuse.expr import Argument, Call, Node, Program
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services, Traced

M, N = Affine.symbol("M"), Affine.symbol("N")


@dataclass(frozen=True)
class Fixed(NumPyFrontend):
    """A frontend that traces every function to one program of x[M, N] and y[N, M]."""

    call: Call = Call("matmul")

    def trace(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *rest: Any) -> Traced:
        m = M if args[0].shape[0] else Affine.of(0)  # letters are of sizes above 0
        x, y = expr.input_(0, (m, N), dtypes.f32), expr.input_(1, (N, m), dtypes.f32)
        product = expr.opaque(self.call, (expr.map_("exp", (x,)), y), (m, m), dtypes.f32)
        last = expr.map_("add", (product, product))
        outputs: tuple[Node, ...] = (last, product)
        arguments = (Argument("x", (m, N), dtypes.f32), Argument("y", (N, m), dtypes.f32))
        program = Program("f", arguments, outputs, ("z", "p"))
        return Traced(program, ((m, N), (N, m)), 2, "tuple", lambda outputs, sizes: tuple(outputs))


def jitted(call: Call) -> Jitted:
    services = Services(Fixed(call), plan_program, backend, target_of)
    return Jitted(lambda x, y: None, Options(), services)


X = np.random.default_rng(0).standard_normal((30, 20)).astype(np.float32)
Y = np.ascontiguousarray(X.T)


def test_a_library_function_between_two_kernels() -> None:
    f = jitted(Call("matmul"))
    for x, y in ((X, Y), (X[::-1], Y[:, ::-1]), (X[:0], Y[:, :0])):
        total, product = f(x, y)
        np.testing.assert_allclose(product, np.exp(x) @ y, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total, 2 * (np.exp(x) @ y), rtol=1e-4, atol=1e-5)
    steps = [type(step).__name__ for step in f.plan(X, Y).steps]
    assert steps.count("LibraryCall") == 1
    assert (steps[0], steps[-1]) == ("Launch", "Launch")


def test_settings_and_the_users_own_function() -> None:
    seen: list[Any] = []

    def product(a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
        seen.append(type(a))
        return (a @ b * scale).astype(np.float32)

    total, _ = jitted(Call("mine", (("scale", 0.5),), product))(X, Y)
    np.testing.assert_allclose(total, np.exp(X) @ Y, rtol=1e-4, atol=1e-5)
    assert seen == [np.ndarray]


def test_out_and_bind_of_library_results() -> None:
    f = jitted(Call("matmul"))
    out = np.zeros((30, 30), np.float32), np.zeros((30, 30), np.float32)
    f(X, Y, out=out)
    np.testing.assert_allclose(out[0], 2 * (np.exp(X) @ Y), rtol=1e-4, atol=1e-5)
    bound = f.bind(X, Y)
    np.testing.assert_allclose(bound()[1], np.exp(X) @ Y, rtol=1e-4, atol=1e-5)


def test_torch_calls_torch() -> None:
    torch = pytest.importorskip("torch")
    total, product = jitted(Call("matmul"))(torch.from_numpy(X), torch.from_numpy(Y))
    assert isinstance(total, torch.Tensor)
    np.testing.assert_allclose(product.numpy(), np.exp(X) @ Y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
def test_torch_searches_among_nan_infinities_and_zeros_as_numpy_does(side: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    special = [-np.inf, -2.0, -0.0, 0.0, 1.5, np.inf, np.nan, np.nan] if dtype[0] == "f" else [0, 1, 7, 7, 100]
    values = np.array(special, dtype)
    f = pf.jit(lambda x, v: np.searchsorted(x, v, side=side))
    found = f(torch.from_numpy(values), torch.from_numpy(values[::-1].copy()))
    assert np.array_equal(found.numpy(), np.searchsorted(values, values[::-1], side=side))
