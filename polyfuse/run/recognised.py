"""Calls that look like an earlier one: text written out that recognises them, launches, and returns.

What a call looks like is the nesting of its arguments, which of them are one array, the class of every array, the type
of every number.  The text holds nothing else::

    f(x, {"a": y}, 2.0)    def call(args, kwargs):
                               if kwargs or len(args) != 3:
                                   return MISSED
                               a0, a1, a2 = args
                               if type(a1) is not dict or (*a1,) != c0:
                                   return MISSED
                               (a3,) = a1.values()
                               if type(a2) is not float or not check(a0, a3):
                                   return MISSED
                               p0 = pointer(a0)
                               p1 = pointer(a3)
                               if (p0 | p1) & 15:
                                   return MISSED
                               counts.hits += 1
                               o0 = allocate0()
                               s = stream()
                               launch0(s, p0, p1, a2, pointer(o0))
                               return o0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from polyfuse.codegen.closures import function_of
from polyfuse.run.arguments import INT64, LIBRARIES, SCALARS, Receiver
from polyfuse.run.arrays import VECTOR_ALIGNMENT, Guard
from polyfuse.run.locks import PLANNING
from polyfuse.run.record import Record, Target
from polyfuse.run.services import KernelLaunch
from polyfuse.run.signature import Default, Parameters

MISSED: Final = object()  # what a function returns for a call that it does not recognise
_STATIC = (bool, int, str, type(None))  # static values that equality and type tell apart
_TARGETS = 4  # arrays of ``out=``, every pair of which is compared

Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def never(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Recognises no call."""
    return MISSED


class _Unsuitable(Exception):
    """A call that no text can recognise, or not cheaper than its key can."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A call that has been run: how it was written, its leaves with their values, and where results go.

    `record`: of the call; `leaves` and `values` as `Record` takes them, captured arrays last.  `targets`: of ``out=``,
    None without it.  `receiver`: the object whose method was called.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    leaves: Sequence[Any]
    values: Sequence[Any]
    targets: Sequence[Target] | None
    record: Record
    receiver: Receiver | None = None

    def sharing(self) -> tuple[Any, ...]:
        """Which leaves are one array, and how those of ``out=`` lie to them."""
        first: dict[int, int] = {}
        places = tuple([first.setdefault(id(leaf), k) for k, leaf in enumerate(self.leaves)])
        if self.targets is None:
            return places
        return places, *(self._lies(target, first) for target in self.targets)

    def _lies(self, target: Target, first: Mapping[int, int]) -> tuple[Any, ...]:
        distances = tuple([(leaf, target.pointer - self.values[leaf]) for leaf, _, _ in self.met(target)])
        return target.layout, distances, first.get(id(target.array))

    def met(self, target: Target) -> list[tuple[int, int, int]]:
        """The spans of leaves that share bytes with a target."""
        begin, end = target.pointer + target.layout.low, target.pointer + target.layout.high
        return [s for s in self.record.spans if begin < self.values[s[0]] + s[2] and self.values[s[0]] + s[1] < end]


def recogniser(seen: Seen, parameters: Parameters, static: frozenset[str], counts: Any) -> Call | None:
    """A function that runs calls like `seen` and returns MISSED for others; None where there can be none.

    `static`: names of parameters whose values are part of the program.  `counts`: where `hits` are counted.
    """
    text = _Text({"MISSED": MISSED, "counts": counts}, dict(seen.record.ranges), dict(seen.record.fixed))
    try:
        text.arguments(seen, parameters, static)
        own = len(seen.leaves) - len(seen.record.captured)
        same = own == len(text.leaves) and all(a is b for (_, a), b in zip(text.leaves, seen.leaves, strict=False))
        if not same:
            return None
        text.classes(seen)
        text.body(seen)
    except _Unsuitable:
        return None
    return function_of(text.whole("call(args, kwargs)"), "call", text.names)


def rerun(record: Record, values: Sequence[Any], outputs: Sequence[Any]) -> Callable[[], None] | None:
    """A function that launches `record` again and again with these arrays; None where it does more than launch."""
    if not _is_straight(record):
        return None
    known = dict(enumerate([*values, *map(record.library.pointer, outputs)]))
    with PLANNING:
        steps = [step.fixed(known) for step in record.steps if isinstance(step, KernelLaunch)]
    text = _Text({f"p{k}": value for k, value in known.items()})  # of arguments in which an intermediate lies
    text.launches(replace(record, steps=tuple(steps)), list(text.names))
    if record.library.written is not None and outputs:
        text.names |= {"written": record.library.written, "outputs": tuple(outputs)}
        text.lines.append("written(outputs)")
    return function_of(text.whole("run()"), "run", text.names)


def _is_straight(record: Record) -> bool:
    """Whether its calls do nothing but allocate and launch."""
    other = record.staged or record.needs_objects or record.taken or record.captured
    are_flags = all(type(value) is bool for _, value in record.fixed)  # the text asks for them
    return not other and are_flags and all(isinstance(step, KernelLaunch) for step in record.steps)


@dataclass(slots=True)
class _Text:
    """A function in the making.  `names`: what its text refers to; `leaves`: of the call, as (name in the text, value);
    `pointers`: the name of every leaf's address or number."""

    names: dict[str, Any]
    ranges: Mapping[int, range] = field(default_factory=dict)  # integers that the trace holds for, by leaf
    fixed: Mapping[int, Any] = field(default_factory=dict)  # values that it holds for
    lines: list[str] = field(default_factory=list)
    leaves: list[tuple[str, Any]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    pointers: list[str] = field(default_factory=list)
    count: int = 0

    def whole(self, head: str) -> str:
        return "\n".join([f"def {head}:", *(f"    {line}" for line in self.lines), ""])

    def miss(self, condition: str) -> None:
        self.lines += [f"if {condition}:", "    return MISSED"]

    def fresh(self, count: int) -> list[str]:
        self.count += count
        return [f"a{k}" for k in range(self.count - count, self.count)]

    def constant(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def unpack(self, container: str, count: int) -> list[str]:
        """Names for the items of `container`."""
        found = self.fresh(count)
        if found:
            self.lines.append(f"{', '.join(found)}{',' if count == 1 else ''} = {container}")
        return found

    # ------------------------------------------------------------------------------------------ what a call looks like
    def arguments(self, seen: Seen, parameters: Parameters, static: frozenset[str]) -> None:
        """The nesting of all arguments, and the types of what is no array."""
        keys = tuple(seen.kwargs)
        named = f"(*kwargs,) != {self.constant(keys)}" if keys else "kwargs"
        self.miss(f"{named} or len(args) != {len(seen.args)}")
        positional = self.unpack("args", len(seen.args))
        keywords = dict(zip(keys, self.unpack("kwargs.values()", len(keys)), strict=True))
        if "out" in keywords and "out" not in parameters.names and seen.targets is None:
            self.miss(f"{keywords['out']} is not None")
        ours = [key for key in keys if key != "out" or "out" in parameters.names]
        for parameter, source in parameters.sources(len(seen.args), ours):
            if isinstance(source, Default):
                self.default(source.value)
                continue
            name, value = (
                (positional[source], seen.args[source])
                if isinstance(source, int)
                else (keywords[source], seen.kwargs[source])
            )
            if seen.receiver is not None and parameter == parameters.names[0]:
                self.miss(f"{name} is not {self.constant(seen.receiver.value)}")
            else:
                self.static(name, value) if parameter in static else self.item(name, value)
        if seen.targets is not None:
            self.out(keywords["out"], seen.kwargs["out"], seen.targets)

    def item(self, name: str, value: Any) -> None:
        kind = type(value)
        if kind is tuple or kind is list:
            self.miss(f"type({name}) is not {kind.__name__} or len({name}) != {len(value)}")
            for part in zip(self.unpack(name, len(value)), value, strict=True):
                self.item(*part)
        elif kind is dict:
            kinds = tuple(map(type, value))
            if not set(kinds) <= {*_STATIC}:
                raise _Unsuitable
            others = "" if set(kinds) <= {str} else f" or (*map(type, {name}),) != {self.constant(kinds)}"
            self.miss(f"type({name}) is not dict or (*{name},) != {self.constant(tuple(value))}{others}")
            for part in zip(self.unpack(f"{name}.values()", len(value)), value.values(), strict=True):
                self.item(*part)
        elif kind in SCALARS:
            allowed = self.ranges.get(len(self.leaves), INT64)
            wide = f" or {name} not in {self.constant(allowed)}" if kind is int else ""
            is_flag = kind is bool and len(self.leaves) in self.fixed
            self.miss(f"{name} is not {value}" if is_flag else f"type({name}) is not {kind.__name__}{wide}")
            self.leaves.append((name, value))
        elif value is None or kind is str:
            self.static(name, value)
        else:
            self.leaves.append((name, value))

    def static(self, name: str, value: Any) -> None:
        """A value that is part of the program."""
        if type(value) not in _STATIC:
            raise _Unsuitable
        different = f"type({name}) is not {self.constant(type(value))} or {name} != {self.constant(value)}"
        self.miss(f"{name} is not None" if value is None else different)

    def default(self, value: Any) -> None:
        """The default of a parameter that the call leaves out."""
        if type(value) in SCALARS:
            self.leaves.append((self.constant(value), value))
        elif value is not None and type(value) is not str:
            raise _Unsuitable

    def out(self, name: str, value: Any, targets: Sequence[Target]) -> None:
        """The arrays that results go to: one, or a plain tuple or list of them."""
        if len(targets) == 1 and targets[0].array is value:
            self.targets = [name]
            return
        if type(value) not in (tuple, list) or not all(t.array is v for t, v in zip(targets, value, strict=True)):
            raise _Unsuitable
        self.miss(f"type({name}) is not {type(value).__name__} or len({name}) != {len(value)}")
        self.targets = self.unpack(name, len(value))

    def classes(self, seen: Seen) -> None:
        """The class of every array, and of the watched values; names the address or number of every leaf."""
        library = seen.record.library
        arrays = [pair for pair in self.leaves if type(pair[1]) not in SCALARS]
        arrays += [(name, t.array) for name, t in zip(self.targets, seen.targets or (), strict=True)]
        if not arrays or any(_library_name(array) != library.name for _, array in arrays):
            raise _Unsuitable
        first: dict[int, str] = {}
        for name, array in arrays:
            if (known := first.setdefault(id(array), name)) != name:
                self.miss(f"{name} is not {known}")
        unique = [pair for pair in arrays if first[id(pair[1])] == pair[0]]
        guard = library.guard([array for _, array in unique])
        if guard is None:
            raise _Unsuitable
        self.unasked(guard, [name for name, _ in unique])
        self.names |= {"check": guard.check, "pointer": library.pointer}
        self.miss(f"not check({', '.join(name for name, _ in unique)})")
        self.addresses(unique, library.pointer, guard.can_be_freed)
        self.pointers = [name if type(v) in SCALARS else _pointer(first[id(v)]) for name, v in self.leaves]
        self.targets = [_pointer(first[id(t.array)]) for t in seen.targets or ()]

    def unasked(self, guard: Guard, arrays: Sequence[str]) -> None:
        """Arrays that a guard does not tell from others, or cannot be asked about."""
        conditions = [f"{name}.{guard.attribute}" for name in arrays if guard.attribute]
        if guard.changing:
            self.names["state"] = guard.state
            conditions.insert(0, f"state.{guard.changing} >= 0")
        if conditions:  # what is no array of this library may lack the attribute
            met = f"    if {' or '.join(conditions)}:"
            self.lines += ["try:", met, "        return MISSED", "except AttributeError:", "    return MISSED"]

    def addresses(
        self, arrays: Sequence[tuple[str, Any]], pointer: Callable[[Any], int], can_be_freed: bool
    ) -> None:
        """Read the address of every array; each is aligned as it was, and still has memory."""
        aligned, held = [], []
        for name, array in arrays:
            at = _pointer(name)
            self.lines.append(f"{at} = pointer({name})")
            rest = pointer(array) % VECTOR_ALIGNMENT
            if rest:
                self.miss(f"{at} % {VECTOR_ALIGNMENT} != {rest}")
            else:
                aligned.append(at)
                held += [at] if can_be_freed and pointer(array) else []
        if aligned:
            freed = f"not ({' and '.join(held)}) or " if held else ""
            self.miss(f"{freed}({' | '.join(aligned)}) & {VECTOR_ALIGNMENT - 1}")

    # ------------------------------------------------------------------------------------------ what is done then
    def body(self, seen: Seen) -> None:
        record = seen.record
        if seen.targets is not None:
            self.into(seen, seen.targets)
        elif not _is_straight(record):
            self.general(record)
        else:
            self.watch(record)
            self.lines.append("counts.hits += 1")
            outputs = self.allocate(record, range(len(record.allocators)))
            self.launches(record, [*self.pointers, *(f"pointer({name})" for name in outputs)])
            self.finish(record, outputs)

    def watch(self, record: Record) -> None:
        if record.watch.plain:
            self.names["holds"] = record.watch.holds
            self.miss("not holds()")

    def general(self, record: Record) -> None:
        """Calls that do more than launch: `Record.run` knows how."""
        self.lists(record)
        self.names["run"] = record.run
        self.lines.append("return run(values, leaves)")

    def lists(self, record: Record) -> None:
        """Values and leaves as `Record` takes them."""
        self.lines.append(f"values = [{', '.join(self.pointers)}]")
        self.lines.append(f"leaves = [{', '.join(name for name, _ in self.leaves)}]")
        if record.is_conditional:
            self.names["holds"] = record.holds
            self.miss("not holds(values, leaves)")
        self.lines.append("counts.hits += 1")

    def into(self, seen: Seen, targets: Sequence[Target]) -> None:
        """Results in the caller's arrays, none of which meets another."""
        if len(targets) > _TARGETS:
            raise _Unsuitable
        spans = [(target.layout.low, target.layout.high) for target in targets]
        pairs = list(zip(self.targets, spans, strict=True))
        for k, pair in enumerate(pairs):
            for other in pairs[:k]:
                self.apart(*pair, *other)
        if seen.record.library.name == "numpy":
            self.miss(" or ".join(f"not {_array(at)}.flags.writeable" for at in self.targets))
        record, _, copies = seen.record.place(seen.values, seen.leaves, targets)
        if len(targets) == len(record.allocators) and _is_straight(seen.record) and _is_straight(record):
            self.placed(seen, targets, record, [array for array, _ in copies])
        else:
            self.lists(seen.record)
            pairs_of = zip(self.targets, targets, strict=True)
            made = [f"Target({_array(at)}, {at}, {self.constant(t.layout)})" for at, t in pairs_of]
            self.names |= {"run_into": seen.record.run_into, "Target": Target}
            self.lines.append(f"run_into(values, leaves, [{', '.join(made)}])")
        self.lines.append('return kwargs["out"]')

    def placed(self, seen: Seen, targets: Sequence[Target], record: Record, copied: Sequence[Any]) -> None:
        """As `Record.run_into` with the record that it finds where the targets lie to the arguments as they did."""
        for at, target in zip(self.targets, targets, strict=True):
            if target.layout.is_plain:
                self.lies(seen, at, target)
        self.watch(record)
        self.lines.append("counts.hits += 1")
        is_copied = [any(target.array is array for array in copied) for target in targets]
        outputs = self.allocate(record, [k for k, copy in enumerate(is_copied) if copy])
        made = iter(outputs)
        where = [f"pointer({next(made)})" if copy else at for copy, at in zip(is_copied, self.targets, strict=True)]
        self.launches(record, [*self.pointers, *where])
        if outputs:
            self.names["copy"] = record.library.copy
        stale = [_array(at) for copy, at in zip(is_copied, self.targets, strict=True) if copy]
        self.lines += [f"copy({target}, {output})" for target, output in zip(stale, outputs, strict=True)]
        if record.library.written is not None:
            self.names["written"] = record.library.written
            self.lines.append(f"written(({', '.join(map(_array, self.targets))},))")

    def lies(self, seen: Seen, at: str, target: Target) -> None:
        """A target is as far from the arguments that it meets as it was, and meets no other."""
        met = seen.met(target)
        for leaf, low, high in seen.record.spans:
            name = self.pointers[leaf]
            if (leaf, low, high) not in met:
                self.apart(at, (target.layout.low, target.layout.high), name, (low, high))
            elif at != name:
                self.miss(f"{at} - {name} != {target.pointer - seen.values[leaf]}")

    def apart(self, a: str, span: tuple[int, int], b: str, other: tuple[int, int]) -> None:
        """The bytes of two arrays do not meet."""
        self.miss(f"{a} + {span[0]} < {b} + {other[1]} and {b} + {other[0]} < {a} + {span[1]}")

    def allocate(self, record: Record, outputs: Sequence[int]) -> list[str]:
        self.names |= {f"allocate{k}": record.allocators[k] for k in outputs}
        self.lines += [f"o{k} = allocate{k}()" for k in outputs]
        return [f"o{k}" for k in outputs]

    def launches(self, record: Record, places: Sequence[str]) -> None:
        """All launches; `places`: the addresses or numbers of leaves and outputs."""
        if record.device.kind == "cpu":
            self.lines.append("s = 0")
        else:
            self.names["stream"] = record.stream
            self.lines.append("s = stream()")
        where = [*places, *self.buffers(record, places)]
        for k, step in enumerate(record.steps):
            assert isinstance(step, KernelLaunch), "a record that does more than launch"
            self.names[f"launch{k}"] = step.launch
            self.lines.append(f"launch{k}({', '.join(['s', *(where[slot] for slot in step.slots)])})")

    def buffers(self, record: Record, places: Sequence[str]) -> list[str]:
        """Addresses of intermediates, which live until the last launch is queued."""
        scratch = record.scratch
        if scratch is None:
            return []
        self.names["pointer"] = record.library.pointer
        if scratch.total:
            self.names["workspace"] = scratch.allocate
            self.lines += ["memory = workspace()", "m = pointer(memory)"]
        if scratch.counted:
            self.names |= {"counters": record.counters.take, "library": record.library, "device": record.device}
            self.lines += [f"zeroed = counters(library, device, s, {scratch.counted})", "z = pointer(zeroed)"]
        triples = zip(scratch.buffers, scratch.offsets, scratch.hosts, strict=True)
        return [
            places[host] if host >= 0 else ("z" if buffer.zeroed else "m") + (f" + {offset}" if offset else "")
            for (buffer, _), offset, host in triples
        ]

    def finish(self, record: Record, outputs: Sequence[str]) -> None:
        match record.form:
            case "single":
                self.lines.append(f"return {outputs[0]}")
            case "tuple":
                self.lines.append(f"return ({', '.join(outputs)},)")
            case "else":
                self.names["finish"] = record.finish
                self.lines.append(f"return finish([{', '.join(outputs)}])")


def _pointer(array: str) -> str:
    """The name of an array's address."""
    return f"p{array[1:]}"


def _array(pointer: str) -> str:
    """The name of the array whose address has the name `pointer`."""
    return f"a{pointer[1:]}"


def _library_name(array: Any) -> str | None:
    library = LIBRARIES.get(type(array))
    return library.name if library is not None else None
