"""Moves: kernels to replace, and sketches of the kernels that replace them.  They follow from structure alone."""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.grouping.partition import Partition, Sketch

HULL = 16  # kernels merged in one step; measured on random programs, 32 found nothing more

SMALL = 4  # times as small as the largest array that a kernel reads are values that another may pass on to it


@dataclass(frozen=True, slots=True)
class Move:
    """`seen`: kernels that stay but whose content the move depends on."""

    old: frozenset[int]
    new: tuple[Sketch, ...]
    seen: frozenset[int] = frozenset()


def join(state: Partition, a: int, b: int) -> Move | None:
    """One kernel of `a`, `b` and all between them; values wanted only inside are no longer stored::

    a {x}  ->  b {y}                      {y}, or {x, y} if somebody else loads x
    """
    old = state.hull(a, b)
    return merged(state, old) if len(old) <= HULL else None


def merged(state: Partition, old: frozenset[int]) -> Move:
    """All of `old`, which is closed under paths, as one kernel."""
    return Move(old, (_union(state, old, old),))


def detach(state: Partition, a: int, b: int) -> Move | None:
    """`a` and `b` as one kernel without those between: they recompute what they read of the earlier one::

    a {x}  ->  c {z}  ->  b {y}           c {z} with x in the body  ->  {x, y}
    """
    old = state.hull(a, b)
    between = old - {a, b}
    first = min(a, b, key=state.order.position.__getitem__)
    roots = state.kernels[first].roots
    if not 0 < len(between) < HULL or any(state.once[r] for r in roots):
        return None
    freed = [Sketch(s.roots, s.again | roots) for s in map(state.sketch, sorted(between))]
    return Move(old, (_union(state, frozenset((a, b)), old), *freed))


def _union(state: Partition, kernels: frozenset[int], inside: frozenset[int]) -> Sketch:
    """One kernel of `kernels`; roots that only the kernels `inside` load are dropped."""
    roots = frozenset().union(*[state.kernels[k].roots for k in kernels])
    return Sketch(state.needed(roots, inside), frozenset().union(*[state.again[k] for k in kernels]))


def drop(state: Partition, value: int) -> Move | None:
    """Do not store `value`: every reader recomputes it::

    a {v, w}  ->  b {y}, c {z}            a {w}    b {y}, c {z} each with v in the body
    """
    if state.pinned[value] or value not in state.owner:
        return None
    return _without(state, value, frozenset())


def thin(state: Partition, value: int) -> Move | None:
    """Store the smaller values that `value` is made of; every reader rebuilds it from them::

        a {normalised}  ->  b {y}             a {mean, rstd}  ->  b {y}, which reads x, mean and rstd
        a {wide = cast(half)}  ->  b {y}      a {half}  ->  b {y} with the cast in the body

    Kernels that recompute one of the smaller values are told: from now on they load it.
    """
    if state.pinned[value] or value not in state.owner or not state.readers[value]:
        return None
    kernel, size = state.kernels[state.owner[value]], state.costs.bytes
    small, seen, todo = set[int](), set[int](), [value]
    while todo:
        for operand in state.operands[todo.pop()]:
            if operand in seen or operand not in kernel.body or operand in state.owner:
                continue
            seen.add(operand)
            if size(operand) < size(value):
                small.add(operand)
            else:
                todo.append(operand)
    return _without(state, value, frozenset(small)) if small else None


def _without(state: Partition, value: int, instead: frozenset[int]) -> Move:
    owner, readers = state.owner[value], state.readers[value]
    kept = state.sketch(owner)
    rest = Sketch((kept.roots - {value}) | instead, kept.again)
    told = set().union(*[state.users[v] for v in instead]) - readers - {owner}
    others = tuple([state.sketch(k) for k in sorted(readers | told)])
    return Move(frozenset({owner} | readers | told), (rest, *others) if rest.roots else others)


def repeat(state: Partition, kernel: int, value: int) -> Move | None:
    """`kernel` computes the stored `value` again instead of loading it::

    a {h}  ->  b {y}, which reads x and h          a {h}    b {y} with h in the body, which reads x alone
    """
    if value not in state.kernels[kernel].loads or value not in state.owner or state.once[value]:
        return None
    if not state.pinned[value] and len(state.readers[value]) == 1:
        return None  # nobody would load it any more: `drop` is meant
    sketch = state.sketch(kernel)
    again = Sketch(sketch.roots, sketch.again | {value})
    return Move(frozenset((kernel,)), (again,), frozenset((state.owner[value],)))


def reload(state: Partition, kernel: int, value: int) -> Move | None:
    """`kernel` loads `value`, which another kernel stores, instead of computing it again."""
    if value not in state.again[kernel]:
        return None
    sketch = state.sketch(kernel)
    return Move(frozenset((kernel,)), (Sketch(sketch.roots, sketch.again - {value}),))


def shifts(state: Partition, root: int, target: int) -> tuple[Move, ...]:
    """`root` is stored by the kernel `target` instead; if its owner needs it too, it loads it or computes it again."""
    owner = state.owner[root]
    kept, taker = state.sketch(owner), state.sketch(target)
    rest = kept.roots - {root}
    moved = Sketch(taker.roots | {root}, taker.again)
    old = frozenset((owner, target))
    if not rest:
        return (Move(old, (moved,)),)
    alone = Sketch(rest, kept.again | {root})
    if state.once[root] or root not in state.closure(alone, (), frozenset())[0]:
        return (Move(old, (Sketch(rest, kept.again), moved)),)
    return (Move(old, (Sketch(rest, kept.again), moved)), Move(old, (alone, moved)))


def cut(state: Partition, root: int, target: int) -> Move | None:
    """`root` is computed and stored by the kernel `target` instead, from its operands, which its owner stores::

    a {y = f(h)}  ->  b {z}               a {h}  ->  b {y, z}
    """
    owner = state.owner[root]
    kept, taker, body = state.sketch(owner), state.sketch(target), state.kernels[owner].body
    made = frozenset(v for v in state.operands[root] if v in body and v not in state.owner)
    if not made:
        return None
    told = set().union(*[state.users[v] for v in made]) - {owner, target}
    others = tuple([state.sketch(k) for k in sorted(told)])
    moved = Sketch(taker.roots | {root}, taker.again)
    return Move(frozenset({owner, target} | told), (Sketch((kept.roots - {root}) | made, kept.again), moved, *others))


def advanced(state: Partition, value: int, reader: int) -> Move | None:
    """What `reader` computes for itself is computed and stored by the kernel that stores what it is made of::

    a {h}  ->  b {z = g(y), y = f(h)}     a {y}  ->  b {z}

    None where it is made of what several kernels store, or of inputs alone.
    """
    owners, seen, todo = set[int](), {value}, [value]
    while todo:
        for operand in state.operands[todo.pop()]:
            if operand in state.owner and operand in state.kernels[reader].loads:
                owners.add(state.owner[operand])
            elif operand not in seen and not state.is_input[operand]:
                seen.add(operand)
                todo.append(operand)
    if len(owners) != 1:
        return None
    (owner,) = owners
    kept = state.sketch(owner)
    told = (state.users[value] | state.readers[value]) - {owner}
    others = tuple([state.sketch(k) for k in sorted(told)])
    return Move(frozenset({owner} | told), (Sketch(kept.roots | {value}, kept.again), *others))


def passed(state: Partition, giver: int, taker: int) -> Move | None:
    """What both kernels compute is computed by `giver` alone, which stores the small values of it that `taker` needs::

        a {y}  with  m = mean(x) in the body         a {y, m}  ->  b {z}, which reads x and m
        b {z}  with  m = mean(x) in the body

    Values as large as what they are made of are not passed on: they are computed again of smaller ones.
    """
    one, other = state.kernels[giver], state.kernels[taker]
    shared, size = one.body & other.body, state.costs.bytes
    wide = max([size(v) for v in other.loads], default=0)
    small, seen = set[int](), set[int]()
    todo = [o for v in other.body - shared for o in state.operands[v] if o in shared]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if size(value) * SMALL <= wide:
            small.add(value)
        elif not state.once[value]:
            todo += [o for o in state.operands[value] if o in shared]
    small -= one.roots
    if not small or any(v in state.owner for v in small):
        return None
    told = set().union(*[state.users[v] for v in small]) - {giver, taker}
    kept, freed = state.sketch(giver), state.sketch(taker)
    others = tuple([state.sketch(k) for k in sorted(told)])
    return Move(frozenset({giver, taker} | told), (Sketch(kept.roots | small, kept.again), freed, *others))


def apart(state: Partition, old: frozenset[int]) -> Move:
    """Every value that the kernels `old` compute in a kernel of its own; kernels outside that recompute one of them
    keep doing so."""
    body = set().union(*[state.kernels[k].body for k in old])
    alone = sorted(v for v in body if v not in state.owner or state.owner[v] in old)
    return Move(old, tuple(Sketch(frozenset((v,))) for v in alone))
