"""Values along a slot in two parts: registers, and from some place on cells of shared memory while threads combine.

x = load(in, at, c < 16)                x = load(in, at, c < 8);   x_far = load(in, at + 8 * step, c < 8)
                                        put(cells, x_far)
m = max(x over c)                       m = max(x over c);   m_far = max(x_far over c);   m = maximum(m, m_far)
combine m over threads           ->     combine m over threads
e = exp(x - m)                          e = exp(x - m)
                                        x_far = get(cells);   e_far = exp(x_far - m);   put(cells, e_far)

A value is put behind its definition if something reads it behind a later combination, and got there once.  A cell is
free for another value behind the last reader of the one it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Union

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.errors import KernelError
from polyfuse.kernel_types import Types, bound_names, value_types
from polyfuse.lower.inspect import affine_names, value_references
from polyfuse.lower.reductions import merge_state
from polyfuse.scalars import MONOIDS
from polyfuse.schedule import Cells
from polyfuse.terms import Apply, Expr, Index, Inside, Ref, rewrite

MEETINGS = (ir.Combine, ir.Exchange)


def in_cells(kernel: ir.Kernel, cells: Cells) -> ir.Kernel:
    """`kernel`, a sequence of operations without loops and branches, with the places of ``cells.slot`` from
    ``cells.first`` on as values of their own.  Raises KernelError for operations that cannot be taken apart."""
    body = tuple([_narrowed(op, kernel, cells) for op in _without_renamings(kernel.body)])
    parting = _Parting(replace(kernel, body=body), cells)
    for position, op in enumerate(body):
        parting.operation(position, op)
    parting.flush()
    slots = [replace(s, extent=cells.first) if s.name == cells.slot else s for s in kernel.slots]
    if parting.far_slot != cells.slot:
        at = next(k for k, s in enumerate(slots) if s.name == cells.slot)
        slots.insert(at + 1, ir.Slot(parting.far_slot, parting.far_count))
    return replace(kernel, body=tuple(parting.done), slots=tuple(slots), cells=tuple(parting.cells))


def _narrowed(op: ir.Op, kernel: ir.Kernel, cells: Cells) -> ir.Op:
    """The operation with accesses that stay within either part: vectors may lie along the slot that is taken apart."""
    if not isinstance(op, (ir.Load, ir.Store)) or op.vector == 1:
        return op
    used = frozenset().union(*[entry.names() for entry in op.index if isinstance(entry, Affine)])
    along = [slot for slot in kernel.slots if f"${slot.name}" in used]
    if along[-1].name != cells.slot:
        return op
    return replace(op, vector=gcd(op.vector, cells.first, along[-1].extent - cells.first))


def _without_renamings(body: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
    """Second names of values that are bound once vanish: a value has one cell."""
    bound = [name for op in body for name in bound_names((op,))]
    once = {name for name in bound if bound.count(name) == 1}
    other: dict[str, Ref] = {}
    found: list[ir.Op] = []
    for op in body:
        op = _moved(op, lambda leaf: other.get(leaf.name, leaf) if isinstance(leaf, Ref) else leaf)
        match op:
            case ir.Let(name=name, value=Ref() as value) if {name, value.name} <= once:
                other[name] = value
            case _:
                found.append(op)
    return tuple(found)


@dataclass(slots=True)
class _Parting:
    """`done`: operations so far; `pending`: those on far values since the last operation that is none of both."""

    kernel: ir.Kernel
    wanted: Cells
    done: list[ir.Op] = field(default_factory=list)
    pending: list[ir.Op] = field(default_factory=list)
    cells: list[ir.ThreadCells] = field(default_factory=list)
    free: list[ir.ThreadCells] = field(default_factory=list)
    home: dict[str, ir.ThreadCells] = field(default_factory=dict)  # of the far values that are in cells
    at_hand: set[str] = field(default_factory=set)  # far values in registers since the last combination
    types: Types = field(default_factory=dict)
    varying: Mapping[str, frozenset[str]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    outlives: set[str] = field(default_factory=set)
    far_slot: str = ""
    far_count: int = 0

    def __post_init__(self) -> None:
        slot, body = self.wanted.slot, self.kernel.body
        self.types = value_types(self.kernel)
        self.varying = {name: t.axes for name, t in self.types.items() if slot in t.axes}
        self.far_count = next(s.extent for s in self.kernel.slots if s.name == slot) - self.wanted.first
        self.far_slot = slot if self.far_count == self.wanted.first else f"{slot}_far"
        defined: dict[str, int] = {}
        meetings = 0
        for position, op in enumerate(body):
            for ref in value_references((op,)):
                if ref.name in self.varying:
                    self.last[ref.name] = position
                    self.outlives |= {ref.name} if defined[ref.name] < meetings else set()
            meetings += isinstance(op, MEETINGS)
            defined |= dict.fromkeys(bound_names((op,)), meetings)

    def operation(self, position: int, op: ir.Op) -> None:
        slot = self.wanted.slot
        reads = list(dict.fromkeys(r for r in value_references((op,)) if r.name in self.varying))
        over = slot in getattr(op, "slots", ())
        if isinstance(op, MEETINGS) or self._waits_for(op):
            self.flush()
        if not reads and not over and f"${slot}" not in affine_names((op,)):
            self.done.append(op)
            if isinstance(op, MEETINGS):
                self.at_hand.clear()
            return
        if isinstance(op, (ir.Take, ir.Scan, ir.For, ir.If, ir.Contract, *MEETINGS)):
            raise KernelError(f"kernel {self.kernel.name}: {type(op).__name__} along {slot}, which is in two parts")
        self.done.append(op)
        self._fetch(reads)
        self._far(op, over)
        for ref in reads:
            if self.last[ref.name] == position and ref.name in self.home:
                self.free.append(self.home.pop(ref.name))
        for name in bound_names((op,)):
            if name in self.varying:
                self._defined(name)

    def _waits_for(self, op: ir.Op) -> bool:
        """Whether an operation reads what a pending one binds, or binds what one reads or binds."""
        bound, read = set(bound_names(self.pending)), {r.name for r in value_references(self.pending)}
        return bool({r.name for r in value_references((op,))} & bound or set(bound_names((op,))) & (bound | read))

    def flush(self) -> None:
        self.done += self.pending
        self.pending.clear()

    def _fetch(self, reads: Sequence[Ref]) -> None:
        for ref in reads:
            if ref.name not in self.at_hand:
                self.pending.append(ir.Kept(_far_name(ref.name), self.home[ref.name].name))
                self.at_hand.add(ref.name)

    def _far(self, op: ir.Op, over: bool) -> None:
        """The operation on far values; what it reduces joins what was reduced of the near ones."""
        moved = _moved(op, self._leaf, self._index, self._renamed_slot)
        early = isinstance(op, ir.Load) and not value_references((op,))  # all loads are on their way at once
        (self.done if early else self.pending).append(moved)
        if not isinstance(op, ir.Reduce) or not over:
            return
        near, far = ([Ref(rename(n), self.types[n].dtype) for n in op.names] for rename in (str, _far_name))
        if len(op.names) > 1:
            self.pending += merge_state(op.monoid, op.names, near, far)
        else:
            whole = Apply(MONOIDS[op.monoid].function, (near[0], far[0]), near[0].dtype)
            self.pending.append(ir.Let(op.names[0], whole))

    def _defined(self, name: str) -> None:
        self.at_hand.add(name)
        if name not in self.outlives:
            return
        axes = tuple(self._renamed_slot(s.name) for s in self.kernel.slots if s.name in self.varying[name])
        dtype = self.types[name].dtype
        home = next((c for c in self.free if (c.dtype, c.slots) == (dtype, axes)), None)
        if home is None:
            home = ir.ThreadCells(f"{name}.cells", dtype, axes)
            self.cells.append(home)
        else:
            self.free.remove(home)
        self.home[name] = home
        self.pending.append(ir.Keep(home.name, Ref(_far_name(name), dtype)))

    def _renamed_slot(self, slot: str) -> str:
        return self.far_slot if slot == self.wanted.slot else slot

    def _index(self, index: Affine) -> Affine:
        return index.substitute({f"${self.wanted.slot}": digit(self.far_slot) + self.wanted.first})

    def _leaf(self, leaf: Ref | ir.Const | Index | Inside) -> Expr:
        match leaf:
            case Ref(name=name) if name in self.varying:
                return replace(leaf, name=_far_name(name))
            case Index(affine=affine):
                return replace(leaf, affine=self._index(affine))
            case Inside(where=where):
                return Inside(tuple(map(self._index, where)))
            case _:
                return leaf


def _far_name(name: str) -> str:
    return f"{name}.far"


Leaf = Callable[[Union[Ref, ir.Const, Index, Inside]], Expr]


def _same(index: Affine) -> Affine:
    return index


def _moved(
    op: ir.Op, leaf: Leaf, index: Callable[[Affine], Affine] = _same, slot: Callable[[str], str] | None = None
) -> ir.Op:
    """`op` with the leaves of its terms, its indices and its slots replaced; with `slot`, it binds far names."""

    def term(value: Expr) -> Expr:
        return rewrite(value, leaf)

    def entry(at: Affine | Ref) -> Affine | Ref:
        found = index(at) if isinstance(at, Affine) else leaf(at)
        assert isinstance(found, (Affine, Ref))
        return found

    def bound(name: str) -> str:
        return _far_name(name) if slot is not None else name

    match op:
        case ir.Let(name=name, value=value):
            return ir.Let(bound(name), term(value))
        case ir.Load():
            where = tuple(map(index, op.where))
            mask = None if op.mask is None else term(op.mask)
            return replace(op, name=bound(op.name), index=tuple(map(entry, op.index)), where=where, mask=mask)
        case ir.Store() | ir.AtomicUpdate():
            where = tuple(map(index, op.where))
            mask = None if op.mask is None else term(op.mask)
            return replace(op, index=tuple(map(entry, op.index)), value=term(op.value), where=where, mask=mask)
        case ir.Reduce():
            slots = op.slots if slot is None else tuple(map(slot, op.slots))
            return replace(op, names=tuple(map(bound, op.names)), values=tuple(map(term, op.values)), slots=slots)
        case ir.Combine() | ir.Exchange():
            return replace(op, values=tuple(map(term, op.values)))
        case _:
            return op
