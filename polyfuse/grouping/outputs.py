"""Where the search may begin instead: a kernel per output, which computes all that it needs of the inputs.

    m = mean(x);  y = x - m;  s = sqrt(sum(y * g))          a {y} and b {t = sum(y * g)}, each with m in its body;
                                                            c {s}, which reads t

From single statements some ten prices per statement lead to about the same kernels, and most of them are not part of
what is found in the end.  Where what these kernels become (joined, or with what one passes on to another) takes about
what its bytes take, no more is looked for.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from itertools import combinations

from polyfuse.grouping.costs import Costs
from polyfuse.grouping.moves import SMALL, join
from polyfuse.grouping.partition import KernelGroup, Partition, Sketch
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.rules import Judge
from polyfuse.grouping.whole import is_connected

MOST = 12  # kernels to begin with
EACH = 30  # work that may be left for this, per value, at least, where a user says how much there is
FEWEST, LARGEST = 16, 100
"""Values that outputs of a program are made of which is searched from its outputs first: of fewer, to begin with single
statements takes as long.  A backward layernorm of 32768 x 4096 bfloat16 has 36, and takes a quarter of the time."""
SLOW, SLOWEST = 1.6, 3.0
"""Times what its bytes take, between which one kernel of all is where outputs are tried apart: 469 us of 186 for that
layernorm.  Of 16 forms of programs whose kernel is faster, or far slower, none became near by its outputs."""
NEARLY = 1.1
"""Times what their bytes take, up to which kernels are left as they are."""
NARROWLY = 1.5
"""Times what two kernels take, from which one of both is no answer to whether they are better apart: something in it
does not belong there."""
HOPELESS = 1.4
"""Times what their bytes take, from which kernels of single outputs are not tried together: of 126 programs whose
kernels did not become near, 23 began so, and of 131 others none."""


def per_output(judge: Judge) -> list[KernelGroup] | None:
    """The kernels, if there are several, and all are allowed and legal."""
    costs = judge.costs
    state = Partition(costs)
    live = state.live()
    outputs = [v for v in sorted(live) if state.pinned[v] and not state.is_input[v]]
    if not (1 < len(outputs) <= MOST and FEWEST <= len(live) <= LARGEST) or any(state.once[v] for v in live):
        return None
    if not is_connected(state, live) or not _is_slow(costs, live, frozenset(outputs)):
        return None
    wide = max([costs.bytes(v) for v in live if state.is_input[v]], default=0)
    ends = frozenset().union(*[_ends(state, output, wide) for output in outputs])
    found: list[KernelGroup] = []
    for root in [*sorted(ends), *[v for v in outputs if v not in ends]]:
        alone = frozenset((root,))
        body, loads = state.closure(Sketch(alone), (), frozenset() if root in ends else ends)
        if len(found) == MOST or not judge.rules.allows(body, alone):
            return None
        found.append(KernelGroup(alone, body, loads, costs.price(body, alone, loads)))
        if not judge.verdict(found[-1]):
            return None
    return found if _are_within(HOPELESS, costs, found) else None


def _is_slow(costs: Costs, live: Set[int], outputs: frozenset[int]) -> bool:
    """Whether one kernel of all is slow, and not far slower still."""
    inputs = frozenset([v for v in live if costs.is_input(v)])
    least = costs.floor(outputs, inputs)
    return SLOW * least <= costs.whole_price(frozenset(live - inputs), outputs, inputs) <= SLOWEST * least


def _ends(state: Partition, output: int, wide: int) -> frozenset[int]:
    """An output, or the last values that it is made of which are made of what is not small: what follows them is small
    as well, and may be worse in a kernel with them."""
    found, seen, todo = set[int](), {output}, [output] if state.costs.bytes(output) * SMALL <= wide else []
    while todo:
        value = todo.pop()
        if any(state.costs.bytes(o) * SMALL > wide for o in state.operands[value]):
            found.add(value)
        else:
            more = {o for o in state.operands[value] if not state.is_input[o]} - seen
            seen |= more
            todo += more
    return frozenset(found or (output,))


def is_apart_by_price(queue: Queue) -> bool:
    """Whether kernels that read the same are legal as one, which loses narrowly.  Where it is not legal, or loses by
    much, what they compute may be dealt out otherwise, so that fewer of them read it."""
    state = queue.state
    for one, other in combinations(sorted(state.kernels), 2):
        pair = state.kernels[one], state.kernels[other]
        both, least = pair[0].loads & pair[1].loads, min([_read(state, kernel) for kernel in pair])
        if sum(map(state.costs.bytes, both)) * SMALL >= least:
            move = join(state, one, other)
            trial = queue.trial(move) if move is not None else None
            if move is None or trial is None or not queue.refusal(move, trial):
                return False
            if sum([kernel.time for kernel in trial.kernels]) > NARROWLY * sum([kernel.time for kernel in pair]):
                return False
    return True


def _read(state: Partition, kernel: KernelGroup) -> int:
    return sum(map(state.costs.bytes, kernel.loads))


def is_near(state: Partition) -> bool:
    """Whether its kernels take about what their bytes take."""
    return _are_within(NEARLY, state.costs, state.kernels.values())


def _are_within(factor: float, costs: Costs, kernels: Collection[KernelGroup]) -> bool:
    return sum([k.time for k in kernels]) <= factor * sum([costs.floor(k.roots, k.loads) for k in kernels])
