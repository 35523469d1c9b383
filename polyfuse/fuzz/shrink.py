"""A failing program made small: fewer lines, plainer arguments, smaller sizes, the same failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from polyfuse.fuzz.arrays import Array, ArrayValue
from polyfuse.fuzz.program import WIDE, Line, RandomProgram

Fails = Callable[[RandomProgram], bool]


def shrunk(program: RandomProgram, fails: Fails, seconds: float = 60.0) -> RandomProgram:
    """The smallest program found for which `fails` holds, as it does for `program`."""
    end = time.monotonic() + seconds
    best = program
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in _smaller(best):
            if time.monotonic() > end:
                break
            if candidate.size < best.size and fails(candidate):
                best, progress = candidate, True
                break
    return best


def _smaller(program: RandomProgram) -> Iterator[RandomProgram]:
    """Simpler programs, the boldest steps first; not all of them run."""
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield without_dead(replace(program, outputs=(output,)))
    yield without_dead(program)
    first = len(program.arrays)
    for number in reversed(range(len(program.lines))):
        value = first + number
        yield from _cut(program, value)
        for operand in program.lines[number].operands:
            yield _redirected(program, value, operand)
        if value not in _read(program) and len(program.outputs) > 1 and value in program.outputs:
            yield without_dead(replace(program, outputs=tuple(o for o in program.outputs if o != value)))
    for output in program.outputs:
        line = program.lines[output - first] if output >= first else None
        for operand in line.operands if line is not None else ():
            if operand >= first:
                outputs = dict.fromkeys(operand if o == output else o for o in program.outputs)
                yield without_dead(replace(program, outputs=tuple(outputs)))
    yield from _plainer(program)
    if program.donate:
        yield replace(program, donate=())


def _read(program: RandomProgram) -> set[int]:
    return {o for line in program.lines for o in line.operands}


def _plainer(program: RandomProgram) -> Iterator[RandomProgram]:
    """Simpler arguments of smaller sizes."""
    plain = tuple(replace(a, strides=None, offset=0) for a in program.arrays)
    yield replace(program, arrays=plain)
    for n in sorted({n for a in program.arrays for n in a.shape if n > 1}, reverse=True):
        for m in dict.fromkeys((1, 2, 3, 4, n // 2, n - 1)):
            if m < n:
                yield replace(program, arrays=tuple(_resized(a, n, m) for a in program.arrays))
    for k, array in enumerate(program.arrays):
        options = [
            replace(array, strides=None, offset=0),
            replace(array, offset=0),
            replace(array, seed=0),
            replace(array, fill="whole"),
            replace(array, fill="normal"),
            replace(array, dtype="f32"),
        ]
        for option in options:
            if option != array:
                yield replace(program, arrays=(*program.arrays[:k], option, *program.arrays[k + 1 :]))


def _resized(array: ArrayValue, n: int, m: int) -> ArrayValue:
    shape = tuple(m if extent == n else extent for extent in array.shape)
    return array if shape == array.shape else replace(array, shape=shape)


# ---------------------------------------------------------------------------------------------- surgery


def _cut(program: RandomProgram, value: int) -> Iterator[RandomProgram]:
    """An argument in place of a value that was computed."""
    found = _values(program).get(value)
    if found is None:
        return
    kinds = {"b": "bool", "i": str(found.dtype).replace("int", "i"), "u": str(found.dtype).replace("uint", "u")}
    for dtype in ("f32", "f64") if found.dtype.kind == "f" else (kinds[found.dtype.kind],):
        made = ArrayValue(found.shape, dtype, "normal", value)
        first = len(program.arrays)
        move = {old: old + (first <= old < value) for old in range(first + len(program.lines))} | {value: first}
        lines = [line for k, line in enumerate(program.lines, first) if k != value]
        moved = [replace(line, operands=tuple(move[o] for o in line.operands)) for line in lines]
        outputs = tuple(dict.fromkeys(move[o] for o in program.outputs if o != value))
        if outputs:
            yield without_dead(RandomProgram((*program.arrays, made), tuple(moved), outputs, program.donate))


def _values(program: RandomProgram) -> Mapping[int, Array]:
    """Every value in float64, as far as the program runs."""
    every = replace(program, outputs=tuple(range(len(program.arrays), len(program.arrays) + len(program.lines))))
    try:
        with np.errstate(all="ignore"):
            found = every.written.function(WIDE)(*_wide_arguments(every))
    except Exception:  # not a program: nothing to cut
        return {}
    results = found if isinstance(found, tuple) else (found,)
    return {k: np.asarray(v) for k, v in zip(every.outputs, results, strict=True)}


def _wide_arguments(program: RandomProgram) -> list[Array]:
    return [a.astype(np.float64) if a.dtype.kind not in "biu" else a for a in program.written.arguments()]


def _redirected(program: RandomProgram, value: int, operand: int) -> RandomProgram:
    """`operand` read in place of `value`."""
    lines = tuple(
        replace(line, operands=tuple(operand if o == value else o for o in line.operands)) for line in program.lines
    )
    first = len(program.arrays)
    outputs = tuple(dict.fromkeys(operand if o == value and operand >= first else o for o in program.outputs))
    return without_dead(replace(program, lines=lines, outputs=outputs))


def without_dead(program: RandomProgram) -> RandomProgram:
    """Without lines and arguments that no result needs; lines that write in place all stay."""
    first = len(program.arrays)
    needed = set(program.outputs) | set(program.donate)
    for number in reversed(range(len(program.lines))):
        line = program.lines[number]
        if first + number in needed or line.op == "in place":
            needed |= {first + number, *line.operands}
    kept_arrays = [k for k in range(first) if k in needed] or [0]
    kept_lines = [k for k in range(len(program.lines)) if first + k in needed]
    move = {old: new for new, old in enumerate(kept_arrays)}
    move |= {first + old: len(kept_arrays) + new for new, old in enumerate(kept_lines)}
    return RandomProgram(
        tuple(program.arrays[k] for k in kept_arrays),
        tuple(_moved(program.lines[k], move) for k in kept_lines),
        tuple(move[o] for o in program.outputs),
        tuple(move[d] for d in program.donate),
    )


def _moved(line: Line, move: Mapping[int, int]) -> Line:
    return replace(line, operands=tuple(move[o] for o in line.operands))
