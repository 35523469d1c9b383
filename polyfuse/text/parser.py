"""From the text of a plan to decisions, not yet checked against a program.

    text       :=  block { blank line block }
    block      :=  header { statement }  |  "call" name "=" body
    header     :=  ( "kernel" | "beside" ) name strategy { parameter "=" integer } [ "grid" ... ] [ "block" integer ]
    statement  :=  name [ "=" body ] [ scope { "," note } ]
    scope      :=  "register" | "register + shared" | "shared" | "global"
    note       :=  "staged" | "combine" level | integer "places"

Runs of spaces count as one; text behind ``#`` is a comment.  The grid follows from the parameters and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from polyfuse.errors import ScheduleError
from polyfuse.schedule import Scope


@dataclass(frozen=True, slots=True)
class StatementText:
    """`body` and `scope` are empty and None where the text leaves them out.  `notes` as written."""

    name: str
    body: str = ""
    scope: Scope | None = None
    notes: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class KernelText:
    """`threads`: the block, 0 where it is not given.  `beside`: in the launch of the kernel before it."""

    name: str
    strategy: str
    parameters: tuple[tuple[str, int], ...]
    threads: int
    statements: tuple[StatementText, ...]
    line: int = 0
    beside: bool = False


@dataclass(frozen=True, slots=True)
class CallText:
    """A library call that makes the value `name`."""

    name: str
    body: str = ""
    line: int = 0


StepText = KernelText | CallText

_HEADER = re.compile(
    r"(?P<kind>kernel|beside) (?P<name>[^\W\d]\w*) (?P<strategy>\w+)(?P<parameters>( \w+=\d+)*)"
    r"( grid .*?)?( block (?P<block>\d+))?"
)
_CALL = re.compile(r"call (?P<name>\w+)( = (?P<body>.*))?")
_STATEMENT = re.compile(
    r"(?P<name>\w+)( = (?P<body>.*?))?"
    r"( (?P<scope>register \+ shared|register|shared|global)(?P<notes>(, ?(staged|combine \w+|\d+ places))*))?"
)


def parse_text(text: str) -> tuple[StepText, ...]:
    """The steps of a text.  Raises ScheduleError naming the line."""
    if not isinstance(text, str):
        raise ScheduleError(f"a schedule is a text, not a {type(text).__name__}", advice="write str(plan) for a plan's")
    steps: list[StepText] = []
    kernel: KernelText | None = None
    statements: list[StatementText] = []

    def finish() -> None:
        if kernel is not None:
            if not statements:
                raise ScheduleError(f"line {kernel.line}: kernel {kernel.name} computes nothing")
            steps.append(replace(kernel, statements=tuple(statements)))
            statements.clear()

    for number, line in _lines(text):
        if line.startswith(("kernel ", "beside ")):
            finish()
            if line.startswith("beside ") and not (steps and isinstance(steps[-1], KernelText)):
                raise ScheduleError(f"line {number}: no kernel stands above {line!r}")
            kernel = _header(line, number)
        elif line.startswith("call "):
            finish()
            kernel = None
            steps.append(_call(line, number))
        elif kernel is None:
            advice = "start with: kernel NAME STRATEGY"
            raise ScheduleError(f"line {number}: {line!r} stands in no kernel", advice=advice)
        else:
            statements.append(_statement(line, number))
            if any(s.name == statements[-1].name for s in statements[:-1]):
                raise ScheduleError(f"line {number}: {kernel.name} has a line for {statements[-1].name} already")
    finish()
    if not steps:
        raise ScheduleError("the text holds no kernel")
    return tuple(steps)


def normal(text: str) -> str:
    """One line with single spaces."""
    return " ".join(text.split())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        content = normal(line.split("#")[0])
        if content:
            yield number, content


def _header(line: str, number: int) -> KernelText:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise ScheduleError(
            f"line {number}: {line!r} is no kernel header",
            advice="write: kernel NAME STRATEGY parameter=4 ... block 256",
        )
    pairs = [part.split("=") for part in found["parameters"].split()]
    parameters = tuple((name, int(value)) for name, value in pairs)
    twice = next((name for k, (name, _) in enumerate(pairs) if name in dict(pairs[:k])), "")
    if twice:
        raise ScheduleError(f"line {number}: {line!r} gives {twice} twice")
    if found["block"] is not None and not int(found["block"]):
        raise ScheduleError(f"line {number}: {line!r} has no threads", advice="leave the block out, or say how many")
    beside = found["kind"] == "beside"
    return KernelText(found["name"], found["strategy"], parameters, int(found["block"] or 0), (), number, beside)


def _call(line: str, number: int) -> CallText:
    found = _CALL.fullmatch(line)
    if found is None:
        raise ScheduleError(f"line {number}: {line!r} is no library call", advice="write: call y = sort(x)")
    return CallText(found["name"], found["body"] or "", number)


def _statement(line: str, number: int) -> StatementText:
    found = _STATEMENT.fullmatch(line)
    if found is None:
        raise ScheduleError(
            f"line {number}: {line!r} is no statement", advice="write: name = what it computes   register"
        )
    scope = Scope(found["scope"]) if found["scope"] else None
    notes = tuple(note.strip() for note in (found["notes"] or "").split(",") if note.strip())
    return StatementText(found["name"], found["body"] or "", scope, notes, number)
