"""Values along a slot in two parts: registers, and from some place on cells of shared memory while threads combine.

x = load(in, at, c < 16)                x = load(in, at, c < 8);   x_far = load(in, at + 8 * step, c < 8)
                                        put(cells, x_far)
m = max(x over c)                       m = max(x over c);   m_far = max(x_far over c);   m = maximum(m, m_far)
combine m over threads           ->     combine m over threads
e = exp(x - m)                          e = exp(x - m)
                                        x_far = get(cells);   e_far = exp(x_far - m);   put(cells, e_far)

A value is put behind its definition if something reads it behind a later combination, and got there once.  A cell is
free for another value behind the last reader of the one it holds.  What combines next to each other combines behind the
last of the sums in registers, so that what the others sum needs no cells meanwhile.

Where the schedule asks for pieces, either part is several: x, x_1 in registers, x_far, x_far_1 in cells, and between
two combinations one piece is finished before the next one begins.  Loads in front of the first combination are all on
their way at once; later ones come with their piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, inf
from types import MappingProxyType
from typing import Union

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import DType
from polyfuse.errors import KernelError
from polyfuse.kernel_types import Types, bound_names, value_types
from polyfuse.lower.inspect import affine_names, value_references
from polyfuse.lower.reductions import merge_state
from polyfuse.scalars import MONOIDS
from polyfuse.schedule import Cells
from polyfuse.terms import Apply, Expr, Index, Inside, Ref, rewrite

MEETINGS = (ir.Combine, ir.Exchange)


@dataclass(frozen=True, slots=True)
class _Part:
    """Places `start` to ``start + count`` of the slot that is taken apart, which lie along `slot` there; `suffix`: of
    the values' names; `kept`: whether they wait in cells."""

    start: int
    count: int
    slot: str
    suffix: str
    kept: bool

    def name(self, name: str) -> str:
        return f"{name}{self.suffix}"


def in_cells(kernel: ir.Kernel, cells: Cells, narrow: Mapping[str, DType] = MappingProxyType({})) -> ir.Kernel:
    """`kernel`, a sequence of operations without loops and branches, with the places of ``cells.slot`` from
    ``cells.first`` on as values of their own.  `narrow`: loads that wait as memory has them.  Raises KernelError for
    operations that cannot be taken apart."""
    parts = _parts(next(s.extent for s in kernel.slots if s.name == cells.slot), cells)
    body = tuple([_narrowed(op, kernel, cells.slot, parts) for op in _meeting_late(_without_renamings(kernel.body))])
    parting = _Parting(replace(kernel, body=body), cells.slot, parts, _with_masked(body, narrow))
    for position, op in enumerate(body):
        parting.operation(position, op)
    parting.flush()
    slots = [replace(s, extent=parts[0].count) if s.name == cells.slot else s for s in kernel.slots]
    at = 1 + next(k for k, s in enumerate(slots) if s.name == cells.slot)
    slots[at:at] = [ir.Slot(*own) for own in dict.fromkeys((p.slot, p.count) for p in parts) if own[0] != cells.slot]
    known = tuple(_settled(kernel.settled, cells.slot, parts))
    return replace(
        kernel, body=tuple(parting.done), slots=tuple(slots), cells=tuple(parting.cells), settled=known
    )


def _with_masked(body: Sequence[ir.Op], narrow: Mapping[str, DType]) -> dict[str, DType]:
    """Of loads and of those that are masked again, with a number of every format."""
    found = dict(narrow)
    for op in body:
        match op:
            case ir.Let(name=name, value=Apply("where", (Inside(), Ref(name=loaded), ir.Const(value=other)))):
                if loaded in found and other in (0, 1, inf, -inf):
                    found[name] = found[loaded]
            case _:
                pass
    return found


def _settled(known: Sequence[ir.Settled], slot: str, parts: Sequence[_Part]) -> Iterator[ir.Settled]:
    """What is known of places of the slot that is taken apart, as it is of those of its parts."""
    for one in known:
        for part in parts if f"${slot}" in one.condition.names() else ():
            condition = one.condition.substitute({f"${slot}": digit(part.slot) + part.start})
            if one.slot != slot:
                yield replace(one, condition=condition)
                continue
            first, stop = max(one.first - part.start, 0), min(one.stop - part.start, part.count)
            if first < stop:
                yield ir.Settled(condition, part.slot, first, stop)
        if f"${slot}" not in one.condition.names():
            yield one


def _parts(extent: int, cells: Cells) -> tuple[_Part, ...]:
    """The first one has the names of the whole; parts of its length lie along the same slot."""
    found: list[_Part] = []
    for low, high, ending in ((0, cells.first, ""), (cells.first, extent, ".far")):
        step = cells.piece or high - low
        for number, start in enumerate(range(low, high, step)):
            count = min(step, high - start)
            other = f"{cells.slot}_{count if cells.piece else 'far'}"
            slot = cells.slot if not found or count == found[0].count else other
            found.append(_Part(start, count, slot, f"{ending}.{number}" if number else ending, bool(ending)))
    return tuple(found)


def _narrowed(op: ir.Op, kernel: ir.Kernel, slot: str, parts: Sequence[_Part]) -> ir.Op:
    """The operation with accesses that stay within one part: vectors may lie along the slot that is taken apart."""
    if not isinstance(op, (ir.Load, ir.Store)) or op.vector == op.span == 1:
        return op
    if op.span > 1:
        return replace(op, span=1)
    used = frozenset().union(*[entry.names() for entry in op.index if isinstance(entry, Affine)])
    along = [slot for slot in kernel.slots if f"${slot.name}" in used]
    if along[-1].name != slot:
        return op
    return replace(op, vector=gcd(op.vector, *[part.count for part in parts]))


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


def _meeting_late(body: Sequence[ir.Op]) -> list[ir.Op]:
    """Every combination behind the reductions that follow and need none of those in front of them."""
    found: list[ir.Op] = []
    at = 0
    while at < len(body):
        stop, stretch = at + 1, [body[at]]
        if isinstance(body[at], MEETINGS):
            stop = _last_reduction(body, at)
            stretch = sorted(body[at:stop], key=lambda op: isinstance(op, MEETINGS))
        found += stretch
        at = stop
    return found


def _last_reduction(body: Sequence[ir.Op], at: int) -> int:
    """Behind the last reduction that may come in front of the combination `at`."""
    met: set[str] = set()
    stop = at + 1
    for k, op in enumerate(body[at:], at):
        named = {*bound_names((op,)), *(r.name for r in value_references((op,)))}
        if not isinstance(op, (ir.Let, ir.Load, ir.Reduce, *MEETINGS)) or named & met:
            break
        if isinstance(op, MEETINGS):
            met |= named
        if isinstance(op, ir.Reduce):
            stop = k + 1
    return stop


@dataclass(slots=True)
class _Parting:
    """`done`: operations so far; `pending`: per part but the first, those on its values since the last operation that
    is on none."""

    kernel: ir.Kernel
    slot: str
    parts: tuple[_Part, ...]
    narrow: Mapping[str, DType] = field(default_factory=dict)  # of values that wait in another format
    done: list[ir.Op] = field(default_factory=list)
    pending: dict[_Part, list[ir.Op]] = field(default_factory=dict)
    cells: list[ir.ThreadCells] = field(default_factory=list)
    free: dict[_Part, list[ir.ThreadCells]] = field(default_factory=dict)
    home: dict[tuple[str, _Part], ir.ThreadCells] = field(default_factory=dict)  # of the values that are in cells
    at_hand: set[str] = field(default_factory=set)  # values that are whole in registers since the last combination
    types: Types = field(default_factory=dict)
    varying: Mapping[str, frozenset[str]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    outlives: set[str] = field(default_factory=set)
    meetings: int = 0

    def __post_init__(self) -> None:
        self.types = value_types(self.kernel)
        self.varying = {name: t.axes for name, t in self.types.items() if self.slot in t.axes}
        self.pending, self.free = {p: [] for p in self.parts[1:]}, {p: [] for p in self.parts}
        defined: dict[str, int] = {}
        meetings = 0
        for position, op in enumerate(self.kernel.body):
            for ref in value_references((op,)):
                if ref.name in self.varying:
                    self.last[ref.name] = position
                    self.outlives |= {ref.name} if defined[ref.name] < meetings else set()
            meetings += isinstance(op, MEETINGS)
            defined |= dict.fromkeys(bound_names((op,)), meetings)

    def operation(self, position: int, op: ir.Op) -> None:
        reads = list(dict.fromkeys(r for r in value_references((op,)) if r.name in self.varying))
        over = self.slot in getattr(op, "slots", ())
        if isinstance(op, MEETINGS) or self._waits_for(op):
            self.flush()
        if not reads and not over and f"${self.slot}" not in affine_names((op,)):
            self.done.append(op)
            if isinstance(op, MEETINGS):
                self.meetings += 1
                self.at_hand.clear()
            return
        if isinstance(op, (ir.Take, ir.Scan, ir.For, ir.If, ir.Contract, *MEETINGS)):
            what = f"{type(op).__name__} along {self.slot}"
            raise KernelError(f"kernel {self.kernel.name}: {what}, which is in two parts")
        self.done.append(op)
        for part, pending in self.pending.items():
            pending += self._fetched(part, reads)
            self._elsewhere(part, op, over)
        self.at_hand |= {ref.name for ref in reads}
        for ref in reads:
            if self.last[ref.name] == position:
                self._gone(ref.name)
        for name in bound_names((op,)):
            if name in self.varying:
                self._defined(name)

    def _waits_for(self, op: ir.Op) -> bool:
        """Whether an operation reads what a pending one binds, or binds what one reads or binds."""
        waiting = [other for pending in self.pending.values() for other in pending]
        bound, read = set(bound_names(waiting)), {r.name for r in value_references(waiting)}
        return bool({r.name for r in value_references((op,))} & bound or set(bound_names((op,))) & (bound | read))

    def flush(self) -> None:
        for pending in self.pending.values():
            self.done += pending
            pending.clear()

    def _fetched(self, part: _Part, reads: Sequence[Ref]) -> list[ir.Op]:
        away = [ref.name for ref in reads if part.kept and ref.name not in self.at_hand]
        return [ir.Kept(part.name(name), self.home[name, part].name) for name in away]

    def _elsewhere(self, part: _Part, op: ir.Op, over: bool) -> None:
        """The operation on the values of another part; what it reduces joins what was reduced before."""
        moved = _moved(op, lambda leaf: self._leaf(part, leaf), lambda at: self._index(part, at), self._renamed(part))
        early = isinstance(op, ir.Load) and not value_references((op,)) and not (self.meetings and len(self.parts) > 2)
        (self.done if early else self.pending[part]).append(moved)
        if not isinstance(op, ir.Reduce) or not over:
            return
        first, other = ([Ref(rename(n), self.types[n].dtype) for n in op.names] for rename in (str, part.name))
        if len(op.names) > 1:
            self.pending[part] += merge_state(op.monoid, op.names, first, other)
        else:
            whole = Apply(MONOIDS[op.monoid].function, (first[0], other[0]), first[0].dtype)
            self.pending[part].append(ir.Let(op.names[0], whole))

    def _defined(self, name: str) -> None:
        self.at_hand.add(name)
        if name not in self.outlives:
            return
        held = self.types[name].dtype
        dtype, along = self.narrow.get(name, held), [s.name for s in self.kernel.slots if s.name in self.varying[name]]
        for part in (p for p in self.parts if p.kept):
            axes = tuple([part.slot if slot == self.slot else slot for slot in along])
            home = next((c for c in self.free[part] if (c.dtype, c.slots) == (dtype, axes)), None)
            if home is None:
                home = ir.ThreadCells(f"{name}{part.suffix.removeprefix('.far')}.cells", dtype, axes)
                self.cells.append(home)
            else:
                self.free[part].remove(home)
            self.home[name, part] = home
            self.pending[part].append(ir.Keep(home.name, Ref(part.name(name), held)))

    def _gone(self, name: str) -> None:
        for part in self.parts:
            if (name, part) in self.home:
                self.free[part].append(self.home.pop((name, part)))

    def _renamed(self, part: _Part) -> _Renamed:
        return _Renamed(part.name, {self.slot: part.slot})

    def _index(self, part: _Part, index: Affine) -> Affine:
        return index.substitute({f"${self.slot}": digit(part.slot) + part.start})

    def _leaf(self, part: _Part, leaf: Ref | ir.Const | Index | Inside) -> Expr:
        match leaf:
            case Ref(name=name) if name in self.varying:
                return replace(leaf, name=part.name(name))
            case Index(affine=affine):
                return replace(leaf, affine=self._index(part, affine))
            case Inside(where=where):
                return Inside(tuple([self._index(part, at) for at in where]))
            case _:
                return leaf


@dataclass(frozen=True, slots=True)
class _Renamed:
    """Names of what an operation binds, and of the slots that it reduces, in another part."""

    name: Callable[[str], str]
    slots: Mapping[str, str]


Leaf = Callable[[Union[Ref, ir.Const, Index, Inside]], Expr]


def _same(index: Affine) -> Affine:
    return index


def _moved(
    op: ir.Op, leaf: Leaf, index: Callable[[Affine], Affine] = _same, other: _Renamed | None = None
) -> ir.Op:
    """`op` with the leaves of its terms and its indices replaced; with `other`, what it binds and its slots as well."""

    def term(value: Expr) -> Expr:
        return rewrite(value, leaf)

    def entry(at: Affine | Ref) -> Affine | Ref:
        found = index(at) if isinstance(at, Affine) else leaf(at)
        assert isinstance(found, (Affine, Ref))
        return found

    def bound(name: str) -> str:
        return other.name(name) if other is not None else name

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
            slots = op.slots if other is None else tuple([other.slots.get(slot, slot) for slot in op.slots])
            return replace(op, names=tuple(map(bound, op.names)), values=tuple(map(term, op.values)), slots=slots)
        case ir.Combine() | ir.Exchange():
            return replace(op, values=tuple(map(term, op.values)))
        case _:
            return op
