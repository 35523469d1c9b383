"""A long reduced class dealt to blocks: how much is one block's share, and how the last block combines the shares."""

from __future__ import annotations

from polyfuse.places.proposal import Combination
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation, block, power_above, power_below

WAVES = (32, 4, 1)
"""Blocks per multiprocessor where a reduced class is dealt to blocks: few leave few shares, many hide more latency (the
mean of squared differences of 2 GB on an H200: 471 us against 495).  Those that all run at once walk through memory at
distances that stay, which suits some cards and sizes more than others: 465 to 520 us; of many, those that run read what
is close together: 465 us."""
SHARES = 32
"""Words of shares that a thread of the last block reads at once: with more the compiler takes more registers for them
than for all that it does before, and fewer blocks run at once (variances of 1024 columns of 200000: 144 registers for
96 words, room for one of four blocks)."""


def share_of(
    situation: Situation, axis: AxisClass, blocks: list[Digit], step: int, waves: int
) -> tuple[Digit, int] | None:
    """A block digit for `axis` and how many steps of `step` elements make one block's share, so that all blocks fill
    the device `waves` times.  None where there would be one share."""
    size, others = axis.size(situation.hints), 1
    for b in blocks:
        others *= situation.size(b.extent)
    wanted = max(1, waves * situation.target.processors // max(1, others))
    if "share" in situation.tiles:
        steps = max(1, situation.tiles["share"] // step)
    else:
        steps = -(-size // (step * wanted))
        steps = _whole(size, step, steps) if waves == WAVES[0] else steps
    if size <= steps * step:
        return None
    return block(f"b{len(blocks)}", axis.extent.ceildiv(steps * step)), steps


def keeps(situation: Situation, shared: AxisClass, axis: AxisClass) -> bool:
    """Whether some reduction over the class that blocks share keeps another one: threads along that have results of
    their own, and cannot share what one of them adds up in the end."""
    sums = [s for s in situation.reductions if s.id in shared.reduced_by and s.id not in axis.reduced_by]
    return any(axis in situation.classes.statement(s) for s in sums)


def _whole(size: int, step: int, steps: int) -> int:
    """`steps`, or up to half fewer, so that shares divide the whole and nothing of them is masked, where some do.  The
    numbers of shares are tried, from the least on: of a long axis they are far fewer than the steps of one."""
    whole, rest = divmod(size, step)
    if rest or not steps:
        return steps
    shares = range(-(-whole // steps), whole // (steps // 2 + 1) + 1)
    return next((whole // count for count in shares if whole % count == 0), steps)


def combination(shares: Digit, threads: Digit | None, situation: Situation, most: int = 8) -> Combination:
    """A thread of the last block reads several shares at once, up to `most`, so that their latencies overlap; a core
    has a whole strip of each on its way."""
    if situation.target.kind == "cpu":
        return Combination((), 1)
    dealt, count = ((threads.name,), threads.count) if threads is not None and threads.count > 1 else ((), 1)
    return Combination(dealt, min(8, power_below(most), power_above(-(-situation.size(shares.extent) // count))))


def words_of(situation: Situation, width: int) -> int:
    """32-bit registers of one share of `width` results."""
    states = [sum(max(1, d.compute.itemsize // 4) for d in s.dtypes) for s in situation.reductions]
    return width * max(states, default=1)
