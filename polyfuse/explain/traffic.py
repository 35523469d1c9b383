"""What a kernel must move: every array that it loads once, every root that it stores once.

The counts are sums of products of sizes, exact for all sizes; what a schedule reads again is the price's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polyfuse.affine import Affine
from polyfuse.cost.counts import element_operations
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import OpaqueStatement, Scop, Statement

if TYPE_CHECKING:
    from polyfuse.algebra import Formula
    from polyfuse.plan import Plan, Step


@dataclass(frozen=True, slots=True)
class Transfer:
    """One whole tensor read or written once: `count` elements (the product of `shape`) of `itemsize` bytes."""

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
        """Whole tensors read or written."""
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

    def moved(*roles: str) -> tuple[Transfer, ...]:
        keys = dict.fromkeys((p.value, p.component) for p in schedule.placed if p.role in roles)
        return tuple(_transfer(scop, value, component) for value, component in sorted(keys))

    return Traffic(moved("load"), moved("store", "atomic"))


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
