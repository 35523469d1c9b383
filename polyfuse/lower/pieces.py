"""Of blocks at the border: where a value is read from one of two places, the second read leaves what the first one got.

    a_2 = load a[i + 1 - n, j] where i + 1 >= n
    y = where(i + 1 >= n, a_2, a_1)                  ->    y = load a[i + 1 - n, j] where i + 1 >= n, else a_1

Of each side of an array that is rolled a block at the border has loads of its own, all but one or two of which it
passes by.  With a choice behind each of them all their results are there at once, in more registers than a thread has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.kernel_types import Types, access_axes, memories, value_types
from polyfuse.lower.inspect import flatten, parts
from polyfuse.terms import Apply, Expr, Inside, Ref, references

MEETING = (ir.Reduce, ir.Combine, ir.Scan, ir.Contract)
"""What goes through slots: it may rely on zeros where a load has nothing to read."""


def with_pieces(kernel: ir.Kernel) -> ir.Kernel:
    """`kernel` with such reads as one."""
    ops = list(flatten(kernel.body))
    if not any(isinstance(op, ir.Load) and op.some for op in ops) or any(isinstance(op, MEETING) for op in ops):
        return kernel
    return replace(kernel, body=_Pieces(kernel, value_types(kernel)).block(kernel.body))


@dataclass(frozen=True, slots=True)
class _Pieces:
    kernel: ir.Kernel
    types: Types

    def block(self, body: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
        loads = {op.name: op for op in body if isinstance(op, ir.Load) and op.some and op.mask is None}
        uses = Counter(name for op in flatten(body) for part in parts(op) for name in _named(part))
        known = {op.name: op for op in body if isinstance(op, (ir.Load, ir.Take))}
        ended, found = set[str](), list[ir.Op]()
        stored = False  # a result may lie in the array that is loaded: no load moves behind what stores it
        for op in body:
            stored = stored or isinstance(op, (ir.Store, ir.AtomicUpdate, ir.For))
            if isinstance(op, ir.If):
                found.append(replace(op, body=self.block(op.body), orelse=self.block(op.orelse)))
                continue
            both = self._joined(op, loads, uses, known) if isinstance(op, ir.Let) and not stored else None
            if both is not None:
                ended.add(both[0])
                known[both[1].name] = both[1]
            found.append(op if both is None else both[1])
        return tuple(op for op in found if not (isinstance(op, ir.Load) and op.name in ended))

    def _joined(
        self,
        op: ir.Let,
        loads: dict[str, ir.Load],
        uses: Counter[str],
        known: dict[str, ir.Load | ir.Take],
    ) -> tuple[str, ir.Load] | None:
        """The name of the load that a choice ends, and the load that takes its place."""
        match op.value:
            case Apply("where", (Inside(where), Ref() as chosen, Ref() as other)):
                pass
            case _:
                return None
        ways = [(chosen, where, other)]
        if len(where) == 1:
            ways.append((other, (-where[0] - 1,), chosen))
        for read, condition, left in ways:
            load = loads.get(read.name)
            if load is not None and uses[read.name] == 1 and self._fits(op, load, condition, left, known):
                where = (*load.where, *(c for c in condition if c not in load.where))
                return read.name, replace(load, name=op.name, where=where, instead=left)
        return None

    def _fits(
        self,
        op: ir.Let,
        load: ir.Load,
        condition: tuple[Affine, ...],
        left: Ref,
        known: dict[str, ir.Load | ir.Take],
    ) -> bool:
        """Whether the load makes a value of the same type, in the same accesses."""
        memory = memories(self.kernel)[load.array]
        is_read = memory.dtype == memory.dtype.compute or left.name in known  # not a number between two of memory's
        axes = access_axes(load.index, (*load.where, *condition), None, self.types, self.kernel)
        vector = [s.name for s in self.kernel.slots if s.name in axes and s.extent > 1][-1:] if load.vector > 1 else []
        varies = any(f"${slot}" in c.names() for slot in vector for c in condition)
        mine, theirs = self.types[op.name], self.types[left.name]
        return (
            is_read
            and not varies
            and load.span == 1
            and mine.dtype == theirs.dtype == memory.dtype.compute
            and axes == mine.axes
            and theirs.axes <= axes
        )


def _named(part: Affine | Expr) -> list[str]:
    return [] if isinstance(part, Affine) else [r.name for r in references(part)]
