"""The sets of values that a text groups into kernels: what each computes, stores and loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyfuse.errors import ScheduleError
from polyfuse.planning.steering import value_ids
from polyfuse.schedule import Scope
from polyfuse.scop import InputStatement, OpaqueStatement, Scop
from polyfuse.text.bodies import body_text
from polyfuse.text.parser import CallText, StatementText, StepText, normal
from polyfuse.verdict import Hazard, illegal


@dataclass(frozen=True, slots=True)
class Sets:
    """Ids in the SCoP."""

    roots: frozenset[int]
    body: frozenset[int]
    loads: frozenset[int]


def grouped(scop: Scop, steps: Sequence[StepText]) -> list[Sets]:
    """One entry per step.  Raises ScheduleError for unknown values, wrong bodies, values without a home, a wrong order
    of kernels, and results that nobody stores."""
    ids = value_ids(scop)
    members = [_members(scop, step, ids) for step in steps]
    stored: dict[int, str] = {}
    found = []
    for step, listed in zip(steps, members, strict=True):
        roots = frozenset(_roots(scop, step, listed, members))
        if not roots:
            raise ScheduleError(f"line {step.line}: {step.name} stores nothing: mark its result as global")
        sets = _closed(scop, step, listed, roots, stored, members, steps)
        for root in sorted(roots):
            if root in stored:
                _refuse(step, Hazard.EFFECT, f"{scop.statements[root].name} is stored by {stored[root]} already")
            stored[root] = step.name
        found.append(sets)
    missing = [o for o in scop.outputs if o not in stored and not isinstance(scop.statements[o], InputStatement)]
    if missing:
        _refuse(steps[-1], Hazard.COVERAGE, f"{scop.statements[missing[0]].name} is a result that no kernel stores")
    return found


Listed = Mapping[int, StatementText]


def _members(scop: Scop, step: StepText, ids: Mapping[str, int]) -> Listed:
    """The computed values of a step, by id."""
    lines = (StatementText(step.name, step.body, line=step.line),) if isinstance(step, CallText) else step.statements
    found: dict[int, StatementText] = {}
    for line in lines:
        if line.name not in ids:
            known = ", ".join(sorted(n for n, v in ids.items() if not isinstance(scop.statements[v], InputStatement)))
            raise ScheduleError(f"line {line.line}: no value is called {line.name}", advice=f"values: {known}")
        value = ids[line.name]
        if normal(line.body) == f"load({line.name})":
            continue  # read from memory, into shared memory: neither computed nor stored here
        _check_body(scop, value, line)
        if isinstance(scop.statements[value], OpaqueStatement) != isinstance(step, CallText):
            raise ScheduleError(f"line {line.line}: {line.name} is a library call, which no kernel contains")
        if not isinstance(scop.statements[value], InputStatement):
            found[value] = line
    return found


def _check_body(scop: Scop, value: int, line: StatementText) -> None:
    wanted = body_text(scop, value)
    if line.body and normal(line.body) != normal(wanted):
        raise ScheduleError(
            f"line {line.line}: the program computes {line.name} = {wanted}, not {line.body}",
            advice="a schedule says where and when, not what: change the function instead",
        )


def _roots(scop: Scop, step: StepText, listed: Listed, members: Sequence[Listed]) -> list[int]:
    """Values marked as global; where the text leaves the scope out, results and values that other kernels read."""
    found = []
    for value, line in listed.items():
        readers = scop.readers.get(value, ())
        elsewhere = any(r in other and value not in other for r in readers for other in members)
        stated = line.scope is Scope.GLOBAL or isinstance(step, CallText)
        if stated or (line.scope is None and (value in scop.outputs or elsewhere)):
            found.append(value)
    return found


def _closed(
    scop: Scop,
    step: StepText,
    listed: Listed,
    roots: frozenset[int],
    stored: Mapping[int, str],
    members: Sequence[Listed],
    steps: Sequence[StepText],
) -> Sets:
    """Walk back from the roots: listed values are computed, others must have been stored by an earlier step."""
    body, loads, todo = set(roots), set[int](), sorted(roots)
    while todo:
        reader = todo.pop()
        for value in scop.operands(reader):
            if value in body or value in loads:
                continue
            if value in listed:
                body.add(value)
                todo.append(value)
            elif value in stored or isinstance(scop.statements[value], InputStatement):
                loads.add(value)
            else:
                _homeless(scop, step, value, reader, members, steps)
    idle = sorted(listed.keys() - body)
    if idle:
        name = scop.statements[idle[0]].name
        raise ScheduleError(f"line {listed[idle[0]].line}: nothing that {step.name} stores needs {name}")
    return Sets(roots, frozenset(body), frozenset(loads))


def _homeless(
    scop: Scop, step: StepText, value: int, reader: int, members: Sequence[Listed], steps: Sequence[StepText]
) -> None:
    name, needs = scop.statements[value].name, scop.statements[reader].name
    for other, listed in zip(steps, members, strict=True):
        if value not in listed:
            continue
        line = listed[value]
        if line.scope is not None and line.scope is not Scope.GLOBAL:
            home = f"{other.name} keeps it in {line.scope.value} scope, where no other kernel sees it"
            _refuse(step, Hazard.SCOPE, f"{needs} needs {name}, but {home}: make it global")
        _refuse(step, Hazard.RAW, f"{needs} needs {name}, which only {other.name}, a later step, computes")
    _refuse(step, Hazard.RAW, f"{needs} needs {name}, which nothing in the text computes")


def _refuse(step: StepText, hazard: Hazard, sentence: str) -> None:
    rules = {Hazard.SCOPE: "scope", Hazard.RAW: "order", Hazard.COVERAGE: "coverage", Hazard.EFFECT: "once"}
    verdict = illegal(hazard, sentence, rule=rules[hazard])
    raise ScheduleError(f"line {step.line}: {step.name} is refused: {sentence}", verdict=verdict)
