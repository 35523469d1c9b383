"""Loading object code and launching it over a grid of blocks."""

from __future__ import annotations

import ctypes
import math
import struct
import typing
from collections.abc import Sequence
from typing import Any

from llvmlite import binding

from polyfuse.backends.numba_cpu.fragments.object_code import (
    ENTRY,
    KERNEL,
    LaunchWord,
    ObjectCode,
    host_processor,
    target_machine,
)

# A launch that handles fewer elements runs in the caller's thread: waking others takes 5 to 50 microseconds.
SERIAL_ELEMENTS = 32 * 1024
# Chunks of blocks per thread: enough to even out busy cores, few enough to make the shared counter free.
CHUNKS_PER_THREAD = 8
MOST_CHUNKS = 256
FAILED_BYTE = 8 * LaunchWord.FAILED


class LoadedKernel:
    """Machine code in memory.  `layout`: one character of module `struct` per parameter, eight bytes apart."""

    def __init__(self, code: ObjectCode, layout: Sequence[str], block_elements: int) -> None:
        if code.processor != host_processor():
            raise ValueError("this object code was compiled for another processor or LLVM")
        self.code, self.layout, self.block_elements = code, tuple(layout), block_elements
        machine = target_machine()
        self._engine: Any = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code.code))
        self._engine.finalize_object()
        self.address = int(self._engine.get_function_address(ENTRY))
        self.call = typing.cast(Any, KERNEL(self.address))
        self.call.engine = self._engine  # whoever can call the code keeps it in memory
        # every parameter starts on a word of its own
        fields = "".join(f"{character}0q" for character in layout)
        self.record = struct.Struct(f"@{LaunchWord.PARAMETERS.value}q{fields}0q")
        self.buffer: Any = ctypes.c_char * self.record.size

    def run(self, grid: Sequence[int], arguments: Sequence[int | float]) -> None:
        """Run all blocks of `grid` (1 to 3 axes) and wait.  Arrays are addresses, sizes and scalars numbers.

        The interpreter's lock is released meanwhile; any number of threads may call this at the same time.
        Raises MemoryError where scratch memory cannot be allocated, struct.error for arguments of a wrong type.
        """
        blocks = math.prod(grid)
        if blocks <= 0:
            return
        threads, chunk = shares(blocks, self.block_elements)
        x, y = grid[0], grid[1] if len(grid) > 1 else 1
        record = self.buffer.from_buffer_copy(self.record.pack(0, chunk, blocks, x, y, 0, *arguments))
        if threads == 1:
            self.call(record)
        else:
            from polyfuse.backends.numba_cpu.fragments.threads import run_on_threads

            run_on_threads(self.address, ctypes.addressof(record), threads)
        if record[FAILED_BYTE] != b"\0":
            raise MemoryError("no scratch memory for a kernel")


def shares(blocks: int, block_elements: int) -> tuple[int, int]:
    """How many threads run a launch, and how many blocks a thread takes at a time."""
    if blocks <= 1 or blocks * block_elements < SERIAL_ELEMENTS:
        return 1, blocks
    from polyfuse.backends.numba_cpu.fragments.threads import thread_count  # Numba, which one thread does not need

    threads = min(thread_count(), blocks)
    return threads, blocks if threads == 1 else -(-blocks // min(MOST_CHUNKS, CHUNKS_PER_THREAD * threads))


def parameter_layout(arguments: Sequence[Any]) -> tuple[str, ...]:
    """The `layout` of a kernel whose parameters have these Numba types."""
    return tuple(_character(argument) for argument in arguments)


_CHARACTERS: dict[str, str] = {
    "boolean": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}


def _character(argument: Any) -> str:
    dtype = getattr(argument, "dtype", None)
    weak = getattr(argument, "weak", False)
    return _CHARACTERS[dtype.name] if weak and dtype is not None else "Q"
