"""One program, every way, against NumPy in float64 with propagated error bounds."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfuse.dtypes import DType, from_numpy
from polyfuse.errors import OptionError, ScheduleError, TraceError
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.fuzz.arrays import Array, ArrayValue, c_strides
from polyfuse.fuzz.bounds import FOLDED, epsilon, evaluate_with_bounds
from polyfuse.fuzz.carriers import Carrier, NoSuchArray, carrier_of
from polyfuse.fuzz.generate import run_wide, wide
from polyfuse.fuzz.program import WrittenProgram
from polyfuse.fuzz.rows import batch_of, bits, put_rows
from polyfuse.fuzz.ways import Planned, Way, alike_way, basic_ways, jitted, other_way
from polyfuse.plan import Plan
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Traced


@dataclass(frozen=True, slots=True)
class Failure:
    """A program that is wrong, or raises what it must not.  `kind`: ``wrong``, ``crash``, ``oracle`` or ``trace``."""

    kind: str
    text: str
    way: Way | None = None

    @property
    def signature(self) -> str:
        """What stays the same while a failure is made smaller."""
        last = self.text.strip().splitlines()[-1] if self.kind == "crash" else ""
        return f"{self.kind} {last.split(':')[0][:60]}"


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one program.  `refused`: the message where polyfuse does not support the program; `wishes`: ways
    that were refused as illegal.  `plans`: per way the plans it ran.  `known`: share of elements whose bound was
    finite."""

    failure: Failure | None = None
    refused: str = ""
    plans: tuple[tuple[str, Plan], ...] = ()
    wishes: tuple[str, ...] = ()
    known: float = 1.0


@dataclass(frozen=True, slots=True)
class Expected:
    """Per result, then per donated argument: its value, its bound, and its dtype."""

    values: tuple[Array, ...]
    bounds: tuple[Array, ...]
    dtypes: tuple[Any, ...]
    donated: tuple[int, ...]

    @property
    def known(self) -> float:
        total = sum(b.size for b in self.bounds)
        return sum(int(np.isfinite(b).sum()) for b in self.bounds) / total if total else 1.0


class Disagreement(Exception):
    """An answer outside its bound."""


def check(program: WrittenProgram, seed: int, backend: str, ways: Sequence[Way] | None = None) -> Report:
    """Run a program unfused, fused and otherwise, or in the `ways` given."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = expectation(program)
        except TraceError as error:
            return Report(refused=f"{type(error).__name__}: {error.message}")
        except Disagreement as error:
            return Report(Failure("trace", str(error)))
        except Exception:
            return Report(Failure("crash", traceback.format_exc()))
        return _run_ways(program, expected, seed, backend, ways)


def _run_ways(
    program: WrittenProgram, expected: Expected, seed: int, backend: str, ways: Sequence[Way] | None
) -> Report:
    plans: list[tuple[str, Plan]] = []
    wishes: list[str] = []
    pending = list(ways if ways is not None else basic_ways(seed, backend))
    while pending:
        way = pending.pop(0)
        try:
            planned = run(program, way, expected, carrier_of(backend, program.arrays))
        except Disagreement as error:
            return Report(Failure("wrong", str(error), way), plans=tuple(plans), known=expected.known)
        except (ScheduleError, OptionError) as error:
            granted = way.name in ("unfused", "fused", "prices", "pointwise", "limited", "atomics")
            if granted or way.is_alike and isinstance(error, ScheduleError):
                return Report(Failure("crash", traceback.format_exc(), way), plans=tuple(plans))
            wishes.append(f"{way.name}: {error.message[:80]}")
            continue
        except TraceError as error:
            return Report(refused=f"{type(error).__name__}: {error.message}")
        except NoSuchArray as error:
            return Report(refused=str(error))
        except Exception:
            return Report(Failure("crash", traceback.format_exc(), way), plans=tuple(plans))
        plans += [(way.name, plan) for plan in planned.plans]
        if ways is None and way.name == "fused" and planned.plans:
            pending.append(other_way(seed, backend, planned.plans[0]))
            if batch_of(program) is not None:
                pending.append(alike_way(seed, backend))
    return Report(plans=tuple(plans), wishes=tuple(wishes), known=expected.known)


# ---------------------------------------------------------------------------------------------- the oracle


def expectation(program: WrittenProgram) -> Expected:
    """What NumPy computes in float64, with the bounds of the traced program.

    Raises Disagreement where the traced program itself computes something else, and what the trace raises.
    """
    arrays = program.arguments()
    traced = NumPyFrontend().trace(program.function(), arrays, {}, program.donated_names)
    values, after = run_wide(program)
    given = [*map(wide, program.arguments()), *map(wide, traced.captured)]
    outputs = evaluate_with_bounds(traced.program, given)
    positions = _positions(traced)
    donated = tuple(sorted(traced.program.writes))
    values += [after[k] for k in donated]
    positions += [traced.program.writes[k] for k in donated]
    bounds: list[Array] = []
    dtypes: list[Any] = []
    for number, (value, position) in enumerate(zip(values, positions, strict=True)):
        if isinstance(position, int):
            found, bound = outputs[position]
            dtype = traced.program.outputs[position].dtype
            apart = _rounded(found, value, dtype)
            compare(found, value, bound + apart, f"result {number} of the trace")
            bounds.append(bound + apart)
            dtypes.append(dtype.numpy)
        else:  # a constant of the trace
            bounds.append(np.zeros(value.shape))
            dtypes.append(None)
    _check_dtypes(program, dtypes, donated)
    return Expected(tuple(values), tuple(bounds), tuple(dtypes), donated)


def _rounded(found: Array, value: Array, dtype: DType) -> Any:
    """How far the trace is from NumPy, where that may come of constants which it computed in the digits of a dtype."""
    if not dtype.is_float or found.shape != value.shape:
        return 0.0
    apart = np.abs(found - value)
    return np.where(apart <= FOLDED * epsilon(dtype) * np.abs(value), apart, 0.0)


def _positions(traced: Traced) -> list[Any]:
    """Per result the number of the output that it is; anything else for constants."""
    names = [_Position(k) for k in range(len(traced.program.outputs))]
    found = traced.rebuild(names, {})
    results = found if isinstance(found, tuple) else (found,)
    return [r.number if isinstance(r, _Position) else r for r in results]


@dataclass(frozen=True, slots=True)
class _Position:
    number: int


def _check_dtypes(program: WrittenProgram, dtypes: Sequence[Any], donated: tuple[int, ...]) -> None:
    """NumPy's own dtypes, where NumPy has all of the program's."""
    if "bf16" in program.source or any(a.dtype == "bf16" for a in program.arrays):
        return
    arguments = program.arguments()
    try:
        found = program.function()(*arguments)
    except Exception:  # float16 in functions that NumPy has for wider floats only
        return
    results = [*(found if isinstance(found, tuple) else (found,)), *(arguments[k] for k in donated)]
    for number, (value, dtype) in enumerate(zip(results, dtypes, strict=True)):
        own = np.asarray(value).dtype
        if dtype is not None and own != dtype:
            raise Disagreement(f"result {number} has dtype {dtype}, NumPy's has {own}")


# ---------------------------------------------------------------------------------------------- answers


def run(program: WrittenProgram, way: Way, expected: Expected, carrier: Carrier) -> Planned:
    """Call the program that way, twice.  Raises Disagreement, and what the call raises."""
    function, planned = jitted(program, way)
    for number in range(2):
        arguments = [carrier.put(a) for a in program.arrays]
        out = _targets(program, way, expected, arguments, carrier)
        found = function(*arguments) if out is None else function(*arguments, out=out)
        results = [*(found if isinstance(found, tuple) else (found,))]
        results += [arguments[k] for k in expected.donated]
        for k, (result, value, bound, dtype) in enumerate(
            zip(map(carrier.get, results), expected.values, expected.bounds, expected.dtypes, strict=True)
        ):
            where = f"result {k} of call {number + 1}, {way.name}"
            if dtype is not None and result.dtype != dtype:
                raise Disagreement(f"{where}: dtype {result.dtype}, expected {dtype}")
            compare(result, value, bound, where)
        if way.out != "onto":
            _unchanged(program, [carrier.get(a) for a in arguments])
        if program.donate or way.out == "onto":
            break
    if way.is_alike:
        _rows_alike(program, function, carrier)
    return planned


def _rows_alike(program: WrittenProgram, function: Jitted, carrier: Carrier) -> None:
    """Rows of calls with all rows and with fewer.  Raises Disagreement where bits differ, and what calls raise."""
    batch = batch_of(program)
    if batch is None:
        return

    def called(rows: range) -> list[Array]:
        given = [
            put_rows(carrier, a, rows) if k in batch.arguments else carrier.put(a) for k, a in enumerate(program.arrays)
        ]
        found = function(*given)
        return [bits(carrier.get(r)) for r in (found if isinstance(found, tuple) else (found,))]

    whole = called(range(batch.count))
    for rows in batch.parts:
        for k, (part, all_of_it) in enumerate(zip(called(rows), whole, strict=True)):
            same = part.shape[0] == len(rows) and part == all_of_it[rows.start : rows.stop]
            if not np.all(same):
                raise Disagreement(
                    f"result {k}: rows {rows.start} to {rows.stop} of {batch.count} alone have other bits"
                )


def _targets(program: WrittenProgram, way: Way, expected: Expected, arguments: Sequence[Any], carrier: Carrier) -> Any:
    """Memory for the results, as `Way.out` says; None for new arrays."""
    count = len(expected.values) - len(expected.donated)
    if way.out == "new" or program.donate or any(d is None for d in expected.dtypes[:count]):
        return None
    found: list[Any] = []
    for value, dtype in zip(expected.values[:count], expected.dtypes[:count], strict=True):
        own = from_numpy(dtype)
        assert own is not None
        onto = [
            argument
            for argument, given in zip(arguments, program.arrays, strict=True)
            if given.strides is None and given.shape == value.shape and given.dtype == own.name and given.shape
        ]
        if way.out == "onto" and onto and not any(onto[0] is t for t in found):
            found.append(onto[0])
            continue
        doubled = tuple(2 * s for s in c_strides(value.shape))
        found.append(carrier.put(ArrayValue(value.shape, own.name, "normal", 1, doubled)))
    return found[0] if len(found) == 1 else tuple(found)


def _unchanged(program: WrittenProgram, arguments: Sequence[Array]) -> None:
    for number, (array, given) in enumerate(zip(arguments, program.arrays, strict=True)):
        before = given.made()
        if number not in program.donate and before.tobytes() != array.tobytes():
            raise Disagreement(f"argument {number} was changed")


def compare(found: Array, value: Array, bound: Array, where: str) -> None:
    """Raises Disagreement where a known element is further from `value` than twice its bound."""
    if found.shape != value.shape:
        raise Disagreement(f"{where}: shape {found.shape}, expected {value.shape}")
    if value.dtype.kind != "f":
        wrong = (found != value) & (bound == 0)
    else:
        answer = found.astype(np.float64)
        same = (answer == value) | ((answer != answer) & (value != value))
        near = np.isfinite(value) & (np.abs(answer - value) <= 2 * bound)
        wrong = ~(same | near | np.isinf(bound))
    if not wrong.any():
        return
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    pick = at if found.ndim else ()
    limit = float(np.asarray(bound)[pick])
    raise Disagreement(
        f"{where}: at {pick} found {found[pick]!r}, expected {value[pick]!r} within {limit:.3g} "
        f"({int(wrong.sum())} of {wrong.size} elements are wrong)"
    )
