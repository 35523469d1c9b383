"""The namespace under test: ``ARRAY_API_TESTS_MODULE=tests.array_api.namespace``.

Every function of arrays is jitted for itself.  Not jitted is what computes no array: dtypes, constants, `finfo`,
`result_type` and their kin, and the making of an array from Python numbers or foreign memory.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import polyfuse as pf
from tests.array_api import signatures
from tests.array_api.array import Array
from tests.array_api.compiled import functions

__array_api_version__ = "2025.12"
__version__ = pf.__version__

# ---------------------------------------------------------------------------------------------- dtypes, constants

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
e, pi, inf, nan, newaxis = np.e, np.pi, np.inf, np.nan, None

_KINDS = {
    "bool": [bool],
    "signed integer": [int8, int16, int32, int64],
    "unsigned integer": [uint8, uint16, uint32, uint64],
    "real floating": [float32, float64],
    "complex floating": [],
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"]


class _Info:
    """What ``__array_namespace_info__()`` gives: no complex dtypes, no shapes that depend on values."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> tuple[Any, ...]:
        return ("cpu",)

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        return {"real floating": float64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        return {d.name: d for k in kinds for d in _KINDS[k]}


def __array_namespace_info__() -> _Info:
    return _Info()


# ---------------------------------------------------------------------------------------------- metadata


def _dtype_of(value: Any) -> Any:
    return value.dtype if isinstance(value, Array) else value


def finfo(type: Any, /) -> Any:
    found = np.finfo(_dtype_of(type))
    limits = {n: float(getattr(found, n)) for n in ("eps", "max", "min", "smallest_normal")}
    return SimpleNamespace(bits=found.bits, dtype=found.dtype, **limits)


def iinfo(type: Any, /) -> Any:
    found = np.iinfo(_dtype_of(type))
    return SimpleNamespace(bits=found.bits, dtype=found.dtype, max=int(found.max), min=int(found.min))


def isdtype(dtype: Any, kind: Any) -> Any:
    return np.isdtype(dtype, kind)


def can_cast(from_: Any, to: Any, /) -> Any:
    return np.can_cast(_dtype_of(from_), to)


def result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*map(_dtype_of, arrays_and_dtypes))


def broadcast_shapes(*shapes: Any) -> Any:
    return np.broadcast_shapes(*shapes)


# ---------------------------------------------------------------------------------------------- arrays from outside

_copied = pf.jit(lambda x: x.copy())


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Array:
    """Python numbers and buffers become memory; an array is cast or copied by a jitted function."""
    if not isinstance(obj, Array):
        return Array(np.array(_unwrapped(obj), dtype=dtype, copy=copy))
    if dtype is not None and dtype != obj.dtype:
        if copy is False:
            raise ValueError("a cast needs a copy")
        return astype(obj, dtype)  # type: ignore[name-defined, no-any-return]  # noqa: F821
    return Array(np.asarray(_copied(obj.data))) if copy else obj


def _unwrapped(obj: Any) -> Any:
    if isinstance(obj, (list, tuple)):
        return [_unwrapped(part) for part in obj]
    return obj.data if isinstance(obj, Array) else obj


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Array:
    return Array(np.from_dlpack(x, device=device, copy=copy))


# ---------------------------------------------------------------------------------------------- jitted functions

for _table in (signatures.ELEMENTWISE, signatures.OTHERS, signatures.CREATION):
    globals().update(functions(_table, "", Array))
linalg = SimpleNamespace(**functions(signatures.LINALG, "linalg.", Array))
fft = SimpleNamespace(**functions(signatures.FFT, "fft.", Array))
