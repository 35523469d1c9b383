"""The arrays of ``out=``, and results for callers whose arrays are of a foreign library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyfuse.dtypes import DType
from polyfuse.errors import ArgumentError
from polyfuse.run.arrays import ArrayFacts, overlap
from polyfuse.run.libraries import library_of
from polyfuse.run.record import Record

Target = tuple[Any, ArrayFacts]


def read_targets(record: Record, leaves: Sequence[tuple[str, Any]]) -> list[Target]:
    """The arrays of ``out=`` with their facts, given as (path, array).

    Raises ArgumentError unless each has the shape, dtype, device and library of its output, can be written, and shares
    no memory with another.
    """
    if len(leaves) != record.results:
        raise ArgumentError(f"out holds {len(leaves)} arrays, the function returns {record.results}")
    found: list[tuple[str, Target]] = []
    for (path, array), output in zip(leaves, record.outputs, strict=False):
        facts = _facts(path, array, record.library.name)
        if facts.shape != output.shape or facts.dtype != output.dtype:
            expected, got = _described(output.shape, output.dtype), _described(facts.shape, facts.dtype)
            raise ArgumentError(f"{path} is {got}, the result is {expected}", advice=f"Pass an array {expected}.")
        if facts.device != record.device:
            raise ArgumentError(f"{path} is on {facts.device}, the arguments on {record.device}")
        for other, (_, others) in found:
            if overlap(facts, others):
                raise ArgumentError(f"{path} and {other} share memory", advice="Pass arrays of their own.")
        found.append((path, (array, facts)))
    return [target for _, target in found]


def _facts(path: str, array: Any, library_name: str) -> ArrayFacts:
    """Facts of one target.  Raises ArgumentError for what cannot be written."""
    try:
        library = library_of(type(array))
        if library is None or library.name != library_name or (library.name == "numpy" and not hasattr(array, "flags")):
            raise ArgumentError(f" is a {type(array).__name__}, the results are {library_name} arrays")
        facts = library.facts(array)
    except ArgumentError as error:
        raise ArgumentError(f"{path}{error.message}", advice=error.advice) from None
    if library.name == "numpy" and not array.flags.writeable:
        raise ArgumentError(f"{path} is read-only")
    if not facts.is_aligned:
        raise ArgumentError(f"{path} is not aligned to its elements", advice="Pass an array that NumPy allocated.")
    if facts.size and any(s == 0 and n > 1 for s, n in zip(facts.strides or (), facts.shape, strict=True)):
        raise ArgumentError(f"{path} is a broadcast view: several elements share one address")
    return facts


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
