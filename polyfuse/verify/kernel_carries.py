"""The rules of prefixes that go on from block to block: who waits for whom, and where totals are left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NoReturn, Union

from polyfuse import dtypes
from polyfuse.affine import Affine, names_of
from polyfuse.dtypes import DType
from polyfuse.kernel import (
    ArrayParameter,
    Carry,
    For,
    If,
    Inside,
    Kernel,
    Leave,
    Op,
    carry_counters,
    carry_rows,
    carry_words,
)
from polyfuse.kernel_types import Types, expression_type

Refuse = Callable[..., NoReturn]
Passing = Union[Leave, Carry]


def check_carries(kernel: Kernel, types: Types, refuse: Refuse) -> None:
    """Every total is left once, by a block that begins before all that wait for it.

    Raises:
        KernelError: blocks that wait and do not begin in order, that wait for themselves or for later ones, a line of
            blocks that is no axis of the grid, a total that nobody leaves or that is left twice, that some blocks do
            not come by, or memory that is no place for it.
    """
    if kernel.turns:
        _array(kernel, kernel.turns, dtypes.i32, refuse)
    for op, in_loop, given in _passing(kernel.body):
        if not kernel.turns:
            refuse("blocks wait for earlier ones, but do not begin in order", op)
        if kernel.cluster > 1:
            refuse("a prefix does not go on from cluster to cluster", op)
        if in_loop:
            refuse("a total is handed on in every trip of a loop", op)
        _check_line(kernel, op, given, refuse)
        _check_memory(kernel, types, op, refuse)
    ways = _ways(kernel.body)
    everything = {(type(op), op.words) for op in ways[0]}
    for way in ways:
        found = [(type(op), op.words) for op in way]
        if len(found) != len(everything) or {*found} != everything:
            refuse("a block hands on a total twice, or some blocks do not come by it")
        for words in sorted({op.words for op in way}):
            pair = [op for op in way if op.words == words]
            if len(pair) != 2 or len({(op.line, op.count, op.group, op.bits) for op in pair}) > 1:
                refuse(f"what is left in {words} is not what others take from it")


def _check_line(kernel: Kernel, op: Passing, given: tuple[Affine, ...], refuse: Refuse) -> None:
    """The blocks of a line differ in one axis of the grid, along which their index grows; a block runs as one that is
    no later than itself."""
    axes = [k for k in range(len(kernel.grid)) if op.number.coefficient(f"$b{k}") == 1]
    axis = axes[0] if axes else 0
    lead = Affine.symbol(f"$b{axis}") - op.number
    if not lead.is_constant or lead.constant < 0:
        refuse(f"{op.number} is no place along an axis of the grid, or that of a later block", op)
    if isinstance(op, Leave) and lead.constant:
        refuse(f"the total of block {op.number} is left by a later one", op)
    behind = op.count if isinstance(op, Leave) else op.count + lead
    beyond = kernel.grid[axis] - behind
    if not beyond.is_constant or beyond.constant < 0 or (isinstance(op, Carry) and beyond.constant):
        refuse(f"{op.count} blocks are not those of a line", op)
    if (lead.constant or beyond.constant) and _place(op) not in given:
        refuse("blocks that are none of the line come by it", op)
    others = {f"$b{k}" for k in range(len(kernel.grid)) if k != axis and kernel.grid[k] != Affine.of(1)}
    if {name for name in names_of(op.line) if name.startswith("$")} != others:
        refuse(f"the line {', '.join(map(str, op.line))} is not one of blocks that differ in $b{axis} alone", op)
    if op.group < 1:
        refuse(f"{op.group} totals are left as one", op)


def _check_memory(kernel: Kernel, types: Types, op: Passing, refuse: Refuse) -> None:
    value = expression_type(op.value, types, kernel)
    words = _array(kernel, op.words, dtypes.u64, refuse, op)
    lines = words.shape[: len(op.line)]
    slots = prod(value.shape(kernel))
    counters = (*lines, carry_counters(op.count, op.group, slots))
    if isinstance(op, Carry) and _array(kernel, op.arrived, dtypes.i32, refuse, op).shape != counters:
        refuse(f"{op.arrived} has not {' x '.join(map(str, counters))} counters", op)
    each = carry_words(kernel.threads, op.bits, slots, value.dtype)
    wanted = (carry_rows(op.count, op.group, slots), Affine.of(each))
    if words.shape[len(op.line) :] != wanted:
        rows, columns = wanted
        refuse(f"{op.words} has not {rows} rows of {columns} words for each line", op)


def _array(kernel: Kernel, name: str, dtype: DType, refuse: Refuse, op: Op | None = None) -> ArrayParameter:
    found = next((p for p in kernel.parameters if p.name == name), None)
    if not isinstance(found, ArrayParameter) or found.dtype != dtype or found.readonly:
        refuse(f"{name} is no writable array of {dtype}", op)
    return found


def _passing(
    body: Sequence[Op], in_loop: bool = False, given: tuple[Affine, ...] = ()
) -> Iterator[tuple[Passing, bool, tuple[Affine, ...]]]:
    """Also whether in a loop, and the conditions of the branches around."""
    for op in body:
        match op:
            case Leave() | Carry():
                yield op, in_loop, given
            case For(body=inner):
                yield from _passing(inner, True, given)
            case If(condition=condition, body=inner, orelse=orelse):
                where = condition.where if isinstance(condition, Inside) else ()
                yield from _passing(inner, in_loop, (*given, *where))
                yield from _passing(orelse, in_loop, given)
            case _:
                pass


def _ways(body: Sequence[Op]) -> list[list[Passing]]:
    """What blocks come by, one list per way through branches; those that have no total to leave, or run before the
    first of their line, come by nothing there, which is no way of its own."""
    ways: list[list[Passing]] = [[]]
    for op in body:
        match op:
            case Leave() | Carry():
                ways = [[*way, op] for way in ways]
            case If(body=inner, orelse=orelse):
                taken = _ways(inner)
                exempt = not orelse and all(_outside(op, passed) for way in taken for passed in way)
                found = taken if exempt else [*taken, *_ways(orelse)]
                ways = [[*way, *more] for way in ways for more in {str(m): m for m in found}.values()]
            case _:
                pass
    return ways


def _outside(branch: If, op: Passing) -> bool:
    """Whether a branch leaves out those blocks alone that have nothing to do with `op`."""
    return isinstance(branch.condition, Inside) and branch.condition.where == (_place(op),)


def _place(op: Passing) -> Affine:
    """At least 0 in the blocks that leave a total, or take some."""
    return op.count - 1 - op.number if isinstance(op, Leave) else op.number
