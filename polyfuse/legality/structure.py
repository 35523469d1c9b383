"""The schedule is well formed: what the other rules and the lowering take for granted.

Every placed statement runs exactly once in the order tree, inside the loops that its path names; its place mentions
digits that run there; thread digits cut the thread index without overlap, so that a box of digits is a box of threads.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.legality.apart import apart
from polyfuse.legality.relations import BARRIER, ELECTED, SHARES, Proof
from polyfuse.schedule import Finish, LoopNest, Placed, TreeItem, walk
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def executed(proof: Proof) -> Verdict:
    """The first fault found by the checks below, in their order.  No check is asked for a second one: behind a fault it
    takes for granted that there was none."""
    layout = (_digits, _cluster, _ahead, _rings, apart, _tree, _paths)
    for check in (*layout, _finishes, _combinations, _prefixes, _places, _boxes):
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
        if any(n[0] in "$%" for n in d.extent.names()):
            yield Hazard.BOUNDS, f"the extent {d.extent} of digit {d.name} is not a size"
    yield from _thread_digits(proof)


def _thread_digits(proof: Proof) -> Iterator[Fault]:
    """They cut the thread index; their extents are constants."""
    total = proof.schedule.threads
    for d in proof.schedule.of_kind("thread"):
        if d.name == "t" and d.count != total:
            yield Hazard.EFFECT, f"t, the thread index, has {d.count} values in a block of {total} threads"
    reach = 1
    for d in sorted(proof.schedule.of_kind("thread"), key=lambda d: d.stride):
        if d.count == 1:
            continue
        if d.stride != reach:
            fault = "overlaps another one" if d.stride < reach else "leaves threads out"
            yield Hazard.EFFECT, f"thread digit {d.name} of stride {d.stride} {fault}: its neighbour reaches {reach}"
        reach = d.stride * d.count


def _cluster(proof: Proof) -> Iterator[Fault]:
    """Threads of a cluster meet in nothing but combinations: shared memory, barriers and prefixes are of one block of
    the device."""
    schedule, cluster = proof.schedule, proof.schedule.cluster
    if cluster == 1:
        return
    if cluster < 1 or cluster & (cluster - 1) or schedule.threads % cluster:
        yield Hazard.CAPACITY, f"{cluster} blocks do not share {schedule.threads} threads evenly, in powers of two"
    elif schedule.threads // cluster & (schedule.threads // cluster - 1):
        yield Hazard.CAPACITY, f"{schedule.threads // cluster} threads of a block of a cluster are no power of two"
    if schedule.shared:
        yield Hazard.SCOPE, f"{schedule.shared[0].name} lies in shared memory, which the {cluster} blocks do not share"
    if any(item == BARRIER for item, _ in _walk(schedule.order, ())):
        yield Hazard.BARRIER, f"a barrier does not reach across the {cluster} blocks of a cluster"
    for placed in schedule.placed:
        statement = proof.statement(placed)
        if statement is not None and statement.scanned is not None:
            yield Hazard.COMBINE, f"the prefix {placed.name} would cross the {cluster} blocks of a cluster"


def _ahead(proof: Proof) -> Iterator[Fault]:
    """Loads run ahead of loops.  That they may is no question of order: a kernel loads what was there before it."""
    for name in proof.schedule.ahead:
        if name not in proof.names("loop"):
            yield Hazard.EFFECT, f"loads run a trip ahead of {name}, which is not a loop digit"


def _rings(proof: Proof) -> Iterator[Fault]:
    """A cell belongs to one thread, which copies to it again when it has read it: the trips that a ring holds are
    consecutive ones.  What a copy brings was there before the kernel, and is there where the load in its place was."""
    for name, trips in proof.schedule.rings:
        if name not in proof.names("loop"):
            yield Hazard.EFFECT, f"copies run ahead of {name}, which is not a loop digit"
        if name in proof.schedule.ahead:
            yield Hazard.EFFECT, f"what {name} loads lies both in registers and in a ring of shared memory"
        if trips < 2:
            yield Hazard.CAPACITY, f"a ring of {trips} trips of {name} leaves none to copy to while one is read"
        if proof.schedule.cluster > 1:
            yield Hazard.SCOPE, f"the ring of {name} lies in shared memory of one block, of a cluster of several"


def _tree(proof: Proof) -> Iterator[Fault]:
    visits: dict[str, int] = {}
    for item, loops in _walk(proof.schedule.order, ()):
        if isinstance(item, LoopNest):
            digit = proof.digits.get(item.digit)
            if digit is None or digit.kind != "loop":
                yield Hazard.COVERAGE, f"the order tree loops over {item.digit}, which is not a loop digit"
            if item.digit in loops:
                yield Hazard.EFFECT, f"a loop over {item.digit} lies inside another one over {item.digit}"
        elif isinstance(item, Finish):
            continue
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
        if not isinstance(item, str):
            yield from _walk(item.items, (*loops, item.digit))


def _paths(proof: Proof) -> Iterator[Fault]:
    for placed in proof.schedule.placed:
        inside = tuple(loop.removeprefix(ELECTED) for _, loop in proof.times[placed.name] if loop)
        path = tuple(loop for loop, _ in placed.path)
        if inside != path:
            text = "loops " + ", ".join(inside) if inside else "no loop"
            yield Hazard.COVERAGE, f"{placed.name} belongs in the loops ({', '.join(path)}) but runs in {text}"


def _finishes(proof: Proof) -> Iterator[Fault]:
    """Every block comes to every election, once, and nothing depends on which block wins it."""
    seen: set[str] = set()
    for item, around in _walk(proof.schedule.order, ()):
        if not isinstance(item, Finish):
            continue
        if around:
            yield Hazard.EFFECT, f"the election over {item.digit} lies inside {around[-1]}: it is held once per block"
        if item.digit not in proof.names("block"):
            yield Hazard.COVERAGE, f"the election is held over {item.digit}, which is not a block digit"
        if item.digit in seen:
            yield Hazard.EFFECT, f"two elections are held over {item.digit}"
        seen.add(item.digit)
    for placed in proof.schedule.placed:
        along = proof.schedule.finish_of(placed)
        if along and along in placed.digits():
            yield Hazard.SCOPE, f"{placed.name} depends on {along}, over which any block may be elected to run it"


def _combinations(proof: Proof) -> Iterator[Fault]:
    """Shares are those of reductions that are combined along one block digit, in front of the election over it
    where there is one."""
    names = [g.reduction for g in proof.schedule.grid_combine]
    for g in proof.schedule.grid_combine:
        statement = proof.statement(proof.placed[g.reduction]) if g.reduction in proof.placed else None
        if statement is None or not statement.is_reduction or names.count(g.reduction) > 1:
            yield Hazard.COMBINE, f"{g.reduction} is combined over {g.digit}, but is no reduction, or is so twice"
        if g.digit not in proof.names("block"):
            yield Hazard.COMBINE, f"{g.reduction} is combined over {g.digit}, which is not a block digit"
    for placed in proof.schedule.placed:
        if placed.role in SHARES:
            if proof.schedule.finish_of(placed):
                yield Hazard.EFFECT, f"{placed.name} hands on a share after the election"
            if len(placed.providers) != 1 or placed.providers[0] not in names:
                yield Hazard.COMBINE, f"{placed.name} hands on the share of nothing that is combined over blocks"
        elif placed.role == "total" and not proof.schedule.finish_of(placed):
            yield Hazard.COVERAGE, f"{placed.name} takes a total, but not in what an elected block finishes"


def _prefixes(proof: Proof) -> Iterator[Fault]:
    """What goes on from block to block is a scan along one block digit, once in every block."""
    names = [scan.scan for scan in proof.schedule.grid_scans]
    for scan in proof.schedule.grid_scans:
        placed = proof.placed.get(scan.scan)
        statement = proof.statement(placed) if placed is not None else None
        if placed is None or statement is None or statement.scanned is None or names.count(scan.scan) > 1:
            yield Hazard.COMBINE, f"{scan.scan} goes on from block to block, but is no prefix, or does so twice"
            return
        if scan.digit not in proof.names("block"):
            yield Hazard.COMBINE, f"{scan.scan} goes on along {scan.digit}, which is not a block digit"
        if scan.group < 1 or scan.lead < 0:
            yield Hazard.CAPACITY, f"{scan.scan} leaves {scan.group} totals as one, {scan.lead} blocks ahead"
        if placed.path:
            yield Hazard.EFFECT, f"{scan.scan} goes on from block to block inside {placed.path[0][0]}, not once"
        if proof.schedule.cluster > 1:
            yield Hazard.COMBINE, f"the prefix {scan.scan} goes on from block to block, not from cluster to cluster"
    yield from _left_ahead(proof)


def _left_ahead(proof: Proof) -> Iterator[Fault]:
    """Totals are left ahead by a part of the kernel that takes none, stores nothing and holds no election."""
    schedule = proof.schedule
    scans = [scan for scan in schedule.grid_scans if scan.lead]
    for scan in scans:
        if any((other.digit, other.lead) != (scan.digit, scan.lead) for other in schedule.grid_scans):
            yield Hazard.EFFECT, f"{scan.scan} is left {scan.lead} blocks ahead, and others are not"
    first = next((scan.scan for scan in scans), "")
    behind: set[str] = set()
    for name in [step.name for step in walk(schedule.order) if step.name != BARRIER]:
        placed = proof.placed[name]
        after = any(provider in behind for provider in placed.providers)
        if scans and after and name in schedule.summed_ahead():
            yield Hazard.EFFECT, f"{name} needs what blocks hand on, and is summed ahead of it"
        if after or name in {scan.scan for scan in scans}:
            behind.add(name)
        if scans and placed.role in (*SHARES, "total", "put", "get"):
            yield Hazard.EFFECT, f"{name} runs in one part of a kernel whose totals {first} are left ahead by another"


def _places(proof: Proof) -> Iterator[Fault]:
    sizes = frozenset(proof.scop.program.symbols)
    for placed in proof.schedule.placed:
        if len(placed.place) != len(proof.extents(placed)):
            yield Hazard.COVERAGE, f"{placed.name} has {len(placed.place)} coordinates of {len(proof.extents(placed))}"
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
    if entry not in proof.placed or proof.placed[entry].role not in ("compute", "load", "get", "take"):
        yield Hazard.COVERAGE, f"{placed.name} is placed at the value of {entry}, which no register holds"


def _boxes(proof: Proof) -> Iterator[Fault]:
    if len(proof.boxes) != len(proof.schedule.shared):
        yield Hazard.WAW, "two shared boxes hold one value"
    for box in proof.schedule.shared:
        rank = len(proof.scop.shape(box.value))
        if not len(box.origin) == len(box.extents) == len(box.pitch) == rank:
            yield Hazard.BOUNDS, f"the box of {box.name} has not {rank} dimensions"
        for origin in box.origin:
            for name in proof.used(origin):
                if name not in proof.digits or proof.digits[name].kind not in ("block", "loop"):
                    yield Hazard.BOUNDS, f"the origin {origin} of the box of {box.name} varies inside a block"
    for move in (p for p in proof.schedule.placed if p.role in ("put", "get")):
        if move.value not in proof.boxes:
            yield Hazard.BOUNDS, f"{move.name} moves {proof.name(move)}, which has no shared box"
        pinned = proof.used(*proof.boxes[move.value].origin) & proof.names("loop")
        for loop in sorted(pinned - set(proof.loops(move))):
            yield Hazard.BOUNDS, f"{move.name} runs outside the loop {loop} that its box moves with"
