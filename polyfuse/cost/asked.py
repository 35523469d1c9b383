"""How many executions of a load are asked for: of the pieces of a region each place has one, and what masks leave out
moves nothing.

    y[i] = where(i < 1, x[1 - i], where(i < n + 1, x[i - 1], x[2*n - i]))      the first and the last load once

A share is estimated as if every condition were spread evenly over its values.  On an H200, 8192 x 8192 float32
reflected by 4 take threads that choose 196 us, where 348 were predicted when all loads counted, and 197 so; 64 x 192 x
56 x 56 in windows 83, 204 and 107.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import prod

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop, Statement


def asked_shares(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> Mapping[str, float]:
    """Of placed statements by name, where that is less than all."""
    statements = [s for value in schedule.body if isinstance(s := scop.statements[value], Statement)]
    if not any(read.where for statement in statements for read in statement.reads):
        return {}
    return schedule.figure(("asked", id(scop), tuple(sizes.hints.items())), lambda: _shares(scop, schedule, sizes))


def _shares(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> dict[str, float]:
    consumers: dict[str, list[tuple[Placed, int]]] = defaultdict(list)
    for placed in schedule.placed:
        for k, provider in enumerate(placed.providers):
            consumers[provider].append((placed, k))
    found: dict[str, float] = {}

    def share(name: str) -> float:
        if name not in found:
            asks = [share(placed.name) * _holds(scop, placed, k, sizes) for placed, k in consumers[name]]
            found[name] = min(1.0, sum(asks)) if asks else 1.0
        return found[name]

    return {p.name: part for p in schedule.placed if (part := share(p.name)) < 1.0}


def _holds(scop: Scop, placed: Placed, number: int, sizes: Sizes) -> float:
    """The share of the executions of a statement that make its read of this number."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or number >= len(statement.reads):
        return 1.0
    at = {f"%{d}": entry for d, entry in enumerate(placed.place) if isinstance(entry, Affine)}
    return _of_conditions([condition.substitute(at) for condition in statement.reads[number].where], sizes)


def _of_conditions(conditions: Iterable[Affine], sizes: Sizes) -> float:
    """Of places where all hold: a beginning and an end of the same digits leave out different ones, two beginnings the
    same; others are independent."""
    left: dict[frozenset[str], dict[bool, float]] = defaultdict(dict)
    for condition in conditions:
        digits = sorted([name for name in condition.names() if name.startswith("$")])
        begins = bool(digits) and condition.coefficient(digits[0]) > 0
        known, out = left[frozenset(digits)], 1.0 - _of_condition(condition, sizes)
        known[begins] = max(known.get(begins, 0.0), out)
    return prod([max(0.0, 1.0 - sum(out.values())) for out in left.values()])


def _of_condition(condition: Affine, sizes: Sizes) -> float:
    least = most = condition.constant
    for atom, factor in condition.terms:
        if not isinstance(atom, str):
            return 1.0
        if atom.startswith("$"):
            reach = factor * (sizes.extent.get(atom[1:], 1) - 1)
            least, most = least + min(0, reach), most + max(0, reach)
        else:
            size = factor * sizes.hints.get(atom, 1)
            least, most = least + size, most + size
    if least >= 0:
        return 1.0
    return (most + 1) / (most - least + 1) if most >= 0 else 0.0
