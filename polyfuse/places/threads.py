"""Common refinement of thread digits: places that cut the thread index differently meet in the finest cut.

   t = 0..255  in one place,  lane = t % 32 and warp = t // 32  in another
-> t0 (stride 1, extent 32), t1 (stride 32, extent 8);  t = 32*t1 + t0, lane = t0, warp = t1
"""

from __future__ import annotations

from polyfuse.affine import Affine, digit
from polyfuse.schedule import Digit, Placed, PlaceEntry, SharedBox


def refine_threads(
    digits: tuple[Digit, ...], placed: tuple[Placed, ...], boxes: tuple[SharedBox, ...]
) -> tuple[tuple[Digit, ...], tuple[Placed, ...], tuple[SharedBox, ...]]:
    """Replace overlapping thread digits by disjoint ones that cover the whole thread index."""
    threads = [d for d in digits if d.kind == "thread"]
    if not threads:
        return digits, placed, boxes
    cuts = sorted({1} | {d.stride for d in threads} | {d.stride * d.count for d in threads})
    pieces = [(low, high // low) for low, high in zip(cuts, cuts[1:], strict=False)]
    same = {(d.stride, d.count): d.name for d in threads if d.name != "t" or len(pieces) == 1}  # t is the whole index
    taken = {d.name for d in digits if d.kind != "thread"}
    refined: list[Digit] = []
    for k, (stride, extent) in enumerate(pieces):
        name = same.get((stride, extent), "t" if len(pieces) == 1 else f"t{k}")
        while name in taken:
            name += "_"
        taken.add(name)
        refined.append(Digit(name, "thread", Affine.of(extent), stride))
    values = {f"${d.name}": _expand(d, refined) for d in threads if d not in refined}
    others = tuple([d for d in digits if d.kind != "thread"])
    if values:
        places = {place: tuple([_substitute(e, values) for e in place]) for place in {p.place for p in placed}}
        placed = tuple([p.moved(places[p.place]) for p in placed])
    return (
        (*(d for d in others if d.kind == "block"), *reversed(refined), *(d for d in others if d.kind != "block")),
        placed,
        boxes,
    )


def _expand(thread: Digit, refined: list[Digit]) -> Affine:
    inside = [d for d in refined if thread.stride <= d.stride < thread.stride * thread.count]
    total = Affine.of(0)
    for d in inside:
        total += digit(d.name) * (d.stride // thread.stride)
    return total


def _substitute(entry: PlaceEntry, values: dict[str, Affine]) -> PlaceEntry:
    return entry if isinstance(entry, str) else entry.substitute(values)
