"""Integer sets and relations: the only module that speaks to isl.

A set is given by constraints on named integers; names are replaced by positions before isl parses them, so equal
structures share one parsed object and one answer, whatever their names.  Every query runs under an operation budget;
when it is exhausted `BudgetExceeded` says so and the caller answers "unknown".  isl's default context is shared by the
whole process, so queries hold one lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import islpy as isl

from polyfuse.affine import Affine, names_of
from polyfuse.constraints import Constraint as Constraint
from polyfuse.constraints import Relation as Relation
from polyfuse.constraints import at_least_zero as at_least_zero
from polyfuse.constraints import box as box
from polyfuse.constraints import connected as connected
from polyfuse.constraints import equal as equal
from polyfuse.constraints import factors, parts, pieces, shadow
from polyfuse.errors import PolyfuseError

BUDGET = 60_000
"""isl operations per query.  The largest that a schedule of the strategies has needed is 40,000, in 7 ms (a tile of a
contraction); adversarial ones (coprime strides) cost up to 40 microseconds each (tests/legality/test_budget.py)."""

POINTS = 1 << 16
"""Executions in a block that are gone through one by one in place of a query (`legality/enumerated_cells.py`)."""

_lock = threading.RLock()


class BudgetExceeded(PolyfuseError):
    """isl gave up within its operation budget; the verdict is unknown."""


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


def queries() -> int:
    """How many questions this process has put to isl; answers that were remembered do not count."""
    return _Budget.entered


class _Budget:
    """Limits the isl operations of the queries inside; re-entrant for nested calls."""

    entered = 0
    times = 1

    def __enter__(self) -> None:
        _lock.acquire()
        _Budget.entered += 1
        isl.DEFAULT_CONTEXT.reset_operations()
        isl.DEFAULT_CONTEXT.set_max_operations(BUDGET * _Budget.times)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        isl.DEFAULT_CONTEXT.set_max_operations(0)
        isl.DEFAULT_CONTEXT.reset_operations()
        _lock.release()
        if isinstance(error, isl.Error):
            raise BudgetExceeded(f"the query needs more than {BUDGET * _Budget.times} isl operations") from None


@contextmanager
def at_length(times: int) -> Iterator[None]:
    """Queries inside have so many budgets each; other threads wait."""
    with _lock:
        _Budget.times = times
        try:
            yield
        finally:
            _Budget.times = 1


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
    if any(c.truth is False for c in inner.constraints):
        return None
    if not outers and any(_is_known_empty(piece) for piece in _several(pieces(inner))):
        return None
    if len(outers) == 1 and all(_is_known_inside(inner, factor) for factor in factors(outers[0])):
        return None
    parameters = _parameters(inner, *outers)
    point = _difference(_text(inner, parameters), tuple(_text(o, parameters) for o in outers))
    return None if point is None else dict(zip((*parameters, *inner.names), point, strict=True))


def _several(found: list[Relation]) -> list[Relation]:
    return found if len(found) > 1 else []


def _is_known_empty(relation: Relation) -> bool:
    return _difference(_text(relation, _parameters(relation)), ()) is None


def _is_known_inside(inner: Relation, factor: Relation) -> bool:
    """The part of `inner` that concerns the names of `factor` lies in it; the rest of `inner` could only help."""
    if set(factor.constraints) <= set(inner.constraints):
        return True
    part = shadow(inner, factor.names)
    parameters = _parameters(part, factor)
    return _difference(_text(part, parameters), (_text(factor, parameters),)) is None


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
    isl.DEFAULT_CONTEXT.set_max_operations(0)  # found: over the limit, printing a number would give None
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


def determines(relation: Relation, keys: Sequence[str]) -> bool:
    """True when no two points agree on `keys` but not elsewhere."""
    others = tuple(n for n in relation.names if n not in keys)
    return all(_single_valued(_text(p, _parameters(p), moved)) for p, moved in _determined(relation, others))


def is_injective_in(relation: Relation, keys: Sequence[str]) -> dict[str, int] | None:
    """Two points that agree on `keys` but not elsewhere, as values of ``name`` and ``name'``, or None."""
    if determines(relation, keys):
        return None
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


def _determined(relation: Relation, others: Sequence[str]) -> list[tuple[Relation, tuple[str, ...]]]:
    """Relations that together say no more than `relation` of `others`, each with those that it ought to determine."""
    found = []
    rest = set(others)
    for group in parts(relation.constraints, frozenset((*others, *relation.exists))):
        used = names_of(c.expression for c in group)
        moved = tuple(n for n in others if n in used)
        if moved:
            found.append((shadow(relation, [n for n in relation.names if n in used]), moved))
        rest -= used
    return [(relation, tuple(others))] if rest else found


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


# ---------------------------------------------------------------------------------------------- relations composed


class Map:
    """A relation from integer tuples to integer tuples, for composing; only the order of the names counts from here on.

    Maps that meet must be made with the same `parameters`.
    """

    __slots__ = ("_isl",)

    def __init__(self, parsed: Any) -> None:
        self._isl = parsed

    @staticmethod
    def of(relation: Relation, outputs: Sequence[str], parameters: Sequence[str]) -> Map:
        """From the other names of `relation` to `outputs`, each in their order.  Raises BudgetExceeded, as all here."""
        with _Budget():
            return Map(isl.Map(_text(relation, parameters, outputs)))

    def then(self, after: Map) -> Map:
        """``{x -> z : x -> y in self, y -> z in after}``."""
        with _Budget():
            return Map(self._isl.apply_range(after._isl))

    def union(self, other: Map) -> Map:
        with _Budget():
            return Map(self._isl.union(other._isl).coalesce())

    def reverse(self) -> Map:
        return Map(self._isl.reverse())

    def equals(self, other: Map) -> bool:
        with _Budget():
            return bool(self._isl.is_equal(other._isl))

    def spread(self) -> tuple[int | None, ...]:
        """Per output dimension how far apart two images of a point are at most; None: as far as sizes let them."""
        kind = isl.dim_type
        with _Budget():
            apart = self._isl.reverse().apply_range(self._isl).deltas()
            apart = apart.project_out(kind.param, 0, apart.dim(kind.param))
            if apart.is_empty():
                return (0,) * int(apart.dim(kind.set))
            bounds = [apart.dim_max_val(k) for k in range(apart.dim(kind.set))]
        return tuple(int(b.to_python()) if b.is_int() else None for b in bounds)


@dataclass(frozen=True, slots=True)
class Access:
    """The statement number `statement` of a program reads or writes the array `array` by `relation`, a set over the
    dimensions of its instances and then the subscripts, `subscripts` of them."""

    statement: int
    array: int
    relation: Relation
    subscripts: int


def last_writers(
    writes: Sequence[Access], reads: Sequence[Access], parameters: Sequence[str]
) -> dict[tuple[int, int], Map]:
    """Feautrier's dataflow analysis (1991), by isl: from the last instance that wrote an element to each instance that
    reads it, per pair of statements, where statement 0 runs as a whole before statement 1 and so on.

    An oracle for tests: in SSA form it is ``write . read^-1``, at a tenth of the cost.
    """
    with _Budget():
        access = isl.UnionAccessInfo.from_sink(_union(reads, parameters))
        access = access.set_must_source(_union(writes, parameters)).set_schedule_map(_sequence((*writes, *reads)))
        flow = access.compute_flow().get_must_dependence()
        found: dict[tuple[int, int], Map] = {}
        parts: list[Any] = []
        flow.foreach_map(parts.append)
        ends = (isl.dim_type.in_, isl.dim_type.out)
        for part in parts:
            source, target = (int(part.get_tuple_name(end)[1:]) for end in ends)
            found[source, target] = Map(part.reset_tuple_id(ends[0]).reset_tuple_id(ends[1]))
        return found


def _union(accesses: Sequence[Access], parameters: Sequence[str]) -> Any:
    whole = isl.UnionMap("{ }")
    for access in accesses:
        names = access.relation.names
        parsed = isl.Map(_text(access.relation, parameters, names[len(names) - access.subscripts :]))
        parsed = parsed.set_tuple_name(isl.dim_type.in_, f"S{access.statement}")
        whole = whole.union(isl.UnionMap.from_map(parsed.set_tuple_name(isl.dim_type.out, f"A{access.array}")))
    return whole


def _sequence(accesses: Sequence[Access]) -> Any:
    """Statement by statement, each in lexicographic order of its instances."""
    ranks = {a.statement: len(a.relation.names) - a.subscripts for a in accesses}
    depth = max(ranks.values(), default=0)
    parts = []
    for statement, rank in sorted(ranks.items()):
        dims = [f"i{k}" for k in range(rank)]
        time = ", ".join([str(statement), *dims, *["0"] * (depth - rank)])
        parts.append(f"S{statement}[{', '.join(dims)}] -> [{time}]")
    return isl.UnionMap(f"{{ {'; '.join(parts)} }}")
