"""Ahead-of-time stages: lower to a plan, compile it, call it; named as JAX names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from polyfuse.bindings import Layout, is_advisory
from polyfuse.errors import ArgumentError, StalePlanError
from polyfuse.expr import Argument
from polyfuse.plan import Plan
from polyfuse.run.arguments import Reading
from polyfuse.run.arrays import HOST, c_strides
from polyfuse.run.libraries.numpy_arrays import NUMPY
from polyfuse.run.locks import PLANNING
from polyfuse.run.prepare import Call, Ready, Setting, prepare
from polyfuse.run.record import Record
from polyfuse.run.services import Services, Traced, backend_name
from polyfuse.run.sizes import hold
from polyfuse.run.variants import Fitted, Variant, Variants, broken, device_of, fit, leaves_of, to_stage
from polyfuse.run.workspace import Counters
from polyfuse.text.guards import guard_text

_ADVICE = "Compile one for arguments like these, or call the jitted function, which plans again where it has to."
RECORDS = 4096  # exact keys kept per function; the oldest goes first
_CHANGED = "a captured value changed since the plan was made"

Read = Callable[[tuple[Any, ...], dict[str, Any]], Reading]


class OfThisProcess:
    """Holds addresses and code that is loaded: it cannot go elsewhere."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise ArgumentError(
            f"{type(self).__name__} holds addresses of this process: it is neither pickled nor copied",
            advice="Pickle the function and the arguments, and bind or compile there: plans come from the disk cache.",
        )


@dataclass(frozen=True, slots=True)
class Lowered(OfThisProcess):
    """A plan and what is needed to run it.  `structure`: the nesting and the static values of the arguments that it was
    made for; `read` reads those of a call."""

    plan: Plan
    variant: Variant
    structure: tuple[Any, ...]
    read: Read
    services: Services
    variants: Variants

    def as_text(self) -> str:
        """The schedule."""
        return str(self.plan)

    def compile(self) -> Executable:
        """Compile the kernels, which needs no device.  Raises CompileError."""
        backend = self.services.backend(backend_name(self.plan.options, self.plan.target))
        with PLANNING:
            return Executable(self, self.variants.compile(self.plan, backend))


@dataclass(frozen=True, slots=True)
class Executable(OfThisProcess):
    """A compiled plan.  Calls run it or raise StalePlanError: nothing is traced, planned or compiled again."""

    lowered: Lowered
    ready: Ready
    counters: Counters = field(default_factory=Counters)
    records: dict[tuple[Any, ...], Record] = field(default_factory=dict)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        reading = self.lowered.read(args, kwargs)
        key = tuple(reading.key)
        record = self.records.get(key)
        if record is None or (record.is_conditional and not record.holds(reading.values, reading.leaves)):
            with PLANNING:
                record = self.prepared(reading)
                keep(self.records, key, record)
            if record.is_conditional and not record.holds(reading.values, reading.leaves):
                raise StalePlanError(_CHANGED, advice=_ADVICE)
        return record.run(reading.values, reading.leaves)

    def prepared(self, reading: Reading) -> Record:
        """The record of calls like this one.  Raises StalePlanError, ArgumentError."""
        plan, lowered = self.ready.plan, self.lowered
        if tuple(reading.structure) != lowered.structure:
            sentence = f"the plan of {plan.program.name} is for another nesting of arguments, or other static values"
            raise StalePlanError(sentence, advice=_ADVICE)
        if not lowered.variant.watch.holds():
            raise StalePlanError(_CHANGED, advice=_ADVICE)
        leaves = leaves_of(reading.leaves, lambda leaf: "an argument")
        call = fit(lowered.variant, leaves)
        if call is None:
            if condition := broken(lowered.variant, leaves):
                raise _outside(plan, condition)
            made_for = ", ".join(map(_described, plan.program.arguments))
            sentence = f"the plan of {plan.program.name} does not fit these arguments; it is for {made_for}"
            raise StalePlanError(sentence, advice=_ADVICE)
        needed = [g for g in plan.guards if not is_advisory(g)]  # others keep sizes for plans that are faster there
        if not hold(needed, call.sizes):
            raise _outside(plan, guard_text(next(g for g in needed if not g.holds(call.sizes))))
        device = device_of(call) or HOST
        if device.kind != self.ready.backend.device:
            raise ArgumentError(f"the plan is for {plan.target.name}, the arguments are on {device}")
        staged = {*to_stage(call.leaves), *_misfits(call, plan.layouts)}
        library = next((leaf.library for leaf in call.leaves if leaf.library is not None), NUMPY)
        placed = Call(call.leaves, call.sizes, call.given, tuple(sorted(staged)))
        variant, setting = lowered.variant, Setting(library, device, self.counters, lowered.variants.shared)
        return prepare(self.ready, variant.traced, variant.watch, placed, setting)


def keep(records: dict[tuple[Any, ...], Record], key: tuple[Any, ...], record: Record) -> None:
    """Keep a record among the latest ones; with `PLANNING` held."""
    if len(records) >= RECORDS:
        records.pop(next(iter(records)))
    records[key] = record


def _outside(plan: Plan, condition: str) -> StalePlanError:
    return StalePlanError(f"the plan of {plan.program.name} holds only where {condition}", advice=_ADVICE)


def _described(argument: Argument) -> str:
    return f"{argument.path}: {argument.dtype}{'' if argument.is_scalar else list(argument.shape)}"


def _misfits(call: Fitted, layouts: Sequence[Layout]) -> list[int]:
    """Arrays outside the layout class of the plan, which are copied to C order.  Raises StalePlanError where that is
    outside it as well."""
    found = []
    for position, (leaf, wanted) in enumerate(zip(call.leaves, layouts, strict=True)):
        facts = leaf.facts
        if facts is None or fits(facts.shape, facts.strides, facts.pointer, wanted):
            continue
        if not fits(facts.shape, c_strides(facts.shape), 0, wanted):
            sentence = f"the plan was made for another memory order of {call.paths[position]}"
            raise StalePlanError(sentence, advice=_ADVICE)
        found.append(position)
    return found


def fits(shape: Sequence[int], strides: Sequence[int] | None, pointer: int, wanted: Layout) -> bool:
    """Whether an array with these strides (in elements) and address belongs to a layout class."""
    if strides is None or pointer % wanted.alignment:
        return False
    expected = wanted.strides if wanted.strides is not None else c_strides(shape)
    empty = 0 in shape
    return empty or all(n == 1 or w is None or w == s for n, s, w in zip(shape, strides, expected, strict=True))


def default_layouts(traced: Traced) -> tuple[Layout, ...]:
    """The layouts of a plan made from shapes alone: C order, aligned."""
    return tuple(Layout() for _ in traced.program.arguments)

