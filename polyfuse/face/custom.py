"""``pf.custom``: a user's own kernel as one planned statement between fused kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError
from polyfuse.expr import Call
from polyfuse.run.libraries import library_of

Writes = Callable[..., tuple[Any, Any]]
Launch = Callable[..., tuple[Any, Any]]


def custom(
    kernel: Callable[..., Any],
    *,
    writes: Writes,
    launch: Launch | None = None,
    name: str | None = None,
    reads: Sequence[str] = (),
) -> Custom:
    """A function for use inside jitted functions (and outside) that runs ``kernel(*operands, result)``.

    `kernel` writes its last argument in place and reads the others: a Python function, a Numba CPU function, or a
    ``numba.cuda`` kernel, which needs ``launch(*operands, result) -> (grid, block)``; it is launched on the caller's
    stream.  It gets arrays of the caller's library; Numba CPU functions get NumPy views of host tensors.  ``writes
    (*operands) -> (shape, dtype)`` describes the result, of traced arrays and of real ones.  `reads`: names of the
    operands, for the plan's text.  Plans show the call as a boundary, fuse nothing into it, and are not kept on disk.
    Raises ArgumentError for what cannot be called.
    """
    indexed = launch is not None and hasattr(kernel, "__getitem__")  # kernel[grid, block](...) is what is called
    called = {"kernel": writes if indexed else kernel, "writes": writes, "launch": writes if launch is None else launch}
    for what, value in called.items():
        if not callable(value):
            raise ArgumentError(f"pf.custom: {what} is a {type(value).__name__}, which cannot be called")
    if not isinstance(reads, (tuple, list)) or not all(isinstance(operand, str) for operand in reads):
        raise ArgumentError(f"pf.custom: reads={reads!r}", advice='Name the operands: reads=("x", "y").')
    shown = name or getattr(kernel, "__name__", None) or type(kernel).__name__
    return Custom(_Kernel(kernel, launch), writes, shown, tuple(reads))


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What the call runs: ``kernel(*operands, result)``, launched where it is a CUDA kernel."""

    kernel: Callable[..., Any]
    launch: Launch | None

    def __call__(self, *arrays: Any, stream: int) -> None:
        if self.launch is not None:
            grid, block = self.launch(*arrays)
            self.kernel[grid, block, _stream(stream)](*arrays)  # type: ignore[index]
        elif _is_numba(self.kernel):
            self.kernel(*map(_host_view, arrays))
        else:
            self.kernel(*arrays)


def _stream(handle: int) -> Any:
    """The caller's stream as Numba takes it; whoever made the kernel has imported numba.cuda."""
    return sys.modules["numba.cuda"].external_stream(handle) if handle else 0


def _is_numba(kernel: Any) -> bool:
    return type(kernel).__module__.partition(".")[0] == "numba"


def _host_view(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else np.asarray(array)


@dataclass(frozen=True, slots=True)
class Custom:
    """A user's kernel as a function of arrays."""

    kernel: _Kernel
    writes: Writes
    name: str
    reads: tuple[str, ...]

    def __call__(self, *operands: Any) -> Any:
        """The result: traced inside a jitted function, else a new array of the operands' library."""
        from polyfuse.frontends.numpy_like.lifting import traces_in

        if self.reads and len(operands) != len(self.reads):
            raise ArgumentError(f"{self.name} takes {len(self.reads)} operands, not {len(operands)}")
        trace = next(iter(traces_in(operands)), None)
        return self._now(operands) if trace is None else trace.run(self._traced, trace, operands)

    def _traced(self, trace: Any, operands: Sequence[Any]) -> Any:
        from polyfuse.frontends.numpy_like.boundaries import opaque
        from polyfuse.frontends.numpy_like.lifting import lift

        tracers = [lift(trace, operand) for operand in operands]
        call = Call(self.name, (("reads", self.reads),), self.kernel, in_place=True)
        return opaque(call, tracers, *self.writes(*tracers))

    def _now(self, operands: Sequence[Any]) -> Any:
        from polyfuse.frontends.numpy_like.specs import numpy_dtype

        found = [(library, o) for o in operands if (library := library_of(type(o))) is not None]
        if not found:
            raise ArgumentError(f"{self.name} needs an array", advice="Give it one, or call it in a jitted function.")
        library, first = found[0]
        shape, dtype = self.writes(*operands)
        extents = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        device = library.facts(first).device
        result = library.allocator(extents, numpy_dtype(dtype), device)()
        self.kernel(*operands, result, stream=library.stream(device)())
        return result
