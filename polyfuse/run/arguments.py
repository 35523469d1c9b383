"""Reading the arguments of a call: a hashable key of everything a plan may depend on, and the values of its leaves.

The order of leaves is that of the frontend's trees: containers in order, dictionaries in insertion order.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import numbers
import re
import types
from collections.abc import Callable, Iterator, MappingView, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse.attributes import further_attributes, is_dtype_of_torch
from polyfuse.dtypes import BY_NAME
from polyfuse.errors import ArgumentError
from polyfuse.run.arrays import Library
from polyfuse.run.foreign import adopt
from polyfuse.run.libraries import library_of

SCALARS = frozenset((bool, int, float))
_SPEC = re.compile(r"\s*(\w+)\s*\[.*\]\s*")
INT64 = range(-(1 << 63), 1 << 63)
_LEAF = "leaf"
_PARAMETER = "<parameter>"  # its name, which is known where all parameters are read
_DECLARE = f"If it never changes, declare it: jit(static=({_PARAMETER},))."
IMMUTABLE = (
    str,
    bytes,
    type,
    enum.Enum,
    np.dtype,
    types.FunctionType,
    types.BuiltinFunctionType,
    np.ufunc,
    type(np.sum),  # NumPy's own kind of function
    types.ModuleType,
    types.EllipsisType,
    range,
    slice,
)

LIBRARIES: dict[type, Library | None] = {}  # of every type of argument seen so far; None where it is no array


def known_library(kind: type) -> Library | None:
    """The library that reads arrays of type `kind` as they are; None for anything else.  Raises ArgumentError."""
    if kind not in LIBRARIES:
        LIBRARIES[kind] = None if issubclass(kind, (np.generic, np.memmap)) else library_of(kind)
    return LIBRARIES[kind]


def same(a: Any, b: Any) -> bool:
    """Whether two Python values are the same to a program: type and value, the sign of zero, NaN equal to itself."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is complex:
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, np.generic):
        return bool(a.dtype == b.dtype) and a.tobytes() == b.tobytes()
    if isinstance(a, (frozenset, range, slice, numbers.Number)):
        return bool(a == b) and exact(a) == exact(b)
    return bool(a == b)


def exact(value: Any) -> Any:
    """What tells values apart that equality and type do not: 0.0 and -0.0, (1,) and (1.0,), also in each other."""
    if isinstance(value, numbers.Number) and not isinstance(value, int):
        return repr(value)
    if isinstance(value, range):  # which is equal to others of the same numbers
        return value.start, value.stop, value.step
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    if isinstance(value, (tuple, frozenset)):
        parts = ((type(item), exact(item)) for item in value)
        return frozenset(parts) if isinstance(value, frozenset) else tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = [getattr(value, f.name, None) for f in dataclasses.fields(value)]
        return tuple((type(item), exact(item)) for item in held)
    return None


def _beyond(value: int) -> ArgumentError:
    if 0 < value < 1 << 64:
        advice = "Pass np.uint64(...), which has a dtype of its own, or declare it static."
        return ArgumentError(f" = {value} is beyond int64, in which Python integers are passed", advice=advice)
    return ArgumentError(f" = {value} does not fit 64 bits", advice="Pass a float, or declare it static.")


def refuse_texts(names: Sequence[str], arguments: Sequence[Any], static: frozenset[str]) -> None:
    """Raise ArgumentError for the text of a spec where the spec is meant: a text is a part of the program."""
    for name, value in zip(names, arguments, strict=True):
        for text in value if isinstance(value, (tuple, list)) else (value,):
            found = None if name in static or not isinstance(text, str) else _SPEC.fullmatch(text)
            if found and found[1] in BY_NAME:
                raise ArgumentError(
                    f"{name} = {text!r} is a text, not the spec of an array",
                    advice=f"Write pf.spec({text!r}), or static={name!r} where the function takes texts.",
                )


@dataclass(frozen=True, slots=True, eq=False)
class Receiver:
    """The object whose method is called: the same only as itself, whatever it says it equals."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return type(other) is Receiver and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(slots=True)
class Reading:
    """What one call passed.

    `key`: equal for calls that may share a prepared record.  `structure`: the part of it that is nesting and static
    values.  `values`: the address of each array leaf, the value of each scalar leaf.  `leaves`: the leaves themselves,
    arrays in their library's plain type.  `others`: leaves that are neither (tracers, specs), which `accepts` let
    pass.  `back`: how the caller's kind of array is made from an output, where it is not one of the libraries'.
    """

    accepts: Callable[[Any], bool]
    key: list[Any] = field(default_factory=list)
    structure: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    leaves: list[Any] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    back: Callable[[Any], Any] | None = None

    def add(self, value: Any) -> None:
        """Read one argument.  Raises ArgumentError; containers put the way to the leaf in front of its message."""
        kind = type(value)
        if kind in SCALARS:
            if kind is int and value not in INT64:
                raise _beyond(value)
            self.key.append(kind)
            self._leaf(value, value)
        elif (library := known_library(kind)) is not None:
            key, pointer = library.read(value)
            self.key += key
            self._leaf(value, pointer)
        elif kind is tuple or kind is list:
            self._children((kind, len(value)), value, "[{}]", range(len(value)))
        elif kind is dict:
            self._children((kind, *_keys(value)), value.values(), "[{!r}]", value)
        elif value is None:
            self.token(None)
        else:
            self._other(value)

    def _leaf(self, leaf: Any, value: Any) -> None:
        self.structure.append(_LEAF)
        self.values.append(value)
        self.leaves.append(leaf)

    def token(self, token: Any) -> None:
        self.key.append(token)
        self.structure.append(token)

    def _children(self, token: Any, children: Any, step: str, names: Any) -> None:
        self.token(token)
        for name, child in zip(names, children, strict=True):
            try:
                self.add(child)
            except ArgumentError as error:
                raise ArgumentError(step.format(name) + error.message, advice=error.advice) from None

    def _other(self, value: Any) -> None:
        """Everything that is not one of the common kinds."""
        kind = type(value)
        if self.accepts(value):
            self.token(_LEAF)
            self.others.append(value)
        elif isinstance(value, dict):
            self.token(Receiver(getattr(value, "default_factory", None)))
            self._children((kind, *_keys(value)), value.values(), "[{!r}]", value)
            self._further(value)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            self._children((kind, len(value)), value, ".{}", value._fields)
            self._further(value)
        elif isinstance(value, (tuple, list)):
            self._children((kind, len(value)), value, "[{}]", range(len(value)))
            self._further(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [f.name for f in dataclasses.fields(value)]
            self._children((kind, tuple(names)), [getattr(value, n) for n in names], ".{}", names)
            self._further(value, names)
        elif isinstance(value, np.character):  # np.str_ is a str
            self.add_static(value, declared=False)
        elif (adopted := adopt(value)) is not None:
            self.back = self.back or adopted.back
            self.add(adopted.array)
        else:
            self.add_static(value, declared=False)

    def _further(self, value: Any, fields: Sequence[str] = ()) -> None:
        """What an instance of a user's class has besides its items or fields."""
        passed, others = further_attributes(value, fields)
        self._children(tuple(passed), passed.values(), ".{}", passed)
        self.token(tuple(others))

    def add_static(self, value: Any, *, declared: bool) -> None:
        """A value that becomes part of the program.  Raises ArgumentError unless it is immutable by nature or the user
        declared it static."""
        kind, seen = type(value), exact(value)
        if not declared and not isinstance(value, IMMUTABLE) and not is_dtype_of_torch(value):
            problem = f" is a {kind.__name__}, neither an array, a number nor a container of them"
            raise ArgumentError(problem, advice=_instead(value))
        if kind is slice:  # hashable since Python 3.12 only
            value = (slice, value.start, value.stop, value.step)
        if not _is_hashable(value):
            advice = "Use a frozenset." if isinstance(value, set) else "Use a tuple or a frozen dataclass."
            raise ArgumentError(f" is static but not hashable: {kind.__name__}", advice=advice)
        self.token((type(value), value, seen))


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _instead(value: Any) -> str:
    """What to pass in place of an object that is no argument."""
    if isinstance(value, complex):
        return "Pass the real and the imaginary part as two numbers."
    if hasattr(value, "to_numpy"):
        return "Pass its values: to_numpy()."
    if isinstance(value, (set, frozenset)):
        return f"Pass tuple(...) of it; or make it a frozenset, and declare it: jit(static=({_PARAMETER},))."
    if isinstance(value, (Iterator, MappingView)):
        return "Pass list(...) of it."
    if isinstance(value, bytearray):
        return "Pass bytes(...) of it, or np.frombuffer(..., np.uint8), an array."
    if isinstance(value, types.SimpleNamespace) or not _is_hashable(value):
        return "Pass a dataclass, or a dictionary of what it holds, such as vars(...) of it."
    return _DECLARE


def _keys(value: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys of a dictionary, and what equality does not tell of them."""
    keys = tuple(value)
    return (keys,) if set(map(type, keys)) <= {str} else (keys, exact(keys))


def read_arguments(
    names: Sequence[str],
    arguments: Sequence[Any],
    static: frozenset[str],
    accepts: Callable[[Any], bool],
    receiver: Receiver | None = None,
) -> Reading:
    """Read bound arguments; those named in `static` are taken as they are, those that `accepts` become `others`.
    `receiver`: stands for the first one."""
    reading = Reading(accepts)
    for name, value in zip(names, arguments, strict=True):
        try:
            if receiver is not None and name == names[0]:
                reading.token(receiver)
            elif name in static:
                reading.add_static(value, declared=True)
            else:
                reading.add(value)
        except ArgumentError as error:
            advice = error.advice.replace(_PARAMETER, f'"{name}"')
            raise ArgumentError(f"{name}{error.message}", advice=advice) from None
        except RecursionError:
            advice = "Pass arrays in tuples, lists and dictionaries of a few levels."
            raise ArgumentError(f"{name} holds itself, or is nested too deeply", advice=advice) from None
    return reading
