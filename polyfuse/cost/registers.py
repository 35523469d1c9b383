"""Registers of a thread, in 32-bit words: what is alive at once as the placed statements run in their order."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from math import prod

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes, reduces, summed_digits
from polyfuse.cost.lines import SECTOR
from polyfuse.cost.pieces import WARP
from polyfuse.cost.scans import scanned_digits
from polyfuse.dtypes import bool_
from polyfuse.places.products import folded_products
from polyfuse.places.windows import is_slot_of_window
from polyfuse.scalars import FUNCTIONS, OF_SEVERAL
from polyfuse.schedule import KernelSchedule, Placed, scanned_slots, window_index
from polyfuse.scop import Scop, Statement
from polyfuse.terms import Apply, Expr, Inside, Ref

SIDE_BY_SIDE = 0.7
"""Of the words of whole windows and of all that is computed of them, what ptxas takes registers for, beside a few: of
1,118 tiles of 123 kernels it takes as many within 30 parts in a hundred for 71 %, within half as many for 91 %."""
CHOICES = frozenset(
    "maximum minimum fmax fmin where equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor invert".split()
)
FEW_CHOICES, ARITHMETIC = 0.2, 0.6
"""Of what is computed of windows for all results of a thread, how much ptxas has at once: of choices, and of sums and
products, where no function is of several instructions.  In tiles of 4 x 4 (benchmarks/results/windows_h200.json):
medians of 3 x 3, 224 words of choices, take 70 registers; corners, 120 words of products beside windows of 36, 90; a
WENO scheme with quotients, 144 words, 140."""
MANY_TOTALS, OF_MANY = 32, 3  # words, from which on the compiler takes three registers for two
BASE_REGISTERS = 20  # addresses, indices and temporaries of a small kernel as ptxas reports it


def register_need(scop: Scop, schedule: KernelSchedule, sizes: Sizes, through: frozenset[str] = frozenset()) -> int:
    """The widest moment: values alive between their definition and last use, in order of the placed statements.
    `through`: those that are the registers of what they read."""
    what = "registers", tuple(sizes.hints.items()), through
    return schedule.figure(what, lambda: _need(scop, schedule, sizes, through))


def _need(scop: Scop, schedule: KernelSchedule, sizes: Sizes, through: frozenset[str]) -> int:
    widest = _widest(scop, schedule, sizes, through)
    return min(widest, _one_by_one(scop, schedule, sizes)) if _is_elementwise(scop, schedule, sizes) else widest


AT_HAND = 8
"""Registers for what is computed of a few elements, where each result needs its own elements alone.  By ptxas, of 32
bytes a thread: nibbles 40 registers, where 116 values are alive statement by statement; 255 - x 16 for 84; a table of
bytes read by 64-bit indices 48 for 214."""


def _is_elementwise(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> bool:
    """Whether a thread computes its results one by one from what it loads, all of which it uses, and once.  Kernels of
    16-bit floats, of which this is as true, are among them where rows begin anywhere alone: of other ways whose prices
    lie within one part in a hundred others would be taken.  By ptxas, of three vectors of neighbours in rows of 8192
    bfloat16, 58 registers, where 112 values are alive statement by statement."""
    turned = _moves_one_by_one(scop, schedule)
    boxes = any(not box.spans for box in schedule.shared) and not turned
    if boxes or schedule.of_kind("loop") or schedule.cells is not None:
        return False
    dtypes = [scop.dtype(placed.value, placed.component) for placed in schedule.placed]
    framed = "frames" in dict(schedule.parameters)  # each place of an array is loaded in vectors of its own
    if any(dtype.compute != dtype for dtype in dtypes) and not framed and not turned:
        return False
    loads = [p for p in schedule.placed if p.role == "load"]
    if len({p.value for p in loads}) < len(loads) and not framed:
        return False
    if any(_leaves_gaps(scop, schedule, p, sizes) for p in loads):
        return False
    moves = ("load", "store", "put", "get")
    return all(p.role in moves or p.role == "compute" and _is_map(scop, p) for p in schedule.placed)


def _moves_one_by_one(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether all that a kernel puts into shared memory are results, which it makes one by one of what it loads, or
    what it loads as it lies in memory.  By ptxas, of two arrays of 8192 x 8192 bfloat16, whose sum is turned, 38
    registers, of four 53, of four of bytes 48; of one that is turned, times a row, 40, or as what a mask takes 32."""
    boxes = {box.value for box in schedule.shared}
    if not boxes or not boxes <= {*schedule.roots} and schedule.strategy != "tiles":
        return False
    statements = [scop.statements[value] for value in schedule.body]
    return all(_side_by_side(body) < 1.0 for s in statements if isinstance(s, Statement) for body in s.body)


def _leaves_gaps(scop: Scop, schedule: KernelSchedule, load: Placed, sizes: Sizes) -> bool:
    """Whether a thread uses some elements of what it loads alone, as of one colour of pixels."""
    if not all(isinstance(entry, Affine) for entry in load.place):
        return False
    position = sizes.position(scop, load)
    steps = [abs(position.coefficient(f"${d.name}")) for d in schedule.of_kind("slot")]
    least = min([step for step in steps if step], default=1)
    return least > 1 and least * scop.dtype(load.value, load.component).itemsize < SECTOR


def _is_map(scop: Scop, placed: Placed) -> bool:
    statement = scop.statements[placed.value]
    return isinstance(statement, Statement) and not statement.is_reduction and statement.scanned is None


def _one_by_one(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """What is loaded, as it lies in memory, until it is used; and results in the place of what they are made of."""

    def words(role: str) -> int:
        moved = [p for p in schedule.placed if p.role == role]
        return sum([max(1, sizes.product(p.digits(), ("slot",)) * size(p) // 4) for p in moved])

    def size(p: Placed) -> int:
        single = schedule.shared and p.role == "load" and not _in_words(scop, schedule, p, sizes)
        return 4 if single else scop.dtype(p.value, p.component).itemsize

    return BASE_REGISTERS + max(words("load"), words("store")) + AT_HAND


def _in_words(scop: Scop, schedule: KernelSchedule, load: Placed, sizes: Sizes) -> bool:
    """Whether what a thread loads begins with whole words.  Single bytes that wait for shared memory have a register
    each until they are put: 61 by ptxas where a thread moves 48 of them, 39 where it moves 96 in words."""
    others = {f"${d.name}" for d in schedule.of_kind("slot")} | set(sizes.hints)
    each = scop.dtype(load.value, load.component).itemsize
    return all(f * each % 4 == 0 for atom, f in sizes.position(scop, load).terms if atom not in others)


def _widest(scop: Scop, schedule: KernelSchedule, sizes: Sizes, through: frozenset[str]) -> int:
    order, seen = _as_they_run(scop, schedule), _outside_cells(schedule, sizes)
    folded = folded_products(scop, schedule)
    chained, truths = _chained(scop, schedule, folded), predicates(scop, schedule)
    held, last, windowed = _held_by(schedule, through), dict[str, int](), _window_words(scop, schedule, sizes)
    for k, placed in enumerate(order):
        for provider in placed.providers:
            last[provider] = last[held.get(provider, provider)] = k
    alive: dict[str, int] = {}
    words = widest = 0
    elsewhere = {*folded, *held, *schedule.copied_loads()}
    for k, placed in enumerate(order):
        if placed.role in ("load", "get", "compute") and placed.name not in elsewhere:
            own = windowed.get(placed.name) or _words(scop, placed, seen(placed), chained.get(placed.name, frozenset()))
            own = 1 if placed.name in truths else own
            if not windowed and _moves_only(scop, placed):  # the registers of what it chooses from
                sources = {held.get(provider, provider) for provider in placed.providers}
                own = min(own, sum(alive.get(source, 0) for source in sources))
                words -= sum(alive.pop(source, 0) for source in sources if last.get(source) == k)
            alive[placed.name] = own
            words += own
        widest = max(widest, words)
        for provider in placed.providers:
            for source in (provider, held.get(provider, provider)):
                if last.get(source) == k:
                    words -= alive.pop(source, 0)
    return BASE_REGISTERS + widest + _words_ahead(scop, schedule, sizes) + _words_of_totals(scop, schedule, sizes)


def _words_of_totals(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Registers for what each warp of a block has of every piece of a row that is scanned at once.  By ptxas, of the
    variance of prefixes of rows of float32 in 16 elements a thread: in 128 threads 96, in 256 133; in 32 elements 156
    and 215, where 84 and 148 hold all else; of three prefixes 163 and 180, where 84 and 148 hold it."""
    found = 0
    for placed in schedule.placed if schedule.strategy == "rows" else ():
        statement, over = scop.statements[placed.value], scanned_digits(scop, placed)
        if not over or not isinstance(statement, Statement) or statement.scanned is None:
            continue
        pieces, _ = scanned_slots(placed.place[statement.scanned], schedule.digits, over)
        threads = prod([d.count for d in schedule.of_kind("thread") if d.name in over])
        if pieces and threads > WARP:
            totals = threads // WARP * sizes.product(frozenset(pieces), ("slot",))
            found = max(found, totals * max(1, statement.dtypes[0].compute.itemsize // 4))
    return found if found < MANY_TOTALS else OF_MANY * found // 2


def predicates(scop: Scop, schedule: KernelSchedule) -> frozenset[str]:
    """Truth values that elementwise statements alone read before threads combine: the compiler chooses by them one by
    one.  ``where(x >= max(x) - 3, x, c)`` over 64 elements a thread takes 92 registers, over 32 54."""
    order, found = list(reversed(schedule.placed)), set[str]()
    if all(scop.dtype(placed.value, placed.component) != bool_ for placed in order):
        return frozenset()
    combined = [k for k, placed in enumerate(order) if reduces(scop, placed)]
    last = {provider: k for k, placed in enumerate(order) for provider in placed.providers}
    summed = {provider for k in combined for provider in order[k].providers}
    for k, placed in enumerate(order):
        truth = placed.role == "compute" and scop.dtype(placed.value, placed.component) == bool_
        until = last.get(placed.name, k)
        if truth and placed.name not in summed and not any(k <= c < until for c in combined):
            found.add(placed.name)
    return frozenset(found)


def _held_by(schedule: KernelSchedule, through: Container[str]) -> dict[str, str]:
    """Whose registers a placed statement is, where it has none of its own: those that are taken, or passed on."""
    found: dict[str, str] = {}
    for placed in reversed(schedule.placed):
        if placed.providers and (placed.role == "take" or placed.name in through):
            found[placed.name] = found.get(placed.providers[0], placed.providers[0])
    return found


def _moves_only(scop: Scop, placed: Placed) -> bool:
    """Whether a statement computes nothing: its results are values that it reads, in other places or by regions."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement):
        return False
    return not statement.is_reduction and statement.scanned is None and all(map(_chooses, statement.body))


@lru_cache(maxsize=100_000)
def _chooses(term: Expr) -> bool:
    if not isinstance(term, Apply):
        return isinstance(term, Ref)
    by_region = term.function == "where" and isinstance(term.operands[0], Inside)
    return by_region and all(map(_chooses, term.operands[1:]))


def _chained(scop: Scop, schedule: KernelSchedule, folded: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Values that are computed for one product of a chain of multiply-adds, which takes them one by one: the slots that
    it sums over."""
    if not folded:
        return {}
    by_name, readers = schedule.by_name(), dict[str, set[str]]()
    for placed in schedule.placed:
        for provider in placed.providers:
            readers.setdefault(provider, set()).add(placed.name)
    found = dict[str, frozenset[str]]()
    for product, chain in folded.items():
        over = summed_digits(scop, by_name[chain])
        for provider in by_name[product].providers:
            if by_name[provider].role == "compute" and readers[provider] == {product}:
                found[provider] = over
    return found


def _outside_cells(schedule: KernelSchedule, sizes: Sizes) -> Callable[[Placed], Sizes]:
    """The sizes that the registers of a placed statement see: what waits in cells passes through a few at a time, and
    where a kernel runs in pieces, so does all that nothing holds while threads combine."""
    cells = schedule.cells
    if cells is None:
        return lambda _: sizes
    held, passing = Sizes(schedule, sizes.hints), Sizes(schedule, sizes.hints)
    held.extent[cells.slot] = cells.first
    passing.extent[cells.slot] = min(cells.piece or cells.first, cells.first)
    waiting = frozenset(cells.values)
    return lambda placed: held if placed.name in waiting else passing


def _words_ahead(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Registers for what is loaded a trip before it is used."""
    early = [p for p in schedule.placed if p.role == "load" and p.digits() & set(schedule.ahead)]
    return sum([_words(scop, p, sizes) for p in early])


def least_registers(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """What a compiler can reach that is told to: a result takes the registers of the operands that it is the last to
    read, slot by slot, and what only enters sums is added up as it comes.  (Softmax of 32 words a thread: 80 as it
    likes, 64 where the launch bounds ask for it.)"""
    return max([words for words, _ in moments(scop, schedule, sizes)], default=BASE_REGISTERS)


def moments(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> list[tuple[int, Placed]]:
    """The least registers at every placed statement, in order."""
    folded, seen = folded_products(scop, schedule), _outside_cells(schedule, sizes)
    order = _with_readers(schedule) if schedule.cells and schedule.cells.piece else _as_they_run(scop, schedule)
    last = {provider: k for k, placed in enumerate(order) for provider in placed.providers}
    whole = {provider for placed in order if not reduces(scop, placed) for provider in placed.providers}
    whole -= predicates(scop, schedule)
    always = BASE_REGISTERS + _words_ahead(scop, schedule, sizes)
    alive: dict[str, int] = {}
    words, found = 0, list[tuple[int, Placed]]()
    for k, placed in enumerate(order):
        for provider in placed.providers:
            if last[provider] == k:
                words -= alive.pop(provider, 0)
        if placed.role in ("load", "get", "compute") and placed.name not in folded:
            kept = placed.role != "compute" or placed.name in whole
            words -= alive.get(placed.name, 0)
            alive[placed.name] = own = _words(scop, placed, seen(placed)) if kept else 1
            words += own
        found.append((always + words, placed))
    return found


def _as_they_run(scop: Scop, schedule: KernelSchedule) -> list[Placed]:
    """The placed statements in order, loads outside of loops that serve what comes after a reduction alone in front of
    their first reader, as `places.order` has them: of 16 kernels of rows with gains, biases or weights ptxas takes 10
    parts in a hundred fewer registers than this says on average, 30 where all loads came first."""
    return schedule.figure("as they run", lambda: _late(scop, schedule))


def _late(scop: Scop, schedule: KernelSchedule) -> list[Placed]:
    order = list(reversed(schedule.placed))
    combined = [k for k, placed in enumerate(order) if reduces(scop, placed)]
    if not combined:
        return order
    at = {placed.name: k for k, placed in enumerate(order)}
    first: dict[str, int] = {}
    for k, placed in enumerate(order):
        for provider in placed.providers:
            first.setdefault(provider, k)
    moved = dict[int, list[Placed]]()
    for placed in order:
        reader = first.get(placed.name, -1)
        if placed.role == "load" and not placed.path and any(at[placed.name] < c < reader for c in combined):
            moved.setdefault(reader, []).append(placed)
    late = {p.name for loads in moved.values() for p in loads}
    found = list[Placed]()
    for k, placed in enumerate(order):
        found += moved.get(k, [])
        found += [placed] if placed.name not in late else []
    return found


def _with_readers(schedule: KernelSchedule) -> list[Placed]:
    """The placed statements of a kernel that runs in pieces, in order, its loads in front of their first readers."""
    by_name, order = schedule.by_name(), list[Placed]()
    for placed in reversed(schedule.placed):
        if placed.role != "load":
            order += [p for p in map(by_name.__getitem__, placed.providers) if p.role == "load" and p not in order]
            order.append(placed)
    return order


def whole_windows(scop: Scop, schedule: KernelSchedule, sizes: Sizes, share: float = SIDE_BY_SIDE) -> int:
    """Registers of a kernel with windows where the compiler computes all rows of a thread side by side, as it does once
    each takes many instructions; 0 of a kernel without.  `share`: of the words of all windows and of what is computed.

    By ptxas, 16 results of a thread: Rusanov fluxes 192, bands of 20 prices 138, means of 20 neighbours 178; walked row
    by row they would have 34, 82 and 66.
    """
    held = _windows(scop, schedule)
    if not held:
        return 0

    weights = _at_once(scop, schedule)

    def own(p: Placed) -> float:
        each = max(1, scop.dtype(p.value, p.component).compute.itemsize // 4)
        spans = held.get(p.name)
        if spans is None:
            return _words(scop, p, sizes) * weights.get(p.name, 1.0)
        return each * prod([high - low + 1 for low, high, _ in spans])

    order = list(reversed(schedule.placed))
    last = {provider: k for k, placed in enumerate(order) for provider in placed.providers}
    alive: dict[str, float] = {}
    words = widest = 0.0
    for k, placed in enumerate(order):
        if placed.role in ("load", "get", "compute"):
            alive[placed.name] = own(placed)
            words += alive[placed.name]
        widest = max(widest, words)
        for provider in placed.providers:
            if last[provider] == k:
                words -= alive.pop(provider, 0.0)
    return BASE_REGISTERS + int(share * widest)


def _at_once(scop: Scop, schedule: KernelSchedule) -> dict[str, float]:
    """Of the results of each statement those that the compiler computes side by side, about; all of a kernel some of
    whose functions take so long that others have to run meanwhile, or that sums elements which it has all at once."""
    computed = [p for p in schedule.placed if p.role == "compute"]
    if any(reduces(scop, p) for p in computed):
        return {}
    found = {p.name: max(map(_side_by_side, _body(scop, p)), default=0.0) or ARITHMETIC for p in computed}
    short = all(share < 1 for share in found.values())
    return {name: share if short or share == FEW_CHOICES else 1.0 for name, share in found.items()}


def _body(scop: Scop, placed: Placed) -> tuple[Expr, ...]:
    statement = scop.statements[placed.value]
    return statement.body if isinstance(statement, Statement) else ()


@lru_cache(maxsize=100_000)
def _side_by_side(term: Expr) -> float:
    if not isinstance(term, Apply):
        return 0.0
    is_long = FUNCTIONS[term.function].cost >= OF_SEVERAL
    own = FEW_CHOICES if term.function in CHOICES else 1.0 if is_long else ARITHMETIC
    return max([own, *map(_side_by_side, term.operands)])


def _window_words(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> dict[str, int]:
    """32-bit registers of values in a kernel with windows, which the compiler walks row by row: of a window the rows
    that one row of results reaches and one ahead, of what is computed the row at hand.

    Two Jacobi steps in windows of 12 x 8 and 10 x 6: 96 registers (ptxas), where all windows whole would be 236.
    """
    held, slots = _windows(scop, schedule), {d.name: d.count for d in schedule.of_kind("slot")}
    words: dict[str, int] = {}
    for placed in schedule.placed if held else ():
        each = max(1, scop.dtype(placed.value, placed.component).compute.itemsize // 4)
        if placed.name in held:
            spans = [(high - low + 1, high - low + 1 - run) for low, high, run in held[placed.name]]
            walked = [] if placed.path else [d for d, (_, _, run) in enumerate(held[placed.name]) if run]
            outer = next(iter(walked), -1)  # loads of a trip begin together
            others = [slots[name] for name in placed.digits() & slots.keys() if not is_slot_of_window(name)]
            own = prod([min(n, r + 1) if d == outer else n for d, (n, r) in enumerate(spans)])
            words[placed.name] = each * own * prod(others)  # a window for each of a row's chunks
        elif placed.role == "compute":
            words[placed.name] = max(1, _words(scop, placed, sizes) // _outermost(placed, slots))
    return words


def _windows(scop: Scop, schedule: KernelSchedule) -> Mapping[str, Sequence[tuple[int, int, int]]]:
    """Of what is held in windows, per dimension: the first and the last number taken, and how far results step."""
    return schedule.figure("windows taken", lambda: _taken(scop, schedule))


def _taken(scop: Scop, schedule: KernelSchedule) -> dict[str, list[tuple[int, int, int]]]:
    by_name, slots = schedule.by_name(), {d.name: d.count for d in schedule.of_kind("slot")}
    takers = [p for p in schedule.placed if p.role == "take"]
    sums = [summed_digits(scop, p) for p in schedule.placed] if takers else []
    summed = frozenset([f"${name}" for found in sums for name in found])
    held: dict[str, list[tuple[int, int, int]]] = {}
    for taker in takers:
        (holder,) = taker.providers
        index = window_index(by_name[holder], taker, slots)
        found = held.setdefault(holder, [(at.constant, at.constant, 0) for _, at in index])
        for d, (_, at) in enumerate(index):
            steps = [(name, factor * (slots[name[1:]] - 1)) for name, factor in at.terms if isinstance(name, str)]
            low = at.constant + sum(min(s, 0) for _, s in steps)
            high = at.constant + sum(max(s, 0) for _, s in steps)
            along = sum(abs(s) for name, s in steps if name not in summed)  # results; a sum takes them together
            found[d] = (min(found[d][0], low), max(found[d][1], high), max(found[d][2], along))
    return held


def _outermost(placed: Placed, slots: Mapping[str, int]) -> int:
    """The extent of the slots along the first dimension that has some."""
    for entry in placed.place:
        counts = [slots[n[1:]] for n in _names(entry) if n[1:] in slots]
        if counts:
            return prod(counts)
    return 1


def _words(scop: Scop, placed: Placed, sizes: Sizes, without: frozenset[str] = frozenset()) -> int:
    """32-bit registers of one value: its slots, without those a reduction sums over."""
    used, summed = placed.digits(), summed_digits(scop, placed)
    if summed or without:
        used = used - summed - without
    words = max(1, scop.dtype(placed.value, placed.component).compute.itemsize // 4)
    return sizes.product(used, ("slot",)) * words


def _names(entry: object) -> frozenset[str]:
    return entry.names() if isinstance(entry, Affine) else frozenset()
