"""The exact optimum of a small program, by dynamic programming over the set of values already stored.

Kernels run one after another; a kernel is the set of values that it stores, its body what it must compute for them
from inputs and from what is stored by then.  A value that is stored later may be recomputed earlier: every plan counts.
"""

from __future__ import annotations

from tests.grouping.model import LATENCY, LAUNCH, Model

INFINITE = 1 << 62


def optimum(model: Model, bound: int) -> int:
    """Picoseconds of the cheapest plan, given that `bound` is reachable."""
    computed = [v for v in range(model.count) if not model.is_input(v)]
    size, everything = len(computed), (1 << len(computed)) - 1
    bit = {v: 1 << k for k, v in enumerate(computed)}
    reads = [sum(bit[o] for o in model.operands(v) if o in bit) for v in computed]
    outputs = sum(bit[v] for v in computed if model.is_output(v) or model.must_store(v))
    once = sum(bit[v] for v in computed if model.must_store(v))
    best = [INFINITE] * (everything + 1)
    best[0], answer = 0, bound
    times: dict[tuple[int, int], int] = {}

    def time(roots: int, stored: int) -> int:
        body = todo = roots
        while todo:
            k = (todo & -todo).bit_length() - 1
            todo &= todo - 1
            new = reads[k] & ~stored & ~body
            body, todo = body | new, todo | new
        if body & once & ~roots:
            return INFINITE
        known = times.get((roots, body))
        if known is None:
            values = frozenset(computed[k] for k in range(size) if body >> k & 1)
            kept = frozenset(computed[k] for k in range(size) if roots >> k & 1)
            loads = frozenset(o for v in values for o in model.operands(v)) - values
            legal = len(values) == 1 or bool(model.legal(values, kept, loads))
            known = times[roots, body] = model.price(values, kept, loads) if legal else INFINITE
        return known

    for stored in range(everything + 1):
        spent = best[stored]
        if spent > answer:
            continue
        if stored & outputs == outputs:
            answer = min(answer, spent)
            continue
        if spent + LAUNCH + LATENCY > answer:
            continue
        roots = rest = everything & ~stored
        while roots:
            reached = spent + time(roots, stored)
            if reached < best[stored | roots]:
                best[stored | roots] = reached
            roots = (roots - 1) & rest
    return answer
