"""The element types that programs may have, and NumPy 2's promotion between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.  `name` is the short spelling of specs (``f32``), `kind` one of ``b i u f``."""

    name: str
    numpy: np.dtype[np.generic]
    kind: str

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def compute(self) -> DType:
        """The type of a value in registers: 16-bit floats compute in float32 and round at stores."""
        return f32 if self.kind == "f" and self.numpy.itemsize == 2 else self

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, DType) and self.name == other.name

    def __hash__(self) -> int:
        """Of the name alone, which says all: prices look up accesses by shape, type and place."""
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


bool_ = DType("bool", np.dtype(np.bool_), "b")
i8, i16, i32, i64 = (DType(f"i{n}", np.dtype(f"int{n}"), "i") for n in (8, 16, 32, 64))
u8, u16, u32, u64 = (DType(f"u{n}", np.dtype(f"uint{n}"), "u") for n in (8, 16, 32, 64))
f16 = DType("f16", np.dtype(np.float16), "f")
bf16 = DType("bf16", np.dtype(ml_dtypes.bfloat16), "f")
f32 = DType("f32", np.dtype(np.float32), "f")
f64 = DType("f64", np.dtype(np.float64), "f")

ALL = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
BY_NAME = {t.name: t for t in ALL}
_BY_NUMPY = {t.numpy: t for t in ALL}


def from_numpy(dtype: npt.DTypeLike) -> DType | None:
    """The `DType` for a NumPy dtype in native byte order, or None when polyfuse has no such type."""
    candidate = np.dtype(dtype)
    return _BY_NUMPY.get(candidate) if candidate.isnative else None


def integer_limits(dtype: DType) -> np.iinfo[Any]:
    """The least and the largest number of an integer dtype.  Raises ValueError for others."""
    return np.iinfo(dtype.numpy)


def promote(a: DType, b: DType) -> DType:
    """NumPy 2 promotion of two strong types; bfloat16 with float16 gives float32, as in ml_dtypes."""
    if a == b:
        return a
    if bf16 in (a, b):
        other = b if a == bf16 else a
        if other.kind in "biu":
            return bf16 if other.itemsize <= 1 else (f32 if other.itemsize <= 2 else f64)
        return f32 if other == f16 else other
    found = from_numpy(np.promote_types(a.numpy, b.numpy))
    assert found is not None
    return found


def promote_weak(strong: DType, scalar: type) -> DType:
    """The type of ``strong array (op) Python scalar`` (NEP 50): the scalar only lifts the kind."""
    if scalar is bool:
        return strong
    if scalar is int:
        return i64 if strong.kind == "b" else strong
    if scalar is float:
        return strong if strong.is_float else f64
    raise TypeError(f"no weak promotion for {scalar.__name__}")
