"""Windows of registers: what the slots of one thread need of a value, at neighbouring elements, as one box.

   x at [8*t + q, 4*s + v], [8*t + q + 1, 4*s + v] and [8*t + q, 4*s + v + 1],  q < 8, v < 4, loaded by 4
-> x at [8*t + r0x9, 4*s + 4*r1x2 + w4], a window of 9 x 8, of which each need takes 8 x 4

Every element is then loaded or computed once per thread, however many of its neighbours read it, and loads are aligned
whatever the offset.  A window that would hold more than its parts together is not made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from heapq import heappop, heappush
from itertools import combinations, count
from math import gcd, prod

from polyfuse.affine import Affine, digit
from polyfuse.places.boxes import Span, Unbounded, span
from polyfuse.schedule import Digit

Place = tuple[Affine, ...]
MOST_REGISTERS = 1 << 16
"""Of a window: no thread has nearly as many.  Sums and differences of neighbours, 80 times one of the other, step by
2**80 elements in the end, and prices of such windows are numbers that no float holds."""

Box = tuple[tuple[int, int], ...]
"""Per dimension the first and the last element."""


@dataclass(frozen=True, slots=True)
class Window:
    """The places that one window serves, its range per dimension, the elements loaded at once, and its registers.
    `taken`: they are taken out of the window; else the only place needs none."""

    places: tuple[Place, ...]
    spans: tuple[Span, ...]
    vector: int
    registers: int
    taken: bool = True


def windows(
    places: Sequence[Place], digits: Mapping[str, Digit], slots: set[str], vector: int, *, loaded: bool = False
) -> list[Window]:
    """The windows that serve `places`, in order of their first places.

    Of those that move together from thread to thread the two whose union saves most become one, as long as one saves.
    Of an array that is `loaded` also those that lie side by side: their elements have one address between them.  On an
    H200, largest of 3 x 3 around every second element of 103 million bfloat16: 93 us where a thread of eight rows has
    two windows of 17 rows, 83 where it has one.
    """
    fixed = {name for name in digits if name not in slots}
    together: dict[tuple[object, ...], list[Window]] = {}
    for place in places:
        window = _window(place, digits, fixed, vector)
        key = (window.vector, *(s.base for s in window.spans)) if window.spans else (place,)
        together.setdefault(key, []).append(window)
    found = [w for group in together.values() for w in _merged(group, 0 if loaded else 1)]
    return [w if len(w.places) > 1 else _alone(_by_itself(w, digits, fixed), digits, slots) for w in found]


def _by_itself(window: Window, digits: Mapping[str, Digit], fixed: set[str]) -> Window:
    """A window of a single place, which takes no vector where no slot runs along one."""
    place = window.places[0]
    runs = bool(place) and any(name[1:] not in fixed for name in place[-1].names() if name.startswith("$"))
    return window if runs else _window(place, digits, fixed, 1)


def _window(place: Place, digits: Mapping[str, Digit], fixed: set[str], vector: int) -> Window:
    try:
        spans = [span(entry, digits, fixed) for entry in place]
    except Unbounded:
        return Window((place,), (), 1, 0, taken=False)
    vector = gcd(vector, *[factor for _, factor in spans[-1].base.terms]) if place else 1
    if spans:
        last = spans[-1]
        low, end = last.lower // vector * vector, -(-(last.upper + 1) // vector) * vector
        spans[-1] = Span(last.base, low, end - 1)
    return Window((place,), tuple(spans), vector, prod([s.upper - s.lower + 1 for s in spans]))


def _merged(group: list[Window], least: int) -> list[Window]:
    """Windows that move alike, merged where that saves `least` registers."""
    if not group[0].spans:
        return group
    origin = [s.lower for s in group[0].spans]
    boxes = [tuple([(s.lower - o, s.upper - o) for s, o in zip(w.spans, origin, strict=True)]) for w in group]
    return [reduce(_joined, [group[k] for k in part]) for part in _parts(tuple(boxes), least)]


@lru_cache(maxsize=1000)
def _parts(boxes: tuple[Box, ...], least: int) -> tuple[tuple[int, ...], ...]:
    """The boxes that become one, by number: every pair is looked at once, and again when one of it has grown.  Of pairs
    that save as much the one that was looked at first is merged."""
    alive: dict[int, tuple[Box, int, tuple[int, ...]]] = {k: (b, _volume(b), (k,)) for k, b in enumerate(boxes)}
    grown = [0] * len(boxes)
    looked, pairs = count(), list[tuple[int, int, int, int, int]]()

    def look(a: int, b: int) -> None:
        (one, volume, _), (other, further, _) = alive[a], alive[b]
        if (saved := volume + further - _volume(_union(one, other))) >= least:
            heappush(pairs, (-saved, next(looked), a, b, grown[a] + grown[b]))

    for a, b in combinations(alive, 2):
        look(a, b)
    while pairs:
        _, _, a, b, then = heappop(pairs)
        if a in alive and b in alive and then == grown[a] + grown[b]:
            (one, _, first), (other, _, second) = alive[a], alive.pop(b)
            alive[a] = _union(one, other), _volume(_union(one, other)), first + second
            grown[a] += 1
            for c in alive:
                if c != a:
                    look(min(a, c), max(a, c))
    return tuple([numbers for _, _, numbers in alive.values()])


def _union(one: Box, other: Box) -> Box:
    pairs = zip(one, other, strict=True)
    return tuple([(a if a < c else c, b if b > d else d) for (a, b), (c, d) in pairs])


def _volume(box: Box) -> int:
    volume = 1
    for lower, upper in box:
        volume *= upper - lower + 1
    return volume


def _joined(first: Window, second: Window) -> Window:
    pairs = zip(first.spans, second.spans, strict=True)
    spans = tuple([Span(a.base, min(a.lower, b.lower), max(a.upper, b.upper)) for a, b in pairs])
    count = prod([s.upper - s.lower + 1 for s in spans])
    return Window((*first.places, *second.places), spans, first.vector, count)


def _alone(window: Window, digits: Mapping[str, Digit], slots: set[str]) -> Window:
    """A single place needs a window only where its slots meet elements more than once, or are no aligned vectors."""
    (place,) = window.places
    used = [name for name in slots if any(f"${name}" in entry.names() for entry in place)]
    points = prod(digits[name].count for name in used)
    along = {a[1:]: f for a, f in place[-1].terms if isinstance(a, str) and a[1:] in slots} if place else {}
    neighbours = min(along, key=lambda name: along[name], default="")
    last = next((name for name in reversed(list(digits)) if name in used), "")  # what an access takes side by side
    count = digits[last].count if last else 1
    in_a_row = not last or last == neighbours and count & count - 1 == 0 and count <= window.vector
    vectors = not neighbours or along[neighbours] == 1 and in_a_row
    aligned = window.vector == 1 or (points == window.registers and vectors)
    plain = not window.spans or (points <= window.registers and aligned)
    return replace(window, taken=window.taken and not plain)


def window_place(window: Window, digits: dict[str, Digit], slots: set[str]) -> Place:
    """The place of what fills the window.  New slots are added to `digits` and to `slots`."""
    place: list[Affine] = []
    for d, s in enumerate(window.spans):
        last = d == len(window.spans) - 1
        width = window.vector if last else 1
        count = (s.upper - s.lower + 1) // width
        run = _slot(f"r{d}x{count}", count, digits, slots) * width
        place.append(s.base + s.lower + run + _slot(f"w{width}", width, digits, slots))
    return tuple(place)


def _slot(name: str, extent: int, digits: dict[str, Digit], slots: set[str]) -> Affine:
    if extent == 1:
        return Affine.of(0)
    digits.setdefault(name, Digit(name, "slot", Affine.of(extent)))
    slots.add(name)
    return digit(name)


def is_window_slot(name: str) -> bool:
    """Whether a slot runs over whole elements or vectors of a window."""
    return name.startswith("r") and "x" in name


def is_slot_of_window(name: str) -> bool:
    """The same, or over the elements of one of its vectors."""
    return is_window_slot(name) or name.startswith("w")
