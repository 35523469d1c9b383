"""Everything traced, planned and compiled for one function, found again by what a call looks like.

    pattern of a call                  -> traces (by guards, fixed values, watched globals)
    trace, target, options, layouts    -> plans with kernels (by guards on sizes)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

from polyfuse.bindings import Layout, is_advisory
from polyfuse.errors import ArgumentError, StalePlanError
from polyfuse.expr import Program
from polyfuse.options import Options
from polyfuse.plan import Launch, Plan
from polyfuse.run.arguments import SCALARS, same
from polyfuse.run.arrays import Device
from polyfuse.run.captures import Watch, of_capture, watch
from polyfuse.run.failure import Attempt, attempt
from polyfuse.run.garbage import rarely_collected
from polyfuse.run.libraries import library_of
from polyfuse.run.prepare import Leaf, Ready
from polyfuse.run.reach import Cell
from polyfuse.run.record import Pairs
from polyfuse.run.services import Backend, Compiled, PlanKey, Services, Traced
from polyfuse.run.sizes import granted, hold, solve
from polyfuse.target import Target
from polyfuse.text.guards import guard_text

_TRACES = 64  # per pattern of a call; guards on rebound globals could otherwise grow it without end

_CONTENTS, _CONTENT_BYTES = 8, 1 << 26
"""Traces of a pattern that differ in nothing but the contents of arrays which they have read, and bytes of these beyond
the latest trace: a function that switches between a few tables finds them, one whose table changes at every call keeps
no more."""
_COMPARED = 1_000_000  # bytes that take 0.04 ms to compare, ten times as long as a call of one small kernel

_PLANS = 24
"""Per trace, layouts, target and options: so many are made for classes of sizes that only the price tells apart.  The
classes of a list of parameters multiply: of 100 random lists of six shapes 74 are in one of their own."""

_NUMBERS: Mapping[str, tuple[type, ...]] = {
    "b": (bool,),
    "i": (bool, int),
    "u": (bool, int),
    "f": (bool, int, float),
}
"""Python numbers that a scalar argument of this kind can hold."""

_log = logging.getLogger("polyfuse.run")


@dataclass(frozen=True, slots=True)
class Variant:
    """One trace with what it reads outside its arguments, and the plans made of it."""

    traced: Traced
    watch: Watch
    plans: dict[tuple[Any, ...], list[Ready]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A variant beside a call that it stands for: the leaves of the call, then the captured arrays; the sizes by
    the program's symbols, and by those that the trace was given."""

    variant: Variant
    leaves: list[Leaf]
    sizes: dict[str, int]
    given: dict[str, int]

    @property
    def paths(self) -> list[str]:
        """How the user reaches each leaf."""
        return [argument.path for argument in self.variant.traced.program.arguments]


@dataclass(slots=True)
class Counts:
    """What `cache_info` reports; `hits` may miss calls of threads that race."""

    hits: int = 0
    misses: int = 0
    traces: int = 0
    plans: int = 0
    loads: int = 0
    compilations: int = 0


@dataclass(slots=True)
class Variants:
    """The variants of one function; every method is called with `PLANNING` held."""

    services: Services
    counts: Counts = field(default_factory=Counts)
    _traces: dict[tuple[Any, ...], list[Variant]] = field(default_factory=dict)
    _kernels: dict[tuple[Any, ...], Compiled] = field(default_factory=dict)  # by what they execute
    _is_told: bool = False

    def all(self) -> list[Variant]:
        return [variant for variants in self._traces.values() for variant in variants]

    # ------------------------------------------------------------------------------------------ traces
    def find(self, key: tuple[Any, ...], leaves: Sequence[Leaf]) -> Fitted | None:
        """A variant that stands for a call of nesting `key` with these leaves."""
        fitted = (fit(variant, leaves) for variant in self._traces.get(pattern(key, leaves), ()))
        return next((f for f in fitted if f is not None), None)

    def add(self, key: tuple[Any, ...], leaves: Sequence[Leaf], variant: Variant) -> Fitted:
        """Keep a variant that was made for a call of nesting `key` with these leaves."""
        variants = self._traces.setdefault(pattern(key, leaves), [])
        variants.insert(0, variant)
        kept = _kept(variants)
        if len(kept) < len(variants):
            variants[:] = kept
            self._forget_kernels()
        fitted = fit(variant, leaves)
        if fitted is None:
            raise StalePlanError(f"the trace of {variant.traced.program.name} does not fit its own call")
        return fitted

    def new(self, traced: Traced, cells: Sequence[Cell]) -> Variant:
        """The variant of a trace; `cells`: what the function may read besides its arguments."""
        self.counts.traces += 1
        watched = watch(cells, traced.captured, traced.read, traced.watched)
        for shown, count in watched.compared().items():
            if count > _COMPARED and not self._is_told:
                self._is_told = True
                _log.warning(
                    "%s: every call compares the %.1f MB of %s with what they were, because the function reads elements"
                    " of it with Python or NumPy while it is traced; pass it as an argument",
                    *(traced.program.name, count / 1e6, shown),
                )
        return Variant(replace(traced, read=(), watched=()), watched)  # which may be large, and rebound

    def _forget_kernels(self) -> None:
        """Let go of kernels that no plan launches any more: contents of arrays may be constants in them."""
        plans = (ready for variant in self.all() for made in variant.plans.values() for ready in made)
        used = {id(kernel) for ready in plans for kernel in ready.kernels}
        self._kernels = {code: kernel for code, kernel in self._kernels.items() if id(kernel) in used}

    # ------------------------------------------------------------------------------------------ plans
    def ready(
        self,
        call: Fitted,
        layouts: tuple[Layout, ...],
        target: Target,
        options: Options,
        backend: Backend,
        measure: Callable[[Ready], float],
    ) -> Ready:
        """A compiled plan for this class of calls: kept, from the store, or new.  `measure`: seconds of one run of it
        on the arrays of the call, for `autotune`."""
        known = call.variant.plans.setdefault((layouts, target.name, options, backend.name), [])
        sizes = call.sizes
        for ready in known:
            if hold(ready.plan.guards, sizes):
                return ready
        if len(known) >= _PLANS and not options.batch_invariant:
            close = _nearest(known, sizes)
            if close is not None:
                _log.info("%s: %s runs the plan for %s", close.plan.program.name, sizes, close.plan.program.hints)
                return close
        program = replace(call.variant.traced.program, hints=sizes)
        key = PlanKey(program, options, layouts, target, backend.name, backend.versions())
        ready = self._stored(key, sizes, backend) or self._made(key, sizes, backend, measure)
        known.insert(0, ready)
        return ready

    def running(
        self, call: Fitted, layouts: tuple[Layout, ...], target: Target, options: Options
    ) -> Plan | None:
        """The plan that calls of this class run; None where there was none yet."""
        made = [found for (*key, _), found in call.variant.plans.items() if key == [layouts, target.name, options]]
        return next((r.plan for found in made for r in found if hold(r.plan.guards, call.sizes)), None)

    def shared(self, ready: Ready, pairs: Pairs, sizes: Mapping[str, int]) -> Ready:
        """The plan of `ready` with outputs in the arguments of `pairs` and nothing else donated."""
        from polyfuse.planning.sharing import in_place

        key = replace(ready.key, pairs=pairs) if ready.key is not None else None
        found = self._stored(key, sizes, ready.backend) if key is not None else None
        if found is not None:
            return found
        made = self.compile(in_place(ready.plan, pairs), ready.backend)
        self._keep(key, made)
        return made

    def plan(self, program: Program, target: Target, options: Options, layouts: tuple[Layout, ...]) -> Plan:
        """The plan; an unfused one, which says so, after an internal failure."""

        def planned(chosen: Options) -> Plan:
            self.counts.plans += 1
            return self.services.planner(program, target, chosen, layouts)

        made, note = attempt(Attempt(program, target, options, layouts), planned, self.services.reporter)
        return replace(made, fallback=note) if note else made

    def compile(self, plan: Plan, backend: Backend) -> Ready:
        """Kernels of a plan; those that another plan of this function launches too are compiled once."""
        codes = [repr(replace(launch.kernel, notes=())) for launch in plan.launches]  # equality takes -0.0 for 0.0
        keys = [(code, plan.target, plan.options, backend.name) for code in codes]
        new = {key: launch for key, launch in zip(keys, plan.launches, strict=True) if key not in self._kernels}
        with rarely_collected():
            kernels, made = _compiled(list(new.values()), plan, backend)
        self._kernels |= dict(zip(new, kernels, strict=True))
        self.counts.compilations += made
        return Ready(plan, tuple(self._kernels[key] for key in keys), backend)

    def _stored(self, key: PlanKey, sizes: Mapping[str, int], backend: Backend) -> Ready | None:
        store = self.services.store
        found = store.load(key, sizes) if store is not None else None
        if found is None:
            return None
        plan, objects = found
        try:
            pairs = zip(plan.launches, objects, strict=True)
            kernels = tuple(backend.load(launch, plan, data) for launch, data in pairs)
        except ValueError as error:
            _log.warning("cache entry of %s does not load: %s", key.program.name, error)
            return None
        self.counts.loads += 1
        return Ready(plan, kernels, backend, key)

    def _made(
        self, key: PlanKey, sizes: Mapping[str, int], backend: Backend, measure: Callable[[Ready], float]
    ) -> Ready:
        """A new plan, compiled; an unfused one, which no later process will find, after an internal failure."""

        def made(options: Options) -> Ready:
            self.counts.plans += 1
            plan = self.services.planner(key.program, key.target, options, key.layouts)
            if not hold(plan.guards, sizes):
                violated = next(g for g in plan.guards if not g.holds(sizes))
                raise StalePlanError(f"the plan of {key.program.name} excludes the call it was made for: {violated}")
            ready = self.compile(plan, backend)
            if not any(kernel.spilled for kernel in ready.kernels):
                return ready
            from polyfuse.run.spills import unspilled  # with the planner, which most calls never need

            return unspilled(ready, key, sizes, again)

        def again(plan: Plan) -> Ready:
            self.counts.plans += 1
            return self.compile(plan, backend)

        what = Attempt(key.program, key.target, key.options, key.layouts, backend.name)
        ready, note = attempt(what, made, self.services.reporter)
        if note:
            return replace(ready, plan=replace(ready.plan, fallback=note))
        if key.options.autotune:
            ready = self._tuned(key, ready, sizes, measure)
        ready = replace(ready, key=key)
        self._keep(key, ready)
        return ready

    def _tuned(
        self, key: PlanKey, first: Ready, sizes: Mapping[str, int], measure: Callable[[Ready], float]
    ) -> Ready:
        """The fastest plan that measuring finds; `first` where running it again would change its arguments."""
        from polyfuse.run.tuning import Tuner

        if key.program.writes or key.options.donate:
            _log.warning("%s is not tuned: it writes its arguments, so that no run can be repeated", key.program.name)
            return first

        def compiled(plan: Plan) -> Ready:
            self.counts.plans += 1
            return self.compile(plan, first.backend)

        return Tuner(key, compiled, measure).best(first, sizes)

    def _keep(self, key: PlanKey | None, ready: Ready) -> None:
        if key is not None and self.services.store is not None:
            self.services.store.save(key, ready.plan, [kernel.to_bytes() for kernel in ready.kernels])


def _kept(variants: Sequence[Variant]) -> list[Variant]:
    """The variants of a pattern, the latest first, without the oldest where there are too many."""
    latest, count, size = variants[0], 0, 0
    found = []
    for variant in variants[:_TRACES]:
        if variant is not latest and _differs_in_contents(variant, latest):
            count, size = count + 1, size + sum(variant.watch.compared().values())
            if count >= _CONTENTS or size > _CONTENT_BYTES:
                continue
        found.append(variant)
    return found


def _differs_in_contents(a: Variant, b: Variant) -> bool:
    of_sizes = a.traced.guards == b.traced.guards and a.traced.ranges == b.traced.ranges
    return of_sizes and a.traced.fixed == b.traced.fixed and a.watch.differs_in_contents(b.watch)


def _compiled(launches: Sequence[Launch], plan: Plan, backend: Backend) -> tuple[list[Compiled], int]:
    """Kernels for `launches`, several at a time where that is faster, and how many were compiled for them."""
    if len(launches) > 1:
        jobs = [backend.job(launch, plan) for launch in launches]
        found = [job for job in jobs if job is not None]
        if len(found) == len(jobs):
            from polyfuse.run.jobs import run_jobs  # processes and pipes, which few programs need

            made = run_jobs(found)
            kernels = [backend.load(launch, plan, data) for launch, data in zip(launches, made, strict=True)]
            return kernels, len({id(data) for data in made})  # alike ones share theirs
    return [backend.compile(launch, plan) for launch in launches], len(launches)


def pattern(key: tuple[Any, ...], leaves: Sequence[Leaf]) -> tuple[Any, ...]:
    """What a trace depends on: nesting, static values, dtypes, ranks, and which sizes are 0 or 1."""
    return (key, *(_leaf_pattern(leaf) for leaf in leaves))


def _leaf_pattern(leaf: Leaf) -> tuple[Any, ...]:
    if leaf.facts is None:
        return (type(leaf.value),)
    return (leaf.facts.dtype.name, *(extent if extent < 2 else None for extent in leaf.facts.shape))


def fit(variant: Variant, leaves: Sequence[Leaf]) -> Fitted | None:
    """`variant` for a call with these leaves, captured arrays as they are now; None where the trace does not hold."""
    traced = variant.traced
    if not variant.watch.holds() or not all(same(leaves[k].value, v) for k, v in traced.fixed):
        return None
    if not all(low <= leaves[k].value <= high for k, low, high in traced.ranges):
        return None
    away = next((leaf for leaf in leaves if leaf.library is not None and leaf.library.name != "numpy"), None)
    captured = [captured_leaf(read()) for read in _readers(variant.watch, away)]
    every = [*leaves, *(leaf for leaf in captured if leaf is not None)]
    arguments = traced.program.arguments
    if len(every) != len(arguments):
        return None
    if any(argument.is_scalar is not (leaf.facts is None) for argument, leaf in zip(arguments, every, strict=True)):
        return None
    numbers = [(a, leaf.value) for a, leaf in zip(arguments, every, strict=True) if leaf.facts is None]
    if not all(isinstance(value, _NUMBERS[argument.dtype.kind]) for argument, value in numbers):
        return None
    pairs = [(a, leaf.facts) for a, leaf in zip(arguments, every, strict=True) if leaf.facts is not None]
    if any(argument.dtype != facts.dtype for argument, facts in pairs):
        return None
    actual = [facts.shape for _, facts in pairs]
    given = solve(traced.shapes, actual[: len(traced.shapes)])
    if given is None or not hold(traced.guards, given):
        return None
    sizes = solve([argument.shape for argument, _ in pairs], actual)
    if sizes is None or not hold(granted(traced.program), sizes):
        return None
    return Fitted(variant, every, sizes, given)


def broken(variant: Variant, leaves: Sequence[Leaf]) -> str:
    """The condition that keeps a call with these leaves, of the nesting of the trace, from it, where it is one on sizes
    or Python numbers; empty where another difference does."""
    traced, arrays = variant.traced, [leaf.facts for leaf in leaves if leaf.facts is not None]
    paths = [argument.path for argument in traced.program.arguments]
    for k, value in traced.fixed:
        if not same(leaves[k].value, value):
            return f"{paths[k]} is {value!r}"
    for k, low, high in traced.ranges:
        if not low <= leaves[k].value <= high:
            return f"{paths[k]} is at {f'least {low}' if leaves[k].value < low else f'most {high}'}"
    arguments = [a for a in traced.program.arguments if not a.is_scalar][: len(arrays)]
    if [a.dtype for a in arguments] != [facts.dtype for facts in arrays]:
        return ""
    actual = [facts.shape for facts in arrays]
    given = solve(traced.shapes, actual) if len(actual) == len(traced.shapes) else None
    if given is None:
        return ""
    sizes = solve([argument.shape for argument in arguments], actual)
    known = [] if sizes is None else [g for g in granted(traced.program) if not g.holds(sizes)]
    guard = next((g for g in traced.guards if not g.holds(given)), next(iter(known), None))
    return "" if guard is None else guard_text(guard)


def _readers(watched: Watch, away: Leaf | None) -> Sequence[Callable[[], Any]]:
    """The readers of captured arrays for a call with arrays like `away`; with NumPy's only for None."""
    if away is None or away.library is None or away.facts is None:
        return watched.arrays
    library, device = away.library, away.facts.device
    return [watched.reader(k, library, device) for k in range(len(watched.arrays))]


def captured_leaf(array: Any) -> Leaf | None:
    """A captured array as a leaf; None where the name was rebound to something that is no array."""
    try:
        library = library_of(type(array))
        return None if library is None else Leaf(array, library.facts(array), library)
    except ArgumentError as error:
        raise of_capture(error) from None


def layouts_of(leaves: Sequence[Leaf], staged: Sequence[int]) -> tuple[Layout, ...]:
    """One layout per argument; staged arrays are in C order by then, scalars have the default."""
    plain = Layout()
    return tuple(plain if leaf.facts is None or k in staged else leaf.facts.layout for k, leaf in enumerate(leaves))


_SPAN_LIMIT = 1 << 31  # elements: offsets of 32-bit kernels


def to_stage(leaves: Sequence[Leaf]) -> tuple[int, ...]:
    """Arrays that no kernel reads in place: elements off their alignment, strides that are not whole elements, and
    strided views whose offsets pass 32 bits although their sizes do not."""
    found = []
    for position, leaf in enumerate(leaves):
        facts = leaf.facts
        if facts is None:
            continue
        wide = facts.strides is not None and not facts.is_contiguous and facts.size < _SPAN_LIMIT
        first, last = facts.span if wide else (0, 0)
        if not facts.is_aligned or last - first >= _SPAN_LIMIT * facts.dtype.itemsize:
            found.append(position)
    return tuple(found)


def leaves_of(values: Sequence[Any], path: Callable[[Any], str]) -> list[Leaf]:
    """Leaves with their facts.  Raises ArgumentError for arrays that no kernel can take, which `path` names."""
    found = []
    for value in values:
        library = None if type(value) in SCALARS else library_of(type(value))
        try:
            facts = library.facts(value) if library is not None else None
        except ArgumentError as error:
            raise ArgumentError(f"{path(value)}{error.message}", advice=error.advice) from None
        found.append(Leaf(value, facts, library))
    return found


def device_of(call: Fitted) -> Device | None:
    """The device of all array leaves; None where there are no arrays.  Raises ArgumentError for two devices."""
    first: tuple[str, Device] | None = None
    for leaf, path in zip(call.leaves, call.paths, strict=True):
        if leaf.facts is None:
            continue
        if first is None:
            first = path, leaf.facts.device
        elif leaf.facts.device != first[1]:
            raise ArgumentError(
                f"{first[0]} is on {first[1]}, {path} is on {leaf.facts.device}",
                advice="Move all arrays to one device; numbers may be passed as Python scalars.",
            )
    return first[1] if first is not None else None


def _nearest(known: Sequence[Ready], sizes: Mapping[str, int]) -> Ready | None:
    """Of the plans that are right for these sizes the one made for the most similar ones, by the logarithms of all
    sizes together.  None where none is right."""

    def distance(ready: Ready) -> float:
        made_for = ready.plan.program.hints
        return sum(abs(log((1 + size) / (1 + made_for.get(name, size)))) for name, size in sizes.items())

    right = [r for r in known if hold((g for g in r.plan.guards if not is_advisory(g)), sizes)]
    return min(right, key=distance, default=None)
