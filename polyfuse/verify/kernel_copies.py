"""Rules of asynchronous copies: what one copy may move, and that no cell is read that no wait has made whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from polyfuse.kernel import (
    ArrayParameter,
    AsyncCopy,
    CommitCopies,
    For,
    If,
    Kernel,
    Load,
    Op,
    SharedBuffer,
    Store,
    WaitCopies,
)
from polyfuse.kernel_types import Memory
from polyfuse.target import is_copied


def check_copy(op: AsyncCopy, memory: Mapping[str, Memory], refuse: Callable[[str], NoReturn]) -> None:
    """From a global array to shared cells of its dtype, in pieces that the hardware moves; `refuse` raises."""
    source, target = memory.get(op.array), memory.get(op.buffer)
    if not isinstance(source, ArrayParameter):
        refuse(f"{op.array} is no global array")
    if not isinstance(target, SharedBuffer):
        refuse(f"{op.buffer} is no shared buffer")
    if source.dtype != target.dtype:
        refuse(f"{op.array} of {source.dtype} is copied to cells of {target.dtype}")
    if not is_copied(op.vector, source.dtype.itemsize):
        refuse(f"a copy of {op.vector * source.dtype.itemsize} bytes; they have 4, 8 or a multiple of 16")


def check_copies(kernel: Kernel, refuse: Callable[[str], NoReturn]) -> None:
    """Every read of a buffer that copies fill stands behind a commit of such a copy and a wait after it, on every path;
    which cells that makes whole is for the interpreter to see.  Nothing else fills such a buffer."""
    filled = frozenset(op.buffer for op in _all(kernel.body) if isinstance(op, AsyncCopy))
    if not filled:
        return
    for op in _all(kernel.body):
        if isinstance(op, Store) and op.array in filled:
            refuse(f"{op.array} is filled by asynchronous copies and by a store")
    _waited(kernel.body, filled, False, False, refuse)


def _waited(
    body: Sequence[Op], filled: frozenset[str], committed: bool, waited: bool, refuse: Callable[[str], NoReturn]
) -> tuple[bool, bool]:
    """Whether copies have been committed, and waited for since the first commit, at the end of `body`."""
    for op in body:
        match op:
            case CommitCopies():
                committed = True
            case WaitCopies(pending):
                if pending < 0:
                    refuse(f"a wait until {pending} groups of copies are on their way")
                waited = waited or committed
            case Load(_, array) if array in filled and not waited:
                refuse(f"{array} is read where no wait for its copies stands in front")
            case For(_, _, inner):
                _waited(inner, filled, committed, waited, refuse)  # it may have no trip
            case If(_, inner, orelse):
                ends = [_waited(part, filled, committed, waited, refuse) for part in (inner, orelse)]
                committed, waited = all(c for c, _ in ends), all(w for _, w in ends)
            case _:
                pass
    return committed, waited


def _all(body: Sequence[Op]) -> list[Op]:
    found: list[Op] = []
    for op in body:
        found.append(op)
        match op:
            case For(_, _, inner):
                found += _all(inner)
            case If(_, inner, orelse):
                found += _all(inner) + _all(orelse)
            case _:
                pass
    return found
