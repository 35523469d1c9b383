"""The array that the user's function computes with while it is traced.

A tracer looks at a buffer through a path of views.  Buffers hold the current node: writing replaces it, so that other
views of the buffer see the write, as in NumPy, while every node stays immutable (SSA).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from polyfuse.affine import Affine, dimensions
from polyfuse.dtypes import DType
from polyfuse.errors import TraceError
from polyfuse.expr import Input, Node, Shape, topological
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.locations import called_by, here
from polyfuse.frontends.numpy_like.operators import Operators
from polyfuse.frontends.numpy_like.refusals import ATTRIBUTES, AttributeRefused, masked_array
from polyfuse.frontends.numpy_like.sizes import Size, SymbolicSize, size_of
from polyfuse.frontends.numpy_like.specs import is_array
from polyfuse.frontends.numpy_like.state import Trace, located
from polyfuse.frontends.numpy_like.strides import Strides, of_shape, of_view
from polyfuse.frontends.numpy_like.updater import Updater

# What an operator takes, if only to say in an error that it does not; anything else may define the operator itself.
_OPERANDS: tuple[type, ...] = (SymbolicSize, bool, int, float, complex, str, bytes, list, tuple, type(None), Sequence)


@dataclass(slots=True)
class Buffer:
    """Memory that tracers share.  `owner` names the argument whose memory it is, when writing is an error; `is_array`
    tells an array of rank 0 from a scalar of NumPy's, which no two names share."""

    node: Node
    owner: str = ""
    is_array: bool = False


class Unassigned(Buffer):
    """Memory whose shape and dtype follow from its first assignment in index notation: ``C = pf.empty()``."""

    __slots__ = ("dtype", "name", "value")

    def __init__(self, name: str, dtype: Any = None) -> None:
        self.name, self.dtype, self.owner, self.is_array = name, dtype, "", True
        self.value: Node | None = None

    @property
    def node(self) -> Node:
        if self.value is None:
            raise located(
                TraceError(
                    f"{self.name} has no value yet: its shape follows from its first assignment",
                    advice=f"Assign it in index notation, {self.name}[i, j] = ..., or give a shape: pf.zeros((n, m)).",
                )
            )
        return self.value

    @node.setter
    def node(self, node: Node) -> None:
        self.value = node


@dataclass(frozen=True, slots=True)
class Path:
    """A view of a buffer: point p reads ``buffer[index(p)]``; buffer point q lies in the view where all of `where` are
    >= 0, at ``inverse(q)``.  `inverse` is None where the view cannot be written, `strides` where they are not even."""

    shape: Shape
    index: tuple[Affine, ...]
    inverse: tuple[Affine, ...] | None
    where: tuple[Affine, ...] = ()
    strides: Strides | None = field(default=None, compare=False)

    def then(self, other: Path) -> Path:
        """The view `other` of this view."""
        at = {f"%{k}": e for k, e in enumerate(other.index)}
        index = tuple(e.substitute(at) for e in self.index)
        strides = of_view(self.strides, other.index, len(other.shape))
        if self.inverse is None or other.inverse is None:
            return Path(other.shape, index, None, (), strides)
        back = {f"%{k}": e for k, e in enumerate(self.inverse)}
        inverse = tuple(e.substitute(back) for e in other.inverse)
        where = self.where + tuple(c.substitute(back) for c in other.where)
        return Path(other.shape, index, inverse, where, strides)


def whole(shape: Shape) -> Path:
    points = dimensions(len(shape))
    return Path(shape, points, points, (), of_shape(shape))


def number(x: Tracer) -> Tracer:
    """What `x` of rank 0 holds now, as NumPy's scalars: in memory of its own, which later writes do not reach."""
    return Tracer(x.state, x.node, whole(()))


def as_array(x: Tracer) -> Tracer:
    """`x`, or where NumPy has a scalar an array of rank 0 with its value, in memory that views may share."""
    if not x.is_scalar or x.buffer.owner:
        return x
    return Tracer(x.state, Buffer(x.node, is_array=True))


def as_argument(x: Tracer, otherwise: str) -> str:
    """What to write where `x` has to be a number that is known: NumPy's numbers are arrays of rank 0 as arguments, and
    only Python's are asked for their values."""
    if x.path is not None or not isinstance(x.node, Input) or not x.buffer.owner:
        return otherwise
    return f"Pass a Python integer: int({x.buffer.owner}); a number of NumPy's is an array here."


def as_number(x: Tracer, otherwise: str) -> str:
    """The same where Python asks whether something holds that follows from numbers of NumPy's alone."""
    inputs = [node for node in topological([x.node]) if isinstance(node, Input)] if not x.sizes else []
    if not inputs or any(node.shape for node in inputs):
        return otherwise
    passed = "Pass a Python number, as int() and float() make it: a number of NumPy's is an array here."
    return f"{passed} Or {otherwise[0].lower()}{otherwise[1:]}"


def _leads(other: Any) -> bool:
    """Whether `other` decides what an operation with a tracer is, by NumPy's own convention."""
    return bool(getattr(other, "__array_priority__", 0) > Tracer.__array_priority__)


class Tracer(Operators["Tracer"]):
    """An array of unknown values.  Operators, methods and NumPy functions build the tensor DAG.

    `weak`: bool, int or float for Python scalars, which only lift the kind of what they meet (NEP 50).
    """

    __slots__ = ("_seen", "_view", "buffer", "path", "state", "weak")
    __array_priority__ = 1000
    is_leaf = True

    def __init__(self, trace: Trace, node: Node | Buffer, path: Path | None = None, weak: type | None = None) -> None:
        self.state = trace
        self.buffer = node if isinstance(node, Buffer) else Buffer(node)
        self.path = path
        self.weak = weak
        self._seen: Node | None = None
        self._view: Node | None = None

    # ------------------------------------------------------------------------------------------ value
    @property
    def node(self) -> Node:
        """The value now."""
        if self.path is None:
            return self.buffer.node
        if self._view is None or self._seen is not self.buffer.node:
            self._seen = self.buffer.node
            self._view = nodes.view(self.buffer.node, self.path.shape, self.path.index)
        return self._view

    @property
    def assigned(self) -> bool:
        """Whether there is a value: arrays made by ``pf.empty()`` have none before their first assignment."""
        return not isinstance(self.buffer, Unassigned) or self.buffer.value is not None

    @property
    def sizes(self) -> Shape:
        """The shape as affine expressions."""
        return self.buffer.node.shape if self.path is None else self.path.shape

    @property
    def element(self) -> DType:
        return self.buffer.node.dtype

    def through(self, path: Path) -> Tracer:
        """A tracer of the same memory through one more view; scalars have none, and what they hold is copied."""
        base = self.path or whole(self.buffer.node.shape)
        return Tracer(self.state, as_array(self).buffer, base.then(path))

    # ------------------------------------------------------------------------------------------ attributes
    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(size_of(self.state, n) for n in self.sizes)

    @shape.setter
    def shape(self, shape: Any) -> None:
        """``x.shape = (3, 4)``: the same memory seen through another shape."""
        seen = self.state.call("reshape", self, shape)
        if seen.buffer is not self.buffer:
            self._refuse("this shape needs a copy of the array", "Write x = x.reshape(shape), which may be a copy.")
        self.path, self._seen = seen.path, None

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    @property
    def is_number(self) -> bool:
        """Whether NumPy would have a scalar here: of rank 0, and no array that was passed in."""
        return not self.sizes and not (self.path is None and self.weak is None and isinstance(self.node, Input))

    @property
    def is_scalar(self) -> bool:
        """Whether it is no array, which others see written, but a value: of rank 0, and made as one or passed in."""
        return not self.buffer.is_array and not self.buffer.node.rank

    @property
    def exact_value(self) -> float | None:
        """Of a Python float that the caller passes, or that follows from such: its value, fixed for the trace."""
        if self.weak is not float:
            return None
        found = self.state.run(self.state.scalar_value, self.node)
        return None if found is None else float(found)

    @property
    def size(self) -> Size:
        return size_of(self.state, *self.sizes, Affine.of(1))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.element.numpy

    @dtype.setter
    def dtype(self, dtype: Any) -> NoReturn:
        self._refuse(
            "x.dtype = ... takes the memory of an array for other numbers",
            "Write x = x.view(dtype) for its bits, or x = x.astype(dtype) for its values.",
        )

    @property
    def itemsize(self) -> int:
        return self.element.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    @property
    def T(self) -> Tracer:
        return self.state.call("transpose", self)  # type: ignore[no-any-return]

    @property
    def mT(self) -> Tracer:
        return self.state.call("matrix_transpose", self)  # type: ignore[no-any-return]

    @property
    def real(self) -> Tracer:
        return self

    @real.setter
    def real(self, value: Any) -> None:
        """``x.real = 3``: all of a real array."""
        self[...] = value

    def conj(self) -> Tracer:
        """The array itself; ``np.conj(x)`` gives a copy."""
        return self

    conjugate = conj

    @property
    def imag(self) -> Tracer:
        return self.state.call("imag", self)  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> NoReturn:
        self._refuse("arrays are real, and have no imaginary part to set", "Keep the imaginary part in another array.")

    @property
    def flat(self) -> Tracer:
        """``x.flat``: what is written into it is written into `x`, however that lies in memory."""
        return self.state.call("flat", self)  # type: ignore[no-any-return]

    @flat.setter
    def flat(self, values: Any) -> None:
        """``x.flat = values``: in C order, over and over where they are fewer."""
        self.state.call("refill", self, values)

    @property
    def at(self) -> Updater:
        """``x.at[index].set(value)`` and friends: a changed copy."""
        return Updater(self, None)

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """In place, as in NumPy; ``np.sort(x)`` gives a sorted copy."""
        self[...] = self.state.call("sort", self, axis, kind, order, stable=stable)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """In place, as in NumPy; ``np.partition(x, kth)`` gives a copy."""
        self[...] = self.state.call("partition", self, kth, axis, kind, order)

    def compress(self, condition: Any, axis: int | None = None) -> Tracer:
        """``np.compress(condition, x, axis)``: as a method, with the array first."""
        return self.state.call("compress", condition, self, axis)  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        return "cpu"

    def __getattr__(self, name: str) -> Callable[..., Tracer]:
        """Methods: the public functions with the array as first argument."""
        if name in METHODS and name in self.state.functions:
            return lambda *args, **kwargs: self.state.call("method", name, self, args, kwargs)
        if name in ("tolist", "item", "tobytes", "tofile", "dump", "dumps"):
            self._refuse(f"x.{name}() needs the values of an array", ATTRIBUTES[name])
        if self.weak is not None and not name.startswith("_") and hasattr(self.weak, name):  # n.bit_length()
            return getattr(self._value(f"n.{name}", "Pass the number as an argument."), name)  # type: ignore[no-any-return]
        if name in ATTRIBUTES:
            message = f"arrays in a jitted function have no attribute {name!r}"
            raise located(AttributeRefused(message, advice=ATTRIBUTES[name]))
        raise AttributeError(f"arrays in a jitted function have no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *METHODS})

    # ------------------------------------------------------------------------------------------ NumPy protocols
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(_leads(x) for x in inputs):
            return NotImplemented
        return self.state.call("ufunc", ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.state.call("function", function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return self.state.call("namespace", self.state)

    def __array__(self, dtype: Any = None, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        """Of a number that the caller passes, ``np.float32(n)``, which its value is fixed for; no array has any."""
        location = here()
        if self.weak is None or self.state.ended or (location is not None and location.stores_item):
            self._refuse_real_array()
        return np.array(self._value("NumPy", "Cast it with x.astype(np.float32)."), dtype)

    def _refuse_real_array(self) -> NoReturn:
        location = here()
        if location is not None and location.stores_item:
            problem = "this writes a traced array into a real NumPy array, which is not part of the program"
            advice = "Write into a copy that the function makes, a = a.copy(), and return that."
            if not self.state.ended:
                self.state.refuse_write(located(TraceError(problem, advice=advice)))
            self._refuse(problem, advice)
        if called_by(np.ma.core.__file__):
            raise located(masked_array())
        if location is not None and location.reads_item:
            self._refuse(
                "a real NumPy array cannot be indexed with a traced one",
                "Write np.take(a, index, axis=0), or pass the array as an argument of the jitted function.",
            )
        self._refuse(
            "a real NumPy array is needed here, but this array has no values while the function is traced",
            "Use np.* functions of whole arrays, np.dot(a, x) in place of a.dot(x), and casts such as "
            "x.astype(np.float32); call other libraries outside.",
        )

    # ------------------------------------------------------------------------------------------ indexing
    def __getitem__(self, index: Any) -> Tracer:
        return self.state.call("getitem", self, index)  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.state.call("setitem", self, index, value)

    def __delitem__(self, index: Any) -> NoReturn:
        self._refuse("elements of an array cannot be deleted", "Write x = np.delete(x, index, axis), which is a copy.")

    def __len__(self) -> int:
        if not self.sizes:
            raise TypeError("len() of an array of rank 0")
        return self.shape[0].__index__()

    def __iter__(self) -> Iterator[Tracer]:
        return iter(self.state.call("unstack", self))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # ------------------------------------------------------------------------------------------ as a Python value
    def _refuse(self, message: str, advice: str) -> NoReturn:
        if self.state.ended:
            self.state.refuse_late_use(self)
        raise located(TraceError(message, advice=advice))

    def _value(self, kind: str, advice: str) -> bool | int | float:
        value = self.state.run(self.state.scalar_value, self.node) if not self.sizes else None
        if value is None:
            location = here()
            if location is not None and location.stores_item:
                self._refuse_real_array()
            problem = f"{kind} needs the value of an array, which is unknown while the function is traced"
            try:
                self._refuse(problem, advice)
            except TraceError as error:
                if not self.sizes:  # NumPy would know: what the user's code makes of the error is no answer
                    self.state.unanswered = error
                raise
        return value

    def __bool__(self) -> bool:
        advice = "Write np.where(condition, a, b) in place of `if`, np.minimum / np.maximum in place of min / max, "
        advice += "and & | ~ in place of `and`, `or`, `not`."
        location = here()
        source = location.source() if location is not None else None
        if source is not None and source.text.lstrip().startswith("assert "):
            advice = "Check it outside of the jitted function, on its arguments or its result."
        return bool(self._value("Python control flow", as_number(self, advice)))

    def __int__(self) -> int:
        return int(self._value("int()", "Use x.astype(np.int64), which stays in the array program."))

    def __float__(self) -> float:
        return float(self._value("float()", "Use x.astype(np.float64), which stays in the array program."))

    def __index__(self) -> int:
        if self.element.kind not in "iu":
            raise TypeError(f"an array of {self.dtype} is no index")
        return int(self.known("an index or range()", "Pass the number as an argument or mark it static."))

    def __complex__(self) -> complex:
        return complex(self._value("complex()", "Programs are real: keep the two parts in arrays of their own."))

    def known(self, needing: str, advice: str) -> bool | int | float:
        """The number that this is.  Raises TraceError where it has none yet: `needing` it."""
        return self._value(needing, as_argument(self, advice))

    def __copy__(self) -> Tracer:
        """``copy.copy(x)`` and ``copy.deepcopy(x)``: memory of its own."""
        return self if self.weak else self.state.call("copy", self)

    def __deepcopy__(self, _: dict[int, Any]) -> Tracer:
        return self.__copy__()

    def __repr__(self) -> str:
        return format(self)

    def __str__(self) -> str:
        return format(self)

    def __format__(self, spec: str) -> str:
        """The dtype and shape, which have no digits to be asked for; of a number that the caller passes its digits,
        which may be a key, and so count for the trace."""
        if spec and not self.state.ended:
            advice = "Write it without digits, which shows dtype and shape, or outside of the jitted function."
            return format(self._value(f"the format {spec!r}", advice), spec)
        plain = self.weak is not None and not self.state.ended
        known = self.state.run(self.state.scalar_value, self.node) if plain else None
        return f"Tracer({self.element}[{', '.join(map(str, self.sizes))}])" if known is None else format(known, spec)

    def __hash__(self) -> int:
        """Of numbers whose value can be known.  Arrays are no keys, as in NumPy."""
        return hash(self._value("a dictionary key or an element of a set", "Use a name or a number as the key."))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._refuse("an array has no values to be pickled while the function is traced", ATTRIBUTES["dump"])

    # ------------------------------------------------------------------------------------------ operators
    def _binary(self, name: str, other: Any, swap: bool = False) -> Tracer:
        if _leads(other) or (not isinstance(other, _OPERANDS) and not is_array(other)):
            return NotImplemented  # type: ignore[no-any-return]
        if name == "multiply" and isinstance(other, (list, tuple, str, bytes)) and self._repeats:
            return other * (int(self) if self.weak is bool else self.__index__())  # type: ignore[return-value]
        if name in ("equal", "not_equal") and (other is None or isinstance(other, (str, bytes))):
            differs = name == "not_equal"  # no number is None, or a text
            return differs if self.weak else self.state.call("full_like", self, differs, np.bool_)  # type: ignore[return-value]
        if name == "multiply" and self.weak in (bool, int) and isinstance(other, (list, tuple, str, bytes)):
            return other * self.__index__()  # type: ignore[return-value]  # a sequence, repeated
        left, right = (other, self) if swap else (self, other)
        python = isinstance(other, (int, float)) and not isinstance(other, np.generic)
        python = python or getattr(other, "weak", None) or (isinstance(other, SymbolicSize) and not other.is_numpy)
        weak = self.weak is not None and python
        result: Tracer = self.state.call("weak", name, left, right) if weak else self.state.call(name, left, right)
        return result

    @property
    def _repeats(self) -> bool:
        """Whether it repeats a sequence that it multiplies: Python's integers do, and NumPy's."""
        return self.weak in (int, bool) or (self.weak is None and self.is_number and self.element.kind in "iu")

    def _in_place(self, name: str, other: Any) -> Tracer:
        if self.weak is not None:
            return self._binary(name, other)
        return self.state.call("in_place", name, self, other)  # type: ignore[no-any-return]

    def _unary(self, name: str) -> Tracer:
        result: Tracer = self.state.call("weak", name, self) if self.weak else self.state.call(name, self)
        return result

    def _call(self, name: str, *values: Any) -> Any:
        return self.state.call(name, *values)


METHODS = frozenset(
    """all any argmax argmin argsort astype choose clip copy cumprod cumsum diagonal dot exp
    fill flatten log max mean min nonzero argpartition prod ptp put ravel relu repeat reshape round
    searchsorted sigmoid softmax sqrt squeeze std sum swapaxes take tanh trace transpose var view gelu silu to_device
    log_softmax logsumexp abs expand_dims broadcast_to""".split()
)
