"""The element types of fragments, as they lie in memory and in registers."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

_FLOATS: dict[int, ir.Type] = {16: ir.HalfType(), 32: ir.FloatType(), 64: ir.DoubleType()}


@dataclass(frozen=True, slots=True)
class Element:
    """One element type.  `kind` is one of ``b i u f``; `bits` its width in memory."""

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def itemsize(self) -> int:
        """Bytes per element in memory."""
        return self.bits // 8

    @property
    def compute(self) -> Element:
        """The element type in registers: 16-bit floats widen to float32."""
        return float32 if self.is_float and self.bits == 16 else self

    @property
    def register(self) -> ir.Type:
        """The LLVM type of one slot in registers; only defined for compute types."""
        if self.is_float:
            return _FLOATS[self.bits]
        return ir.IntType(1 if self.kind == "b" else self.bits)

    @property
    def memory(self) -> ir.Type:
        """The LLVM type of one element in memory; 16-bit floats travel as integers."""
        return _FLOATS[self.bits] if self.is_float and self.bits > 16 else ir.IntType(self.bits)

    def __str__(self) -> str:
        return self.name


boolean = Element("boolean", "b", 8)
int8, int16, int32, int64 = (Element(f"int{n}", "i", n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Element(f"uint{n}", "u", n) for n in (8, 16, 32, 64))
float16 = Element("float16", "f", 16)
bfloat16 = Element("bfloat16", "f", 16)
float32 = Element("float32", "f", 32)
float64 = Element("float64", "f", 64)
