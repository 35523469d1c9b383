"""A failure as a standalone script, for tests/regressions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import Failure, check
from polyfuse.fuzz.program import RandomProgram, WrittenProgram
from polyfuse.fuzz.ways import Way


def script(program: RandomProgram, failure: Failure) -> str:
    """Python text that fails while the failure is there."""
    arrays = "".join(f"    {_array(a)},\n" for a in program.arrays)
    way = f"    {failure.way!r},\n" if failure.way is not None else ""
    donate = f", donate={program.donate!r}" if program.donate else ""
    title = failure.text.strip().splitlines()[-1].replace('"""', "'''").replace("\\", "/")[:110]
    return (
        f'"""{title}"""\n\n'
        "from polyfuse.fuzz.arrays import ArrayValue\n"
        "from polyfuse.fuzz.script import agree\n"
        + ("from polyfuse.fuzz.ways import Way\n" if way else "")
        + f'\nPROGRAM = """\n{program.written.source}"""\n\n'
        + f"agree(\n    PROGRAM,\n    [\n{_indented(arrays)}    ],\n{way}{_donated(donate)})\n"
    )


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _donated(text: str) -> str:
    return f"    {text.removeprefix(', ')},\n" if text else ""


def _array(array: ArrayValue) -> str:
    extra = ""
    if array.strides is not None:
        extra += f", strides={array.strides!r}"
    if array.offset:
        extra += f", offset={array.offset}"
    return f"ArrayValue({array.shape!r}, {array.dtype!r}, {array.fill!r}, {array.seed}{extra})"


def agree(source: str, arrays: Sequence[ArrayValue], *ways: Way, donate: Sequence[int] = ()) -> None:
    """Fails unless a program agrees with NumPy, in the ways given, or unfused, fused and otherwise."""
    program = WrittenProgram(source.strip() + "\n", tuple(arrays), tuple(donate))
    report = check(program, 0, "interpreter", ways or None)
    if report.refused:
        raise AssertionError(f"refused: {report.refused}")
    if report.failure is not None:
        raise AssertionError(report.failure.text)


def save(program: RandomProgram, failure: Failure, folder: Path) -> Path:
    """The script in `folder`, under a name that its text decides."""
    text = script(program, failure)
    path = folder / f"fuzz_{failure.kind}_{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
