"""The state of one trace: what is known about sizes, guards met on the way, captured arrays, names and lines.

Every tracer holds its trace, so nothing is ambient.  A trace that must be repeated under a stronger assumption (two
sizes equal, a size or scalar fixed) raises `Retrace`; `tracing.trace` starts again with the assumption as a guard.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd
from types import CodeType
from typing import Any, NoReturn, TypeVar

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine, FloorDiv
from polyfuse.bindings import AnyGuard, Guard, VolumeGuard
from polyfuse.errors import DTypeError, IndexingError, OutOfRangeError, PolyfuseError, ShapeError, TraceError
from polyfuse.expr import Node
from polyfuse.frontends.numpy_like.bounds import highest, is_nonnegative, lowest
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.locations import Location, here
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.watched import REAL, Reads, Watched, in_values, made, plain, read, wrapped
from polyfuse.overlap import share_elements

LARGE = 1 << 20  # the size of a letter without a hint, for Python branches: "large enough to fill the device"
_log = logging.getLogger("polyfuse.trace")

Result = TypeVar("Result")


class Retrace(BaseException):
    """Trace again with `symbols` replaced, with scalar argument `position` fixed, or with real arrays that are made
    while tracing as arrays of the program, where `refused` is the error without.

    Not an `Exception`: user code that catches exceptions must not swallow it.
    """

    def __init__(
        self,
        symbols: Mapping[str, Affine] | None = None,
        guards: tuple[Guard, ...] = (),
        position: int | None = None,
        refused: PolyfuseError | None = None,
    ) -> None:
        super().__init__()
        self.symbols, self.guards, self.position, self.refused = dict(symbols or {}), guards, position, refused


MANY = 256
"""Times that one operation of the user's code runs before a word is said: where loops over cells have a few hundred
statements, planning takes 10 seconds and more (benchmarks/results/planning.json)."""


@dataclass(slots=True)
class Trace:
    """One run of the user's function.  `fresh`: symbols that may be equated or fixed; `least`: their least values.
    `scalars`: actual values of scalar arguments, where known; `ranges`: the least and the largest that this trace
    stands for, where that is not every one.  `functions`: public functions by NumPy's name."""

    functions: Mapping[str, Callable[..., Any]]
    hints: dict[str, int]
    fresh: frozenset[str]
    least: Mapping[str, int]
    arguments: int
    scalars: Mapping[int, bool | int | float] = field(default_factory=dict)
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    spans: dict[tuple[bytes, int], Any] = field(default_factory=dict)  # of numbers that Python computes
    guards: dict[AnyGuard, None] = field(default_factory=dict)
    captured: list[np.ndarray[Any, Any]] = field(default_factory=list)
    read: Reads = field(default_factory=Reads)  # real arrays whose contents the program depends on
    met: list[np.ndarray[Any, Any]] = field(default_factory=list)  # what the public function that runs has captured
    locations: dict[bytes, Location] = field(default_factory=dict)
    written: dict[bytes, Location] = field(default_factory=dict)  # of what stands in arrays after a line that writes
    names: dict[bytes, str] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)  # files whose code has computed something
    inside: bool = False
    repeats: Counter[tuple[CodeType, int]] = field(default_factory=Counter)
    told: bool = False
    statements: list[Any] = field(default_factory=list)  # of index notation, in order
    accesses: int = 0  # of index notation, so far
    stand_ins: dict[tuple[int, str], Any] = field(default_factory=dict)  # of what modules hold, by identity and role
    ended: bool = False
    asked: Retrace | None = None  # the first, which the user's code may have caught
    unanswered: TraceError | None = None  # raised where the user's code asked for a number that only a call knows

    # ------------------------------------------------------------------------------------------ calls
    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Run the public function `name`: the boundary where errors get the user's line and results their names."""
        return self.run(self.functions[name], *args, **kwargs)

    def run(self, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        if self.inside:
            return function(*args, **kwargs)
        if self.ended:
            self.refuse_late_use(*args)
        given = in_values((*args, *kwargs.values()) if kwargs else args)
        if given:
            args, kwargs = plain(args), plain(kwargs)
            self.met.clear()
        self.inside = True
        try:
            result = function(*args, **kwargs)
        except PolyfuseError as error:
            raise located(error) from None
        except (TypeError, ValueError, IndexError, ArithmeticError) as error:
            raise located(_refused(error)) from error
        finally:
            self.inside = False
            if given:
                self._read_of(given)
        self.record(result)
        if type(result) in REAL:  # of arrays that were given a view stays one
            return wrapped(result, given) if given else made(result, self.read)  # type: ignore[no-any-return]
        return result

    def _read_of(self, given: list[Watched]) -> None:
        """Of the real arrays that a public function was given those are read that it has not made arguments of: sizes,
        axes, permutations."""
        for array in given:
            own = plain(array)
            if not any(own is met or share_elements(own, met) for met in self.met):
                read(array)
        self.met.clear()

    def refuse_late_use(self, *values: Any) -> NoReturn:
        """What is left of a trace after its end has no numbers, and none follow from it.  Raises TraceError."""
        raise located(
            TraceError(
                f"a value of a call that has ended is used here; {self.made(*values)}it stands for no numbers",
                advice="Pass arrays as arguments and return results; do not keep them in globals or attributes.",
            )
        )

    def made(self, *values: Any) -> str:
        """Where the first of `values` with a known line was made, as part of a sentence."""
        found = (self.location_of(value) for value in values)
        location = next((at for at in found if at is not None), None)
        if location is None:
            return ""
        source = location.source()
        return f'it was made in file "{source.file}", line {source.line} ({source.text.strip()}), and '

    def location_of(self, value: Any) -> Location | None:
        node = getattr(value, "node", None)
        return None if node is None else self.locations.get(node.digest)

    def record(self, result: Any) -> None:
        """Remember where `result` (a tracer, or a sequence of them) was made and what the user calls it."""
        if not getattr(result, "assigned", isinstance(result, (tuple, list))):
            return
        location = here()
        if location is None:
            return
        self.ran.add(location.code.co_filename)
        self._count(location)
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        for k, value in enumerate(values):
            node = getattr(value, "node", None)
            if node is None:
                continue
            self.locations.setdefault(node.digest, location)
            if isinstance(node, expr.View):  # the sum under keepdims=True is the user's value
                self.locations.setdefault(node.source.digest, location)
            if len(location.targets) == len(values):
                self.call_it(node, location.targets[k])

    def record_write(self, node: Node) -> None:
        """Remember which line left `node` in an array: no value that the user's code receives may show it."""
        location = here()
        if location is not None:
            self.written.setdefault(node.digest, location)

    def _count(self, location: Location) -> None:
        """Say, once and while it happens, that a loop unrolls into more statements than are planned in seconds."""
        at = location.code, location.instruction
        self.repeats[at] += 1
        if self.told or self.repeats[at] < MANY:
            return
        self.told = True
        _log.warning(
            "a line of %s has run %d times while it is traced, because Python loops unroll\n%s\n  Planning takes"
            " seconds for hundreds of statements, minutes for thousands. Write the loop with whole arrays (slices,"
            " np.cumsum, np.einsum), or jit one step and leave the loop outside.",
            location.code.co_name, MANY, location.source(),
        )  # fmt: skip

    def call_it(self, node: Node, name: str) -> None:
        """Name a value; a view also names the value it looks at, which is what becomes a statement."""
        self.names.setdefault(node.digest, name)
        if isinstance(node, expr.View) and not isinstance(node.source, expr.Input):
            self.names.setdefault(node.source.digest, name)

    # ------------------------------------------------------------------------------------------ sizes
    def hint(self, size: Affine) -> int:
        """The typical value of a size."""
        return size.evaluate({n: self.hints.get(n, LARGE) for n in size.names()})

    def decide(self, condition: Affine) -> bool:
        """Whether ``condition >= 0``: known for all sizes, or decided by hint with a guard."""
        if self.known(condition):
            return True
        if self.known(-condition - 1):
            return False
        holds = self.hint(condition) >= 0
        found = condition if holds else -condition - 1
        if self.known(-found):
            self.equal(found, Affine.of(0))  # no other size is left: a number from now on
        self.guards[Guard(found)] = None
        return holds

    def known(self, condition: Affine) -> bool:
        """``condition >= 0`` for all sizes this trace stands for."""
        bounded = condition.names() & self.least.keys()
        shifted = condition.substitute({n: Affine.symbol(n) + (self.least[n] - 1) for n in bounded})
        if is_nonnegative(shifted):
            return True
        return any(
            isinstance(g, Guard) and not g.modulus and is_nonnegative(condition - g.expression) for g in self.guards
        )

    def decide_volume(self, factors: tuple[Affine, ...], limit: int) -> bool:
        """Whether the product of `factors` exceeds `limit`, by hint with a guard."""
        volume = 1
        for factor in factors:
            volume *= self.hint(factor)
        self.guards[VolumeGuard(factors, limit, volume > limit)] = None
        return volume > limit

    def equal(self, a: Affine, b: Affine) -> bool:
        """Whether two sizes are equal.  Sizes that are equal by hint become equal (retrace); letters that a user
        declared stay different."""
        difference = a - b
        if difference.is_constant:
            return difference.constant == 0
        if self.known(difference - 1) or self.known(-difference - 1):
            return False
        if not difference.names() & self.fresh or self.hint(difference) != 0:
            return False
        self.again(Retrace(self._solve(difference)))

    def is_one(self, size: Affine) -> bool:
        """Whether a size is 1, where that decides a shape: a size that is 1 by hint becomes 1 (retrace), of one that is
        not the trace assumes so."""
        if size.is_constant:
            return size.constant == 1
        if self.decide(size - 2) or not self.decide(size - 1):
            return False
        self.equal(size, Affine.of(1))
        return True

    def _solve(self, difference: Affine) -> dict[str, Affine]:
        """A substitution of fresh symbols that makes ``difference`` vanish, given that it does at the hints."""
        for atom, factor in reversed(difference.terms):
            if isinstance(atom, str) and atom in self.fresh and not _occurs_inside(atom, difference):
                rest = Affine(tuple(t for t in difference.terms if t[0] != atom), difference.constant)
                if all(f % factor == 0 for _, f in rest.terms) and rest.constant % factor == 0:
                    return {atom: Affine(tuple((a, -f // factor) for a, f in rest.terms), -rest.constant // factor)}
        symbols = sorted(difference.names())
        if not set(symbols) <= self.fresh:
            raise ShapeError(
                f"sizes {difference} and 0 would have to be equal", advice="Write equal letters for equal sizes."
            )
        return {name: Affine.of(self.hints[name]) for name in symbols}

    def compare(self, a: Affine, b: Affine) -> bool:
        """``a == b`` in the user's Python code: `equal`, else with a guard that keeps them apart."""
        if self.equal(a, b):
            return True
        difference = a - b
        if difference.is_constant or self.known(difference - 1) or self.known(-difference - 1):
            return False
        if self.hint(difference) == 0:
            raise TraceError(
                f"whether the sizes {a} and {b} are equal decides a Python branch, but their hints do not tell",
                advice=f"Write one letter for both, or hints that differ, such as {a}~64.",
            )
        self.decide(difference - 1 if self.hint(difference) > 0 else -difference - 1)
        return False

    def fixed(self, size: Affine) -> int:
        """The size as a Python integer: fixed at its hint by a retrace.  Raises TraceError for declared letters."""
        if size.is_constant:
            return size.constant
        declared = sorted(size.names() - self.fresh)
        if declared:
            raise TraceError(
                f"Python needs the symbolic size {size} as an integer here",
                advice=f"Write the number in the spec in place of {declared[0]}, or use array operations.",
            )
        self.again(Retrace({name: Affine.of(self.hints[name]) for name in size.names()}))

    def pin(self, sizes: Iterable[str]) -> None:
        """Trace anew for the sizes that this call has: somebody caught an error about sizes, and others have none."""
        if open_ := self.fresh.intersection(sizes):
            self.again(Retrace({name: Affine.of(self.hints[name]) for name in open_}))

    def again(self, request: Retrace) -> NoReturn:
        """Raise `request`, and keep it: user code with a bare `except`, or C code that takes every error for one of its
        own (`itertools.islice`), swallows what it does not know."""
        self.asked = self.asked or request
        raise request

    def refuse_write(self, error: PolyfuseError) -> NoReturn:
        """A traced value is written into a real array.  One that the function makes is an array of the program in the
        next attempt; `error` where that was tried, or does not help."""
        if self.read.adopt is not None:
            raise error
        self.again(Retrace(refused=located(error)))

    def divide(self, size: Affine, divisor: int) -> Affine:
        """``size / divisor`` known to be exact, by a retrace that makes a symbol a multiple.  Raises ShapeError."""
        quotient = size // divisor
        if quotient * divisor == size:
            return quotient
        if self.hint(size) % divisor and not (size.names() - self.hints.keys()):
            here = "" if size.is_constant else f" (here {self.hint(size)})"
            raise ShapeError(f"size {size}{here} is no multiple of {divisor}")
        if len(size.terms) == 1 and size.constant == 0 and isinstance(size.terms[0][0], str):
            name, factor = size.terms[0]
            needed = divisor // gcd(factor, divisor)
            if name in self.fresh:
                self.again(Retrace({name: Affine.symbol(f"{name}_{needed}") * needed}, (Guard(size, divisor),)))
        if size.names() <= self.fresh:
            self.fixed(size)
        raise ShapeError(
            f"size {size} is not known to be a multiple of {divisor}",
            advice=f"Write it so in the spec, for example {divisor}*{sorted(size.names())[0]}.",
        )

    # ------------------------------------------------------------------------------------------ values
    def capture(self, array: np.ndarray[Any, Any]) -> Node:
        """A real array met by the function: a hidden argument.  Raises DTypeError for dtypes of no program."""
        array = plain(array)
        try:
            dtype = numpy_dtype(array.dtype)
        except DTypeError as error:  # also where no function of ours is called, as in ``NAMES[x]``
            raise located(error) from None
        self.met.append(array)
        position = next((k for k, known in enumerate(self.captured) if known is array), len(self.captured))
        if position == len(self.captured):
            self.captured.append(array)
        return expr.input_(self.arguments + position, array.shape, dtype)

    def scalar_value(self, node: Node) -> bool | int | float | None:
        """The Python value of a rank-0 node, fixing the scalar arguments and the sizes that it follows from; None when
        it cannot be known."""
        if isinstance(node, expr.Constant):
            return node.value
        if isinstance(node, expr.Iota):
            return self.fixed(node.index)
        found = settled(self, node)
        return None if found is None else found.item()

    def settle(self, node: expr.Scalar) -> bool:
        """Fix a scalar argument by a retrace.  False where it has no value, as in a plan without data."""
        if node.position in self.scalars:
            self.again(Retrace(position=node.position))
        return False

    def confine(self, node: Node, low: int, high: int) -> None:
        """A Python integer has to lie in ``low ... high``.  An argument, a size or an index does so from here on; an
        argument that is beyond, and what else the integer is computed from, is fixed, so that its value is known while
        tracing.  Raises OutOfRangeError for a size or an index that is beyond."""
        match node:
            case expr.Scalar():
                value = self.scalars.get(node.position)
                if value is not None and not low <= value <= high:
                    self.again(Retrace(position=node.position))
                least, most = self.ranges.get(node.position, (low, high))
                self.ranges[node.position] = max(low, least), min(high, most)
            case expr.Iota() | expr.Map() if (factors := _factors(node)) is not None:
                fits = all(self.decide(Affine.of(high) - most) and self.decide(least - low) for least, most in factors)
                ends = [most if self.decide(most + least) else -least for least, most in factors]
                if not fits or (len(ends) > 1 and self.decide_volume(tuple(ends), high)):
                    product = str(ends[0]) if len(ends) == 1 else "*".join(f"({end})" for end in ends)
                    raise _beyond(f"an index up to {product}" if node.shape else f"the size {product}", low, high)
            case expr.Map(shape=shape) if shape:  # computed of indices: exact, for the sizes that this call has
                values = settled(self, node)
                if values is not None and values.size and not low <= values.min() <= values.max() <= high:
                    raise _beyond("an integer computed of an index", low, high)
            case expr.Map():
                for operand in node.operands:
                    if isinstance(operand, (expr.Scalar, expr.Map)):
                        self.scalar_value(operand)


def _beyond(what: str, low: int, high: int) -> OutOfRangeError:
    advice = "Cast the array to a wider dtype."
    return OutOfRangeError(f"{what} is out of bounds for integers of {low} to {high}", advice=advice)


def _factors(node: Node) -> tuple[tuple[Affine, Affine], ...] | None:
    """The sizes and indices that a number is the product of, the least and the most that each is; None for others."""
    match node:
        case expr.Iota(shape=shape, index=index):
            return ((lowest(index, shape), highest(index, shape)),)
        case expr.Map(function="multiply", operands=operands):
            found = [_factors(operand) for operand in operands]
            return None if None in found else tuple(pair for part in found if part is not None for pair in part)
    return None


def _refused(error: Exception) -> TraceError:
    """What Python or NumPy says about arguments that a function cannot take, as an error of ours."""
    kinds: tuple[tuple[type[Exception], type[TraceError]], ...] = (
        (TypeError, DTypeError),
        (OverflowError, OutOfRangeError),
        (IndexError, IndexingError),
    )
    kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), ShapeError)
    found = re.sub(r"^\w+\(\) ", "", str(error))  # of Python's own words but for the name of a function of ours
    return kind(f"these arguments are not supported here: {found}", advice="Compare them with NumPy's documentation.")


def located(error: PolyfuseError) -> PolyfuseError:
    """`error` with the user's line, if it has none yet."""
    location = here() if error.source is None else None
    if location is None:
        return error
    return type(error)(error.message, advice=error.advice, source=location.source())


def _occurs_inside(name: str, expression: Affine) -> bool:
    return any(isinstance(atom, FloorDiv) and name in atom.numerator.names() for atom, _ in expression.terms)
