"""A loop over a row cut where the pieces of what it computes begin: each has a loop of its own, which chooses nothing.

for c < ceil((n + m)/16):                     for c < n // 16:      store(y, 16*c + v, load(a, 16*c + v))
    a = load(a, j where j < n)                if n % 16:            the rest of a, masked
    b = load(b, j - n where j >= n)     ->    for c < m // 16:      store(y, n + 16*c + v, load(b, 16*c + v))
    store(y, j, where(j < n, a, b))           if m % 16:            the rest of b, masked

The trips of a piece begin where it does.  What is proved: that the borders stand in this order at all sizes, from the
first element of the row to its end, so that every element is in one part; each condition on the element then holds in
all of a part or in none.  The operations are lowered once, for a part from `START` to before `END`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyfuse import kernel as ir
from polyfuse.affine import ZERO, Affine, digit
from polyfuse.bindings import with_products
from polyfuse.dtypes import bool_
from polyfuse.lower.border import LARGE, masks
from polyfuse.lower.context import END, START, Context
from polyfuse.lower.decide import needed, with_outcomes
from polyfuse.lower.environment import Environment, leaves, summed_over
from polyfuse.lower.fold import folded
from polyfuse.lower.inspect import bound, flatten
from polyfuse.lower.masked import with_leaves
from polyfuse.lower.peel import with_values
from polyfuse.lower.reductions import initialise
from polyfuse.schedule import IN_PIECES, LoopNest, Placed, PlaceEntry, TreeItem
from polyfuse.scop import Statement
from polyfuse.sets import at_least_zero
from polyfuse.terms import Const, Expr, Inside, Leaf, Ref

ELEMENTWISE = (ir.Let, ir.Load, ir.Store, ir.Reduce, ir.Contract, ir.For, ir.If)
"""Operations that do not ask which place of a vector an element has."""

LowerItems = Callable[[Environment, Sequence[TreeItem], tuple[str, ...]], tuple[ir.Op, ...]]


def in_pieces(
    env: Environment, nest: LoopNest, loops: tuple[str, ...], lower_items: LowerItems
) -> list[ir.Op] | None:
    """The loop as one for each part of a row; None where it is none over a row, or the row has one part.  A loop over
    rows, of which nothing is handed on, goes around each part: as many elements of an array follow each other."""
    if IN_PIECES not in dict(env.schedule.parameters):
        return None
    match nest.items:
        case (LoopNest() as inner,) if not env.schedule.reuses and not _carried(env, inner):
            parts = _parts(env, inner, (*loops, nest.digit), lower_items, rows=True)
            extent = env.schedule.digit(nest.digit).extent
            found: list[ir.Op] = [ir.For(nest.digit, extent, tuple(part)) for part in parts]
        case _:
            found = [op for part in _parts(env, nest, loops, lower_items, rows=False) for op in part]
    return found or None


def _parts(
    env: Environment, nest: LoopNest, loops: tuple[str, ...], lower_items: LowerItems, *, rows: bool
) -> list[list[ir.Op]]:
    """The operations of each part of a row; if they are those of one of some `rows`, where there is that row."""
    row = _row(env, nest)
    if row is None:
        return []
    body = lower_items(_of_any_part(env, nest, row), nest.items, (*loops, nest.digit))
    if not all(isinstance(op, ELEMENTWISE) for op in flatten(body)):
        return []
    around = {f"${d.name}" for d in env.schedule.digits if d.kind == "block" or d.name in loops}
    cuts = {c: cut for c in dict.fromkeys(masks(body)) if (cut := row.cut(c, around)) is not None}
    carried, exists = _carried(env, nest), _of_all_stores(body, around) if rows else ()
    inside = replace(env, context=env.context.assuming(at_least_zero(exists)))
    borders = _in_order(inside, row, [cut.at for cut in cuts.values()])
    if len(borders) <= 2:
        return []
    numbers = _numbers(inside, cuts.values(), borders)
    known = _Known(row, cuts, numbers, row.known(inside.context), dict.fromkeys(exists, True))
    found: list[list[ir.Op]] = []
    for k, (first, end) in enumerate(zip(borders, borders[1:], strict=False)):
        part = needed(_with_truths(with_outcomes(body, _Part(known, k)), carried), carried)
        whole = needed(with_outcomes(part, _Whole(known)), carried)
        ops = _trips(row, first, end, whole, part)
        found.append([ir.If(Inside(exists), tuple(ops))] if exists else ops)
    return found


def _with_truths(ops: Sequence[ir.Op], carried: Collection[str]) -> tuple[ir.Op, ...]:
    """The operations with what is true or false in place of its name."""
    assigned = Counter(name for op in flatten(ops) for name in bound(op))
    known: dict[str, Const] = {}

    def leaf(found: Leaf) -> Expr:
        return known.get(found.name, found) if isinstance(found, Ref) else found

    made: list[ir.Op] = []
    for op in ops:
        made += folded([with_leaves(op, leaf)]) if known else [op]
        match made[-1] if made else op:
            case ir.Let(name, Const(dtype=dtype) as value) if dtype == bool_ and assigned[name] == 1:
                known |= {name: value} if name not in carried else {}
            case _:
                pass
    return tuple(made)


def _of_all_stores(ops: Sequence[ir.Op], around: Collection[str]) -> tuple[Affine, ...]:
    """The conditions on what is `around` a loop without which nothing in it is stored."""
    stores = [frozenset(op.where) for op in flatten(ops) if isinstance(op, ir.Store)]
    found = [c for c in next(iter(stores), ()) if all(c in where for where in stores)]
    outer = [c for c in found if all(n in around for n in c.names() if n.startswith("$"))]
    return tuple(sorted(outer, key=str))


def _carried(env: Environment, nest: LoopNest) -> frozenset[str]:
    """The names that trips of a loop hand on."""
    summed = [p for p in _placed(env, nest) if nest.digit in summed_over(env, p)]
    return frozenset(op.name for p in summed for op in initialise(env, p) if isinstance(op, ir.Let))


def _trips(row: _Row, first: Affine, end: Affine, whole: Sequence[ir.Op], masked: Sequence[ir.Op]) -> list[ir.Op]:
    """The whole vectors of a part in a loop, and what is left in one that is masked."""
    count, rest = (end - first) // row.width, (end - first) % row.width
    at = {START_NAME: first, END_NAME: end}
    found: list[ir.Op] = []
    if count == Affine.of(1):
        found += with_values(whole, {**at, f"${row.loop}": ZERO})
    elif count != ZERO:
        found.append(ir.For(row.loop, count, with_values(whole, at)))
    last = with_values(masked, {**at, f"${row.loop}": count})
    if rest.is_constant:
        return [*found, *(last if rest.constant else ())]
    return [*found, ir.If(Inside((rest - 1,)), last)]


# ---------------------------------------------------------------------------------------------- the row
(START_NAME,), (END_NAME,) = START.names(), END.names()


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a condition on the elements of a row changes, and whether it holds from there on, or in front."""

    at: Affine
    behind: bool


@dataclass(frozen=True, slots=True)
class _Row:
    """Elements ``START + width*loop + slot`` of a part of a row of `extent`."""

    loop: str
    slot: str
    width: int
    extent: Affine

    @property
    def trip(self) -> Affine:
        return digit(self.loop) * self.width + digit(self.slot)

    @property
    def element(self) -> Affine:
        return START + self.trip

    def cut(self, condition: Affine, around: Collection[str]) -> _Cut | None:
        """None of a condition on anything inside of the loop but its element."""
        factor = condition.coefficient(START_NAME)
        rest = condition - self.element * factor
        inside = {name for name in rest.names() if name.startswith("$")} - set(around)
        if abs(factor) != 1 or inside:
            return None
        return _Cut(-rest, True) if factor > 0 else _Cut(rest + 1, False)

    def known(self, context: Context) -> Context:
        """What holds of every element, whatever its part."""
        inside = at_least_zero((digit(self.loop), START, self.extent - 1 - self.element))
        return replace(context, loops={**context.loops, f"${self.loop}": inside})


def _row(env: Environment, nest: LoopNest) -> _Row | None:
    """The row that a loop goes along in vectors; None where something in it is no function of the element, or does not
    end where the row does."""
    inside = _placed(env, nest)
    slot = env.slots[-1] if env.slots else None
    if slot is None or len(inside) < len(leaves(nest)):
        return None
    loop, vector = f"${nest.digit}", f"${slot.name}"
    trip = digit(nest.digit) * slot.count + digit(slot.name)
    extents: set[Affine] = set()
    for placed in inside:
        if not all(isinstance(e, str) or _along(e, loop, vector, slot.count) for e in placed.place):
            return None
        if placed.role == "store":
            bounds: Iterable[tuple[PlaceEntry, Affine]] = zip(placed.place, env.scop.shape(placed.value), strict=True)
        elif nest.digit in summed_over(env, placed):
            statement = env.scop.statements[placed.value]
            assert isinstance(statement, Statement)
            bounds = [(placed.place[d], statement.extents[d]) for d in statement.reduced]
        else:
            continue
        ends = [extent for entry, extent in bounds if entry == trip]
        if len(ends) != 1:
            return None
        extents |= set(ends)
    names = {p.name for p in inside}
    outside = {name for p in inside for name in p.providers if name in env.by_name} - names
    if len(extents) != 1 or any(vector in _held(env, env.by_name[name]) for name in outside):
        return None
    return _Row(nest.digit, slot.name, slot.count, extents.pop())


def _held(env: Environment, placed: Placed) -> frozenset[str]:
    """The digits along which registers hold different results."""
    statement = env.scop.statements[placed.value]
    summed = statement.reduced if placed.role == "compute" and isinstance(statement, Statement) else ()
    entries = [e for d, e in enumerate(placed.place) if d not in summed]
    return frozenset(name for e in entries if not isinstance(e, str) for name in e.names())


def _along(entry: PlaceEntry, loop: str, vector: str, width: int) -> bool:
    """Whether an entry depends on the element alone, not on which trip and which slot it is."""
    assert not isinstance(entry, str)
    return loop not in entry.substitute({vector: Affine.symbol(vector) - Affine.symbol(loop) * width}).names()


def _placed(env: Environment, nest: LoopNest) -> list[Placed]:
    return [env.by_name[name] for name in leaves(nest) if name in env.by_name]


def _of_any_part(env: Environment, nest: LoopNest, row: _Row) -> Environment:
    shift = {f"${row.slot}": START + digit(row.slot)}
    moved = {
        p.name: p.moved(tuple([e if isinstance(e, str) else e.substitute(shift) for e in p.place]))
        for p in _placed(env, nest)
    }
    return replace(env, by_name={**env.by_name, **moved}, context=env.context.of_any_part(row.loop, row.element))


# ---------------------------------------------------------------------------------------------- borders
def _in_order(env: Environment, row: _Row, found: Iterable[Affine]) -> list[Affine]:
    """The borders of parts from the beginning of the row to its end, each behind the one in front at all sizes.  What
    is not known to be there is left out: conditions that change there remain."""
    program = env.scop.program
    usual = {name: max(1, program.hints.get(name, LARGE)) for name in program.symbols}
    sizes = {**with_products(usual, program.derived)}
    implies, order = env.context.implies, [ZERO]
    inner = {border for border in found if border not in (ZERO, row.extent)}
    for border in sorted(inner, key=lambda b: (_usually(env, b, sizes), str(b))):
        if implies(border - order[-1]) and implies(row.extent - border):
            order.append(border)
    return [*order, row.extent]


def _usually(env: Environment, border: Affine, sizes: Mapping[str, int]) -> int:
    """About where it is."""
    middle = {f"${d.name}": d.extent.evaluate(sizes) // 2 for d in env.schedule.digits}
    return border.evaluate({**middle, **sizes})


def _numbers(env: Environment, cuts: Iterable[_Cut], borders: Sequence[Affine]) -> Mapping[Affine, int]:
    """The number of the border at which each cut is, or is as good as: one beside the row is at its end."""
    numbers = {border: k for k, border in enumerate(borders)}
    for cut in cuts:
        if cut.at not in numbers and env.context.implies(-cut.at):
            numbers[cut.at] = 0
        elif cut.at not in numbers and env.context.implies(cut.at - borders[-1]):
            numbers[cut.at] = len(borders) - 1
    return numbers


@dataclass(frozen=True, slots=True)
class _Known:
    row: _Row
    cuts: Mapping[Affine, _Cut]
    numbers: Mapping[Affine, int]
    context: Context
    outcomes: dict[Affine, bool | None] = field(default_factory=dict)

    @property
    def exists(self) -> Affine:
        """The condition of an element that there is before the part ends."""
        return END - 1 - self.row.element

    def everywhere(self, condition: Affine) -> bool | None:
        if condition not in self.outcomes:
            self.outcomes[condition] = self.context.outcome(condition)
        return self.outcomes[condition]


@dataclass(frozen=True, slots=True)
class _Part:
    """Conditions in the part behind border `number`."""

    known: _Known
    number: int

    def outcome(self, condition: Affine) -> bool | None:
        known = self.known
        if condition == known.exists:
            return None
        cut = known.cuts.get(condition)
        border = None if cut is None else known.numbers.get(cut.at)
        if cut is None or border is None:
            return known.everywhere(condition)
        return (border <= self.number) == cut.behind


@dataclass(frozen=True, slots=True)
class _Whole:
    """Conditions in vectors that lie in a part as a whole."""

    known: _Known

    def outcome(self, condition: Affine) -> bool | None:
        return True if condition == self.known.exists else None
