"""From kernels that were chosen and proved to a plan: kernel IR, bindings, buffers, guards, in launch order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
    Layout,
    VolumeGuard,
)
from polyfuse.dtypes import i32
from polyfuse.errors import ScheduleError
from polyfuse.grouping.allowance import UNWEIGHED
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.side_by_side import Launched
from polyfuse.kernel import ArrayParameter, Kernel, Parameter, ScalarParameter
from polyfuse.legality import prove_side_by_side
from polyfuse.lower.declarations import ScratchUse
from polyfuse.lower.fill import fill_kernel
from polyfuse.lower.kernel import Lowered, lower
from polyfuse.lower.members import Part, side_by_side
from polyfuse.plan import IndexSite, Launch, LibraryCall, Plan, Step
from polyfuse.planning.choose import Choice
from polyfuse.planning.index_bits import divided, index_bits
from polyfuse.planning.members import Packing
from polyfuse.planning.program_costs import ProgramCosts
from polyfuse.planning.scatters import Scattering, scattering
from polyfuse.planning.sharing import share_memory
from polyfuse.schedule import IN_PIECES, KernelSchedule
from polyfuse.scop import InputStatement, OpaqueStatement, Scop, Statement, neutral
from polyfuse.verify.kernel import verify_kernel

Derived = tuple[tuple[str, tuple[Affine, ...]], ...]

fusion_log = logging.getLogger("polyfuse.fusion")


def assemble(costs: ProgramCosts, packing: Packing, layouts: tuple[Layout, ...]) -> Plan:
    """The plan that runs the launches of a packing, each kernel as `costs` chose it.  Raises ScheduleError where a
    kernel reads what none before it stores, or none stores an output."""
    scop, grouping = costs.scop, packing.grouping
    _check_stored(costs, packing)
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


def _check_stored(costs: ProgramCosts, packing: Packing) -> None:
    scop = costs.scop
    stored = {v for v in range(costs.count) if costs.is_input(v)}
    for kernels in packing.launches:
        missing = {v for kernel in kernels for v in kernel.loads} - stored
        if missing:
            raise ScheduleError(f"{scop.statements[min(missing)].name} is read before it is stored")
        stored |= {v for kernel in kernels for v in kernel.roots}
    missing = set(scop.outputs) - stored
    if missing:
        raise ScheduleError(f"no kernel stores {scop.statements[min(missing)].name}")


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
            self.steps.append(self._call(kernels[0]))
            return
        self._fill(kernels)
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

    def _call(self, kernel: KernelGroup) -> LibraryCall:
        """A call of the library, or the kernels that do what it would."""
        scop, (value,) = self.costs.scop, kernel.body
        statement = scop.statements[value]
        assert isinstance(statement, OpaqueStatement)
        operands = tuple(_home(scop, o, 0) for o in statement.operands)
        results, launches = (_home(scop, value, 0),), self._scattered(statement)
        return LibraryCall(statement.call, operands, results, launches, statement.digest)

    def _scattered(self, statement: OpaqueStatement) -> tuple[Launch, ...]:
        """The kernels of a scatter that needs no library; none for other calls."""
        costs, step, site = self.costs, len(self.steps), 1 + len(self.sites)
        found = scattering(costs, statement, step, site)
        if found is None:
            return ()
        self.guards |= dict.fromkeys(_on_sizes(g, costs.scop.program.derived) for g in found.guards)
        if found.base:
            line = costs.scop.program.sources.get(statement.digest)
            self.sites.append(IndexSite(statement.name, found.base, statement.digest, line))
        self.scratch += found.buffers
        return tuple(self._bound(found, kernel) for kernel in found.kernels)

    def _bound(self, found: Scattering, kernel: Kernel) -> Launch:
        if self.costs.options.verify:
            verify_kernel(kernel)

        def bind(name: str) -> Binding:
            if name in found.arrays:
                return _home(self.costs.scop, found.arrays[name], 0)
            if name in found.products:
                return FromProduct(found.products[name])
            return FromSize(Affine.symbol(name))

        own = {FAULT, *(b.name for b in found.buffers)}
        named = replace(kernel, name=_unique(kernel.name, self.names))
        bindings = (FromBuffer(p.name) if p.name in own else bind(p.name) for p in kernel.parameters)
        return Launch(named, tuple(bindings), ())

    def _fill(self, kernels: Launched) -> None:
        """One launch that fills what the blocks of these kernels merge their shares into, if there is any."""
        parts: list[Part] = []
        filled: list[int] = []
        for choice in map(self._choice, kernels):
            schedule, group = choice.schedule, choice.group
            for value in schedule.filled if schedule is not None and group is not None else ():
                assert group is not None
                parts.append(_filling(self.costs.scop, group.scop, value, self.bits, self.names))
                filled.append(value)
        if not parts:
            return
        name = _unique(f"{parts[0][0].name}_and_{len(parts) - 1}", self.names)
        kernel, bindings = side_by_side(name, parts) if len(parts) > 1 else parts[0]
        if self.costs.options.verify:
            verify_kernel(kernel)
        self.steps.append(Launch(kernel, bindings, (), tuple(filled)))

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
        if self.bits == 32 and IN_PIECES in dict(schedule.parameters):
            self.guards |= dict.fromkeys(_on_sizes(g, derived) for g in divided(schedule, lowered.kernel))
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
    number, read = next((k, r) for k, r in enumerate(statement.reads) if r.bounds == "raise")
    is_own = any(operand == number for operand, _ in read.checks)  # of an array that is in no memory
    array = "a computed array" if is_own else scop.statements[read.source].name
    return IndexSite(statement.name, array, statement.digest, statement.source)


def _unique(name: str, taken: dict[str, int]) -> str:
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


def _scratch(lowered: Lowered, use: ScratchUse, step: int, derived: Derived) -> Buffer:
    names = {n for extent in use.shape for n in extent.names()}
    products = tuple((name, factors) for name, factors in derived if name in names)
    return Buffer(f"{lowered.kernel.name}.{use.name}", use.dtype, use.shape, step, step, use.zeroed, derived=products)


def _on_sizes(guard: AnyGuard, derived: Derived) -> AnyGuard:
    """The guard in terms that a call knows: products of sizes are spelled out."""
    if isinstance(guard, DerivedGuard):
        return guard
    terms = guard.shape if isinstance(guard, VolumeGuard) else (guard.expression,)
    names = {name for term in terms for name in term.names()}
    used = tuple((name, factors) for name, factors in derived if name in names)
    return DerivedGuard(guard, used) if used else guard


def _filling(scop: Scop, local: Scop, value: int, bits: int, taken: dict[str, int]) -> Part:
    """The kernel that fills a value with its monoid's neutral element; `local`: the SCoP whose dimensions are those of
    the kernel that merges into it."""
    statement = local.statements[value]
    assert isinstance(statement, Statement) and statement.monoid is not None
    products = dict(local.program.derived)
    name, dtype, shape = statement.name, statement.dtypes[0], local.shape(value)
    (neutral_element,) = neutral(statement.monoid, statement.dtypes)
    kernel = fill_kernel(_unique(f"fill_{name}", taken), f"{name}_out", dtype, shape, neutral_element, bits)
    sizes = [p.name for p in kernel.parameters[1:]]
    numbers = (FromProduct(products[n]) if n in products else FromSize(Affine.symbol(n)) for n in sizes)
    return kernel, (_home(scop, value, 0), *numbers)


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
        return strides.get(parameter.name) or FromSize(lowered.sums.get(parameter.name, Affine.symbol(parameter.name)))

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


def _touched(step: LibraryCall) -> tuple[Binding, ...]:
    return (*step.operands, *step.results, *(b for launch in step.launches for b in launch.bindings))


def _buffers(scop: Scop, steps: Sequence[Step], stored: set[int]) -> tuple[Buffer, ...]:
    """Intermediates in memory with the first and last step that touches them."""
    touched: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        bindings = step.bindings if isinstance(step, Launch) else _touched(step)
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
