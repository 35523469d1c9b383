"""The order tree: placed statements sorted by dependence, loops with the same pass number merged, barriers inserted.

   load x (c)  max m (c)  |  exp e (c)  sum s (c)  |  div y (c)        paths: c pass 0 | c pass 1 | c pass 2
-> for c: {x; m}   for c: {x_2; e; s}   for c: {x_3; e_2; y; store}

What the elected block finishes comes last: every block stores its partial results before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from graphlib import CycleError
from heapq import heapify, heappop, heappush

from polyfuse.schedule import Finish, LoopNest, Placed, TreeItem, walk

Key = tuple[str, int] | str


Rank = tuple[bool, int, int, int]
LAST = 1 << 62


def order_tree(
    placed: Sequence[Placed],
    collective: frozenset[int] = frozenset(),
    finishes: Collection[str] = (),
    *,
    waiting: bool = False,
) -> tuple[TreeItem, ...]:
    """Statements and loop nests in an order that respects every provider; ties: loads first, then last placed first.

    `collective`: values whose making all threads wait for (reductions, scans).  A load that only serves statements
    after one is left until its first reader: it would hold its registers meanwhile, and fewer blocks would fill the
    gaps that waiting leaves (layernorm of rows of 4096: 56 registers, where loads at once after the sum make it 78).
    In a loop all loads come first: their latencies overlap.  `finishes`: block digits, in paths the parts that elected
    blocks run.  `waiting`: what is read behind a collective waits in shared memory meanwhile, so that a collective is
    behind all that needs none before it, as `stages` count: of ``x[:-1] + x[1:]`` the sum waits, not both terms.
    """
    by_name = {p.name: p for p in placed}
    stage = stages(placed, collective)
    rank = {
        p.name: (bool(p.path) and p.path[0][0] in finishes, stage[p.name], _kind(p, collective, waiting), k)
        for k, p in enumerate(reversed(placed))
    }
    tree = _level([p.name for p in placed], by_name, rank, 0)
    return tuple(
        Finish(item.digit, item.items) if isinstance(item, LoopNest) and item.digit in finishes else item
        for item in tree
    )


def _kind(placed: Placed, collective: frozenset[int], waiting: bool) -> int:
    """Loads, what follows them, and where all wait for it, the collectives."""
    if placed.role == "load":
        return 0
    return 2 if waiting and placed.role == "compute" and placed.value in collective else 1


def stages(placed: Sequence[Placed], collective: frozenset[int]) -> dict[str, int]:
    """How many collectives a statement comes after; for a load, after how many its first reader comes."""
    by_name = {p.name: p for p in placed}
    stage: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in stage:
            stage[name] = max([of(s) + waited(by_name[s]) for s in sources(by_name[name])], default=0)
        return stage[name]

    def waited(p: Placed) -> bool:
        return p.role == "compute" and p.value in collective

    for p in reversed(placed):
        of(p.name)
    readers: dict[str, list[int]] = {}
    for p in placed:
        for source in sources(p):
            readers.setdefault(source, []).append(stage[p.name])
    return {n: min(readers.get(n, [s])) if by_name[n].role == "load" else s for n, s in stage.items()}


def sources(statement: Placed) -> list[str]:
    """The placed statements whose results `statement` uses."""
    return [*statement.providers, *(entry for entry in statement.place if isinstance(entry, str))]


def _level(
    names: Sequence[str], by_name: dict[str, Placed], rank: dict[str, Rank], depth: int
) -> tuple[TreeItem, ...]:
    key_of: dict[str, Key] = {}
    members: dict[Key, list[str]] = {}
    for name in names:
        path = by_name[name].path
        key: Key = path[depth] if depth < len(path) else name
        key_of[name] = key
        members.setdefault(key, []).append(name)
    first = {key: min(rank[n] for n in inside) for key, inside in members.items()}
    before: dict[Key, set[Key]] = {key: set() for key in members}
    after: dict[Key, list[Key]] = {key: [] for key in members}
    for name in names:
        key = key_of[name]
        for source in sources(by_name[name]):
            earlier = key_of.get(source, key)
            if earlier != key and earlier not in before[key]:
                before[key].add(earlier)
                after[earlier].append(key)
    waiting = {key: len(earlier) for key, earlier in before.items()}
    ready = [(first[key], key) for key, count in waiting.items() if not count]  # no two keys have a rank in common
    heapify(ready)
    items: list[TreeItem] = []
    while ready:
        _, key = heappop(ready)
        items.append(key if isinstance(key, str) else LoopNest(key[0], _level(members[key], by_name, rank, depth + 1)))
        for later in after[key]:
            waiting[later] -= 1
            if not waiting[later]:
                heappush(ready, (first[later], later))
    if len(items) < len(members):
        raise CycleError("loops that wait for each other", [key for key, count in waiting.items() if count])
    return tuple(items if depth else _late_loads(items, by_name, rank))


def _late_loads(items: list[TreeItem], by_name: dict[str, Placed], rank: dict[str, Rank]) -> list[TreeItem]:
    """The items with every load that only serves statements after a collective right before its first reader; the last
    load moves first."""
    names = {item: k for k, item in enumerate(items) if isinstance(item, str)}
    late = [name for name in names if by_name[name].role == "load" and rank[name][1]]
    readers: dict[str, list[int]] = {name: [] for name in late}
    for k, item in enumerate(items if late else ()):
        for leaf in [item] if isinstance(item, str) else [step.name for step in walk(item.items)]:
            for source in sources(by_name[leaf]):
                if source in readers:
                    readers[source].append(k)
    at: list[tuple[int, ...]] = [(k, LAST) for k in range(len(items) + 1)]  # in front of an item, each by its turn
    for turn, load in enumerate(reversed(late)):
        first = min([at[k] for k in readers[load]], default=at[-1])
        at[names[load]] = (*first[:-1], turn, LAST)
    return [items[k] for k in sorted(range(len(items)), key=at.__getitem__)]


def with_barriers(order: tuple[TreeItem, ...], placed: Sequence[Placed]) -> tuple[TreeItem, ...]:
    """Insert the barriers that shared buffers need: between a put and its gets, and between gets and the next put of
    the same box around a loop.  A hazard that enters a loop from outside is cut before the loop, once."""
    by_name = {p.name: p for p in placed}
    return _synchronise(order, by_name, set(), set())[0]


def in_step(order: tuple[TreeItem, ...], loops: frozenset[str]) -> tuple[TreeItem, ...]:
    """The order with a barrier at the begin of every trip of `loops`."""
    return tuple([
        item
        if isinstance(item, str) or not loops
        else replace(item, items=(*(("barrier",) if item.digit in loops else ()), *in_step(item.items, loops)))
        for item in order
    ])


State = tuple[tuple[TreeItem, ...], set[str], set[str]]


def _synchronise(order: tuple[TreeItem, ...], by_name: dict[str, Placed], written: set[str], read: set[str]) -> State:
    """`written` / `read`: boxes touched since the last barrier."""
    out: list[TreeItem] = []
    for item in order:
        if isinstance(item, LoopNest):
            once = _synchronise(item.items, by_name, set(), set())
            body, w, r = _synchronise(item.items, by_name, once[1], once[2])  # steady state: enter as the loop leaves
            touched_put, touched_get = _touched(item.items, by_name)
            if (written & (touched_put | touched_get)) or (read & touched_put):
                out.append("barrier")
                written, read = set(), set()
            out.append(LoopNest(item.digit, body))
            written, read = written | w, read | r
            continue
        if isinstance(item, Finish):
            body, w, r = _synchronise(item.items, by_name, written, read)
            out.append(Finish(item.digit, body))
            written, read = written | w, read | r
            continue
        if item in by_name:
            statement = by_name[item]
            box = _box(statement, by_name)
            if statement.role == "put" and (box in written or box in read):
                out.append("barrier")
                written, read = set(), set()
            if statement.role == "get" and box in written:
                out.append("barrier")
                written, read = set(), set()
            if statement.role == "put":
                written = written | {box}
            if statement.role == "get":
                read = read | {box}
        out.append(item)
    return tuple(out), written, read


def _box(statement: Placed, by_name: dict[str, Placed]) -> str:
    """The put that owns the box a move touches."""
    return statement.name if statement.role == "put" else statement.providers[0] if statement.role == "get" else ""


def _touched(items: tuple[TreeItem, ...], by_name: dict[str, Placed]) -> tuple[set[str], set[str]]:
    put, got = set(), set()
    for item in items:
        if not isinstance(item, str):
            inner = _touched(item.items, by_name)
            put |= inner[0]
            got |= inner[1]
        elif item in by_name and by_name[item].role in ("put", "get"):
            (put if by_name[item].role == "put" else got).add(_box(by_name[item], by_name))
    return put, got
