"""Boxes of affine expressions: what range an index covers when some of its digits run and the others are fixed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from polyfuse.affine import Affine, Atom, FloorDiv, digit
from polyfuse.banks import WARP
from polyfuse.schedule import Digit


class Unbounded(ValueError):
    """An index runs over a symbolic extent, or is not affine in the running digits: no constant box holds it."""


@dataclass(frozen=True, slots=True)
class Box:
    """Per dimension: the smallest index, affine in the fixed digits and sizes, and a constant extent."""

    origin: tuple[Affine, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """``base + lower .. base + upper`` where `base` holds the fixed part without its constant."""

    base: Affine
    lower: int
    upper: int


def span(index: Affine, digits: Mapping[str, Digit], pinned: Collection[str] = ()) -> Span:
    """The range of `index` while thread, slot and unpinned loop digits run.  Raises Unbounded."""
    base: list[tuple[Atom, int]] = []
    lower = upper = index.constant
    for atom, factor in index.terms:
        name = atom[1:] if isinstance(atom, str) and atom.startswith("$") else ""
        digit = digits.get(name)
        if digit is None or digit.kind == "block" or name in pinned:
            if not isinstance(atom, str) and any(_runs(n, digits, pinned) for n in atom.numerator.names()):
                raise Unbounded(f"{index} is not affine in the digits of a thread")
            base.append((atom, factor))
            continue
        if not digit.extent.is_constant:
            raise Unbounded(f"{index} runs over the symbolic extent {digit.extent}")
        reach = factor * (digit.count - 1)
        lower, upper = lower + min(reach, 0), upper + max(reach, 0)
    return Span(Affine(tuple(base)), lower, upper)


def _without_remainders(
    index: Affine, digits: Mapping[str, Digit], pinned: Collection[str]
) -> tuple[Affine, int, int]:
    """`index` with quotients without remainder for floors in which digits run, and what the remainders add: at least
    and at most.

    j - 7*i + 8*floor(7*i/8):   j, -7, 0
    """
    whole, least, most = index, 0, 0
    for atom, factor in index.terms:
        if isinstance(atom, FloorDiv) and any(_runs(n, digits, pinned) for n in atom.numerator.names()):
            times, rest = divmod(factor, atom.denominator)
            if rest == 0:
                whole = whole - Affine(((atom, factor),)) + atom.numerator * times
                remainder = -times * (atom.denominator - 1)
                least, most = least + min(remainder, 0), most + max(remainder, 0)
    return whole, least, most


def _runs(name: str, digits: Mapping[str, Digit], pinned: Collection[str]) -> bool:
    digit = digits.get(name[1:]) if name.startswith("$") else None
    return digit is not None and digit.kind != "block" and digit.name not in pinned


def only_slots(conditions: Sequence[Affine], digits: Mapping[str, Digit]) -> dict[str, int]:
    """The slots that have a single value where all `conditions` are >= 0, in any thread of any block, as ``$name``.

    63 - 64*h - 8*t - v >= 0, t < 8, v < 8:   h = 0
    """
    found: dict[str, int] = {}
    slots = sorted({n for c in conditions for n in c.names() if n[0] == "$" and digits[n[1:]].kind == "slot"})
    most = [_most(c, digits) for c in conditions] if slots else []
    for name in slots:
        count = digits[name[1:]].count
        value = _only_value(name, count, conditions, most, digits)
        if value is not None and count > 1:
            found[name] = value
    return found


MOST_TRIED = 4096
"""Values of a slot that are tried one by one: more are more registers than any thread has, and no proposal stays that
has them."""


def _only_value(
    name: str, count: int, conditions: Sequence[Affine], most: Sequence[int | None], digits: Mapping[str, Digit]
) -> int | None:
    """The only value of a slot with which each condition may hold; None where there are others, or none.  `most`: per
    condition its largest value, if known."""
    first, last = 0, count - 1
    floors: list[Affine] = []
    for condition, upper in zip(conditions, most, strict=True):
        if not condition.is_linear:
            floors.append(condition)  # what a value decides may be more than its range
        elif upper is not None:
            factor = condition.coefficient(name)
            rest = upper - max(factor * (count - 1), 0)  # the largest value of the others: rest + factor * k >= 0
            if factor > 0:
                first = max(first, -(rest // factor))
            elif factor < 0:
                last = min(last, rest // -factor)
            elif rest < 0:
                return None
    if first > last or last - first > (MOST_TRIED if floors else 0):
        return None
    possible = [k for k in range(first, last + 1) if all(_can_hold(c.substitute({name: k}), digits) for c in floors)]
    return possible[0] if len(possible) == 1 else None


def _can_hold(condition: Affine, digits: Mapping[str, Digit]) -> bool:
    """Whether ``condition >= 0`` may hold; True where its range is not known."""
    upper = _most(condition, digits)
    return upper is None or upper >= 0


def _most(condition: Affine, digits: Mapping[str, Digit]) -> int | None:
    """The largest value in any thread of any block; None where its range is not known."""
    upper = condition.constant
    for atom, factor in condition.terms:
        digit = digits.get(atom[1:]) if isinstance(atom, str) and atom[0] == "$" else None
        if digit is None or digit.kind == "block" or digit.extent.terms:
            return None
        upper += max(factor * (digit.count - 1), 0)
    return upper


def without_floors(index: Affine, digits: Mapping[str, Digit]) -> Affine:
    """`index` with the floors that the ranges of its digits decide replaced by their value.

    floor((256*r + t) / 4096), r < 16, t < 256:   0
    """
    if index.is_linear:
        return index
    decided = Affine((), index.constant)
    for atom, factor in index.terms:
        value = _floor_value(atom, digits) if isinstance(atom, FloorDiv) else None
        decided = decided + (Affine(((atom, factor),)) if value is None else value * factor)
    return decided


def _floor_value(floor: FloorDiv, digits: Mapping[str, Digit]) -> int | None:
    """The only value of a floor division in every thread of every block; None where it has several."""
    try:
        reach = span(floor.numerator, digits)
    except Unbounded:
        return None
    least, most = reach.lower // floor.denominator, reach.upper // floor.denominator
    return least if not reach.base.terms and least == most else None


def _framed_span(index: Affine, digits: Mapping[str, Digit], pinned: Collection[str]) -> Span:
    """The same of an index that moves with where rows begin: as far as the remainders may move it."""
    if index.is_linear:
        return span(index, digits, pinned)
    whole, least, most = _without_remainders(index, digits, pinned)
    found = span(whole, digits, pinned)
    return Span(found.base, found.lower + least, found.upper + most)


def enclosing_box(places: Sequence[tuple[Affine, ...]], digits: Mapping[str, Digit], pinned: Collection[str]) -> Box:
    """The least box that holds every place, or one larger by what remainders leave open, for fixed block and pinned
    loops.  Raises Unbounded."""
    origin, extents = [], []
    for entries in zip(*places, strict=True):
        spans = [_framed_span(entry, digits, pinned) for entry in entries]
        if len({s.base for s in spans}) > 1:
            raise Unbounded(f"the needs {', '.join(map(str, entries))} move apart from block to block")
        low, high = min(s.lower for s in spans), max(s.upper for s in spans)
        origin.append(spans[0].base + low)
        extents.append(high - low + 1)
    return Box(tuple(origin), tuple(extents))


FEW = 8
"""Elements of a row of which, where they are no power of two, lanes would leave many unused."""


def deal(
    box: Box, threads: int, vector: int, digits: dict[str, Digit], rows: int = 0, lanes_of_row: int = 0
) -> tuple[Affine, ...]:
    """How the block's threads run over a box, per dimension from 0: vectors and lanes along the last dimension, the
    remaining threads along the ones before, slots for the rest.  With `rows`, a thread has whole rows, so many of them
    side by side where they divide the box.  `lanes_of_row`: those of a warp that may have one row, see `_by_warps`; 0:
    all of them.  New digits are added to `digits`."""
    if not box.extents:
        return ()
    if lanes_of_row and (found := _by_warps(box, threads, _width(box, vector), lanes_of_row, digits)) is not None:
        return found
    extent, width = box.extents[-1], _width(box, vector)
    count = -(-extent // width)
    lanes = min(threads, _power_below(max(1, extent // width)))
    lanes = 1 if count < FEW and lanes < count else lanes  # as colours: lanes side by side have a row each
    lanes = 1 if rows else lanes
    lanes = threads if len(box.extents) == 1 else lanes  # no thread is left over: it would put what another one does
    along = lanes_along(digits, len(box.extents) - 1, lanes, count, width)
    return (*deal_rows(box, threads, lanes, digits, rows), along)


def deal_along(
    dim: int, box: Box, threads: int, vector: int, digits: dict[str, Digit], rows: int = 0, lanes_of_row: int = 0
) -> tuple[Affine, ...]:
    """The same with vectors and lanes along dimension `dim`."""
    rank = len(box.extents)
    last = dim % max(1, rank)
    if last >= rank - 1:
        return deal(box, threads, vector, digits, rows, lanes_of_row)
    order = [*[d for d in range(rank) if d != last], last]
    turned = Box(tuple([box.origin[d] for d in order]), tuple([box.extents[d] for d in order]))
    spread = dict(zip(order, deal(turned, threads, vector, digits, rows, lanes_of_row), strict=True))
    return tuple([spread[d] for d in range(rank)])


def lanes_along(digits: dict[str, Digit], dim: int, lanes: int, count: int, width: int) -> Affine:
    """How the first `lanes` threads run along the last dimension, number `dim`, over `count` vectors of `width`."""
    place = _run(digits, dim, _thread(digits, 1, lanes), lanes, count, width)
    return place + _slot(digits, f"w{width}", width)


def deal_rows(
    box: Box, threads: int, stride: int, digits: dict[str, Digit], rows: int = 0
) -> tuple[Affine, ...]:
    """How threads that lie `stride` apart run over the dimensions before the last one."""
    spread: list[Affine] = []
    for d in reversed(range(len(box.extents) - 1)):
        extent, width = box.extents[d], 1
        left = threads // stride
        if rows and d == len(box.extents) - 2 and extent % rows == 0:
            width, count = rows, extent // rows
            lanes = min(left, _power_above(count))
        else:
            count, lanes = extent, min(left, _power_above(extent))
        lanes = left if d == 0 else lanes
        place = _run(digits, d, _thread(digits, stride, lanes), lanes, count, width)
        spread.append(place + _slot(digits, f"r{width}", width))
        stride *= lanes
    return tuple(reversed(spread))


def _by_warps(
    box: Box, threads: int, width: int, most: int, digits: dict[str, Digit]
) -> tuple[Affine, ...] | None:
    """The same with `most` lanes of a warp along a row, its others in rows beside it, further warps along the rest of
    the row; None where a box has fewer rows or no power of two of vectors in a row.

    64 x 128, 512 threads, vectors of 8, 4 lanes:   row 8*(4*p + h) + l8, element 8*(4*w + l4) + v
    """
    rows, lanes, count = WARP // most, box.extents[-1] // width, len(box.extents)
    left = threads // (rows * lanes)
    fits = box.extents[-1] == width * lanes and lanes & (lanes - 1) == 0 and lanes > most
    longer = [d for d in range(count - 1) if box.extents[d] > 1]
    if not fits or len(longer) != 1 or not left or box.extents[longer[0]] % (rows * left):
        return None
    last = (_thread(digits, 1, most) + _thread(digits, WARP, lanes // most) * most) * width
    row = _thread(digits, most, rows) + _run(
        digits, longer[0], _thread(digits, rows * lanes, left), left, box.extents[longer[0]] // rows, rows
    )
    found = [Affine.of(0)] * (count - 1)
    found[longer[0]] = row
    return (*found, last + _slot(digits, f"w{width}", width))


def _width(box: Box, vector: int) -> int:
    """Elements a thread moves at once along the last dimension."""
    origin, extent = box.origin[-1], box.extents[-1]
    aligned = extent % vector == 0 and origin.constant % vector == 0 and all(f % vector == 0 for _, f in origin.terms)
    return vector if aligned else 1


def _run(digits: dict[str, Digit], dim: int, thread: Affine, threads: int, extent: int, weight: int) -> Affine:
    """``weight * (threads * slot + thread)`` covers ``weight * extent``."""
    count = -(-extent // threads)
    return (thread + _slot(digits, f"p{dim}x{count}", count) * threads) * weight


def _thread(digits: dict[str, Digit], stride: int, extent: int) -> Affine:
    if extent <= 1:
        return Affine.of(0)
    name = f"d{stride}x{extent}"
    digits.setdefault(name, Digit(name, "thread", Affine.of(extent), stride))
    return digit(name)


def _slot(digits: dict[str, Digit], name: str, extent: int) -> Affine:
    """A slot of that extent: boxes that run over the same dimension in as many steps share it."""
    if extent <= 1:
        return Affine.of(0)
    digits.setdefault(name, Digit(name, "slot", Affine.of(extent)))
    return digit(name)


def _power_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _power_above(n: int) -> int:
    return 1 << (n - 1).bit_length()
