"""Other forms of a program that may be cheaper once its kernels are known: sums in one pass, in two stages, nested, of
several rows as one, places of scans that all of a row need."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from polyfuse.affine import Affine
from polyfuse.bindings import Layout
from polyfuse.cost.phases import long_totals
from polyfuse.errors import ScheduleError
from polyfuse.grouping.at_once import at_once, comes_near
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.search import Grouping, of_roots
from polyfuse.planning.choose import Choice
from polyfuse.planning.outlook import MARGIN
from polyfuse.planning.program_costs import ProgramCosts, other_form
from polyfuse.planning.proving import proved
from polyfuse.planning.wishes import granted, grouped, keeps_its_form
from polyfuse.rewrites import last_places, split
from polyfuse.rewrites.cascades import cascaded, sites
from polyfuse.rewrites.merged_reductions import ANY_ORDER
from polyfuse.rewrites.nested import nested, nestings
from polyfuse.scalars import CASCADES
from polyfuse.schedule import Placed
from polyfuse.scop import ReadEntry, Scop, Statement
from polyfuse.strategies.frames import WORD
from polyfuse.strategies.situation import LONGEST

fusion_log = logging.getLogger("polyfuse.fusion")

GAIN = 0.9
"""Of the predicted time, above which a program's own sums stay, and where less than a launch is won: prices are not
finer than that (softmax of 512 x 262144 in two passes 401 us, held by clusters 404, predicted 374 and 414), and every
other form of a kernel is one more to compile.  What would wait in shared memory is no simpler than what need not."""
HELD_WELL = 1.4
"""Times what its bytes take that a kernel which holds what it reduces takes at most, where no other form is tried:
moments of columns of 20000 x 80 x 20 float32 in panels take an H100 66 us by price, and 45 in one pass in threads."""
LONG = 10
"""Launches that a program takes at least for which totals of their own are worth a further kernel."""
EVEN = 1e-3
"""Of the price of a program, what tells no form from another."""
LONG_COLUMNS = 15
"""Launches that a kernel takes at least for which rows that begin alike are summed apart, and their sums by a further
one.  On an H200, sums of columns of bfloat16, 16383 x 8191 71 us and 79 in one kernel of single elements, 20001 x 8191
87 and 95, 1000003 x 131 76 and 152; of bytes 185 and 119."""
TORN_COLUMNS = 1.1
"""Times what its bytes take that a kernel does at least before rows of its columns are read several at a time."""
TORN_ROWS = 1.25
"""Times what its bytes take that a kernel does at least before its reductions over outer and inner axes are taken
apart."""
BUSY_COLUMNS = 0.85
"""Of the lanes of columns, the part that has one from which on that is no reason to read several rows as one: sums of
200 MB of float32 take an H200 59.8 us of 77 columns in 96 lanes, 58.0 of 129 in 160 and 55.2 of 261 in 288; as one row
56.7, 55.3 and 56.7."""
BUSY, MOST_ROWS = 0.9, 64
"""Of the lanes of warps that read several rows as one, the part that has something to read; and such rows at most."""
ROUNDS = 4
"""Rounds at least that rows are dealt in: a whole one is a guard of the plan."""
FEW_BLOCKS = 1.8
"""Times what its bytes take that a reduction over several axes takes whose longest one alone is dealt to blocks, from
which on all axes but the outermost one are reduced first: on an H200, the mean over images, rows and columns of what is
cut out of 128 x 64 x 112 x 112 float32, 96 us by its bytes, 3.6 ms before and 120 us so."""
COPY = 1.8
"""Times what its bytes take that a kernel takes at most which does little else than to move them."""
APART = 1.4
"""The same where neighbours are read along what is reduced: of each image by itself windows have them."""
STAGES = 0.97
"""The same for sums in two stages, whose forms read the same (A^T (A x) of 65536 x 4096 on an H200, in one: 279 us,
predicted 272; of 16384 x 16384 in two: 254, predicted 250)."""


def in_one_pass(costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...]) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one that takes sums with what they are relative to, where kernels of the first
    pass more than once over what both reduce; proved where there is one.  What the user steers by name, rounds step by
    step, or wants alike in every batch, stays as it is."""
    scop = costs.scop
    if costs.target.kind == "cpu" or keeps_its_form(costs.options):
        return costs, grouping
    numbers = {s.digest: s.id for s in scop.statements if isinstance(s, Statement)}
    found = [(s, {numbers[r.digest] for r in (*s.firsts, s.total)}) for s in sites(scop.program)]
    if any(values <= kernel.body for _, values in found for kernel in grouping.kernels):
        grouping = proved(costs, grouping)  # how it passes over them says its schedule
    chosen = [s for s, values in found if not any(_holds(costs, kernel, values) for kernel in grouping.kernels)]
    if not chosen:
        return costs, grouping
    if granted(costs.options, grouping.spent) == 0:
        return costs, replace(grouping, unweighed=grouping.unweighed + 1)
    program = cascaded(scop.program, chosen)
    what = f"{len(chosen)} sums in one pass"
    return _cheaper(costs, grouping, other_form(costs, program, layouts), what, GAIN, in_cells=1.0)


def in_one_pass_at_once(costs: ProgramCosts, layouts: tuple[Layout, ...]) -> tuple[ProgramCosts, Grouping] | None:
    """The form above, searched unless it comes near what its bytes take, where partitions that need no search say
    already that it is cheaper; None where a search of the program as it is has to tell."""
    if costs.target.kind == "cpu" or keeps_its_form(costs.options):
        return None
    found = sites(costs.scop.program)
    if not found or granted(costs.options, 0) is not None:
        return None
    as_it_is = at_once(costs)
    if as_it_is is None or comes_near(costs, as_it_is):
        return None
    others = other_form(costs, cascaded(costs.scop.program, found), layouts)
    other, most = at_once(others), _most(costs, as_it_is.time, GAIN)
    if other is None or other.time >= most:
        return None
    try:
        other = proved(others, other.improved() if comes_near(others, other) else grouped(others))
    except ScheduleError:
        return None
    if _time(others, other) >= most:
        return None
    fusion_log.info("%d sums in one pass: %d us, %d without", len(found), other.time // 10**6, as_it_is.time // 10**6)
    others.work += costs.work
    return others, other


def with_places_reduced(
    costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...]
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one in which single elements of scans that are read besides are reductions;
    proved where there are any."""
    if costs.target.kind == "cpu" or keeps_its_form(costs.options):
        return costs, grouping
    found = last_places.sites(costs.scop.program)
    if not found or len(grouping.kernels) == 1:
        return costs, grouping
    if granted(costs.options, grouping.spent) == 0:
        return costs, replace(grouping, unweighed=grouping.unweighed + 1)
    program = last_places.reduced(costs.scop.program, found)
    return _cheaper(costs, grouping, other_form(costs, program, layouts), f"{len(found)} places of scans reduced")


def in_two_stages(
    costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...]
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one in which a second kernel adds up the shares of those sums that would keep
    one block of the first busy for longer than a launch takes; proved."""
    if costs.target.kind == "cpu" or keeps_its_form(costs.options):
        return costs, grouping
    cuts: dict[bytes, split.Cut] = {}
    for choice in [*[costs.choice(k.body, k.roots, k.loads) for k in grouping.kernels], *_in_one(costs, grouping)]:
        cuts |= _cuts(costs, choice)
    return _cheaper_cut(costs, grouping, layouts, cuts, f"{len(cuts)} sums in two stages")


def _in_one(costs: ProgramCosts, grouping: Grouping) -> Iterator[Choice]:
    """Schedules of two long kernels, one behind the other, that read the same array, as one, where that lost by what
    one block takes to add up its shares."""
    outputs = frozenset(costs.scop.outputs)
    long = [k for k in grouping.kernels if k.time > LONG * costs.target.launch * 1e12]
    for one, other in pairwise(long):
        rest = [k for k in grouping.kernels if k not in (one, other)]
        between = any(k.loads & one.roots and k.roots & other.loads for k in rest)
        if between or not one.loads & other.loads:
            continue
        body = one.body | other.body
        wanted = outputs.union(*[k.loads for k in rest])
        choice = costs.choice(body, (one.roots & wanted) | other.roots, (one.loads | other.loads) - body)
        if choice.cost is not None:
            adding = sum(seconds for _, seconds in _long_totals(costs, choice))
            if (choice.cost.seconds - adding) * 1e12 < STAGES * (one.time + other.time):
                yield choice


def _long_totals(costs: ProgramCosts, choice: Choice) -> list[tuple[Placed, float]]:
    if choice.schedule is None or choice.group is None:
        return []
    scop = choice.group.scop
    return long_totals(scop, choice.schedule, costs.target, {**scop.program.hints, **costs.hints})


def by_where_rows_begin(
    costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...]
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one that sums rows which begin alike in memory apart, so that a thread reads
    whole vectors of them; proved."""
    if costs.target.kind == "cpu" or keeps_its_form(costs.options):
        return costs, grouping
    cuts: dict[bytes, split.Cut] = {}
    for kernel in grouping.kernels:
        if kernel.time > LONG_COLUMNS * costs.target.launch * 1e12:
            slow = kernel.time > TORN_COLUMNS * costs.floor(kernel.roots, kernel.loads)
            cuts |= _by_where_they_begin(costs, costs.choice(kernel.body, kernel.roots, kernel.loads), slow)
    what = f"{len(cuts)} sums by where rows begin"
    return _cheaper_cut(costs, grouping, layouts, cuts, what, is_settled=True)


def some_axes_first(
    costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...]
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one that reduces the outer axes of planes before their rows, where these are
    read in parts of sectors: what is reduced first lies in columns of memory; or all axes but the outermost one, where
    these are no single one and blocks would be few; or those from the first one on along which neighbours are read, of
    each image of a batch by itself; proved."""
    if costs.target.kind == "cpu" or keeps_its_form(costs.options):
        return costs, grouping
    found: dict[bytes, tuple[int, ...]] = {}
    for kernel in grouping.kernels:
        least = costs.floor(kernel.roots, _made_of(costs, kernel.loads))
        choice = costs.choice(kernel.body, kernel.roots, kernel.loads)
        if least > LONG_COLUMNS * costs.target.launch * 1e12 and kernel.time > TORN_ROWS * least:
            found |= _outer_axes(costs, choice)
        copies = [k for k in grouping.kernels if k.roots & kernel.loads]  # of what no blocks share
        before = sum([k.time for k in copies if k.time < COPY * costs.floor(k.roots, _made_of(costs, k.loads))])
        few = choice.cost is not None and choice.cost.blocks < costs.target.processors
        if (few or before) and kernel.time + before > max(LONG * costs.target.launch * 1e12, FEW_BLOCKS * least):
            found |= _inner_axes(costs, choice)
        slow = kernel.time > max(LONG * costs.target.launch * 1e12, APART * least)
        if slow and (moved := _first_moved(costs, kernel)) is not None:
            found |= _inner_axes(costs, choice, moved)
    if not found:
        return costs, grouping
    if granted(costs.options, grouping.spent) == 0:
        return costs, replace(grouping, unweighed=grouping.unweighed + 1)
    program = split.outer_first(costs.scop.program, found)
    return _cheaper(costs, grouping, other_form(costs, program, layouts), f"{len(found)} sums of some axes first")


def _cheaper_cut(
    costs: ProgramCosts,
    grouping: Grouping,
    layouts: tuple[Layout, ...],
    cuts: Mapping[bytes, split.Cut],
    what: str,
    is_settled: bool = False,
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one whose sums are cut, if any are: its kernels are those that there are, first
    stages apart, and, unless it `is_settled`, what moves of these win."""
    if not cuts:
        return costs, grouping
    if granted(costs.options, grouping.spent) == 0:
        return costs, replace(grouping, unweighed=grouping.unweighed + 1)
    staged = split.in_two_stages(costs.scop.program, cuts)
    others = other_form(costs, staged.program, layouts)
    known = _staged(costs, grouping, others, staged)
    known = known if known is None or is_settled else known.improved()
    return _cheaper(costs, grouping, others, what, known=known)


def _staged(costs: ProgramCosts, grouping: Grouping, others: ProgramCosts, staged: split.Staged) -> Grouping | None:
    """The same kernels in the other form, first stages in kernels of their own, which store all that does not wait for
    these; None where one of them is illegal."""
    numbers = {s.digest: s.id for s in others.scop.statements if isinstance(s, Statement)}
    waiting = _waiting(others, {numbers[digest] for digest in staged.first.values() if digest in numbers})
    roots, stored = list[frozenset[int]](), set[int]()
    for kernel in grouping.kernels:
        digests = {v: s.digest for v in kernel.body if isinstance(s := costs.scop.statements[v], Statement)}
        first = [staged.first[d] for d in digests.values() if d in staged.first]
        later = [staged.became.get(digests.get(root, b""), b"") for root in kernel.roots]
        if not numbers.keys() >= {*first, *later}:
            return None  # a library's call, or something that the other form has no value of
        values, stages = {numbers[digest] for digest in later}, {numbers[digest] for digest in first}
        if stages:
            stages |= values - waiting
        for stage in (stages, values - stages):
            each = frozenset(stage - stored)
            stored |= each
            roots += [each] if each else []
    return of_roots(others, roots, granted(costs.options, grouping.spent))


def _waiting(costs: ProgramCosts, values: set[int]) -> set[int]:
    """Values that are computed of these."""
    found = set(values)
    for value in range(costs.count):
        if not found.isdisjoint(costs.operands(value)):
            found.add(value)
    return found - values


def in_nested_sums(
    costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...]
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one in which totals are sums of sums along fewer axes that there are; proved
    where that is likely to be cheaper."""
    if costs.target.kind == "cpu" or keeps_its_form(costs.options):
        return costs, grouping
    found = nestings(costs.scop.program)
    if not found or grouping.time < LONG * costs.target.launch * 1e12:
        return costs, grouping
    if granted(costs.options, grouping.spent) == 0:
        return costs, replace(grouping, unweighed=grouping.unweighed + 1)
    program = nested(costs.scop.program, found)
    return _cheaper(costs, grouping, other_form(costs, program, layouts), f"{len(found)} sums of sums")


def _cuts(costs: ProgramCosts, choice: Choice) -> dict[bytes, split.Cut]:
    """Of the sums with many shares, by digest: where the blocks of a schedule begin theirs."""
    if choice.schedule is None or choice.group is None:
        return {}
    schedule, scop, found = choice.schedule, choice.group.scop, dict[bytes, split.Cut]()
    known = {s.digest for s in costs.scop.statements if isinstance(s, Statement)}
    for total, _ in _long_totals(costs, choice):
        statement, along = scop.statements[total.value], schedule.finish_of(total)
        share = next(p for p in schedule.placed if p.value == total.value and p.role == "compute")
        if not isinstance(statement, Statement) or statement.digest not in known or len(statement.dtypes) > 1:
            continue  # states of parts that are not whole are asked for every element
        for dim in statement.reduced:
            entry, axis = share.place[dim], _axis(costs, statement, dim)
            step = entry.coefficient(f"${along}") if isinstance(entry, Affine) else 0
            found |= {statement.digest: split.Cut(axis, step)} if step > 1 and axis is not None else {}
    return found


def _axis(costs: ProgramCosts, statement: Statement, dim: int) -> int | None:
    """The axis of the program's reduction that a dimension of the same with joined dimensions runs along; None where
    that is not known."""
    made = [s for s in costs.scop.statements if isinstance(s, Statement)]
    reduced = next(s.reduced for s in made if s.digest == statement.digest)
    if len(reduced) == len(statement.reduced):
        return sorted(reduced)[sorted(statement.reduced).index(dim)]
    return dim if dim in reduced else None


def _by_where_they_begin(costs: ProgramCosts, choice: Choice, slow: bool) -> dict[bytes, split.Cut]:
    """Of the sums of columns that a schedule reads in elements of less than a word, or, where it is `slow`, in lanes of
    which many have no column, by digest: as many parts as rows that fill vectors and lanes together."""
    schedule, group, found = choice.schedule, choice.group, dict[bytes, split.Cut]()
    if schedule is None or group is None or schedule.strategy != "columns":
        return {}
    scop, hints = group.scop, {**group.scop.program.hints, **costs.hints}
    itemsize = min([scop.dtype(v).itemsize for v in group.loads if len(scop.shape(v)) > 1], default=WORD)
    tile = dict(schedule.parameters)
    span, is_narrow = tile["lanes"] * tile["vector"], itemsize * tile["vector"] < WORD
    known = {s.digest for s in costs.scop.statements if isinstance(s, Statement)}
    width = min(LONGEST, costs.target.vector_bytes // itemsize)
    for statement in group.statements():
        if statement.is_reduction and statement.digest in known and statement.monoid in ANY_ORDER | CASCADES.keys():
            sizes = [extent.evaluate(hints) for extent in statement.extents]
            dim, row = max(statement.reduced, key=sizes.__getitem__), math.prod([sizes[d] for d in statement.kept])
            is_whole = len(statement.reduced) == 1  # no part of what lies behind whole rounds is asked for
            rows, is_idle = _rows_of(row, width, costs.target.warp), row < BUSY_COLUMNS * -(-row // span) * span
            are_many, axis = 1 < rows <= sizes[dim] // ROUNDS, _axis(costs, statement, dim)
            if axis is None or not are_many or not (is_narrow or slow and is_idle):
                continue
            if statement.monoid in ANY_ORDER or is_whole:
                found[statement.digest] = split.Cut(axis, rows, dealt=True)
    return found


def _rows_of(length: int, width: int, warp: int) -> int:
    """How many rows of `length` elements, one behind the other, are whole vectors and keep nearly all lanes of a warp
    busy."""
    if not length:
        return 1
    least, span = width // math.gcd(length, width), width * warp

    def busy(rows: int) -> float:
        return rows * length / (-(-rows * length // span) * span)

    counts = range(least, max(least, MOST_ROWS) + 1, least)
    return next((rows for rows in counts if busy(rows) >= BUSY), max(counts, key=busy))


def _made_of(costs: ProgramCosts, loads: frozenset[int]) -> frozenset[int]:
    """What these values are made of element by element, where that is no more to read: bytes that a kernel of its own
    widens."""
    found, seen, todo = set[int](), set(loads), list(loads)
    while todo:
        value = todo.pop()
        statement = costs.scop.statements[value]
        sources = set[int]()
        if isinstance(statement, Statement) and not statement.is_reduction and statement.scanned is None:
            sources = {read.source for read in statement.reads}
        if sources and sum(map(costs.bytes, sources)) <= costs.bytes(value):
            todo += sources - seen
            seen |= sources
        else:
            found.add(value)
    return frozenset(found)


def _outer_axes(costs: ProgramCosts, choice: Choice) -> dict[bytes, tuple[int, ...]]:
    """Of the reductions of a schedule over axes on both sides of what they keep, by digest: those in front of it."""
    if choice.schedule is None or choice.group is None or choice.schedule.strategy != "planes":
        return {}
    values, found = {s.digest for s in choice.group.statements()}, dict[bytes, tuple[int, ...]]()
    for statement in costs.scop.statements:
        if isinstance(statement, Statement) and statement.is_reduction and statement.digest in values:
            place = _order(costs.scop, statement)
            kept = [d for d in range(len(statement.extents)) if d not in statement.reduced]
            last = max([place.get(d, -1) for d in kept], default=-1)
            outer = tuple(d for d in statement.reduced if place.get(d, last) < last)
            found |= {statement.digest: outer} if outer and len(outer) < len(statement.reduced) else {}
    return found


def _first_moved(costs: ProgramCosts, kernel: KernelGroup) -> int | None:
    """The outermost dimension along which a kernel reads some array at several places; None where there is none."""
    statements = [s for v in kernel.body if isinstance(s := costs.scop.statements[v], Statement)]
    found: list[int] = []
    for value in kernel.loads:
        places = [read.index for statement in statements for read in statement.reads if read.source == value]
        shifts = [set(map(_shift, entries)) for entries in zip(*places, strict=True)]
        found += [q for q, several in enumerate(shifts) if None not in several and len(several) > 1]
    return min(found, default=None)


def _shift(entry: ReadEntry) -> tuple[int, int] | None:
    """What an index adds to a dimension, whichever it is of its statement, and its step; None of others."""
    if not isinstance(entry, Affine) or len(entry.terms) != 1:
        return None
    return entry.constant, entry.terms[0][1]


def _inner_axes(costs: ProgramCosts, choice: Choice, first: int | None = None) -> dict[bytes, tuple[int, ...]]:
    """Of the reductions of a schedule over several axes in front of what they keep, by digest: all but the first; or,
    of those over all axes, the ones from dimension `first` of what they are made of on."""
    strategies = ("columns", "rows") if first is None else ("planes", "rows")
    if choice.schedule is None or choice.group is None or choice.schedule.strategy not in strategies:
        return {}
    values, found = {s.digest for s in choice.group.statements()}, dict[bytes, tuple[int, ...]]()
    for statement in costs.scop.statements:
        if isinstance(statement, Statement) and statement.is_reduction and statement.digest in values:
            place = _order(costs.scop, statement)
            reduced = sorted([d for d in statement.reduced if d in place], key=place.__getitem__)
            inner = reduced[1:] if first is None else [d for d in reduced if place[d] >= first]
            if 0 < len(inner) < len(reduced) == len(statement.reduced):
                found |= {statement.digest: tuple(sorted(inner))}
    return found


def _order(scop: Scop, statement: Statement) -> dict[int, int]:
    """Of the dimensions of a statement, which of those of the array that it is made of each goes along."""
    if not statement.reads:
        return {}
    read = max(statement.reads, key=lambda r: len(r.index))
    names = [entry.names() if isinstance(entry, Affine) else frozenset[str]() for entry in read.index]
    along = {d: k for d in range(len(statement.extents)) for k, found in enumerate(names) if f"%{d}" in found}
    source = scop.statements[read.source]
    if not isinstance(source, Statement) or source.is_reduction or not source.reads:
        return along
    below = _order(scop, source)
    return {d: below[k] for d, k in along.items() if k in below}


def _cheaper(
    costs: ProgramCosts,
    grouping: Grouping,
    others: ProgramCosts,
    what: str,
    gain: float = STAGES,
    in_cells: float = STAGES,
    known: Grouping | None = None,
) -> tuple[ProgramCosts, Grouping]:
    """The other form of a program, proved, where it gains enough; else the one that there is.  `in_cells`: the `gain`
    where that one holds a part of what it passes over in shared memory.  `known`: its kernels, if they need no search.

    The program as it is need not be proved where it takes longer than the other one in any case: what its kernels were
    estimated to take may be too much by the margin with which proposals were left out, and proofs only add to it.
    """
    before = int(grouping.time / MARGIN)
    most = _most(costs, before, gain)
    try:
        other = known or grouped(others, grouping.spent)
        time = other.time
        if time < most:
            other = proved(others, other)
            time = _time(others, other)
        if time >= most:
            grouping = proved(costs, grouping)
            before = _time(costs, grouping)
            most = _most(costs, before, in_cells if _in_cells(costs, grouping) else gain)
            if time < most:  # what is not cheap enough before it is proved is not proved
                other = proved(others, other)
                time = _time(others, other)
    except ScheduleError as error:
        fusion_log.info("not %s: %s", what, error)
        return costs, grouping
    fusion_log.info("%s: %d us, %d without", what, time // 10**6, before // 10**6)
    costs.work = others.work = costs.work + others.work
    spent = grouping.spent + other.spent
    if time < most:
        return others, replace(other, spent=spent)
    return costs, replace(grouping, spent=spent)


def _most(costs: ProgramCosts, before: int, gain: float) -> float:
    """Picoseconds below which another form gains enough."""
    return before - max((1 - gain) * before, costs.target.launch * 1e12 if gain < 1.0 else EVEN * before)


def _in_cells(costs: ProgramCosts, grouping: Grouping) -> bool:
    """Whether a kernel holds a part of what it passes over again in shared memory."""
    schedules = [costs.choice(k.body, k.roots, k.loads).schedule for k in grouping.kernels]
    return any(s is not None and s.cells is not None for s in schedules)


def _time(costs: ProgramCosts, grouping: Grouping) -> int:
    """Picoseconds of the schedules that were proved, which may be dearer than those that the search joined for."""
    chosen = [(k.time, costs.choice(k.body, k.roots, k.loads).cost) for k in grouping.kernels]
    return sum(time if cost is None else cost.picoseconds for time, cost in chosen)


def _holds(costs: ProgramCosts, kernel: KernelGroup, values: set[int]) -> bool:
    """Whether a kernel reads what these reductions take once, and holds it in the registers of one block in between,
    beside which a processor has room for others, so that it takes about what its bytes take."""
    if not values <= kernel.body:
        return False
    choice = costs.choice(kernel.body, kernel.roots, kernel.loads)
    if choice.schedule is None or choice.cost is None:
        return False
    largest = choice.schedule.threads >= costs.target.threads_per_block  # or a cluster of several
    in_registers = not choice.schedule.of_kind("loop") and choice.schedule.cells is None
    by_memory = choice.cost.bound != "compute"  # no other form has less to compute
    slow = by_memory and kernel.time > HELD_WELL * costs.floor(kernel.roots, kernel.loads)
    return in_registers and choice.cost.occupancy > 1 and not largest and not slow
