"""Row programs: with `batch_invariant` a row of their results has the same bits among any number of rows.

Whether a row of the results comes of the same row of the arguments alone is learnt from NumPy: it is the same where the
other rows are missing, and where they are NaN or other numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfuse.fuzz.arrays import Array, ArrayValue
from polyfuse.fuzz.carriers import Carrier
from polyfuse.fuzz.generate import wide
from polyfuse.fuzz.program import WIDE, WrittenProgram

CLOSE = 1e-9
"""Relative distance of float64 that sums in another order may have; rows that others take part in are further away."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Arguments that hold `count` rows each, by number; the others are the same for every row."""

    count: int
    arguments: tuple[int, ...]

    @property
    def parts(self) -> tuple[range, ...]:
        """Rows of calls with fewer: one, all but the first, a few in the middle."""
        few = max(1, self.count // 3)
        found = range(1), range(1, self.count), range(few, min(self.count, 2 * few + 1))
        return tuple(dict.fromkeys(found))


def batch_of(program: WrittenProgram) -> Batch | None:
    """The arguments whose rows are those of every result; None where there are none, or rows depend on each other."""
    counts = dict.fromkeys(a.shape[0] for a in program.arrays if len(a.shape) > 1 and a.shape[0] > 1)
    if program.donate:
        return None
    for count in counts:
        alike = [k for k, a in enumerate(program.arrays) if a.shape and a.shape[0] == count]
        matrices = [k for k in alike if len(program.arrays[k].shape) > 1]
        for arguments in dict.fromkeys((tuple(alike), tuple(matrices))):
            batch = Batch(count, arguments)
            if _is_one(program, batch):
                return batch
    return None


def _is_one(program: WrittenProgram, batch: Batch) -> bool:
    arguments = [wide(a) for a in program.arguments()]
    try:
        whole = _called(program, arguments)
        if not all(r.shape[:1] == (batch.count,) for r in whole):
            return False
        for rows in batch.parts:
            for others in (_without, _changed):
                given = [others(a, rows) if k in batch.arguments else a for k, a in enumerate(arguments)]
                kept = slice(None) if others is _without else slice(rows.start, rows.stop)
                found = _called(program, given)
                if not all(_near(a[kept], b[rows.start : rows.stop]) for a, b in zip(found, whole, strict=True)):
                    return False
    except Exception:  # sizes in the text of the program are those of all rows
        return False
    return True


def _called(program: WrittenProgram, arguments: Sequence[Array]) -> list[Array]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = program.function(WIDE)(*[a.copy() for a in arguments])
    return [np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))]


def _without(array: Array, rows: range) -> Array:
    return array[rows.start : rows.stop]


def _changed(array: Array, rows: range) -> Array:
    """NaN in the rows before, other numbers in those behind."""
    found = array.copy()
    own = array[rows.start : rows.stop]
    found = np.flip(found, 0) * 3 + 1 if found.dtype.kind in "iuf" else ~found
    if found.dtype.kind == "f":
        found[: rows.start] = np.nan
    found = found.astype(array.dtype)
    found[rows.start : rows.stop] = own
    return found


def _near(a: Array, b: Array) -> bool:
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        close = np.isfinite(b) & (np.abs(a - b) <= CLOSE * np.abs(b))
        same = (a == b) | ((a != a) & (b != b)) | close
    zeros = (a == 0) & (b == 0)
    return bool(same.all() and (np.signbit(a) == np.signbit(b))[zeros].all())


def put_rows(carrier: Carrier, value: ArrayValue, rows: range) -> Any:
    """Some rows of an array, where they lie in the memory of all."""
    memory, start, strides = value.memory()
    if 0 in value.shape:
        return carrier.put(value)
    return carrier.hold(memory, start + rows.start * strides[0], (len(rows), *value.shape[1:]), strides)


def bits(array: Array) -> Array:
    """The bit patterns of an array, every NaN alike."""
    if array.dtype.kind not in "biu":
        array = np.where(array != array, array.dtype.type(np.nan), array)
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
