"""Integer sets and relations: the only module that speaks to isl.

A set is given by constraints on named integers; names are replaced by positions before isl parses them, so equal
structures share one parsed object and one answer, whatever their names.  Every query runs under an operation budget;
when it is exhausted `BudgetExceeded` says so and the caller answers "unknown".  isl's default context is shared by the
whole process, so queries hold one lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import islpy as isl

from polyfuse.affine import Affine, names_of
from polyfuse.errors import PolyfuseError

BUDGET = 2_000_000  # isl operations per query: about 0.2 s at worst; the largest legitimate query seen needs 60,000

_lock = threading.RLock()


class BudgetExceeded(PolyfuseError):
    """isl gave up within its operation budget; the verdict is unknown."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """``expression >= 0``, ``expression = 0``, or ``expression mod modulus = 0``."""

    expression: Affine
    kind: Literal[">=", "=", "mod"] = ">="
    modulus: int = 0

    def text(self, rename: Mapping[str, str]) -> str:
        body = self.expression.text(rename)
        return f"({body}) mod {self.modulus} = 0" if self.kind == "mod" else f"{body} {self.kind} 0"


def at_least_zero(expressions: Iterable[Affine]) -> tuple[Constraint, ...]:
    return tuple(Constraint(e) for e in expressions)


def box(names: Sequence[str], extents: Sequence[Affine]) -> tuple[Constraint, ...]:
    """``0 <= name < extent`` for each pair."""
    found = []
    for name, extent in zip(names, extents, strict=True):
        point = Affine.symbol(name)
        found += [Constraint(point), Constraint(extent - point - 1)]
    return tuple(found)


def equal(a: Affine, b: Affine) -> Constraint:
    return Constraint(a - b, "=")


@dataclass(frozen=True, slots=True)
class Relation:
    """Points over `names` for which some values of `exists` satisfy the constraints; all other names are parameters.

    A relation between instances and places is a set over the names of both sides.
    """

    names: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    exists: tuple[str, ...] = ()

    def parameters(self) -> frozenset[str]:
        used = names_of(c.expression for c in self.constraints)
        return used - set(self.names) - set(self.exists)


def _text(relation: Relation, parameters: Sequence[str], outputs: Sequence[str] | None = None) -> str:
    """isl's text with names replaced by positions; `outputs`: the names that a map, instead of a set, leads to."""
    rename = {n: f"p{k}" for k, n in enumerate(parameters)}
    rename |= {n: f"x{k}" for k, n in enumerate(relation.names)}
    rename |= {n: f"e{k}" for k, n in enumerate(relation.exists)}
    constraints = " and ".join(dict.fromkeys(c.text(rename) for c in relation.constraints)) or "1 = 1"
    exists = f"exists {', '.join(rename[n] for n in relation.exists)} : " if relation.exists else ""
    if outputs is None:
        head = f"[{', '.join(rename[n] for n in relation.names)}]"
    else:
        inputs = [n for n in relation.names if n not in outputs]
        head = f"[{', '.join(rename[n] for n in inputs)}] -> [{', '.join(rename[n] for n in outputs)}]"
    return f"[{', '.join(rename[p] for p in parameters)}] -> {{ {head} : {exists}{constraints} }}"


@lru_cache(maxsize=50_000)
def _parse(text: str) -> Any:
    return isl.Set(text)


class _Budget:
    """Limits the isl operations of the queries inside; re-entrant for nested calls."""

    def __enter__(self) -> None:
        _lock.acquire()
        isl.DEFAULT_CONTEXT.reset_operations()
        isl.DEFAULT_CONTEXT.set_max_operations(BUDGET)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        isl.DEFAULT_CONTEXT.set_max_operations(0)
        isl.DEFAULT_CONTEXT.reset_operations()
        _lock.release()
        if isinstance(error, isl.Error):
            raise BudgetExceeded(f"the query needs more than {BUDGET} isl operations") from None


def _parameters(*relations: Relation) -> tuple[str, ...]:
    return tuple(sorted(frozenset().union(*(r.parameters() for r in relations))))


# ---------------------------------------------------------------------------------------------- questions about sets


def is_empty(relation: Relation) -> bool:
    """True when no point exists for any value of the parameters."""
    with _Budget():
        return bool(_parse(_text(relation, _parameters(relation))).is_empty())


def is_subset(inner: Relation, *outers: Relation) -> bool:
    """True when every point of `inner` is one of some of `outers`, for all parameters.  Names must agree in number
    and order."""
    return difference_point(inner, *outers) is None


def difference_point(inner: Relation, *outers: Relation) -> dict[str, int] | None:
    """A point of `inner` that is in none of `outers`, with parameter values, or None when there is none.

    Memoised by structure, as is every question below that returns a point.
    """
    parameters = _parameters(inner, *outers)
    point = _difference(_text(inner, parameters), tuple(_text(o, parameters) for o in outers))
    return None if point is None else dict(zip((*parameters, *inner.names), point, strict=True))


@lru_cache(maxsize=50_000)
def _difference(inner: str, outers: tuple[str, ...]) -> tuple[int, ...] | None:
    with _Budget():
        rest = _parse(inner)
        for outer in outers:
            rest = rest.subtract(_parse(outer))
        return _sample(rest)


def sample(relation: Relation) -> dict[str, int] | None:
    """Some point with parameter values, or None when empty."""
    return difference_point(relation)


def _sample(parsed: Any) -> tuple[int, ...] | None:
    """Parameters and coordinates of the lexicographically least point, at parameter values from 1 on where there are
    some: a readable witness."""
    if parsed.is_empty():
        return None
    kind = isl.dim_type
    count = parsed.dim(kind.param)
    for k in range(count):
        parsed = parsed.move_dims(kind.set, k, kind.param, 0, 1)
    small = parsed
    for k in range(count):
        small = small.lower_bound_val(kind.set, k, isl.Val(1))
    point = _least(parsed if small.is_empty() else small).sample_point()
    return tuple(int(point.get_coordinate_val(kind.set, k).to_python()) for k in range(parsed.dim(kind.set)))


def _least(parsed: Any) -> Any:
    """The set with one coordinate after the other fixed at its least value, as far as that is bounded.

    Not by isl's own `lexmin`, which calls some sets with existential dimensions empty that are not (isl of islpy
    2026.2.2; tests/legality/test_sets.py has one).
    """
    kind = isl.dim_type
    for k in range(parsed.dim(kind.set)):
        if parsed.dim_has_lower_bound(kind.set, k):
            fixed = parsed.fix_val(kind.set, k, parsed.dim_min_val(k))
            if fixed.is_empty():
                return parsed
            parsed = fixed
    return parsed


def is_injective_in(relation: Relation, keys: Sequence[str]) -> dict[str, int] | None:
    """Two points that agree on `keys` but not elsewhere, as values of ``name`` and ``name'``, or None."""
    others = tuple(n for n in relation.names if n not in keys)
    if _single_valued(_text(relation, _parameters(relation), others)):
        return None
    prime = {n: f"{n}'" for n in (*others, *relation.exists)}
    values = {n: Affine.symbol(p) for n, p in prime.items()}
    second = tuple(Constraint(c.expression.substitute(values), c.kind, c.modulus) for c in relation.constraints)
    names = (*relation.names, *(prime[n] for n in others))
    exists = (*relation.exists, *(prime[n] for n in relation.exists))
    for k, name in enumerate(others):  # the first differing name decides; earlier ones are equal
        differ = Constraint(Affine.symbol(prime[name]) - Affine.symbol(name) - 1)
        equals = tuple(equal(Affine.symbol(n), Affine.symbol(prime[n])) for n in others[:k])
        found = sample(Relation(names, (*relation.constraints, *second, differ, *equals), exists))
        if found is not None:
            return found
    return None


@lru_cache(maxsize=50_000)
def _single_valued(text: str) -> bool:
    with _Budget():
        return bool(isl.Map(text).is_single_valued())


@lru_cache(maxsize=100_000)
def _implied(text: str) -> bool:
    with _Budget():
        return bool(_parse(text).is_empty())


def implied(condition: Affine, constraints: Sequence[Constraint]) -> bool:
    """True when ``condition >= 0`` follows from `constraints` for all integers.  Memoised by structure."""
    relevant = connected(condition.names(), constraints)
    names = tuple(sorted(names_of([condition, *(c.expression for c in relevant)])))
    rename = {n: f"x{k}" for k, n in enumerate(names)}
    parts = [c.text(rename) for c in relevant] + [f"{(-condition - 1).text(rename)} >= 0"]
    return _implied(f"{{ [{', '.join(rename.values())}] : {' and '.join(parts)} }}")


def connected(names: frozenset[str], constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints that share names with `names`, transitively: the rest cannot matter unless infeasible."""
    known, chosen, rest = set(names), [], list(constraints)
    grown = True
    while grown:
        grown = False
        for constraint in list(rest):
            if constraint.expression.names() & known:
                known |= constraint.expression.names()
                chosen.append(constraint)
                rest.remove(constraint)
                grown = True
    return tuple(chosen)


# ---------------------------------------------------------------------------------------------- conditions on sizes

Conjunction = tuple[Constraint, ...]


def violated_sizes(inner: Relation, *outers: Relation) -> tuple[tuple[Conjunction, ...], Conjunction | None]:
    """For which sizes some point of `inner` is in none of `outers`: a disjunction of conjunctions over the sizes, given
    that `inner` has points at all; and its negation where that is one conjunction.

    Empty: for no size.  ``((),)``: for all.
    """
    parameters = _parameters(inner, *outers)
    with _Budget():
        need = _parse(_text(inner, parameters))
        rest = need
        for outer in outers:
            rest = rest.subtract(_parse(_text(outer, parameters)))
        violated = rest.params().compute_divs()
        sizes = need.params()
        kept = sizes.subtract(violated).gist_params(sizes).coalesce()
        found = tuple(sorted(_conjunctions(violated.gist_params(sizes).coalesce(), parameters), key=str))
        legal = _conjunctions(kept, parameters)
    return found, legal[0] if len(legal) == 1 else None


def _conjunctions(parsed: Any, parameters: Sequence[str]) -> list[Conjunction]:
    found = []
    for basic in parsed.remove_redundancies().compute_divs().get_basic_sets():
        conjuncts = [_constraint(c, parameters) for c in basic.get_constraints() if not c.is_div_constraint()]
        found.append(tuple(sorted(conjuncts, key=lambda c: (c.kind, str(c.expression)))))
    return found


def _constraint(constraint: Any, parameters: Sequence[str]) -> Constraint:
    expression = _affine(constraint.get_aff(), parameters)
    return Constraint(expression, "=" if constraint.is_equality() else ">=")


def _affine(aff: Any, parameters: Sequence[str]) -> Affine:
    """An isl expression with integer coefficients over the parameters; its divisions become floors."""
    kind = isl.dim_type
    denominator = int(aff.get_denominator_val().to_python())

    def times(value: Any) -> int:
        return int(value.mul(isl.Val(denominator)).to_python())

    total = Affine.of(times(aff.get_constant_val()))
    for k, name in enumerate(parameters):
        total += Affine.symbol(name) * times(aff.get_coefficient_val(kind.param, k))
    for k in range(aff.dim(kind.div)):
        factor = times(aff.get_coefficient_val(kind.div, k))
        if factor:
            total += _affine(aff.get_div(k), parameters) * factor
    return total // denominator
