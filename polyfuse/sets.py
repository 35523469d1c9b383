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


def _parsed(relation: Relation, parameters: Sequence[str]) -> Any:
    rename = {n: f"p{k}" for k, n in enumerate(parameters)}
    rename |= {n: f"x{k}" for k, n in enumerate(relation.names)}
    rename |= {n: f"e{k}" for k, n in enumerate(relation.exists)}
    constraints = " and ".join(c.text(rename) for c in relation.constraints) or "1 = 1"
    inner = f"exists {', '.join(rename[n] for n in relation.exists)} : {constraints}" if relation.exists else constraints
    head = ", ".join(rename[n] for n in relation.names)
    return _parse(f"[{', '.join(rename[p] for p in parameters)}] -> {{ [{head}] : {inner} }}")


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


def is_empty(relation: Relation) -> bool:
    """True when no point exists for any value of the parameters."""
    with _Budget():
        return bool(_empty(_text_key(relation)))


def _text_key(relation: Relation) -> Any:
    return _parsed(relation, _parameters(relation))


def _empty(parsed: Any) -> bool:
    return bool(parsed.is_empty())


def is_subset(inner: Relation, outer: Relation) -> bool:
    """True when every point of `inner` is one of `outer`, for all parameters.  Names must agree in number and order."""
    parameters = _parameters(inner, outer)
    with _Budget():
        return bool(_parsed(inner, parameters).is_subset(_parsed(outer, parameters)))


def difference_point(inner: Relation, outer: Relation) -> dict[str, int] | None:
    """A point of `inner` that is not in `outer`, with parameter values, or None when `inner` is a subset."""
    parameters = _parameters(inner, outer)
    with _Budget():
        rest = _parsed(inner, parameters).subtract(_parsed(outer, parameters))
        return _sample(rest, parameters, inner.names)


def sample(relation: Relation) -> dict[str, int] | None:
    """Some point with parameter values, or None when empty."""
    parameters = _parameters(relation)
    with _Budget():
        return _sample(_parsed(relation, parameters), parameters, relation.names)


def _sample(parsed: Any, parameters: Sequence[str], names: Sequence[str]) -> dict[str, int] | None:
    """The lexicographically least point at small parameter values where one exists: a readable witness."""
    if parsed.is_empty():
        return None
    kind = isl.dim_type
    for k in range(len(parameters)):
        parsed = parsed.move_dims(kind.set, k, kind.param, 0, 1)
    small = parsed
    for k in range(len(parameters)):
        small = small.lower_bound_val(kind.set, k, isl.Val(1))
    parsed = parsed if small.is_empty() else small
    least = parsed.lexmin() if _bounded_below(parsed) else parsed
    point = least.sample_point()
    every = (*parameters, *names)
    return {n: int(point.get_coordinate_val(kind.set, k).to_python()) for k, n in enumerate(every)}


def _bounded_below(parsed: Any) -> bool:
    kind = isl.dim_type
    return all(parsed.dim_has_lower_bound(kind.set, k) for k in range(parsed.dim(kind.set)))


def is_injective_in(relation: Relation, keys: Sequence[str]) -> dict[str, int] | None:
    """Two points that agree on `keys` but not elsewhere, as values of ``name`` and ``name'``; None when there are none."""
    others = tuple(n for n in relation.names if n not in keys)
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


def maximum(expression: Affine, constraints: Sequence[Constraint]) -> int | None:
    """The largest value of `expression` over all integers that satisfy `constraints`; None when unbounded."""
    names = tuple(sorted(names_of([expression, *(c.expression for c in constraints)])))
    target = "value of the expression"
    whole = Relation((target,), (*constraints, equal(Affine.symbol(target), expression)), names)
    with _Budget():
        parsed = _parsed(whole, ())
        if parsed.is_empty():
            return None
        bound = parsed.dim_max_val(0)
        return int(bound.to_python()) if bound.is_int() else None


@lru_cache(maxsize=100_000)
def _implied(text: str) -> bool:
    with _Budget():
        return bool(_parse(text).is_empty())


def implied(condition: Affine, constraints: Sequence[Constraint]) -> bool:
    """True when ``condition >= 0`` follows from `constraints` for all integers.  Memoised by structure."""
    relevant = _connected(condition, constraints)
    names = tuple(sorted(names_of([condition, *(c.expression for c in relevant)])))
    rename = {n: f"x{k}" for k, n in enumerate(names)}
    parts = [c.text(rename) for c in relevant] + [f"{(-condition - 1).text(rename)} >= 0"]
    return _implied(f"{{ [{', '.join(rename.values())}] : {' and '.join(parts)} }}")


def _connected(condition: Affine, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints that share names with the condition, transitively: the rest cannot matter unless infeasible."""
    names, chosen, rest = set(condition.names()), [], list(constraints)
    grown = True
    while grown:
        grown = False
        for constraint in list(rest):
            if constraint.expression.names() & names:
                names |= constraint.expression.names()
                chosen.append(constraint)
                rest.remove(constraint)
                grown = True
    return tuple(chosen)
