"""Propose -> prove -> price -> print: from a program to a plan, as one readable list of passes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from polyfuse.affine import Affine
from polyfuse.bindings import (
    Guard,
    Layout,
)
from polyfuse.cost.phases import long_totals
from polyfuse.cost.prices import price
from polyfuse.errors import OptionError, ScheduleError
from polyfuse.expr import Opaque, Program, topological
from polyfuse.grouping.allowance import UNIT
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.search import Grouping, search
from polyfuse.index_ranges import settle_bounds
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.assembly import assemble
from polyfuse.planning.choose import Choice, Pricer
from polyfuse.planning.library_contractions import give_to_library
from polyfuse.planning.members import Packing, packed
from polyfuse.planning.program_costs import ProgramCosts, other_form, program_costs, size_hints
from polyfuse.planning.proving import proved
from polyfuse.planning.split_scans import split_scans
from polyfuse.planning.witness import with_witness
from polyfuse.rewrites.cascades import cascaded, sites
from polyfuse.rewrites.gathers import sink_gathers
from polyfuse.rewrites.normalise import normalise
from polyfuse.rewrites.positions import short_positions
from polyfuse.rewrites.refinement import refine
from polyfuse.rewrites.regions import short_regions
from polyfuse.rewrites.scatters import tabled_scatters
from polyfuse.rewrites.split import Cut, in_two_stages, split_reductions
from polyfuse.scop import Statement
from polyfuse.strategies.atomics import UNUSED
from polyfuse.target import Target

fusion_log = logging.getLogger("polyfuse.fusion")


def plan_program(
    program: Program,
    target: Target,
    options: Options,
    layouts: Sequence[Layout],
    pricer: Pricer = price,
    effort: int | None = None,
) -> Plan:
    """The plan for one class of calls.  `layouts` has one entry per argument.  Whatever `pricer` says, the plan is
    proved.  `effort`: of the search, see `grouping.search`.  Raises PolyfuseError subclasses."""
    _refuse(options, target)
    options = settled(options, program)
    if options.atomics and target.kind == "cpu":
        fusion_log.info("%s: atomics: %s", program.name, UNUSED)
    hints = size_hints(program)
    program = settle_bounds(program, options.bounds)  # data indices that are proved to be in bounds need no check
    program = sink_gathers(program, hints)  # what data choose of a computed array is computed alone
    program = tabled_scatters(program) if target.kind == "cuda" else program  # scattered rows become sums of rows
    program = refine(program) if target.kind == "cuda" else program  # reshapes in between become finer dimensions
    program = replace(normalise(program), hints=hints)  # reverse scans become flips
    program = short_regions(program)  # arrays written element by element are computed a few elements at a time
    shorts = tuple[Guard, ...]()
    if target.kind == "cuda":
        program, shorts = short_positions(program, hints)  # positions of extremes are one register, not two
    program = give_to_library(program, target, options, layouts, pricer)  # contractions that it runs faster
    runs, split = tuple[Guard, ...](), tuple[Guard, ...]()
    if not options.batch_invariant:
        program, runs = split_scans(program, target, hints, pricer)  # few long prefixes become scans of their parts
        program, split = split_reductions(program, target, hints)  # few long reductions become two stages
    costs = program_costs(program, target, options, layouts, pricer)  # what a kernel of some statements would cost
    grouping = _grouping(costs, effort)  # the cheapest partition of stored values
    grouping = proved(costs, grouping)  # isl proves every final kernel; refuted ones are taken apart
    costs, grouping = _in_one_pass(costs, grouping, tuple(layouts), effort)  # dependent reductions, if that is cheaper
    costs, grouping = _in_two_stages(costs, grouping, tuple(layouts), effort)  # sums of many shares, if that is cheaper
    packing = packed(costs, grouping)  # independent kernels side by side in one launch, where that is faster
    _check_wishes(costs, packing)
    plan = assemble(costs, packing, tuple(layouts))  # kernel IR, bindings, buffers, guards
    guards = (*plan.guards, *shorts, *runs, *split, *size_classes(program, hints))
    return replace(plan, guards=tuple(dict.fromkeys(guards)))


def _refuse(options: Options, target: Target) -> None:
    """Raise OptionError for an option that kernels of this kind of target would not follow."""
    if options.fastmath and target.kind == "cpu":
        raise OptionError(
            f"fastmath=True is not supported on target {target.name}",
            advice="Its functions are accurate to a few ulp and vectorise as they are; leave the option out.",
        )


EXACT_CALLS = ("sort", "argsort", "top_k_indices", "searchsorted", "scatter", "scatter_table", "scatter_folded")
"""Functions of libraries that round nothing, or in a fixed order."""


def settled(options: Options, program: Program) -> Options:
    """The options with what `batch_invariant` implies: each operation is a function of its operands' bits, in whatever
    kernel it stands.  Raises OptionError for a library's function that may work differently on fewer rows."""
    if not options.batch_invariant:
        return options
    for node in topological(program.outputs):
        if isinstance(node, Opaque) and node.call.name not in EXACT_CALLS:
            raise OptionError(
                f"batch_invariant=True: {node.call.name} runs in the array library, which promises nothing of the kind",
                advice="Call it outside of the jitted function, or leave the option out.",
                source=program.sources.get(node.digest),
            )
    if options.fastmath:
        raise OptionError("batch_invariant=True and fastmath=True exclude each other", advice="Leave one of them out.")
    if options.atomics:
        raise OptionError("batch_invariant=True and atomics=True exclude each other", advice="Leave one of them out.")
    return replace(options, contract=False, round="every-op", library=False)


SIZE_CLASSES = (64, 256, 1024, 4096, 16384, 65536, 262144)
"""Bounds between which one plan serves all sizes: prices, not legality, change from class to class."""


def size_classes(program: Program, hints: Mapping[str, int]) -> tuple[Guard, ...]:
    """Guards that keep every size symbol in the class of its hint."""
    found: list[Guard] = []
    for name in program.symbols:
        symbol, hint = Affine.symbol(name), hints[name]
        below = [bound for bound in SIZE_CLASSES if hint > bound]
        above = [bound for bound in SIZE_CLASSES if hint <= bound]
        found += [Guard(symbol - below[-1] - 1, advisory=True)] if below else []
        found += [Guard(Affine.of(above[0]) - symbol, advisory=True)] if above else []
    return tuple(found)


def _grouping(costs: ProgramCosts, effort: int | None, spent: int = 0) -> Grouping:
    """The cheapest partition that respects the user's options, but for wishes that are illegal.  `spent`: work of
    earlier searches for the same plan."""
    return search(
        costs,
        together=costs.steering.wishes(),
        apart=costs.steering.apart,
        max_size=costs.options.max_fusion_size,
        fusible=costs.steering.fusible,
        effort=effort,
        granted=_granted(costs.options, spent),
    )


def _granted(options: Options, spent: int) -> int | None:
    """What is left of the work that the user allows, if the user says so."""
    seconds = options.planning_seconds
    return None if seconds is None else max(0, int(seconds / UNIT) - spent)


def _check_wishes(costs: ProgramCosts, packing: Packing) -> None:
    """Raise ScheduleError for what the user wants together and neither one body nor one launch computes."""
    for wish, verdict in packing.grouping.unmet:
        if wish in costs.steering.together and packing.unmet(wish):
            verdict = with_witness(costs, wish, verdict)
            names = ", ".join(costs.scop.statements[v].name for v in sorted(wish))
            raise ScheduleError(f"{names} cannot share a kernel: {verdict}", verdict=verdict)


GAIN = 0.9
"""Of the predicted time, above which a program's own sums stay, and where less than a launch is won: prices are not
finer than that (softmax of 512 x 262144 in two passes 401 us, held by clusters 404, predicted 374 and 414), and every
other form of a kernel is one more to compile.  What would wait in shared memory is no simpler than what need not."""
STAGES = 0.97
"""The same for sums in two stages, whose forms read the same (A^T (A x) of 65536 x 4096 on an H200, in one: 279 us,
predicted 272; of 16384 x 16384 in two: 254, predicted 250)."""


def _in_one_pass(
    costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...], effort: int | None
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one that takes sums with what they are relative to, where kernels of the first
    pass more than once over what both reduce; proved.  What the user steers by name, rounds step by step, or wants
    alike in every batch, stays as it is."""
    scop = costs.scop
    if costs.target.kind == "cpu" or _keeps_its_form(costs.options):
        return costs, grouping
    numbers = {s.digest: s.id for s in scop.statements if isinstance(s, Statement)}
    found = [(s, {numbers[r.digest] for r in (*s.firsts, s.total)}) for s in sites(scop.program)]
    chosen = [s for s, values in found if not any(_holds(costs, kernel, values) for kernel in grouping.kernels)]
    if not chosen:
        return costs, grouping
    if _granted(costs.options, grouping.spent) == 0:
        return costs, replace(grouping, unweighed=grouping.unweighed + 1)
    program = cascaded(scop.program, chosen)
    gain = 1.0 if _in_cells(costs, grouping) else GAIN
    what = f"{len(chosen)} sums in one pass"
    return _cheaper(costs, grouping, other_form(costs, program, layouts), effort, what, gain)


def _in_two_stages(
    costs: ProgramCosts, grouping: Grouping, layouts: tuple[Layout, ...], effort: int | None
) -> tuple[ProgramCosts, Grouping]:
    """The cheaper of a program and the one in which a second kernel adds up the shares of those sums that would keep
    one block of the first busy for longer than a launch takes; proved."""
    if costs.target.kind == "cpu" or _keeps_its_form(costs.options):
        return costs, grouping
    cuts: dict[bytes, Cut] = {}
    for kernel in grouping.kernels:
        cuts |= _cuts(costs, costs.choice(kernel.body, kernel.roots, kernel.loads))
    if not cuts:
        return costs, grouping
    if _granted(costs.options, grouping.spent) == 0:
        return costs, replace(grouping, unweighed=grouping.unweighed + 1)
    program = in_two_stages(costs.scop.program, cuts)
    others = other_form(costs, program, layouts)
    return _cheaper(costs, grouping, others, effort, f"{len(cuts)} sums in two stages", STAGES)


def _cuts(costs: ProgramCosts, choice: Choice) -> dict[bytes, Cut]:
    """Of the sums with many shares, by digest: where the blocks of a schedule begin theirs."""
    if choice.schedule is None or choice.group is None:
        return {}
    schedule, scop, found = choice.schedule, choice.group.scop, dict[bytes, Cut]()
    known = {s.digest for s in costs.scop.statements if isinstance(s, Statement)}
    for total in long_totals(scop, schedule, costs.target, {**scop.program.hints, **costs.hints}):
        statement, along = scop.statements[total.value], schedule.finish_of(total)
        share = next(p for p in schedule.placed if p.value == total.value and p.role == "compute")
        if not isinstance(statement, Statement) or statement.digest not in known:
            continue
        for dim in statement.reduced:
            entry = share.place[dim]
            step = entry.coefficient(f"${along}") if isinstance(entry, Affine) else 0
            found |= {statement.digest: (dim, step)} if step > 1 else {}
    return found


def _keeps_its_form(options: Options) -> bool:
    """Whether values are what the user steers by name, rounds step by step, or wants alike in every batch."""
    steered = options.together or options.apart or options.tiles or options.strategies or options.max_fusion_size
    return bool(options.fuse != "all" or options.round == "every-op" or options.batch_invariant or steered)


def _cheaper(
    costs: ProgramCosts, grouping: Grouping, others: ProgramCosts, effort: int | None, what: str, gain: float = GAIN
) -> tuple[ProgramCosts, Grouping]:
    """The other form of a program, proved, where it gains enough; else the one that there is."""
    try:
        other = proved(others, _grouping(others, effort, grouping.spent))
    except ScheduleError as error:
        fusion_log.info("not %s: %s", what, error)
        return costs, grouping
    time, before = _time(others, other), _time(costs, grouping)
    fusion_log.info("%s: %d us, %d without", what, time // 10**6, before // 10**6)
    costs.work = others.work = costs.work + others.work
    spent = grouping.spent + other.spent
    least = max((1 - gain) * before, costs.target.launch * 1e12) if gain < 1.0 else 0.0
    if time < before - least:
        return others, replace(other, spent=spent)
    return costs, replace(grouping, spent=spent)


def _in_cells(costs: ProgramCosts, grouping: Grouping) -> bool:
    """Whether a kernel holds a part of what it passes over again in shared memory."""
    schedules = [costs.choice(k.body, k.roots, k.loads).schedule for k in grouping.kernels]
    return any(s is not None and s.cells is not None for s in schedules)


def _time(costs: ProgramCosts, grouping: Grouping) -> int:
    """Picoseconds of the schedules that were proved, which may be dearer than those that the search joined for."""
    chosen = [(k.time, costs.choice(k.body, k.roots, k.loads).cost) for k in grouping.kernels]
    return sum(time if cost is None else cost.picoseconds for time, cost in chosen)


def _holds(costs: ProgramCosts, kernel: KernelGroup, values: set[int]) -> bool:
    """Whether a kernel reads what these reductions take once, and holds it in the registers of one block in between,
    beside which a processor has room for others."""
    choice = costs.choice(kernel.body, kernel.roots, kernel.loads)
    if not values <= kernel.body or choice.schedule is None or choice.cost is None:
        return False
    largest = choice.schedule.threads >= costs.target.threads_per_block  # or a cluster of several
    in_registers = not choice.schedule.of_kind("loop") and choice.schedule.cells is None
    return in_registers and choice.cost.occupancy > 1 and not largest
