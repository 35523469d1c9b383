"""Where in the user's code a value was made, and what the user called it.

Both come from the code object alone (instruction positions, and the store instruction that follows), so code without
source (a REPL, ``exec``) has names too.  Recording costs a frame walk; text is looked up only when asked for.
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType

import numpy as np

from polyfuse import errors
from polyfuse.errors import Source

_INTERNAL = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (__file__, errors.__file__, np.__file__))
_LIBRARY = sysconfig.get_path("stdlib")
_SUBSCRIPT = 26  # the operand of BINARY_OP for what was BINARY_SUBSCR before Python 3.14
_ENTRY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tracing.py")


@dataclass(frozen=True, slots=True)
class Location:
    """An instruction of the user's code; `targets` are the names its result is stored under (several if unpacked)."""

    code: CodeType
    instruction: int
    targets: tuple[str, ...] = ()

    def source(self) -> Source:
        """File, line, text and columns of the expression."""
        line, end_line, column, end_column = _positions(self.code)[_condition(self.code, self.instruction) // 2]
        number = line or self.code.co_firstlineno
        text = linecache.getline(self.code.co_filename, number).rstrip("\n")
        if not text or column is None or end_column is None:
            return Source(self.code.co_filename, number, text)
        start = len(text.encode()[:column].decode())
        stop = len(text.encode()[:end_column].decode()) if end_line == line else len(text)
        return Source(self.code.co_filename, number, text, start, stop)

    @property
    def stores_item(self) -> bool:
        """Whether the instruction is an assignment ``a[index] = value``."""
        return _operation(self.code, self.instruction) in ("STORE_SUBSCR", "STORE_SLICE")

    @property
    def reads_item(self) -> bool:
        """Whether the instruction is ``a[index]``."""
        operation = _operation(self.code, self.instruction)
        is_subscript = operation == "BINARY_OP" and self.code.co_code[self.instruction + 1] == _SUBSCRIPT
        return is_subscript or operation in ("BINARY_SUBSCR", "BINARY_SLICE")


def _operation(code: CodeType, offset: int) -> str:
    return dis.opname[code.co_code[offset]]


def _condition(code: CodeType, offset: int) -> int:
    """The instruction that made what a jump tests, for a jump; any other instruction is itself.

    Python 3.11 gives some jumps the columns of the whole statement.
    """
    if not _operation(code, offset).startswith("POP_JUMP"):
        return offset
    offset -= 2
    while offset and _operation(code, offset) in ("CACHE", "EXTENDED_ARG"):
        offset -= 2
    return offset


@lru_cache(maxsize=1024)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def _user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Innermost first, up to where tracing began: whoever called it names its own results, not those of the program."""
    while frame is not None and frame.f_code.co_filename != _ENTRY:
        if not frame.f_code.co_filename.startswith(_INTERNAL):
            yield frame
        frame = frame.f_back


def called_by(file: str) -> bool:
    """Whether code of `file` is on the way here from where tracing began."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in (_ENTRY, file):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == file


def here() -> Location | None:
    """The innermost instruction of user code that is being executed.

    A value that a helper function returns takes its name where the helper's result is stored.
    """
    innermost: FrameType | None = None
    for frame in _user_frames(sys._getframe(1)):
        innermost = innermost or frame
        targets = _targets(frame.f_code).get(frame.f_lasti, ())
        if targets != _RETURNED:
            return Location(innermost.f_code, innermost.f_lasti, targets)
    return Location(innermost.f_code, innermost.f_lasti) if innermost else None


def raised_at(error: BaseException) -> Location | None:
    """The innermost instruction of user code on the way to where `error` was raised; Python's own library is none."""
    found, step = None, error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name != _ENTRY and not name.startswith(_INTERNAL) and os.path.dirname(name) != _LIBRARY:
            found = Location(step.tb_frame.f_code, step.tb_lasti)
        step = step.tb_next
    return found


_RETURNED = ("return",)  # a keyword, hence never a name


@lru_cache(maxsize=1024)
def _targets(code: CodeType) -> dict[int, tuple[str, ...]]:
    """Offset -> names that the instruction's result is stored under; `_RETURNED` when it is returned.

    The offsets of an instruction are its own and those of its inline caches: a frame that called a Python function
    stands on the last of them.
    """
    every = list(dis.get_instructions(code))
    plain = [i for i in every if i.opname not in ("NOP", "EXTENDED_ARG", "COPY")]
    ends = {i.offset: following.offset for i, following in zip(every, every[1:], strict=False)}
    found: dict[int, tuple[str, ...]] = {}
    for position, instruction in enumerate(plain[:-1]):
        following = plain[position + 1]
        count = following.argval if following.opname == "UNPACK_SEQUENCE" else 1
        first = position + (2 if following.opname == "UNPACK_SEQUENCE" else 1)
        names = _RETURNED if following.opname == "RETURN_VALUE" else _stored(plain[first : first + count], count)
        if names:
            offsets = range(instruction.offset, ends[instruction.offset], 2)
            found |= dict.fromkeys(offsets, names)
    return found


def _stored(instructions: list[dis.Instruction], count: int) -> tuple[str, ...]:
    """The names stored by the next instructions; superinstructions (3.13) store several."""
    names: list[str] = []
    for instruction in instructions:
        if not instruction.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL")):
            break
        value = instruction.argval
        if "LOAD" in instruction.opname:
            names.append(value[0])
            break
        names += value if isinstance(value, tuple) else (value,)
    return tuple(names[:count]) if len(names) >= count else ()
