"""What must hold of every grouping."""

from __future__ import annotations

from collections.abc import Collection

from polyfuse.grouping import Grouping
from polyfuse.grouping.partition import Partition
from tests.grouping.model import Model, Values


def unfused(model: Model) -> int:
    """Picoseconds with one kernel per statement."""
    state = Partition.unfused(model)
    state.settle_prices(state.owner)
    return state.total()


def check(model: Model, grouping: Grouping, refuted: Collection[tuple[Values, Values]] = ()) -> None:
    """Launch order, demand closure, single stores, nothing stored in vain, legality, prices, no loss.

    refuted: body and roots of kernels that may not be used, even if that means a store in vain.
    """
    owner: dict[int, int] = {}
    for index, kernel in enumerate(grouping.kernels):
        for root in kernel.roots:
            assert root not in owner, f"value {root} is stored twice"
            owner[root] = index
    needed = {v for v in range(model.count) if model.is_output(v) or model.must_store(v)}
    for index, kernel in enumerate(grouping.kernels):
        assert kernel.roots <= kernel.body
        assert all(model.is_input(v) or owner[v] < index for v in kernel.loads), "a value is loaded before it is stored"
        read = {o for v in kernel.body for o in model.operands(v)}
        assert kernel.loads == read - kernel.body, "loads are what the body reads and does not compute"
        assert kernel.body - kernel.roots <= read, "something is computed in vain"
        assert not any(model.must_store(v) for v in kernel.body - kernel.roots), "an effect is executed twice"
        assert kernel.time == model.price(kernel.body, kernel.roots, kernel.loads)
        assert len(kernel.body) == 1 or model.legal(kernel.body, kernel.roots, kernel.loads)
        needed |= kernel.loads
    for kernel in grouping.kernels:
        wanted = kernel.roots & needed
        assert kernel.roots == wanted or (kernel.body, wanted) in refuted, "something is stored in vain"
    assert all(v in owner for v in needed if not model.is_input(v))
    assert grouping.time <= unfused(model)
