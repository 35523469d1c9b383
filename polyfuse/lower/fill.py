"""The launch in front of a kernel whose blocks merge their shares: it fills each result with the neutral element.

    grid ceil(N / 1024):  block t < 256:  slots v < 4:  s[1024*b0 + 256*v + t] = 0
"""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import DType
from polyfuse.expr import Shape

THREADS, SLOTS = 256, 4


def fill_kernel(name: str, array: str, dtype: DType, shape: Shape, value: ir.Const, index_bits: int) -> ir.Kernel:
    """Stores `value` into every element of an array of any rank in C order.  Its parameters: the array, then the sizes
    that its shape mentions."""
    t, v = Affine.symbol("$t"), digit("v")
    outer = tuple(digit(f"b{k + 1}") for k in range(len(shape) - 1))
    *rows, last = shape or (Affine.of(1),)
    across = THREADS * SLOTS * digit("b0") + THREADS * v + t
    sizes = dict.fromkeys(n for extent in shape for n in sorted(extent.names()))
    store = ir.Store(array, (*outer, across) if shape else (), value, (last - across - 1,))
    return ir.Kernel(
        name=name,
        parameters=(ir.ArrayParameter(array, dtype, shape, readonly=False), *map(ir.SizeParameter, sizes)),
        grid=(last.ceildiv(THREADS * SLOTS), *rows),
        threads=THREADS,
        digits=(),
        slots=(ir.Slot("v", SLOTS),),
        shared=(),
        body=(store,),
        index_bits=index_bits,
    )
