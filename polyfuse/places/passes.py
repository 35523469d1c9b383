"""The loops that a placed statement runs in, and in which pass over each: what reads a whole sum runs in the next one.

    for r: m = max(m, x[r])                  pass 0 of r
    for r: s = s + exp(x[r] - m)             pass 1: s needs m of all iterations
    for r: y[r] = exp(x[r] - m) / s          pass 2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polyfuse.affine import Affine
from polyfuse.places.proposal import Group, Proposal
from polyfuse.schedule import PlaceEntry
from polyfuse.scop import Statement

Path = tuple[tuple[str, int], ...]
"""Loops from the outermost, each with the number of its pass."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Per statement: the loops that it reduces `over`; and how many reductions over each loop, where there are any, lie
    below it (`depth`): its pass number when it runs in that loop.  `meeting`: digits over whose blocks totals are
    taken.  Nothing is said of statements where there are no loops."""

    loops: tuple[str, ...]
    meeting: frozenset[str]
    over: Mapping[int, frozenset[str]]
    depth: Mapping[int, Mapping[str, int]]

    def around(self, place: tuple[PlaceEntry, ...], consumer: Path) -> Path:
        """The loops around a value: those of its consumer, down to the innermost that its place uses.

        A loop that the place does not use but that lies outside one that it does stays: the value is computed again in
        each of its iterations, because the inner loop overwrites its registers.
        """
        if not consumer or str in map(type, place):  # a gather runs where its consumer runs
            return consumer
        used = frozenset().union(*[e.names() for e in place if isinstance(e, Affine)])
        depth = len(consumer)
        while depth and f"${consumer[depth - 1][0]}" not in used:
            depth -= 1
        return consumer[: depth or (consumer[0][0] in self.meeting)]

    def alone(self, place: tuple[Affine, ...]) -> Path:
        """The loops that fill a box which is read behind all of them: in their first pass."""
        used = frozenset().union(*[entry.names() for entry in place])
        return tuple((loop, 0) for loop in self.loops if f"${loop}" in used)

    def summing(self, value: int, summed: frozenset[str]) -> Path:
        """The loops among the digits that a reduction sums over, in the passes in which it does."""
        return tuple((loop, self.depth[value].get(loop, 0)) for loop in self.loops if f"${loop}" in summed)

    def finished(self, statement: Statement, place: tuple[Affine, ...]) -> Path:
        """The loops that a finished value at `place` needs, in the pass in which it is there."""
        used = frozenset().union(*(e.names() for e in place))
        return tuple(
            (loop, self.depth[statement.id].get(loop, 0) + (loop in self.over[statement.id]))
            for loop in self.loops
            if f"${loop}" in used
        )


def passes_of(group: Group, proposal: Proposal) -> Passes:
    """Of all statements of a group, producers first."""
    digits = {d.name for d in proposal.digits}
    loops = tuple(loop for loop in proposal.loops if loop in digits)
    over: dict[int, frozenset[str]] = {}
    depth: dict[int, dict[str, int]] = {}
    if not loops:
        return Passes(loops, frozenset(proposal.combines), over, depth)
    for statement in group.statements():
        over[statement.id] = _reduced_loops(statement, proposal, loops)
        below: dict[str, int] = {}
        for read in statement.reads:
            for loop, passes in depth.get(read.source, {}).items():
                below[loop] = max(below.get(loop, 0), passes + (loop in over[read.source]))
            for loop in over.get(read.source, ()):
                below[loop] = max(below.get(loop, 0), 1)
        depth[statement.id] = below
    return Passes(loops, frozenset(proposal.combines), over, depth)


def _reduced_loops(statement: Statement, proposal: Proposal, loops: tuple[str, ...]) -> frozenset[str]:
    if not statement.is_reduction:
        return frozenset()
    dims = statement.reduced if statement.scanned is None else (statement.scanned,)
    anchors = [a for d in dims if (a := proposal.anchors.get((statement.id, d))) is not None]
    names = frozenset().union(*[a.steps() for a in anchors])
    return frozenset([loop for loop in loops if f"${loop}" in names])
