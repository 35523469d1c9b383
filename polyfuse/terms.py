"""Scalar terms: the bodies of statements and the right-hand sides of kernel operations share one small language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Union

from polyfuse.affine import Affine
from polyfuse.dtypes import DType


@dataclass(frozen=True, slots=True)
class Ref:
    """A named value: in a statement's body ``r0, r1, ...`` are its reads, ``s0, s1, ...`` scalar arguments; in a kernel
    the names that `Let`, `Load`, ... bind, or a `ScalarParameter`.  In the step of a recurrence see `before`."""

    name: str
    dtype: DType


def before(lag: int, component: int = 0) -> str:
    """The name, in the step of a recurrence, of a component of its state so many elements before."""
    return f"b{lag}" if component == 0 else f"b{lag}_{component}"


def lag_and_component(name: str) -> tuple[int, int]:
    """What a name made by `before` stands for."""
    lag, _, component = name[1:].partition("_")
    return int(lag), int(component or 0)


@dataclass(frozen=True, slots=True)
class Const:
    """A literal.  `value` is a Python bool, int or float; NaN and infinities are allowed."""

    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Index:
    """An affine expression of digits and sizes as a value."""

    affine: Affine
    dtype: DType


@dataclass(frozen=True, slots=True)
class Inside:
    """The boolean conjunction of ``a >= 0``."""

    where: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function of `polyfuse.scalars.FUNCTIONS`, slot by slot."""

    function: str
    operands: tuple[Expr, ...]
    dtype: DType
    _hash: int = field(default=0, init=False, compare=False, repr=False)  # found when first asked for

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash((self.function, self.operands, self.dtype)))
        return self._hash

    def __reduce__(self) -> tuple[type[Apply], tuple[str, tuple[Expr, ...], DType]]:
        """Without the hash, which is another one in another process."""
        return Apply, (self.function, self.operands, self.dtype)


Expr = Union[Ref, Const, Index, Inside, Apply]


Leaf = Union[Ref, Const, Index, Inside]


def leaves(term: Expr) -> Iterator[Leaf]:
    """The leaves of `term`, with repetitions, left to right."""
    if isinstance(term, Apply):
        for operand in term.operands:
            yield from leaves(operand)
    else:
        yield term


def references(term: Expr) -> Iterator[Ref]:
    """Every `Ref` in `term`, with repetitions, left to right."""
    return (leaf for leaf in leaves(term) if isinstance(leaf, Ref))


def conditions(term: Expr) -> Iterator[tuple[Affine, ...]]:
    """What every `Inside` in `term` says, left to right."""
    return (leaf.where for leaf in leaves(term) if isinstance(leaf, Inside))


def affines(term: Expr) -> Iterator[Affine]:
    """Every index, and every condition on indices, in `term`, left to right."""
    for leaf in leaves(term):
        match leaf:
            case Index(affine=index):
                yield index
            case Inside(where=where):
                yield from where


COUNTS = frozenset(("cast", "multiply", "add", "subtract"))
"""Functions of sizes that are repeated where they are needed: ``cast(n1 * n2, float32)``."""


def is_count(term: Expr) -> bool:
    """Whether a term is a number made of sizes alone, which is the same for all elements."""
    if not isinstance(term, Apply) or term.function not in COUNTS:
        return False
    return all(isinstance(o, Const) or _is_size(o) or is_count(o) for o in term.operands)


def _is_size(term: Expr) -> bool:
    return isinstance(term, Index) and not any(name[0] in "%$" for name in term.affine.names())


def rewrite(term: Expr, leaf: Callable[[Leaf], Expr]) -> Expr:
    """`term` with every leaf replaced by ``leaf(leaf)``."""
    if isinstance(term, Apply):
        return Apply(term.function, tuple(rewrite(o, leaf) for o in term.operands), term.dtype)
    return leaf(term)


def substituted(term: Expr, values: Mapping[str, Affine]) -> Expr:
    """`term` with every index, and every condition on indices, in terms of other ones (`Affine.substitute`)."""
    return with_affines(term, lambda expression: expression.substitute(values))


def with_affines(term: Expr, change: Callable[[Affine], Affine]) -> Expr:
    """`term` with every index, and every condition on indices, replaced."""

    def leaf(found: Leaf) -> Expr:
        match found:
            case Index(affine=affine):
                return replace(found, affine=change(affine))
            case Inside(where=where):
                return Inside(tuple(map(change, where)))
            case _:
                return found

    return rewrite(term, leaf)
