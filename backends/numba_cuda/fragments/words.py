"""Values as 64-bit words in global memory, half of each a mark that it is there: what one block leaves for others.

A word is written and read as a whole (PTX ISA, memory consistency model: relaxed operations of one scope on one
location are never torn), so no fence orders value and mark.
"""

from __future__ import annotations

from polyfuse.backends.numba_cuda.fragments.slots import assembly
from polyfuse.backends.numba_cuda.fragments.values import (
    I32,
    I64,
    Builder,
    DType,
    Value,
    is_float,
    itemsize,
    register_type,
)
from polyfuse.backends.numba_cuda.numba_api import ir

MARK = 1 << 32  # of a word that holds something


def i64(value: int) -> Value:
    """A constant."""
    return ir.Constant(I64, value)


def to_words(b: Builder, dtype: DType, value: Value) -> list[Value]:
    """A slot in marked words, 32 bits in each."""
    if is_float(dtype):
        value = b.bitcast(value, I64 if itemsize(dtype) == 8 else I32)
    if itemsize(dtype) == 8:
        halves = [b.and_(value, i64(MARK - 1)), b.lshr(value, i64(32))]
    else:
        halves = [b.and_(b.zext(value, I64), i64(MARK - 1))]
    return [b.or_(half, i64(MARK)) for half in halves]


def from_words(b: Builder, dtype: DType, words: list[Value]) -> Value:
    """The slot that `to_words` made words of."""
    if itemsize(dtype) == 8:
        whole = b.or_(b.and_(words[0], i64(MARK - 1)), b.shl(words[1], i64(32)))
    else:
        whole = b.trunc(words[0], I32)
    llvm = register_type(dtype)
    if is_float(dtype):
        return b.bitcast(whole, llvm)
    return b.trunc(whole, llvm) if llvm.width < whole.type.width else whole


def _pairs(words: int) -> list[tuple[int, int]]:
    """Where accesses begin, and how many words each moves: two where all come in pairs, which are aligned then."""
    step = 2 if words % 2 == 0 else 1
    return [(k, step) for k in range(0, words, step)]


def load_words(b: Builder, address: Value, words: int) -> list[Value]:
    """So many words from an address on, as they are at this moment: with their marks or without."""
    found: list[Value] = []
    for start, count in _pairs(words):
        at = b.add(address, i64(8 * start))
        if count == 1:
            text = "ld.relaxed.gpu.global.b64 $0, [$1];"
            found.append(assembly(b, text, "=l,l,~{memory}", I64, [at], effect=True))
        else:
            text = "ld.relaxed.gpu.global.v2.b64 {$0, $1}, [$2];"
            pair = assembly(b, text, "=l,=l,l,~{memory}", ir.LiteralStructType([I64, I64]), [at], effect=True)
            found += [b.extract_value(pair, 0), b.extract_value(pair, 1)]
    return found


def store_words(b: Builder, address: Value, words: list[Value]) -> None:
    """Write words from an address on."""
    for start, count in _pairs(len(words)):
        at, some = b.add(address, i64(8 * start)), words[start : start + count]
        if count == 1:
            text, constraints = "st.relaxed.gpu.global.b64 [$0], $1;", "l,l,~{memory}"
        else:
            text, constraints = "st.relaxed.gpu.global.v2.b64 [$0], {$1, $2};", "l,l,l,~{memory}"
        assembly(b, text, constraints, ir.VoidType(), [at, *some], effect=True)
