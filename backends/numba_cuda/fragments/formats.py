"""Memory words and register slots: one access moves up to 16 bytes, and 8- and 16-bit elements travel packed in words.

16-bit floats widen to float32 when loaded and round to nearest even when stored, but for those that are stored as they
were loaded, whatever their bits; booleans are bytes in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from polyfuse.backends.numba_cuda.fragments.slots import assembly
from polyfuse.backends.numba_cuda.fragments.values import (
    F32,
    I1,
    I8,
    I16,
    I32,
    Builder,
    DType,
    Value,
    bfloat16,
    boolean,
    float16,
    itemsize,
    memory_type,
)
from polyfuse.backends.numba_cuda.numba_api import ir


@dataclass(frozen=True)
class Access:
    """One load or store instruction: `width` elements in `count` words."""

    dtype: DType
    width: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.width * itemsize(self.dtype)

    @property
    def word(self) -> Any:
        """The LLVM type of a word."""
        if itemsize(self.dtype) >= 4:
            return memory_type(self.dtype)
        return I32 if self.size >= 4 else ir.IntType(8 * self.size)

    @property
    def count(self) -> int:
        """Words of the access."""
        return self.width if itemsize(self.dtype) >= 4 else max(1, self.size // 4)

    @property
    def elements(self) -> int:
        """Elements in a word."""
        return self.width // self.count


def widest(dtype: DType, vector: int) -> Access:
    """The widest access that divides a vector: a power of two of elements, at most 16 bytes."""
    return Access(dtype, min(vector & -vector, 16 // itemsize(dtype)))


def widen(b: Builder, access: Access, words: list[Value]) -> list[Value]:
    """Words as register slots."""
    if itemsize(access.dtype) >= 4:
        return words
    return [_element(b, access.dtype, word, k) for word in words for k in range(access.elements)]


_CAME_FROM: WeakKeyDictionary[Value, tuple[Value, int, DType]] = WeakKeyDictionary()
"""Of 16-bit floats that were loaded, the word, which half of it they are, and of what format."""


def _element(b: Builder, dtype: DType, word: Value, position: int) -> Value:
    """Element `position` of a word."""
    found = _converted(b, dtype, word, position)
    if dtype in (float16, bfloat16):
        _CAME_FROM[found] = word, position, dtype
    return found


def _converted(b: Builder, dtype: DType, word: Value, position: int) -> Value:
    if dtype == bfloat16:
        wide = word if word.type == I32 else b.zext(word, I32)
        bits = b.and_(wide, ir.Constant(I32, -65536)) if position else b.shl(wide, ir.Constant(I32, 16))
        return b.bitcast(bits, F32)
    narrow = memory_type(dtype)
    if position:
        word = b.lshr(word, ir.Constant(word.type, position * narrow.width))
    part = word if word.type == narrow else b.trunc(word, narrow)
    if dtype == float16:
        return assembly(b, "cvt.f32.f16 $0, $1;", "=f,h", F32, [part], effect=False)
    return b.icmp_unsigned("!=", part, ir.Constant(I8, 0)) if dtype == boolean else part


def narrow(b: Builder, access: Access, slots: list[Value]) -> list[Value]:
    """Register slots as words."""
    if itemsize(access.dtype) >= 4:
        return slots
    step = access.elements
    return [_word(b, access, slots[k : k + step]) for k in range(0, len(slots), step)]


def _word(b: Builder, access: Access, slots: list[Value]) -> Value:
    """One word of `slots`, the first in the low bits."""
    if access.dtype in (float16, bfloat16):
        kind = "bf16" if access.dtype == bfloat16 else "f16"
        loaded = [_CAME_FROM.get(slot) for slot in slots]
        halves = [(word, half) for word, half, dtype in filter(None, loaded) if dtype == access.dtype]
        if len(halves) == len(slots):
            return _of_halves(b, halves)  # nothing to round
        if all(isinstance(slot, ir.Constant) and str(slot.constant) == "0.0" for slot in slots):
            return ir.Constant(access.word, 0)
        if len(slots) == 2:
            low, high = slots
            return assembly(b, f"cvt.rn.{kind}x2.f32 $0, $1, $2;", "=r,f,f", I32, [high, low], effect=False)
        return assembly(b, f"cvt.rn.{kind}.f32 $0, $1;", "=h,f", I16, slots, effect=False)
    parts = [b.zext(slot, I8) if slot.type == I1 else slot for slot in slots]
    result = None
    for position, part in enumerate(parts):
        wide = part if part.type == access.word else b.zext(part, access.word)
        if position:
            wide = b.shl(wide, ir.Constant(access.word, position * part.type.width))
        result = wide if result is None else b.or_(result, wide)
    return result


def _of_halves(b: Builder, halves: list[tuple[Value, int]]) -> Value:
    """One or two halves of words, side by side as they are: NaNs keep their bits."""
    if len(halves) == 1:
        ((word, half),) = halves
        return word if word.type == I16 else b.trunc(b.lshr(word, ir.Constant(I32, 16 * half)), I16)
    (one, first), (other, second) = halves
    if one is other and (first, second) == (0, 1):
        return one
    wide = [word if word.type == I32 else b.zext(word, I32) for word in (one, other)]
    low = b.lshr(wide[0], ir.Constant(I32, 16)) if first else b.and_(wide[0], ir.Constant(I32, 0xFFFF))
    high = b.and_(wide[1], ir.Constant(I32, -65536)) if second else b.shl(wide[1], ir.Constant(I32, 16))
    return b.or_(low, high)
