"""What all scatters have that kernels run: a base, updates, and a monoid that combines what meets."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polyfuse.affine import Affine
from polyfuse.dtypes import DType
from polyfuse.expr import Shape
from polyfuse.scop import Scop

ONE = Affine.of(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterCall:
    """`base` and `updates`: values of the SCoP; `result` is the scatter's own.  `count`: updates, or rows of them."""

    scop: Scop
    result: int
    base: int
    updates: int
    monoid: str
    count: Affine

    @property
    def name(self) -> str:
        return self.scop.statements[self.result].name

    @property
    def shape(self) -> Shape:
        """Of the result."""
        return self.scop.shape(self.result)

    @property
    def dtype(self) -> DType:
        """Of the result."""
        return self.scop.dtype(self.result)

    @property
    def target(self) -> str:
        """The parameter of the result."""
        return f"{self.name}_out"


def elements(shape: Shape) -> Affine | None:
    """Of an array of that shape; None for a product of several sizes."""
    symbolic = [n for n in shape if not n.is_constant]
    if len(symbolic) > 1:
        return None
    return (symbolic or [ONE])[0] * prod(n.constant for n in shape if n.is_constant)
