"""What a reduction takes in place of padding, all that comes behind it takes, too, where nobody sees padding.

    x = load x[i, j] where j < n, else 0              x = load x[i, j] where j < n, else -inf
    m = max over j of where(j < n, x, -inf)     ->    m = max over j of x
    e = exp(x - m)                                    e = exp(x - m)
    s = sum over j of where(j < n, e, 0)              f = where(j < n, e, 0);  s = sum over j of f
    store y[i, j] = e / s where j < n                 store y[i, j] = f / s where j < n

Else registers hold every element twice, with its padding and without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.inspect import bound, flatten, value_references
from polyfuse.lower.open_ends import Conditions, left_open
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Expr, Inside, Leaf, Ref, rewrite


def with_masked_values(body: tuple[ir.Op, ...], threads: Sequence[Digit]) -> tuple[ir.Op, ...]:
    """The body whose reductions leave what they masked.  `threads`: the digits of the thread index."""
    assigned: dict[str, int] = {}
    for op in flatten(body):
        for name in bound(op):
            assigned[name] = assigned.get(name, 0) + 1
    return _rewritten(body, value_references(body), assigned, threads)


def _rewritten(
    ops: tuple[ir.Op, ...], every: Sequence[Ref], assigned: dict[str, int], threads: Sequence[Digit]
) -> tuple[ir.Op, ...]:
    """One straight line of operations; what it binds and somebody outside uses stays as it is."""
    found = list(ops)
    at = 0
    while at < len(found):
        op = found[at]
        match op:
            case ir.For():
                found[at] = replace(op, body=_rewritten(op.body, every, assigned, threads))
            case ir.If():
                branches = [_rewritten(part, every, assigned, threads) for part in (op.body, op.orelse)]
                found[at] = replace(op, body=branches[0], orelse=branches[1])
            case ir.Reduce(values=(Apply("where", (Inside(where), Ref() as held, Const() as neutral)),)):
                names = _same(found, held.name)
                inner = [r for r in value_references(found) if r.name in names]
                alone = len(inner) == sum(r.name in names for r in every) and all(assigned.get(n) == 1 for n in names)
                loaded = _loaded(found, at, names, where, neutral, threads, every) if alone else None
                if loaded is not None:
                    found[loaded[0]] = loaded[1]
                    found[at] = replace(op, values=(held,))
                elif alone:
                    at += _left(found, at, names, where, threads, every)
            case _:
                pass
        at += 1
    return tuple(found)


def _same(ops: Sequence[ir.Op], name: str) -> frozenset[str]:
    """The names of one value among operations that bind it."""
    names = {name}
    pairs = [(op.name, op.value.name) for op in ops if isinstance(op, ir.Let) and isinstance(op.value, Ref)]
    while more := {b for a, b in pairs if a in names} | {a for a, b in pairs if b in names}:
        if more <= names:
            break
        names |= more
    return frozenset(names)


def _loaded(
    ops: Sequence[ir.Op],
    at: int,
    names: frozenset[str],
    where: tuple[Affine, ...],
    neutral: Const,
    threads: Sequence[Digit],
    every: Sequence[Ref],
) -> tuple[int, ir.Load] | None:
    """The load of a value with the neutral element outside, and its number; None where the value is none of a load that
    masks it alike, or somebody sees the difference.  Vectors that are cut are masked behind all loads."""
    for k, op in enumerate(ops[:at]):
        if isinstance(op, ir.Load) and op.name in names and op.other is not None:
            fits = set(where) <= set(op.where) and op.mask is None and not op.cut and not op.across
            values = {name: frozenset(op.where) for name in names}
            if fits and (op.other == neutral or not _is_seen(ops, k + 1, values, threads, every)):
                return k, replace(op, other=neutral)
    return None


def _is_seen(
    ops: Sequence[ir.Op],
    begin: int,
    unsure: Mapping[str, Conditions],
    threads: Sequence[Digit],
    every: Sequence[Ref],
) -> bool:
    """Whether something that is kept depends on what values are where their conditions do not hold, which operations
    from `begin` on use; or that somebody uses outside of the line, or in front, in another trip of its loop."""
    found = left_open(ops[begin:], unsure, threads)
    if found is None:
        return True
    found -= unsure.keys()
    elsewhere, inside, front = (
        Counter(r.name for r in refs) for refs in (every, value_references(ops), value_references(ops[:begin]))
    )
    return any(elsewhere[name] > inside[name] or front[name] for name in found)


def _left(
    ops: list[ir.Op],
    at: int,
    names: frozenset[str],
    where: tuple[Affine, ...],
    threads: Sequence[Digit],
    every: Sequence[Ref],
) -> int:
    """Bind what the reduction `at` masks, and use it behind; the number of operations that are added.  What it leaves
    out beyond its own condition must not be seen of the reduction either."""
    op = ops[at]
    assert isinstance(op, ir.Reduce)
    (value,) = op.values
    behind = ops[at + 1 :]
    if not any(r.name in names for r in value_references(behind)):
        return 0
    usable = [
        w for w in (_of_loads(ops[:at], where), where)
        if not _is_seen(ops, at, {name: frozenset(w) for name in names}, threads, every)
    ]
    if not usable:
        return 0
    assert isinstance(value, Apply) and isinstance(value.operands[1], Ref)
    kept = Ref(f"{value.operands[1].name}.kept", value.dtype)
    value = replace(value, operands=(Inside(usable[0]), *value.operands[1:]))
    values = dict.fromkeys(names, kept)
    ops[at:] = [ir.Let(kept.name, value), replace(op, values=(kept,)), *(renamed(o, values) for o in behind)]
    return 1


def _of_loads(ops: Sequence[ir.Op], where: tuple[Affine, ...]) -> tuple[Affine, ...]:
    """The condition of a load that asks for `where` and more, as whether there is such a row; else `where`.

    One mask for both: ptxas has few predicates, and with two masks for each element it may load them one by one.  By
    its text 5 of the 48 loads of a softmax over rows of 513 with a row for each batch were on their way at once, 291 us
    on an H100 where 138 are possible; with one mask all 48.
    """
    plain = [op for op in ops if isinstance(op, ir.Load) and op.vector == op.span == 1 and not op.cut]
    wider = [op.where for op in plain if set(where) < set(op.where)]
    return wider[0] if wider else where


def renamed(op: ir.Op, values: dict[str, Ref]) -> ir.Op:
    """An operation that uses other values."""
    return with_leaves(op, lambda leaf: values.get(leaf.name, leaf) if isinstance(leaf, Ref) else leaf)


def with_leaves(op: ir.Op, leaf: Callable[[Leaf], Expr]) -> ir.Op:
    """An operation with every leaf of its terms replaced by ``leaf(leaf)``; references for references."""

    def term(expression: Expr) -> Expr:
        return rewrite(expression, leaf)

    def index(entries: tuple[Affine | Ref, ...]) -> tuple[Affine | Ref, ...]:
        found: list[Affine | Ref] = []
        for entry in entries:
            other = leaf(entry) if isinstance(entry, Ref) else entry
            assert isinstance(other, (Affine, Ref))
            found.append(other)
        return tuple(found)

    match op:
        case ir.Let() | ir.Keep() | ir.Scan():
            return replace(op, value=term(op.value))
        case ir.Store() | ir.AtomicUpdate():
            mask = None if op.mask is None else term(op.mask)
            return replace(op, index=index(op.index), value=term(op.value), mask=mask)
        case ir.Load():
            return replace(op, index=index(op.index), mask=None if op.mask is None else term(op.mask))
        case ir.Reduce() | ir.Combine() | ir.Exchange():
            return replace(op, values=tuple(map(term, op.values)))
        case ir.Contract():
            return replace(op, left=term(op.left), right=term(op.right))
        case ir.For():
            return replace(op, body=tuple(with_leaves(o, leaf) for o in op.body))
        case ir.If():
            body, orelse = (tuple(with_leaves(o, leaf) for o in part) for part in (op.body, op.orelse))
            return replace(op, condition=term(op.condition), body=body, orelse=orelse)
        case _:
            return op
