"""From a compiled plan and the arrays of one call to a `Record`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

from polyfuse import expr
from polyfuse.bindings import (
    FAULT,
    LAUNCHED,
    Binding,
    Buffer,
    FromArgument,
    FromBlocks,
    FromBuffer,
    FromOutput,
    FromProduct,
    FromSize,
    FromStride,
)
from polyfuse.dtypes import DType, u8
from polyfuse.errors import DeviceError, KernelError
from polyfuse.expr import Input, Program, Shape
from polyfuse.kernel import ArrayParameter, SizeParameter
from polyfuse.library_calls import contraction
from polyfuse.plan import Launch, LibraryCall, Plan
from polyfuse.run import steps
from polyfuse.run.arrays import ArrayFacts, Device, Library, c_strides
from polyfuse.run.captures import Watch
from polyfuse.run.faults import BOARD, StatusWord
from polyfuse.run.libraries.numpy_arrays import NumPyLibrary
from polyfuse.run.locks import PLANNING
from polyfuse.run.record import Capture, Output, Pairs, Record, Scratch, Siblings
from polyfuse.run.services import Backend, Bound, Compiled, Form, KernelLaunch, Launcher, PlanKey, Traced
from polyfuse.run.sizes import evaluate
from polyfuse.run.workspace import ALIGNMENT, Counters, buffer_bytes, pack, reserve

_log = logging.getLogger("polyfuse.run")


@dataclass(frozen=True, slots=True)
class Ready:
    """A plan with its compiled kernels, one per launch.  `key`: under which the store keeps it."""

    plan: Plan
    kernels: tuple[Compiled, ...]
    backend: Backend
    key: PlanKey | None = None
    words: list[StatusWord] = field(default_factory=list)  # one, once the plan has run on a device

    def status(self, device: Device, program: Program) -> int | None:
        """The address of the status word for kernels on `device`; None where a call has its own, or nothing to check.
        `program`: as traced, which tells lines."""
        if device.kind == "cpu" or not self.plan.sites:
            return None
        if not self.words:
            self.words.append(BOARD.word(self.plan, program, partial(self.backend.status_page, device.ordinal)))
        return self.words[0].address


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array or scalar leaf of a call, or a captured array.  `facts` and `library` are None for scalars."""

    value: Any
    facts: ArrayFacts | None = None
    library: Library | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its leaves, captured arrays last; the sizes by the program's symbols and by those the trace was given;
    which leaves are copied to C order first."""

    leaves: Sequence[Leaf]
    sizes: Mapping[str, int]
    given: Mapping[str, int]
    staged: tuple[int, ...] = ()

    def number(self, binding: FromSize | FromProduct | FromStride | FromBlocks) -> int:
        """The value at launch of a binding that depends on sizes and strides only."""
        match binding:
            case FromSize(expression):
                return expression.evaluate(self.sizes)
            case FromProduct(factors):
                product = 1
                for factor in factors:
                    product *= factor.evaluate(self.sizes)
                return product
            case FromBlocks():
                return binding.value(self.sizes)
            case FromStride(position, axis):
                facts = self.leaves[position].facts
                assert facts is not None, "strides of a leaf that is no array"
                strides = c_strides(facts.shape) if position in self.staged else facts.strides
                assert strides is not None, "an array without whole strides is staged"
                return strides[axis]


@dataclass(slots=True)
class _Values:
    """Positions in the values of a record."""

    leaves: int
    outputs: int
    buffers: Mapping[str, int]
    status: int | None = None  # the address of the plan's status word, where it is no buffer
    viewed: set[int] = field(default_factory=set)  # buffers that some step needs as arrays

    def constant(self, binding: Binding, call: Call) -> int | None:
        """The value of `binding` where it is the same in every call of the record, else None."""
        match binding:
            case FromSize() | FromProduct() | FromStride() | FromBlocks():
                return call.number(binding)
            case FromBuffer(name) if name == FAULT:
                return self.status
            case _:
                return None

    def slot(self, binding: Binding) -> int:
        """Where the value of `binding`, which is no constant, is found."""
        match binding:
            case FromArgument(position):
                return position
            case FromOutput(position):
                return self.leaves + position
            case FromBuffer(name):
                return self.leaves + self.outputs + self.buffers[name]
            case _:
                raise KernelError(f"{binding} is the same in every call")

    def object(self, binding: Binding) -> int:
        """Where the array of `binding` is found, behind all addresses and numbers."""
        after = self.leaves + self.outputs + len(self.buffers)
        match binding:
            case FromArgument(position):
                return after + position
            case FromOutput(position):
                return after + self.leaves + position
            case FromBuffer(name):
                self.viewed.add(self.buffers[name])
                return after + self.leaves + self.outputs + self.buffers[name]
            case _:
                raise KernelError(f"a library call reads {binding}, which is no array")


@dataclass(frozen=True, slots=True)
class Setting:
    """What records of one function share: where they run, and what the function keeps between calls."""

    library: Library
    device: Device
    counters: Counters
    shared: Callable[[Ready, Pairs, Mapping[str, int]], Ready]  # a plan whose outputs lie in arguments, compiled


def prepare(ready: Ready, traced: Traced, watch: Watch, call: Call, setting: Setting) -> Record:
    """The record of calls that have exactly these leaves."""
    plan, device = ready.plan, setting.device
    library = _with_allocator(setting.library, ready.backend)
    leaves, sizes = call.leaves, call.sizes
    outputs = tuple(_output(node.shape, node.dtype, sizes, library, device) for node in plan.program.outputs)
    status = ready.status(device, traced.program)
    if device.kind != "cpu":
        BOARD.watch(device, partial(ready.backend.synchronize, device.ordinal))
    scratch = _scratch([b for b in plan.buffers if b.name != FAULT or status is None], sizes, library, device)
    if scratch and scratch.counted and reserve(library, device):
        ready.backend.synchronize(device.ordinal)
    names = {b.name: k for k, (b, _) in enumerate(scratch.buffers)} if scratch else {}
    values = _Values(len(leaves), len(outputs), names, status)
    launched = [_launch(*pair, call, values, device) for pair in zip(plan.launches, ready.kernels, strict=True)]
    found, needs_objects = _steps(plan, traced.program, launched, values, library, sizes)
    if plan.sites and status is None:
        found.append(steps.index_check(values.slot(FromBuffer(FAULT)), plan.sites, traced.program))
    captured = leaves[len(leaves) - len(traced.captured) :]
    nested = nester(traced, call.given)
    given, taken = _taken(plan, outputs)
    return Record(
        library=library,
        device=device,
        stream=library.stream(device),
        outputs=outputs,
        allocators=tuple(o.allocate for o in outputs),
        scratch=replace(scratch, viewed=frozenset(values.viewed)) if scratch else None,
        needs_objects=needs_objects,
        steps=tuple(found),
        finish=finisher(nested, library, [o.shape for o in outputs]),
        form=_form(traced, library, outputs),
        nested=nested,
        staged=tuple((k, library_at(leaves[k])) for k in call.staged),
        captured=tuple(
            _captured(leaf, watch.reader(k, setting.library, device)) for k, leaf in enumerate(captured)
        ),
        fixed=traced.fixed,
        ranges=tuple([(k, range(low, high + 1)) for k, low, high in traced.ranges]),
        watch=watch,
        results=traced.results,
        is_conditional=bool(traced.captured or traced.fixed or traced.ranges or watch.plain),
        spans=tuple(_span(k, leaf.facts) for k, leaf in enumerate(leaves) if leaf.facts is not None),
        counters=setting.counters,
        siblings=_siblings(ready, traced, watch, call, setting),
        given=given,
        taken=taken,
        written=_copied_to(plan, taken),
    )


def refuse_capture(library: Library, device: Device, name: str) -> None:
    """Raise DeviceError while a CUDA graph is captured: nothing can be compiled, loaded or allocated for good then."""
    if device.kind != "cpu" and library.is_capturing(device):
        raise DeviceError(
            f"{name} is called for the first time with arrays like these while a CUDA graph is being captured",
            advice="Call it once with arrays of these shapes before the capture, which compiles and loads its kernels.",
        )


def _siblings(ready: Ready, traced: Traced, watch: Watch, call: Call, setting: Setting) -> Siblings:
    plain = [leaf if leaf.facts is None else replace(leaf, value=None) for leaf in call.leaves]
    call = replace(call, leaves=plain)  # a record keeps no array of its first call alive

    def make(pairs: Pairs) -> Record:
        refuse_capture(setting.library, setting.device, ready.plan.program.name)
        with PLANNING:
            return prepare(setting.shared(ready, pairs, call.sizes), traced, watch, call, setting)

    def allows(output: int, argument: int) -> bool:
        from polyfuse.planning.sharing import (
            reuse_verdict,  # isl, which a process that finds its plans on disk does not load
        )

        with PLANNING:
            verdict = reuse_verdict(ready.plan, output, argument)
        name = ready.plan.program.name
        if not verdict:
            _log.info("%s: out= goes through a temporary: %s", name, verdict)
        return bool(verdict)

    return Siblings(make, allows)


def _taken(plan: Plan, outputs: Sequence[Output]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Per output the donated argument that it takes, -1 for none; and all arguments that results or buffers take."""
    given = dict(plan.reuses)
    hosts = {b.within.position for b in plan.buffers if isinstance(b.within, FromArgument)}
    return tuple(given.get(k, -1) for k in range(len(outputs))), tuple(sorted(hosts | set(given.values())))


def _copied_to(plan: Plan, taken: Collection[int]) -> dict[int, str]:
    """The paths of arguments that the function writes, unless kernels write all of these."""
    writes = plan.program.writes
    return {} if writes.keys() <= {*taken} else {leaf: plan.program.arguments[leaf].path for leaf in sorted(writes)}


def library_at(leaf: Leaf) -> Library:
    assert leaf.library is not None, f"{leaf.value!r} is no array"
    return leaf.library


def _with_allocator(library: Library, backend: Backend) -> Library:
    return replace(library, better=backend.allocator) if isinstance(library, NumPyLibrary) else library


def _output(shape: Shape, dtype: DType, sizes: Mapping[str, int], library: Library, device: Device) -> Output:
    extents = evaluate(shape, sizes)
    return Output(extents, dtype, library.allocator(extents, dtype, device))


def _captured(leaf: Leaf, read: Callable[[], Any]) -> Capture:
    assert leaf.facts is not None
    return Capture(read, library_at(leaf), leaf.facts.key)


def _span(position: int, facts: ArrayFacts) -> tuple[int, int, int]:
    if facts.strides is None:  # staged: the kernel reads a copy
        return position, 0, 0
    low, high = facts.span
    return position, low - facts.pointer, high - facts.pointer


def _scratch(
    wanted: Sequence[Buffer], sizes: Mapping[str, int], library: Library, device: Device
) -> Scratch | None:
    if not wanted:
        return None
    placement = pack(wanted, sizes)
    offsets, counted = [], 0
    for buffer in wanted:
        if buffer.zeroed:
            offsets.append(counted)
            counted += -(-buffer_bytes(buffer, sizes) // ALIGNMENT) * ALIGNMENT
        else:
            offsets.append(placement.offsets.get(buffer.name, 0))
    buffers = tuple((b, b.extents(sizes)) for b in wanted)
    hosts = tuple(b.within.position if isinstance(b.within, FromArgument) else -1 for b in wanted)
    total = max(placement.total, ALIGNMENT) if placement.offsets else 0  # empty buffers are views of something, too
    allocate = library.allocator((total,), u8, device)
    return Scratch(allocate, buffers, tuple(offsets), hosts, total, counted)


def _launch(launch: Launch, kernel: Compiled, call: Call, values: _Values, device: Device) -> KernelLaunch | None:
    """One launch at these sizes; None for an empty grid."""
    numbers = _numbers(launch, call)
    extents = [extent.evaluate(numbers) for extent in launch.kernel.grid]
    if any(extent <= 0 for extent in extents):
        return None
    constants = tuple(values.constant(binding, call) for binding in launch.bindings)
    varying = [binding for binding, known in zip(launch.bindings, constants, strict=True) if known is None]
    bound = Bound(launch, math.prod(extents), constants, numbers, device)
    return KernelLaunch.of(kernel, bound, tuple(map(values.slot, varying)))


def _numbers(launch: Launch, call: Call) -> dict[str, int]:
    """Size symbols, and the kernel's size parameters under their own names."""
    numbers = dict(call.sizes)
    for parameter, binding in zip(launch.kernel.parameters, launch.bindings, strict=True):
        if isinstance(parameter, SizeParameter) and isinstance(binding, LAUNCHED):
            numbers[parameter.name] = call.number(binding)
    return numbers


def _steps(
    plan: Plan,
    traced: Program,
    launched: Sequence[Launcher | None],
    values: _Values,
    library: Library,
    sizes: Mapping[str, int],
) -> tuple[list[Launcher], bool]:
    """The steps in order, then copies for outputs that no step writes, then write-backs; whether any needs arrays."""
    found: list[Launcher] = []
    kernels = iter(launched)
    for step in plan.steps:
        match step:
            case Launch():
                launcher = next(kernels)
                found += [launcher] if launcher is not None else []
            case LibraryCall(launches=launches) if launches:
                found += [launcher for launcher in islice(kernels, len(launches)) if launcher is not None]
            case LibraryCall(expr.Call(name=contraction.NAME, settings=settings), operands, (result,)):
                reads, spec = [values.object(b) for b in operands], dict(settings)["contraction"]
                found.append(steps.contraction(library, spec, sizes, reads, values.object(result)))
            case LibraryCall(call, operands, results):
                reads, writes_to = [values.object(b) for b in operands], [values.object(b) for b in results]
                found.append(steps.library_call(library, call, reads, writes_to, partial(plan.line_of, step, traced)))
    copies = copies_of(plan)
    found += [steps.copy(library, values.object(target), values.object(source)) for target, source in copies]
    return found, bool(copies) or any(isinstance(s, LibraryCall) and not s.launches for s in plan.steps)


def copies_of(plan: Plan) -> list[tuple[Binding, Binding]]:
    """Copies ``(target, source)`` of whole arrays, to be made in order behind all other steps."""
    passed = dict(_passed_through(plan))
    written = {FromOutput(o): FromArgument(a) for a, o in plan.program.writes.items() if (o, a) not in plan.reuses}
    direct = {o for o in written if isinstance(passed.get(o), FromOutput)}  # an argument's old contents may be gone
    before: list[tuple[Binding, Binding]] = [pair for pair in passed.items() if pair[0] not in direct]
    return before + [(argument, passed[o] if o in direct else o) for o, argument in written.items()]


def _passed_through(plan: Plan) -> list[tuple[Binding, Binding]]:
    """Copies ``(target, source)`` for outputs that are arguments or earlier outputs: nothing computes them, and outputs
    alias nothing.  Raises KernelError for any other output that no step writes."""
    written = _written(plan)
    copies: list[tuple[Binding, Binding]] = []
    outputs = plan.program.outputs
    for position, node in enumerate(outputs):
        if position in written:
            continue
        twin = next((k for k in written if outputs[k] is node), None)
        if twin is not None:
            copies.append((FromOutput(position), FromOutput(twin)))
        elif isinstance(node, Input):
            copies.append((FromOutput(position), FromArgument(node.position)))
        else:
            raise KernelError(f"no step of the plan writes output {position} of {plan.program.name}")
    return copies


def _written(plan: Plan) -> set[int]:
    written: set[int] = set()
    for step in plan.steps:
        if isinstance(step, LibraryCall):
            written |= {b.position for b in step.results if isinstance(b, FromOutput)}
            continue
        for parameter, binding in zip(step.kernel.parameters, step.bindings, strict=True):
            if isinstance(binding, FromOutput) and isinstance(parameter, ArrayParameter) and not parameter.readonly:
                written.add(binding.position)
    return written


def nester(traced: Traced, given: Mapping[str, int]) -> Callable[[list[Any]], Any]:
    """From the list of outputs to what the user's function returns."""
    match traced.form:
        case "single":
            return itemgetter(0)
        case "tuple":
            return tuple
        case "else":
            return lambda outputs: traced.rebuild(outputs, given)


def _form(traced: Traced, library: Library, outputs: Sequence[Output]) -> Form:
    """The form of the caller's result, ``else`` where an output has to be made a scalar first."""
    return "else" if library.name == "numpy" and any(not o.shape for o in outputs) else traced.form


def finisher(
    nested: Callable[[list[Any]], Any], library: Library, shapes: Sequence[tuple[int, ...]]
) -> Callable[[list[Any]], Any]:
    """As `nested`, with NumPy scalars for outputs of rank 0, as NumPy's own functions return them."""
    scalars = [k for k, shape in enumerate(shapes) if not shape] if library.name == "numpy" else []
    if not scalars:
        return nested

    def finish(outputs: list[Any]) -> Any:
        for k in scalars:
            outputs[k] = library.result(outputs[k])
        return nested(outputs)

    return finish
