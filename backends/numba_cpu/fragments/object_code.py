"""Object code and the processor that it is for: all that loading a compiled kernel needs, without Numba."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
from collections.abc import Sequence
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


FOLDING, FOLDED = 22, ("avx512dq", "avx512bw")
SIGNS = re.compile(rb"(?:\xc5|\xc4.)[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd][\x50\xd7]", re.DOTALL)
"""Since version 22 LLVM folds a mask that is made of the signs of a vector and moved to a general register, vpmovd2m
and kmovd, to one vmovmskps, also where the mask is still in use (its issue 198197) and where the vector is in one of
the registers that vmovmskps cannot name (191304).  Sums of 65537 rows of three lost the last of them.  The features
without which there is no such mask, and what is left where LLVM folded: vmovmskps, vmovmskpd or vpmovmskb."""


def object_code(module: Any) -> bytes:
    """The machine code of an optimised LLVM module, for this processor: without some of its instructions where LLVM may
    have taken one mask for another."""
    code: bytes = target_machine().emit_object(module)
    return target_machine(without=FOLDED).emit_object(module) if may_have_folded_masks(code) else code


def may_have_folded_masks(code: bytes) -> bool:
    """Whether LLVM may have taken one mask for another in machine code for this processor."""
    features = _processor()[1].split(",")
    has_masks = any(f"+{feature}" in features for feature in FOLDED)
    return has_masks and binding.llvm_version_info[0] >= FOLDING and SIGNS.search(code) is not None


def target_machine(without: Sequence[str] = ()) -> Any:
    """LLVM's code generator for this processor, or for one `without` some features."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    name, features = _processor()
    features = ",".join([features, *(f"-{feature}" for feature in without)])
    return target.create_target_machine(cpu=name, features=features, opt=2, jit=True)
