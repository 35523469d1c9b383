"""Which values wait in shared memory while threads combine, where a proposal keeps a part of each there.

    x = load; m = max(x); d = x - m; e = exp(d); s = sum(e); y = e / s      x waits for m, e waits for s: one at a time
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from polyfuse.affine import Affine
from polyfuse.dtypes import DType
from polyfuse.places.exponentials import taken_exponentials
from polyfuse.places.narrow_cells import is_narrow
from polyfuse.places.order import stages
from polyfuse.places.proposal import Group
from polyfuse.places.refused import Refused
from polyfuse.scalars import CASCADES
from polyfuse.schedule import Cells, Digit, KernelSchedule, Placed, TreeItem
from polyfuse.scop import Scop, Statement
from polyfuse.terms import Apply, Expr, Ref
from polyfuse.verdict import Hazard, illegal

PIECE = 16
"""Words of a thread's value in one piece, where more than what is held is loaded for every element, or where elements
that come in pairs are words once they are computed with.  Layernorm with gain and bias has 32 words of a row in
registers and 32 in cells.  On an H200, of 512 x 262144: 411 us whole, in 128 registers, 368 in pieces of 16 words, in
64 registers, 489 in pieces of 8, which spill; of 4096 x 32768: 334, 297, 297.  By ptxas 184 bytes of a thread are
spilled whole, and none in pieces, of 16 x 21 x 512 x 512 bfloat16 times what their means make of them.
"""


def waiting_in_cells(
    group: Group, placed: Sequence[Placed], digits: Collection[Digit], wanted: tuple[str, int] | None
) -> Cells | None:
    """The cells that a proposal asks for, with the values that they are for: those that are read behind a combination
    that they were there before, or that a cascade takes, which combines twice."""
    if wanted is None:
        return None
    slot, first = wanted
    if mixed := results_along(group.scop, placed, slot):
        sentence = f"{mixed} has results along {slot}, which threads cannot combine in two parts"
        raise Refused(illegal(Hazard.CAPACITY, sentence, rule="executed"))
    stage = stages(placed, frozenset(s.id for s in group.statements() if s.is_reduction))
    read: dict[str, set[int]] = {}  # behind how many combinations
    by_name = {p.name: p for p in placed}
    for reader in placed:
        for provider in reader.providers:
            held = _without_casts(group, by_name, provider)
            read.setdefault(held, set()).add(_until(group, by_name, reader.name, stage))
    spans = {
        name: (stage[name], max(times))
        for name, times in read.items()
        if slot in by_name[name].digits() and stage[name] < max(times) and not _is_sum(group, by_name[name])
    }
    for name, start in _taken_early(group, placed, by_name, digits, stage).items():
        spans[name] = start, max(read.get(name, {start + 1}))
    moments = {k for start, until in spans.values() for k in range(start, until)}
    during = [[name for name, (start, until) in spans.items() if start <= k < until] for k in sorted(moments)]
    kinds = tuple(_kinds(group.scop, by_name, digits, during))
    moves = sum(1 + len(read[name] - {start}) for name, (start, _) in spans.items())
    moves += sum(AGAIN[monoid] for p in placed if (monoid := _cascade(group, p)))
    piece = _piece(group.scop, placed, digits, slot, stage)
    return Cells(slot, first, tuple(sorted(spans)), kinds, moves, piece)


def _taken_early(
    group: Group,
    placed: Sequence[Placed],
    by_name: dict[str, Placed],
    digits: Collection[Digit],
    stage: dict[str, int],
) -> dict[str, int]:
    """The exponentials that a cascade takes in its first round beside what it takes them of, where that is needed
    behind it as well: after how many combinations.  Others take the place of their operands."""
    taken = taken_exponentials(group.scop, placed, {d.name for d in digits if d.kind == "loop"})
    found: dict[str, int] = {}
    for name, total in taken.items():
        operand = _without_casts(group, by_name, by_name[total].providers[0])
        differences = {_without_casts(group, by_name, provider) for provider in by_name[name].providers}
        readers = [p for p in placed if operand in {_without_casts(group, by_name, q) for q in p.providers}]
        later = [p for p in readers if p.name not in (total, *differences) and stage.get(p.name, 0) > stage[total]]
        if later:
            found[name] = stage[total]
    return found


def _kinds(
    scop: Scop, by_name: dict[str, Placed], digits: Collection[Digit], during: Sequence[Sequence[str]]
) -> list[str]:
    """A value of each of the cells that some need at several moments: of one type and the same slots, one cell serves
    one value after the other."""
    slots = {d.name for d in digits if d.kind == "slot"}
    found: dict[tuple[DType, frozenset[str]], list[str]] = {}
    for names in during:
        alike: dict[tuple[DType, frozenset[str]], list[str]] = {}
        for name in names:
            placed = by_name[name]
            dtype = scop.dtype(placed.value, placed.component).compute
            alike.setdefault((dtype, placed.digits() & slots), []).append(name)
        found |= {kind: values for kind, values in alike.items() if len(values) > len(found.get(kind, ()))}
    return [name for values in found.values() for name in values]


def is_waited_for_longer(group: Group, schedule: KernelSchedule, order: Sequence[TreeItem]) -> bool:
    """Whether more values than the cells of a schedule are for wait in them, where statements come in this order."""
    cells = schedule.cells
    if cells is None:
        return False
    by_name = dict(schedule.by_name())
    at = {item: k for k, item in enumerate(order) if isinstance(item, str)}
    until: dict[str, int] = {}
    for reader in at:
        for provider in by_name[reader].providers:
            held = _without_casts(group, by_name, provider)
            behind = at[reader] + bool(_cascade(group, by_name[reader]))
            until[held] = max(until.get(held, 0), behind)
    taken = _taken_early(group, schedule.placed, by_name, schedule.digits, at)
    at |= {name: place - 1 for name, place in taken.items()}  # in front of where threads meet for the sum of all
    sums = {name for name in at if _is_sum(group, by_name[name])}
    along = [name for name in until if name in at and name not in sums and cells.slot in by_name[name].digits()]
    meetings = {_meeting(group, by_name, order, at[name]) for name in sums}
    waiting = [name for name in along if any(at[name] < k < until[name] for k in meetings)]
    during = [[name for name in waiting if at[name] <= at[other] < until[name]] for other in waiting]
    found = _kinds(group.scop, by_name, schedule.digits, during)  # each is put where it is made
    return _bytes(group.scop, by_name, found) > _bytes(group.scop, by_name, cells.kinds)


def _bytes(scop: Scop, by_name: Mapping[str, Placed], kinds: Sequence[str]) -> int:
    """Of one element of each of some cells."""
    return sum([scop.dtype(by_name[n].value, by_name[n].component).compute.itemsize for n in kinds])


def _meeting(group: Group, by_name: dict[str, Placed], order: Sequence[TreeItem], at: int) -> int:
    """Where in the order threads combine what the sum `at` has: behind the sums that follow and need none of those
    before (`polyfuse.lower.cells`)."""
    met, last = set[str](), at
    for k, name in enumerate(order[at:], at):
        placed = by_name.get(name) if isinstance(name, str) else None
        if placed is None or placed.role not in ("load", "compute") or not met.isdisjoint(placed.providers):
            break
        if _is_sum(group, placed):
            met, last = {*met, placed.name}, k
        if _cascade(group, placed):
            break
    return last


def _piece(
    scop: Scop, placed: Sequence[Placed], digits: Collection[Digit], slot: str, stage: dict[str, int]
) -> int:
    """Places of the slot in one piece: of `PIECE` words where more is held than waits, which needs registers beside;
    else 0."""
    along = [p for p in placed if slot in p.digits() and p.role in ("load", "compute")]
    loads = [p for p in along if p.role == "load"]
    if not any(stage[p.name] or is_narrow(scop.dtype(p.value, p.component)) for p in loads):
        return 0
    slots = {d.name: d.count for d in digits if d.kind == "slot" and d.name != slot}
    words = [max(1, scop.dtype(p.value, p.component).compute.itemsize // 4) for p in along]
    each = [w * prod(slots.get(name, 1) for name in p.digits()) for w, p in zip(words, along, strict=True)]
    return max(1, PIECE // max(each))


AGAIN = {name: cascade.means or 2 for name, cascade in CASCADES.items()}
"""Moves of what a cascade takes, in its second round: exponentials are put and got again, elements got again."""


def _until(group: Group, by_name: dict[str, Placed], reader: str, stage: dict[str, int]) -> int:
    return stage[reader] + bool(_cascade(group, by_name[reader]))


def _cascade(group: Group, placed: Placed) -> str:
    """The monoid of a cascade; empty for other statements."""
    statement = group.scop.statements[placed.value]
    is_one = placed.role == "compute" and isinstance(statement, Statement) and statement.monoid in CASCADES
    return statement.monoid or "" if is_one and isinstance(statement, Statement) else ""


def results_along(scop: Scop, placed: Sequence[Placed], slot: str) -> str:
    """The name of a reduction that has a result for every place of a slot; empty where there is none."""
    for p in placed:
        statement = scop.statements[p.value]
        if p.role == "compute" and isinstance(statement, Statement) and statement.monoid is not None:
            kept = [p.place[d] for d in statement.kept]
            if any(f"${slot}" in e.names() for e in kept if isinstance(e, Affine)):
                return statement.name
    return ""


def _is_sum(group: Group, placed: Placed) -> bool:
    statement = group.scop.statements[placed.value]
    return placed.role == "compute" and isinstance(statement, Statement) and statement.is_reduction


def _without_casts(group: Group, by_name: dict[str, Placed], name: str) -> str:
    """The value behind casts that change nothing in registers."""
    placed = by_name[name]
    statement = group.scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or statement.monoid is not None:
        return name
    return _without_casts(group, by_name, placed.providers[0]) if is_renaming(statement.body[0]) else name


def is_renaming(term: Expr) -> bool:
    """Whether a term is a cast between types that are one in registers."""
    if not isinstance(term, Apply) or term.function != "cast":
        return False
    (inner,) = term.operands
    return isinstance(inner, Ref) and inner.dtype.compute == term.dtype.compute
