"""Kernels and statements of a plan as read-only views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Layout
from polyfuse.cost.counts import Cost
from polyfuse.cost.members import price_together
from polyfuse.cost.prices import price
from polyfuse.errors import Source
from polyfuse.explain.levels import combine_level, scope_of
from polyfuse.explain.traffic import Traffic, kernel_traffic, work
from polyfuse.places.proposal import Group
from polyfuse.planning.flattening import group_of
from polyfuse.planning.program_costs import array_layouts, size_hints
from polyfuse.schedule import Digit, KernelSchedule, Placed, Scope
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target
from polyfuse.text.bodies import body_text, dimension_names
from polyfuse.text.sizes import derived_names, entry_text, product_text

if TYPE_CHECKING:
    from polyfuse.algebra import Formula
    from polyfuse.plan import Launch, Plan, Step


@dataclass(frozen=True, slots=True)
class StatementView:
    """One value of a kernel.

    `value`: its id in the SCoP of the plan.  `text`: what is computed.  `places`: per execution the index of each
    dimension in digits (``i = b0``, ``j = 4*t + v``).  `times`: per execution the loops around it, outermost first,
    with the number of the pass.  `tile`: elements of each dimension that a block holds at once, None where a loop runs
    over all of them.  `combine`: the level at which partial results meet.
    """

    name: str
    value: int
    text: str
    scope: Scope
    combine: str
    places: tuple[str, ...]
    times: tuple[tuple[tuple[str, int], ...], ...]
    tile: tuple[int | None, ...]
    is_load: bool
    source: Source | None

    @property
    def copies(self) -> int:
        """Places at which the value is computed: more than one means recomputation."""
        return len(set(self.places))


@dataclass(frozen=True)
class KernelView:
    """One kernel of a plan: a launch, or member number `member` of one.  Predictions are made at the hinted sizes, as
    if it were a launch of its own; formulas hold for all."""

    launch: Launch
    scop: Scop
    layouts: Mapping[int, Layout]
    target: Target
    hints: Mapping[str, int]
    member: int = 0

    # ---------------------------------------------------------------- decisions
    @property
    def schedule(self) -> KernelSchedule:
        return self.launch.schedules[self.member]

    @property
    def beside(self) -> tuple[str, ...]:
        """Names of the kernels that the same launch runs."""
        return tuple(s.name for k, s in enumerate(self.launch.schedules) if k != self.member)

    @property
    def name(self) -> str:
        return self.schedule.name

    @property
    def strategy(self) -> str:
        return self.schedule.strategy

    @property
    def parameters(self) -> Mapping[str, int]:
        """Tile sizes by name."""
        return dict(self.schedule.parameters)

    @property
    def grid(self) -> tuple[Affine, ...]:
        """Blocks along each axis, in sizes."""
        return tuple(d.extent for d in self.schedule.of_kind("block"))

    @property
    def grid_text(self) -> str:
        return product_text(self.grid, derived_names(self.group.scop.program))

    @property
    def threads(self) -> int:
        return self.schedule.threads

    @property
    def guards(self) -> tuple[AnyGuard, ...]:
        return self.schedule.guards

    @cached_property
    def group(self) -> Group:
        """The statements as they were scheduled, contiguous dimensions collapsed."""
        return group_of(self.schedule, self.whole_group, self.layouts)

    @property
    def whole_group(self) -> Group:
        """The statements over all their dimensions."""
        schedule = self.schedule
        return Group(self.scop, frozenset(schedule.body), frozenset(schedule.roots), frozenset(schedule.loads))

    @cached_property
    def statements(self) -> tuple[StatementView, ...]:
        """The values computed, in canonical order."""
        return tuple(self._view(value) for value in self.schedule.body)

    @cached_property
    def loads(self) -> tuple[StatementView, ...]:
        """The arrays read."""
        return tuple(self._view(value) for value in self.schedule.loads)

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the arrays written."""
        return tuple(self.scop.statements[v].name for v in self.schedule.roots)

    def statement(self, name: str) -> StatementView:
        """The view of one value.  Raises KeyError."""
        for view in self.statements:
            if view.name == name:
                return view
        raise KeyError(name)

    def _view(self, value: int) -> StatementView:
        local, schedule = self.group.scop, self.schedule
        found = local.statements[value]
        role = "compute" if value in schedule.body else "load"
        placed = [p for p in schedule.placed if p.value == value and p.role == role]
        extents = found.extents if isinstance(found, Statement) else found.shape
        return StatementView(
            name=found.name,
            value=value,
            text=body_text(self.scop, value) if role == "compute" else f"load({found.name})",
            scope=scope_of(schedule, value),
            combine=combine_level(local, schedule, placed[0]) if placed else "",
            places=tuple(_place_text(p, len(extents)) for p in placed),
            times=tuple(p.path for p in placed),
            tile=_tile(placed[0], schedule) if placed else (),
            is_load=role == "load",
            source=found.source if isinstance(found, Statement) else None,
        )

    # ---------------------------------------------------------------- predictions
    @cached_property
    def cost(self) -> Cost:
        """The price at the hinted sizes."""
        return self.cost_at(self.hints)

    def cost_at(self, sizes: Mapping[str, int]) -> Cost:
        """The price at given sizes."""
        return price(self.group.scop, self.schedule, self.target, self.sizes_at(sizes))

    def sizes_at(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Given sizes, with those of the dimensions that were collapsed."""
        known = dict(sizes)
        for name, factors in self.group.scop.program.derived:
            known[name] = prod(f.evaluate(known) for f in factors)
        return known

    @property
    def registers(self) -> int:
        return self.cost.registers

    @property
    def shared_bytes(self) -> int:
        return self.cost.shared

    @property
    def occupancy(self) -> int:
        """Resident blocks per processor."""
        return self.cost.occupancy

    @property
    def flops(self) -> int:
        """Operations of all executions at the hinted sizes, replicated and masked ones included."""
        return self.cost.flops

    @property
    def intensity(self) -> float:
        """Operations per byte of main memory."""
        return self.cost.intensity

    @property
    def seconds(self) -> float:
        return self.cost.seconds

    @property
    def bound(self) -> str:
        """What the time is spent on: ``memory``, ``cache``, ``compute``, ``latency`` or ``launch``."""
        return self.cost.bound

    # ---------------------------------------------------------------- exact counts
    @cached_property
    def traffic(self) -> Traffic:
        return kernel_traffic(self.scop, self.schedule)

    @property
    def bytes_read(self) -> Formula:
        return self.traffic.read

    @property
    def bytes_written(self) -> Formula:
        return self.traffic.written

    @property
    def hbm_bytes(self) -> Formula:
        """Each array loaded once and each root stored once, in bytes, for all sizes; no less where a choice by indices
        leaves some of an array unread (`polyfuse.wanted`)."""
        return self.traffic.total

    @property
    def operations(self) -> Formula:
        """What the statements compute, each element once, for all sizes."""
        return work(self.scop, self.schedule.body)


def _place_text(placed: Placed, rank: int) -> str:
    names = dimension_names(rank)
    return ", ".join(f"{names[f'%{k}']} = {entry_text(entry)}" for k, entry in enumerate(placed.place))


def _tile(placed: Placed, schedule: KernelSchedule) -> tuple[int | None, ...]:
    digits = {d.name: d for d in schedule.digits}
    return tuple(_extent(e, digits) if isinstance(e, Affine) else None for e in placed.place)


def _extent(entry: Affine, digits: Mapping[str, Digit]) -> int | None:
    """Elements that threads, slots and constant loops cover of one dimension; None for a symbolic loop."""
    reach = 0
    for name in entry.names():
        digit = digits.get(name[1:])
        if digit is None or digit.kind == "block":
            continue
        if not digit.extent.is_constant:
            return None
        reach += abs(entry.coefficient(name)) * (digit.count - 1)
    return reach + 1


def views(plan: Plan) -> tuple[KernelView, ...]:
    """The kernels of a plan, in launch order, members of one launch side by side."""
    hints, layouts = size_hints(plan.program), array_layouts(plan.scop, plan.layouts)
    members = [(launch, k) for launch in plan.launches for k in range(len(launch.schedules))]
    return tuple(KernelView(launch, plan.scop, layouts, plan.target, hints, k) for launch, k in members)


def by_step(plan: Plan) -> Iterator[tuple[Step, tuple[KernelView, ...]]]:
    """The steps of a plan with the kernels that each launches: none for a library call."""
    from polyfuse.plan import Launch

    remaining = iter(plan.kernels)
    for step in plan.steps:
        yield step, tuple(islice(remaining, len(step.schedules) if isinstance(step, Launch) else 0))


def launch_cost(kernels: Sequence[KernelView], sizes: Mapping[str, int]) -> Cost:
    """The price of one launch of these kernels at given sizes."""
    costs = [kernel.cost_at(sizes) for kernel in kernels]
    return costs[0] if len(costs) == 1 else price_together(costs, kernels[0].threads, kernels[0].target)


def host_seconds(plan: Plan) -> float:
    """What a call takes the host, which hands over one launch after the other while the device works; the price of a
    kernel has that of a launch that fills its results."""
    launches = sum(bool(kernels) for _, kernels in by_step(plan))
    return plan.target.call + plan.target.launch * launches if launches else 0.0
