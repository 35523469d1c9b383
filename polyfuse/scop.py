"""Level 2, the SCoP: one statement per operation, views composed into access relations, tensors in SSA form.

Before (tensor DAG)::

    m = Reduce(max, x, axis 1);  d = Map(subtract, x, View(m, [%0]));  e = Map(exp, d)

After (statements over integer points)::

    m[i, j]: m[i] max= x[i, j]          0 <= i < M, 0 <= j < N     (one statement over kept + reduced dimensions)
    d[i, j]: d[i, j] = x[i, j] - m[i]
    e[i, j]: e[i, j] = exp(d[i, j])

A statement writes its value at the point of its kept dimensions, in order; that is its whole write relation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from polyfuse.affine import Affine
from polyfuse.dtypes import DType, integer_limits
from polyfuse.errors import Source
from polyfuse.expr import Call, DataIndex, IndexEntry, Program, Shape
from polyfuse.scalars import monoid_named
from polyfuse.terms import Apply, Const, Expr, Inside, Ref
from polyfuse.unravelled import Unravelled

ReadEntry = Union[IndexEntry, Unravelled]


@dataclass(frozen=True, slots=True)
class Read:
    """The access ``source.component[index]`` of one statement, made only where all of `where` are >= 0.

    `index` has one entry per dimension of the source: affine in the statement's dimensions and the sizes, or data (the
    value of read number `operand`), or unravelled where the statement runs over several dimensions as one.  `checks`:
    data indices along dimensions that the source does not vary in (it was broadcast), as (read number, extent): they
    choose nothing, and have to be in bounds all the same.
    """

    source: int
    index: tuple[ReadEntry, ...]
    where: tuple[Affine, ...] = ()
    component: int = 0
    bounds: str = ""  # of data indices: "raise", "clip" or "assume"
    checks: tuple[tuple[int, Affine], ...] = ()

    @property
    def affine(self) -> bool:
        kinds = set(map(type, self.index))
        return DataIndex not in kinds and Unravelled not in kinds


@dataclass(frozen=True, slots=True)
class InputStatement:
    """An array argument (`position`), or the result `component` of an opaque call: where values enter the program."""

    id: int
    name: str
    shape: Shape
    dtypes: tuple[DType, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Statement:
    """``value[kept] (monoid)= body(reads)`` over the box ``0 <= %d < extents[d]``.

    `body`: one term per component of the state, over ``r0, r1, ...`` (the reads) and ``s3`` (scalar argument 3).
    `lags`: of a recurrence along `scanned`, whose body also names ``b1, b2, ...``, the values so many elements before.
    `reduced`: the reduced dimensions (empty unless `monoid` and no scan).  `scanned`: the dimension of a prefix scan,
    which is kept; with `run` its prefixes start anew at every multiple of so many elements.  `digest`: structural
    identity, independent of names.  `kept`: the dimensions of the domain that index the value, in order; `shape`: their
    extents; `chooses`: whether it picks one of two values by a truth, not a piece of a region by where it lies.
    """

    id: int
    name: str
    extents: Shape
    reads: tuple[Read, ...]
    body: tuple[Expr, ...]
    dtypes: tuple[DType, ...]
    digest: bytes
    monoid: str | None = None
    reduced: tuple[int, ...] = ()
    scanned: int | None = None
    exclusive: bool = False
    reverse: bool = False
    run: int = 0
    lags: tuple[int, ...] = ()
    source: Source | None = None
    kept: tuple[int, ...] = field(init=False, compare=False, repr=False)
    shape: Shape = field(init=False, compare=False, repr=False)
    chooses: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tops = [term for term in self.body if isinstance(term, Apply) and term.function == "where"]
        object.__setattr__(self, "chooses", any(not isinstance(term.operands[0], Inside) for term in tops))
        kept = tuple([d for d in range(len(self.extents)) if d not in self.reduced])
        object.__setattr__(self, "kept", kept)
        object.__setattr__(self, "shape", tuple([self.extents[d] for d in kept]))

    @property
    def is_reduction(self) -> bool:
        return bool(self.monoid) and self.scanned is None

    @property
    def truths(self) -> tuple[int, ...]:
        """The reads that are truths, not computed on the way, which pick the value."""
        tops = [term for term in self.body if isinstance(term, Apply) and term.function == "where"]
        conditions = [term.operands[0] for term in tops]
        return tuple([int(c.name[1:]) for c in conditions if isinstance(c, Ref) and c.name.startswith("r")])

    @property
    def picks(self) -> bool:
        """Whether truths that are read pick the value."""
        return bool(self.truths)


@dataclass(frozen=True, slots=True)
class OpaqueStatement:
    """A call that no kernel contains: always a boundary.  Operands are whole values, contiguous."""

    id: int
    name: str
    shape: Shape
    dtypes: tuple[DType, ...]
    call: Call
    operands: tuple[int, ...]
    digest: bytes


AnyStatement = Union[InputStatement, Statement, OpaqueStatement]


@dataclass(frozen=True, slots=True)
class Scop:
    """Statements in canonical topological order (``statements[k].id == k``); `outputs` are statement ids."""

    program: Program
    statements: tuple[AnyStatement, ...]
    outputs: tuple[int, ...]
    readers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def shape(self, value: int) -> Shape:
        return self.statements[value].shape

    def dtype(self, value: int, component: int = 0) -> DType:
        return self.statements[value].dtypes[component]

    def operands(self, value: int) -> tuple[int, ...]:
        """The values that a statement reads, each once, in order of first use."""
        match self.statements[value]:
            case Statement(reads=reads):
                return tuple(dict.fromkeys(r.source for r in reads))
            case OpaqueStatement(operands=operands):
                return tuple(dict.fromkeys(operands))
            case InputStatement():
                return ()


def neutral(monoid: str, dtypes: Sequence[DType]) -> tuple[Const, ...]:
    """The neutral element of each component of a monoid, in the registers' dtypes."""

    out = []
    for text, dtype in zip(monoid_named(monoid).neutral, dtypes, strict=True):
        compute = dtype.compute
        value: bool | int | float
        match text, compute.kind:
            case ("lowest", "f"):
                value = float("-inf")
            case ("highest", "f"):
                value = float("inf")
            case ("lowest", "b"):
                value = False
            case ("highest", "b"):
                value = True
            case ("lowest", _):
                value = int(integer_limits(compute).min)
            case ("highest" | "last", _):
                value = int(integer_limits(compute).max)
            case (number, "b"):
                value = bool(int(number))
            case (number, "f"):
                value = float(number)
            case ("-1", "u"):  # all bits
                value = int(integer_limits(compute).max)
            case (number, _):
                value = int(number)
        out.append(Const(value, compute))
    return tuple(out)
