"""`plan.cost_analysis()`: the figures of a plan, in total and per kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from polyfuse.cost.scatters import merging_seconds, rows_seconds, sorting_seconds, walking_seconds
from polyfuse.explain.kernels import by_step, host_seconds, launch_cost
from polyfuse.library_calls.contraction import NAME, Contraction
from polyfuse.planning.program_costs import array_layouts, size_hints
from polyfuse.scatters.elements import ElementScatter
from polyfuse.scatters.rows import ORDER, RowScatter
from polyfuse.scop import OpaqueStatement

if TYPE_CHECKING:
    from polyfuse.algebra import Formula
    from polyfuse.cost.counts import Cost
    from polyfuse.plan import LibraryCall, Plan


@dataclass(frozen=True, slots=True)
class CostAnalysis:
    """`hbm_bytes`, exact for all sizes; everything else predicted at `sizes`.  `kernels`: by name, each as if it ran
    alone.  `launches`: seconds by the name of the kernel launched, which may run several kernels side by side.

    `flops` counts replicated and masked executions as well.  `contractions`: seconds of those that the library runs,
    and of scatters that kernels merge, by the value that they make; other library calls have no prediction and are left
    out.  `host`: seconds that a call takes the host, which hands over launch by launch while the device works.
    `start`: seconds until the device has the first launch.
    """

    hbm_bytes: Formula
    sizes: Mapping[str, int]
    kernels: Mapping[str, Cost]
    contractions: Mapping[str, float]
    launches: Mapping[str, float]
    host: float = 0.0
    start: float = 0.0

    @property
    def flops(self) -> int:
        return sum(c.flops for c in self.kernels.values())

    @property
    def seconds(self) -> float:
        """Of a call: of the device, or of the host where that takes longer."""
        return max(self.host, self.start + sum(self.launches.values()) + sum(self.contractions.values()))

    @property
    def intensity(self) -> float:
        """Operations per byte of main memory."""
        return self.flops / max(1, self.hbm_bytes.at(**self.sizes))

    def bound(self, ridge: float) -> str:
        """``memory`` or ``compute``, by the side of the ridge of a target's roofline."""
        return "compute" if self.intensity > ridge else "memory"


def cost_analysis(plan: Plan, sizes: Mapping[str, int] | None = None) -> CostAnalysis:
    """At the sizes hinted, unless others are given."""
    at = {**size_hints(plan.program), **(sizes or {})}
    called = {}
    for step in plan.library_calls:
        seconds = call_seconds(plan, step, at)
        if seconds is not None:
            called[plan.scop.statements[plan.called(step)].name] = seconds
    launches = [kernels for _, kernels in by_step(plan) if kernels]
    launched = {kernels[0].launch.kernel.name: launch_cost(kernels, at).seconds for kernels in launches}
    kernels = {k.name: k.cost_at(at) for k in plan.kernels}
    return CostAnalysis(plan.hbm_bytes, at, kernels, called, launched, host_seconds(plan), plan.target.start)


def call_seconds(plan: Plan, step: LibraryCall, sizes: Mapping[str, int]) -> float | None:
    """The predicted time of a contraction or a sort of places by the library, or of a scatter by kernels; None for any
    other call."""
    statement = plan.scop.statements[plan.called(step)]
    assert isinstance(statement, OpaqueStatement)
    if step.launches:
        return _scatter_seconds(plan, step, statement, sizes)
    if step.call.name == ORDER:
        (keys,) = statement.operands
        count = prod(n.evaluate(sizes) for n in plan.scop.shape(keys))
        return sorting_seconds(count, plan.scop.dtype(keys).itemsize, plan.target)
    if step.call.name != NAME:
        return None
    contraction: Contraction = dict(step.call.settings)["contraction"]
    return contraction.seconds(plan.target, sizes, plan.scop.dtype(statement.operands[0]))


def _scatter_seconds(
    plan: Plan, step: LibraryCall, statement: OpaqueStatement, sizes: Mapping[str, int]
) -> float:
    layouts = array_layouts(plan.scop, plan.layouts)
    rows = RowScatter.of(plan.scop, statement, size_hints(plan.program), layouts)
    if rows is not None:
        seconds = rows_seconds if rows.by is None else walking_seconds
        return seconds(rows.volume(sizes), plan.target)
    scatter = ElementScatter.of(plan.scop, statement, plan.options.atomics)
    assert scatter is not None, "kernels in place of a call that no kernel makes"
    in_cells = any(launch.kernel.shared for launch in step.launches)
    return merging_seconds(scatter, in_cells, plan.target, sizes)
