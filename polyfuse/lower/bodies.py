"""Bodies of statements as expressions of registers."""

from __future__ import annotations

from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.dtypes import DType
from polyfuse.lower.environment import (
    Environment,
    affine_entry,
    component_name,
    held_name,
    reduced_loops,
    result_names,
)
from polyfuse.scalars import SHORT
from polyfuse.schedule import Placed
from polyfuse.scop import Statement
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref, lag_and_component, references, rewrite
from polyfuse.wanted import as_condition


def body_term(env: Environment, placed: Placed, statement: Statement, component: int) -> Expr:
    """The statement's term with reads replaced by the values that hold them, indices by places, in registers."""
    at = {f"%{d}": affine_entry(p) for d, p in enumerate(placed.place)}

    def leaf(term: Ref | Const | Index | Inside) -> Expr:
        match term:
            case Ref(name, dtype) if name.startswith("r"):
                read = statement.reads[int(name[1:])]
                provider = env.by_name[placed.providers[int(name[1:])]]
                held = held_name(env, provider, read.component)
                return Ref(held, dtype.compute)
            case Ref(name, dtype) if name.startswith("b"):
                return carried(env, placed, *lag_and_component(name), dtype.compute)
            case Ref(name, dtype):
                given = Ref(name, env.scalars[name])
                if dtype.compute != dtype:
                    return Ref(name, dtype)  # until the casts that vanish have: see `_rounded_argument`
                return given if given.dtype == dtype else Apply("cast", (given,), dtype)
            case Index(affine, dtype):
                return Index(affine.substitute(at), dtype.compute)
            case Inside(where):
                return Inside(tuple(w.substitute(at) for w in where))
            case Const(value, dtype):
                return Const(value, dtype.compute)

    value = in_registers(rewrite(as_condition(statement.body[component]), leaf))
    value = rewrite(value, lambda term: _rounded_argument(env, term))
    narrow = _narrowed(env, statement, component)
    return value if narrow is None else rewrite(value, lambda term: Apply("cast", (term,), narrow))


def _rounded_argument(env: Environment, term: Ref | Const | Index | Inside) -> Expr:
    """A number that the caller passed where the program has it in 16 bits: no store rounded it, as none rounds a
    literal, and ``x == s`` of float16 compares with what NumPy makes of `s`."""
    if isinstance(term, Ref) and term.dtype.compute != term.dtype:
        return Apply("cast", (Ref(term.name, env.scalars[term.name]),), term.dtype)
    return term


def _narrowed(env: Environment, statement: Statement, component: int) -> DType | None:
    """The 16-bit dtype that a cast widens again what the program has cast to it: ``x - x.astype(f16).astype(f32)`` asks
    for that rounding, and no store does it."""
    match statement.body[component]:
        case Apply("cast", (Ref(name, dtype),)) if name.startswith("r") and dtype.compute != dtype:
            read = statement.reads[int(name[1:])]
        case _:
            return None
    source = env.scop.statements[read.source]
    if not isinstance(source, Statement) or source.monoid is not None or source.digest in env.scop.program.inner:
        return None
    match source.body[read.component]:
        case Apply("cast", (operand,)) if not isinstance(operand, Inside) and operand.dtype.compute == operand.dtype:
            return dtype
    return None


def carried(env: Environment, placed: Placed, lag: int, component: int, dtype: DType) -> Ref | Const:
    """The value that a recurrence had so many trips before; a single element has none, and asks for none."""
    if not reduced_loops(env, placed):
        return Const(False if dtype.kind == "b" else 0, dtype)
    return Ref(carry_name(env, placed, lag, component), dtype)


def carry_name(env: Environment, placed: Placed, lag: int, component: int) -> str:
    name = component_name(env, placed.name, component)
    return f"{name}.carry" if lag == 1 else f"{name}.carry{lag}"


def carries(statement: Statement) -> list[tuple[int, int]]:
    """The values that a recurrence hands on, lag and component: those that its steps read, and what becomes them."""
    read = [lag_and_component(r.name) for term in statement.body for r in references(term) if r.name.startswith("b")]
    most = {c: max(lag for lag, of in read if of == c) for _, c in read}
    return [(lag, c) for c in sorted(most) for lag in range(1, most[c] + 1)]


def rounded(env: Environment, statement: Statement, value: Expr, component: int = 0) -> Expr:
    """The result of a statement as storing it would leave it, where 16-bit floats round behind every operation.  What
    lies inside one operation of the user's is not stored without fusion either; it rounds with the others where bits
    must not depend on what shares a kernel."""
    dtype = statement.dtypes[component]
    if not env.rounds or dtype.compute == dtype or statement.digest in env.wide:
        return value
    return Apply("cast", (value,), dtype)


def rounded_results(env: Environment, placed: Placed) -> list[ir.Op]:
    """Rounds what a reduction holds once it is whole; the share that a block leaves to others is not, and each part of
    a prefix is rounded where it is made."""
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement)
    if statement.scanned is not None or any(g.reduction == placed.name for g in env.schedule.grid_combine):
        return []
    held = [Ref(n, d.compute) for n, d in zip(result_names(env, placed), statement.dtypes, strict=True)]
    values = [(ref, rounded(env, statement, ref, k)) for k, ref in enumerate(held)]
    return [ir.Let(ref.name, value) for ref, value in values if value is not ref]


def in_registers(term: Expr) -> Expr:
    """16-bit floats widen: casts to them vanish and everything computes in float32, as exactly as 16 bits can show."""
    if not isinstance(term, Apply):
        return term
    operands = tuple(in_registers(o) for o in term.operands)
    inner = operands[0]
    if term.function == "cast" and not isinstance(inner, Inside) and inner.dtype.compute == term.dtype.compute:
        return inner
    function = SHORT.get(term.dtype.name, {}).get(term.function, term.function)
    return replace(term, function=function, operands=operands, dtype=term.dtype.compute)
