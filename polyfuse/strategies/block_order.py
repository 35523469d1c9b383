"""Which classes blocks follow each other along: where a block reads or writes a part of a sector, or of a page of
memory, its neighbour along the array does the rest while the cache still has it.

    z[k, j, i] = x[i, j, k]   220 x 9 x 26326 float32:   along i, 7 blocks, along j, 9, then along k, 411
    z                         pieces of 128 bytes follow each other along i, rows of 880 along j
    x                         pieces of 256 along k
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import prod

from polyfuse.scop import Statement
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.reads import lies_along
from polyfuse.strategies.situation import Situation

NEAR = 1 / 4
"""Of the cache: what blocks between two neighbours move for which half of the ends between them are read or written
twice.  On an H200: 220 x 9 x 26326 float32 reversed 132 us where blocks between neighbours along j move 46 MB, 106
where they move 0.1 and those along k one; 2824 x 88 x 432 bfloat16, its last axis in front, 132 and 122 (62 and 0.1
MB); but 16 times 272 x 18336 float32 153 where neighbours of a matrix are close, 166 with 2.6 MB between them
(`orders` and `stages` of benchmarks/results/permutations_h200.json)."""
MOST = 5
"""Classes whose orders are tried, all of them."""


def names_of_blocks(situation: Situation, held: Mapping[AxisClass, int]) -> dict[AxisClass, str]:
    """The names of block digits, in whose order blocks follow each other: the one in which the fewest ends of pieces
    are far from their neighbours, that of `held` among equals.  `held`: of each class, how many elements a block has.
    """
    blocks = {axis: -(-situation.size(axis.extent) // count) for axis, count in held.items()}
    ends = _ends(situation, held, blocks)
    moved = prod(held.values()) * sum(situation.long_itemsizes)
    several = [axis for axis in held if blocks[axis] > 1]

    near = NEAR * situation.target.l2_bytes

    def torn(order: Sequence[AxisClass]) -> float:
        found, span = 0.0, float(moved)
        for axis in order:
            found += ends.get(axis, 0.0) * span / (span + near)
            span *= blocks[axis]
        return found

    order = min(permutations(several), key=torn) if len(several) <= MOST else several  # the first of the best
    return {axis: f"b{k}" for k, axis in enumerate((*order, *[a for a in held if blocks[a] == 1]))}


def _ends(
    situation: Situation, held: Mapping[AxisClass, int], blocks: Mapping[AxisClass, int]
) -> dict[AxisClass, float]:
    """Ends of pieces by the class along which what follows in memory lies, per byte, over the long arrays."""
    found: dict[AxisClass, float] = {}
    for itemsize, order in _arrays(situation):
        run = itemsize
        for axis in reversed(order):
            if blocks.get(axis, 1) > 1:
                found[axis] = found.get(axis, 0.0) + 1 / (run * held[axis])
            run *= situation.size(axis.extent)
    return found


def _arrays(situation: Situation) -> Iterator[tuple[int, tuple[AxisClass, ...]]]:
    """Bytes of an element of each long array that is read or written plainly, and the classes that it lies along."""
    group, known, long = situation.group, set[int](), situation.long_values
    for statement in group.statements():
        axes = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source in group.loads & long and read.source not in known and (order := lies_along(axes, read)):
                known.add(read.source)
                yield situation.scop.dtype(read.source).itemsize, order
    for root in sorted(group.roots & long):
        made = situation.scop.statements[root]
        if isinstance(made, Statement):
            yield made.dtypes[0].itemsize, tuple([situation.classes.of[root, d] for d in made.kept])
