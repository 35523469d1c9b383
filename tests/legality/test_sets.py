"""Integer sets: points, subsets, memoisation by structure, and the budget."""

from __future__ import annotations

import pytest

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.sets import BudgetExceeded, Constraint, Map, Relation, box, equal

N, i, j, k, m = (Affine.symbol(n) for n in "N @i @j $k $m".split())


def image(index: Affine, *digits: tuple[str, Affine]) -> Relation:
    """``{index : digits in their boxes}``"""
    names = [name for name, _ in digits]
    return Relation(("@i",), (equal(i, index), *box(names, [extent for _, extent in digits])), tuple(names))


def test_a_missing_point_is_the_least_at_small_sizes() -> None:
    domain = Relation(("@i",), box(["@i"], [N]))
    assert sets.difference_point(domain, image(k, ("$k", Affine.of(4)))) == {"N": 5, "@i": 4}
    assert sets.difference_point(domain, image(k, ("$k", N))) is None
    assert sets.is_subset(domain, image(2 * k, ("$k", N)), image(2 * k + 1, ("$k", N)))


def test_answers_are_memoised_by_structure() -> None:
    def ask(outer: str, inner: str) -> None:
        """``outer * 7 + inner`` is never negative: the same question whatever the names."""
        a, b = Affine.symbol(outer), Affine.symbol(inner)
        relation = Relation((outer, inner), (*box([outer, inner], [Affine.of(7)] * 2), Constraint(-7 * a - b - 1)))
        assert sets.sample(relation) is None

    ask("$a", "$b")
    before = sets._difference.cache_info()
    ask("$c", "$d")
    after = sets._difference.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)


def test_the_least_point_of_a_set_that_lexmin_calls_empty() -> None:
    """isl's lexmin (islpy 2026.2.2) finds no point in this set, which has [0, 7, 0, 4]."""
    a, b, c, d = (Affine.symbol(f"@{n}") for n in range(4))
    e0, e1, e2, e3, e4, e5, e6, e7 = (Affine.symbol(f"$e{n}") for n in range(8))
    bounds = {e0: 2, e1: 2, e2: 2, e3: 4, e4: 3, e5: 4, e6: 4, e7: 4}
    constraints = (
        equal(a, 4 * e0 + e3),
        equal(b, e2 + 2 * e4 + e7),
        equal(c, 4 * e0 + e5),
        equal(d, 4 * e1 + e6),
        *box([str(e) for e in bounds], [Affine.of(n) for n in bounds.values()]),
        *box(["@at"], [Affine.of(5)]),
        equal(Affine.symbol("@at"), e2 + 2 * e4),
        equal(e7, Affine.of(3)),
        equal(e3, e5),
        equal(4 * e1, e2 + 2 * e4),
        Constraint(e1 - e2 - 1),
    )
    names = tuple(f"@{n}" for n in range(4))
    relation = Relation(names, constraints, ("@at", *(str(e) for e in bounds)))
    assert sets.sample(relation) == {"@0": 0, "@1": 7, "@2": 0, "@3": 4}


def test_two_points_that_agree_in_their_keys() -> None:
    relation = Relation(("@i", "$k", "$m"), (equal(i, 3 * k + m), *box(["$k", "$m"], [Affine.of(2), Affine.of(4)])))
    assert sets.is_injective_in(relation, ["@i"]) == {"@i": 3, "$k": 0, "$m": 3, "$k'": 1, "$m'": 0}
    relation = Relation(("@i", "$k", "$m"), (equal(i, 4 * k + m), *box(["$k", "$m"], [Affine.of(2), Affine.of(4)])))
    assert sets.is_injective_in(relation, ["@i"]) is None


def test_the_spread_of_a_map() -> None:
    window = Relation(("@i", "@j"), (Constraint(j - i), Constraint(i + 2 - j), *box(["@i"], [N])))
    assert Map.of(window, ["@j"], ["N"]).spread() == (2,)
    everything = Relation(("@i", "@j"), box(["@i", "@j"], [N, N]))
    assert Map.of(everything, ["@j"], ["N"]).spread() == (None,)


def test_a_query_over_the_budget_raises_and_the_next_one_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Relation(("@i",), (*box(["@i"], [N]), Constraint(i - 17)))
    with monkeypatch.context() as small:
        small.setattr(sets, "BUDGET", 5)
        with pytest.raises(BudgetExceeded, match="more than 5 isl operations"):
            sets.difference_point(domain, image(3 * k, ("$k", N)))
    assert sets.difference_point(domain, image(3 * k, ("$k", N))) == {"N": 18, "@i": 17}
