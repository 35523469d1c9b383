"""Arrays of libraries that polyfuse does not know, through open protocols: scalars, DLPack, CUDA Array Interface.

They are adopted without a copy by a library that is already imported, and outputs go back the same way.
Sources: DLPack's Python specification; the CUDA Array Interface, version 3; the Python array API standard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfuse.dtypes import from_numpy
from polyfuse.errors import ArgumentError
from polyfuse.run.libraries.numpy_arrays import as_plain, wrong_dtype

_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost


@dataclass(frozen=True, slots=True)
class Adopted:
    """`array` shares the memory of the foreign array; `back` makes the caller's kind of array of an output."""

    array: Any
    back: Callable[[Any], Any] | None = None


def adopt(value: Any) -> Adopted | None:
    """`value` as an array of a known library, or None where it speaks no array protocol.  Raises ArgumentError."""
    if isinstance(value, (np.generic, np.memmap)):
        if from_numpy(value.dtype) is None:  # said here, where the way to the argument is known
            raise wrong_dtype(value.dtype)
        return Adopted(as_plain(value))
    if hasattr(value, "__cuda_array_interface__"):
        return Adopted(_device_library()[0](value))
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _from_dlpack(value)
    return None


def _from_dlpack(value: Any) -> Adopted:
    on_host = value.__dlpack_device__()[0] in _DLPACK_HOST
    convert = np.from_dlpack if on_host else _device_library()[1]
    try:
        array = convert(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ArgumentError(f": the DLPack exchange failed: {error}", advice="Pass a NumPy array.") from None
    namespace = getattr(value, "__array_namespace__", None)
    own = namespace() if namespace is not None else sys.modules.get(type(value).__module__.partition(".")[0])
    return Adopted(array, getattr(own, "from_dlpack", None))


def _device_library() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Functions that adopt a CUDA Array Interface and a DLPack object, from the first library that is imported."""
    if (cupy := sys.modules.get("cupy")) is not None:
        return cupy.asarray, cupy.from_dlpack
    if (torch := sys.modules.get("torch")) is not None:
        return (lambda value: torch.as_tensor(value, device="cuda")), torch.from_dlpack
    cuda = sys.modules.get("numba.cuda")
    if cuda is not None:
        return cuda.as_cuda_array, lambda value: _no_dlpack(value)
    raise ArgumentError(" is a device array, but no array library is imported", advice="Import torch or cupy.")


def _no_dlpack(value: Any) -> Any:
    raise ArgumentError(f" is a {type(value).__name__}: Numba reads no DLPack objects", advice="Import torch or cupy.")
