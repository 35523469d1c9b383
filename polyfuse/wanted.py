"""Which elements of what a kernel loads anybody wants: those of half a square, under a mask of indices.

    m[i, j] = j <= i
    s[i, j] = x[i, j] * c                       x[i, j] is wanted where i - j >= 0, as s[i, j] is
    y[i, j] = where(m[i, j], s[i, j], -inf)

What a choice between two values leaves unread is as good as any number.  Conditions are affine and conjoined; of
several readers those count that all have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from polyfuse.affine import Affine
from polyfuse.dtypes import DType
from polyfuse.expr import DataIndex
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Read, Scop, Statement
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref

Conditions = frozenset[Affine]  # each >= 0
NONE: Conditions = frozenset()

WIDE, SMALL, LARGE = 4, 2**15, 2**30
"""Bytes of integers that hold every index; numbers that may be added to one; and numbers that are a side."""
MOST_READ = 32
"""How often a statement reads a value for which that is not looked at: its text may be that of a whole program."""
MOST = 0.9
"""The share of wanted elements from which all are read: asking costs instructions, and borders are thin."""
STEPS, MOST_AXES = 24, 3
"""Places along a dimension at which shares are sampled, and dimensions."""


def wanted(scop: Scop, schedule: KernelSchedule, load: Placed) -> tuple[Affine, ...]:
    """The conditions under which a thread of the kernel wants what it loads, over the digits of the schedule; none
    where nearly all is wanted."""
    return _found(_wants(scop, schedule), load)[0] if _chooses(scop, schedule) else ()


def wanted_share(scop: Scop, schedule: KernelSchedule, loads: Sequence[Placed]) -> float:
    """The share of the elements of some loads that is wanted, by the hints of the program."""
    if not loads or not _chooses(scop, schedule):
        return 1.0
    wants, share = _wants(scop, schedule), 0.0
    for load in loads:
        share = max(share, _found(wants, load)[1])
        if share >= 1.0:
            break
    return share


def _wants(scop: Scop, schedule: KernelSchedule) -> _Wants:
    """What is known of a kernel, which a price asks for each of its arrays."""
    return schedule.figure(("wants", id(scop)), lambda: _Wants(scop, schedule))  # which keeps the SCoP, so its number


def _chooses(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether any statement chooses: else all is wanted."""
    return any(isinstance(s := scop.statements[value], Statement) and s.chooses for value in schedule.body)


def _found(wants: _Wants, load: Placed) -> tuple[tuple[Affine, ...], float]:
    scop, schedule, every, share = wants.scop, wants.schedule, list[Conditions](), 0.0
    for placed in (p for p in schedule.placed if load.name in p.providers):
        statement = scop.statements[placed.value]
        if placed.role != "compute" or not isinstance(statement, Statement):
            return (), 1.0
        for k, provider in enumerate(placed.providers):
            if provider != load.name:
                continue
            conditions = wants.of_read(statement, k)
            share = max(share, _share(conditions, statement, statement.reads[k], scop.program.hints))
            if share > MOST:
                return (), 1.0
            place = {f"%{d}": entry for d, entry in enumerate(placed.place) if isinstance(entry, Affine)}
            mapped = [c.substitute(place) for c in conditions if _dimensions(c) <= place.keys()]
            every.append(frozenset(mapped))
    common = frozenset.intersection(*every) if every else NONE
    return (tuple(sorted(common, key=str)), share) if common else ((), 1.0)


def _share(conditions: Conditions, statement: Statement, read: Read, hints: Mapping[str, int]) -> float:
    """The share of what a statement reads at whose points conditions hold, sampled evenly: an element is wanted that
    some point wants."""
    names = sorted(frozenset().union(*[c.names() for c in conditions]))
    sizes = {name: hints[name] for name in names if name in hints}
    axes = [name for name in names if name.startswith("%")]
    extents = [statement.extents[int(axis[1:])] for axis in axes]
    if not axes or len(axes) > MOST_AXES or len(sizes) + len(axes) < len(names):
        return 1.0
    if any(name not in hints for extent in extents for name in extent.names()):
        return 1.0
    ends = [max(0, extent.evaluate(hints) - 1) for extent in extents]
    grid = np.meshgrid(*[np.linspace(0, end, STEPS).astype(np.int64) for end in ends], indexing="ij")
    points: dict[str, Any] = {**sizes, **dict(zip(axes, grid, strict=True))}
    holds = np.ones((STEPS,) * len(axes), bool)
    for condition in conditions:
        holds &= condition.evaluate(points) >= 0
    chosen = [e.names() for e in read.index if isinstance(e, Affine)]
    repeated = tuple(k for k, axis in enumerate(axes) if not any(axis in found for found in chosen) and read.affine)
    return float(holds.any(axis=repeated).mean() if repeated else holds.mean())


class _Wants:
    """What the statements of one kernel want."""

    def __init__(self, scop: Scop, schedule: KernelSchedule) -> None:
        self.scop, self.schedule = scop, schedule
        self._of_values: dict[int, Conditions] = {}

    def of_read(self, statement: Statement, k: int) -> Conditions:
        """Under which a statement wants its read number k, over its dimensions."""
        chosen = [e.operand for read in statement.reads for e in read.index if isinstance(e, DataIndex)]
        chosen += [number for read in statement.reads for number, _ in read.checks]
        if k in chosen or statement.lags or statement.reads[k].where:  # of a piece of a region, all is wanted
            return NONE
        guards = (c for term in statement.body for c in _guards(self, statement, term, k, NONE))
        found = list(islice(guards, MOST_READ))
        own = frozenset.intersection(*found) if 0 < len(found) < MOST_READ else NONE
        return own | self.of_value(statement)

    def of_value(self, statement: Statement) -> Conditions:
        """Under which anybody wants the value of a statement that is computed element by element."""
        for value in sorted(self._unknown(statement.id), reverse=True):  # readers before what they read
            other = self.scop.statements[value]
            self._of_values[value] = self._of_value(other) if isinstance(other, Statement) else NONE
        return self._of_values[statement.id]

    def _unknown(self, value: int) -> set[int]:
        """A value of the kernel, and all that need it, as far as nothing is known of them."""
        found, todo = set[int](), [value]
        while todo:
            value = todo.pop()
            if value not in self._of_values and value not in found:
                found.add(value)
                todo += [r for r in self.scop.readers.get(value, ()) if r in self.schedule.body]
        return found

    def _of_value(self, statement: Statement) -> Conditions:
        if statement.id in self.schedule.roots or statement.monoid is not None or statement.scanned is not None:
            return NONE
        every = list[Conditions]()
        for reader in self.scop.readers.get(statement.id, ()):
            other = self.scop.statements[reader]
            if reader not in self.schedule.body or not isinstance(other, Statement):
                continue
            for k, read in enumerate(other.reads):
                if read.source == statement.id:
                    every.append(_through(read, self.of_read(other, k)))
        return frozenset.intersection(*every) if every else NONE


def _through(read: Read, conditions: Conditions) -> Conditions:
    """Conditions over the dimensions of what is read element by element; none where it is read otherwise."""
    back = dict[str, Affine]()
    for d, entry in enumerate(read.index):
        if not isinstance(entry, Affine) or entry.constant or len(entry.terms) != 1:
            return NONE
        (name, factor), *_ = entry.terms
        if factor != 1 or not isinstance(name, str) or not name.startswith("%") or name in back:
            return NONE  # a quotient is no dimension: of a repeated array several elements want one
        back[name] = Affine.symbol(f"%{d}")
    return frozenset(c.substitute(back) for c in conditions if _dimensions(c) <= back.keys())


def _dimensions(condition: Affine) -> set[str]:
    return {name for name in condition.names() if name.startswith("%")}


def _guards(kernel: _Wants, statement: Statement, term: Expr, k: int, around: Conditions) -> Iterator[Conditions]:
    """The conditions around every occurrence of read number k."""
    match term:
        case Ref(name) if name == f"r{k}":
            yield around
        case Apply("where", (condition, chosen, other)):
            holds = _conditions(kernel, statement, condition)
            fails = frozenset(-1 - c for c in holds) if len(holds) == 1 else NONE
            yield from _guards(kernel, statement, condition, k, around)
            yield from _guards(kernel, statement, chosen, k, around | holds)
            yield from _guards(kernel, statement, other, k, around | fails)
        case Apply(operands=operands):
            for operand in operands:
                yield from _guards(kernel, statement, operand, k, around)
        case _:
            pass


FAR = 32
"""Statements behind each other through which conditions are followed: each is a few calls deep."""


def _conditions(kernel: _Wants, statement: Statement, term: Expr, depth: int = 0) -> Conditions:
    """What a truth says of the dimensions of a statement, where it says it in full; else nothing."""
    match term:
        case Inside(where):
            return frozenset(where)
        case Apply("bitwise_and" | "logical_and", (left, right)):
            both = [_conditions(kernel, statement, side, depth) for side in (left, right)]
            return both[0] | both[1] if all(both) else NONE
        case Apply(function, (left, right)) if function in _DIFFERENCES:
            one, other = _number(kernel, statement, left, depth), _number(kernel, statement, right, depth)
            if one is None or other is None or not (_is_side(one) and _is_side(other)) and mixed(term) is None:
                return NONE
            return frozenset(_DIFFERENCES[function](one, other))
        case Ref(name) if depth < FAR and (of := _made(kernel, statement, name)) is not None:
            source, at = of
            return frozenset(c.substitute(at) for c in _conditions(kernel, source, source.body[0], depth + 1))
        case _:
            return NONE


_DIFFERENCES: dict[str, Callable[[Affine, Affine], tuple[Affine, ...]]] = {
    "less": lambda a, b: (b - a - 1,),
    "less_equal": lambda a, b: (b - a,),
    "greater": lambda a, b: (a - b - 1,),
    "greater_equal": lambda a, b: (a - b,),
    "equal": lambda a, b: (a - b, b - a),
}


def _number(kernel: _Wants, statement: Statement, term: Expr, depth: int = 0) -> Affine | None:
    """An integer as an affine expression of the dimensions of a statement, where no type cuts it."""
    match term:
        case Index() | Const():
            return _index(term)
        case Apply("add" | "subtract" as function, (left, right), dtype) if _is_wide(dtype):
            one, other = _number(kernel, statement, left, depth), _number(kernel, statement, right, depth)
            return None if one is None or other is None else one + other if function == "add" else one - other
        case Ref(name) if depth < FAR and (of := _made(kernel, statement, name)) is not None:
            source, at = of
            found = _number(kernel, source, source.body[0], depth + 1)
            return None if found is None else found.substitute(at)
        case _:
            return None


def as_condition(term: Expr) -> Expr:
    """A comparison of indices as the condition that it is, in the numbers that kernels index with; other terms as they
    are."""
    match term:
        case Apply(function, (left, right)) if function in _DIFFERENCES:
            one, other = _index(left), _index(right)
            if one is None or other is None or one.is_constant and other.is_constant:
                return term
            sides = _is_side(one) and _is_side(other) or mixed(term) is not None
            return Inside(_DIFFERENCES[function](one, other)) if sides else term
        case Apply(function, operands, dtype):
            return Apply(function, tuple(map(as_condition, operands)), dtype)
        case _:
            return term


def mixed(term: Expr) -> Affine | None:
    """The difference of two indices that are compared, where a condition has terms of both on one side: all of it has
    to fit the indices of a kernel.  None of other terms."""
    match term:
        case Apply(function, (left, right)) if function in _DIFFERENCES:
            one, other = _index(left), _index(right)
            if one is None or other is None or _is_side(one) and _is_side(other):
                return None
            difference = one - other
            return difference if difference.is_linear and abs(difference.constant) < LARGE else None
        case _:
            return None


def _index(term: Expr) -> Affine | None:
    """A number that is an index, or one in the text."""
    match term:
        case Index(affine, dtype) if _is_wide(dtype):
            return affine
        case Const(int() as value, _) if not isinstance(value, bool):
            return Affine.of(value)
        case _:
            return None


def _is_side(affine: Affine) -> bool:
    """Whether a number stands as it is on one side of a condition, or with a small one beside it: what a statement
    computes with fits the indices of its kernel (`polyfuse.planning.index_bits`), a sum of two such may not."""
    if affine.is_constant and affine.constant >= 0:  # one below zero would be added to the other side
        return affine.constant < LARGE
    return affine.is_linear and all(factor > 0 for _, factor in affine.terms) and abs(affine.constant) < SMALL


def _is_wide(dtype: DType) -> bool:
    return dtype.kind == "i" and dtype.itemsize >= WIDE


def _made(kernel: _Wants, statement: Statement, name: str) -> tuple[Statement, dict[str, Affine]] | None:
    """The statement of which this is a read, where it computes one value element by element, and its dimensions over
    those of the reader.  What other kernels compute is an array here, perhaps of other dimensions than theirs."""
    if not (name.startswith("r") and name[1:].isdigit()):
        return None
    read = statement.reads[int(name[1:])]
    if read.source not in kernel.schedule.body:
        return None
    source = kernel.scop.statements[read.source]
    if not isinstance(source, Statement) or source.monoid is not None or source.scanned is not None:
        return None
    if len(source.body) != 1 or read.where or not read.affine:
        return None
    pairs = zip(source.kept, read.index, strict=True)
    return source, {f"%{d}": entry for d, entry in pairs if isinstance(entry, Affine)}
