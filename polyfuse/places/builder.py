"""Demand-driven placing: a value is computed where its consumers need it.

Walking from the roots to the loads, every statement receives the places at which its value is needed: the consumer's
place composed with the access relation.  Equal needs share one placed statement (a register read once); different needs
give several (recompute), unless the proposal stages the value in shared memory, where one placed statement writes a box
that holds all of them.  Halos, dead instances and replicated scalars follow; none is a special case.

Where a proposal deals what a reduction sums over to blocks, each block stores its share of the sum, and the consumers
run in the block that arrives last, on the total of all shares; or each block merges its share into the result.

    y[i] = e[i-1] + e[i+1],  y at i = 256*b + t
 -> e at i = 256*b + t - 1   and   e at i = 256*b + t + 1          (recomputed)
 or e put into shared box [256*b - 1, 258), got at -1 and +1       (staged)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError

from polyfuse.affine import Affine
from polyfuse.banks import WORD
from polyfuse.dependences import known_sizes
from polyfuse.expr import DataIndex
from polyfuse.places.admissible import (
    check_carried,
    check_elected,
    check_finish,
    check_reached,
    check_reduction,
    check_scan,
    check_shares,
)
from polyfuse.places.boxes import (
    Unbounded,
    deal_along,
    enclosing_box,
    only_slots,
    without_floors,
)
from polyfuse.places.cells import is_waited_for_longer, waiting_in_cells
from polyfuse.places.copied import copied_box, copied_pitch
from polyfuse.places.grid import dealt, dealt_over, finished_in, is_share_slot
from polyfuse.places.order import in_step, order_tree, with_barriers
from polyfuse.places.passes import Path, passes_of
from polyfuse.places.pitches import narrow_pitch, odd_pitch, padded_pitch, plain_pitch, short_rows_pitch
from polyfuse.places.proposal import Group, Proposal, Staging
from polyfuse.places.refused import Refused as Refused
from polyfuse.places.threads import refine_threads
from polyfuse.places.windows import MOST_REGISTERS, is_slot_of_window, is_window_slot, window_place, windows
from polyfuse.schedule import Digit, GridCombine, GridScan, KernelSchedule, Placed, PlaceEntry, SharedBox
from polyfuse.scop import Read, ReadEntry, Statement
from polyfuse.unravelled import Unravelled
from polyfuse.verdict import Hazard, illegal, unprofitable

Access = tuple[tuple[Affine, ...], tuple[ReadEntry, ...]]
"""Where a read is made, and what of its source it takes."""

COPIES, ALWAYS = 16, 256
"""A group may compute COPIES placed statements per statement, and ALWAYS more: each is a line of code to compile.  Ten
stencil steps, fifty statements, would be 3,350.  Loads do not count: a statement on its own, placed once, always fits.
"""


@dataclass(slots=True)
class _Need:
    """A consumer (a placed statement under construction) wants component `component` of a value at a place."""

    place: tuple[PlaceEntry, ...]
    path: Path  # of the consumer
    component: int
    consumer: str
    slot: int


@dataclass(slots=True)
class _Draft:
    placed: Placed
    providers: list[str]


def build_schedule(name: str, group: Group, proposal: Proposal) -> KernelSchedule:
    """The placed statements and their order.  Raises Refused."""
    return in_order(draft_schedule(name, group, proposal), group, proposal)


def in_order(draft: KernelSchedule, group: Group, proposal: Proposal) -> KernelSchedule:
    """A draft with its order tree.  Raises Refused."""
    collective = frozenset(s.id for s in group.statements() if s.is_reduction or s.scanned is not None)
    try:
        tree = order_tree(draft.placed, collective, proposal.combines)
        if is_waited_for_longer(group, draft, tree):
            tree = order_tree(draft.placed, collective, proposal.combines, waiting=True)
            if is_waited_for_longer(group, draft, tree):
                sentence = "more values wait in shared memory at the same time than it has cells for"
                raise Refused(illegal(Hazard.CAPACITY, sentence, rule="executed"))
        order = with_barriers(tree, draft.placed)
        order = in_step(order, frozenset(proposal.in_step))
    except CycleError:
        sentence = f"no order of the loops of {draft.name} respects every dependence"
        raise Refused(illegal(Hazard.RAW, sentence)) from None
    return replace(draft, order=order)


def draft_schedule(name: str, group: Group, proposal: Proposal) -> KernelSchedule:
    """The placed statements, in no order: all that a price depends on.  Raises Refused."""
    builder = _Builder(group, proposal)
    builder.run()
    placed = tuple([builder.finished(d) for d in builder.drafts.values()])
    cut = proposal.border or "frames" in dict(proposal.parameters)
    digits = tuple(sorted(builder.digits.values(), key=_slots_of_ends if cut else _slot_order))
    if any(box.copied for box in builder.boxes):  # the slots of results, which ends of rows cut, behind those of copies
        dealt = {d.name for d in proposal.digits}
        digits = tuple(sorted(digits, key=lambda d: d.kind == "slot" and d.name in dealt))
    digits, placed, boxes = refine_threads(digits, placed, tuple(builder.boxes))
    return KernelSchedule(
        name=name,
        strategy=proposal.strategy,
        parameters=proposal.parameters,
        body=tuple(sorted(group.body)),
        roots=tuple(sorted(group.roots)),
        loads=tuple(sorted(group.loads)),
        digits=digits,
        placed=placed,
        order=(),
        shared=boxes,
        grid_combine=tuple(builder.grid_combine),
        grid_scans=tuple(builder.grid_scans),
        guards=proposal.guards,
        minimum_blocks=proposal.minimum_blocks,
        cluster=proposal.cluster,
        border=proposal.border,
        ahead=proposal.ahead,
        rings=proposal.rings,
        cells=waiting_in_cells(group, placed, digits, proposal.cells),
    )


def _slot_order(digit: Digit) -> tuple[int, str]:
    """Digits of windows come after others, by dimension, and the slots of a vector last: what counts the elements of a
    window in C order lies side by side."""
    if digit.kind != "slot" or not is_slot_of_window(digit.name):
        return 0, ""
    return (1, digit.name) if is_window_slot(digit.name) else (2, "")


def _slots_of_ends(digit: Digit) -> tuple[int, str]:
    """The same, what counts shares of blocks before all: the slots of a vector that the end of an array cuts are last.
    """
    return (-1, "") if digit.kind == "slot" and is_share_slot(digit.name) else _slot_order(digit)


def _running(group: Group) -> frozenset[int]:
    """Prefixes that a kernel computes, and what it makes of them: they are there at every place of a row or at none."""
    found = set[int]()
    for statement in group.statements():
        if statement.scanned is not None or any(read.source in found for read in statement.reads):
            found.add(statement.id)
    return frozenset(found)


class _Builder:
    def __init__(self, group: Group, proposal: Proposal) -> None:
        self.group, self.proposal, self.scop = group, proposal, group.scop
        self.digits: dict[str, Digit] = {d.name: d for d in proposal.digits}
        self.needs: dict[int, list[_Need]] = defaultdict(list)
        self.drafts: dict[str, _Draft] = {}
        arguments = enumerate(self.scop.program.arguments)
        self.scalars = frozenset(f"s{k}" for k, argument in arguments if argument.is_scalar)  # parameters of kernels
        self.copies: dict[str, int] = {}  # per name, the last number that made it unique
        self.computed = 0  # placed statements that compute
        self.boxes: list[SharedBox] = []
        self.grid_combine: list[GridCombine] = []
        self.grid_scans: list[GridScan] = []
        self.over_blocks = dealt_over(group, proposal)
        self.finish = finished_in(group, self.over_blocks)
        self.threads = max([d.stride * d.count for d in proposal.digits if d.kind == "thread"], default=1)
        self.collective = {s.id for s in group.statements() if s.monoid is not None}
        self.window_slots = set(proposal.windows.slots)
        self.decided: dict[tuple[Affine, ...], dict[str, int]] = {}  # slots by the conditions that settle them
        self.running = _running(group)
        self.demanded: dict[tuple[Affine, ...], dict[Access, tuple[PlaceEntry, ...]]] = {}  # by the consumer's place:
        # versions of an array that is written piece by piece read the same pieces
        self.passes = passes_of(group, proposal)
        program = group.scop.program
        self.sizes = known_sizes(program, proposal.guards)

    def run(self) -> None:
        for root in sorted(self.group.roots, reverse=True):
            self._store(root)
        for value in sorted(self.group.body | self.group.loads, reverse=True):
            if value in self.needs:
                self._serve(value)

    # ---------------------------------------------------------------- roots
    def _store(self, root: int) -> None:
        statement = self.scop.statements[root]
        assert isinstance(statement, Statement)
        place = tuple(self._anchor(statement, d) for d in statement.kept)
        if self.proposal.atomic and root in self.over_blocks:
            self._merge(statement, place)
            return
        if finish := self.over_blocks.get(root) or self.finish[root]:
            moved = (self.proposal.finished.get((root, d)) for d in statement.kept)
            place = tuple(old if new is None else new for old, new in zip(place, moved, strict=True))
            check_elected(statement, place, finish)
        check_reached(statement, place, self.digits, self.sizes)
        path = (*([(finish, 0)] if finish else []), *self.passes.finished(statement, place))
        for component in range(len(statement.dtypes)):
            suffix = f"_{component}" if component else ""
            name = self._fresh(f"store_{statement.name}{suffix}")
            self.drafts[name] = _Draft(Placed(name, "store", root, place, path, component=component), [""])
            self.needs[root].append(_Need(place, path, component, name, 0))

    def _merge(self, statement: Statement, place: tuple[Affine, ...]) -> None:
        """Every block updates the result with its share."""
        name, path = self._fresh(f"merge_{statement.name}"), self.passes.finished(statement, place)
        self.drafts[name] = _Draft(Placed(name, "atomic", statement.id, place, path), [""])
        self.needs[statement.id].append(_Need(place, path, 0, name, 0))

    def _anchor(self, statement: Statement, dim: int) -> Affine:
        found = self.proposal.anchors.get((statement.id, dim))
        if found is None:
            raise Refused(
                illegal(Hazard.COVERAGE, f"the proposal gives no place to dimension {dim} of {statement.name}")
            )
        return found

    # ---------------------------------------------------------------- serving needs
    def _serve(self, value: int) -> None:
        staging = self.proposal.staging.get(value)
        needs = self.needs[value]
        if staging is not None:
            needs = self._stage(value, needs, staging)
        if value in self.over_blocks and self.proposal.atomic:
            self._check_merged(value, needs)
        elif value in self.over_blocks:
            needs = self._total(value, needs)
        if value in self.proposal.windows.vectors and value not in self.collective:
            needs = self._windowed(value, needs)
        shared: dict[tuple[tuple[PlaceEntry, ...], Path, int], list[_Need]] = defaultdict(list)
        for need in needs:
            component = need.component if value in self.group.loads else -1
            shared[(need.place, self.passes.around(need.place, need.path), component)].append(need)
        if value in self.group.body:
            self._check_copies(len(shared))
        for (_, path, _), same in shared.items():
            if value in self.group.loads:
                self._load(value, same, path)
            else:
                self._compute(value, same)

    def _check_copies(self, more: int) -> None:
        """A matter of price, not of legality: the values stay in kernels of their own."""
        self.computed += more
        limit = COPIES * len(self.group.body) + ALWAYS
        if self.computed > limit:
            sentence = f"recomputation places more than {limit} statements for {len(self.group.body)} values"
            raise Refused(unprofitable(sentence, placed=self.computed, limit=limit))

    def _load(self, value: int, needs: list[_Need], path: Path) -> None:
        first = needs[0]
        name = self._fresh(self.scop.statements[value].name)
        self.drafts[name] = _Draft(Placed(name, "load", value, first.place, path, component=first.component), [])
        self._provide(needs, name)

    def _compute(self, value: int, needs: list[_Need]) -> None:
        statement = self.scop.statements[value]
        assert isinstance(statement, Statement)
        first = needs[0]
        kept = dict(zip(statement.kept, first.place, strict=True))
        place: list[Affine] = []
        for dim in range(len(statement.extents)):
            entry = kept[dim] if dim in kept else self._anchor(statement, dim)
            if not isinstance(entry, Affine):
                raise Refused(
                    illegal(
                        Hazard.SCOPE,
                        f"{statement.name} is read at positions that are data: it must be stored before it is gathered",
                        rule="gather",
                    )
                )
            place.append(entry)
        check_reduction(statement, place, self.passes.loops)
        check_scan(statement, place, self.digits, self.proposal.in_order)
        summed = frozenset().union(*(place[d].steps() for d in statement.reduced)) if statement.reduced else frozenset()
        path = (*self.passes.around(first.place, first.path), *self.passes.summing(value, summed))
        check_carried(statement, place, path)
        over_blocks = self.over_blocks.get(value)
        name = self._fresh(f"{statement.name}_share" if over_blocks else statement.name)
        if over_blocks:
            self.grid_combine.append(GridCombine(name, over_blocks))
        if statement.scanned is not None:
            along = sorted(d for d in self.proposal.in_order if f"${d}" in place[statement.scanned].names())
            self.grid_scans += [GridScan(name, d, *self.proposal.in_order[d]) for d in along]
        draft = Placed(name, "compute", value, tuple(place), path)
        self.drafts[name] = _Draft(draft, [""] * len(statement.reads))
        self._provide(needs, name)
        self._demand(statement, name, tuple(place), path)

    def _demand(self, statement: Statement, name: str, place: tuple[Affine, ...], path: Path) -> None:
        known = self.demanded.setdefault(place, {})
        at = {f"%{d}": p for d, p in enumerate(place)}
        for k, read in enumerate(statement.reads):
            entries = known.get((read.where, read.index))
            if entries is None:
                entries = self._entries(read, name, at)
                if read.affine:
                    known[read.where, read.index] = entries
            self.needs[read.source].append(_Need(entries, path, read.component, name, k))

    def _entries(self, read: Read, name: str, at: Mapping[str, Affine]) -> tuple[PlaceEntry, ...]:
        """Where the statement `name`, whose dimensions are `at` these places, needs what it reads."""
        where = at
        if not read.where or read.source in self.running:
            decided = dict[str, int]()
        else:
            decided = self._decided(tuple([w.substitute(at) for w in read.where]))
        if decided:
            where = {dimension: entry.substitute(decided) for dimension, entry in at.items()}
        found: list[PlaceEntry] = []
        for entry in read.index:
            match entry:
                case DataIndex():
                    found.append(f"{name}?{entry.operand}")
                case Unravelled():
                    found.append(entry.substitute(where))
                case _:
                    found.append(without_floors(entry.substitute(where), self.digits))
        return tuple(found)

    def _decided(self, conditions: tuple[Affine, ...]) -> dict[str, int]:
        """The slots that conditions settle: nothing is computed elsewhere.  Reads of one region share them."""
        found = self.decided.get(conditions)
        if found is None:
            found = self.decided[conditions] = only_slots(conditions, self.digits)
        return found

    def _provide(self, needs: list[_Need], provider: str) -> None:
        for need in needs:
            self.drafts[need.consumer].providers[need.slot] = provider

    # ---------------------------------------------------------------- grid scope
    def _total(self, value: int, needs: list[_Need]) -> list[_Need]:
        """Shares are stored by every block, and added up where they are needed; the stores are needs of the shares."""
        statement = self.scop.statements[value]
        assert isinstance(statement, Statement)
        digit = self.over_blocks[value]
        number, loop = dealt(digit, self.proposal, self.digits)
        by_place: dict[tuple[tuple[PlaceEntry, ...], Path], list[_Need]] = defaultdict(list)
        for need in needs:
            check_finish(statement, digit, need.place)
            by_place[(need.place, self.passes.around(need.place, need.path))].append(need)
        place = tuple(self._anchor(statement, d) for d in statement.kept)
        check_finish(statement, digit, place)
        check_shares(statement, digit, place, self.digits)
        components = range(len(statement.dtypes))
        stores = [self._fresh(f"share_{statement.name}" + (f"_{k}" if k else "")) for k in components]
        for (at, path), same in by_place.items():
            name = self._fresh(statement.name)
            inner = (*path, (loop, 0)) if loop else path
            self.drafts[name] = _Draft(Placed(name, "total", value, (number, *at), inner), list(stores))
            self._provide(same, name)
        path = self.passes.finished(statement, place)
        for k, name in enumerate(stores):
            self.drafts[name] = _Draft(Placed(name, "partial", value, place, path, component=k), [""])
        return [_Need(place, path, k, name, 0) for k, name in enumerate(stores)]

    def _check_merged(self, value: int, needs: list[_Need]) -> None:
        """No block of the kernel knows when the last share is in."""
        for need in needs:
            if self.drafts[need.consumer].placed.role != "atomic":
                name = self.scop.statements[value].name
                sentence = f"{need.consumer} needs {name}, which is whole only when all blocks have merged their shares"
                raise Refused(illegal(Hazard.SCOPE, sentence, rule="atomic"))

    # ---------------------------------------------------------------- shared memory
    def _stage(self, value: int, needs: list[_Need], staging: Staging) -> list[_Need]:
        """One `put` writes the box that all staged needs lie in; each of them becomes a `get`; the put is a need."""
        spared = [n for n in needs if staging.unless and _runs_along(n.place, staging.unless)]
        spared += [n for n in needs if n not in spared and self.drafts[n.consumer].placed.value in staging.apart]
        staged = [n for n in needs if n not in spared]
        if not staged:
            return needs
        if any(not isinstance(entry, Affine) for need in staged for entry in need.place):
            raise Refused(illegal(Hazard.SCOPE, "a gathered value cannot be staged", rule="stored"))
        places = [tuple(e for e in need.place if isinstance(e, Affine)) for need in staged]
        name = self.scop.statements[value].name
        try:
            box = enclosing_box(places, self.digits, staging.loops)
        except Unbounded as reason:
            raise Refused(illegal(Hazard.CAPACITY, f"{name} does not fit in shared memory: {reason}")) from None
        strides, vector = staging.strides, staging.vector
        copies = copied_box(box, strides, vector, self.threads, self.digits) if strides else None
        if copies is not None:
            box, spread = copies.box, copies.spread
        elif staging.at:
            box = replace(box, extents=(*box.extents[:-1], -(-box.extents[-1] // vector) * vector))
            spread = tuple(entry - o for entry, o in zip(staging.at, box.origin, strict=True))
        else:
            spread = deal_along(staging.along, box, self.threads, vector, self.digits, staging.rows, staging.lanes)
        put_place = tuple(o + s for o, s in zip(box.origin, spread, strict=True))
        put = self._fresh(f"put_{name}")
        path = self.passes.around(put_place, staged[0].path) or self.passes.alone(put_place)
        self.drafts[put] = _Draft(Placed(put, "put", value, put_place, path), [""])
        by_place: dict[tuple[tuple[PlaceEntry, ...], Path], list[_Need]] = defaultdict(list)
        for need in staged:
            by_place[(need.place, self.passes.around(need.place, need.path))].append(need)
        for (place, at), same in by_place.items():
            get = self._fresh(f"{name}_s")
            self.drafts[get] = _Draft(Placed(get, "get", value, place, at), [put])
            self._provide(same, get)
        whole = bool(staging.at) and vector > 1  # accesses of several elements of one row
        short, dtype = staging.rows > 0, self.scop.dtype(value)
        packed = staging.packed and value in self.group.loads and dtype.itemsize < WORD and copies is None
        itemsize = (dtype if packed else dtype.compute).itemsize
        if copies is not None:
            pitch = copied_pitch(copies, strides, vector, dtype.itemsize, places, self.digits)
        elif short:
            pitch = short_rows_pitch(box, itemsize, spread, self.digits)
        elif whole:
            pitch = plain_pitch(box)
        elif staging.padded or packed:
            pitch = padded_pitch(box, itemsize, [put_place, *places], self.digits, self.threads, packed=packed)
        elif itemsize < WORD:
            pitch = narrow_pitch(box, itemsize, [put_place, *places], self.digits)
        else:
            pitch = odd_pitch(box, [put_place, *places], self.digits)
        width = vector if strides else 0
        spans = short or whole
        self.boxes.append(SharedBox(value, name, box.origin, box.extents, pitch, spans, copied=width, packed=packed))
        return [*spared, _Need(put_place, path, staged[0].component, put, 0)]

    # ---------------------------------------------------------------- windows of registers
    def _windowed(self, value: int, needs: list[_Need]) -> list[_Need]:
        """Needs at neighbouring elements become takes out of one place that holds all of them: the window is the need.
        Along a vector it may begin before and end after what is needed."""
        found = [n for n in needs if any(not isinstance(entry, Affine) for entry in n.place)]
        groups: dict[tuple[Path, int], dict[tuple[Affine, ...], list[_Need]]] = {}
        for need in needs:
            if need not in found:
                at = (self.passes.around(need.place, need.path), need.component)
                place = tuple(e for e in need.place if isinstance(e, Affine))
                groups.setdefault(at, {}).setdefault(place, []).append(need)
        name = self.scop.statements[value].name
        for (path, component), by_place in groups.items():
            vector, loaded = self.proposal.windows.vectors[value], value in self.group.loads
            for window in windows(list(by_place), self.digits, self.window_slots, vector, loaded=loaded):
                if window.taken and window.registers > MOST_REGISTERS:
                    sentence = f"a window of {name} takes {window.registers} registers of a thread"
                    raise Refused(unprofitable(sentence, registers=window.registers, limit=MOST_REGISTERS))
                if not window.taken:
                    found += [n for place in window.places for n in by_place[place]]
                    continue
                whole = window_place(window, self.digits, self.window_slots)
                for place in window.places:
                    take = self._fresh(f"{name}_w")
                    self.drafts[take] = _Draft(Placed(take, "take", value, place, path, component=component), [""])
                    self._provide(by_place[place], take)
                    found.append(_Need(whole, path, component, take, 0))
        return found

    def finished(self, draft: _Draft) -> Placed:
        """The placed statement with its providers known: a gather's index is its consumer's operand."""
        p, place = draft.placed, draft.placed.place
        if str in map(type, place):
            place = tuple([
                self.drafts[_consumer(e)].providers[int(e.split("?")[1])] if isinstance(e, str) else e for e in place
            ])  # fmt: skip
        return Placed(p.name, p.role, p.value, place, p.path, tuple(draft.providers), p.component)

    def _fresh(self, wanted: str) -> str:
        name, k = wanted, self.copies.get(wanted, 1)
        while name in self.drafts or name in self.scalars:
            k += 1
            name = f"{wanted}_{k}"
        self.copies[wanted] = k
        return name


def _consumer(entry: str) -> str:
    """The consumer in a pending gather index ``consumer?operand``."""
    return entry.split("?")[0]


def _runs_along(place: tuple[PlaceEntry, ...], name: str) -> bool:
    return bool(place) and isinstance(place[-1], Affine) and f"${name}" in place[-1].names()
