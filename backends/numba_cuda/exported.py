"""How an exported CUDA program runs: this module's text is part of every exported file."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse.backends.exported import as_number, in_language
from polyfuse.backends.numba_cuda.fragments.runtime import namespace
from polyfuse.backends.numba_cuda.fragments.values import Fragment, Pointer, register_dtype
from polyfuse.backends.numba_cuda.numba_api import compile_ptx

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class ExportedLaunch:
    """One kernel: its function, parameters as (kind, dtype name), grid, and where each argument comes from.

    `arguments`: ``("argument", k)``, ``("output", k)``, ``("buffer", k)`` or ``("size", function of the sizes)``.
    """

    function: Callable[..., None]
    parameters: Sequence[tuple[str, str]]
    blocks: Callable[[Sizes], int]
    arguments: Sequence[tuple[str, Any]]
    threads: int
    cluster: int = 1


@dataclass
class ExportedProgram:
    """A fused program with everything that it needs to run on device arrays (``__cuda_array_interface__``).

    `arguments`: (name, dtype name, shape as size names or numbers; None for a scalar).  `buffers`: (dtype name, shape,
    whether it starts with zeros).  `guards`: (text, test).  `checks`: what is wrong where the status word, the last
    buffer, holds 1, 2, ...: data indices that may leave their array.  `copies`: results that are an argument or another
    result, with what they are; nothing computes them.
    """

    name: str
    arguments: Sequence[tuple[str, str, Sequence[str | int] | None]]
    outputs: Sequence[tuple[str, Callable[[Sizes], tuple[int, ...]]]]
    buffers: Sequence[tuple[str, Callable[[Sizes], tuple[int, ...]], bool]]
    guards: Sequence[tuple[str, Callable[[Sizes], bool]]]
    launches: Sequence[ExportedLaunch]
    index_bits: int = 32
    checks: Sequence[str] = ()
    copies: Sequence[tuple[tuple[str, int], tuple[str, int]]] = ()
    _loaded: dict[int, Any] = field(default_factory=dict)

    def __call__(self, *values: Any, stream: int = 0) -> Any:
        """Run on contiguous device arrays and numbers; returns one Numba device array, or a tuple of several.

        Raises TypeError for a wrong number of arguments and for what is no number, ValueError for sizes that the plan
        does not cover, and IndexError for data indices out of bounds, for which programs that have some wait.
        """
        from numba import cuda

        if len(values) != len(self.arguments):
            raise TypeError(f"{self.name} takes {len(self.arguments)} arguments, not {len(values)}")
        arrays = [
            as_number(v, name, dtype) if shape is None else cuda.as_cuda_array(v)
            for v, (name, dtype, shape) in zip(values, self.arguments, strict=True)
        ]
        sizes = self._sizes(arrays)
        outputs = [cuda.device_array(shape(sizes), np.dtype(dtype)) for dtype, shape in self.outputs]
        buffers = [_buffer(dtype, shape(sizes), zeroed, stream) for dtype, shape, zeroed in self.buffers]
        places = {"argument": arrays, "output": outputs, "buffer": buffers}
        for number, launch in enumerate(self.launches):
            blocks = launch.blocks(sizes)
            if blocks > 0:
                passed = [
                    _passed(p, a, places, sizes, self.index_bits)
                    for p, a in zip(launch.parameters, launch.arguments, strict=True)
                ]
                _launch(self._kernel(number), blocks * launch.cluster, launch.threads, passed, stream)
        for (to, k), (where, n) in self.copies:
            _copy(places[to][k], places[where][n], stream)
        self._check(buffers, stream)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _check(self, buffers: Sequence[Any], stream: int) -> None:
        if not self.checks:
            return
        from cuda.bindings import driver

        _checked(driver.cuStreamSynchronize(stream))
        if number := int(buffers[-1].copy_to_host()[0]):
            raise IndexError(self.checks[number - 1])

    def _sizes(self, arrays: Sequence[Any]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for array, (name, dtype, shape) in zip(arrays, self.arguments, strict=True):
            if shape is None:
                continue
            if array.ndim != len(shape) or array.dtype != np.dtype(dtype) or not array.is_c_contiguous():
                raise ValueError(f"{name} must be a contiguous {dtype} array of {len(shape)} dimensions")
            for n, wanted in zip(array.shape, shape, strict=True):
                known = sizes.setdefault(wanted, n) if isinstance(wanted, str) else wanted
                if known != n:
                    raise ValueError(f"{name} has an axis of {n} where {wanted} = {known}")
        for text, holds in self.guards:
            if not holds(sizes):
                raise ValueError(f"{self.name} was exported for sizes with {text}; these are {sizes}")
        return sizes

    def ptx(self, number: int, capability: tuple[int, int]) -> str:
        """The kernel of launch `number` as PTX; needs no device."""
        launch = self.launches[number]
        names = namespace(self.index_bits)
        types = tuple(_type(kind, dtype, names, self.index_bits) for kind, dtype in launch.parameters)
        function, bounds = in_language(launch.function, names), (launch.threads, 1)
        return compile_ptx(function, types, capability, bounds, cluster=launch.cluster)

    def _kernel(self, number: int) -> Any:
        if number not in self._loaded:
            from cuda.bindings import driver
            from numba import cuda

            device = cuda.get_current_device()
            text = self.ptx(number, device.compute_capability)
            module = _checked(driver.cuModuleLoadData(text.encode() + b"\0"))
            entry = text.split(".entry", 1)[1].split("(", 1)[0].strip()
            function = _checked(driver.cuModuleGetFunction(module, entry.encode()))
            if self.launches[number].cluster > 8:  # every device of sm_90 and later groups up to 8 without being asked
                larger = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                _checked(driver.cuFuncSetAttribute(function, larger, 1))
            self._loaded[number] = (module, function)
        return self._loaded[number][1]


def _buffer(dtype: str, shape: tuple[int, ...], zeroed: bool, stream: int) -> Any:
    from cuda.bindings import driver
    from numba import cuda

    memory = cuda.device_array(shape, np.dtype(dtype))
    if zeroed:
        _checked(driver.cuMemsetD8Async(memory.device_ctypes_pointer.value or 0, 0, memory.nbytes, stream))
    return memory


def _copy(target: Any, source: Any, stream: int) -> None:
    from cuda.bindings import driver

    at, there = (array.device_ctypes_pointer.value or 0 for array in (target, source))
    if target.size:  # the driver refuses copies of no bytes from nowhere
        _checked(driver.cuMemcpyDtoDAsync(at, there, target.size * target.dtype.itemsize, stream))


def _launch(function: Any, blocks: int, threads: int, values: Sequence[Any], stream: int) -> None:
    from cuda.bindings import driver

    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    _checked(driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, ctypes.addressof(pointers), 0))


def _checked(outcome: tuple[Any, ...]) -> Any:
    if int(outcome[0]):
        raise RuntimeError(f"the CUDA driver answered {outcome[0]}")
    return outcome[1] if len(outcome) > 1 else None


_CTYPES = {
    "boolean": ctypes.c_int8,
    **{f"{u}int{bits}": getattr(ctypes, f"c_{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def _passed(
    parameter: tuple[str, str],
    argument: tuple[str, Any],
    places: Mapping[str, Sequence[Any]],
    sizes: Sizes,
    index_bits: int,
) -> Any:
    (kind, dtype), (where, what) = parameter, argument
    if kind == "size":
        return (ctypes.c_int64 if index_bits == 64 else ctypes.c_int32)(what(sizes))
    if kind == "scalar":
        return _CTYPES.get(dtype, ctypes.c_float)(places[where][what])
    return ctypes.c_uint64(places[where][what].device_ctypes_pointer.value or 0)


def _type(kind: str, dtype: str, names: Mapping[str, Any], index_bits: int) -> Any:
    match kind:
        case "in" | "out":
            return Pointer(names[dtype], readonly=kind == "in")
        case "scalar":
            return Fragment(register_dtype(names[dtype]), (), weak=True)
        case _:
            return Fragment(names[f"int{index_bits}"], (), weak=True)
