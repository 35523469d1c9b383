"""The schedule is well formed: what the other rules and the lowering take for granted.

Every placed statement runs exactly once in the order tree, inside the loops that its path names; its place mentions
digits that run there; thread digits cut the thread index without overlap, so that a box of digits is a box of threads.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.legality.relations import BARRIER, Proof
from polyfuse.schedule import LoopNest, Placed, TreeItem
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def executed(proof: Proof) -> Verdict:
    """The first fault found by the checks below, in their order."""
    for check in (_digits, _tree, _paths, _places, _boxes):
        for hazard, sentence in check(proof):
            return illegal(hazard, sentence, rule="executed")
    return LEGAL


Fault = tuple[Hazard, str]


def _digits(proof: Proof) -> Iterator[Fault]:
    if len(proof.digits) != len(proof.schedule.digits):
        yield Hazard.EFFECT, "two digits have one name"
    for d in proof.schedule.digits:
        if d.kind in ("thread", "slot") and not (d.extent.is_constant and d.count >= 1):
            yield Hazard.CAPACITY, f"{d.kind} digit {d.name} has the extent {d.extent}, which is no positive constant"
            return
        if any(n[0] in "$%" for n in d.extent.names()):
            yield Hazard.BOUNDS, f"the extent {d.extent} of digit {d.name} is not a size"
    reach = 1
    for d in sorted(proof.schedule.of_kind("thread"), key=lambda d: d.stride):
        if d.count == 1:
            continue
        if d.stride != reach:
            fault = "overlaps another one" if d.stride < reach else "leaves threads out"
            yield Hazard.EFFECT, f"thread digit {d.name} of stride {d.stride} {fault}: its neighbour reaches {reach}"
        reach = d.stride * d.count


def _tree(proof: Proof) -> Iterator[Fault]:
    visits: dict[str, int] = {}
    for item, loops in _walk(proof.schedule.order, ()):
        if isinstance(item, LoopNest):
            digit = proof.digits.get(item.digit)
            if digit is None or digit.kind != "loop":
                yield Hazard.COVERAGE, f"the order tree loops over {item.digit}, which is not a loop digit"
            if item.digit in loops:
                yield Hazard.EFFECT, f"a loop over {item.digit} lies inside another one over {item.digit}"
        elif item != BARRIER:
            visits[item] = visits.get(item, 0) + 1
    if len(proof.placed) != len(proof.schedule.placed):
        yield Hazard.EFFECT, "two placed statements have one name"
    for name, count in visits.items():
        if name not in proof.placed:
            yield Hazard.COVERAGE, f"the order tree runs {name}, which is placed nowhere"
        if count > 1:
            yield Hazard.EFFECT, f"{name} runs at {count} positions of the order tree"
    for name in proof.placed:
        if name not in visits:
            yield Hazard.COVERAGE, f"{name} is placed but never executed"


def _walk(order: tuple[TreeItem, ...], loops: tuple[str, ...]) -> Iterator[tuple[TreeItem, tuple[str, ...]]]:
    for item in order:
        yield item, loops
        if isinstance(item, LoopNest):
            yield from _walk(item.items, (*loops, item.digit))


def _paths(proof: Proof) -> Iterator[Fault]:
    for placed in proof.schedule.placed:
        inside, path = proof.loops(placed), tuple(loop for loop, _ in placed.path)
        if inside != path:
            text = "loops " + ", ".join(inside) if inside else "no loop"
            yield Hazard.COVERAGE, f"{placed.name} belongs in the loops ({', '.join(path)}) but runs in {text}"


def _places(proof: Proof) -> Iterator[Fault]:
    sizes = frozenset(proof.scop.program.symbols)
    for placed in proof.schedule.placed:
        if len(placed.place) != len(proof.extents(placed)):
            yield Hazard.COVERAGE, f"{placed.name} has {len(placed.place)} coordinates of {len(proof.extents(placed))}"
            return
        for entry in placed.place:
            if isinstance(entry, str):
                yield from _gathered_place(proof, placed, entry)
                continue
            for name in entry.names() - sizes:
                digit = proof.digits.get(name[1:]) if name.startswith("$") else None
                if digit is None:
                    yield Hazard.COVERAGE, f"{placed.name} is placed at {entry}, but {name} is no digit"
                elif digit.kind == "loop" and digit.name not in proof.loops(placed):
                    yield Hazard.COVERAGE, f"{placed.name} is placed at {entry} outside the loop over {digit.name}"


def _gathered_place(proof: Proof, placed: Placed, entry: str) -> Iterator[Fault]:
    if placed.role != "load":
        yield Hazard.COVERAGE, f"{placed.name} is placed at data, which only a load can be"
    if entry not in proof.placed or proof.placed[entry].role not in ("compute", "load", "get"):
        yield Hazard.COVERAGE, f"{placed.name} is placed at the value of {entry}, which no register holds"


def _boxes(proof: Proof) -> Iterator[Fault]:
    if len(proof.boxes) != len(proof.schedule.shared):
        yield Hazard.WAW, "two shared boxes hold one value"
    for box in proof.schedule.shared:
        rank = len(proof.scop.shape(box.value))
        if not len(box.origin) == len(box.extents) == len(box.pitch) == rank:
            yield Hazard.BOUNDS, f"the box of {box.name} has not {rank} dimensions"
            return
        for origin in box.origin:
            for name in proof.used(origin):
                if name not in proof.digits or proof.digits[name].kind not in ("block", "loop"):
                    yield Hazard.BOUNDS, f"the origin {origin} of the box of {box.name} varies inside a block"
    for move in (p for p in proof.schedule.placed if p.role in ("put", "get")):
        if move.value not in proof.boxes:
            yield Hazard.BOUNDS, f"{move.name} moves {proof.name(move)}, which has no shared box"
            return
        pinned = proof.used(*proof.boxes[move.value].origin) & proof.names("loop")
        for loop in sorted(pinned - set(proof.loops(move))):
            yield Hazard.BOUNDS, f"{move.name} runs outside the loop {loop} that its box moves with"


