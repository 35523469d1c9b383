"""What a reduction takes in place of padding, all that comes behind it takes, too, where nobody sees padding.

    x = load x[i, j] where j < n, else 0              x = load x[i, j] where j < n, else -inf
    m = max over j of where(j < n, x, -inf)     ->    m = max over j of x
    e = exp(x - m)                                    e = exp(x - m)
    s = sum over j of where(j < n, e, 0)              f = where(j < n, e, 0);  s = sum over j of f
    store y[i, j] = e / s where j < n                 store y[i, j] = f / s where j < n

Else registers hold every element twice, with its padding and without.  In loops, and where an array is padded, loads
get the neutral element, or what padding is made of, in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.inspect import bound, flatten, value_references
from polyfuse.lower.open_ends import Conditions, is_load_seen, left_open
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Expr, Inside, Leaf, Ref, rewrite


def with_masked_values(body: tuple[ir.Op, ...], threads: Sequence[Digit]) -> tuple[ir.Op, ...]:
    """The body whose reductions leave what they masked.  `threads`: the digits of the thread index."""
    assigned: dict[str, int] = {}
    for op in flatten(body):
        for name in bound(op):
            assigned[name] = assigned.get(name, 0) + 1
    body = _without_second_masks(body, assigned)
    return _with_neutral_loads(_rewritten(body, value_references(body), assigned, threads), assigned, threads)


def _without_second_masks(body: tuple[ir.Op, ...], assigned: Mapping[str, int]) -> tuple[ir.Op, ...]:
    """The body in which what a load leaves out is not left out again, as the zeros around a picture: what it gets there
    is what padding is made of, or may as well be, where padding is all that the load is for."""
    uses = Counter(r.name for r in value_references(body))
    for line in _lines(body):
        loads = {op.name: op for op in line if isinstance(op, ir.Load) and assigned[op.name] == 1}
        made, of = dict(loads), {name: name for name in loads}
        others: dict[int, ir.Op] = {}
        for op in line:
            match op:
                case ir.Let(name, Apply("where", (Inside(where), Ref() as padded, Const() as outside))):
                    first = of.get(padded.name, "")
                    if not first or not _fits(made[first], where):
                        continue
                    if not _are_same(made[first].other, outside):
                        if padded.name != first or uses[first] > 1:
                            continue
                        made[first] = replace(made[first], other=outside)
                    others |= {id(op): replace(op, value=padded), id(loads[first]): made[first]}
                    of |= {name: first} if assigned[name] == 1 else {}
                case _:
                    pass
        body = _replaced(body, others) if others else body
    return body


def _with_neutral_loads(
    body: tuple[ir.Op, ...], assigned: Mapping[str, int], threads: Sequence[Digit]
) -> tuple[ir.Op, ...]:
    """The body in which what a reduction alone takes of a load, and masks, is loaded with its neutral element, where
    nobody sees what becomes of the rest that the load leaves out: of columns that a block lacks.

    A mask that outlives its load keeps a predicate until the element is there.  ptxas has seven, so other loads wait:
    the largest of columns of 64 x 4096 x 1023 took an H200 299 us, 278 so; of 16 x 1000 x 16001 281 and 241.
    """
    uses = Counter(r.name for r in value_references(body))
    for line in _lines(body):
        for k, op in enumerate(line):
            match op:
                case ir.Reduce(values=(Apply("where", (Inside(where), Ref(name) as held, Const() as neutral)),)):
                    load = next((o for o in line[:k] if isinstance(o, ir.Load) and o.name == name), None)
                    if load is None or not _fits(load, where) or assigned[name] > 1 or uses[name] > 1:
                        continue
                    other, rest = replace(load, other=neutral), [c for c in load.where if c not in where]
                    found = _replaced(body, {id(load): other, id(op): replace(op, values=(held,))})
                    if not is_load_seen(found, other, threads, rest):
                        body = found
                case _:
                    pass
    return body


def _lines(ops: tuple[ir.Op, ...]) -> Iterator[tuple[ir.Op, ...]]:
    """Straight lines of operations: a body, and those of its loops and branches."""
    yield ops
    for op in ops:
        if isinstance(op, ir.For | ir.If):
            yield from _lines(op.body)
        if isinstance(op, ir.If):
            yield from _lines(op.orelse)


def _replaced(ops: Sequence[ir.Op], others: Mapping[int, ir.Op]) -> tuple[ir.Op, ...]:
    """The operations with others in place of some, by their identities."""
    found = list[ir.Op]()
    for op in ops:
        if isinstance(op, ir.For):
            op = replace(op, body=_replaced(op.body, others))
        elif isinstance(op, ir.If):
            op = replace(op, body=_replaced(op.body, others), orelse=_replaced(op.orelse, others))
        found.append(others.get(id(op), op))
    return tuple(found)


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
            values = {name: frozenset(op.where) for name in names}
            if _fits(op, where) and (_are_same(op.other, neutral) or not _is_seen(ops, k + 1, values, threads, every)):
                return k, replace(op, other=neutral)
    return None


def _are_same(one: Const | None, other: Const) -> bool:
    """Equality takes -0.0 for 0.0, and no NaN for another."""
    return one is not None and one.dtype == other.dtype and repr(one.value) == repr(other.value)


def _fits(load: ir.Load, where: Sequence[Affine]) -> bool:
    """Whether a load may get another element in place of what it leaves out, which is masked again by `where`."""
    plain = load.mask is None and load.other is not None and not load.cut and not load.across
    return plain and set(where) <= set(load.where)


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
