"""When polyfuse itself fails: the user gets a file that reproduces it, and the unfused program where that works.

    plan and compile  --internal failure-->  reproducer, one line in the log, fuse=False  --again-->  CompileError

Errors that a user can cause are passed on as they are.  A traceback of isl or Numba goes into the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from polyfuse.bindings import Layout
from polyfuse.errors import CompileError, KernelError, PolyfuseError
from polyfuse.expr import Program
from polyfuse.options import Options
from polyfuse.target import Target

T = TypeVar("T")

_log = logging.getLogger("polyfuse.failure")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was to be planned, and compiled where `backend` names a back end."""

    program: Program
    target: Target
    options: Options
    layouts: tuple[Layout, ...]
    backend: str = ""


class Reporter(Protocol):
    """Writes a failure down so that it can be repeated without the user's code."""

    def __call__(self, attempt: Attempt, error: BaseException) -> str:
        """Where the file is; empty where it could not be written."""


def is_internal(error: Exception) -> bool:
    """Whether no user can be blamed: anything that is no error of polyfuse's own, or one about what it generated."""
    return not isinstance(error, (PolyfuseError, MemoryError)) or isinstance(error, (CompileError, KernelError))


def attempt(what: Attempt, action: Callable[[Options], T], reporter: Reporter | None) -> tuple[T, str]:
    """``(action(options), "")``; after an internal failure the unfused result and a sentence that says so.

    Without a reporter every failure is passed on.  Raises CompileError where the unfused program fails too.
    """
    try:
        return action(what.options), ""
    except Exception as error:
        if reporter is None or not is_internal(error):
            raise
        file, essence = reporter(what, error), _essence(error)
    name = what.program.name
    where = f"; {file} reproduces it" if file else ""
    plain = unfused(what.options)
    if plain != what.options:
        note = f"{name} runs without fusion, because polyfuse failed: {essence}{where}"
        _log.error("%s", note)
        try:
            return action(plain), note
        except Exception as error:
            if not is_internal(error):
                raise
            essence = _essence(error)
    raise CompileError(
        f"{name} cannot be compiled: polyfuse failed with {essence}",
        advice=f"This is a defect of polyfuse{where}. The plain function still works.",
    ) from None


def unfused(options: Options) -> Options:
    """The same without fusion, and without wishes about kernels that then do not exist."""
    return replace(options, fuse="none", together=(), tiles=(), strategies=(), max_fusion_size=0)


def _essence(error: BaseException) -> str:
    """The kind of an error and its first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
