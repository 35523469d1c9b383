"""NumPy arrays that a traced function finds outside of it, as the function sees them: they tell what looks at elements.

What meets a tracer becomes an argument of the program, and is read at each call.  What Python or NumPy itself reads of
an array while the function runs (``W.sum()``, ``W[0]``, ``W * 2``) is a constant of the program, which holds for these
contents alone: the array is then `read`.

    W.shape, len(W)               nothing is read
    W[1:], W.T, np.flip(W)        a view, which watches the same array
    W[i]                          at indices of the trace, as an argument of the program
    W * x                         the other operand decides: a tracer takes the array as an argument
    everything else               is done with the plain array, which is read; arrays among the results are watched for
                                  nothing, because code in C would read others through them (``(W * 2)[V]``)

The recorder holds no trace, and works as an ordinary array when the trace is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from polyfuse.overlap import share_elements

Plain = np.ndarray[Any, Any]

_METADATA = frozenset(
    """shape ndim size zeros_like ones_like empty_like may_share_memory shares_memory result_type can_cast common_type
    iscomplexobj isrealobj isfortran broadcast_shapes iterable""".split()
)
"""Functions of NumPy's that look at no elements."""

_VIEWS = frozenset(
    """transpose permute_dims matrix_transpose reshape ravel swapaxes moveaxis rollaxis squeeze expand_dims broadcast_to
    broadcast_arrays atleast_1d atleast_2d atleast_3d flip flipud fliplr rot90 diagonal split array_split hsplit vsplit
    dsplit unstack real asarray asanyarray ascontiguousarray asfortranarray sliding_window_view as_strided""".split()
)
"""Functions of NumPy's that read nothing where their results are views."""


class Reads(list[Plain]):
    """Arrays that are read.  `adopt`: makes an array of the program of one that was made while tracing, where the
    function writes values of the trace into such."""

    adopt: Callable[[Plain], Any] | None = None


class Source:
    """An array of the user's.  `reads`: where it is listed once its contents count."""

    __slots__ = ("array", "is_read", "reads")

    def __init__(self, array: Plain, reads: list[Plain], is_read: bool = False) -> None:
        self.array, self.reads, self.is_read = array, reads, is_read

    def read(self) -> None:
        if not self.is_read:
            self.is_read = True
            self.reads.append(self.array)


class Watched(np.ndarray):
    """The memory of an array, or of a view of one.  `_plain`: that array as it is without a trace; `_source`: what is
    read where elements are looked at, which for arrays that were made while tracing is nothing more."""

    __slots__ = ("_plain", "_source")
    _plain: Plain
    _source: Source | None  # None where code made one of this class anew
    is_plain = True  # for what takes arrays and knows no traces

    @staticmethod
    def of(plain: Plain, source: Source | None) -> Watched:
        """`plain`, which is the array of `source` or a view of it."""
        made = np.ndarray.view(plain, Watched)
        made._plain, made._source = plain, source
        return made

    def __array_finalize__(self, obj: Any) -> None:
        """Views and copies that NumPy's own code makes of `obj`, as ``np.float32(W)`` does."""
        self._plain = np.ndarray.view(self, np.ndarray)
        self._source = None
        if isinstance(obj, Watched):
            if not self.size or share_elements(self._plain, obj._plain):
                self._source = obj._source
            else:
                obj._read()

    def tells(self, reads: list[Plain]) -> bool:
        """Whether what is read of it is listed in `reads`."""
        return self._source is not None and self._source.reads is reads

    def _read(self) -> None:
        if self._source is not None:
            self._source.read()

    # ------------------------------------------------------------------------------------------ protocols of NumPy's
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operands = (*inputs, *kwargs.get("out", ()), kwargs.get("where"))
        others = [v for v in operands if not isinstance(v, np.ndarray) and _decides(type(v))]
        if others:  # those of a trace take arrays as arguments, and others look at elements
            if not all(map(_is_ours, others)):
                _read_all(in_values(operands))
            return NotImplemented
        return _computed(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        others = [kind for kind in types if not issubclass(kind, np.ndarray)]
        if others:
            if not all((kind.__module__ or "").startswith("polyfuse.") for kind in others):
                _read_all(in_values((*args, *kwargs.values())))
            return NotImplemented
        return applied(function, args, kwargs)

    # ------------------------------------------------------------------------------------------ items
    def __getitem__(self, key: Any) -> Any:
        index = _unknown(key if type(key) is tuple else (key,))
        if index is not None:  # elements that data choose: the array is an argument, as with np.take
            return type(index)(index.state, index.state.capture(self))[key]
        _read_all(in_values((key,)))
        return _viewed(self._plain[plain(key)], [self])

    def __setitem__(self, key: Any, value: Any) -> None:
        """What is written is no element that is looked at; the value and the index are."""
        _read_all(in_values((key, value)))
        self._plain[plain(key)] = plain(value)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(len(self)))

    def __setattr__(self, name: str, value: Any) -> None:
        """``W.shape = 3, 4`` is of the user's array as well."""
        if name not in Watched.__slots__:
            setattr(self._plain, name, plain(value))
        if name not in ("flat", "real", "imag"):
            super().__setattr__(name, value)

    def __bytes__(self) -> bytes:
        self._read()
        return bytes(self._plain)


def _decides(kind: type) -> bool:
    """Whether objects of a class say what a ufunc of them is."""
    return getattr(kind, "__array_ufunc__", None) is not None


def _is_ours(value: Any) -> bool:
    """Whether a value belongs to a trace."""
    return (type(value).__module__ or "").startswith("polyfuse.")


def _unknown(keys: Iterable[Any]) -> Any:
    """The first of these indices that is an array of a trace, or one of its numbers whose value it does not know; of
    elements that a mask chooses the whole array."""
    for key in keys:
        if getattr(type(key), "is_selection", False):
            return key.array
        is_traced = not isinstance(key, np.ndarray) and _decides(type(key)) and _is_ours(key)
        if not is_traced or getattr(key, "weak", 0) is not None:  # Python's numbers stand for their values
            continue
        if key.sizes or key.state.run(key.state.scalar_value, key.node) is None:
            return key
    return None


# ---------------------------------------------------------------------------------------------- plain arrays


def plain(value: Any) -> Any:
    """`value` with plain arrays in place of watched ones, in tuples, lists, dictionaries and slices too."""
    kind = type(value)
    if kind is Watched:
        return value._plain
    if kind in _NESTED and in_values((value,)):
        if kind is dict:
            return {plain(key): plain(v) for key, v in value.items()}
        if kind is slice:
            return slice(plain(value.start), plain(value.stop), plain(value.step))
        return kind(map(plain, value))
    return value


_NESTED = (tuple, list, dict, slice)
_LOOKED_AT = frozenset((Watched, *_NESTED))  # most values are tracers


def in_values(values: Iterable[Any]) -> list[Watched]:
    """The watched arrays among nested values."""
    found: list[Watched] = []
    _collect(values, found)
    return found


def _collect(values: Iterable[Any], found: list[Watched]) -> None:
    for value in values:
        kind = type(value)
        if kind not in _LOOKED_AT:
            continue
        if kind is Watched:
            found.append(value)
        elif kind is tuple or kind is list:
            _collect(value, found)
        elif kind is dict:
            _collect(value.values(), found)
        else:
            _collect((value.start, value.stop, value.step), found)


def read(array: Any) -> Any:
    """The plain array of a watched one, whose contents count from here on; anything else as it is."""
    if type(array) is Watched:
        array._read()
        return array._plain
    return array


def read_values(values: Any) -> Any:
    """As `plain`, of values that code which tells nothing looks at."""
    _read_all(in_values((values,)))
    return plain(values)


def _read_all(arrays: Iterable[Watched]) -> None:
    for array in arrays:
        array._read()


# ---------------------------------------------------------------------------------------------- what is computed


def made(result: Any, reads: list[Plain]) -> Any:
    """Arrays that were made while tracing, which nothing else changes: other watched arrays may index them."""
    kind = type(result)
    if kind is np.ndarray:
        adopt = reads.adopt if isinstance(reads, Reads) else None
        if adopt is not None and result.dtype.kind in "biuf":
            return adopt(result)
        return result if result.dtype.hasobject else Watched.of(result, Source(result, reads, is_read=True))
    if kind is tuple or kind is list:
        return kind(made(part, reads) for part in result)
    return result


REAL = frozenset((np.ndarray, tuple, list))
"""Kinds of results that may be, or hold, arrays which were made while tracing."""


def applied(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], reads: list[Plain] | None = None
) -> Any:
    """The result of a function of NumPy's.  `reads`: where the trace lists arrays that are read."""
    given = in_values((*args, *kwargs.values()))
    if not given:
        result = function(*args, **kwargs)
        return result if reads is None else made(result, reads)
    name = getattr(function, "__name__", "")
    function = np.zeros_like if name == "empty_like" else function  # the same contents in every trace
    if name in _METADATA:
        return wrapped(function(*plain(args), **plain(kwargs)), given)
    if name in _VIEWS:
        return _viewed(function(*plain(args), **plain(kwargs)), given)
    return _computed(function, args, kwargs)


def called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of code that is not NumPy's, and may look at elements in ways of its own."""
    given = in_values((*args, *kwargs.values()))
    _read_all(given)
    result = function(*plain(args), **plain(kwargs))
    return wrapped(result, given) if given else result


def _computed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function that looks at elements."""
    given = in_values((*args, *kwargs.values()))
    result = function(*plain(args), **plain(kwargs))
    if not _is_ours(result):  # with a tracer among the operands they are arguments
        _read_all(given)
    return wrapped(result, given)


def _viewed(result: Any, given: Sequence[Watched]) -> Any:
    """The result of what makes views, where it can."""
    if not all(_is_view(part, given) for part in (result if isinstance(result, (list, tuple)) else (result,))):
        _read_all(given)
    return wrapped(result, given)


def _is_view(result: Any, given: Sequence[Watched]) -> bool:
    if type(result) is not np.ndarray:  # views of other classes tell nothing
        return False
    return not result.size or any(share_elements(result, array._plain) for array in given)


def wrapped(result: Any, given: Sequence[Watched]) -> Any:
    """Arrays among the results as watched ones: those that lie in what was given as views of it."""
    if type(result) is np.ndarray and not result.dtype.hasobject:
        for array in given:
            if result is array._plain:
                return array
        seen = next((array for array in given if share_elements(result, array._plain)), None)
        if seen is not None:
            return Watched.of(result, seen._source)
        source = given[0]._source
        return result if source is None else made(result, source.reads)
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return result._make(wrapped(part, given) for part in result)
    if type(result) in (tuple, list):
        return type(result)(wrapped(part, given) for part in result)
    return result


# ---------------------------------------------------------------------------------------------- methods

_OF_OBJECTS = frozenset(dir(object)) - {"__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__"}
_SILENT = frozenset(
    """shape ndim size dtype itemsize nbytes strides device __len__ __class_getitem__ __dlpack_device__
    __array_priority__ __array_namespace__ __array_wrap__ __delitem__""".split()
)
_OF_MEMORY = frozenset("flags setflags".split())  # which the user's array has
_VIEWING = frozenset("T mT real reshape transpose swapaxes squeeze ravel diagonal view".split())


def _method(name: str, original: Any, finish: Callable[[Any, Sequence[Watched]], Any]) -> Any:
    """A method of arrays that is one of the plain array."""

    @wraps(original)
    def method(self: Watched, *args: Any, **kwargs: Any) -> Any:
        given = [self, *in_values((*args, *kwargs.values()))]
        result = getattr(self._plain, name)(*plain(args), **plain(kwargs))
        return result if _is_ours(result) else finish(result, given)

    return method


def _attribute(name: str, finish: Callable[[Any, Sequence[Watched]], Any]) -> property:
    def attribute(self: Watched) -> Any:
        return finish(getattr(self._plain, name), [self])

    def assign(self: Watched, value: Any) -> None:
        raise AssertionError(f"{name} is assigned by `__setattr__`")

    return property(attribute, assign)


def _of_elements(result: Any, given: Sequence[Watched]) -> Any:
    _read_all(given)
    return wrapped(result, given)


def _as_it_is(result: Any, given: Sequence[Watched]) -> Any:
    return result


def _fill() -> None:
    """All other methods and attributes of NumPy's arrays, those of later versions too: they look at elements."""
    operators = vars(NDArrayOperatorsMixin).keys()  # which are ufuncs
    Watched.__module__, Watched.__name__, Watched.__qualname__ = "numpy", "ndarray", "ndarray"  # in errors
    for name in set(dir(np.ndarray)) - operators - _OF_OBJECTS - _SILENT - vars(Watched).keys():
        original = getattr(np.ndarray, name)
        if original is None:
            continue
        finish = _viewed if name in _VIEWING else _as_it_is if name in _OF_MEMORY else _of_elements
        made = _method(name, original, finish) if callable(original) else _attribute(name, finish)
        setattr(Watched, name, made)


_fill()
