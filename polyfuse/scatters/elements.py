"""A scatter of elements: which updates may be merged as they come, what into, by how many blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.dtypes import DType, i64
from polyfuse.expr import IndexEntry, Shape
from polyfuse.scatters.call import ONE, ScatterCall, elements
from polyfuse.scatters.operands import index_operands, narrow_updates
from polyfuse.scatters.ways import MERGED, WORDS, is_mergeable
from polyfuse.scop import OpaqueStatement, Scop

THREADS, SLOTS = 512, 4
CAPACITIES, SHARED = (256, 1024, 4096, 8192), 32768
"""Cells of a block in shared memory, and bytes: all blocks that a multiprocessor has threads for fit."""
BLOCKS = 2  # per multiprocessor, each of which clears and merges its cells once
COUNTED = 2**30  # updates that one block counts at most: its cells are i32


@dataclass(frozen=True, slots=True)
class Cells:
    """Of how many blocks, and how many of each."""

    blocks: int = 0
    capacity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementScatter(ScatterCall):
    """Updates and indices are vectors of `count` elements, or of one for all.

    `operands`: the integer arrays of `index`, values of the SCoP.  `wraps`: per operand whether negative indices in it
    count from the end.
    """

    operands: tuple[int, ...]
    index: tuple[IndexEntry, ...]
    bounds: str
    wraps: tuple[bool, ...]

    @staticmethod
    def of(scop: Scop, statement: OpaqueStatement, atomics: bool = False) -> ElementScatter | None:
        """None for other calls, for updates that memory has no instruction for, or one whose bits vary but for
        `atomics`, and for those whose number is a product of sizes or that go to affine positions along several
        axes."""
        settings: Mapping[str, Any] = dict(statement.call.settings)
        if statement.call.name != "scatter":
            return None
        base, updates, *operands = statement.operands
        shapes = [scop.shape(v) for v in (updates, *operands)]
        monoid, index = settings["monoid"], settings["index"]
        count = _counted(monoid, index, shapes, scop.dtype(base), atomics)
        if count is None:
            return None
        return ElementScatter(
            scop=scop, result=statement.id, base=base, updates=updates, monoid=monoid, count=count,
            operands=tuple(operands), index=index, bounds=settings["bounds"], wraps=settings["wraps"],
        )  # fmt: skip

    @property
    def is_checked(self) -> bool:
        return self.bounds == "raise" and bool(self.operands)

    @property
    def is_count(self) -> bool:
        """Whether every update adds the same number."""
        return self.monoid == "sum" and elements(self.scop.shape(self.updates)) == ONE

    @property
    def is_apart(self) -> bool:
        """Whether counts have an array of their own, because nothing but a count is merged in any order."""
        return self.is_count and self.dtype.name not in WORDS

    @property
    def into(self) -> str:
        """The parameter that updates are merged into."""
        return f"{self.name}_counts" if self.is_apart else self.target

    @property
    def merged(self) -> DType:
        """The dtype of its elements."""
        return i64 if self.is_apart else self.dtype

    def array(self, value: int) -> str:
        """The parameter of updates or an index: a vector, and the same one where a value is both."""
        return f"{self.scop.statements[value].name}_in"

    @property
    def base_array(self) -> str:
        """The parameter of the base, another one where updates are the same value: it has the shape of the result."""
        return f"{self.scop.statements[self.base].name}_base"

    def arrays(self) -> dict[str, int]:
        """The value behind each array parameter."""
        read = {self.array(v): v for v in (self.updates, *self.operands)}
        return {self.target: self.result, self.base_array: self.base, **read}

    def cells(self, processors: int, hints: Mapping[str, int]) -> Cells:
        """No blocks where updates go to memory at once."""
        size, count = elements(self.shape), self.count.evaluate(hints)
        if size is None:
            return Cells()
        places, itemsize = size.evaluate(hints), 4 if self.is_count else self.dtype.itemsize
        capacity = next((c for c in CAPACITIES if c >= places and c * itemsize <= SHARED), 0)
        most = count // (4 * max(1, places))  # what merging the cells costs stays small beside the updates
        blocks = min(BLOCKS * processors, most, -(-count // (THREADS * SLOTS * 4))) if capacity else 0
        return Cells(blocks, capacity) if blocks > 0 else Cells()


def is_merged(node: expr.Scatter, atomics: bool) -> bool:
    """Whether a scatter is one of those, as `ElementScatter.of` finds."""
    operands, index, _ = index_operands(node)
    shapes = [o.shape for o in (narrow_updates(node), *operands)]
    return _counted(node.monoid, index, shapes, node.dtype, atomics) is not None


def _counted(
    monoid: str, index: Sequence[IndexEntry], shapes: Sequence[Shape], dtype: DType, atomics: bool
) -> Affine | None:
    """The number of updates; `shapes`: of them, and of the operands of the index."""
    over = next((s for s in shapes if elements(s) != ONE), shapes[0])
    is_affine = any(isinstance(e, Affine) and not e.is_constant for e in index)
    if monoid not in MERGED or (is_affine and len(over) > 1):
        return None
    if any(s != over and elements(s) != ONE for s in shapes):
        return None
    is_count = monoid == "sum" and elements(shapes[0]) == ONE
    return elements(over) if is_mergeable(monoid, dtype, atomics) or (is_count and dtype.kind in "iuf") else None


def fits(scatter: ElementScatter, cells: Cells) -> tuple[Guard, ...]:
    """For the sizes at which a block has a cell for every element, and no cell overflows."""
    size = elements(scatter.shape)
    if not cells.blocks or size is None:
        return ()
    needed = (Affine.of(cells.blocks * COUNTED) - scatter.count, cells.capacity - size)
    return tuple(Guard(condition) for condition in needed if not condition.is_constant)
