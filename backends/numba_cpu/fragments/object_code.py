"""Object code and the processor that it is for: all that loading a compiled kernel needs, without Numba."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from llvmlite import binding

ENTRY = "polyfuse_kernel"
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class LaunchWord(IntEnum):
    """The fixed words of a launch record."""

    NEXT = 0  # the first block that no thread has taken
    CHUNK = 1  # blocks that a thread takes at a time
    BLOCKS = 2  # blocks in all
    EXTENT_0 = 3  # blocks along grid axis 0, the fastest
    EXTENT_1 = 4
    FAILED = 5  # set to 1 where scratch memory could not be allocated
    PARAMETERS = 6


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """Relocatable machine code of one kernel, and the processor that it was compiled for."""

    code: bytes
    processor: str


@functools.cache
def _processor() -> tuple[str, str]:
    """Name and features of this processor, which LLVM takes a millisecond to find."""
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@functools.cache
def host_processor() -> str:
    """A digest of what object code depends on: the processor, its features and the LLVM version."""
    parts = [binding.get_process_triple(), *_processor(), str(binding.llvm_version_info)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def target_machine() -> Any:
    """LLVM's code generator for this processor."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    name, features = _processor()
    return target.create_target_machine(cpu=name, features=features, opt=2, jit=True)
