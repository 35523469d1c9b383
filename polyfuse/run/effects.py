"""What tracing a function changed outside of it.

A program is traced once and stands for all calls, so what the function keeps elsewhere must be nothing that a call
gives: no array of the trace, and no value that changes every time.  Values that are found once and then kept (tables,
settings made at the first call) are as they were when the function is traced again, and fine.
"""

from __future__ import annotations

import dis
import linecache
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from polyfuse.errors import Source, TraceError, escaped
from polyfuse.run.arguments import same
from polyfuse.run.asked import nested
from polyfuse.run.captures import content
from polyfuse.run.entries import is_plain
from polyfuse.run.reach import Cell, Reach, is_code, reach

_BYTES = 1 << 22
"""Of a captured array whose contents are compared: copying that much takes 0.3 ms, a hundredth of what a trace does."""

Origin = Callable[[Any], tuple[str, Source | None] | None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a function may read or write outside of it, and what is `held` there."""

    reach: Reach
    held: Mapping[str, tuple[Any, Any]]

    @staticmethod
    def of(
        function: Any, statics: Mapping[str, Any], named: Mapping[str, Collection[int]] = MappingProxyType({})
    ) -> Snapshot:
        """`named`: attributes besides those in the code, and the identities of objects that have none."""
        found = reach(function, statics, named)
        return Snapshot(found, {cell.name: _kept(cell.read()) for cell in found.cells})

    def changed_in(self, later: Snapshot) -> list[Cell]:
        """Places that hold something else in `later`, or are new there."""
        return [cell for cell in later.reach.cells if not _alike(self.held.get(cell.name), later.held[cell.name])]


def _kept(value: Any) -> tuple[Any, Any]:
    """A value, and what its contents are where these may change under it."""
    is_small = type(value) is np.ndarray and value.nbytes <= _BYTES and not value.dtype.hasobject
    return value, content(value) if is_small else None


def _alike(before: tuple[Any, Any] | None, after: tuple[Any, Any]) -> bool:
    if before is None:
        return False
    (was, old), (now, new) = before, after
    if was is now:
        return bool(old == new)
    return (is_plain(was) and is_plain(now) and same(was, now)) or (is_code(was) and is_code(now) and bool(was == now))


def refuse_escapes(name: str, functions: Sequence[FunctionType], changed: Sequence[Cell], origin: Origin) -> None:
    """Raise TraceError where a place now holds a value of the trace.  `origin`: what it is and where it was made;
    `functions`: where it may have been put there."""
    for cell in changed:
        found = origin(cell.read())
        if found is not None:
            what, source = found
            raise escaped(cell.shown, f"the call of {name}", what, source or _mention(functions, cell.shown))


def refuse_changes(name: str, functions: Sequence[FunctionType], changed: Sequence[Cell]) -> None:
    """Raise TraceError for what two traces have both changed.  `functions`: where the line may be."""
    shown = ", ".join(cell.shown for cell in changed[:3])
    raise TraceError(
        f"{name} changes {shown} each time it runs, but it runs only when it is traced, not at every call",
        advice="Pass the old value as an argument and return the new one, or change it outside of the jitted function.",
        source=_mention(functions, changed[0].shown),
    )


def _mention(functions: Sequence[FunctionType], shown: str) -> Source | None:
    """The line that stores under the last name of `shown`, or else the first one that mentions its first name."""
    names = re.findall(r"\w+", re.sub(r"^(len|set|list)\(", "", shown)) or [""]
    found = [(code, at) for f in functions for code in nested(f.__code__) for at in dis.get_instructions(code)]
    for prefix, name in (("STORE_", names[-1]), ("LOAD_", names[0])):
        for code, at in found:
            if at.opname.startswith(prefix) and at.argval == name and at.positions is not None:
                return _source(code, at.positions)
    return None


def _source(code: CodeType, at: dis.Positions) -> Source:
    line = at.lineno or code.co_firstlineno
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    if at.lineno == at.end_lineno and text.isascii():
        return Source(code.co_filename, line, text, at.col_offset, at.end_col_offset)
    return Source(code.co_filename, line, text)
