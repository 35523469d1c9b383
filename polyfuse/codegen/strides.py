"""Element strides of arrays as polynomials in the sizes: the one place where sizes are multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polyfuse.affine import Affine, Atom, FloorDiv
from polyfuse.kernel import ArrayParameter, SharedBuffer

Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of integer multiples of products of sizes; terms are sorted, so that equality is structural."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def build(terms: Mapping[Monomial, int]) -> Polynomial:
        kept = [(m, c) for m, c in terms.items() if c]
        return Polynomial(tuple(sorted(kept, key=lambda t: (-len(t[0]), [str(a) for a in t[0]]))))

    @staticmethod
    def of(value: Affine | int) -> Polynomial:
        affine = Affine.of(value)
        terms: dict[Monomial, int] = {(atom,): factor for atom, factor in affine.terms}
        terms[()] = affine.constant
        return Polynomial.build(terms)

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial.build(terms)

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for a, i in self.terms:
            for b, j in other.terms:
                monomial = tuple(sorted(a + b, key=str))
                terms[monomial] = terms.get(monomial, 0) + i * j
        return Polynomial.build(terms)

    @property
    def constant(self) -> int | None:
        """The value, if it depends on no size."""
        if not self.terms:
            return 0
        return self.terms[0][1] if self.terms[0][0] == () else None

    def atoms(self) -> Affine:
        """The sum of all factors that occur: what a kernel must know to compute the value."""
        return sum((Affine(((atom, 1),)) for monomial, _ in self.terms for atom in monomial), Affine.of(0))

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The value for concrete sizes."""
        total = 0
        for monomial, factor in self.terms:
            for atom in monomial:
                factor *= _atom_value(atom, sizes)
            total += factor
        return total


def _atom_value(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, FloorDiv):
        return atom.numerator.evaluate(sizes) // atom.denominator
    return sizes[atom]


def element_strides(memory: ArrayParameter | SharedBuffer) -> tuple[Polynomial, ...]:
    """Elements between neighbours along each dimension: C order unless the parameter names its strides."""
    if isinstance(memory, SharedBuffer):
        return tuple(Polynomial.of(p) for p in memory.pitch)
    if memory.strides is not None:
        return tuple(Polynomial.of(Affine.symbol(s) if isinstance(s, str) else s) for s in memory.strides)
    strides: list[Polynomial] = []
    running = Polynomial.of(1)
    for extent in reversed(memory.shape):
        strides.append(running)
        running = running * Polynomial.of(extent)
    return tuple(reversed(strides))
