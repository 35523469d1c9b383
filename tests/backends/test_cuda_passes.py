"""Kernels through the few of Numba's passes that they need: the same PTX as through all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf

pytestmark = pytest.mark.ptx


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def covariance(x: Any, y: Any) -> Any:
    return ((x - x.mean(axis=0)) * (y - y.mean(axis=0))).mean(axis=0)


def smoothed(x: Any) -> Any:
    return (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.2


CASES = [
    (softmax, ("f32[N~16384, 4096]",)),
    (softmax, ("bf16[N~16384, 777]",)),  # ends of rows are masked
    (covariance, ("f32[30000, 301]", "f32[30000, 301]")),  # names assigned again, in loops and in one branch
    (smoothed, ("f32[4001, 4003]",)),
    (lambda x, w: np.maximum(x @ w, 0), ("f32[512, 512]", "f32[512, 512]")),
    (lambda x: np.cumsum(x, axis=1), ("i32[N~4096, 3001]",)),
]


def texts(function: Callable[..., Any], specs: tuple[str, ...]) -> list[str]:
    """PTX of each kernel, without the numbers by which Numba tells functions of one name apart."""
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.face.numba_cuda import CudaBackend

    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    jobs = [CudaBackend().job(launch, plan) for launch in plan.launches]
    made = [compile_kernel(job.source, job.name, job.parameters, **job.settings).ptx for job in jobs if job]
    return [re.sub(r"B\d+v\d+", "", text) for text in made]


@pytest.mark.parametrize(("function", "specs"), CASES)
def test_the_ptx_is_that_of_all_passes(
    function: Callable[..., Any], specs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.cuda import types
    from numba.cuda.compiler import compile_cuda

    from polyfuse.backends.numba_cuda import numba_api

    def with_all(
        kernel: Any, arguments: Any, capability: Any, *, fastmath: bool, options: dict[str, Any]
    ) -> Any:
        return compile_cuda(
            kernel, types.void, arguments, fastmath=fastmath, nvvm_options=options, cc=capability, abi="numba"
        )

    few = texts(function, specs)
    monkeypatch.setattr(numba_api, "_lowered", with_all)
    assert few and texts(function, specs) == few


def test_what_is_known_of_a_call_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.cuda.target import CUDATypingContext

    asked: list[tuple[Any, ...]] = []
    resolved = CUDATypingContext.resolve_function_type

    def counted(self: Any, func: Any, args: Any, kws: Any) -> Any:
        asked.append((func, tuple(args), tuple(kws)))
        return resolved(self, func, args, kws)

    monkeypatch.setattr(CUDATypingContext, "resolve_function_type", counted)
    texts(softmax, ("f32[N~16384, 2304]",))
    first = len(asked)
    texts(softmax, ("f32[N~16384, 2304]",))
    assert len(asked) == first == len(set(asked))


@pytest.mark.parametrize(("function", "specs"), [*CASES, (softmax, ("f32[512, 262144]",))])
def test_nothing_takes_the_fragments_that_are_left_out(
    function: Callable[..., Any], specs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyfuse.backends.numba_cuda import numba_api

    without = texts(function, specs)
    monkeypatch.setattr(numba_api, "_drop_unused", lambda function: None)
    assert without and texts(function, specs) == without


def test_fragments_are_left_out_but_where_a_loop_carries_them() -> None:
    from polyfuse.backends.numba_cuda.numba_api import _drop_unused, ir, packed

    f32, i1 = ir.FloatType(), ir.IntType(1)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [f32, i1]), "f")
    value, again = function.args
    entry, loop, after = (function.append_basic_block() for _ in range(3))
    b, pair = ir.IRBuilder(entry), ir.LiteralStructType([f32, f32])
    first = packed(b, pair, [value, value])
    packed(b, pair, [value, ir.Constant(f32, 0.0)])  # nothing takes it
    b.branch(loop)
    b.position_at_end(loop)
    carried = b.phi(pair)
    carried.add_incoming(first, entry)
    carried.add_incoming(carried, loop)
    b.cbranch(again, loop, after)
    b.position_at_end(after)
    b.ret_void()
    _drop_unused(function)
    lines = [line for line in str(function).splitlines() if "insertvalue" in line]
    assert len(lines) == 2 and "undef, float" in lines[0] and lines[1].strip().startswith(first.get_reference())
