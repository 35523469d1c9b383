"""Small random changes of a schedule; most make it illegal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

from polyfuse.affine import Affine, digit
from polyfuse.schedule import Digit, Finish, KernelSchedule, LoopNest, Placed, SharedBox, TreeItem
from polyfuse.scop import InputStatement, Scop, Statement

Change = Callable[[Random, Scop, KernelSchedule], "KernelSchedule | None"]


def tampered(random: Random, scop: Scop, schedule: KernelSchedule) -> tuple[KernelSchedule, str] | None:
    """The schedule after one random change, and the name of the change; None where none that was tried applies."""
    elections = bool(schedule.grid_combine) and random.random() < 0.5
    for change in random.sample(ELECTIONS if elections else CHANGES, 5):
        done = change(random, scop, schedule)
        if done is not None and done != schedule:
            return done, change.__name__
    return None


def with_items(item: LoopNest | Finish, items: tuple[TreeItem, ...]) -> LoopNest | Finish:
    """The same loop or election around other items."""
    return replace(item, items=items)


def with_placed(schedule: KernelSchedule, old: str, new: Placed) -> KernelSchedule:
    return replace(schedule, placed=tuple(new if p.name == old else p for p in schedule.placed))


# ---------------------------------------------------------------------------------------------- places


def _move(random: Random, schedule: KernelSchedule, change: Callable[[Affine], Affine]) -> KernelSchedule | None:
    """Apply `change` to one affine coordinate of one place."""
    chosen = random.choice(schedule.placed)
    dims = [d for d, e in enumerate(chosen.place) if isinstance(e, Affine)]
    if not dims:
        return None
    at = random.choice(dims)
    place = tuple(change(e) if d == at and isinstance(e, Affine) else e for d, e in enumerate(chosen.place))
    return with_placed(schedule, chosen.name, replace(chosen, place=place))


def shift_place(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    return _move(random, schedule, lambda e: e + random.choice((-1, 1)))


def scale_place(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """Change the weight of one digit."""

    def change(entry: Affine) -> Affine:
        names = sorted(n for n in entry.names() if n[0] == "$")
        return entry + Affine.symbol(random.choice(names)) * random.choice((-1, 1, 2)) if names else entry

    return _move(random, schedule, change)


def swap_digit(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """Use another digit, of a kind that may run there."""

    def change(entry: Affine) -> Affine:
        names = sorted(n for n in entry.names() if n[0] == "$")
        others = [d.name for d in schedule.digits if d.kind != "loop"]
        if not names or not others:
            return entry
        return entry.substitute({random.choice(names): digit(random.choice(others))})

    return _move(random, schedule, change)


def add_digit(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    others = [d.name for d in schedule.digits if d.kind != "loop"]
    return _move(random, schedule, lambda e: e + digit(random.choice(others))) if others else None


# ---------------------------------------------------------------------------------------------- digits


def resize_digit(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """One pass or block more or fewer; a thread digit becomes a power of two, or loses its neighbours."""
    if not schedule.digits:
        return None
    chosen = random.choice(schedule.digits)
    step = random.choice((-1, 1))
    if chosen.extent.is_constant and chosen.count + step < 1:
        return None
    return _with_digit(schedule, chosen, replace(chosen, extent=chosen.extent + step))


def restride(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    threads = schedule.of_kind("thread")
    if not threads:
        return None
    chosen = random.choice(threads)
    return _with_digit(schedule, chosen, replace(chosen, stride=max(1, chosen.stride + random.choice((-1, 1, 2)))))


def _with_digit(schedule: KernelSchedule, old: Digit, new: Digit) -> KernelSchedule:
    return replace(schedule, digits=tuple(new if d is old else d for d in schedule.digits))


# ---------------------------------------------------------------------------------------------- order


def _rewrite(
    random: Random, items: tuple[TreeItem, ...], change: Callable[[list[TreeItem]], list[TreeItem]]
) -> tuple[TreeItem, ...]:
    """Apply `change` to one level of an order tree."""
    nests = [k for k, item in enumerate(items) if not isinstance(item, str)]
    if nests and random.random() < 0.7:
        at = random.choice(nests)
        nest = items[at]
        assert not isinstance(nest, str)
        inner = with_items(nest, _rewrite(random, nest.items, change))
        return (*items[:at], inner, *items[at + 1 :])
    return tuple(change(list(items)))


def swap_order(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    def change(items: list[TreeItem]) -> list[TreeItem]:
        if len(items) > 1:
            at = random.randrange(len(items) - 1)
            items[at], items[at + 1] = items[at + 1], items[at]
        return items

    return replace(schedule, order=_rewrite(random, schedule.order, change))


def split_loop(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """``for r: {a; b}`` becomes ``for r: {a}  for r: {b}``."""

    def change(items: list[TreeItem]) -> list[TreeItem]:
        nests = [k for k, i in enumerate(items) if isinstance(i, LoopNest) and len(i.items) > 1]
        if not nests:
            return items
        at = random.choice(nests)
        nest = items[at]
        assert isinstance(nest, LoopNest)
        cut = random.randrange(1, len(nest.items))
        halves = (LoopNest(nest.digit, nest.items[:cut]), LoopNest(nest.digit, nest.items[cut:]))
        return [*items[:at], *halves, *items[at + 1 :]]

    return replace(schedule, order=_rewrite(random, schedule.order, change))


def merge_loops(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """``for r: {a}  for r: {b}`` becomes ``for r: {a; b}``, at the first place where there are two such."""
    merged = _merged(schedule.order)
    return None if merged is None else replace(schedule, order=merged)


def _merged(items: tuple[TreeItem, ...]) -> tuple[TreeItem, ...] | None:
    nests = [(k, i) for k, i in enumerate(items) if isinstance(i, LoopNest)]
    for (at, one), (after, two) in pairwise(nests):
        if one.digit == two.digit:
            both = LoopNest(one.digit, (*one.items, *two.items))
            return (*items[:at], both, *items[at + 1 : after], *items[after + 1 :])
    for at, nest in enumerate(items):
        inside = None if isinstance(nest, str) else _merged(nest.items)
        if inside is not None and not isinstance(nest, str):
            return (*items[:at], with_items(nest, inside), *items[at + 1 :])
    return None


def swap_loops(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """``for r: for k: ..`` becomes ``for k: for r: ..``, consistently with the paths."""
    pairs = {(a[0], b[0]) for p in schedule.placed for a, b in zip(p.path, p.path[1:], strict=False)}
    if not pairs:
        return None
    one, two = random.choice(sorted(pairs))
    names = {one: two, two: one}

    def renamed(items: tuple[TreeItem, ...]) -> tuple[TreeItem, ...]:
        return tuple(
            i if isinstance(i, str) else replace(i, digit=names.get(i.digit, i.digit), items=renamed(i.items))
            for i in items
        )

    placed = tuple(replace(p, path=tuple((names.get(n, n), k) for n, k in p.path)) for p in schedule.placed)
    return replace(schedule, order=renamed(schedule.order), placed=placed)


def into_loop(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """A leaf next to a loop moves into it, or one in a loop that it does not use moves out; paths follow."""
    order = list(schedule.order)
    nests = [k for k, i in enumerate(order) if isinstance(i, LoopNest)]
    leaves = [k for k, i in enumerate(order) if isinstance(i, str) and i != "barrier"]
    if not nests or not leaves:
        return None
    leaf, at = random.choice(leaves), random.choice(nests)
    name, nest = order[leaf], order[at]
    assert isinstance(name, str) and isinstance(nest, LoopNest)
    items = (name, *nest.items) if leaf < at else (*nest.items, name)
    order[at] = LoopNest(nest.digit, items)
    del order[leaf]
    moved = schedule.by_name()[name]
    return replace(with_placed(schedule, name, replace(moved, path=((nest.digit, 0),))), order=tuple(order))


def drop_barrier(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    def without(items: tuple[TreeItem, ...], target: int, seen: list[int]) -> tuple[TreeItem, ...]:
        kept: list[TreeItem] = []
        for item in items:
            if not isinstance(item, str):
                kept.append(with_items(item, without(item.items, target, seen)))
            elif item == "barrier":
                seen[0] += 1
                if seen[0] - 1 != target:
                    kept.append(item)
            else:
                kept.append(item)
        return tuple(kept)

    count = str(schedule.order).count("'barrier'")
    return replace(schedule, order=without(schedule.order, random.randrange(count), [0])) if count else None


def add_barrier(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    def change(items: list[TreeItem]) -> list[TreeItem]:
        items.insert(random.randint(0, len(items)), "barrier")
        return items

    return replace(schedule, order=_rewrite(random, schedule.order, change))


# ---------------------------------------------------------------------------------------------- values and memory


def other_provider(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    users = [p for p in schedule.placed if p.providers]
    if not users:
        return None
    chosen = random.choice(users)
    slot = random.randrange(len(chosen.providers))
    value = schedule.by_name()[chosen.providers[slot]].value
    same = [p.name for p in schedule.placed if p.value == value and p.role != "store"]
    name = random.choice(same if random.random() < 0.8 else [p.name for p in schedule.placed])
    providers = tuple(name if k == slot else n for k, n in enumerate(chosen.providers))
    return with_placed(schedule, chosen.name, replace(chosen, providers=providers))


def other_component(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    chosen = random.choice(schedule.placed)
    return with_placed(schedule, chosen.name, replace(chosen, component=1 - chosen.component))


def change_box(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    if not schedule.shared:
        return None
    box = random.choice(schedule.shared)
    if not box.extents:
        return None
    d, step = random.randrange(len(box.extents)), random.choice((-1, 1))
    new: SharedBox
    match random.randrange(3):
        case 0:
            new = replace(box, extents=tuple(n + step * (k == d) for k, n in enumerate(box.extents)))
        case 1:
            new = replace(box, origin=tuple(o + step * (k == d) for k, o in enumerate(box.origin)))
        case _:
            new = replace(box, pitch=tuple(n + step * (k == d) for k, n in enumerate(box.pitch)))
    return replace(schedule, shared=tuple(new if b is box else b for b in schedule.shared))


def drop_store(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """A store disappears, from the tree too."""
    stores = [p.name for p in schedule.placed if p.role == "store"]
    if not stores:
        return None
    name = random.choice(stores)

    def without(items: tuple[TreeItem, ...]) -> tuple[TreeItem, ...]:
        kept = (i if isinstance(i, str) else with_items(i, without(i.items)) for i in items if i != name)
        return tuple(i for i in kept if not isinstance(i, LoopNest) or i.items)

    placed = tuple(p for p in schedule.placed if p.name != name)
    return replace(schedule, placed=placed, order=without(schedule.order))


def second_store(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """The same store once more, right behind the first."""
    stores = [p for p in schedule.placed if p.role == "store"]
    if not stores:
        return None
    store = random.choice(stores)
    again = replace(store, name=store.name + "_again")

    def after(items: tuple[TreeItem, ...]) -> tuple[TreeItem, ...]:
        out: list[TreeItem] = []
        for item in items:
            out.append(item if isinstance(item, str) else with_items(item, after(item.items)))
            if item == store.name:
                out.append(again.name)
        return tuple(out)

    return replace(schedule, placed=(*schedule.placed, again), order=after(schedule.order))


def forget_load(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    return replace(schedule, loads=schedule.loads[1:]) if random.random() < 0.3 else None


def reuse_argument(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    pairs = [
        (value, root)
        for value in schedule.loads
        for root in schedule.roots
        if isinstance(scop.statements[value], InputStatement)
        and isinstance(scop.statements[root], Statement)
        and scop.shape(value) == scop.shape(root)
        and scop.statements[value].dtypes == scop.statements[root].dtypes
    ]
    return replace(schedule, reuses=(random.choice(pairs),)) if pairs else None


# ---------------------------------------------------------------------------------------------- elections


def _finish(schedule: KernelSchedule) -> tuple[int, Finish] | None:
    return next(((k, i) for k, i in enumerate(schedule.order) if isinstance(i, Finish)), None)


def out_of_finish(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """A leaf of what the elected block runs moves behind it, or in front of it: every block runs it."""
    found = _finish(schedule)
    if found is None:
        return None
    at, finish = found
    leaves = [i for i in finish.items if isinstance(i, str) and i != "barrier"]
    if not leaves:
        return None
    name = random.choice(leaves)
    inner = with_items(finish, tuple(i for i in finish.items if i != name))
    both: tuple[TreeItem, ...] = (inner, name) if random.random() < 0.7 else (name, inner)
    moved = with_placed(schedule, name, replace(schedule.by_name()[name], path=()))
    return replace(moved, order=(*schedule.order[:at], *both, *schedule.order[at + 1 :]))


def into_finish(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """A leaf that every block runs moves into what the elected one does."""
    found = _finish(schedule)
    leaves = [i for i in schedule.order if isinstance(i, str) and i != "barrier"]
    if found is None or not leaves:
        return None
    name, (_, finish) = random.choice(leaves), found
    inside = (name, *finish.items) if random.random() < 0.5 else (*finish.items, name)
    order = tuple(with_items(i, inside) if i is finish else i for i in schedule.order if i != name)
    placed = schedule.by_name()[name]
    return replace(with_placed(schedule, name, replace(placed, path=((finish.digit, 0),))), order=order)


def early_election(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """The election is held further in front."""
    found = _finish(schedule)
    if found is None or found[0] == 0:
        return None
    at, finish = found
    rest = [i for i in schedule.order if i is not finish]
    rest.insert(random.randrange(at), finish)
    return replace(schedule, order=tuple(rest))


def other_election(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """Everything about the election, or its combinations only, goes over to another block digit."""
    found, blocks = _finish(schedule), [d.name for d in schedule.of_kind("block")]
    if found is None or len(blocks) < 2:
        return None
    old, new = found[1].digit, random.choice(blocks)
    changed = replace(schedule, grid_combine=tuple(replace(g, digit=new) for g in schedule.grid_combine))
    if random.random() < 0.3:
        return changed
    names = {old: new}
    order = tuple(replace(i, digit=new) if isinstance(i, Finish) else i for i in schedule.order)
    placed = tuple(replace(p, path=tuple((names.get(n, n), k) for n, k in p.path)) for p in schedule.placed)
    return replace(changed, order=order, placed=placed)


def forget_combination(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    return replace(schedule, grid_combine=()) if schedule.grid_combine else None


def share_for_total(random: Random, scop: Scop, schedule: KernelSchedule) -> KernelSchedule | None:
    """What reads a total reads the block's own share in its stead."""
    totals = {p.name: p for p in schedule.placed if p.role == "total"}
    users = [p for p in schedule.placed if set(p.providers) & set(totals)]
    if not users:
        return None
    user = random.choice(users)
    shares = {p.value: p.providers[0] for p in schedule.placed if p.role == "partial"}
    providers = tuple(shares[totals[n].value] if n in totals else n for n in user.providers)
    return with_placed(schedule, user.name, replace(user, providers=providers))


ELECTIONS: tuple[Change, ...] = (
    out_of_finish,
    into_finish,
    early_election,
    other_election,
    forget_combination,
    share_for_total,
)

CHANGES: tuple[Change, ...] = (
    shift_place,
    scale_place,
    swap_digit,
    add_digit,
    resize_digit,
    restride,
    swap_order,
    swap_order,
    split_loop,
    merge_loops,
    merge_loops,
    merge_loops,
    swap_loops,
    into_loop,
    drop_barrier,
    drop_barrier,
    add_barrier,
    other_provider,
    other_component,
    change_box,
    change_box,
    drop_store,
    second_store,
    forget_load,
    reuse_argument,
    reuse_argument,
)
