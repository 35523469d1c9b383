"""Exponentials that a one-pass sum has taken already, relative to the maximum of the same block.

    m, t = max_sumexp(x, 1)                   per block of a cluster:  e' = exp(x - its own maximum),  t = sum(e')
    d = x - m;  e = exp(d)              ->    e = e' * exp(its own maximum - m)

What a block summed it still holds where it reads the same registers of x: one factor per result moves it.  Divided by
their own sum, which is 1 at least, they are multiplied by the quotient of the two, which rounds as often.  (Without a
cluster the factor is 1, and the quotient rounds once.)

    s = t + (m - m);  y = e / s         ->    y = e' * (exp(its own maximum - m) / s)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.terms import Apply, Expr, Ref

TAKING = ("max_sumexp", "max_sumexp_short")
"""Cascades whose sums are those of the exponentials that they have taken."""

Register = tuple[str, int]
"""A placed statement and the component of it that is meant."""


def held_exponentials(scop: Scop, schedule: KernelSchedule) -> Mapping[str, str]:
    """Per placed exponential, the placed reduction that has taken it."""
    return taken_exponentials(scop, schedule.placed, {d.name for d in schedule.of_kind("loop")})


def taken_exponentials(scop: Scop, statements: Sequence[Placed], loops: Set[str]) -> Mapping[str, str]:
    """The same of placed statements, before they are a schedule with these loops."""
    sums = [p for p in statements if p.role == "compute" and _monoid(scop, p) in TAKING]
    if not sums or loops & sums[0].digits():
        return {}
    by_name = {p.name: p for p in statements}
    found: dict[str, str] = {}
    for total in sums:
        (elements,) = _operands(scop, by_name, (total.name, 0), None)
        for placed in statements:
            below = _operands(scop, by_name, (placed.name, 0), "exp") if placed.path == total.path else ()
            if below and _operands(scop, by_name, below[0], "subtract") == (elements, (total.name, 0)):
                found[placed.name] = total.name
    return found


def held_shares(scop: Scop, schedule: KernelSchedule, taken: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    """Per placed quotient of such an exponential and the sum of all of them: the reduction, and what holds the sum."""
    if not taken or schedule.cluster == 1:
        return {}
    by_name = schedule.by_name()
    found: dict[str, tuple[str, str]] = {}
    for placed in schedule.placed:
        operands = _operands(scop, by_name, (placed.name, 0), "divide")
        if operands and operands[0][0] in taken:
            total = taken[operands[0][0]]
            top, summed = (total, 0), (total, 1)
            terms = _operands(scop, by_name, operands[1], "add")
            none = [_operands(scop, by_name, term, "subtract") for term in terms if term != summed]
            if summed in terms and none == [(top, top)]:
                found[placed.name] = total, operands[1][0]
    return found


def _monoid(scop: Scop, placed: Placed) -> str | None:
    statement = scop.statements[placed.value]
    return statement.monoid if isinstance(statement, Statement) else None


def _operands(
    scop: Scop, by_name: Mapping[str, Placed], register: Register, function: str | None
) -> tuple[Register, ...]:
    """What the `function` that `register` holds the result of is applied to; its first operand where there is none."""
    placed = by_name[register[0]]
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement):
        return ()
    term: Expr = statement.body[0]
    if function is None:
        operands: tuple[Expr, ...] = (term,)
    elif isinstance(term, Apply) and term.function == function and statement.monoid is None:
        operands = term.operands
    else:
        return ()
    found = tuple(_origin(scop, by_name, placed, operand) for operand in operands)
    return tuple(at for at in found if at is not None) if None not in found else ()


def _origin(scop: Scop, by_name: Mapping[str, Placed], placed: Placed, operand: Expr) -> Register | None:
    """The register that holds an operand, behind casts that change nothing in registers."""
    while True:
        if isinstance(operand, Apply) and operand.function == "cast" and len(operand.operands) == 1:
            inner = operand.operands[0]
            if not isinstance(inner, (Ref, Apply)) or inner.dtype.compute != operand.dtype.compute:
                return None
            operand = inner
            continue
        statement = scop.statements[placed.value]
        if not isinstance(operand, Ref) or not operand.name.startswith("r") or not isinstance(statement, Statement):
            return None
        number = int(operand.name[1:])
        provider, component = by_name[placed.providers[number]], statement.reads[number].component
        source = scop.statements[provider.value]
        if provider.role != "compute" or not isinstance(source, Statement) or source.monoid is not None:
            return provider.name, component
        term = source.body[0]
        if not (isinstance(term, Apply) and term.function == "cast"):
            return provider.name, component
        if _origin(scop, by_name, provider, term) is None:
            return provider.name, component
        placed, operand = provider, term
