"""Other compilers and libraries behind one interface, so that one definition of a program runs through all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import polyfuse as pf
from benchmarks.programs import Program

Function = Callable[..., Any]


def bound(program: Program, namespace: Any) -> Function:
    """The program over one namespace, as a function of its arrays alone."""
    code = program.code
    match len(program.inputs):
        case 1:
            return lambda a: code(namespace, a)
        case 2:
            return lambda a, b: code(namespace, a, b)
        case 3:
            return lambda a, b, c: code(namespace, a, b, c)
        case 4:
            return lambda a, b, c, d: code(namespace, a, b, c, d)
        case count:
            assert count == 5, f"{program.name} takes {count} arrays"
            return lambda a, b, c, d, e: code(namespace, a, b, c, d, e)


class TorchNamespace:
    """The words of NumPy that the programs use, in torch's."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def maximum(self, x: Any, y: Any) -> Any:
        return self._torch.clamp(x, min=y) if isinstance(y, (int, float)) else self._torch.maximum(x, y)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return self._torch.amax(x, dim=axis, keepdim=keepdims)

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self._torch.sum(x, dim=axis, keepdim=keepdims)

    def mean(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self._torch.mean(x, dim=axis, keepdim=keepdims)

    def concatenate(self, arrays: Any, axis: int = 0) -> Any:
        return self._torch.cat(tuple(arrays), dim=axis)

    def take_along_axis(self, x: Any, index: Any, axis: int) -> Any:
        return self._torch.gather(x, axis, index)


def polyfuse_function(program: Program) -> Any:
    return pf.jit(bound(program, np), **dict(program.options))


def in_order(function: Function) -> Function:
    """`function` with results in C order, which polyfuse's and JAX's are: torch leaves those of a transposed argument
    in its order, and has then not moved anything."""

    def contiguous(*arrays: Any) -> Any:
        found = function(*arrays)
        return tuple(r.contiguous() for r in found) if isinstance(found, tuple) else found.contiguous()

    return contiguous


def torch_peers(program: Program, names: frozenset[str], torch: Any) -> Iterator[tuple[str, Function]]:
    """Eager torch and torch.compile in its modes, for the names asked for; on torch tensors."""
    eager = in_order(bound(program, TorchNamespace(torch)))
    if "torch" in names:
        yield "torch", eager
    modes = {"torch.compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}
    for name, mode in modes.items():
        if name in names:
            torch._dynamo.reset()
            yield name, torch.compile(eager, mode=mode, dynamic=False)


def jax_peer(program: Program, tensors: list[Any]) -> Function:
    """`jax.jit`, on JAX arrays that share the memory of the torch tensors."""
    import jax
    import jax.numpy as jnp

    function = jax.jit(bound(program, jnp))
    arrays = [jax.dlpack.from_dlpack(t) for t in tensors]
    return lambda *_: function(*arrays)


def cupy_fuse_peer(program: Program, tensors: list[Any]) -> Function | None:
    """`cupy.fuse`, where it takes the program (elementwise, no bfloat16); None elsewhere."""
    import cupy

    if any(i.dtype == "bf16" for i in program.inputs):
        return None
    arrays = [cupy.from_dlpack(t) for t in tensors]
    function = cupy.fuse(bound(program, cupy))
    with suppress(Exception):  # whatever it does not take, it refuses by some exception of its own
        function(*arrays)
        return lambda *_: function(*arrays)
    return None
