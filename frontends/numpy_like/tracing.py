"""Trace a NumPy function into a `Program`.

    leaves of the arguments -> tracers -> the user's function -> nodes of the results -> Program

The function runs again (a fixpoint) when it needs two sizes equal, or a size or scalar as a Python number: each such
assumption becomes a guard, and a call that breaks it is traced anew.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.attributes import NotPassed
from polyfuse.bindings import AnyGuard, Guard, VolumeGuard
from polyfuse.dtypes import i64, integer_limits
from polyfuse.errors import DTypeError, PolyfuseError, Source, SpecError, TraceError
from polyfuse.expr import Argument, Node, Program
from polyfuse.frontends.index_notation.terms import Term
from polyfuse.frontends.numpy_like import locations, naming, tree
from polyfuse.frontends.numpy_like.adoption import adopted
from polyfuse.frontends.numpy_like.escapes import refuse_hidden
from polyfuse.frontends.numpy_like.lifting import lift
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.rebinding import Rebinder
from polyfuse.frontends.numpy_like.registry import TABLE
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.specs import ArraySpec, ScalarSpec, substitute
from polyfuse.frontends.numpy_like.standard import Standard
from polyfuse.frontends.numpy_like.state import Retrace, Trace
from polyfuse.frontends.numpy_like.tracer import Buffer, Tracer
from polyfuse.frontends.numpy_like.watched import plain, read
from polyfuse.installed import note_traced
from polyfuse.options import is_donated

_log = logging.getLogger("polyfuse.trace")

ATTEMPTS = 200  # each one removes a symbol or fixes a scalar; programs have few of either


@dataclass(frozen=True, slots=True)
class ScalarGuard:
    """Scalar argument `position` was used in Python control flow with this value (and type)."""

    position: int
    value: bool | int | float

    def holds(self, value: object) -> bool:
        return type(value) is type(self.value) and (value == self.value or value != value != self.value)

    def __str__(self) -> str:
        return f"argument {self.position} is {self.value!r}"


@dataclass(frozen=True, slots=True)
class Output:
    """A leaf of the result that is output `position` of the program.  `is_python`: it is made of Python numbers alone,
    so that it is one in NumPy code, which only lifts the kind of what it meets (NEP 50)."""

    position: int
    is_python: bool = False


@dataclass(frozen=True, slots=True)
class SizeOutput:
    """A leaf of the result that is a size: the product of `factors`, over the symbols of the specs."""

    factors: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced function.

    `guards` and `scalar_guards` say for which calls `program` holds; guards are over the symbols of the specs that
    were given.  `captured`: real arrays met by the function, hidden arguments after the given ones; `read`: those whose
    contents the program depends on; `watched`: those of which `read` says so where they are.  `named`: attributes asked
    for by names that the function may compute, `getattr(layer, f"w{k}")`, and who had none.
    `structure` and `leaves` rebuild the user's nesting of results; leaves that are neither `Output` nor `SizeOutput`
    are constants.
    `results`: how many outputs are the user's; further ones are arguments written in place (`Program.writes`).
    """

    program: Program
    structure: tree.Structure
    leaves: tuple[Any, ...]
    results: int
    guards: tuple[AnyGuard, ...] = ()
    scalar_guards: tuple[ScalarGuard, ...] = ()
    scalar_ranges: tuple[tuple[int, int, int], ...] = ()
    captured: tuple[np.ndarray[Any, Any], ...] = ()
    read: tuple[np.ndarray[Any, Any], ...] = ()
    watched: tuple[np.ndarray[Any, Any], ...] = ()
    named: Mapping[str, Collection[int]] = field(default_factory=dict)

    def rebuild(self, outputs: Sequence[Any], sizes: Mapping[str, int] | None = None) -> Any:
        """The user's result from the program's outputs and the values of the size symbols."""

        def of(leaf: Any) -> Any:
            match leaf:
                case Output(position, is_python):
                    found = outputs[position]
                    return found.item() if is_python and isinstance(found, np.generic) else found
                case SizeOutput():
                    return int(np.prod([f.evaluate(sizes or {}) for f in leaf.factors], dtype=np.int64))
            return leaf

        return tree.unflatten(self.structure, [of(leaf) for leaf in self.leaves])


@dataclass(slots=True)
class _Assumptions:
    """What earlier attempts found out.  `origin`: symbols made by tracing, over those of the specs."""

    symbols: dict[str, Affine] = field(default_factory=dict)
    scalars: set[int] = field(default_factory=set)
    guards: dict[AnyGuard, None] = field(default_factory=dict)
    origin: dict[str, Affine] = field(default_factory=dict)
    told: bool = False
    refused: PolyfuseError | None = None  # a write into a real array

    def add(self, request: Retrace) -> None:
        if request.position is not None:
            self.scalars.add(request.position)
        self.refused = self.refused or request.refused
        for guard in request.guards:
            self.guards[self.original(guard)] = None
        for name, value in request.symbols.items():
            made = value.names() - self.origin.keys() if request.guards else frozenset()
            if made:
                divisor = value.coefficient(next(iter(made)))
                self.origin[next(iter(made))] = Affine.symbol(name).substitute(self.origin) // divisor
            else:
                difference = Affine.symbol(name) - value
                self.guards[self.original(Guard(difference))] = None
                self.guards[self.original(Guard(-difference))] = None
        self.symbols = {n: v.substitute(request.symbols) for n, v in self.symbols.items()} | request.symbols

    def original(self, guard: AnyGuard) -> AnyGuard:
        """The guard over the symbols of the specs."""
        if isinstance(guard, VolumeGuard):
            return VolumeGuard(tuple(f.substitute(self.origin) for f in guard.shape), guard.limit, guard.exceeds)
        assert isinstance(guard, Guard), "tracing makes no other guards"
        return Guard(guard.expression.substitute(self.origin), guard.modulus)


def trace(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    donate: Sequence[int | str] = (),
    again: Callable[[], None] = lambda: None,
) -> Traced:
    """Trace `function` for arguments that are trees of `ArraySpec`, `ScalarSpec` and static Python objects.

    `donate`: names (paths) of array arguments that the function may overwrite.  `again`: called before each further
    run of the function.  Raises TraceError and its kin, with the user's line.
    """
    assumptions = _Assumptions()
    left = ATTEMPTS
    while left:
        attempt = _Attempt(function, arguments, keywords or {}, name, frozenset(donate), assumptions)
        try:
            traced = attempt.run()
            if not note_traced(attempt.state.ran):
                return traced
            again()
        except Retrace as request:
            assumptions.add(request)
            assumptions.told = attempt.state.told
            again()
            if request.guards or not request.symbols:  # sizes found equal are fewer symbols: that comes to an end
                left -= 1
        except PolyfuseError as error:
            if note_traced(attempt.state.ran):
                again()
                continue
            first = assumptions.refused
            if first is not None and _line(first) != _line(error):  # what else is in the way is of no help
                raise first from None
            raise
    raise TraceError("tracing does not come to an end: every attempt needs another assumption about sizes")


def _hints(specs: Sequence[ArraySpec | ScalarSpec]) -> dict[str, int]:
    """The hint of each letter.  Raises SpecError where two specs differ."""
    hints: dict[str, int] = {}
    for name, hint in (pair for spec in specs if isinstance(spec, ArraySpec) for pair in spec.hints):
        if hints.setdefault(name, hint) != hint:
            problem = f"the letter {name} has two hints, {hints[name]} and {hint}"
            raise SpecError(problem, advice="Give it one, or use another letter for another size.")
    return hints


def _line(error: PolyfuseError) -> tuple[str, int] | None:
    return None if error.source is None else (error.source.file, error.source.line)


class _Attempt:
    """One run of the user's function under some assumptions."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        name: str | None,
        donate: frozenset[int | str],
        assumptions: _Assumptions,
    ) -> None:
        self.function, self.assumptions, self.donate = function, assumptions, donate
        self.name = name or getattr(function, "__name__", "function").replace("<lambda>", "function")
        self.leaves, self.structure = naming.argument_leaves(function, arguments, keywords)
        self.specs = [leaf for _, leaf in self.leaves if isinstance(leaf, (ArraySpec, ScalarSpec))]
        hints = _hints(self.specs)
        unbound = [s for s in self.specs if isinstance(s, ArraySpec) and s.fresh]
        fresh = {n for s in unbound for size in s.shape for n in size.names()}
        for made, origin in assumptions.origin.items():
            hints[made] = origin.evaluate(hints)
        self.state = Trace(
            TABLE_WITH_NAMESPACE,
            hints,
            frozenset(fresh | assumptions.origin.keys()),
            dict.fromkeys(fresh, 2),
            len(self.specs),
            {k: s.value for k, s in enumerate(self.specs) if isinstance(s, ScalarSpec) and s.value is not None},
            told=assumptions.told,
        )
        if assumptions.refused is not None:
            self.state.read.adopt = partial(adopted, self.state)
        self.arguments: list[Argument] = []
        self.buffers: list[tuple[int, Buffer, Node]] = []

    def run(self) -> Traced:
        try:
            return self._run()
        finally:
            self.state.ended = True

    def _run(self) -> Traced:
        values = [self._value(path, leaf) for path, leaf in self.leaves]
        arguments, keywords = tree.unflatten(self.structure, values)
        rebinder = Rebinder(self.state)
        try:
            return self._rebound(rebinder, arguments, keywords)
        except Retrace:
            rebinder.printed.forget()
            raise
        finally:
            rebinder.end()

    def _rebound(self, rebinder: Rebinder, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Traced:
        rebinder.passed = tree.inside([*arguments, *keywords.values()])
        arguments = [rebinder.value(a) for a in arguments]
        keywords = {name: rebinder.value(a) for name, a in keywords.items()}
        before = naming.argument_leaves(self.function, arguments, keywords)
        given, errors = before[0], TraceError.made
        try:
            result = rebinder.function(self.function)(*arguments, **keywords)
        except RecursionError:
            problem = f"{self.name} and what it calls go deeper into each other than Python's recursion limit"
            advice = "Tracing takes a few frames more per function: raise sys.setrecursionlimit."
            raise self.state.asked or TraceError(problem, advice=advice) from None
        except Exception as error:
            raise self.state.asked or _cause(error) from None
        if self.state.asked is not None:
            raise self.state.asked
        if self.state.unanswered is not None:  # caught by the user's code, which took another way than with NumPy
            raise self.state.unanswered
        if TraceError.made > errors:
            shapes = [size.substitute(self.assumptions.symbols) for a in self.arguments for size in a.shape]
            self.state.pin({name for size in shapes for name in size.names()})
        rebinder.write_back()
        traced = self._traced(result, rebinder)
        after = naming.argument_leaves(self.function, arguments, keywords)
        if not self._check_containers(given, after[0], traced):
            self._check_static(before, after, tree.inside(result) & tree.inside([*arguments, *keywords.values()]))
        return traced

    def _check_static(
        self, before: tuple[Leaves, tree.Structure], after: tuple[Leaves, tree.Structure], returned: frozenset[int]
    ) -> None:
        """Other changes of what the caller passed are made when the function is traced, to copies: an error, but for
        what the function returns, and where asking a dictionary for a key makes one.  `returned`: containers of the
        caller that a result has."""
        old, new = dict(before[0]), dict(after[0])
        changed = [path for path in {**old, **new} if path not in old or path not in new or old[path] is not new[path]]
        changed = [path for path in changed if not _is_same(old.get(path, _NOTHING), new.get(path, _NOTHING))]
        if (changed or before[1] != after[1]) and not returned and not tree.has_defaults(after[1]):
            where = f" ({_few(changed)})" if changed else ""
            raise TraceError(
                f"{self.name} changes what the caller passed{where}: that happens to a copy, when the function is"
                " traced, and not at every call",
                advice="Return what is new, or change it outside.",
            )

    def _check_containers(self, before: Sequence[tuple[str, Any]], after: Sequence[tuple[str, Any]], t: Traced) -> bool:
        """Arrays put into lists, dictionaries and objects that the caller passed stay in copies of these: an error
        where the caller does not get them as results, a line in the log otherwise.  Whether there were some."""
        known = {(path, id(leaf)) for path, leaf in before}
        put = {path: leaf for path, leaf in after if isinstance(leaf, Tracer) and (path, id(leaf)) not in known}
        if not put:
            return False
        returned = {node.digest for node in t.program.outputs}
        if lost := [path for path, leaf in put.items() if leaf.node.digest not in returned]:
            raise TraceError(
                f"{self.name} puts arrays into what the caller passed ({_few(lost)}), and does not return them: they"
                " would be lost",
                advice="Return them, or write into the arrays that are there: a[...] = ..., with donate=.",
                source=location.source() if (location := self.state.location_of(put[lost[0]])) else None,
            )
        where = _few(list(put))
        _log.warning("%s puts arrays into what the caller passed (%s): the caller's stays as it was", self.name, where)
        return True

    # ------------------------------------------------------------------------------------------ arguments
    def _value(self, path: str, leaf: Any) -> Any:
        """The tracer (or Python number) that the function gets for one leaf."""
        position = len(self.arguments)
        match leaf:
            case ArraySpec():
                spec = substitute(leaf, self.assumptions.symbols)
                self.arguments.append(Argument(path, spec.shape, spec.dtype))
                node: Node = expr.input_(position, spec.shape, spec.dtype)
                given = is_donated(path, self.donate)
                buffer = Buffer(node, "" if given else path)
                if given:
                    self.buffers.append((position, buffer, node))
                return Tracer(self.state, buffer)
            case ScalarSpec():
                self.arguments.append(Argument(path, (), leaf.dtype, is_scalar=True))
                if leaf.weak is bool and position in self.state.scalars:  # `flag is True`, items[flag]: a flag is one
                    self.assumptions.scalars.add(position)
                if position in self.assumptions.scalars:
                    return leaf.value
                if leaf.weak is int and leaf.dtype != i64:  # a declared one: it holds no others
                    limits = integer_limits(leaf.dtype)
                    self.state.ranges[position] = int(limits.min), int(limits.max)
                return Tracer(self.state, expr.scalar(position, leaf.dtype), weak=leaf.weak)
            case NotPassed():
                leaf.__dict__["is_argument"] = True
        return leaf

    # ------------------------------------------------------------------------------------------ results
    def _traced(self, result: Any, rebinder: Rebinder) -> Traced:
        try:
            found, structure = tree.flatten(result)
        except RecursionError:
            advice = "Return arrays in tuples, lists and dictionaries of a few levels."
            raise TraceError("the result holds itself, or is nested too deeply", advice=advice) from None
        outputs: list[Node] = []
        leaves = [self._leaf(rebinder.restored(read(leaf)), outputs) for _, leaf in found]
        results = len(outputs)
        paths = [path for (path, _), leaf in zip(found, leaves, strict=True) if isinstance(leaf, Output)]
        writes: dict[int, int] = {}
        for position, buffer, node in self.buffers:
            if buffer.node is not node:
                writes[position] = len(outputs)
                paths.append(self.arguments[position].path)
                outputs.append(buffer.node)
        program = self._program(outputs, paths, writes)
        guards = dict.fromkeys([*self.assumptions.guards, *map(self.assumptions.original, self.state.guards)])
        state = self.state
        ranges = tuple([(position, *limits) for position, limits in sorted(state.ranges.items())])
        of_calls = self._scalar_guards(), ranges, tuple(state.captured), tuple(map(plain, state.read))
        outside = rebinder.outside.arrays, rebinder.named
        return Traced(program, structure, tuple(leaves), results, tuple(guards), *of_calls, *outside)

    def _leaf(self, leaf: Any, outputs: list[Node]) -> Any:
        if isinstance(leaf, NotPassed):
            return leaf if leaf.is_argument else leaf.held
        if isinstance(leaf, Masked):
            leaf.settle()
            raise leaf.refusal(leaf.location)
        if isinstance(leaf, Term):
            raise TraceError(
                "the result is an expression over indices, not an array",
                advice="Assign it: C = pf.empty(); C[i, j] = ...; return C.",
                source=leaf.location.source() if leaf.location else None,
            )
        if isinstance(leaf, SymbolicSize) and leaf.is_numpy:
            leaf = lift(self.state, leaf)
        if isinstance(leaf, SymbolicSize):
            return SizeOutput(tuple(f.substitute(self.assumptions.origin) for f in leaf.factors))
        if not isinstance(leaf, Tracer):
            refuse_hidden(leaf)
            return np.array(leaf) if isinstance(leaf, np.ndarray) else leaf
        lift(self.state, leaf)
        outputs.append(leaf.node)
        return Output(len(outputs) - 1, leaf.weak is not None)

    def _scalar_guards(self) -> tuple[ScalarGuard, ...]:
        return tuple(ScalarGuard(k, self.state.scalars[k]) for k in sorted(self.assumptions.scalars))

    def _program(self, outputs: list[Node], paths: list[str], writes: dict[int, int]) -> Program:
        captured = [
            Argument(f"captured[{k}]", tuple(Affine.of(n) for n in a.shape), self.state.capture(a).dtype)
            for k, a in enumerate(self.state.captured)
        ]
        arguments = (*self.arguments, *captured)
        names = naming.unique_names(outputs, self.state.names, arguments)
        used = {n for a in arguments for size in a.shape for n in size.names()}
        facts = [g.expression for g in self.state.guards if isinstance(g, Guard) and not g.modulus]
        facts += [Affine.symbol(n) - 2 for n in sorted(self.state.least) if n in used]
        return Program(
            self.name,
            arguments,
            tuple(outputs),
            naming.output_names(outputs, paths, names, arguments),
            tuple(f for f in facts if f.names() <= used),
            {n: h for n, h in self.state.hints.items() if n in used},
            names,
            self._sources(outputs),
            writes,
            inner=self._inner(outputs),
        )

    def _inner(self, outputs: Sequence[Node]) -> frozenset[bytes]:
        """What library functions made on the way to the values that the user's code received."""
        if not self.state.locations:  # no code of the user's is known
            return frozenset()
        seen = {*self.state.locations, *(o.digest for o in outputs)}
        return frozenset(n.digest for n in expr.topological(outputs) if n.digest not in seen)

    def _sources(self, outputs: Sequence[Node]) -> Mapping[bytes, Source]:
        return naming.Sources(naming.spread_locations(outputs, self.state.written | self.state.locations))


_NOTHING = object()
Leaves = Sequence[tuple[str, Any]]


def _is_same(old: Any, new: Any) -> bool:
    """Whether two leaves, none of which is of the trace, are equal."""
    plain = (bool, int, float, str, bytes, type(None))
    return type(old) is type(new) and isinstance(old, plain) and (old == new or old != old)


def _few(paths: Sequence[str]) -> str:
    return f"{', '.join(paths[:3])}{', ...' if len(paths) > 3 else ''}"


def _cause(error: BaseException) -> BaseException:
    """The error of ours that NumPy hid behind one of its own ("setting an array element with a sequence"), or that says
    where Python's own code does not know what the trace has in place of arrays and sizes."""
    hidden = error.__cause__ or error.__context__
    if isinstance(error, PolyfuseError) or isinstance(hidden, PolyfuseError):
        return error if isinstance(error, PolyfuseError) or hidden is None else hidden
    if type(error) is not TypeError or not re.search(rf"\b({Tracer.__name__}|{SymbolicSize.__name__})\b", str(error)):
        return error
    where = locations.raised_at(error)
    return DTypeError(
        f"an array or a size of the trace has no value yet, and Python's own code asks for one: {error}",
        advice="Write it with operators and functions of NumPy, or do it outside and pass what comes out.",
        source=None if where is None else where.source(),
    )


TABLE_WITH_NAMESPACE: Mapping[str, Callable[..., Any]] = {**TABLE, "namespace": Standard}
