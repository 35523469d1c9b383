"""Where the search may begin instead: a kernel per output, which computes all that it needs of the inputs.

    m = mean(x);  y = x - m;  s = sum(y * g)          a {y}, b {s}, each with m in its body

From single statements some ten prices per statement lead to about the same kernels, and most of them are not part of
what is found in the end.  Where each of the kernels that these become (joined, or with what one passes on to another)
takes about what its bytes take, no more is looked for.
"""

from __future__ import annotations

from itertools import combinations

from polyfuse.grouping.moves import SMALL, join
from polyfuse.grouping.partition import KernelGroup, Partition, Sketch
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.rules import Judge

MOST, LARGEST = 8, 100  # outputs, and statements, of a program that is searched from its outputs first
NEARLY = 1.1
"""Times what their bytes take, up to which a kernel is left as it is."""


def per_output(judge: Judge) -> list[KernelGroup] | None:
    """The kernels, if there are several, and all are allowed and legal."""
    costs = judge.costs
    state = Partition(costs)
    live = state.live()
    roots = [v for v in sorted(live) if state.pinned[v] and not state.is_input[v]]
    if not 1 < len(roots) <= MOST or len(live) > LARGEST or any(state.once[v] for v in live):
        return None
    found: list[KernelGroup] = []
    for root in roots:
        body, loads = state.closure(Sketch(frozenset((root,))), (), frozenset())
        if not judge.rules.allows(body, frozenset((root,))):
            return None
        kernel = KernelGroup(frozenset((root,)), body, loads, costs.price(body, frozenset((root,)), loads))
        if not judge.verdict(kernel):
            return None
        found.append(kernel)
    return found


def is_apart_by_price(queue: Queue) -> bool:
    """Whether kernels that read the same, one kernel of which would be legal, lose by being one: where it is not, what
    they compute may be dealt out otherwise, so that fewer of them read it."""
    state = queue.state
    for one, other in combinations(sorted(state.kernels), 2):
        both = state.kernels[one].loads & state.kernels[other].loads
        if sum(map(state.costs.bytes, both)) * SMALL >= sum(map(state.costs.bytes, state.kernels[other].loads)):
            move = join(state, one, other)
            if move is None or not queue.refusal(move, queue.trial(move)):
                return False
    return True


def is_near(state: Partition) -> bool:
    """Whether its kernels take about what their bytes take."""
    kernels, floor = state.kernels.values(), state.costs.floor
    return state.total() <= NEARLY * sum([floor(kernel.roots, kernel.loads) for kernel in kernels])
