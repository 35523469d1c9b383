"""The array object of the standard: a NumPy array as memory, with every operation done by a jitted function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Any

import numpy as np

import polyfuse as pf

_NUMBERS = (bool, int, float)


class Array:
    """An array of the namespace under test.  Only metadata, Python numbers and memory are NumPy's."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data

    # ------------------------------------------------------------------------------------------ metadata
    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def device(self) -> str:
        return "cpu"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        if device != "cpu":
            raise ValueError(f"unknown device {device!r}")
        return self

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        from tests.array_api import namespace

        return namespace

    def __dlpack__(
        self, /, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return self.data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self.data.__dlpack_device__()

    def __repr__(self) -> str:
        return f"Array({self.data!r})"

    __hash__ = None  # type: ignore[assignment]

    # ------------------------------------------------------------------------------------------ Python numbers
    def __bool__(self) -> bool:
        return bool(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __complex__(self) -> complex:
        return complex(self.data)

    def __index__(self) -> int:
        return self.data.__index__()

    def __len__(self) -> int:
        return len(self.data)

    # ------------------------------------------------------------------------------------------ views
    @property
    def T(self) -> Array:
        return Array(np.asarray(_transposed(self.data)))

    @property
    def mT(self) -> Array:
        return Array(np.asarray(_matrix_transposed(self.data)))

    def __iter__(self) -> Iterator[Array]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any, /) -> Array:
        layout, values = _split(key)
        return Array(np.asarray(_taken(self.data, values, layout)))

    def __setitem__(self, key: Any, value: Any, /) -> None:
        layout, values = _split(key)
        self.data = np.asarray(_written(self.data, values, layout, getattr(value, "data", value)))


def _split(key: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """An index as its layout, which is part of the program, and its numbers and arrays, which are not."""
    layout: list[Any] = []
    values: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, Array) or (isinstance(part, int) and not isinstance(part, bool)):
            layout.append("value")
            values.append(part.data if isinstance(part, Array) else part)
        elif isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            layout.append(("slice", *(None if b is None else b.__index__() for b in bounds)))
        elif part is None or isinstance(part, (EllipsisType, bool)):
            layout.append(part)
        else:
            raise IndexError(f"{type(part).__name__} is no index")
    return tuple(layout), values


def _joined(layout: tuple[Any, ...], values: list[Any]) -> tuple[Any, ...]:
    rest = iter(values)
    return tuple(
        next(rest) if part == "value" else slice(*part[1:]) if isinstance(part, tuple) else part for part in layout
    )


@pf.jit(static=("layout",))
def _taken(x: Any, values: Any, layout: Any) -> Any:
    return x[_joined(layout, values)]


@pf.jit(static=("layout",), donate=("x",))
def _written(x: Any, values: Any, layout: Any, value: Any) -> Any:
    x[_joined(layout, values)] = value
    return x


@pf.jit
def _transposed(x: Any) -> Any:
    return x.T


@pf.jit
def _matrix_transposed(x: Any) -> Any:
    return x.mT


# ---------------------------------------------------------------------------------------------- operators

_BINARY = """add sub mul truediv floordiv mod pow matmul and or xor lshift rshift eq ne lt le gt ge""".split()
_REFLECTED = """add sub mul truediv floordiv mod pow matmul and or xor lshift rshift""".split()
_UNARY = "neg pos abs invert".split()


def _binary(name: str, reflected: bool, in_place: bool) -> Callable[[Array, Any], Any]:
    """The method of one operator, jitted for itself; ``x += y`` gives `x` the new memory."""

    def operate(x: Any, other: Any) -> Any:
        if name == "floordiv":  # `//` of a traced array is NumPy's, and an array of the standard has the standard's
            return x.__array_namespace__().floor_divide(*((other, x) if reflected else (x, other)))
        if in_place:
            x = x.copy()
            return getattr(x, f"__i{name}__")(other)
        return getattr(x, f"__{'r' if reflected else ''}{name}__")(other)

    jitted = pf.jit(operate)

    def method(self: Array, other: Any, /) -> Any:
        if not isinstance(other, (Array, *_NUMBERS)):
            return NotImplemented
        result = np.asarray(jitted(self.data, getattr(other, "data", other)))
        if not in_place:
            return Array(result)
        self.data = result
        return self

    return method


def _unary(name: str) -> Callable[[Array], Array]:
    jitted = pf.jit(lambda x: getattr(x, f"__{name}__")())
    return lambda self, /: Array(np.asarray(jitted(self.data)))


for _name in _BINARY:
    setattr(Array, f"__{_name}__", _binary(_name, False, False))
for _name in _REFLECTED:
    setattr(Array, f"__r{_name}__", _binary(_name, True, False))
    setattr(Array, f"__i{_name}__", _binary(_name, False, True))
for _name in _UNARY:
    setattr(Array, f"__{_name}__", _unary(_name))
