"""Assignments, and several of them in one statement of Python's: arrays that follow from each other along one index.

    u[t], v[t] = u[t - 1] + v[t - 1], u[t - 1] - v[t - 1]      ->      one recurrence of the pair (u, v)

As loops would, every point takes all of its values before it writes any, and is done before the next one begins.
Python stores the targets one by one; a value that was written before the targets in front of it were stored belongs to
their statement.  Its points are those at which all accesses are in bounds.  Where no target is read at other points
than its own, their order makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from polyfuse.errors import UnsupportedError
from polyfuse.frontends.index_notation.assignment import Statement, statement
from polyfuse.frontends.index_notation.bounds import Bounds, Space, text_of
from polyfuse.frontends.index_notation.domains import Inference, sites
from polyfuse.frontends.index_notation.evaluation import Evaluation
from polyfuse.frontends.index_notation.order import meets_new_values
from polyfuse.frontends.index_notation.recurrence import direction, in_steps
from polyfuse.frontends.index_notation.terms import Access
from polyfuse.frontends.numpy_like.tracer import Tracer

Reads = list[tuple[Access, int]]
"""Accesses to new values, with the number of the statement that writes them."""


def assign(x: Tracer, index: Any, value: Any, elementwise: frozenset[str]) -> None:
    """``x[index] = value``, where one of them holds index variables.  `elementwise`: the functions of elements.

    Raises IndexingError and its kin.
    """
    made = statement(x, index, value, elementwise)
    statements: list[Statement] = x.state.statements
    every = [*_in_front(made, statements), made]
    in_one_line, take_turns = len({_line(s) for s in every}) == 1, len(every) > 1 and _take_turns(every)
    if take_turns and not in_one_line:
        raise _ambiguous(every)
    if take_turns or (len(every) > 1 and in_one_line and len({_indices(s) for s in every}) == 1):
        _run_together(every)
    else:
        made.run()
    statements.append(made)


def _in_front(made: Statement, statements: Sequence[Statement]) -> list[Statement]:
    """The statements that have run since the value was written, if all their values were written before it.  A value
    that reads nothing tells no time: it was written with those of the targets in front of it in the line."""
    if next(_reads(made), None) is None:
        return _in_line(made, statements)
    written = _written(made, made.target.moment)
    since = list(takewhile(lambda s: s.target.moment > written, reversed(statements)))[::-1]
    if made.target.held is None or any(s.target.held is None or _written(s, 0) > written for s in since):
        return []
    return since


def _in_line(made: Statement, statements: Sequence[Statement]) -> list[Statement]:
    """The statements in front of `made` in its line: an instruction that comes again is another turn of a loop."""
    found: list[Statement] = []
    for earlier in reversed(statements):
        later, at = (found[-1] if found else made).target.location, earlier.target.location
        is_in_front = later is not None and at is not None and at.instruction < later.instruction
        if made.target.held is None or earlier.target.held is None or _line(earlier) != _line(made) or not is_in_front:
            break
        found.append(earlier)
    return found[::-1]


def _written(made: Statement, otherwise: int) -> int:
    """When the last part of the value was; a number has no time."""
    return max((read.moment for read in _reads(made)), default=otherwise)


def _indices(made: Statement) -> tuple[str, ...]:
    return tuple(index.key for index in made.outer())


def _line(made: Statement) -> Any:
    location = made.target.location
    return (location.code, location.source().line) if location else None


def _reads(made: Statement) -> Iterator[Access]:
    return (term for term in made.value.walk() if isinstance(term, Access))


def _before(every: Sequence[Statement]) -> Mapping[int, Any]:
    """What the memory of the targets held before the statements, by its identity."""
    return {id(s.array.buffer): s.target.held for s in reversed(every)}


def _take_turns(every: Sequence[Statement]) -> bool:
    """Whether a statement reads what another one writes, and not at its own point alone."""
    before = _before(every)
    return any(
        read.array.buffer is other.array.buffer
        and read.held is before[id(other.array.buffer)]
        and (read.array.path, *map(str, read.subscripts)) != (other.array.path, *map(str, other.target.subscripts))
        for made in every
        for read in _reads(made)
        for other in every
        if other is not made
    )


def _run_together(every: Sequence[Statement]) -> None:
    """Run statements of one line, over the points at which all their accesses are in bounds; all but the last have
    run one by one, which is undone.  Raises UnsupportedError for what is no recurrence along one index."""
    trace, outer = every[-1].array.state, every[-1].outer()
    for made in every:
        made.check_indices(outer)
        if _indices(made) != tuple(index.key for index in outer):
            raise _refusal(every)
    found = [site for s in every for site in (*sites(s.target, is_target=True), *sites(s.value))]
    inner = [index for s in every for index in s.inner()]
    ranges = Inference(trace, found).run(outer, inner)
    keys = tuple(index.key for index in outer)
    bounds, space = Bounds(trace), Space(ranges)
    _restore(every)
    if not all(trace.decide(ranges[key].extent - 1) for key in keys):
        return  # no instance
    again = _new_values(every, keys, space, bounds)
    evaluation = Evaluation(trace, (*keys, *(i.key for i in inner)), bounds, every[-1].elementwise)
    numbers = {id(read): k for k, made in enumerate(every) for read in _reads(made)}
    if all(numbers[id(read)] == k for read, k in again):  # the others' values are old ones
        for made in every:
            made.write(outer, space, evaluation)
        return
    for made in every:
        bounds.guards_needed(made.target, space, is_target=True)
    along, lags = direction([(read, every[k].target) for read, k in again], keys)
    numbered = {id(read): (lag, k) for (read, k), lag in zip(again, lags, strict=True)}
    targets, values = [s.target for s in every], [s.value for s in every]
    results, ranges = in_steps(targets, values, numbered, along, keys, space, evaluation)
    for made, result in zip(every, results, strict=True):
        made.store(result, keys, ranges, evaluation)


def _new_values(every: Sequence[Statement], keys: Sequence[str], space: Space, bounds: Bounds) -> Reads:
    before = _before(every)
    found: Reads = []
    for read in (read for made in every for read in _reads(made)):
        if read.held is not before.get(id(read.array.buffer)):
            continue
        writers = [k for k, s in enumerate(every) if s.array.buffer is read.array.buffer]
        writers = [k for k in writers if meets_new_values(read, every[k].target, keys, space, bounds)]
        if len(writers) > 1:
            raise _refusal(every)
        found += [(read, k) for k in writers]
    return found


def _restore(every: Sequence[Statement]) -> None:
    """The arrays as they were before the statements."""
    for made in reversed(every):
        made.array.buffer.node = made.target.held
    for made in every:
        made.target = replace(made.target, value=made.array.node, held=made.array.buffer.node)


def _ambiguous(every: Sequence[Statement]) -> UnsupportedError:
    last, others = every[-1].target, ", ".join(text_of(s.target) for s in every[:-1])
    return UnsupportedError(
        f"the value of {text_of(last)} was written before {others} was assigned, and they read each other",
        advice="Assign them in one line, u[t], v[t] = ..., where every point takes turns; or read copies.",
        source=last.location.source() if last.location else None,
    )


def _refusal(every: Sequence[Statement]) -> UnsupportedError:
    targets = ", ".join(text_of(s.target) for s in every)
    location = every[-1].target.location
    return UnsupportedError(
        f"{targets} read new values of each other, and are not written over the same indices, each element once",
        advice="Write one statement for each, which runs for all of its points before the next one begins; or read old "
        "values from copies.",
        source=location.source() if location else None,
    )
