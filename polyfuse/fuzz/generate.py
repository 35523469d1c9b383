"""A random program of a seed: arguments, then lines that NumPy accepts, then outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np

from polyfuse.fuzz.arrays import Array, ArrayValue, c_strides
from polyfuse.fuzz.lines import moving, pointwise, reducing
from polyfuse.fuzz.pool import Pool, Proposal
from polyfuse.fuzz.program import WIDE, Line, RandomProgram, WrittenProgram
from polyfuse.fuzz.shrink import without_dead

PROPOSALS: Mapping[Proposal, float] = {**pointwise.PROPOSALS, **reducing.PROPOSALS, **moving.PROPOSALS}
IN_PLACE: Mapping[Proposal, float] = {**pointwise.PROPOSALS, **reducing.PROPOSALS}
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129)
LONG = (255, 256, 257, 300, 511, 512, 513, 1000, 1023, 1024, 1025, 1500, 2047, 2048, 2049, 3000, 4100)
ELEMENTS = 4200  # of a value
SMALL = 700  # of an argument, in most programs
LINES = {4: 5, 5: 5, 6: 4, 7: 3, 8: 2, 9: 1, 10: 1}  # how often each number is wanted
DTYPES = ("f32",) * 8 + ("f64",) * 3 + ("f16",) * 2 + ("bf16",) * 2 + ("i32",) * 2 + ("i64",) + (
    "i8", "i16", "u8", "u16", "u32", "u64", "bool",
)  # fmt: skip


def random_program(seed: int) -> RandomProgram:
    """The program of a seed, of at least four lines of which one is not pointwise; always the same one."""
    return drawn_program(Random(seed))


def drawn_program(dice: Random) -> RandomProgram:
    """A program of the numbers that `dice` gives, which may be a seed's or what Hypothesis draws and shrinks."""
    while True:
        program = _attempt(dice)
        if program is not None:
            return program


def counts(program: RandomProgram) -> bool:
    """Whether a program is worth counting: at least four operations, at least one of which is not pointwise."""
    return len(program.lines) >= 4 and any(not line.pointwise for line in program.lines)


def _attempt(dice: Random) -> RandomProgram | None:
    theme = dice.choices(list(THEMES), list(THEMES.values()))[0]
    arrays, first = theme(dice)
    donate = tuple(k for k, a in enumerate(arrays) if a.is_plain and dice.random() < 0.08)
    pool = Pool(dice, [wide(a.made()) for a in arrays], set(donate), last=theme is batches)
    lines: list[Line] = []
    (wanted,) = dice.choices(list(LINES), list(LINES.values()))
    for _ in range(6 * wanted):
        if len(lines) == wanted:
            break
        line = first.pop(0)(pool) if first else _proposed(pool)
        if line is not None and _accepted(pool, line, len(arrays)):
            lines.append(line)
    if not lines:
        return None
    program = without_dead(RandomProgram(arrays, tuple(lines), _outputs(dice, len(arrays), lines), donate))
    if not counts(program):
        return None
    try:
        run_wide(program.written)
    except Exception:  # a line that failed half-way had written something: NumPy decides what is a program
        return None
    return program


def _proposed(pool: Pool) -> Line | None:
    table = IN_PLACE if pool.last else PROPOSALS
    (proposal,) = pool.dice.choices(list(table), list(table.values()))
    return proposal(pool)


def _accepted(pool: Pool, line: Line, arguments: int) -> bool:
    """Run the line on the values so far; whether it made a value of reasonable size."""
    names = {f"a{k}": value for k, value in enumerate(pool.values)}
    space: dict[str, Any] = {**WIDE, **names}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("\n".join(line.code(lambda k: f"a{k}", "a")), space)
    except Exception:
        return False
    value = np.asarray(space["a"])
    if value.size > ELEMENTS or value.dtype.kind not in "biuf" or value.ndim > 5 or not value.size:
        return False
    if line.op == "in place" and line.operands[0] not in pool.private:
        return False
    if line.op in ("in place", "update") and value.dtype.kind == "f" and value.min() == value.max():
        return False  # a trace computes with constants in few digits, which nothing bounds where they cancel
    shared = any(np.shares_memory(value, array) for array in pool.frozen) or any(
        np.shares_memory(value, pool.values[k]) for k in range(arguments) if k not in pool.private
    )
    if line.op == "reshape" and not _owner(pool.values[line.operands[0]]).flags.c_contiguous:
        _freeze(pool, value, pool.values[line.operands[0]])
    pool.values.append(value)
    if value.ndim and value.flags.writeable and not shared:
        pool.private.add(len(pool.values) - 1)
    return True


def _owner(array: Array) -> Array:
    """The array whose memory a view shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _freeze(pool: Pool, *arrays: Array) -> None:
    """No line may write what shares memory with these.  NumPy gives results the order of operands in memory, so that
    reshaping copies some of them; for polyfuse every result is in C order, and the new shape a view."""
    pool.private -= {k for k in pool.private if any(np.shares_memory(pool.values[k], array) for array in arrays)}
    pool.frozen += arrays


def _outputs(dice: Random, arguments: int, lines: list[Line]) -> tuple[int, ...]:
    """Values that no line reads, and a few others."""
    last = arguments + len(lines) - 1
    read = {o for line in lines for o in line.operands}
    ends = [k for k in range(arguments, last + 1) if k not in read]
    chosen = dict.fromkeys(ends[-3:] or [last])
    if dice.random() < 0.3:
        chosen[dice.randint(arguments, last)] = None
    return tuple(chosen)


# ---------------------------------------------------------------------------------------------- arguments


Theme = tuple[tuple[ArrayValue, ...], list[Proposal]]


def anything(dice: Random) -> Theme:
    return _arguments(dice), []


def matrices(dice: Random) -> Theme:
    """Products with sizes that instructions of a matrix unit have."""
    m, n, k = (dice.choice((16, 32, 48, 64)) for _ in range(3))
    dtype, fill = dice.choice(("bf16", "bf16", "f16", "f16", "f32", "f64")), dice.choice(("normal", "normal", "whole"))
    shapes = ((m, k), (k, n), (n, k))[: dice.randint(2, 3)]
    return tuple(_placed(dice, shape, dtype, fill) for shape in shapes), [reducing.contraction]


def grids(dice: Random) -> Theme:
    """Windows over windows of a plane."""
    shape = dice.randint(20, 64), dice.randint(20, 64)
    return (_placed(dice, shape, dice.choice(DTYPES[:13]), "normal"),), [reducing.grid_window, reducing.grid_window]


def rows(dice: Random) -> Theme:
    """Normalisations of long rows."""
    n = dice.choice((1024, 1280, 1536, 2048, 2050, 3000, 4096))
    shape = max(1, dice.randint(0, ELEMENTS // n)), n
    dtype = dice.choice(("f32", "f32", "f16", "bf16", "f64"))
    return (_placed(dice, shape, dtype, dice.choice(("normal", "positive"))),), [reducing.row_normalised] * 2


def batches(dice: Random) -> Theme:
    """Rows that lines leave apart, and what meets each of them."""
    m = dice.choice((*SIZES[1:], 200, 300, 520))
    n = dice.choice([n for n in (2, 3, 5, 8, 17, 33, 64, 100) if m * n <= ELEMENTS])
    k = dice.choice([k for k in SIZES[:16] if k * m <= ELEMENTS])
    dtype = dice.choice(("f32", "f32", "f32", "f64", "f16", "bf16", "i32"))
    shapes = ((n, m), dice.choice(((m,), (1, m), (m, k), (n, m), (n, 1))))[: dice.randint(1, 2)]
    first: list[Proposal] = [reducing.row_normalised] if dtype != "i32" else []
    return tuple(_placed(dice, shape, dtype, "normal") for shape in shapes), first


def both_sides(dice: Random) -> Theme:
    """A matrix that meets a vector on either side."""
    m, n = dice.choice(SIZES[8:20]), dice.choice(SIZES[8:20])
    dtype = dice.choice(("f32", "f32", "f64", "f16", "bf16"))
    shapes = (m, n), (n,), (m,)
    return tuple(_placed(dice, shape, dtype, "normal") for shape in shapes), [reducing.both_products] * 2


THEMES: Mapping[Callable[[Random], Theme], float] = {
    anything: 66, matrices: 7, grids: 5, rows: 8, both_sides: 6, batches: 8,
}  # fmt: skip
"""What programs begin with, so that each strategy is reached; they go on with anything."""


def _placed(dice: Random, shape: tuple[int, ...], dtype: str, fill: str) -> ArrayValue:
    return ArrayValue(shape, dtype, fill, dice.randrange(1000), *(_memory(dice, shape) if dice.random() < 0.3 else ()))


def _arguments(dice: Random) -> tuple[ArrayValue, ...]:
    sizes = [dice.choice(SIZES) for _ in range(3)]
    if dice.random() < 0.12:
        sizes[0] = dice.choice(LONG)
    if dice.random() < 0.03:
        sizes[1] = 0
    base = _shape(dice, sizes)
    main = dice.choice(DTYPES)
    fill = dice.choices(["normal", "whole", "positive", "special", "extreme"], [6, 2, 2, 1.5, 0.7])[0]
    found: list[ArrayValue] = []
    for _ in range(dice.randint(1, 3)):
        shape = _related(dice, base) if found else base
        dtype = main if dice.random() < 0.7 else dice.choice(DTYPES)
        strides, offset = _memory(dice, shape)
        found.append(ArrayValue(shape, dtype, fill, dice.randrange(1000), strides, offset))
    return tuple(found)


def _shape(dice: Random, sizes: list[int]) -> tuple[int, ...]:
    limit = ELEMENTS if max(sizes) > 200 else SMALL
    while True:
        rank = dice.choices([0, 1, 2, 3, 4], [0.3, 2, 6, 2.5, 0.7])[0]
        shape = tuple(dice.choice(sizes) for _ in range(rank))
        if int(np.prod(shape)) <= limit:
            return shape
        sizes = [n if dice.random() < 0.6 else dice.choice(SIZES[:12]) for n in sizes]


def _related(dice: Random, base: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that meets `base` somewhere: equal, broadcasting, transposed, a row."""
    kind = dice.random()
    if kind < 0.45:
        return base
    if kind < 0.65:
        return tuple(1 if dice.random() < 0.4 else n for n in base)
    if kind < 0.8:
        return base[dice.randint(0, len(base)) :]
    return tuple(reversed(base))


def _memory(dice: Random, shape: tuple[int, ...]) -> tuple[tuple[int, ...] | None, int]:
    """(strides in elements or None for C order, offset)."""
    if not shape or dice.random() < 0.6:
        return None, dice.choice([0, 0, 0, 0, 1, 2, 3])
    kind = dice.choice(["transposed", "steps", "negative", "broadcast", "overlap", "padded"])
    strides = list(c_strides(shape))
    match kind:
        case "transposed":
            strides = list(reversed(c_strides(tuple(reversed(shape)))))
        case "steps":
            step = dice.choice([2, 3])
            strides = [s * step for s in strides]
        case "negative":
            strides = [-s if dice.random() < 0.6 else s for s in strides]
        case "broadcast":
            strides[dice.randrange(len(strides))] = 0
        case "overlap":
            strides = [dice.choice([1, 1, 2, s]) for s in strides]
        case "padded":
            strides = list(c_strides((*shape[:-1], shape[-1] + dice.randint(1, 3))))
    return tuple(strides), dice.choice([0, 0, 1])


# ---------------------------------------------------------------------------------------------- NumPy


def wide(array: Array) -> Array:
    """A copy in C order with every float in float64; integers and booleans as they are."""
    is_float = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return np.array(array.astype(np.float64) if is_float else array, order="C")


def run_wide(program: WrittenProgram) -> tuple[list[Array], list[Array]]:
    """(results, arguments afterwards) of NumPy, every float in float64.  Raises what the program raises."""
    arguments = [wide(a) for a in program.arguments()]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = program.function(WIDE)(*arguments)
    results = found if isinstance(found, tuple) else (found,)
    return [np.asarray(r) for r in results], arguments
