"""Shape specifications: ``f32[N, 4096]``, with hints ``f32[N~65536]``, expressions ``f32[2*N+1]``, scalars ``f32``.

spec      :=  dtype [ "[" [ size { "," size } ] "]" ]
size      :=  sum [ "~" integer ]            the hint of a single letter, for the price and for Python branches
sum       :=  product { ("+" | "-") product }
product   :=  factor { "*" factor | "//" integer }
factor    :=  integer | letter | "(" sum ")"
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NoReturn, Union

import numpy as np

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.dtypes import DType
from polyfuse.errors import DTypeError, SpecError
from polyfuse.expr import Shape
from polyfuse.frontends.numpy_like import tree


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array argument.  `fresh` symbols stand for sizes of actual arrays: tracing may equate or fix them (each time
    with a guard); letters that a user wrote stay apart."""

    dtype: DType
    shape: Shape
    hints: tuple[tuple[str, int], ...] = ()
    fresh: bool = False
    is_leaf: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A Python scalar argument, passed by value and weakly typed.  With a `value`, tracing may fix it (with a guard)
    where Python control flow asks for it."""

    dtype: DType
    value: bool | int | float | None = None
    is_leaf: ClassVar[bool] = True

    @property
    def weak(self) -> type:
        return {"b": bool, "i": int, "u": int, "f": float}[self.dtype.kind]

    def __str__(self) -> str:
        return str(self.dtype)


Spec = Union[ArraySpec, ScalarSpec]

_TOKEN = re.compile(r"\s*(?:(?P<integer>\d[\d_]*)|(?P<name>[A-Za-z_]\w*)|(?P<sign>//|[][,~+\-*()]))")
_NUMPY_NAMES = {str(t.numpy): t for t in dtypes.ALL}


class _Parser:
    """A cursor over the tokens of one spec."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0
        self.hints: dict[str, int] = {}

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        position = 0
        text = self.text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                self.fail("unexpected character", position + len(text[position:]) - len(text[position:].lstrip()))
            kind = found.lastgroup or ""
            yield kind, found.group(kind), found.start(kind)
            position = found.end()
        yield "end", "", len(text)

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        column = self.tokens[self.at][2] if position is None else position
        raise SpecError(
            f"malformed spec: {problem}\n    {self.text}\n    {' ' * column}^",
            advice='Write for example "f32[N, 4096]", "f32[N~65536]", "i64[2*N+1]", "f32[]" or "f32".',
        )

    def take(self, *signs: str) -> str:
        """The next token if it is one of `signs`, else the empty string."""
        kind, text, _ = self.tokens[self.at]
        if kind == "sign" and text in signs:
            self.at += 1
            return text
        return ""

    def parse(self) -> Spec:
        kind, name, start = self.tokens[self.at]
        dtype = dtypes.BY_NAME.get(name) or _NUMPY_NAMES.get(name)
        if kind != "name" or dtype is None:
            known = ", ".join(dtypes.BY_NAME)
            self.fail(f"unknown dtype {name!r}; known are {known}" if name else "a dtype is missing", start)
        self.at += 1
        if self.tokens[self.at][0] == "end":
            return ScalarSpec(dtype)
        if not self.take("["):
            self.fail("expected '[' after the dtype")
        shape: list[Affine] = []
        if not self.take("]"):
            shape.append(self.size())
            while not self.take("]"):
                if not self.take(","):
                    self.fail("expected ',' or ']' after a size")
                shape.append(self.size())
        if self.tokens[self.at][0] != "end":
            self.fail("unexpected text after ']'")
        return ArraySpec(dtype, tuple(shape), tuple(self.hints.items()))

    def size(self) -> Affine:
        start = self.at
        size = self.sum()
        if self.take("~"):
            hint = self.integer("a hint is an integer")
            if len(size.terms) != 1 or size != Affine.symbol(str(size)):
                self.at = start
                self.fail("only a single letter takes a hint")
            if self.hints.setdefault(str(size), hint) != hint:
                self.at = start
                self.fail(f"{size} has another hint already, {self.hints[str(size)]}")
        if size.is_constant and size.constant < 0:
            self.at = start
            self.fail("a size is negative")
        return size

    def integer(self, problem: str) -> int:
        kind, text, _ = self.tokens[self.at]
        if kind != "integer":
            self.fail(problem)
        self.at += 1
        return int(text)

    def sum(self) -> Affine:
        total = self.product()
        while sign := self.take("+", "-"):
            total = total + self.product() * (1 if sign == "+" else -1)
        return total

    def product(self) -> Affine:
        result = self.factor()
        while sign := self.take("*", "//"):
            if sign == "//":
                result = result // self.integer("only an integer may follow '//'")
                continue
            start = self.at
            other = self.factor()
            if not (result.is_constant or other.is_constant):
                self.at = start
                self.fail("a product of two letters is not affine")
            result = other * result.constant if result.is_constant else result * other.constant
        return result

    def factor(self) -> Affine:
        kind, text, _ = self.tokens[self.at]
        if kind == "integer":
            return Affine.of(self.integer(""))
        if kind == "name":
            self.at += 1
            return Affine.symbol(text)
        if self.take("("):
            inner = self.sum()
            if not self.take(")"):
                self.fail("expected ')'")
            return inner
        self.fail("expected a size: an integer, a letter or an affine expression")


def spec(text: str) -> Spec:
    """Parse one spec.  Raises SpecError that points at the offending character."""
    if not isinstance(text, str):
        raise SpecError(f"a spec is a text, not a {type(text).__name__}", advice='Write pf.spec("f32[N, 4096]").')
    return _Parser(text).parse()


# ---------------------------------------------------------------------------------------------- of actual arguments


def dtype_of(value: Any) -> DType:
    """The dtype of an array of any library, by its name.  Raises DTypeError."""
    try:
        return numpy_dtype(value.dtype)
    except TypeError:
        short = str(value.dtype).rsplit(".", 1)[-1]
        found = _NUMPY_NAMES.get(short)
        if found is None:
            raise DTypeError(f"arrays of dtype {value.dtype} are not supported") from None
        return found


def numpy_dtype(dtype: Any) -> DType:
    """The `DType` of what ``np.dtype`` accepts, or of a torch dtype.  Raises DTypeError with the alternative."""
    if hasattr(dtype, "__array_function__") and not isinstance(dtype, np.generic):
        raise DTypeError("an array is no dtype", advice="Write x.dtype for that of its elements.")
    wanted = np.dtype(dtype) if (theirs := _of_torch(dtype)) is None else theirs
    found = dtypes.from_numpy(wanted)
    if found is not None:
        return found
    advice = {
        "c": "Keep the real and the imaginary part in two arrays.",
        "O": "Convert the array to a numeric dtype first.",
    }.get(wanted.kind, f"Supported are {', '.join(str(t.numpy) for t in dtypes.ALL)}.")
    if not wanted.isnative:
        advice = "Convert it with x.astype(x.dtype.newbyteorder('='))."
    raise DTypeError(f"dtype {wanted} is not supported", advice=advice)


def _of_torch(dtype: Any) -> np.dtype[Any] | None:
    """NumPy's dtype of the same name, for an object that reads ``torch.float32``; torch itself need not be there."""
    package, _, name = str(dtype).partition(".")
    if package != "torch" or not type(dtype).__module__.startswith("torch"):
        return None
    known = _NUMPY_NAMES.get(name)
    return np.dtype(name) if known is None else known.numpy


SHORT, MANY = 4, 4096
"""Elements of a row at most, and rows at least, of which a program is planned for the length of rows at hand: how they
lie in memory, and in the registers of a thread, depends on it."""


def is_array(value: Any) -> bool:
    try:
        return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)  # as np.float32 has
    except Exception:  # of a `__getattr__` that looks names up in a dictionary: a KeyError
        return False


def specs_of_arrays(arguments: Sequence[Any], taken: Sequence[str] = ()) -> list[Any]:
    """The specs of actual arguments (trees of arrays, Python scalars, specs and static objects).

    Every size gets a symbol of its own with the actual size as hint.  Sizes 0 and 1 are constants, and so is the length
    of short rows where there are many, as of pixels and points.  Specs among the arguments keep their letters; `taken`
    names further letters to avoid.
    """
    leaves = [leaf for a in arguments for _, leaf in tree.flatten(a)[0]]
    letters = {n for leaf in leaves if isinstance(leaf, ArraySpec) for size in leaf.shape for n in size.names()}
    used = letters | set(taken)
    names = (name for name in (f"n{k}" for k in range(1 << 30)) if name not in used)

    def of(value: Any) -> Any:
        if type(value) in (bool, int, float):  # members of an `enum.IntEnum` are part of the program, as all enums are
            return scalar_spec(value)
        if isinstance(value, (ArraySpec, ScalarSpec, np.character)) or not is_array(value):
            return value
        hints: dict[str, int] = {}
        sizes = [int(n) for n in value.shape]
        known = len(sizes) > 1 and sizes[-1] <= SHORT and prod(sizes[:-1]) >= MANY
        shape = [_fresh(n, names, hints) for n in (sizes[:-1] if known else sizes)]
        shape += [Affine.of(sizes[-1])] if known else []
        return ArraySpec(dtype_of(value), tuple(shape), tuple(hints.items()), fresh=True)

    return [tree.map_leaves(of, a) for a in arguments]


def scalar_spec(value: bool | int | float) -> ScalarSpec:
    weak = {bool: dtypes.bool_, int: dtypes.i64, float: dtypes.f64}
    return ScalarSpec(next(t for kind, t in weak.items() if isinstance(value, kind)), value)


def _fresh(size: int, names: Iterator[str], hints: dict[str, int]) -> Affine:
    if size < 2:
        return Affine.of(size)
    name = next(names)
    hints[name] = size
    return Affine.symbol(name)


def substitute(value: ArraySpec, symbols: Mapping[str, Affine]) -> ArraySpec:
    """`value` with size symbols replaced; its hints are dropped (the trace keeps them)."""
    return ArraySpec(value.dtype, tuple(n.substitute(symbols) for n in value.shape), (), value.fresh)
