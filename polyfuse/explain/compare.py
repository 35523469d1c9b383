"""Two plans side by side: launches, intermediates, tensor accesses, bytes, peak memory, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

from polyfuse.affine import Affine
from polyfuse.errors import ArgumentError
from polyfuse.explain.identity import Sizes, value_keys
from polyfuse.explain.kernels import by_step, host_seconds, launch_cost
from polyfuse.explain.traffic import Traffic, formula, step_traffic
from polyfuse.plan import LibraryCall, Plan
from polyfuse.planning.program_costs import size_hints
from polyfuse.reference import bind_sizes
from polyfuse.run.workspace import buffer_bytes, regions
from polyfuse.units import bytes_text, time_text

if TYPE_CHECKING:
    from polyfuse.algebra import Formula
    from polyfuse.expr import Program

Measure = Callable[[Plan], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Step:
    """One launch or library call of a side.  `predicted` is None for a library call, and for a launch that
    fills what the next one merges into, whose price has both; `measured` without `measure=`."""

    name: str
    traffic: Traffic
    predicted: float | None
    measured: float | None

    @property
    def accesses(self) -> int:
        return self.traffic.accesses

    @property
    def hbm_bytes(self) -> Formula:
        return self.traffic.total


@dataclass(frozen=True, slots=True)
class Side:
    """The figures of one plan.  `peak_bytes`: arguments, results and the intermediates alive at the worst step, at the
    sizes of the comparison.  Times in seconds, over all steps."""

    launches: int
    intermediates: tuple[str, ...]
    accesses: int
    hbm_bytes: Formula
    peak_bytes: int
    predicted: float
    measured: float | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`fused`: per kernel of `after` that computes what no single kernel of `before` does, the names of its
    values.  `sizes`: at which numbers are given."""

    before: Side
    after: Side
    fused: list[tuple[str, ...]]
    sizes: Mapping[str, int]

    @property
    def launches(self) -> tuple[int, int]:
        return self.before.launches, self.after.launches

    @property
    def accesses(self) -> tuple[int, int]:
        """Reads and writes of whole tensors."""
        return self.before.accesses, self.after.accesses

    @property
    def hbm_bytes(self) -> tuple[Formula, Formula]:
        """Bytes moved, for all sizes."""
        return self.before.hbm_bytes, self.after.hbm_bytes

    @property
    def peak_bytes(self) -> tuple[int, int]:
        return self.before.peak_bytes, self.after.peak_bytes

    @property
    def predicted(self) -> tuple[float, float]:
        """Seconds."""
        return self.before.predicted, self.after.predicted

    @property
    def measured(self) -> tuple[float | None, float | None]:
        """Seconds, where a `measure` was given."""
        return self.before.measured, self.after.measured

    @property
    def intermediates_removed(self) -> int:
        """Values that were written to memory between kernels and no longer are."""
        return len(self.before.intermediates) - len(self.after.intermediates)

    @property
    def speedup(self) -> float:
        """Predicted."""
        return self.before.predicted / self.after.predicted if self.after.predicted else 1.0

    def __str__(self) -> str:
        return table(self)


def compare(
    before: Plan,
    after: Plan,
    *,
    measure: Measure | Sequence[Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Comparison:
    """Compare two plans of one program, at the sizes hinted unless `sizes` are given.

    measure: the arguments of a call, on which the steps of both plans are timed and whose sizes are those of the
    comparison; or a function that runs a plan and returns the seconds of each of its steps in order.  Raises what
    running the plans raises (`polyfuse.face.measured`).
    """
    for plan in (before, after):
        if not isinstance(plan, Plan):
            raise ArgumentError(f"{type(plan).__name__} is no plan", advice="Pass what f.plan(...) returns, twice.")
    if measure is not None and not callable(measure) and not isinstance(measure, (tuple, list)):
        message = f"measure= is a {type(measure).__name__}, not the arguments of a call"
        raise ArgumentError(message, advice="Pass them in a tuple: measure=(x,).")
    at = {**size_hints(before.program), **size_hints(after.program), **(sizes or {})}
    if measure is not None and not callable(measure):
        at |= {name: size for name, size in _sizes_of(before.program, measure).items() if name in at}
        measure = partial(import_module("polyfuse.face.measured").measured, tuple(measure))
    return Comparison(_side(before, at, measure), _side(after, at, measure), _fused(before, after), at)


def _sizes_of(program: Program, arguments: Sequence[Any]) -> Mapping[str, int]:
    wanted = program.arguments
    if len(arguments) != len(wanted):
        message = f"{program.name} takes {len(wanted)} arguments, and measure= holds {len(arguments)}"
        raise ArgumentError(message, advice=f"Pass {', '.join(a.path for a in wanted)}.")
    pairs = zip(wanted, arguments, strict=True)
    return bind_sizes(program, [getattr(value, "shape", ()) for a, value in pairs if not a.is_scalar])


def _side(plan: Plan, sizes: Mapping[str, int], measure: Measure | None) -> Side:
    seconds = list(measure(plan)) if measure is not None else [None] * len(plan.steps)
    steps = []
    for (step, kernels), measured in zip(by_step(plan), seconds, strict=True):
        traffic = step_traffic(plan, step)
        if isinstance(step, LibraryCall):
            steps.append(Step(plan.scop.statements[plan.called(step)].name, traffic, None, measured))
        elif step.filled:
            steps.append(Step(step.kernel.name, traffic, None, measured))
        else:
            name = kernels[0].launch.kernel.name
            steps.append(Step(name, traffic, launch_cost(kernels, sizes).seconds, measured))
    times = [s.measured for s in steps if s.measured is not None]
    return Side(
        launches=len(plan.steps),
        intermediates=tuple(b.name for b in plan.buffers if b.first < b.last),
        accesses=sum(s.accesses for s in steps),
        hbm_bytes=formula(t for s in steps for t in (*s.traffic.reads, *s.traffic.writes)),
        peak_bytes=peak_bytes(plan, sizes),
        predicted=max(host_seconds(plan), plan.target.start + sum(s.predicted or 0.0 for s in steps)),
        measured=sum(times) if times else None,
        steps=tuple(steps),
    )


def peak_bytes(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Arguments, results of their own, and the memory of the intermediates alive at the worst step."""

    def volume(shape: Sequence[Affine], itemsize: int) -> int:
        return itemsize * prod(max(0, extent.evaluate(sizes)) for extent in shape)

    program, inside = plan.program, {output for output, _ in plan.reuses}
    fixed = sum(volume(a.shape, a.dtype.itemsize) for a in program.arguments if not a.is_scalar)
    fixed += sum(volume(o.shape, o.dtype.itemsize) for k, o in enumerate(program.outputs) if k not in inside)
    fixed += sum(buffer_bytes(b, sizes) for b in plan.buffers if b.zeroed)
    held = regions(plan.buffers, sizes)
    alive = (sum(r.bytes for r in held if r.first <= k <= r.last) for k in range(len(plan.steps)))
    return fixed + max(alive, default=0)


def _fused(before: Plan, after: Plan) -> list[tuple[str, ...]]:
    """Values are recognised by what they compute, so that the two plans may use different names."""
    keys = value_keys(before.scop, Sizes(before.program))
    bodies = [{keys[v] for v in k.schedule.body} for k in before.kernels]
    keys = value_keys(after.scop, Sizes(after.program))
    return [
        tuple(s.name for s in kernel.statements)
        for kernel in after.kernels
        if not any({keys[v] for v in kernel.schedule.body} <= body for body in bodies)
    ]


# ---------------------------------------------------------------------------------------------- text


def table(comparison: Comparison) -> str:
    """The figures in three columns, then the kernels of either side, then what was fused."""
    before, after = comparison.before, comparison.after
    rows = [
        ("", "before", "after"),
        ("launches", str(before.launches), str(after.launches)),
        ("intermediates", str(len(before.intermediates)), str(len(after.intermediates))),
        ("tensor accesses", str(before.accesses), str(after.accesses)),
        ("HBM bytes", str(before.hbm_bytes), str(after.hbm_bytes)),
        (_at(comparison.sizes), *(bytes_text(s.hbm_bytes.at(**comparison.sizes)) for s in (before, after))),
        ("peak memory", bytes_text(before.peak_bytes), bytes_text(after.peak_bytes)),
        ("predicted time", time_text(before.predicted), time_text(after.predicted)),
    ]
    if before.measured is not None and after.measured is not None:
        rows.append(("measured time", time_text(before.measured), time_text(after.measured)))
    blocks = [_columns(rows), _steps("before", before), _steps("after", after)]
    if comparison.fused:
        blocks.append("\n".join(f"fused   {' + '.join(names)}" for names in comparison.fused))
    return "\n\n".join(blocks)


def _at(sizes: Mapping[str, int]) -> str:
    return "  at " + ", ".join(f"{n} = {v}" for n, v in sorted(sizes.items())) if sizes else "  in all"


def _steps(title: str, side: Side) -> str:
    measured = side.measured is not None
    rows = [(title, "accesses", "HBM bytes", "predicted", *(("measured",) if measured else ()))]
    for s in side.steps:
        row = (f"  {s.name}", str(s.accesses), str(s.hbm_bytes), "" if s.predicted is None else time_text(s.predicted))
        rows.append((*row, time_text(s.measured)) if measured and s.measured is not None else row)
    return _columns(rows)


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Left-aligned first column, right-aligned rest."""
    widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(max(map(len, rows)))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(widths[k + 1]) for k, cell in enumerate(row[1:]))]
        lines.append("   ".join(cells).rstrip())
    return "\n".join(lines)
