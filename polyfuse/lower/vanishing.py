"""Terms of reductions that need no mask: beyond a row they are 0, as what they are made of is.

    x is 0 where j >= n                              x is 0 where j >= n
    s = sum over j of where(j < n, x * x, 0)   ->    s = sum over j of x * x

A mask of the term would be a truth that waits for loads: ptxas has few, and loads one by one instead.  Where a thread
multiplies 32 elements of a column by those of a vector, 7 of 64 loads were on their way at once.
"""

from __future__ import annotations

from math import inf

from polyfuse.affine import Affine
from polyfuse.lower.bodies import body_term
from polyfuse.lower.environment import Environment, is_multiplied
from polyfuse.schedule import Placed
from polyfuse.scop import Statement
from polyfuse.terms import Apply, Const, Expr, Ref

KEEP_ZERO = frozenset(("add", "subtract", "absolute", "maximum", "minimum", "cast"))
"""Functions of which zeros make a zero, in any dtype."""


def is_neutral(env: Environment, placed: Placed, term: Expr, where: tuple[Affine, ...]) -> bool:
    """Whether what a term of a reduction is wherever `where` fails changes no result that somebody sees: 0 in a sum, or
    in a maximum of magnitudes, of which there is one at least."""
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement)
    if statement.monoid == "sum" and zero_outside(env, term, where):
        return True
    if statement.monoid != "sum" and not (statement.monoid == "max" and is_magnitude(env, term)):
        return False
    return vanishes(env, term, where) and (not _is_cut(env) or _is_used_elsewhere(env, placed))


def zero_outside(env: Environment, term: Expr, where: tuple[Affine, ...]) -> bool:
    """True for what a load's own mask, or that of its box, fills with zeros wherever `where` fails."""
    if not isinstance(term, Ref) or term.name not in env.by_name:
        return False
    placed = env.by_name[term.name]
    if placed.role != "load" and not (placed.role == "get" and is_multiplied(env, placed.value)):
        return False
    shape = env.scop.shape(placed.value)
    affine = [(e, n) for e, n in zip(placed.place, shape, strict=True) if isinstance(e, Affine)]
    return set(where) <= set(env.context.inside([e for e, _ in affine], [n for _, n in affine]))


def vanishes(env: Environment, term: Expr, where: tuple[Affine, ...]) -> bool:
    """Whether a term is 0 wherever `where` fails, as loads that are masked alike are: x * y is where both are."""
    match term:
        case Const(value):
            return value == 0
        case Ref(name):
            inner = _elementwise(env, name)
            return zero_outside(env, term, where) or inner is not None and vanishes(env, inner, where)
        case Apply("multiply", operands):
            rest = [operand for operand in operands if not vanishes(env, operand, where)]
            return len(rest) < len(operands) and all(isinstance(r, Const) and 0 < r.value < inf for r in rest)
        case Apply(function, operands) if function in KEEP_ZERO:
            return all(vanishes(env, operand, where) for operand in operands)
        case _:
            return False


def is_magnitude(env: Environment, term: Expr) -> bool:
    """Whether a term is an absolute value in floating point: 0 or more, or no number."""
    match term:
        case Ref(name):
            inner = _elementwise(env, name)
            return inner is not None and is_magnitude(env, inner)
        case Apply("absolute", _, dtype):
            return dtype.is_float
        case _:
            return False


def _elementwise(env: Environment, name: str) -> Expr | None:
    """The term of a value that is computed element by element; None of any other."""
    placed = env.by_name.get(name)
    statement = env.scop.statements[placed.value] if placed is not None and placed.role == "compute" else None
    if placed is None or not isinstance(statement, Statement) or statement.monoid is not None:
        return None
    return body_term(env, placed, statement, 0) if len(statement.body) == 1 else None


def _is_cut(env: Environment) -> bool:
    """Whether vectors begin where memory has them, so that zeros beside a row are a choice behind each load: of what
    nobody else uses the sum is masked instead.  Weighted sums of 3600 rows of 1111 bfloat16 take 4.9 us on an H100,
    and 9.2 of zeros; rows of 777 over their norm 491 us of what lies beside them, divided as well, 196 of zeros."""
    return bool(dict(env.schedule.parameters).get("frames"))


def _is_used_elsewhere(env: Environment, placed: Placed) -> bool:
    """Whether something that a reduction takes elementwise is computed with anywhere else."""
    taken, left = {placed.name}, list(placed.providers)
    while left:
        name = left.pop()
        statement = env.scop.statements[env.by_name[name].value]
        inner = isinstance(statement, Statement) and statement.monoid is None
        if name not in taken and (env.by_name[name].role == "load" or inner):
            taken.add(name)
            left += env.by_name[name].providers
    others = [p for p in env.schedule.placed if p.name not in taken]
    return any(not taken.isdisjoint({*p.providers} - {placed.name}) for p in others)
