"""Propose -> prove -> price -> print: from a program to a plan, as one readable list of passes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from polyfuse.affine import Affine
from polyfuse.bindings import (
    FAULT,
    AnyGuard,
    Binding,
    Buffer,
    DerivedGuard,
    FromArgument,
    FromBuffer,
    FromOutput,
    FromProduct,
    FromSize,
    FromStride,
    Guard,
    Layout,
)
from polyfuse.cascades import cascaded, sites
from polyfuse.choose import Choice, Pricer
from polyfuse.cost import long_totals, price
from polyfuse.dtypes import i32
from polyfuse.errors import OptionError, ScheduleError
from polyfuse.expr import Opaque, Program, topological
from polyfuse.gathers import sink_gathers
from polyfuse.grouping.allowance import UNIT, UNWEIGHED
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.search import Grouping, search
from polyfuse.grouping.side_by_side import Launched
from polyfuse.index_bits import index_bits
from polyfuse.index_ranges import settle_bounds
from polyfuse.kernel import ArrayParameter, Kernel, Parameter, ScalarParameter
from polyfuse.legality import prove, prove_at_length, prove_side_by_side
from polyfuse.library_contractions import give_to_library
from polyfuse.lower.declarations import ScratchUse
from polyfuse.lower.kernel import Lowered, lower
from polyfuse.lower.members import side_by_side
from polyfuse.members import Packing, packed
from polyfuse.normalise import normalise
from polyfuse.options import Options
from polyfuse.plan import IndexSite, Launch, LibraryCall, Plan, Step
from polyfuse.program_costs import ProgramCosts, other_form, program_costs, size_hints
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import InputStatement, OpaqueStatement, Scop, Statement
from polyfuse.sharing import share_memory
from polyfuse.split import Cut, in_two_stages, split_reductions
from polyfuse.split_scans import split_scans
from polyfuse.target import Target
from polyfuse.verdict import Kind, Verdict
from polyfuse.verify.kernel import verify_kernel
from polyfuse.witness import with_witness

Derived = tuple[tuple[str, tuple[Affine, ...]], ...]

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
    hints = size_hints(program)
    program = settle_bounds(program, options.bounds)  # data indices that are proved to be in bounds need no check
    program = sink_gathers(program, hints)  # what data choose of a computed array is computed alone
    program = replace(normalise(program), hints=hints)  # reverse scans become flips
    program = give_to_library(program, target, options, layouts, pricer)  # contractions that it runs faster
    runs, split = tuple[Guard, ...](), tuple[Guard, ...]()
    if not options.batch_invariant:
        program, runs = split_scans(program, target, hints, pricer)  # few long prefixes become scans of their parts
        program, split = split_reductions(program, target, hints)  # few long reductions become two stages
    costs = program_costs(program, target, options, layouts, pricer)  # what a kernel of some statements would cost
    grouping = _grouping(costs, effort)  # the cheapest partition of stored values
    grouping = _proved(costs, grouping)  # isl proves every final kernel; refuted ones are taken apart
    costs, grouping = _in_one_pass(costs, grouping, tuple(layouts), effort)  # dependent reductions, if that is cheaper
    costs, grouping = _in_two_stages(costs, grouping, tuple(layouts), effort)  # sums of many shares, if that is cheaper
    packing = packed(costs, grouping)  # independent kernels side by side in one launch, where that is faster
    _check_wishes(costs, packing)
    plan = assemble(costs, packing, tuple(layouts))  # kernel IR, bindings, buffers, guards
    return replace(plan, guards=tuple(dict.fromkeys((*plan.guards, *runs, *split, *size_classes(program, hints)))))


def _refuse(options: Options, target: Target) -> None:
    """Raise OptionError for an option that kernels of this kind of target would not follow."""
    if options.fastmath and target.kind == "cpu":
        raise OptionError(
            f"fastmath=True is not supported on target {target.name}",
            advice="Its functions are accurate to a few ulp and vectorise as they are; leave the option out.",
        )


EXACT_CALLS = ("sort", "argsort", "top_k_indices", "searchsorted", "scatter")
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
    return _cheaper(costs, grouping, other_form(costs, program, layouts), effort, f"{len(cuts)} sums in two stages")


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
        other = _proved(others, _grouping(others, effort, grouping.spent))
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


PATIENCE = 6
"""Rounds of proof after which the values that most refused kernels had become kernels of their own.  What is refused
because of them would else be tried with ever other statements, for as many rounds as those have subsets."""


def _proved(costs: ProgramCosts, grouping: Grouping) -> Grouping:
    """Every final kernel through isl; a refuted one is marked and the search goes on without it.

    No plan leaves with a kernel that was not proved: raises ScheduleError instead.
    """
    refused: dict[KernelGroup, Verdict] = {}
    often: Counter[int] = Counter()  # how often each value was in a kernel that was refused
    for number in range(PATIENCE + 2 + costs.count):  # each round marks kernels that the next one cannot form again
        refused = {}
        for kernel in grouping.kernels:
            promised = costs.choice(kernel.body, kernel.roots, kernel.loads)
            if promised.schedule is None or promised.group is None:
                if promised.verdict is not None and len(kernel.body) > 1:  # alike ones have a schedule: of other sizes
                    refused[kernel] = promised.verdict
                    continue
                _check_single(costs, kernel, promised)
                continue
            verdict, is_proved = _proved_kernel(costs, kernel, promised)
            if not is_proved and len(kernel.body) == 1:
                raise ScheduleError(f"no schedule of {promised.schedule.name} was proved: {verdict}", verdict=verdict)
            if not is_proved or not verdict and _is_better_apart(costs, grouping, kernel, promised, verdict):
                refused[kernel] = verdict
        if not refused:
            return grouping
        often.update(value for kernel in refused for value in kernel.body)
        worst = {v for k in refused for v in k.body if often[v] == max(often[u] for u in k.body)}
        grouping = grouping.refute(refused, worst if number >= PATIENCE else frozenset())
    verdict = next(iter(refused.values()))
    raise ScheduleError(f"no schedule of {costs.scop.program.name} was proved: {verdict}", verdict=verdict)


def _proved_kernel(costs: ProgramCosts, kernel: KernelGroup, choice: Choice) -> tuple[Verdict, bool]:
    """The first refutation of a schedule of a kernel, if there was one, and whether it is left with a proved one."""
    first: Verdict | None = None
    undecided: list[Choice] = []
    while True:
        schedule, group = choice.schedule, choice.group
        assert schedule is not None and group is not None
        verdict = prove(group.scop, schedule)
        if verdict:
            return verdict if first is None else first, True
        first = verdict if first is None else first
        fusion_log.info("refuted %s by %s: %s", schedule.name, schedule.strategy, verdict)
        undecided += [choice] if verdict.kind is Kind.UNKNOWN else []
        if not costs.avoid(kernel.body, kernel.roots, kernel.loads, (schedule.strategy, schedule.parameters)):
            return first, len(kernel.body) == 1 and _proved_at_length(costs, kernel, undecided)
        choice = costs.choice(kernel.body, kernel.roots, kernel.loads)


def _proved_at_length(costs: ProgramCosts, kernel: KernelGroup, undecided: Sequence[Choice]) -> bool:
    """Whether a lone statement, which cannot be taken apart, has a schedule that a larger budget proves."""
    for choice in undecided:
        assert choice.schedule is not None and choice.group is not None
        if prove_at_length(choice.group.scop, choice.schedule):
            costs.choices[kernel.body, kernel.roots] = choice
            return True
    return False


def _is_better_apart(
    costs: ProgramCosts, grouping: Grouping, kernel: KernelGroup, promised: Choice, verdict: Verdict
) -> bool:
    """Whether a kernel that the search joined for a price that no proved schedule has is dearer than its parts."""
    choice = costs.choice(kernel.body, kernel.roots, kernel.loads)
    assert choice.cost is not None and promised.cost is not None
    risen = choice.cost.seconds - promised.cost.seconds
    if risen <= 0 or len(kernel.body) == 1:
        return False
    return grouping.refute({kernel: verdict}).time < grouping.time + risen * 1e12


def _check_single(costs: ProgramCosts, kernel: KernelGroup, choice: Choice) -> None:
    """Only a library call has no schedule of its own.  Raises ScheduleError where the user's options left none."""
    if choice.verdict is not None:
        names = ", ".join(costs.scop.statements[v].name for v in sorted(kernel.body))
        raise ScheduleError(f"no schedule for {names}: {choice.verdict}", verdict=choice.verdict)


# ---------------------------------------------------------------------------------------------- assembly


def assemble(costs: ProgramCosts, packing: Packing, layouts: tuple[Layout, ...]) -> Plan:
    """The plan that runs the launches of a packing, each kernel as `costs` chose it."""
    scop, grouping = costs.scop, packing.grouping
    offsets = index_bits(scop, [costs.choice(k.body, k.roots, k.loads) for k in grouping.kernels], costs.hints)
    making = _Making(costs, offsets.bits, dict.fromkeys(offsets.guards))
    for kernels in packing.launches:
        making.step(kernels)
    met = {(a.name, b.name) for kernels in packing.launches for a, b in permutations(kernels, 2)}  # in one launch
    log = {pair: verdict for pair, verdict in {**packing.apart, **grouping.log}.items() if pair not in met}
    refusals = tuple((scop.statements[u].name, scop.statements[v].name, verdict) for (u, v), verdict in log.items())
    if grouping.unweighed:
        fusion_log.warning("%s: %d %s", scop.program.name, grouping.unweighed, UNWEIGHED)
    for u, v, verdict in refusals:
        fusion_log.info("apart %s | %s: %s", u, v, verdict.sentence)
    stored = {root for kernel in grouping.kernels for root in kernel.roots}
    plan = Plan(
        program=scop.program,
        target=costs.target,
        options=costs.options,
        layouts=layouts,
        guards=tuple(making.guards),
        steps=tuple(making.steps),
        buffers=(*_buffers(scop, making.steps, stored), *making.scratch),
        refusals=refusals,
        work=costs.work,
        unweighed=grouping.unweighed,
        sites=tuple(making.sites),
    )
    return share_memory(plan)  # proved by order and by the reuse rule


@dataclass(slots=True)
class _Making:
    """The steps of a plan as they are made; `bits` of an index."""

    costs: ProgramCosts
    bits: int
    guards: dict[AnyGuard, None]
    steps: list[Step] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)
    sites: list[IndexSite] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def step(self, kernels: Launched) -> None:
        """One more, of one kernel or of several side by side.  Raises ScheduleError where these may not be."""
        if self._choice(kernels[0]).schedule is None:
            self.steps.append(_library_step(self.costs.scop, kernels[0]))
            return
        made = [self._lowered(kernel) for kernel in kernels]
        schedules = tuple(schedule for _, _, schedule in made)
        (kernel, bindings, _), *others = made
        if others:
            verdict = prove_side_by_side(self.costs.scop, schedules)
            if not verdict:
                raise ScheduleError(f"{kernel.name} cannot share a launch: {verdict}", verdict=verdict)
            name = _unique(f"{kernel.name}_and_{len(others)}", self.names)
            kernel, bindings = side_by_side(name, [(k, b) for k, b, _ in made])
            if self.costs.options.verify:
                verify_kernel(kernel)
            fusion_log.info("beside %s -> %s (%d)", " | ".join(s.name for s in schedules), name, len(made))
        self.steps.append(Launch(kernel, bindings, schedules))

    def _choice(self, kernel: KernelGroup) -> Choice:
        return self.costs.choice(kernel.body, kernel.roots, kernel.loads)

    def _lowered(self, kernel: KernelGroup) -> tuple[Kernel, tuple[Binding, ...], KernelSchedule]:
        costs, choice = self.costs, self._choice(kernel)
        group = choice.group
        assert group is not None and choice.schedule is not None, "a library call shares no launch"
        schedule = replace(choice.schedule, name=_unique(choice.schedule.name, self.names))
        derived = group.scop.program.derived
        self.guards |= dict.fromkeys(_on_sizes(g, derived) for g in schedule.guards)
        first = 1 + len(self.sites)
        lowered = lower(group.scop, schedule, costs.layouts, costs.options, self.bits, first_site=first)
        if costs.options.verify:
            verify_kernel(lowered.kernel)
        self.sites += [_site(group.scop, value) for value in lowered.checked]
        self.scratch += [_scratch(lowered, use, len(self.steps), derived) for use in lowered.scratch]
        held = "+".join(s.name for s in group.statements())
        fusion_log.info("fused %s -> %s (%d)", held, schedule.name, len(kernel.body))
        return lowered.kernel, _bindings(costs.scop, lowered, derived), schedule


def _site(scop: Scop, value: int) -> IndexSite:
    statement = scop.statements[value]
    assert isinstance(statement, Statement)
    read = next(r for r in statement.reads if r.bounds == "raise")
    return IndexSite(statement.name, scop.statements[read.source].name, statement.digest, statement.source)


def _unique(name: str, taken: dict[str, int]) -> str:
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


def _scratch(lowered: Lowered, use: ScratchUse, step: int, derived: Derived) -> Buffer:
    names = {n for extent in use.shape for n in extent.names()}
    products = tuple((name, factors) for name, factors in derived if name in names)
    return Buffer(f"{lowered.kernel.name}.{use.name}", use.dtype, use.shape, step, step, use.zeroed, derived=products)


def _on_sizes(guard: AnyGuard, derived: Derived) -> AnyGuard:
    """The guard in terms that a call knows: products of sizes are spelled out."""
    if not isinstance(guard, Guard):
        return guard
    used = tuple((name, factors) for name, factors in derived if name in guard.expression.names())
    return DerivedGuard(guard, used) if used else guard


def _bindings(scop: Scop, lowered: Lowered, derived: Derived) -> tuple[Binding, ...]:
    products = dict(derived)
    uses = {use.name: use for use in lowered.arrays}
    own = {use.name for use in lowered.scratch}
    strides = {
        f"{use.name}_s{axis}": FromStride(_position(scop, use.value), axis)
        for use in lowered.arrays
        if use.layout.strides is not None
        for axis in range(len(use.shape))
    }

    def bind(parameter: Parameter) -> Binding:
        if parameter.name == FAULT:
            return FromBuffer(FAULT)
        if parameter.name in own:
            return FromBuffer(f"{lowered.kernel.name}.{parameter.name}")
        if isinstance(parameter, ArrayParameter):
            use = uses[parameter.name]
            return _home(scop, use.value, use.component)
        if isinstance(parameter, ScalarParameter):
            return FromArgument(int(parameter.name[1:]))
        if parameter.name in products:
            return FromProduct(products[parameter.name])
        return strides.get(parameter.name) or FromSize(Affine.symbol(parameter.name))

    return tuple(bind(p) for p in lowered.kernel.parameters)


def _position(scop: Scop, value: int) -> int:
    statement = scop.statements[value]
    assert isinstance(statement, InputStatement)
    return statement.position


def _home(scop: Scop, value: int, component: int) -> Binding:
    """Where a stored value lives: the caller's array, an output, or the workspace."""
    statement = scop.statements[value]
    if isinstance(statement, InputStatement):
        return FromArgument(statement.position)
    if value in scop.outputs and component == 0:
        return FromOutput(scop.outputs.index(value))
    return FromBuffer(_buffer_name(statement.name, component))


def _buffer_name(name: str, component: int) -> str:
    return name if not component else f"{name}.{component}"


def _library_step(scop: Scop, kernel: KernelGroup) -> LibraryCall:
    (value,) = kernel.body
    statement = scop.statements[value]
    assert isinstance(statement, OpaqueStatement)
    operands = tuple(_home(scop, o, 0) for o in statement.operands)
    return LibraryCall(statement.call, operands, (_home(scop, value, 0),))


def _buffers(scop: Scop, steps: Sequence[Step], stored: set[int]) -> tuple[Buffer, ...]:
    """Intermediates in memory with the first and last step that touches them."""
    touched: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        bindings = step.bindings if isinstance(step, Launch) else (*step.operands, *step.results)
        for binding in bindings:
            if isinstance(binding, FromBuffer):
                touched.setdefault(binding.name, []).append(number)
    found = []
    for value in sorted(stored):
        statement = scop.statements[value]
        for component, dtype in enumerate(statement.dtypes):
            name = _buffer_name(statement.name, component)
            if name in touched:
                span = touched[name]
                found.append(Buffer(name, dtype, statement.shape, min(span), max(span)))
    if FAULT in touched:
        found.append(Buffer(FAULT, i32, (Affine.of(1),), min(touched[FAULT]), max(touched[FAULT]), zeroed=True))
    return tuple(found)
