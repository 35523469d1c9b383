"""Permutations of short rows: tiles whose sides are several classes that lie together in memory, so that pieces of what
is read and of what is written are lines.

    z[k, j, i] = x[i, j, k]    11 x 269493 x 17 float32:   a block has all i and k, and 12 of j
                               z in 17 pieces of 12 * 11 elements, thread 11*j + i
                               x in 11 pieces of 12 * 17 elements, thread 17*j + k of 7 * 17, in two steps

Threads lie along what is written; along what is read their index is divided anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polyfuse.affine import ONE, ZERO, Affine
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.strategies.block_order import names_of_blocks
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import LINE, anchors, exactly, kept_digits
from polyfuse.strategies.reads import lies_along
from polyfuse.strategies.situation import Situation, block, mixed, slot, thread

PIECE = 2 * LINE
"""Bytes of what a block reads or writes side by side, at least."""
MOST_THREADS, THREADS, FEW_THREADS = 512, 256, 128
"""Of a block at most; that are enough; up to which they are few."""
MOST_WHOLE = 256
"""Elements of a class of which a block has all."""
LEAST_SHARED, MOST_SHARED, MOST = 8 << 10, 40 << 10, 32 * THREADS
"""Bytes of a tile in shared memory, and its elements at most: a thread has an index for each of its own."""


def joined_tiles(situation: Situation) -> Iterator[Proposal]:
    """Proposals for elementwise groups that read arrays along other classes than they write, in short rows."""
    axes = situation.classes.statement(situation.lead)
    if situation.reductions or situation.scans or situation.target.kind == "cpu" or not situation.has_much:
        return
    if len(axes) < 3 or situation.tiles or len(set(axes)) < len(axes) or set(situation.axes) != set(axes):
        return
    crossing = {v: order for v, order in _orders(situation).items() if len(order) > 1 and order[-1] is not axes[-1]}
    if len(set(crossing.values())) != 1:
        return
    tile = _tile(situation, axes, next(iter(crossing.values())))
    if tile is not None:
        yield _proposal(situation, axes, tile, crossing)


def _orders(situation: Situation) -> dict[int, tuple[AxisClass, ...]]:
    """The classes along which each loaded array lies, the last one side by side; none if one is read otherwise."""
    found: dict[int, tuple[AxisClass, ...]] = {}
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source in situation.group.loads:
                order = lies_along(axes, read)
                if len(order) < len(read.index) or found.setdefault(read.source, order) != order:
                    return {}
    return found


@dataclass(frozen=True, slots=True)
class _Tile:
    """`written` and `read`: the classes that lie side by side in a piece, the innermost first.  `held`: of each class
    of the tile, how many elements."""

    written: tuple[AxisClass, ...]
    read: tuple[AxisClass, ...]
    held: dict[AxisClass, int]


def _tile(situation: Situation, axes: Sequence[AxisClass], order: Sequence[AxisClass]) -> _Tile | None:
    """None where the rows of both are lines, or their pieces are too much for a block."""
    itemsize = max(situation.long_itemsizes, default=1)
    if min(situation.size(side[-1].extent) for side in (axes, order)) * itemsize >= LINE:
        return None
    sides = [_side(situation, side, itemsize) for side in (axes, order)]
    held: dict[AxisClass, int] = {}
    for side in sides:
        for axis, count in side.items():
            held[axis] = max(count, held.get(axis, 1))
    size = max(situation.scop.dtype(v).compute.itemsize for v in situation.group.loads)
    cut = [axis for axis in held if held[axis] < situation.size(axis.extent)]
    while prod(held.values()) * size > MOST_SHARED or prod(held.values()) > MOST:
        longest = max(cut, key=held.__getitem__, default=None)
        if longest is None or held[longest] < 2:
            return None
        held[longest] = -(-held[longest] // 2)
    while prod(held.values()) * size < LEAST_SHARED:
        more = [axis for axis in cut if held[axis] < situation.size(axis.extent)]
        if not more:
            break
        least = min(more, key=held.__getitem__)
        held[least] = min(2 * held[least], situation.size(least.extent))
    innermost = {next(iter(side)) for side in sides}  # along which a piece is whole sectors
    for axis in [a for a in cut if a not in innermost]:  # others have parts of one length
        parts = -(-situation.size(axis.extent) // held[axis])
        held[axis] = -(-situation.size(axis.extent) // parts)
    return _Tile(tuple(sides[0]), tuple(sides[1]), held) if len(held) > 2 else None  # else rows that are turned


def _side(situation: Situation, order: Sequence[AxisClass], itemsize: int) -> dict[AxisClass, int]:
    """Of the classes along which an array lies, those of a piece of it, with how many elements of each."""
    found: dict[AxisClass, int] = {}
    run = 1
    for axis in reversed(order):
        size, enough = situation.size(axis.extent), -(-PIECE // (run * itemsize))
        if enough <= 1:
            break
        found[axis] = size if size <= min(2 * enough, MOST_WHOLE) else enough
        run *= found[axis]
        if found[axis] < size:
            break
    return found


def _proposal(
    situation: Situation, axes: Sequence[AxisClass], tile: _Tile, crossing: Mapping[int, Sequence[AxisClass]]
) -> Proposal:
    beside = [axis for axis in tile.held if axis not in tile.written]
    whole = {axis: n for axis, n in tile.held.items() if n >= situation.size(axis.extent)}
    held, stride = dict(tile.held), 1
    threads: list[Digit] = []
    slots: list[Digit] = []
    places: dict[AxisClass, Affine] = {}
    for k, axis in enumerate((*tile.written, *beside)):
        most = MOST_THREADS // stride if stride < THREADS else 1
        lanes = _lanes(held[axis], most, stride if axis in whole else 0)
        steps = -(-held[axis] // lanes)
        t, q = thread(f"t{k}", stride, lanes), slot(f"q{k}", steps)
        places[axis] = mixed((q, lanes), (t, 1))
        held[axis] = lanes * steps
        threads, slots, stride = [*threads, t], [*slots, q], stride * lanes
    others = [axis for axis in reversed(axes) if axis not in held]
    name = names_of_blocks(situation, held | dict.fromkeys(others, 1))
    count = {a: ONE if a in whole else a.extent.ceildiv(n) for a, n in held.items()}
    blocks = {axis: block(name[axis], count.get(axis, axis.extent)) for axis in (*held, *others)}
    first = {axis: mixed((blocks[axis], held.get(axis, 1))) for axis in blocks}
    splits = {axis.number: first[axis] + places.get(axis, ZERO) for axis in blocks}
    guards = [guard for a, n in whole.items() for guard in exactly(a.extent, n)]
    put = _read(situation, tile.read, held, mixed(*[(t, t.stride) for t in threads]), stride)
    staging = {}
    for value, order in crossing.items():
        at = [first[axis] + put.places.get(axis, ZERO) for axis in order]
        staging[value] = Staging(at=tuple(at), padded=True, packed=True)
    return Proposal(
        "joined_tiles",
        (
            *(("threads", stride), ("tile", prod([held[a] for a in tile.read]))),
            *(("columns", prod([held[a] for a in tile.written])), ("vector", put.width)),
        ),
        kept_digits([*blocks.values(), *threads, *slots, *put.digits], keep_threads=True),
        anchors(situation, splits),
        staging=staging,
        guards=tuple(dict.fromkeys([*guards, *situation.divisible(tile.read[0].extent, put.width)])),
    )


def _lanes(count: int, most: int, others: int) -> int:
    """Threads along `count` elements, of which each has as many.  `others`: threads beside them where the elements are
    all of a class, none of which is in another block: some have one too many only where threads are few without."""
    if others:
        lanes = next(n for n in range(min(count, most), 0, -1) if count % n == 0)
        if others * lanes >= FEW_THREADS:
            return lanes
    return -(-count // -(-count // most))


@dataclass(frozen=True, slots=True)
class _Put:
    """Where a thread puts what it reads, within a tile, the slots of that, and elements that it reads at once."""

    places: dict[AxisClass, Affine]
    digits: tuple[Digit, ...]
    width: int


def _read(
    situation: Situation, side: Sequence[AxisClass], held: dict[AxisClass, int], index: Affine, threads: int
) -> _Put:
    """How threads of a block, by their `index`, share what it reads: along the classes of a piece first."""
    inner = side[0]
    width = situation.width(inner.extent, flat=False)
    while held[inner] % width:
        width //= 2
    places: dict[AxisClass, Affine] = {}
    digits: list[Digit] = []
    v = slot("v", width)
    rest, left, is_ragged = index, threads, False
    beside = sorted((a for a in held if a not in side), key=lambda a: -held[a])
    order = (*side, *beside)
    for k, axis in enumerate(order):
        step = width if k == 0 else 1
        count = held[axis] // step
        is_last = left // count < 2 or axis is order[-1]
        lanes = min(left, count)
        steps = -(-count // lanes)
        p = slot(f"p{k}", steps)
        place = rest % lanes if left > lanes or is_ragged else rest
        if is_last and (left > lanes or is_ragged):  # threads that are left over lie outside of the box
            place = place + rest // lanes * (lanes * steps)
        places[axis] = (place + mixed((p, lanes))) * step + (mixed((v, 1)) if k == 0 else ZERO)
        digits.append(p)
        rest, left, is_ragged = rest // lanes, left // lanes, is_ragged or left % lanes > 0
        if is_last:
            for j, other in enumerate(order[k + 1 :], k + 1):
                digits.append(slot(f"p{j}", held[other]))
                places[other] = mixed((digits[-1], 1))
            break
    return _Put(places, (*digits, v), width)
