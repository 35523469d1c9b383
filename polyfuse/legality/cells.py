"""What lies in a shared box when it is read."""

from __future__ import annotations

from collections.abc import Callable

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.enumerated_cells import are_filled
from polyfuse.legality.lifetime import common_loops, earlier
from polyfuse.legality.relations import Proof, coordinates, equalities, same
from polyfuse.schedule import Placed
from polyfuse.sets import Constraint, Relation


def moves_with(proof: Proof, move: Placed) -> tuple[str, ...]:
    """The loops around a put or get up to the innermost one that its box is pinned to: every pass of theirs fills the
    box anew."""
    pinned = proof.used(*proof.boxes[move.value].origin)
    loops = proof.loops(move)
    return loops[: 1 + max((k for k, loop in enumerate(loops) if loop in pinned), default=-1)]


def same_pass(proof: Proof, put: Placed, get: Placed) -> bool:
    """Put and get run in one pass of the loops that their box moves with."""
    filled, read = moves_with(proof, put), moves_with(proof, get)
    common = common_loops(proof.times[put.name], proof.times[get.name])
    return filled == read == common[: len(read)]


def always_before(proof: Proof, put: Placed, get: Placed) -> bool:
    """By position alone: in a pass of the box every execution of `put` comes before every one of `get`."""
    filled, read = proof.times[put.name], proof.times[get.name]
    common = common_loops(filled, read)
    return set(common) <= set(moves_with(proof, get)) and filled[len(common)][0] < read[len(common)][0]


def unwritten(
    proof: Proof, put: Placed, get: Placed, valid: tuple[Constraint, ...] = (), before: bool = False
) -> dict[str, int] | None:
    """An element (``@i``) that `get` reads and `put` writes nowhere in the same block and pass of the box; with
    `before`, not before the get runs.  `valid` restricts the executions of the get.

    All puts of one element write the same value, and within a pass a cell is one element: written at all is right.
    """
    is_before = not before or always_before(proof, put, get)
    if is_before and same_pass(proof, put, get) and are_filled(proof, put, get):
        return None
    names = coordinates("i", len(get.place))
    level = proof.names("block") | set(proof.loops(get) if before else moves_with(proof, get))
    places = tuple(f"${d}" for d in sorted(level))
    digits = proof.digits_of(get) | proof.used(*valid) | level

    def point(first: tuple[Affine, ...]) -> dict[str, int] | None:
        at = equalities(names, _from(first, proof.index(get)))
        need = proof.relation((*names, *places), (*at, *proof.box(digits), *valid))
        if not same_pass(proof, put, get):
            return sets.sample(need)
        return sets.difference_point(need, *_written(proof, put, get, names, places, before, first))

    box = proof.boxes[put.value]
    if box.copied and _is_nowhere(lambda: point(tuple([_without_floors(o) for o in box.origin]))):
        return None  # counted from where the block begins, whatever sizes are
    return point((Affine.of(0),) * len(names))


def _is_nowhere(question: Callable[[], dict[str, int] | None]) -> bool:
    """Whether there is no such point; a question that is too hard is left to others."""
    try:
        return question() is None
    except sets.BudgetExceeded:
        return False


def _from(first: tuple[Affine, ...], index: tuple[Affine, ...]) -> list[Affine]:
    return [entry - begin for entry, begin in zip(index, first, strict=True)]


def _without_floors(origin: Affine) -> Affine:
    return Affine(tuple([(atom, factor) for atom, factor in origin.terms if isinstance(atom, str)]), origin.constant)


def _written(
    proof: Proof,
    put: Placed,
    get: Placed,
    names: tuple[str, ...],
    places: tuple[str, ...],
    before: bool,
    first: tuple[Affine, ...],
) -> list[Relation]:
    """The elements put, counted from `first`: at any time, or one relation per way of coming before the get."""
    effect = proof.executes(put)
    ours = (proof.digits_of(put) | proof.used(*effect)) - proof.names("block")
    values = {f"${d}": Affine.symbol(f"${d}'") for d in ours}
    every = (*equalities(names, _from(first, proof.index(put))), *proof.box(ours | proof.names("block")), *effect)
    execution = tuple(Constraint(c.expression.substitute(values), c.kind, c.modulus) for c in every)
    inside = proof.box(proof.loops(get)) if before else ()
    pinned = same(moves_with(proof, get))
    ways = earlier(proof, put, get) if before else [()]
    return [proof.relation((*names, *places), (*execution, *inside, *pinned, *way)) for way in ways]
