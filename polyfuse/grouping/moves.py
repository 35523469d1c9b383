"""Moves: kernels to replace and the root sets of the kernels that replace them.  They follow from structure alone."""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.grouping.partition import Partition

HULL = 16  # kernels merged in one step; measured on random programs, 32 found nothing more
SMALL = 16  # `thin` stores values at least this many times smaller than the one it replaces: a mean against its row


@dataclass(frozen=True, slots=True)
class Move:
    old: frozenset[int]
    new: tuple[frozenset[int], ...]


def join(state: Partition, a: int, b: int) -> Move | None:
    """One kernel of `a`, `b` and all between them; values wanted only inside are no longer stored::

        a {x}  ->  b {y}            {y}   or {x, y} if somebody else loads x
    """
    old = state.hull(a, b)
    if len(old) > HULL:
        return None
    return merged(state, old)


def merged(state: Partition, old: frozenset[int]) -> Move:
    """All of `old`, which is closed under paths, as one kernel."""
    roots = frozenset().union(*[state.kernels[k].roots for k in old])
    return Move(old, (state.needed(roots, old),))


def drop(state: Partition, value: int) -> Move | None:
    """Do not store `value`: every reader recomputes it::

        a {v, w}  ->  b {y}, c {z}            a {w}    b {y}, c {z} each with v in the body
    """
    if state.pinned[value] or value not in state.owner:
        return None
    return _without(state, value, frozenset())


def thin(state: Partition, value: int) -> Move | None:
    """Store the small values that `value` is made of; every reader rebuilds it from them::

        a {normalised}  ->  b {y}             a {mean, rstd}  ->  b {y}, which reads x, mean and rstd

    Kernels that recompute one of the small values are told: from now on they load it.
    """
    if state.pinned[value] or value not in state.owner or not state.readers[value]:
        return None
    kernel, size = state.kernels[state.owner[value]], state.costs.bytes
    limit = size(value) // SMALL
    small, seen, todo = set[int](), set[int](), [value]
    while todo:
        for operand in state.operands[todo.pop()]:
            if operand in seen or operand not in kernel.body or operand in kernel.roots:
                continue
            seen.add(operand)
            if size(operand) <= limit:
                small.add(operand)
            else:
                todo.append(operand)
    return _without(state, value, frozenset(small)) if small else None


def _without(state: Partition, value: int, instead: frozenset[int]) -> Move:
    owner, readers = state.owner[value], state.readers[value]
    rest = (state.kernels[owner].roots - {value}) | instead
    told = set().union(*[state.users[v] for v in instead]) - readers - {owner}
    others = [state.kernels[k].roots for k in sorted(readers | told)]
    return Move(frozenset({owner} | readers | told), (rest, *others) if rest else tuple(others))


def shift(state: Partition, root: int, target: int) -> Move:
    """`root` is stored by the kernel `target` instead."""
    owner = state.owner[root]
    rest = state.kernels[owner].roots - {root}
    moved = state.kernels[target].roots | {root}
    return Move(frozenset((owner, target)), (rest, moved) if rest else (moved,))


def apart(state: Partition, old: frozenset[int]) -> Move:
    """Every value that only `old` computes, or that they store, in a kernel of its own; kernels outside that recompute
    a value keep doing so."""
    body = set().union(*[state.kernels[k].body for k in old])
    alone = sorted(v for v in body if v in state.owner or state.users[v] <= old)
    return Move(old, tuple(frozenset((v,)) for v in alone))
