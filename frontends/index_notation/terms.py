"""Expressions over index variables: what ``A[i, k] * B[k, j] + 1`` is before it is assigned to an array.

A term is a small immutable tree.  It has no value yet, because the ranges of its indices follow from the whole
statement; `assignment` evaluates it when it is stored, and a reduction without free indices at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NoReturn

import numpy as np

from polyfuse.errors import IndexingError, TraceError
from polyfuse.frontends.numpy_like.locations import Location, here
from polyfuse.frontends.numpy_like.operators import Operators
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.state import Trace, located
from polyfuse.frontends.numpy_like.tracer import Tracer

_fresh = count()
_MEMBERS = (bool, int, float, np.generic, SymbolicSize, Tracer)


class Term(Operators["Term"]):
    """An expression over index variables."""

    __slots__ = ()
    __array_priority__ = 2000
    is_leaf = True
    location: Location | None

    # ------------------------------------------------------------------------------------------ structure
    def parts(self) -> tuple[Any, ...]:
        """What the term is made of: terms, numbers, sizes, arrays of rank 0."""
        return ()

    def free(self) -> dict[str, Index]:
        """The index variables that the term depends on, by their keys, in order of appearance."""
        found: dict[str, Index] = {}
        for part in self.parts():
            if isinstance(part, Term):
                found |= {key: index for key, index in part.free().items() if key not in found}
        return found

    def renamed(self, names: Mapping[str, Index]) -> Term:
        """With other index variables in place of those with the keys in `names`."""
        return self

    def trace(self) -> Trace | None:
        """The trace that the arrays in the term belong to; None where there are none."""
        for part in self.parts():
            found = part.trace() if isinstance(part, Term) else getattr(part, "state", None)
            if found is not None:
                return found
        return None

    def walk(self) -> Iterator[Term]:
        """The term and all terms in it."""
        yield self
        for part in self.parts():
            if isinstance(part, Term):
                yield from part.walk()

    # ------------------------------------------------------------------------------------------ operators
    def _binary(self, name: str, other: Any, swap: bool = False) -> Term:
        return apply(name, *((other, self) if swap else (self, other)))

    def _in_place(self, name: str, other: Any) -> Term:
        made = apply(name, self, other)
        return Update(made.name, made.operands, made.options, made.location)

    def _unary(self, name: str) -> Term:
        return apply(name, self)

    def _call(self, name: str, *values: Any) -> Any:
        return apply(name, *values)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            self._refuse(f"np.{ufunc.__name__}.{method} takes whole arrays, not elements", "Apply it to the array.")
        return apply(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return apply(function.__name__, *args, **kwargs)

    def astype(self, dtype: Any) -> Term:
        return apply("astype", self, dtype=dtype)

    # ------------------------------------------------------------------------------------------ as a Python value
    def _refuse(self, message: str, advice: str) -> NoReturn:
        raise located(TraceError(message, advice=advice))

    def __bool__(self) -> bool:
        self._refuse(
            "a condition on an index or on an element has no value while the function is traced",
            "Write pf.where(condition, a, b), with & | ~ in place of `and`, `or`, `not`; "
            "to restrict an index, pf.indices('i', within=(start, stop)).",
        )

    def __int__(self) -> int:
        self._refuse("an index has no single value: it stands for all points of its range", "Use it in subscripts.")

    __index__ = __float__ = __complex__ = __int__

    def __iter__(self) -> Iterator[Any]:
        self._refuse("an element has no length: it is one number per point", "Name every axis by an index.")

    def __getitem__(self, index: Any) -> NoReturn:
        self._refuse("an element cannot be indexed again", "Write all indices in one pair of brackets: A[i, j].")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse(
            "an index meets a real NumPy array, which is not part of the program",
            "Pass the array as an argument of the jitted function; functions of arrays take no elements.",
        )

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, eq=False)
class Index(Term):
    """An index variable.  `within`: the stated range ``start <= index < stop``, else inferred.  `bound`: a number that
    tells the variable of a reduction from all others, 0 for those of the user."""

    name: str
    within: tuple[Any, Any] | None = None
    bound: int = 0
    location: Location | None = None

    @property
    def key(self) -> str:
        """The variable's atom in affine expressions."""
        return f"@{self.name}.{self.bound}" if self.bound else f"@{self.name}"

    def free(self) -> dict[str, Index]:
        return {self.key: self}

    def renamed(self, names: Mapping[str, Index]) -> Term:
        return names.get(self.key, self)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Term):
    """A function of elements, by NumPy's name."""

    name: str
    operands: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()
    location: Location | None = None

    def parts(self) -> tuple[Any, ...]:
        return self.operands

    def renamed(self, names: Mapping[str, Index]) -> Term:
        operands = tuple(o.renamed(names) if isinstance(o, Term) else o for o in self.operands)
        return type(self)(self.name, operands, self.options, self.location)


@dataclass(frozen=True, slots=True, eq=False)
class Update(Apply):
    """What ``C[i] += value`` assigns: indices of the value that C lacks are reduced."""


@dataclass(frozen=True, slots=True, eq=False)
class Access(Term):
    """The element ``array[subscripts]``; `value` is the array's value at the time of writing the term, `held` that of
    the memory that it is a view of, and `moment` counts the accesses before."""

    array: Tracer
    value: Any
    subscripts: tuple[Any, ...]
    name: str
    location: Location | None = None
    held: Any = None
    moment: int = 0

    def parts(self) -> tuple[Any, ...]:
        return (self.array, *self.subscripts)

    def renamed(self, names: Mapping[str, Index]) -> Term:
        subscripts = tuple(s.renamed(names) if isinstance(s, Term) else s for s in self.subscripts)
        return replace(self, subscripts=subscripts)


@dataclass(frozen=True, slots=True, eq=False)
class Reduction(Term):
    """A reduction of `body` over index variables of its own."""

    function: str
    indices: tuple[Index, ...]
    body: Term
    location: Location | None = None

    def parts(self) -> tuple[Any, ...]:
        return (self.body,)

    def free(self) -> dict[str, Index]:
        own = {index.key for index in self.indices}
        return {key: index for key, index in self.body.free().items() if key not in own}

    def renamed(self, names: Mapping[str, Index]) -> Term:
        return Reduction(self.function, self.indices, self.body.renamed(names), self.location)


def apply(name: str, *operands: Any, **options: Any) -> Apply:
    """``name(*operands)`` for every point.  Raises TraceError for operands that are whole arrays."""
    for operand in operands:
        if isinstance(operand, Tracer) and operand.sizes:
            raise located(
                TraceError(
                    f"an element meets a whole array of rank {len(operand.sizes)}",
                    advice="Name its axes by indices as well, as in A[i, j] + x[j].",
                )
            )
        if not isinstance(operand, (Term, *_MEMBERS)) and operand is not None:
            kind = type(operand).__name__
            raise located(TraceError(f"an element cannot be combined with a value of type {kind}"))
    return Apply(name, operands, tuple(options.items()), here())


def indices(names: str, *, within: Any = None) -> Any:
    """Index variables by their names: ``i, j = pf.indices("i j")``; one name gives one variable.

    `within`: a stated range, ``stop`` or ``(start, stop)``; without it the range follows from the arrays that the
    variable indexes.  Raises IndexingError for names that are no identifiers.
    """
    found = names.replace(",", " ").split()
    if not found or not all(name.isidentifier() for name in found):
        raise located(
            IndexingError(f"index names are identifiers, not {names!r}", advice='Write i, j = pf.indices("i j").')
        )
    limits = None if within is None else within if isinstance(within, tuple) else (0, within)
    if limits is not None and (len(limits) != 2 or any(isinstance(limit, Term) for limit in limits)):
        raise located(
            IndexingError(
                "a stated range is (start, stop), of numbers and sizes",
                advice="Bounds that depend on another index are a condition: pf.where(k <= i, value, 0).",
            )
        )
    made = tuple(Index(name, limits) for name in found)
    return made if len(made) > 1 else made[0]


def reduction(function: str, over: Any, body: Any) -> Reduction:
    """``function(over, body)``, such as ``pf.sum(k, A[i, k] * B[k, j])``.  Raises IndexingError."""
    chosen = over if isinstance(over, (tuple, list)) else (over,)
    if function in ("argmax", "argmin") and len(chosen) > 1:
        raise located(
            IndexingError(
                f"pf.{function} gives the position along one index, not along {len(chosen)}",
                advice=f"Reshape the array first, or take np.{function} of all of it and divide the flat position.",
            )
        )
    body = body if isinstance(body, Term) else apply("positive", body)
    free = body.free()
    for index in chosen:
        if not isinstance(index, Index):
            raise located(
                IndexingError(
                    f"pf.{function} reduces over indices, not over {index!r}",
                    advice=f"Write the index first: pf.{function}(k, A[i, k]), with k = pf.indices('k').",
                )
            )
        if index.key not in free and index.within is None:
            raise located(
                IndexingError(
                    f"index {index.name} does not occur in what pf.{function} reduces over it",
                    advice=f"State its range, pf.indices('{index.name}', within=(start, stop)), or drop it.",
                )
            )
    own = {index.key: Index(index.name, index.within, next(_fresh) + 1) for index in chosen}
    return Reduction(function, tuple(own.values()), body.renamed(own), here())


def inside(element: Any) -> Term:
    """The condition that the element ``A[i - 1, j]`` exists: ``pf.where(pf.inside(A[i - 1]), A[i - 1], 0)``."""
    if not isinstance(element, Access):
        raise located(
            TraceError(
                "pf.inside takes an element such as A[i - 1, j]", advice="Write conditions on values without it."
            )
        )
    condition: Term | None = None
    for subscript, size in zip(element.subscripts, element.array.shape, strict=True):
        if isinstance(subscript, Term):
            here_inside: Term = (subscript >= 0) & (subscript < size)
            condition = here_inside if condition is None else condition & here_inside
    if condition is None:
        raise located(
            TraceError("pf.inside takes an element with an index", advice="Whether A[0] exists is known beforehand.")
        )
    return condition


def contains_terms(values: Any) -> bool:
    """Whether a term is among (nested) arguments."""
    return any(isinstance(v, Term) or (isinstance(v, (tuple, list)) and contains_terms(v)) for v in values)


def has_terms(values: Any) -> bool:
    """Whether a term is among (nested) values."""
    return any(isinstance(v, Term) or (isinstance(v, (tuple, list)) and has_terms(v)) for v in values)
