"""Who holds what, and what lies in memory before the kernel starts."""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.affine import Affine
from polyfuse.expr import DataIndex
from polyfuse.legality.relations import Proof
from polyfuse.schedule import Placed, PlaceEntry
from polyfuse.scop import Read
from polyfuse.unravelled import Unravelled
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal

REGISTERS = ("compute", "load", "get", "take", "total")
"""Roles whose result is a value in registers."""

SOURCES = {
    "get": ("put",),
    "take": ("compute", "load"),
    "total": ("partial",),
    "partial": ("compute",),
    "atomic": ("compute",),
}
"""Who provides for the roles that take no value in registers, or none of any kind."""


def provided(proof: Proof) -> Verdict:
    """The provider of every read computes, loads or gets exactly the value that is read."""
    for consumer in proof.schedule.placed:
        for sentence in _wrong(proof, consumer):
            return illegal(Hazard.RAW, sentence, rule="provided")
    return LEGAL


def _wrong(proof: Proof, consumer: Placed) -> Iterator[str]:
    statement = proof.statement(consumer)
    wanted: list[tuple[int, int]]
    if statement is not None:
        wanted = [(r.source, r.component) for r in statement.reads]
    elif consumer.role == "compute":
        yield f"{consumer.name} computes {proof.name(consumer)}, which no kernel computes"
        return
    elif consumer.role == "total":
        wanted = [(consumer.value, k) for k in range(len(proof.scop.statements[consumer.value].dtypes))]
    else:
        wanted = [] if consumer.role == "load" else [(consumer.value, consumer.component)]
    if len(wanted) != len(consumer.providers):
        yield f"{consumer.name} makes {len(wanted)} reads, but {len(consumer.providers)} providers are given"
        return
    if consumer.role == "take" and any(isinstance(e, str) for n in consumer.providers for e in _place(proof, n)):
        yield f"{consumer.name} takes registers of a gather, which are at no known elements"
    for (value, component), name in zip(wanted, consumer.providers, strict=True):
        roles = SOURCES.get(consumer.role, REGISTERS)
        yield from _unsuited(proof, consumer, value, component, name, roles)
    if statement is not None:
        for read, name in zip(statement.reads, consumer.providers, strict=True):
            yield from _wrong_index(proof, consumer, read, name)


def _place(proof: Proof, name: str) -> tuple[PlaceEntry, ...]:
    return proof.placed[name].place if name in proof.placed else ()


def _unsuited(
    proof: Proof, consumer: Placed, value: int, component: int, name: str, roles: tuple[str, ...]
) -> Iterator[str]:
    source = proof.scop.statements[value]
    provider = proof.placed.get(name)
    if provider is None or provider.value != value or provider.role not in roles:
        yield f"{consumer.name} reads {source.name}, but {name or 'nothing'} is given as its provider"
        return
    computed = provider.role in ("compute", "total")
    if component >= len(source.dtypes) or (not computed and provider.component != component):
        held = "all components" if computed else f"component {provider.component}"
        yield f"{consumer.name} reads component {component} of {source.name}, but {name} holds {held} of it"


def _wrong_index(proof: Proof, consumer: Placed, read: Read, name: str) -> Iterator[str]:
    """A gathered load takes its position from the index that the gather names."""
    provider = proof.placed[name]
    if read.affine or provider.role != "load":
        return
    statement = proof.statement(consumer)
    assert statement is not None
    for entry, at in zip(read.index, provider.place, strict=True):
        if isinstance(entry, Unravelled) or isinstance(at, Unravelled):
            values = {f"%{d}": p for d, p in enumerate(consumer.place) if isinstance(p, Affine)}
            wanted = entry if isinstance(entry, DataIndex) else entry.substitute(values)
            if at != wanted:
                yield f"{consumer.name} reads {proof.name(provider)} at {wanted}, but {name} is placed at {at}"
        elif isinstance(entry, DataIndex) is isinstance(at, Affine):
            yield f"{consumer.name} gathers {proof.name(provider)}, but {name} is placed at {at}"
        elif isinstance(entry, DataIndex) and isinstance(at, str):
            index = statement.reads[entry.operand]
            yield from _unsuited(proof, consumer, index.source, index.component, at, REGISTERS)


def stored(proof: Proof) -> Verdict:
    """Loads read memory that was written before the kernel started, and what is gathered is loaded."""
    for load in (p for p in proof.schedule.placed if p.role == "load"):
        if load.value in proof.schedule.body or load.value not in proof.schedule.loads:
            why = "but it is not in memory when the kernel starts"
            if load.value in proof.schedule.body:
                why = "but this kernel computes it: other blocks may not have stored it"
            sentence = f"{proof.name(load)} is loaded from memory, {why}"
            return illegal(Hazard.RAW, sentence, rule="stored")
    for provider, consumer, read in proof.edges():
        if read is not None and not read.affine and provider.role != "load":
            sentence = (
                f"{proof.name(consumer)} reads {proof.name(provider)} at positions that are data: "
                "any thread of any block may compute them"
            )
            return illegal(Hazard.RAW, sentence, rule="stored")
    return LEGAL
