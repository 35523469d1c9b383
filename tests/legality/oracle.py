"""A schedule executed instance by instance: the theorems of `polyfuse.legality.RULES` by enumeration, without isl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, product

from polyfuse.schedule import Finish, KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from tests.legality.block import Block
from tests.legality.machine import Machine, instance, points


def faults(scop: Scop, schedule: KernelSchedule, sizes: Mapping[str, int]) -> dict[str, str]:
    """For each rule that is violated at these sizes, a first violation in words.

    The schedule is well formed and its providers hold what is read: rules "executed" and "provided" accept it.
    """
    machine = Machine(scop, schedule, sizes)
    blocks = [
        Block(machine, dict(zip((f"${d.name}" for d in machine.blocks), point, strict=True)), point)
        for point in product(*(range(max(0, machine.extent[d.name])) for d in machine.blocks))
    ]
    for position, item in enumerate(schedule.order):
        chosen = _elected(machine, blocks, item.digit) if isinstance(item, Finish) else []
        for block in blocks:
            if isinstance(item, Finish):
                block.finish(position, item, block in chosen)
            else:
                block.step(position, item)
    for block in blocks:
        block.end()
    _whole(machine)
    _stored(machine)
    _merged(machine)
    _reused(machine)
    _form(machine)
    return machine.found


def _elected(machine: Machine, blocks: Sequence[Block], along: str) -> list[Block]:
    """One of those that differ in `along` alone: nothing says which, so the last by number is as good as any."""
    return list({machine.others(along, block.env): block for block in blocks}.values())


def _whole(machine: Machine) -> None:
    """What blocks leave for one another is, taken together, every contribution once; also where there is no block."""
    for combine in machine.schedule.grid_combine:
        total = machine.sum_of(machine.placed[combine.reduction])
        assert total is not None
        others = [n for name, n in machine.extent.items() if name != combine.digit]
        if machine.extent[combine.digit] < 1 <= min([*others, *machine.shape(total.extents)], default=1):
            machine.fault("combine", f"no block adds anything to {combine.reduction}")
    for (name, _, group, element), shares in machine.parts.items():
        total = machine.sum_of(machine.placed[name])
        assert total is not None
        sizes = machine.shape(total.extents)
        reduced = points([sizes[d] for d in total.reduced])
        if sum(shares.values(), Counter()) != Counter(instance(total, element, r) for r in reduced):
            machine.fault("combine", f"the shares of {name} at {element} in {group} are not the whole")


def _stored(machine: Machine) -> None:
    for (value, component, element), count in machine.stores.items():
        if count > 1:
            machine.fault("once", f"value {value}.{component} at {element} is stored {count} times")
    for store in (p for p in machine.schedule.placed if p.role == "store"):
        if store.value not in machine.schedule.roots:
            machine.fault("coverage", f"{store.name} stores what is no root")
    for root in machine.schedule.roots:
        if any(p.role == "atomic" and p.value == root for p in machine.schedule.placed):
            continue  # filled before the kernel
        for component in range(len(machine.scop.statements[root].dtypes)):
            for element in points(machine.shape(machine.scop.shape(root))):
                if not machine.stores[(root, component, element)]:
                    machine.fault("coverage", f"value {root}.{component} at {element} is not stored")


def _merged(machine: Machine) -> None:
    """What blocks merge is a root of one component, which nothing else writes, and of which every share is merged once.
    """
    for atomic in (p for p in machine.schedule.placed if p.role == "atomic"):
        name, value = atomic.name, atomic.value
        writers = [p for p in machine.schedule.placed if p.value == value and p.role in ("store", "atomic")]
        single = len(machine.scop.statements[value].dtypes) == 1
        if value not in machine.schedule.roots or len(writers) > 1 or not single:
            machine.fault("atomic", f"{name} merges into what is no root of one value, or written by others too")
        for number in range(machine.extent[machine.along(atomic)]):
            for element in points(machine.shape(machine.scop.shape(value))):
                if (times := machine.merges[name, number, element]) != 1:
                    machine.fault("atomic", f"{name} merges the share {number} of {element} {times} times")


def _reused(machine: Machine) -> None:
    for argument, root in machine.schedule.reuses:
        if any(p.role == "atomic" and p.value == root for p in machine.schedule.placed):
            machine.fault("reuse", f"{argument} is overwritten before the kernel")
        loads = [a for a in machine.memory if a[0] == "load" and a[1] == argument]
        for _, value, who, time, element in (a for a in machine.memory if a[0] == "store" and a[1] == root):
            for _, _, reader, read, at in loads:
                same = all(a is None or a == b for a, b in zip(at, element, strict=True))
                if same and (reader != who or read > time):
                    machine.fault("reuse", f"value {value} overwrites {element}, which {reader} reads")


def _form(machine: Machine) -> None:
    """What is refused by form alone, executed or not: loads of what is not in memory, gathers of what is computed,
    levels that the machine neither combines nor scans over, cells at one address."""
    for placed in machine.schedule.placed:
        if placed.role == "load" and (
            placed.value in machine.schedule.body or placed.value not in machine.schedule.loads
        ):
            machine.fault("stored", f"{placed.name} is loaded but not in memory")
        statement = machine.statement(placed)
        if statement is not None:
            for read, provider in zip(statement.reads, placed.providers, strict=True):
                if not read.affine and machine.placed[provider].role != "load":
                    machine.fault("stored", f"{placed.name} gathers from registers")
        _levels(machine, placed, statement)
    for box in machine.schedule.shared:
        addresses = [sum(c * p for c, p in zip(cell, box.pitch, strict=True)) for cell in points(box.extents)]
        if len(set(addresses)) != len(addresses) or min(box.extents, default=1) < 1:
            machine.fault("box", f"cells of {box.name} share an address")


def _levels(machine: Machine, placed: Placed, statement: Statement | None) -> None:
    """Threads meet by bits of the thread index; a prefix runs through consecutive bits, and one slot inside of them; in
    no loop through one outside as well."""
    over = machine.over(placed)
    threads = sorted((d for d in machine.threads if d.name in over), key=lambda d: d.stride)
    bits = all(n & (n - 1) == 0 for d in threads for n in (d.count, d.stride))
    chained = all(b.stride == a.stride * a.count for a, b in pairwise(threads))
    scanned = statement is not None and statement.scanned is not None
    if not scanned and not bits:
        machine.fault("combine", f"{placed.name} combines threads that are no bits")
    if statement is not None and scanned:
        outside = machine.outside(placed, statement)
        inside = [d for d in machine.slots if d.name in over and d not in outside]
        loops = [loop for _, loop in machine.nests[placed.name] if loop in over]
        fits = len(inside) <= 1 and len(outside) <= (0 if loops else 1)
        if not (bits and chained and fits) or loops and machine.onwards(placed):
            machine.fault("scan", f"{placed.name} runs through levels that no prefix runs through")
