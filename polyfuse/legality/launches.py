"""Why two kernels are two launches: the instance of one that another block of the other computes.

Both run side by side in one launch, block k of the first next to block k of the second; what a block of the second
needs and its neighbour has not computed is the witness that only a kernel boundary, which every block passes, makes it
right::

    s[i] = sum_j x[i, j]      block b0 computes rows i = b0
    y[i, j] = x[i, j] - s[j]  block b0 needs s[0..N)          s[1] -> y[0, 1]: block 0 needs what block 1 computes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from polyfuse.affine import Affine, digit
from polyfuse.legality.handover import Handover
from polyfuse.legality.relations import BARRIER, Proof
from polyfuse.legality.scope import missing
from polyfuse.schedule import KernelSchedule, Placed, TreeItem
from polyfuse.scop import Scop
from polyfuse.verdict import Witness

PREFIX = "first_"


def boundary_witness(scop: Scop, first: KernelSchedule, second: KernelSchedule) -> Witness | None:
    """An instance that `second` needs in a block in which `first` does not compute it; None where every block finds all
    that it needs.  Both schedules are over `scop`."""
    blocks = [d.name for d in second.of_kind("block")]
    ours = [d.name for d in first.of_kind("block")]
    names = {d.name: f"{PREFIX}{d.name}" for d in first.digits} | dict(zip(ours, blocks, strict=False))
    proof = Proof(scop, _side_by_side(first, second, names))
    shared = frozenset(blocks[: len(ours)])
    for store in (p for p in first.placed if p.role in ("store", "atomic")):
        provider = proof.placed[f"{PREFIX}{store.name}"]
        for consumer in second.placed:
            for handover in _handovers(proof, provider, consumer):
                point = missing(handover, shared)
                if point is not None:
                    return handover.witness(point)
    return None


def _handovers(proof: Proof, provider: Placed, consumer: Placed) -> Iterator[Handover]:
    """What `consumer` reads of the value that `provider` stores; an index that is data may have any value in bounds."""
    statement = proof.statement(consumer)
    if statement is None:
        return
    for read in statement.reads:
        if read.source != provider.value or read.component != provider.component:
            continue
        needed, bounds = list[Affine](), list[Affine]()
        for k, (entry, extent) in enumerate(zip(read.index, proof.extents(provider), strict=True)):
            if isinstance(entry, Affine):
                needed.append(proof.at(consumer, entry))
            else:
                anywhere = Affine.symbol(f"@d{k}")
                needed.append(anywhere)
                bounds += [anywhere, extent - anywhere - 1]
        read = replace(read, where=(*read.where, *bounds))
        yield Handover(proof, provider, consumer, proof.index(provider), tuple(needed), read)


def _side_by_side(first: KernelSchedule, second: KernelSchedule, names: Mapping[str, str]) -> KernelSchedule:
    """Digits and placed statements of both; those of the first under new names."""
    values = {f"${old}": digit(new) for old, new in names.items()}
    known = {d.name for d in second.digits}
    digits = tuple(replace(d, name=names[d.name]) for d in first.digits if names[d.name] not in known)
    placed = tuple(
        replace(
            p,
            name=f"{PREFIX}{p.name}",
            place=tuple(f"{PREFIX}{e}" if isinstance(e, str) else e.substitute(values) for e in p.place),
            path=tuple((names[loop], number) for loop, number in p.path),
            providers=tuple(f"{PREFIX}{name}" for name in p.providers),
        )
        for p in first.placed
    )
    return replace(
        second,
        digits=(*digits, *second.digits),
        placed=(*placed, *second.placed),
        order=(*_renamed(first.order, names), *second.order),
        shared=(),
        guards=tuple(dict.fromkeys((*first.guards, *second.guards))),
    )


def _renamed(order: tuple[TreeItem, ...], names: Mapping[str, str]) -> tuple[TreeItem, ...]:
    """Without barriers, which no value in registers waits for."""
    return tuple(
        f"{PREFIX}{item}" if isinstance(item, str) else type(item)(names[item.digit], _renamed(item.items, names))
        for item in order
        if item != BARRIER
    )
