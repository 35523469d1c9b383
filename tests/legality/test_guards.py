"""For which sizes a candidate is illegal."""

from __future__ import annotations

import pytest

from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.legality import guard_of, prove
from polyfuse.legality.guards import condition_text
from polyfuse.sets import Constraint, Relation, box, equal
from polyfuse.verdict import Kind
from tests.legality import programs
from tests.legality.schedules import M, N, schedule, t, thread, v

i = Affine.symbol("@i")
DOMAIN = Relation(("@i",), (*box(["@i"], [N]), Constraint(N - 1)))


def image(index: Affine, *digits: tuple[str, Affine | int]) -> Relation:
    names = [name for name, _ in digits]
    extents = [Affine.of(extent) for _, extent in digits]
    return Relation(("@i",), (equal(i, index), *box(names, extents)), tuple(names))


def test_a_row_in_a_block() -> None:
    condition = guard_of(DOMAIN, image(t, ("$t", 1024)))
    assert condition is not None
    assert str(condition) == "violated iff N >= 1025"
    assert condition.guards == (Guard(1024 - N),)
    assert condition.depends and not condition.never


def test_never_and_always() -> None:
    every = guard_of(DOMAIN, image(t, ("$t", N)))
    assert every is not None and str(every) == "never violated" and every.never and every.guards == ()
    none = guard_of(DOMAIN, image(t - 5, ("$t", 5)))
    assert none is not None and str(none) == "violated for all sizes" and not none.depends


def test_whole_vectors_need_divisibility() -> None:
    condition = guard_of(DOMAIN, image(4 * t + v, ("$t", N // 4), ("$v", 4)))
    assert condition is not None and condition.guards is not None
    for n in range(1, 20):
        holds = all(g.holds({"N": n}) for g in condition.guards)
        assert holds == (n % 4 == 0)
        violated = any(
            all(c.expression.evaluate({"N": n}) >= 0 for c in conjunction) for conjunction in condition.violated
        )
        assert violated != holds


def test_two_sizes() -> None:
    need = Relation(("@i",), (*box(["@i"], [N]), Constraint(N - 1), Constraint(M - 1)))
    condition = guard_of(need, image(t, ("$t", M)))
    assert condition is not None
    assert str(condition) == "violated iff N >= M + 1"
    assert condition.guards == (Guard(M - N),)


def test_several_places_together() -> None:
    condition = guard_of(DOMAIN, image(t, ("$t", 8)), image(t + 8, ("$t", 8)))
    assert condition is not None and str(condition) == "violated iff N >= 17"


def test_a_gap_leaves_two_ranges() -> None:
    """Elements 4..7 are missing, but only where there are more than four."""
    condition = guard_of(DOMAIN, image(t, ("$t", 4)), image(t + 8, ("$t", N)))
    assert condition is not None and str(condition) == "violated iff N >= 5"


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (Constraint(N - 1025), "N >= 1025"),
        (Constraint(1024 - N), "N <= 1024"),
        (Constraint(N - 2 * M + 1), "N >= 2*M - 1"),
        (Constraint(N - 4, "="), "N = 4"),
        (Constraint(N, "mod", 4), "(N) mod 4 = 0"),
    ],
)
def test_conditions_in_words(constraint: Constraint, text: str) -> None:
    assert condition_text(constraint) == text


def test_the_guard_makes_the_candidate_legal() -> None:
    scop, kernel = schedule(programs.chain(N), [thread("t", 1, 64)], {"exp": [t]})
    verdict = prove(scop, kernel)
    assert verdict.kind is Kind.ILLEGAL and "(violated iff N >= 65)" in verdict.sentence
    scop, kernel = schedule(programs.chain(N), [thread("t", 1, 64)], {"exp": [t]}, guards=[Guard(64 - N)])
    assert prove(scop, kernel).kind is Kind.LEGAL
