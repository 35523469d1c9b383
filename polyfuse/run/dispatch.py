"""What `jit` returns: a call is a look-up of its key, then a launch with prepared arguments.

Steady state (same nesting, dtypes, shapes, strides and alignment as one of the latest calls)::

    a function written out for such calls (`recognised`) -> allocate outputs, launch

Same key as any earlier call: its Record, which fills in addresses.  Otherwise, under one lock: find or make a trace,
find or make a plan, prepare a record, run it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from polyfuse.bindings import AnyGuard
from polyfuse.errors import ArgumentError, OptionError
from polyfuse.installed import note_traced
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.run.ahead import Executable, Lowered, default_layouts, keep
from polyfuse.run.arguments import LIBRARIES, Reading, Receiver, read_arguments, refuse_texts
from polyfuse.run.arrays import HOST, Device, Library
from polyfuse.run.bound import BoundCall
from polyfuse.run.effects import Snapshot, refuse_changes, refuse_escapes
from polyfuse.run.faults import BOARD
from polyfuse.run.graph import GraphCall
from polyfuse.run.libraries.numpy_arrays import NUMPY
from polyfuse.run.locks import PLANNING
from polyfuse.run.methods import JittedMethod, is_method_of, is_receiver
from polyfuse.run.prepare import Call, Ready, Setting, prepare, refuse_capture
from polyfuse.run.reach import LOOKED_INTO, Cell, users_classes_in
from polyfuse.run.recognised import MISSED, Seen, never, recogniser
from polyfuse.run.recognised import Call as Recogniser
from polyfuse.run.record import Record, Target
from polyfuse.run.services import Backend, Services, Static, backend_name
from polyfuse.run.signature import Parameters
from polyfuse.run.targets import converted, in_order, read_targets
from polyfuse.run.variants import Fitted, Variant, Variants, device_of, layouts_of, leaves_of, to_stage
from polyfuse.run.workspace import Counters
from polyfuse.target import Target as Machine
from polyfuse.target import named

STATUS_PAGES = BOARD.pages  # empty while no plan on a device checks data indices
_LOOKS = 64  # kinds of calls per record that have a text; overlaps at every distance are kinds of their own
_LATEST = 4  # calls that are recognised without a key: one that is not meant costs 0.2 to 0.4 us


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Counters since the function was made or its cache cleared.

    `hits`: calls that only launched (racing threads may lose some).  `misses`: calls that prepared a record.
    `compilations`: kernels.  `loads`: plans from the disk cache.  `records`: exact keys kept.  `guards`: per trace, the
    conditions on sizes that it assumes.
    """

    hits: int
    misses: int
    traces: int
    plans: int
    loads: int
    compilations: int
    records: int
    guards: tuple[tuple[AnyGuard, ...], ...]


class Jitted:
    """A compiled function; call it like the original.

    `out=` takes an array, or nested arrays like the result, to write into.  Thread safe.  Raises ArgumentError for
    arguments that no program can take, TraceError and its kinds for what the function does with them.
    """

    def __init__(self, function: Callable[..., Any], options: Options, services: Services) -> None:
        self._has_no_object = isinstance(function, staticmethod)
        function = function.__func__ if isinstance(function, staticmethod) else function
        functools.update_wrapper(self, function)
        if (code := getattr(function, "__code__", None)) is not None:
            note_traced((code.co_filename,), is_asked_for=True)
        self._function = function
        self._services = services
        self._parameters = Parameters.of(function)
        self._static = frozenset(options.static)
        unknown = sorted(self._static - set(self._parameters.names))
        if unknown:
            raise OptionError(f"static={unknown[0]!r} is no parameter of {self._parameters.function}")
        self._options = self._named(options)
        self._takes_out = "out" in self._parameters.names
        self._is_method = False
        self._counters = Counters()
        self._clear()

    def _named(self, options: Options) -> Options:
        """The options with donated parameters by name.  Raises OptionError for what is no parameter."""
        names = self._parameters.names
        for donated in options.donate:
            if donated not in (range(len(names)) if isinstance(donated, int) else names):
                raise OptionError(f"donate={donated!r} is no parameter of {self._parameters.function}")
        return replace(options, donate=tuple(names[d] if isinstance(d, int) else d for d in options.donate))

    def _clear(self) -> None:
        self._records: dict[tuple[Any, ...], Record] = {}
        self._latest: Recogniser = never
        self._recent: tuple[Recogniser, ...] = ()  # this one, and those of calls before
        self._variants = Variants(self._services)
        self._counts = self._variants.counts

    @property
    def function(self) -> Callable[..., Any]:
        return self._function

    def __repr__(self) -> str:
        return f"<jitted {self._parameters.function}{self._parameters.signature}>"

    def __reduce__(self) -> str:
        """By name, as functions are pickled; a copy is the function itself."""
        return self._function.__qualname__

    def __set_name__(self, owner: type, name: str) -> None:
        self._is_method = not self._has_no_object

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or self._has_no_object:
            return self
        self._is_method = True
        return JittedMethod(self, instance)

    def _receiver(self, arguments: Sequence[Any]) -> Receiver | None:
        """The object whose method this is, of a call."""
        if not arguments or not (self._is_method or is_method_of(self._function, arguments[0])):
            return None
        return Receiver(arguments[0]) if is_receiver(arguments[0]) else None

    # ------------------------------------------------------------------------------------------ calls
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if STATUS_PAGES:
            BOARD.check()
        result = self._latest(args, kwargs)
        return result if result is not MISSED else self._other(args, kwargs)

    def _other(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that does not look like the latest one."""
        latest = self._latest
        for recognised in self._recent:
            if recognised is not latest and (result := recognised(args, kwargs)) is not MISSED:
                self._latest = recognised
                return result
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Any call, by its key."""
        named, out = kwargs, None
        if not self._takes_out and "out" in kwargs:
            named = kwargs.copy()
            out = named.pop("out")
        arguments = self._parameters.bind(args, named)
        reading = self._read(arguments, self._is_traced)
        if reading.others:  # a jitted function inside another's trace
            if out is not None:
                raise ArgumentError("out= names memory, which a call within another jitted function does not have")
            positional, by_name = self._parameters.spread(arguments)
            return self._function(*positional, **by_name)
        record, is_known = self._record(reading, arguments)
        targets = None if out is None else self._targets(record, out)
        if is_known and reading.back is None:
            receiver = self._receiver(arguments)
            self._recognise(Seen(args, kwargs, reading.leaves, reading.values, targets, record, receiver), reading)
        if targets is not None:
            record.run_into(reading.values, reading.leaves, targets)
            return out
        result = record.run(reading.values, reading.leaves)
        return result if reading.back is None else converted(result, reading.back)

    def _recognise(self, seen: Seen, reading: Reading) -> None:
        """Recognise calls like this one, which is the second of its kind at least."""
        looks = (tuple(reading.structure), len(seen.args), tuple(seen.kwargs), seen.sharing())
        known = seen.record.recognised
        if looks not in known:
            if len(known) >= _LOOKS:
                known.clear()
            known[looks] = recogniser(seen, self._parameters, self._static, self._counts)
        if (found := known[looks]) is not None:
            self._latest = found
            if found not in self._recent:
                self._recent = (found, *self._recent[: _LATEST - 1])

    def _targets(self, record: Record, out: Any) -> list[Target]:
        single = record.results == 1 and LIBRARIES.get(type(out)) is not None
        if single:
            return read_targets(record, [("out", out)])
        flatten = self._services.frontend.flatten
        return read_targets(record, in_order(record, flatten(out, "out"), flatten))

    def _read(self, arguments: Sequence[Any], accepts: Callable[[Any], bool]) -> Reading:
        return read_arguments(self._parameters.names, arguments, self._static, accepts, self._receiver(arguments))

    def _is_traced(self, value: Any) -> bool:
        return self._services.frontend.is_tracer(value) or self._no_spec(value)

    def _no_spec(self, value: Any) -> bool:
        """False: what is neither an array nor a number is nothing to run with.  Raises ArgumentError for specs."""
        if self._services.frontend.is_spec(value):
            advice = "Pass arrays and numbers; f.plan, f.lower and f.compile take specs."
            raise ArgumentError(" is a spec, which has no values", advice=advice)
        return False

    def bind(self, /, *args: Any, out: Any = None, **kwargs: Any) -> BoundCall:
        """The call with these arrays, ready to be launched again and again: their contents may change, they may not.

        Without `out` every launch writes the same arrays, which it returns.  What the function finds elsewhere stays as
        it is now, but for the contents of captured arrays on the host; where some of these are constants of the program
        besides, a launch after they changed raises StalePlanError.  Raises as the call does.
        """
        arguments = self._parameters.bind(args, kwargs)
        reading = self._read(arguments, self._no_spec)
        record, _ = self._record(reading, arguments)
        targets = None if out is None else self._targets(record, out)
        return BoundCall.of(record, reading.values, reading.leaves, targets, out)

    def graph(self, /, *args: Any, out: Any = None, **kwargs: Any) -> BoundCall | GraphCall:
        """As `bind`, with all launches captured into one CUDA graph, which replays on the caller's current stream.

        For arrays on the host there is nothing to capture: the result is that of `bind`.  Raises ArgumentError for
        calls that do more than launch kernels, and as the call does.
        """
        bound = self.bind(*args, out=out, **kwargs)
        device = bound.record.device
        if device.kind == "cpu":
            return bound
        backend = self._backend(device, self._target(device, self._options))
        return GraphCall.of(bound, backend, self._parameters.function)

    # ------------------------------------------------------------------------------------------ ahead of time
    def plan(self, /, *args: Any, **kwargs: Any) -> Plan:
        """The plan for arguments or shape specs, without running anything.  Keywords that are no parameters of the
        function are options: ``target``, ``fuse`` and the others of `Options` (all others go to ``**kwargs``, where the
        function has that).  With ``autotune``, of arguments like
        those of an earlier call, the plan that was the fastest then."""
        return self.lower(*args, **kwargs).plan

    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """As `plan`; the result can be compiled."""
        own = self._parameters.of_function(kwargs, {f.name for f in fields(Options)})
        wanted = {n: kwargs.pop(n) for n in kwargs.keys() - own}
        options = self._named(self._options.updated(wanted))
        arguments = self._parameters.bind(args, kwargs)
        refuse_texts(self._parameters.names, arguments, self._static)
        reading = self._read(arguments, self._services.frontend.is_spec)
        with PLANNING:
            plan = None
            if reading.others:
                options = _with_library(options, "")
                variant = self._traced(arguments)
                program, layouts, device = variant.traced.program, default_layouts(variant.traced), None
            else:
                call = self._fitted(reading, arguments)
                variant, program = call.variant, replace(call.variant.traced.program, hints=call.sizes)
                layouts, device = layouts_of(call.leaves, to_stage(call.leaves)), device_of(call)
                options = _with_library(options, _library_of(call).name)
                if options.autotune:
                    plan = self._variants.running(call, layouts, self._target(device, options), options)
            plan = plan or self._variants.plan(program, self._target(device, options), options, layouts)
        return Lowered(plan, variant, tuple(reading.structure), self._reread, self._services, self._variants)

    def compile(self, /, *args: Any, **kwargs: Any) -> Executable:
        """As `lower`, compiled, which needs no device; running it does."""
        return self.lower(*args, **kwargs).compile()

    def _reread(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reading:
        return self._read(self._parameters.bind(args, kwargs), self._no_spec)

    # ------------------------------------------------------------------------------------------ caches
    def cache_info(self) -> CacheInfo:
        """What was found, made and assumed so far."""
        counts = self._counts
        return CacheInfo(
            hits=counts.hits,
            misses=counts.misses,
            traces=counts.traces,
            plans=counts.plans,
            loads=counts.loads,
            compilations=counts.compilations,
            records=len(self._records),
            guards=tuple(variant.traced.guards for variant in self._variants.all()),
        )

    def cache_clear(self) -> None:
        """Forget everything in memory; the disk cache stays."""
        with PLANNING:
            self._clear()

    # ------------------------------------------------------------------------------------------ records
    def _record(self, reading: Reading, arguments: Sequence[Any]) -> tuple[Record, bool]:
        """The record of a call, and whether it was there; the reading then holds the captured arrays too."""
        key = tuple(reading.key)
        record = self._records.get(key)
        if record is not None and (not record.is_conditional or record.holds(reading.values, reading.leaves)):
            self._counts.hits += 1
            return record, True
        with PLANNING:
            record = self._records.get(key)  # another thread may have made it meanwhile
            if record is not None and (not record.is_conditional or record.holds(reading.values, reading.leaves)):
                return record, True
            record = self._prepare(reading, arguments)
            if record.is_conditional and not record.holds(reading.values, reading.leaves):
                raise ArgumentError("a captured value changed while the function was being compiled")
            self._counts.misses += 1
            keep(self._records, key, record)
            return record, False

    def _prepare(self, reading: Reading, arguments: Sequence[Any]) -> Record:
        call = self._fitted(reading, arguments)
        device = device_of(call) or HOST
        target = self._target(device, self._options)
        backend = self._backend(device, target)
        staged = to_stage(call.leaves)
        library = _library_of(call)
        refuse_capture(library, device, self._parameters.function)
        options = _with_library(self._options, library.name)
        setting = Setting(library, device, self._counters, self._variants.shared)
        placed = Call(call.leaves, call.sizes, call.given, staged)

        def measure(candidate: Ready) -> float:
            from polyfuse.run.tuning import timed

            record = prepare(candidate, call.variant.traced, call.variant.watch, placed, setting)
            values = [leaf.value if leaf.facts is None else leaf.facts.pointer for leaf in call.leaves]
            leaves = [leaf.value for leaf in call.leaves]
            wait = functools.partial(backend.synchronize, device.ordinal)
            return timed(lambda: record.run([*values], [*leaves]), wait)

        layouts = layouts_of(call.leaves, staged)
        ready = self._variants.ready(call, layouts, target, options, backend, measure)
        return prepare(ready, call.variant.traced, call.variant.watch, placed, setting)

    def _fitted(self, reading: Reading, arguments: Sequence[Any]) -> Fitted:
        leaves = leaves_of(reading.leaves, lambda leaf: self._path(leaf, arguments))
        key = tuple(reading.structure)
        found = self._variants.find(key, leaves)
        return found or self._variants.add(key, leaves, self._traced(arguments))

    def _path(self, leaf: Any, arguments: Sequence[Any]) -> str:
        """How the user reaches `leaf`; arrays of foreign libraries are not found, because they were adopted."""
        flatten, named = self._services.frontend.flatten, zip(self._parameters.names, arguments, strict=True)
        found = (path for name, argument in named for path, below in flatten(argument, name) if below is leaf)
        return next(found, "an argument")

    def _traced(self, arguments: Sequence[Any]) -> Variant:
        names = self._static if self._receiver(arguments) is None else self._static | {self._parameters.names[0]}
        static = {n: v for n, v in zip(self._parameters.names, arguments, strict=True) if n in names}
        args, kwargs = self._parameters.spread(arguments, names, Static)
        frontend, name = self._services.frontend, self._parameters.function
        for parameter, value in zip(self._parameters.names, arguments, strict=True):
            leaves = frontend.flatten(value, parameter)
            static |= {path: leaf for path, leaf in leaves if isinstance(leaf, LOOKED_INTO)}
            kinds = dict.fromkeys(users_classes_in(value))  # attributes and methods are theirs
            static |= {f"class {k} of {parameter}: {kind.__qualname__}": kind for k, kind in enumerate(kinds)}
        earlier: list[Cell] = []
        named: Mapping[str, Collection[int]] = {}
        before: list[Snapshot] = []  # of every run: the last one is the trace, and two may change a value and back

        def snapshot() -> None:
            before.append(Snapshot.of(self._function, static, named))

        while True:
            snapshot()
            traced = frontend.trace(self._function, args, kwargs, self._options.donate, snapshot)
            named = {**named, **traced.named}
            after = Snapshot.of(self._function, static, named)
            changed = before[-1].changed_in(after)
            refuse_escapes(name, after.reach.functions, changed, frontend.origin)
            if not changed:
                return self._variants.new(traced, after.reach.cells)
            if earlier:  # what is kept from the first run on is there by now
                refuse_changes(name, after.reach.functions, changed)
            earlier = changed

    def _target(self, device: Device | None, options: Options) -> Machine:
        if options.target is not None:
            return named(options.target)
        if device is None and options.backend == "numba_cpu":
            device = HOST
        return self._services.target(device)

    def _backend(self, device: Device, target: Machine) -> Backend:
        """The back end for arrays on `device`.  Raises ArgumentError where it cannot reach them."""
        backend = self._services.backend(backend_name(self._options, target))
        if backend.device == device.kind:
            return backend
        advice = 'Pass device arrays, or backend="interpreter" to run its schedule without a GPU.'
        raise ArgumentError(
            f"back end {backend.name} needs arrays on a {backend.device} device, these are on {device}",
            advice=advice if device.kind == "cpu" else "",
        )


def _library_of(call: Fitted) -> Library:
    return next((leaf.library for leaf in call.leaves if leaf.library is not None), NUMPY)


def _with_library(options: Options, name: str) -> Options:
    """The options of a plan, which say by name the library that may run contractions."""
    return replace(options, library=name or False) if options.library is True else options
