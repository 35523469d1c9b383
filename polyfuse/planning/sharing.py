"""Which values share memory: a pass over the finished plan, each of its decisions proved by `planning.residence`.

    jit(donate="x"):  x[...] = x + 1; return y      the new x and, where they fit, y and intermediates live in x
    a = k0(x); b = k1(a); y = k2(b)                 b lives in a: the workspace holds one of them
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from polyfuse.bindings import Binding, Buffer, FromArgument, FromBuffer, FromOutput, Layout
from polyfuse.kernel import ArrayParameter, Kernel
from polyfuse.options import is_donated
from polyfuse.plan import Launch, Plan
from polyfuse.planning.residence import Residence
from polyfuse.scop import InputStatement, Scop
from polyfuse.verdict import Hazard, Verdict, illegal

Pairs = tuple[tuple[int, int], ...]
"""(output, argument) positions: the output is stored into the memory of the argument."""

Held = dict[int, list[int]]  # argument position -> the values that live in it, itself first


def share_memory(plan: Plan) -> Plan:
    """The plan with results and intermediates in donated arguments, and intermediates in each other, where proved."""
    residence = Residence(plan)
    held = _donated(plan, residence)
    if not held and not any(not b.zeroed for b in plan.buffers):
        return plan
    reuses = _results(plan, residence, held)
    buffers = _intermediates(plan, residence, held)
    return _marked(replace(plan, buffers=buffers, reuses=reuses), residence)


def without_donation(plan: Plan) -> Plan:
    """The plan for calls whose donated arguments cannot be given: they share memory with others, or are read-only."""
    kept = tuple(replace(b, within=None) if isinstance(b.within, FromArgument) else b for b in plan.buffers)
    return _marked(replace(plan, buffers=kept, reuses=()), Residence(plan))


def in_place(plan: Plan, pairs: Pairs) -> Plan:
    """The plan for calls whose targets are these arguments; every pair has a legal `reuse_verdict`."""
    plain = without_donation(plan)
    return _marked(replace(plain, reuses=pairs), Residence(plain))


def reuse_verdict(plan: Plan, output: int, argument: int) -> Verdict:
    """Whether the output may be stored over the argument, which is then ``out=`` itself; if not, why it takes a
    temporary."""
    verdict = overwriting_verdict(plan, output, argument)
    if verdict.hazard is not Hazard.BOUNDS and argument in plan.program.writes:
        name = plan.program.arguments[argument].path
        sentence = f"the function writes {name} itself, which would be a second result in one memory"
        return illegal(Hazard.WAW, sentence, rule="reuse")
    return verdict


def overwriting_verdict(plan: Plan, output: int, argument: int) -> Verdict:
    """Whether kernels may store the output where the contents of the argument are."""
    name, residence = plan.program.arguments[argument].path, Residence(plan)
    value, result = residence.argument(argument), plan.scop.outputs[output]
    if value is None:  # nothing reads it, but nobody has compared the shapes either
        return illegal(Hazard.BOUNDS, f"{name} is no array that the program reads", rule="reuse")
    if _is_finer(plan, output):
        sentence = f"{plan.scop.statements[result].name} is computed in another shape than it is returned in"
        return illegal(Hazard.BOUNDS, sentence, rule="reuse")
    verdict = residence.follows(value, result)
    if verdict.hazard is not Hazard.BOUNDS and plan.layouts[argument] != Layout():
        sentence = f"{name} is strided or not aligned, results are written in C order"
        return illegal(Hazard.BOUNDS, sentence, rule="reuse")
    return verdict


def _is_finer(plan: Plan, output: int) -> bool:
    """Whether an output is stored over other dimensions than it is returned with."""
    return plan.program.outputs[output].shape != plan.scop.shape(plan.scop.outputs[output])


# ---------------------------------------------------------------------------------------------- decisions


def _donated(plan: Plan, residence: Residence) -> Held:
    """Donated arguments that kernels could write: plain ones."""
    found: Held = {}
    for position, argument in enumerate(plan.program.arguments):
        if argument.is_scalar or not is_donated(argument.path, plan.options.donate):
            continue
        value = residence.argument(position)
        if value is not None and plan.layouts[position] == Layout():
            found[position] = [value]
    return found


def _results(plan: Plan, residence: Residence, held: Held) -> Pairs:
    """Outputs in donated arguments: new contents of the argument first, then results, each in the first that fits."""
    written = {output: argument for argument, output in plan.program.writes.items()}
    chosen: dict[int, int] = {}
    for output in sorted(range(len(plan.program.outputs)), key=lambda o: (o not in written, o)):
        value = plan.scop.outputs[output]
        wanted = [written[output]] if output in written else [a for a in held if a not in plan.program.writes]
        if plan.scop.outputs.index(value) != output or residence.written.get(value, -1) < 0 or _is_finer(plan, output):
            continue  # copied from its twin, or from the argument that it is; or of another shape than its memory
        for argument in wanted:
            free = argument in held and argument not in chosen.values()
            if free and residence.joins(held[argument], value):
                held[argument].append(value)
                chosen[output] = argument
                break
    return tuple(sorted(chosen.items()))


def _intermediates(plan: Plan, residence: Residence, held: Held) -> tuple[Buffer, ...]:
    """Buffers in donated arguments that have no more use, else in a buffer that ends where they begin."""
    values = {s.name: s.id for s in plan.scop.statements}
    tails: dict[str, tuple[str, list[int]]] = {}  # name of the last buffer in a memory -> of the first, all values
    found: list[Buffer] = []
    for buffer in sorted(plan.buffers, key=lambda b: (b.first, b.name)):
        value = values.get(buffer.name)
        if buffer.zeroed or value is None or len(plan.scop.statements[value].dtypes) != 1:
            found.append(buffer)
            continue
        within = _home(plan, residence, held, tails, buffer, value)
        if within is None:
            tails[buffer.name] = (buffer.name, [value])
        found.append(replace(buffer, within=within))
    order = {b.name: k for k, b in enumerate(plan.buffers)}
    return tuple(sorted(found, key=lambda b: order[b.name]))


def _home(
    plan: Plan,
    residence: Residence,
    held: Held,
    tails: dict[str, tuple[str, list[int]]],
    buffer: Buffer,
    value: int,
) -> FromArgument | FromBuffer | None:
    for argument, others in held.items():
        if residence.joins(others, value):
            others.append(value)
            return FromArgument(argument)
    ends = {b.name: b.last for b in plan.buffers}
    for name, (first, others) in list(tails.items()):
        if ends[name] == buffer.first and residence.joins(others[-1:], value):
            del tails[name]
            tails[buffer.name] = (first, [*others, value])
            return FromBuffer(first)
    return None


# ---------------------------------------------------------------------------------------------- marks


def _marked(plan: Plan, residence: Residence) -> Plan:
    """Parameters that a kernel reads and stores over are marked, so that no compiler moves a load behind a store; and
    the schedules say which value takes whose memory, which the rule "reuse" proves again."""
    together = _pairs(plan, residence)
    steps = tuple(_step(s, plan, together) if isinstance(s, Launch) else s for s in plan.steps)
    return replace(plan, steps=steps) if steps != plan.steps else plan


def _pairs(plan: Plan, residence: Residence) -> set[tuple[int, int]]:
    """(value, later value) that hold one memory in turn."""
    values = {s.name: s.id for s in plan.scop.statements}
    held: dict[object, list[int]] = {}
    for buffer in plan.buffers:
        if buffer.within is not None:
            held.setdefault(buffer.within, []).append(values[buffer.name])
    found = set()
    for output, argument in plan.reuses:
        value = residence.argument(argument)
        assert value is not None
        found.add((value, plan.scop.outputs[output]))
        held.setdefault(FromArgument(argument), []).append(plan.scop.outputs[output])
    for home, others in held.items():
        first = residence.argument(home.position) if isinstance(home, FromArgument) else None
        first = values[home.name] if isinstance(home, FromBuffer) else first
        assert first is not None
        found |= {(taken, root) for taken in (first, *others) for root in others if taken != root}
    return found


def _step(step: Launch, plan: Plan, together: set[tuple[int, int]]) -> Launch:
    pairs = [tuple((v, r) for r in s.roots for v in s.loads if (v, r) in together) for s in step.schedules]
    over = {_binding(plan.scop, taken) for own in pairs for taken, _ in own}
    kernel = _overwriting(step.kernel, step.bindings, over) if plan.target.kind == "cuda" else step.kernel
    if kernel == step.kernel and pairs == [s.reuses for s in step.schedules]:
        return step
    schedules = tuple(replace(s, reuses=own) for s, own in zip(step.schedules, pairs, strict=True))
    return replace(step, kernel=kernel, schedules=schedules)


def _overwriting(kernel: Kernel, bindings: Sequence[Binding], over: Collection[Binding]) -> Kernel:
    """`kernel` with the arrays marked that it reads and that a result takes; on a CPU every load is an ordinary one."""
    parameters = tuple(
        replace(p, overwritten=p.readonly and b in over) if isinstance(p, ArrayParameter) else p
        for p, b in zip(kernel.parameters, bindings, strict=True)
    )
    members = tuple(
        replace(m, kernel=_overwriting(m.kernel, [bindings[k] for k in m.arguments], over)) for m in kernel.members
    )
    return replace(kernel, parameters=parameters, members=members)


def _binding(scop: Scop, value: int) -> Binding:
    statement = scop.statements[value]
    if isinstance(statement, InputStatement):
        return FromArgument(statement.position)
    return FromOutput(scop.outputs.index(value)) if value in scop.outputs else FromBuffer(statement.name)
