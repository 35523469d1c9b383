"""`plan.explain()`: what each kernel fuses, why that is right, what it saves, what it costs, and what stayed apart.

softmax on h200: 5 operations in 1 kernel, no intermediate in memory
HBM bytes 8*M*N instead of 32*M*N + 16*M; 537 MB instead of 2.15 GB at M = 16384, N = 4096
predicted 127 us

kernel m_d_s_y   rows lanes=256 chunks=4 vector=4   grid M   block 256
  fuses      m, d, e, s, y
  ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from polyfuse.affine import Affine
from polyfuse.bindings import Guard, is_advisory
from polyfuse.explain.analysis import call_seconds
from polyfuse.explain.kernels import KernelView, by_step, launch_cost
from polyfuse.explain.memory import memory_lines
from polyfuse.explain.reasons import homes, reasons
from polyfuse.explain.traffic import Transfer, box_read, formula
from polyfuse.grouping.allowance import UNWEIGHED
from polyfuse.kernel import ArrayParameter, AsyncCopy, AtomicUpdate, Load
from polyfuse.lower.ahead import next_name, ring_name
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Launch, LibraryCall
from polyfuse.planning.choose import rejected
from polyfuse.planning.program_costs import size_hints
from polyfuse.planning.steering import Steering
from polyfuse.planning.wishes import NO_REGISTERS
from polyfuse.scatters.rows import ORDER, SORTED
from polyfuse.scop import Scop, Statement
from polyfuse.strategies.atomics import UNUSED
from polyfuse.strategies.catalogue import FALLBACKS
from polyfuse.strategies.situation import Situation
from polyfuse.text.bodies import dimension_names
from polyfuse.text.guards import guard_text
from polyfuse.text.printer import call_text, header_text
from polyfuse.text.sizes import size_text
from polyfuse.units import bytes_text, time_text
from polyfuse.wanted import wanted_share

if TYPE_CHECKING:
    from polyfuse.plan import Plan

APART = "kept apart, as whole kernels and with those between them"
"""What is said of two values: fewer of those that their kernels compute may share one, which ``together=`` asks for."""

INDENT = 13  # columns before the text of an item


def report(plan: Plan) -> str:
    """The whole text."""
    blocks = ["\n".join([*_summary(plan), *([plan.fallback] if plan.fallback else [])])]
    for step, kernels in by_step(plan):
        if not isinstance(step, Launch):
            where = _item("boundary", [_boundary(plan, step)])
            blocks.append(f"{call_text(plan, step)}\n{where}")
        else:
            blocks += ["\n".join(_kernel(plan, kernel)) for kernel in kernels]
            blocks += [_together(kernels)] if len(kernels) > 1 else []
    if plan.spills:
        blocks.append("\n".join(["registers", *(f"  {note}" for note in plan.spills)]))
    if plan.sites:
        lines = [f"  an index into {s.array} where {s.reader} is computed" for s in plan.sites]
        blocks.append("\n".join(["checked while running, not proved to be in bounds", *lines]))
    shared = list(memory_lines(plan))
    if shared:
        blocks.append("\n".join(["memory", *(f"  {line}" for line in shared)]))
    if plan.refusals:
        pairs = ((f"{u} | {v}" if u != v else f"{u} is stored", verdict) for u, v, verdict in plan.refusals)
        lines = [f"  {pair}: {verdict}" for pair, verdict in pairs]
        blocks.append("\n".join([APART, *lines]))
    if plan.unweighed:
        blocks.append(f"{plan.unweighed} {UNWEIGHED}")
    return "\n\n".join([*blocks, *_conditions(plan)])


def _conditions(plan: Plan) -> list[str]:
    """What sizes the plan needs, by its program and its guards, and those besides for which it is faster than others;
    each is said once."""
    facts = [Guard(fact) for fact in plan.program.facts]
    needs = [*facts, *(guard for guard in plan.guards if not is_advisory(guard))]
    needed = dict.fromkeys(f"  {guard_text(guard)}" for guard in needs)
    advised = dict.fromkeys(f"  {guard_text(guard)}" for guard in plan.guards)
    chosen = [line for line in advised if line not in needed]
    found = (("holds where", needed), ("right elsewhere too, chosen for", chosen))
    return ["\n".join([head, *lines]) for head, lines in found if lines]


def _boundary(plan: Plan, step: LibraryCall) -> str:
    at = size_hints(plan.program)
    seconds = call_seconds(plan, step, at)
    if step.launches and seconds is not None:
        names = " and ".join(launch.kernel.name for launch in step.launches)
        how = IN_ORDER if step.call.name == SORTED else BITS_VARY if merges_floats(step) else AS_THEY_COME
        return f"{names}: {how}; predicted {time_text(seconds)}"
    text = "the array library runs it, on whole arrays"
    if seconds is None or step.call.name == ORDER:
        return text if seconds is None else f"{text}: predicted {time_text(seconds)}"
    return f"{text}: predicted {time_text(seconds)}, less than any kernel"


def merges_floats(step: LibraryCall) -> bool:
    """Whether kernels that scatter merge updates in an order that varies."""
    for launch in step.launches:
        arrays = {p.name: p.dtype for p in launch.kernel.parameters if isinstance(p, ArrayParameter)}
        updates = (op for op in flatten(launch.kernel.body) if isinstance(op, AtomicUpdate))
        if any(op.array in arrays and arrays[op.array].kind == "f" for op in updates):
            return True
    return False


BITS_VARY = "blocks merge the updates as they come, as atomics=True allows: last bits vary"
AS_THEY_COME = "blocks merge the updates as they come, which changes no bit of integers and counts"
IN_ORDER = "threads walk the updates in the order of their places, and of each place in the order of the program"


def _summary(plan: Plan) -> Iterator[str]:
    computed = {v for k in plan.kernels for v in k.schedule.body} | set(map(plan.called, plan.library_calls))
    count = len(operations(plan.scop, computed))
    stored = [b.name for b in plan.buffers if b.first < b.last]
    memory = f"in memory between them: {', '.join(stored)}" if stored else "no intermediate in memory"
    yield f"{plan.program.name} on {plan.target.name}: {_count(count, 'operation')} in {_steps(plan)}, {memory}"
    sizes = size_hints(plan.program)
    loose = formula(unfused(plan.scop, computed))
    if plan.options.batch_invariant:
        yield "batch invariant: of every reduction, the order of its additions depends on what it runs over alone"
    if plan.options.atomics:
        yield _atomics(plan)
    if plan.options.max_registers and plan.target.kind == "cpu":
        yield f"max_registers: {NO_REGISTERS}"
    yield f"HBM bytes {_instead(str(plan.hbm_bytes), str(loose))}"
    if sizes:
        at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        moved = [bytes_text(f.at(**sizes)) for f in (plan.hbm_bytes, loose)]
        yield f"at {at}: {_instead(*moved)}, predicted {time_text(plan.cost_analysis().seconds)}"
    else:
        yield f"predicted {time_text(plan.cost_analysis().seconds)}"


def _steps(plan: Plan) -> str:
    """How many kernels, launches where those are fewer, and calls of the array library."""
    scattering = [step for step in plan.library_calls if step.launches]
    kernels = len(plan.kernels) + sum(len(step.launches) for step in scattering)
    calls = len(plan.library_calls) - len(scattering)
    launches = f" in {_count(len(plan.launches), 'launch', 'es')}" if kernels != len(plan.launches) else ""
    parts = [f"{_count(kernels, 'kernel')}{launches}"] if kernels else []
    return " and ".join([*parts, *([_count(calls, "library call")] if calls else [])]) or "0 kernels"


def _atomics(plan: Plan) -> str:
    """What became of the permission to merge shares in any order."""
    merged = [value for schedule in plan.schedules for value in schedule.filled]
    merged += [plan.called(step) for step in plan.library_calls if merges_floats(step)]
    if merged:
        names = ", ".join(plan.scop.statements[value].name for value in merged)
        return f"atomics: blocks merge their shares of {names} as they come: last bits vary"
    return f"atomics: {UNUSED if plan.target.kind == 'cpu' else 'allowed, and no kernel gains by them'}"


def _instead(now: str, before: str) -> str:
    return now if now == before else f"{now} instead of {before} unfused"


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def unfused(scop: Scop, body: Iterable[int]) -> list[Transfer]:
    """What computing these values without fusion reads and writes: operands and result of every operation."""
    found: list[Transfer] = []
    for members in operations(scop, body):
        read = {pair for m in members for pair in _operands(scop, m) if pair[0] not in members}
        last = max(members)
        written = {(last, c) for c in range(len(scop.statements[last].dtypes))}
        for value, component in sorted(read | written):
            statement = scop.statements[value]
            shape = statement.shape if value in members else box_read(scop, members, value)
            found.append(Transfer(statement.name, shape, statement.dtypes[component].itemsize))
    return found


def _operands(scop: Scop, value: int) -> set[tuple[int, int]]:
    """What a statement reads: a value, and which component of it, as the position of a largest element."""
    statement = scop.statements[value]
    if isinstance(statement, Statement):
        return {(read.source, read.component) for read in statement.reads}
    return {(operand, 0) for operand in scop.operands(value)}


def operations(scop: Scop, body: Iterable[int]) -> list[set[int]]:
    """The values as operations of the user's code, each with what a library computes inside of it."""
    units, found = Steering(scop).units, dict[int, set[int]]()
    for value in sorted(body):
        found.setdefault(units[value], set()).add(value)
    return list(found.values())


# ---------------------------------------------------------------------------------------------- one kernel


def _kernel(plan: Plan, kernel: KernelView) -> Iterator[str]:
    yield header_text(kernel)
    names = [v.name for v in kernel.statements]
    yield _item("fuses" if len(names) > 1 else "computes", [", ".join(names)])
    yield _item("legal", reasons(kernel))
    kept = [v.name for v in kernel.statements if v.value not in kernel.schedule.roots]
    if kept:
        saved = formula(unfused(plan.scop, kernel.schedule.body)) - kernel.hbm_bytes
        yield _item("saves", [f"{saved} bytes; not in memory: {', '.join(kept)}"])
    yield _item("moves", [f"{kernel.hbm_bytes} bytes: {_moves(kernel)}"])
    yield _item("tiles", [_tiles(kernel)])
    if in_order := list(_in_order(kernel)):
        yield _item("in order", in_order)
    yield _item("scopes", [f"{scope.value}: {', '.join(values)}" for scope, values in homes(kernel).items()])
    if early := list(_early(kernel)):
        yield _item("ahead", early)
    if kernel.schedule.evict_last:
        yield _item("cache", ["what it reads is evicted last, so that what it writes leaves first"])
    yield _item("uses", [_uses(kernel)])
    fill = ", with the launch that fills its results" if kernel.schedule.filled else ""
    yield _item("predicted", [f"{time_text(kernel.seconds)}{fill}, bound by {BOUNDS[kernel.bound]}"])
    yield from (_item("fallback", [text]) for text in _fallback(kernel))


BOUNDS: Mapping[str, str] = {
    "memory": "memory bandwidth",
    "cache": "the bandwidth of the last-level cache",
    "compute": "arithmetic",
    "latency": "memory latency: too few bytes are in flight",
    "launch": "the launch itself",
}


def _together(kernels: Sequence[KernelView]) -> str:
    """Members of one launch: which blocks are whose, and what that costs."""
    launch, cost = kernels[0].launch, launch_cost(kernels, kernels[0].hints)
    loose = sum(kernel.seconds for kernel in kernels)
    ranges = [f"{k.name} from block {size_text(m.first)}" for k, m in zip(kernels, launch.kernel.members, strict=True)]
    lines = ["none reads what another one stores; each has its own blocks", *ranges]
    price = f"{time_text(cost.seconds)} instead of {time_text(loose)} in {len(kernels)} launches"
    return "\n".join([f"one launch {launch.kernel.name}", _item("legal", lines), _item("predicted", [price])])


def _item(title: str, lines: Iterable[str]) -> str:
    first, *rest = lines
    return "\n".join([f"  {title:<{INDENT - 2}}{first}", *(" " * INDENT + line for line in rest)])


def _moves(kernel: KernelView) -> str:
    reads = ", ".join(t.name for t in kernel.traffic.reads) or "nothing"
    return f"reads {reads} once, writes {', '.join(kernel.stores)} once{''.join(_in_part(kernel))}"


def _in_part(kernel: KernelView) -> Iterator[str]:
    """The arrays of which a choice by indices leaves some unread."""
    scop, schedule = kernel.group.scop, kernel.schedule
    loads = [p for p in schedule.placed if p.role == "load"] if schedule.block_threads > 1 else []
    for value in dict.fromkeys(p.value for p in loads):
        share = wanted_share(scop, schedule, [p for p in loads if p.value == value])
        if share < 1:
            yield f"; of {scop.statements[value].name} only what is wanted, some {100 * share:.0f} %"


def _tiles(kernel: KernelView) -> str:
    """What a block holds of the value with the most dimensions, and the sizes that the strategy chose."""
    lead = max(kernel.statements, key=lambda v: (len(v.tile), v.value))
    names = dimension_names(len(lead.tile))
    found = kernel.group.scop.statements[lead.value]
    extents = found.extents if isinstance(found, Statement) else found.shape
    parts = [
        f"{names[f'%{k}']}: {_extent(size, extent)}"
        for k, (size, extent) in enumerate(zip(lead.tile, extents, strict=True))
    ]
    return f"a block holds {', '.join(parts) or 'one element'} of {lead.name}"


def _in_order(kernel: KernelView) -> Iterator[str]:
    """The recurrences, of which a thread takes whole rows."""
    for view in kernel.statements:
        found = kernel.group.scop.statements[view.value]
        if isinstance(found, Statement) and found.lags:
            names = list(dimension_names(len(found.extents)).values())
            along = names.pop(found.scanned or 0)
            beside = f", one each of {', '.join(names)} side by side" if names else ""
            yield f"{view.name}: a thread takes all of {along}, step by step{beside}; parts of it cannot be joined"


def _extent(size: int | None, extent: Affine) -> str:
    return f"all of {extent} in a loop" if size is None else str(size)


def _early(kernel: KernelView) -> Iterator[str]:
    """What loops bring before they need it, as the kernel does it: not all that a ring is for can be copied."""
    whole = kernel.launch.kernel
    ops = list(flatten(whole.members[kernel.member].kernel.body if whole.members else whole.body))
    copied = {op.buffer for op in ops if isinstance(op, AsyncCopy)}
    loaded = {op.name for op in ops if isinstance(op, Load)}
    for placed in kernel.schedule.placed:
        name = kernel.scop.statements[placed.value].name
        trips = next((n for loop, n in kernel.schedule.rings if loop in placed.digits()), 0)
        if placed.role == "load" and ring_name(placed) in copied:
            yield f"{name}: copied to shared memory, which holds {trips} trips of it, {trips - 1} of them on their way"
        elif placed.role == "load" and next_name(placed.name) in loaded:
            yield f"{name}: loaded into registers, one trip before it is used"


def _uses(kernel: KernelView) -> str:
    parts = [f"{kernel.flops:.3g} operations", f"{kernel.intensity:.3g} a byte"]
    if kernel.target.kind == "cuda":
        parts += [f"{kernel.registers} registers", f"{kernel.shared_bytes} bytes shared"]
        parts.append(f"{kernel.occupancy} blocks a processor")
    return ", ".join(parts)


def _fallback(kernel: KernelView) -> Iterator[str]:
    """Why a kernel got the strategy of last resort."""
    if kernel.strategy not in {f.__name__ for f in FALLBACKS}:
        return
    group = kernel.whole_group
    reasons = rejected(Situation(group, kernel.target, kernel.hints, kernel.layouts))
    shown = "; ".join(f"{strategy} is refused ({verdict.sentence})" for strategy, verdict in reasons.items())
    yield f"{kernel.strategy}: {shown or 'no other strategy proposes anything'}"
