"""The arrays of ``out=``, and results for callers whose arrays are of a foreign library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyfuse.dtypes import DType
from polyfuse.errors import ArgumentError
from polyfuse.run.arguments import known_library
from polyfuse.run.arrays import VECTOR_ALIGNMENT, ArrayFacts, share
from polyfuse.run.libraries import library_of
from polyfuse.run.record import Record, Target, TargetClass

Leaves = Sequence[tuple[str, Any]]  # paths and what is there


def in_order(record: Record, leaves: Leaves, flatten: Callable[[Any, str], Leaves]) -> Leaves:
    """The arrays of ``out=`` in the order of the results: where they have names, by these.  Raises ArgumentError for
    other names than those of the results."""
    if all(path.startswith("out[") and path[len("out[")].isdigit() for path, _ in leaves):
        return leaves
    marks = [object() for _ in range(record.results)]
    ids = set(map(id, marks))
    paths = [path for path, mark in flatten(record.nested(list(marks)), "out") if id(mark) in ids]
    given = dict(leaves)
    if given.keys() != set(paths):
        raise ArgumentError(f"out holds {', '.join(given)}; the results are {', '.join(paths)}")
    return [(path, given[path]) for path in paths]


def read_targets(record: Record, leaves: Leaves) -> list[Target]:
    """The arrays of ``out=``, given as (path, array).

    Raises ArgumentError unless each has the shape, dtype, device and library of its output, can be written, and shares
    no memory with another.
    """
    if len(leaves) != record.results:
        raise ArgumentError(f"out holds {len(leaves)} arrays, the function returns {record.results}")
    found = [_read(record, position, path, array) for position, (path, array) in enumerate(leaves)]
    for k, target in enumerate(found[1:], 1):
        for other, (path, _) in zip(found[:k], leaves, strict=False):
            if _meet(target, other) and share(*(record.library.facts(t.array) for t in (target, other))):
                raise ArgumentError(f"{leaves[k][0]} and {path} share memory", advice="Pass arrays of their own.")
    return found


def _read(record: Record, position: int, path: str, array: Any) -> Target:
    """One target; its class is checked once per key."""
    library = record.library
    try:
        own = known_library(type(array)) or library_of(type(array))  # memory maps are written as they are
        if own is None or own.name != library.name:
            problem = f" is a {type(array).__name__}, the results are {library.name} arrays"
            raise ArgumentError(problem, advice=f"Pass an array of {library.name}.")
        key, pointer = own.read(array)
        known = record.targets.get((position, key))
        if known is None:
            known = record.targets[position, key] = _class(record, position, library.facts(array))
    except ArgumentError as error:
        raise ArgumentError(f"{path}{error.message}", advice=error.advice) from None
    if library.name == "numpy" and not array.flags.writeable:
        raise ArgumentError(f"{path} is read-only", advice="Pass an array that may be written.")
    return Target(array, pointer, known)


def _class(record: Record, position: int, facts: ArrayFacts) -> TargetClass:
    """The class of a target.  Raises ArgumentError where it does not fit the output."""
    output = record.outputs[position]
    if facts.shape != output.shape or facts.dtype != output.dtype:
        expected, got = _described(output.shape, output.dtype), _described(facts.shape, facts.dtype)
        raise ArgumentError(f" is {got}, the result is {expected}", advice=f"Pass an array {expected}.")
    if facts.device != record.device:
        raise ArgumentError(f" is on {facts.device}, the arguments on {record.device}")
    if not facts.is_aligned:
        raise ArgumentError(" is not aligned to its elements", advice="Pass an array that NumPy allocated.")
    if facts.meets_itself:
        problem = " is a view in which elements share addresses, or might: one that broadcasts or overlaps"
        raise ArgumentError(problem, advice="Pass an array that NumPy allocated.")
    low, high = facts.span
    is_plain = facts.is_contiguous and facts.pointer % VECTOR_ALIGNMENT == 0
    return TargetClass(low - facts.pointer, high - facts.pointer, is_plain)


def _meet(a: Target, b: Target) -> bool:
    """Whether the bytes between the first and the last element of two targets meet."""
    first, last = a.pointer + a.layout.low, a.pointer + a.layout.high
    return first < b.pointer + b.layout.high and b.pointer + b.layout.low < last


def _described(shape: tuple[int, ...], dtype: DType) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def converted(result: Any, back: Callable[[Any], Any]) -> Any:
    """`result` with every array made the caller's kind by `back`; tuples, lists and dictionaries are walked."""
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(converted(r, back) for r in result))
    if isinstance(result, (tuple, list)):
        return type(result)(converted(r, back) for r in result)
    if isinstance(result, dict):
        return type(result)((name, converted(r, back)) for name, r in result.items())
    return back(result) if hasattr(result, "__dlpack__") else result
