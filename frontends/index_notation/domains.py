"""The range of every index of a statement: stated, or inferred from the arrays that it indexes.

    B[i, j] = (A[i - 1, j] + A[i + 1, j]) / 2          1 <= i < N - 1,  0 <= j < M

An index of the target runs over all values for which every unguarded access is in bounds, whatever the reduction
indices in it are; an index of a reduction over the axes that it indexes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyfuse.affine import ZERO, Affine, FloorDiv
from polyfuse.errors import IndexingError
from polyfuse.expr import Shape
from polyfuse.frontends.index_notation.affine_terms import affine, condition, keys_of
from polyfuse.frontends.index_notation.terms import Access, Apply, Index, Reduction, Term
from polyfuse.frontends.numpy_like.sizes import affine_of
from polyfuse.frontends.numpy_like.state import Trace


@dataclass(frozen=True, slots=True)
class Range:
    """``low <= index < high``."""

    low: Affine
    high: Affine

    @property
    def extent(self) -> Affine:
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Site:
    """One affine subscript of an array; `guards`: the variables of conditions under which it is read."""

    access: Access
    axis: int
    subscript: Affine
    size: Affine
    guards: frozenset[str] = frozenset()
    is_target: bool = False

    @property
    def keys(self) -> frozenset[str]:
        return keys_of([self.subscript])


def sites(term: Any, guards: frozenset[str] = frozenset(), *, is_target: bool = False) -> Iterator[Site]:
    """Every affine subscript in `term` with an index in it."""
    match term:
        case Access():
            for axis, subscript in enumerate(term.subscripts):
                found = affine(subscript)
                if found is not None and keys_of([found]):
                    yield Site(term, axis, found, term.array.sizes[axis], guards, is_target)
                elif found is None:
                    yield from sites(subscript, guards)
        case Apply(name="where", operands=(chosen, *branches)) if (known := condition(chosen)) is not None:
            inner = guards | keys_of([e for conjunction in known for e in conjunction])
            for branch in branches:
                yield from sites(branch, inner)
        case Term():
            for part in term.parts():
                yield from sites(part, guards)


def reductions(term: Any) -> Iterator[Reduction]:
    return (t for t in term.walk() if isinstance(t, Reduction)) if isinstance(term, Term) else iter(())


@dataclass(slots=True)
class Inference:
    """Ranges found so far, by variable key."""

    trace: Trace
    sites: Sequence[Site]
    ranges: dict[str, Range] = field(default_factory=dict)

    def run(self, outer: Sequence[Index], inner: Sequence[Index]) -> Mapping[str, Range]:
        """Ranges of the target's indices `outer` and of reductions' indices `inner`.  Raises IndexingError."""
        for index in inner:
            self.ranges[index.key] = self._stated(index) or self._inferred(index, coupled=frozenset())
        bound = frozenset(self.ranges)
        for index in outer:
            self.ranges[index.key] = self._stated(index) or self._inferred(index, coupled=bound)
        return self.ranges

    def _stated(self, index: Index) -> Range | None:
        if index.within is None:
            return None
        low, high = (affine_of(limit) for limit in index.within)
        if low is None or high is None:
            raise IndexingError(
                f"the range of index {index.name} is stated by {index.within}, which are no sizes",
                advice="A range is stated by numbers, sizes and sums of them.",
            )
        return self._ordered(low, high)

    def _ordered(self, low: Affine, high: Affine) -> Range:
        return Range(low, high) if self.trace.decide(high - low) else Range(low, low)

    def _inferred(self, index: Index, coupled: frozenset[str]) -> Range:
        found = [s for s in self.sites if index.key in s.keys and index.key not in s.guards]
        usable = [s for s in found if s.keys - {index.key} <= coupled]
        limits = [limit for s in usable if (limit := self._limits(s, index.key)) is not None]
        if not limits:  # met under conditions only: it runs over the axes that it names by itself
            usable = [s for s in self.sites if s.subscript == Affine.symbol(index.key)]
            limits = [Range(ZERO, s.size) for s in usable]
        if not limits:
            raise IndexingError(
                f"the range of index {index.name} does not follow from the arrays that it indexes",
                advice=f"State it: {index.name} = pf.indices('{index.name}', within=(start, stop)).",
            )
        self._check_equal(index, usable)
        common = self._common(limits)
        return self._ordered(common.low, common.high)

    def _common(self, limits: Sequence[Range]) -> Range:
        low, high = limits[0].low, limits[0].high
        for limit in limits[1:]:
            low = low if low == limit.low or self.trace.decide(low - limit.low) else limit.low
            high = high if high == limit.high or self.trace.decide(limit.high - high) else limit.high
        return Range(low, high)

    def _of_axis(self, site: Site, key: str, usable: Sequence[Site]) -> Range:
        """Where all accesses along this axis of this array are in bounds."""
        same = [s for s in usable if s.access.array.buffer is site.access.array.buffer and s.axis == site.axis]
        return self._common([limit for s in same if (limit := self._limits(s, key)) is not None])

    def _check_equal(self, index: Index, usable: Sequence[Site]) -> None:
        """Axes that an index runs over by itself are of one size, or of that which other accesses to them leave:
        ``(x[i + 1] - x[i]) / h[i]``."""
        plain = [s for s in usable if s.subscript == Affine.symbol(index.key) and not s.is_target]
        for site in plain[1:]:
            first = plain[0]
            if first.size != site.size and not self.trace.equal(first.size, site.size):
                ranges = [self._of_axis(s, index.key, usable) for s in (first, site)]
                if all(map(self.trace.equal, *((r.low, r.high) for r in ranges))):
                    continue
                a, b = (_axis_text(self.trace, s) for s in (first, site))
                raise IndexingError(
                    f"index {index.name} runs over {a} and over {b}",
                    advice="Write the same letter for equal sizes, or state a range within both: "
                    f"pf.indices('{index.name}', within=(start, stop)).",
                    source=site.access.location.source() if site.access.location else None,
                )

    def _limits(self, site: Site, key: str) -> Range | None:
        """Where ``0 <= subscript < size`` for all values of the subscript's other variables."""
        subscript, size = site.subscript, site.size
        if len(subscript.terms) == 1 and isinstance(atom := subscript.terms[0][0], FloorDiv):
            if subscript.terms[0][1] != 1 or subscript.constant:
                return None
            subscript, size = atom.numerator, size * atom.denominator
        factor = subscript.coefficient(key)
        rest = subscript - Affine.symbol(key) * factor
        if not factor or key in rest.names() or not subscript.is_linear:
            return None
        least, most = (self._extreme(rest, highest) for highest in (False, True))
        if factor > 0:
            return Range((-least).ceildiv(factor), (size - 1 - most) // factor + 1)
        return Range((most - size + 1).ceildiv(-factor), least // -factor + 1)

    def _extreme(self, rest: Affine, highest: bool) -> Affine:
        total = Affine.of(rest.constant)
        for atom, factor in rest.terms:
            assert isinstance(atom, str), "a linear expression"
            limits = self.ranges.get(atom)
            if limits is None:
                total += Affine.symbol(atom) * factor
            else:
                total += (limits.high - 1 if highest == (factor > 0) else limits.low) * factor
        return total


def _axis_text(trace: Trace, site: Site) -> str:
    size = str(site.size) if site.size.is_constant else f"{site.size} (here {trace.hint(site.size)})"
    if not site.size.is_constant and not site.size.names() & trace.fresh:
        size = str(site.size)
    return f"axis {site.axis} of {site.access.name} of size {size}"


def inferred_shape(trace: Trace, name: str, outer: Sequence[Index], ranges: Mapping[str, Range]) -> Shape:
    """The shape of an array that is made by its first assignment ``name[i, j] = ...``.  Raises IndexingError."""
    for index in outer:
        low = ranges[index.key].low
        if low != ZERO and not trace.equal(low, ZERO):
            raise IndexingError(
                f"{name} has no value where {index.name} < {low}: the index starts there",
                advice=f"Make it first, {name} = pf.zeros(shape), and assign a part of it.",
            )
    return tuple(ranges[index.key].high for index in outer)


def at_point(expression: Affine, variables: Sequence[str], ranges: Mapping[str, Range]) -> Affine:
    """`expression` over the points ``%0, %1, ...`` of the space of `variables`, each counted from its low end."""
    points = {key: Affine.symbol(f"%{k}") + ranges[key].low for k, key in enumerate(variables)}
    return expression.substitute(points)


def shape_of(variables: Sequence[str], ranges: Mapping[str, Range]) -> Shape:
    return tuple(ranges[key].extent for key in variables)
