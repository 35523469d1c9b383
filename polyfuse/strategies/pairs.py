"""Every element of one class with every element of another, and a short sum for each pair: distances, forces, kernels.

    y[i, j] = sum_k f(a[i, k], b[j, k])          j = b0*TX*V + V*tx + v,  i = T*b1 + U*r + u,  k in registers
    z[i] = sum_j g(sum_k f(a[i, k], b[j, k]))    i = b0*TX*V + V*tx + v,  j = TY*(u + U*r) + ty,  k in registers

A thread holds what it needs of its V elements of one class in registers, and works through those of the other in a
loop, which all threads of a warp read at one place.  Nothing but the long sum is combined between threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Combination, Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, exactly, kept_digits
from polyfuse.strategies.reads import loaded_along
from polyfuse.strategies.shares import combination, share_of
from polyfuse.strategies.situation import Situation, block, loop, mixed, power_above, power_below, slot, thread

SHORT = 32
"""Elements of what is summed for a pair, at most: a thread has as many registers of each of its elements."""
HELD = 64
"""Registers for the elements that a thread keeps."""
FEW = 4
"""Elements of the other class up to which one thread may as well have all results."""
WIDTHS = (4, 2, 1)
"""Elements that a thread keeps; the widest two that fit are proposed."""
AT_ONCE = 32
"""Registers for the elements of the other class that a thread reads at once: several, where each has few."""
THREADS = 128
"""Of a block where both classes are results."""
TRIPS, BLOCKS = 32, 12
"""Elements of the other class that such a block works through at most, and blocks per processor at least: what threads
hold is read for each block.  On an H200, of float32, in 128 elements and in 32: distances of 8192 by 8191 points of
three 108 and 88 us, of 20001 by 4003 132 and 107, of six the sums of magnitudes 101 and 97, exponentials of distances
of four 105 and 98."""
SHAPES = ((256, 256), (32, 256), (32, 512))
"""(lanes along results, threads) of a block that sums along the other class."""
WAVES = (0, 4)
"""Blocks per multiprocessor where the other class is dealt to blocks; 0 where a block has all of it."""


@dataclass(frozen=True, slots=True)
class _Pairs:
    """`inner`: threads are dealt to it.  `far`: a loop runs along it.  `kept`: the other classes of results.  `summed`:
    the long classes of sums.  `short`: slots of one thread, whole, which are so many."""

    inner: AxisClass
    far: AxisClass
    kept: Sequence[AxisClass]
    summed: Sequence[AxisClass]
    short: Mapping[int, Digit]


@dataclass(frozen=True, slots=True)
class _Tile:
    """`width`: elements that a thread keeps.  `lanes` threads along the inner class, `rows` along the far one, of which
    a thread takes `unroll` at once, and a block `trips`, where no sum runs along it; else blocks fill the device in so
    many `waves`."""

    width: int
    lanes: int
    unroll: int
    rows: int = 1
    trips: int = 0
    waves: int = 0


def pairs(situation: Situation) -> list[Proposal]:
    """Proposals for groups with reductions over a few elements for every pair."""
    if situation.scans or not situation.reductions or situation.target.kind == "cpu":
        return []
    found = _recognise(situation)
    proposals = [_proposal(situation, found, tile) for tile in _tiles(situation, found)] if found is not None else []
    return [p for p in proposals if p is not None]


def _recognise(situation: Situation) -> _Pairs | None:
    hints = situation.hints
    over = [a for a in situation.axes if a.reduced_by]
    short = [a for a in over if a.size(hints) <= SHORT]
    summed = [a for a in over if a not in short]
    kept = [a for a in situation.classes.statement(situation.lead) if a not in over]
    slots = {a.number: slot(f"s{k}", a.size(hints)) for k, a in enumerate(short)}
    few = bool(short) and prod(d.count for d in slots.values()) <= SHORT
    if not few or len(kept) < (1 if summed else 2) or any(a not in (*over, *kept) for a in situation.axes):
        return None
    inner = kept[-1] if kept[-1].size(hints) >= situation.target.warp else max(kept, key=lambda a: a.size(hints))
    others = [a for a in kept if a is not inner]
    far = max(summed, key=lambda a: (a.size(hints), -a.number)) if summed else others[-1]
    held = any(inner in along and far not in along for along in loaded_along(situation))
    if not held or far.size(hints) <= FEW:
        return None
    return _Pairs(inner, far, [a for a in others if a is not far], [a for a in summed if a is not far], slots)


def _tiles(situation: Situation, found: _Pairs) -> Iterator[_Tile]:
    """Those to propose, with what the user asks for in place of ours."""
    asked, size = situation.tiles, found.inner.size(situation.hints)
    held = prod(d.count for d in found.short.values())
    whole = situation.vector(found.inner.extent, flat=False)
    fitting = [w for w in WIDTHS if w * held <= HELD and w <= whole] or [1]
    unroll = power_below(asked.get("unroll", min(4, AT_ONCE // held or 1)))
    for width in (power_below(asked["vector"]),) if "vector" in asked else fitting[:2]:
        most = power_above(-(-size // width))
        if not found.far.reduced_by:
            lanes = min(most, power_below(asked.get("threads", THREADS)))
            longest = _most_trips(situation, found, lanes * width)
            for trips in (asked["trips"],) if "trips" in asked else sorted({longest, max(1, longest // 4)}):
                yield _Tile(width, lanes, min(unroll, power_below(trips)), trips=trips)
            continue
        for along, threads in SHAPES:
            lanes = min(most, power_below(asked.get("lanes", along)))
            rows = max(1, power_below(asked.get("threads", threads)) // lanes)
            for waves in WAVES[1:] if "share" in asked else WAVES:
                yield _Tile(width, lanes, unroll, rows, waves=waves)


def _most_trips(situation: Situation, found: _Pairs, span: int) -> int:
    """So many that blocks of `span` elements of the inner class still fill the device several times."""
    blocks = prod(axis.size(situation.hints) for axis in (*found.kept, found.far))
    blocks *= -(-found.inner.size(situation.hints) // span)
    whole = power_above(found.far.size(situation.hints))
    return min(TRIPS, whole, power_below(blocks // (BLOCKS * situation.target.processors)))


def _proposal(situation: Situation, found: _Pairs, tile: _Tile) -> Proposal | None:
    """None where there would be one share."""
    inner, width = found.inner, tile.width
    tx, ty, v = thread("tx", 1, tile.lanes), thread("ty", tile.lanes, tile.rows), slot("v", width)
    b = block("b0", inner.extent.ceildiv(tile.lanes * width))
    blocks, splits = [b], {inner.number: mixed((b, tile.lanes * width), (tx, width), (v, 1))}
    for k, axis in enumerate(found.kept):
        blocks.append(block(f"b{k + 1}", axis.extent))
        splits[axis.number] = mixed((blocks[-1], 1))
    loops = [loop(f"k{k}", axis.extent) for k, axis in enumerate(found.summed)]
    splits |= {axis.number: mixed((k, 1)) for axis, k in zip(found.summed, loops, strict=True)}
    far = _far(situation, found.far, tile, blocks, ty)
    if far is None:
        return None
    splits[found.far.number] = far.split
    splits |= {number: mixed((s, 1)) for number, s in found.short.items()}
    guards = list(situation.divisible(inner.extent, width))
    for axis in situation.axes:
        guards += exactly(axis.extent, found.short[axis.number].count) if axis.number in found.short else ()
    slots = (far.slot, v, *found.short.values())
    kept = kept_digits([*blocks, *far.blocks, tx, ty, *loops, far.loop, *slots], keep_threads=True)
    threads = tile.lanes * tile.rows
    return Proposal(
        "pairs",
        (("threads", threads), ("lanes", tile.lanes), *far.parameters, ("vector", width)),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in (*loops, far.loop) if d in kept),
        guards=tuple(guards),
        combines=far.combines,
        border=True,  # masks of what is read cost as much as a product, and take wide loads apart
    )


@dataclass(frozen=True, slots=True)
class _Far:
    """How the far class is dealt."""

    split: Affine
    loop: Digit
    slot: Digit
    blocks: Sequence[Digit]
    parameters: tuple[tuple[str, int], ...]
    combines: Mapping[str, Combination]


def _far(situation: Situation, axis: AxisClass, tile: _Tile, blocks: list[Digit], ty: Digit) -> _Far | None:
    u, step = slot("u", tile.unroll), tile.rows * tile.unroll
    unrolled = ("unroll", tile.unroll)
    if tile.trips:
        r, b = loop("r", Affine.of(tile.trips // step)), block(f"b{len(blocks)}", axis.extent.ceildiv(tile.trips))
        return _Far(mixed((b, tile.trips), (r, step), (u, 1)), r, u, (b,), (unrolled, ("trips", tile.trips)), {})
    if not tile.waves:
        r = loop("r", axis.extent.ceildiv(step))
        return _Far(mixed((r, step), (u, tile.rows), (ty, 1)), r, u, (), (unrolled,), {})
    shared = share_of(situation, axis, blocks, step, tile.waves)
    if shared is None:
        return None
    b, steps = shared
    r, share = loop("r", Affine.of(steps)), steps * step
    split = mixed((b, share), (r, step), (u, tile.rows), (ty, 1))
    return _Far(split, r, u, (b,), (unrolled, ("share", share)), {b.name: combination(b, ty, situation)})
