"""Launches of one kernel over one grid, with everything known beforehand written out."""

from __future__ import annotations

import ctypes
import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from polyfuse.backends.numba_cpu.fragments.launch import FAILED_BYTE, SERIAL_ELEMENTS, LoadedKernel, shares
from polyfuse.codegen.closures import function_of


def prepared(
    kernel: LoadedKernel, blocks: int, block_elements: int, constants: Sequence[int | float | None]
) -> Callable[..., None]:
    """`LoadedKernel.run` for a grid of one axis, as a function of a stream, which the host has not, and the arguments
    that vary.

    `constants`: per parameter its value in every launch, None where it varies.  Launch records are used again: a call
    takes one from a list and puts it back, so that any number of calls may be under way at once.
    """
    free = deque[tuple[Any, int]]()

    def make() -> tuple[Any, int]:
        record = kernel.buffer()
        return record, ctypes.addressof(record)

    names = {
        "pop": free.pop,
        "push": free.append,
        "make": make,
        "pack": kernel.record.pack_into,
        "call": kernel.call,
        "address": kernel.address,
        "blocks": blocks,
        "block_elements": block_elements,
    }
    is_large = blocks > 1 and blocks * block_elements >= SERIAL_ELEMENTS
    if is_large:
        from polyfuse.backends.numba_cpu.fragments.threads import run_on_threads

        names |= {"shares": shares, "run_on_threads": run_on_threads}
    text = _text(tuple(constant is None for constant in constants), is_large)
    return function_of(text, "launch", names | {f"c{k}": constant for k, constant in enumerate(constants)})


_SERIAL = """\
    pack(record, 0, 0, blocks, blocks, blocks, 1, 0{arguments})
    call(place)
"""
_LARGE = """\
    threads, chunk = shares(blocks, block_elements)
    pack(record, 0, 0, chunk, blocks, blocks, 1, 0{arguments})
    if threads == 1:
        call(place)
    else:
        run_on_threads(address, place, threads)
"""


@functools.cache
def _text(varying: tuple[bool, ...], is_large: bool) -> str:
    """The launch of a kernel some of whose arguments vary."""
    names = "".join(f", v{k}" for k, varies in enumerate(varying) if varies)
    arguments = "".join(f", v{k}" if varies else f", c{k}" for k, varies in enumerate(varying))
    body = (_LARGE if is_large else _SERIAL).format(arguments=arguments)
    return f"""\
def launch(stream{names}):
    try:
        item = pop()
    except IndexError:
        item = make()
    record, place = item
{body}    if record[{FAILED_BYTE}] != b"\\0":
        raise MemoryError("no scratch memory for a kernel")
    push(item)
"""
