"""Formulas in the sizes: arithmetic, numbers, and comparisons for all sizes at once."""

from __future__ import annotations

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from polyfuse.affine import Affine
from polyfuse.algebra import DependsOnSizes, Formula, Relation, compare, nbytes, size, symbolic, volume

M, N = Affine.symbol("M"), Affine.symbol("N")


def test_names_that_sympy_knows_are_sizes_here() -> None:
    for name in ("N", "S", "E", "I", "O", "Q", "C", "pi", "beta", "lambda"):
        assert symbolic(Affine.symbol(name)) == size(name)
        assert size(name).is_Symbol and size(name).is_integer and size(name).is_positive
        assert Formula.of(Affine.symbol(name) + 1).at(**{name: 41}) == 42


def test_affine_expressions_and_divisions() -> None:
    assert symbolic(3 * N - 2) == 3 * size("N") - 2
    padded = (N + 127) // 128 * 128
    assert symbolic(padded) == 128 * sympy.floor((size("N") + 127) / 128)
    assert [Formula.of(padded).at(N=n) for n in (1, 128, 129)] == [128, 128, 256]


def test_volume_and_bytes() -> None:
    assert str(nbytes((M, 2 * N), 4)) == "8*M*N"
    assert volume(()) == 1
    assert volume((M, N + 1)) == volume((M, N)) + Formula.of(M)
    assert nbytes((N, N), 4).at(N=1 << 20) == 4 << 40  # exact, beyond any float


def test_arithmetic() -> None:
    f = 2 * Formula.of(N) + 3 - Formula.of(M)
    assert f.at(M=4, N=10) == 19 and f.symbols == ("M", "N")
    assert (10 - f).at(M=4, N=10) == -9 and (f * f).at(M=1, N=1) == 16
    assert (f // 2).at(M=4, N=10) == 9 and sum([f, f], Formula.of(0)) == 2 * f
    assert hash(Formula.of(7)) == hash(7) and Formula.of(7) == 7 and f != 7
    assert len({f, 2 * Formula.of(N) - Formula.of(M) + 3}) == 1
    with pytest.raises(ValueError, match="denominator must be positive"):
        f // 0


def test_numbers_need_all_sizes() -> None:
    with pytest.raises(ValueError, match=r"M\*N needs the size of M: at\(M=...\)"):
        volume((M, N)).at(N=3)


# ---------------------------------------------------------------------------------------------------- comparisons


def test_fused_moves_fewer_bytes_for_all_sizes() -> None:
    """relu(x*2 + bias), float32: 28N -> 12N bytes."""
    loose, fused = 7 * nbytes((N,), 4), 3 * nbytes((N,), 4)
    assert str(loose) == "28*N" and str(fused) == "12*N"
    assert fused < loose and fused <= loose and loose > fused and loose >= fused
    assert not loose < fused and not loose <= fused and not fused > loose and not fused >= loose
    ordering = compare(fused, loose)
    assert ordering.relation is Relation.LESS and ordering.less == (("N", 1),)
    assert str(ordering) == "< for all sizes: the difference 16*N is positive for N >= 1"


def test_two_sizes_of_a_layer_norm() -> None:
    loose = 9 * nbytes((M, N), 4) + 4 * nbytes((M,), 4)
    fused = 2 * nbytes((M, N), 4) + 2 * nbytes((N,), 4)
    assert fused < loose  # 28 MN + 16 M - 8 N > 0 because M >= 1


def test_a_comparison_that_depends_on_the_size_raises_the_counterexample() -> None:
    with pytest.raises(DependsOnSizes, match=r"N < 1000 holds at N = 1 but not at N = 1000") as caught:
        assert Formula.of(N) < 1000
    ordering = caught.value.ordering
    assert ordering.relation is Relation.MIXED
    assert dict(ordering.less or ())["N"] < 1000 == dict(ordering.equal or ())["N"] < dict(ordering.greater or ())["N"]


def test_strict_and_weak() -> None:
    square = volume((N, N))
    assert Formula.of(N) <= square
    with pytest.raises(DependsOnSizes, match="holds at N = 2 but not at N = 1"):
        assert Formula.of(N) < square
    assert compare(N, square).relation is Relation.AT_MOST


def test_equal_for_all_sizes() -> None:
    assert volume((M, N)) == volume((N, M)) and volume((M, N)) <= volume((N, M))
    assert not volume((M, N)) < volume((N, M))
    assert compare(volume((M, N)), volume((N, M))).relation is Relation.EQUAL


@pytest.mark.parametrize(
    "lesser, greater",
    [
        (4 * N, (N + 127) // 128 * 512),  # padding never saves
        (N // 2, N - 1),  # equal at 1 and 2
        ((N + 1) // 2 - 1, N // 2),
        (N // 128, N // 64),
        (((N + 3) // 4 + 7) // 8, (N + 38) // 8),
    ],
)
def test_divisions(lesser: Affine, greater: Affine) -> None:
    assert Formula.of(lesser) <= Formula.of(greater)


def test_case_distinction_beyond_the_coefficients() -> None:
    n = Formula.of(N)
    assert n * n - 4 * n + 5 > 0  # (N - 2)^2 + 1, with a negative coefficient about 1
    assert n * n * n + 60 > 12 * n * n - 40 * n  # least at N = 5.7


def test_facts_narrow_the_sizes() -> None:
    assert compare(N, 100).relation is Relation.MIXED
    assert compare(N, 100, facts=[N - 200]).relation is Relation.GREATER
    assert compare(M, N, facts=[N - M - 1]).less is not None
    assert compare(M, N, facts=[N - M - 1]).greater is None


def test_what_cannot_be_decided_says_so() -> None:
    """Pell's equation x^2 - 2 y^2 = 7 has solutions among the sizes, 3 mod 8 has none: no proof by coefficients."""
    x, y = Formula.of(M), Formula.of(N)
    with pytest.raises(DependsOnSizes, match="could not be decided") as caught:
        assert (x * x - 2 * y * y - 3) * (x * x - 2 * y * y - 3) > 0
    assert caught.value.ordering.relation is Relation.UNDECIDED
    assert "undecided" in str(caught.value.ordering)


polynomials = st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4)


@settings(max_examples=60)
@given(polynomials, st.integers(1, 7))
def test_decisions_agree_with_enumeration(terms: list[tuple[int, int, int]], modulus: int) -> None:
    """What is proved holds at every size up to 12, and counterexamples are what they claim to be."""
    m, n = Formula.of((M + modulus - 1) // modulus), Formula.of(N)
    left = Formula.of(0)
    for factor, a, b in terms:
        left = left + factor * (m if a == 1 else m * n if a == 2 else 1) * (n if b == 1 else n * n if b == 2 else 1)
    ordering = compare(left, 0)
    values = [left.at(M=i, N=j) for i in range(1, 13) for j in range(1, 13)]
    match ordering.relation:
        case Relation.LESS:
            assert max(values) < 0
        case Relation.AT_MOST:
            assert max(values) <= 0
        case Relation.EQUAL:
            assert set(values) == {0}
        case Relation.AT_LEAST:
            assert min(values) >= 0
        case Relation.GREATER:
            assert min(values) > 0
    for at, holds in ((ordering.less, lambda v: v < 0), (ordering.greater, lambda v: v > 0)):
        assert at is None or holds(left.at(**dict(at)))
