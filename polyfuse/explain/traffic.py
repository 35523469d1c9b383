"""What a kernel must move: what it loads of every array once, every root that it stores once.

The counts are sums of products of sizes, exact for all sizes where a box of an array is read, as by slices; of others,
as what data choose of one, they are of the whole.  What a schedule reads again is the price's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from polyfuse.affine import Affine, Atom
from polyfuse.cost.counts import element_operations
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import OpaqueStatement, Scop, Statement

if TYPE_CHECKING:
    from polyfuse.algebra import Formula
    from polyfuse.plan import Plan, Step


@dataclass(frozen=True, slots=True)
class Transfer:
    """A tensor, or a box of one, read or written once: the elements of a `shape`, of `itemsize` bytes."""

    name: str
    shape: tuple[Affine, ...]
    itemsize: int

    def bytes(self, sizes: Mapping[str, int]) -> int:
        count = self.itemsize
        for extent in self.shape:
            count *= max(0, extent.evaluate(sizes))
        return count


@dataclass(frozen=True, slots=True)
class Traffic:
    """The tensor accesses of one step of a plan."""

    reads: tuple[Transfer, ...]
    writes: tuple[Transfer, ...]

    @property
    def accesses(self) -> int:
        """Tensors read or written."""
        return len(self.reads) + len(self.writes)

    @property
    def read(self) -> Formula:
        return formula(self.reads)

    @property
    def written(self) -> Formula:
        return formula(self.writes)

    @property
    def total(self) -> Formula:
        return formula((*self.reads, *self.writes))


def step_traffic(plan: Plan, step: Step) -> Traffic:
    """The accesses of one step."""
    from polyfuse.plan import Launch

    if isinstance(step, Launch):
        parts = [kernel_traffic(plan.scop, schedule) for schedule in step.schedules]
        filled = tuple(_transfer(plan.scop, value, 0) for value in step.filled)
        return Traffic(tuple(t for p in parts for t in p.reads), (*filled, *(t for p in parts for t in p.writes)))
    statement = plan.scop.statements[plan.called(step)]
    assert isinstance(statement, OpaqueStatement)
    return call_traffic(plan.scop, statement)


def kernel_traffic(scop: Scop, schedule: KernelSchedule) -> Traffic:
    """The accesses of one kernel, components of tuple reductions one by one."""

    def moved(*roles: str) -> list[tuple[int, int]]:
        return sorted({(p.value, p.component) for p in schedule.placed if p.role in roles})

    loads = [
        replace(_transfer(scop, value, component), shape=box_read(scop, schedule.body, value))
        for value, component in moved("load")
    ]
    return Traffic(tuple(loads), tuple([_transfer(scop, *key) for key in moved("store", "atomic")]))


def box_read(scop: Scop, body: Iterable[int], value: int) -> tuple[Affine, ...]:
    """The shape of the box that the statements `body` read of an array, the whole where none is known to be smaller."""
    whole = scop.shape(value)
    statements = [s for v in body if isinstance(s := scop.statements[v], Statement)]
    reads = [(s, read) for s in statements for read in s.reads if read.source == value]
    places = [(s, read.index) for s, read in reads]
    if not places or not all(read.affine for _, read in reads):
        return whole
    if len({tuple([(e.terms, s.extents) for e in index if isinstance(e, Affine)]) for s, index in places}) > 1:
        return whole  # rows and columns, or other extents
    statement, index = places[0]
    walked, shape, is_piece = set[int](), list[Affine](), any(read.where for _, read in reads)
    for d, entry in enumerate(index):
        constants = [e.constant for _, other in places if isinstance(e := other[d], Affine)]
        apart, terms = max(constants) - min(constants), entry.terms if isinstance(entry, Affine) else ()
        steps = {atom: factor for atom, factor in terms if _runs(atom)}
        along = [k for k in range(len(statement.extents)) if f"%{k}" in steps]
        if len(along) < len(steps) or len(along) > 1 or (apart and {*map(abs, steps.values())} - {1}):
            return whole
        box = statement.extents[along[0]] if along and along[0] not in walked else Affine.of(1)  # of a diagonal once
        walked.update(along)
        if (is_piece or len(steps) < len(terms)) and not _is_no_more(box, whole[d]):
            return whole  # of a piece, or behind so many, there may be fewer than the statement has
        shape.append(_smaller(box + apart, whole[d]))
    return tuple(shape)


def _is_no_more(box: Affine, whole: Affine) -> bool:
    """Whether a box is known to be no longer than the whole, or is as long for all sizes."""
    rest = whole - box
    return box.is_constant or rest.constant >= 0 and all(factor > 0 for _, factor in rest.terms)


def _runs(atom: Atom) -> bool:
    """Whether it is another one from point to point, not a size or a quotient of sizes."""
    return any(name.startswith("%") for name in Affine(((atom, 1),)).names())


def _smaller(box: Affine, whole: Affine) -> Affine:
    rest = whole - box
    return whole if rest.is_constant and rest.constant < 0 else box


def call_traffic(scop: Scop, statement: OpaqueStatement) -> Traffic:
    """The accesses of one library call: its operands and its result."""
    operands = dict.fromkeys(statement.operands)
    return Traffic(tuple(_transfer(scop, o, 0) for o in operands), (_transfer(scop, statement.id, 0),))


def _transfer(scop: Scop, value: int, component: int) -> Transfer:
    found = scop.statements[value]
    return Transfer(found.name, scop.shape(value), scop.dtype(value, component).itemsize)


def work(scop: Scop, body: Iterable[int]) -> Formula:
    """Operations of the statements `body`, each element computed once, for all sizes."""
    from polyfuse.algebra import Formula, nbytes

    total = Formula.of(0)
    for statement in (scop.statements[value] for value in body):
        if isinstance(statement, Statement):
            total += nbytes(statement.extents, element_operations(statement))
    return total


def formula(transfers: Iterable[Transfer]) -> Formula:
    """Bytes of all transfers, for all sizes."""
    from polyfuse.algebra import Formula, nbytes

    total = Formula.of(0)
    for transfer in transfers:
        total += nbytes(transfer.shape, transfer.itemsize)
    return total
