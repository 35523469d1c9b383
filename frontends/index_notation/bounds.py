"""Every access of a statement is proved in bounds, or is an error with a witness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polyfuse.affine import Affine, names_of
from polyfuse.bindings import Guard
from polyfuse.errors import IndexingError
from polyfuse.frontends.index_notation.affine_terms import Conjunction, affine, condition, keys_of, negated, shown
from polyfuse.frontends.index_notation.terms import Access, Apply, Term
from polyfuse.frontends.numpy_like.state import Trace

if TYPE_CHECKING:
    from polyfuse.frontends.index_notation.domains import Range
    from polyfuse.index_proofs import Domain


@dataclass(frozen=True, slots=True)
class Space:
    """Where a term is evaluated: the ranges of variables, and further conditions under which its value is used."""

    ranges: Mapping[str, Range]
    guards: Conjunction = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known about the sizes of one trace."""

    trace: Trace

    def domain(self, keys: Sequence[str], space: Space, guards: Conjunction, sizes: Sequence[Affine] = ()) -> Domain:
        """The points of the variables `keys`, in order, and what is known about sizes."""
        from polyfuse.index_proofs import Domain  # isl: loaded by programs in index notation only

        limits = [e for key in keys for e in _limits(key, space.ranges[key])]
        known = [g.expression for g in self.trace.guards if isinstance(g, Guard) and not g.modulus]
        symbols = {n for n in names_of([*limits, *known, *guards, *sizes]) if not n.startswith("@")}
        known += [Affine.symbol(n) - self.trace.least.get(n, 1) for n in sorted(symbols)]
        return Domain.of(keys, [*limits, *guards, *known])

    def _escapes(self, term: Access, space: Space, guards: Conjunction) -> list[tuple[int, Affine]]:
        """The axes of `term` along which it may leave the array, with their subscripts."""
        from polyfuse.index_proofs import escape

        found = []
        for axis, subscript in enumerate(map(affine, term.subscripts)):
            if subscript is None:
                continue
            size = term.array.sizes[axis]
            keys = sorted(keys_of([subscript, *guards]))
            if escape(self.domain(keys, space, guards, [subscript, size]), subscript, size) is not None:
                found.append((axis, subscript))
        return found

    def hold(self, term: Any, space: Space) -> bool:
        """Whether every access in `term` is in bounds for all sizes, whatever condition it stands under outside."""
        match term:
            case Access() if self._escapes(term, space, space.guards):
                return False
            case Apply(name="where", operands=(chosen, a, b)) if (known := condition(chosen)) is not None:
                inner = [(c, a) for c in known] + [(c, b) for c in negated(known)]
                return all(self.hold(branch, Space(space.ranges, (*space.guards, *c))) for c, branch in inner)
            case Term():
                return all(self.hold(part, space) for part in term.parts())
        return True

    def guards_needed(self, term: Access, space: Space, *, is_target: bool = False) -> Conjunction:
        """The conditions that `term` must be read under: none where it is in bounds everywhere.  Raises IndexingError,
        or leaves guards on sizes, where they do not help."""
        if not self._escapes(term, space, ()):
            return ()
        for axis, subscript in self._escapes(term, space, space.guards):
            self._allow(term, axis, subscript, space, is_target)
        return space.guards

    def _allow(self, term: Access, axis: int, subscript: Affine, space: Space, is_target: bool) -> None:
        """Leave a guard on sizes for which the access is in bounds, if they hold here.  Raises IndexingError."""
        from polyfuse.index_proofs import admissible_sizes, escape

        size, trace = term.array.sizes[axis], self.trace
        keys = sorted(keys_of([subscript, *space.guards]))
        domain = self.domain(keys, space, space.guards, [subscript, size])
        legal = admissible_sizes(domain, subscript, size)
        if legal is not None and all(trace.hint(e) >= 0 for e in legal):
            for expression in legal:
                trace.decide(expression)
            return
        symbols = {n: trace.hints[n] for n in names_of(c.expression for c in domain.constraints) & trace.hints.keys()}
        exact = domain.at(symbols)
        point = escape(exact, subscript.substitute(symbols), size.substitute(symbols))
        if point is None:
            point = escape(domain, subscript, size) or {}
        known = " and ".join(f"{e} >= 0" for e in legal or ())
        advice = _advice(term, subscript, f"It is in bounds where {known}. " if known else "", is_target)
        raise self._error(term, axis, subscript, symbols | point, advice)

    def _error(
        self, term: Access, axis: int, subscript: Affine, point: Mapping[str, int], advice: str
    ) -> IndexingError:
        size = term.array.sizes[axis]
        where = [f"{shown(Affine.symbol(n))} = {point[n]}" for n in sorted(keys_of([subscript]))]
        sizes = [f"{n} = {point[n]}" for n in sorted(names_of([subscript, size])) if n in point and n[0] != "@"]
        at = f"at {' and '.join(where)}" if where else "always"
        extent = f"{size} (with {', '.join(sizes)})" if sizes else str(size)
        return IndexingError(
            f"{text_of(term)} is out of bounds: {at} it is element {subscript.evaluate(point)} of axis {axis}, "
            f"which has size {extent}",
            advice=advice,
            source=term.location.source() if term.location else None,
        )


def _advice(term: Access, subscript: Affine, known: str, is_target: bool) -> str:
    names = [shown(Affine.symbol(key)) for key in sorted(keys_of([subscript]))]
    restrict = f"estrict the index, pf.indices('{names[0]}', within=(start, stop))" if names else ""
    if is_target:
        return f"{known}R{restrict}, or make the array larger." if restrict else f"{known}Make the array larger."
    guard = f"uard the access: pf.where(pf.inside({text_of(term)}), {text_of(term)}, 0)."
    return f"{known}R{restrict}, or g{guard}" if restrict else f"{known}G{guard}"


def _limits(key: str, limits: Range) -> tuple[Affine, Affine]:
    at = Affine.symbol(key)
    return at - limits.low, limits.high - 1 - at


def text_of(term: Access) -> str:
    """The access as text: ``A[i - 1, j]``."""
    entries = [affine(s) for s in term.subscripts]
    return f"{term.name}[{', '.join('...' if e is None else shown(e) for e in entries)}]"
