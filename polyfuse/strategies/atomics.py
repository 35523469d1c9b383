"""Proposals in which nobody is elected: every block merges its share of a reduction into the result at once.

    columns ... share=512              shares s_part[b1, j] of every block; the last to arrive adds them up
 -> columns ... share=512 atomic=1     s[j] = 0 by a launch before; every block: s[j] += its share

Each is a proposal of another strategy with its shares handed on otherwise, beside the original.
"""

from __future__ import annotations

from dataclasses import replace

from polyfuse.places.grid import dealt_over
from polyfuse.places.proposal import Proposal
from polyfuse.places.refused import Refused
from polyfuse.scop import Statement
from polyfuse.strategies.situation import Situation

ATOMIC = "atomic"
UNUSED = "not used on a CPU, whose blocks are tasks of few cores"
"""What becomes of the option there."""
_WORDS = "i32 i64 u32 u64".split()
NATIVE = {("sum", dtype) for dtype in ("f32", "f64", *_WORDS)} | {
    (monoid, dtype) for monoid in ("max", "min", "bitor", "bitand", "bitxor") for dtype in _WORDS
}
"""Monoids that a GPU merges into memory by one instruction (PTX ISA, red).  Not the largest of floats: the instruction
drops a NaN that NumPy keeps."""


def merged_by_atomics(situation: Situation, proposal: Proposal) -> Proposal | None:
    """`proposal` with atomic updates in place of elections, where all that lies in several blocks allows them; None
    else, and where the user does not allow them or names other parameters."""
    if not situation.atomics or situation.target.kind == "cpu" or not proposal.combines:
        return None
    if situation.tiles and ATOMIC not in situation.tiles:
        return None
    try:
        over = dealt_over(situation.group, proposal)
    except Refused:
        return None
    statements = [s for s in situation.group.statements() if s.id in over]
    if not statements or not all(_is_merged(situation, s) for s in statements):
        return None
    return replace(proposal, atomic=True, parameters=(*proposal.parameters, (ATOMIC, 1)))


def _is_merged(situation: Situation, statement: Statement) -> bool:
    """Whether shares of a reduction are of a kind that memory merges, and nothing here waits for the whole."""
    group = situation.group
    read = any(r.source == statement.id for s in group.statements() for r in s.reads)
    return statement.id in group.roots and not read and (statement.monoid, statement.dtypes[0].name) in NATIVE
