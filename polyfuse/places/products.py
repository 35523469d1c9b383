"""Products that are never held: one that feeds a single sum in a loop, or a short one that a thread makes of its
registers alone, becomes a chain of fused multiply-adds.

    p[i, j, k] = x[i, k] * w[k, j];  y[i, j] = sum_k p[i, j, k]     for k: y = contract(y, x, w)
"""

from __future__ import annotations

from collections.abc import Mapping

from polyfuse.affine import Affine
from polyfuse.places.order import sources
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.terms import Apply, Ref


def folded_products(scop: Scop, schedule: KernelSchedule) -> Mapping[str, str]:
    """The placed sum that absorbs each placed product."""
    return schedule.figure("folded products", lambda: _folded(scop, schedule))


def _folded(scop: Scop, schedule: KernelSchedule) -> dict[str, str]:
    chains: list[tuple[Placed, Statement]] = []
    for placed in schedule.placed:
        statement = scop.statements[placed.value]
        if placed.role == "compute" and isinstance(statement, Statement) and _is_chain(schedule, placed, statement):
            chains.append((placed, statement))
    if not chains:  # as in most schedules, of which prices ask
        return {}
    by_name = schedule.by_name()
    uses: dict[str, int] = {}
    for placed in schedule.placed:
        for source in sources(placed):
            uses[source] = uses.get(source, 0) + 1
    found = {}
    for placed, statement in chains:
        product = by_name[placed.providers[0]]
        private = product.role == "compute" and uses[product.name] == 1 and product.path == placed.path
        if private and _is_product(scop.statements[product.value], statement):
            found[product.name] = placed.name
    return found


def _is_chain(schedule: KernelSchedule, placed: Placed, statement: Statement) -> bool:
    if statement.monoid != "sum" or not statement.is_reduction or not statement.dtypes[0].is_float:
        return False
    if not isinstance(statement.body[0], Ref) or not placed.providers:  # else a number that the caller passes
        return False
    entries = [placed.place[d] for d in statement.reduced]
    over = {n[1:] for e in entries if isinstance(e, Affine) for n in e.steps() if n.startswith("$")}
    return any(loop in over for loop, _ in placed.path) or _is_in_one_thread(schedule, over)


def _is_in_one_thread(schedule: KernelSchedule, over: set[str]) -> bool:
    """Whether a thread, one of several, sums its registers alone; what waits in cells is summed in parts."""
    alone = bool(over) and over <= {d.name for d in schedule.of_kind("slot")}
    return alone and schedule.threads > 1 and schedule.cells is None


def _is_product(producer: object, statement: Statement) -> bool:
    if not isinstance(producer, Statement) or producer.monoid is not None or producer.dtypes != statement.dtypes:
        return False
    term = producer.body[0]
    return isinstance(term, Apply) and term.function == "multiply"
