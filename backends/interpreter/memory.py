"""One buffer of a running kernel: flat elements, and the checks on every access to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyfuse.backends.interpreter.faults import KernelFault, UninitialisedRead, Witness
from polyfuse.backends.interpreter.special import Array
from polyfuse.backends.interpreter.tracker import Bools, Clock, Ints, Tracker
from polyfuse.dtypes import DType
from polyfuse.scalars import MONOIDS

ATOMICS: dict[str, Any] = {
    name: {"any": np.logical_or, "all": np.logical_and}.get(name, getattr(np, monoid.function))
    for name, monoid in MONOIDS.items()
    if monoid.state == 1
}

VECTOR_BYTES = 16
"""The widest access of one instruction; wider vectors are split."""

BROKEN_SPAN = "a span is not aligned, only partly accessed or, where it is stored, not whole"

BROKEN_VECTOR = "the elements of a vector are not consecutive, not aligned or only partly accessed"


@dataclass(slots=True)
class Memory:
    """A buffer of `dtype`.

    `data` is flat; `shape` words witnesses (a shared buffer has one copy of it per block in lock step).
    `defined` marks the elements with defined content, None when all have; `tracker` is None where nothing can race.
    """

    name: str
    dtype: DType
    data: npt.NDArray[Any]
    shape: tuple[int, ...]
    threads: int
    defined: Bools | None = None
    tracker: Tracker | None = None

    def load(
        self, element: Ints, active: Bools, unit: Ints, clock: Clock, other: float | int | bool | None
    ) -> Array:
        """Values of `element` where `active`, else `other`, or anything where that is None; all arrays of one shape.
        In the compute dtype."""
        used = element[active]
        self.check(element, active, unit, clock)
        compute = self.dtype.compute.numpy
        result = self._anything(element) if other is None else np.full(element.shape, other, compute)
        with np.errstate(all="ignore"):
            result[active] = self.data[used].astype(compute, copy=False)
        return result

    def _anything(self, element: Ints) -> Array:
        """What no result may depend on: not a number, or the least and the largest of others by turns."""
        compute = self.dtype.compute
        if compute.is_float:
            return np.full(element.shape, np.nan, compute.numpy)
        bits = 8 * compute.itemsize - (compute.kind == "i")
        least, most = -(1 << bits) if compute.kind == "i" else 0, 1 if compute.kind == "b" else (1 << bits) - 1
        ends = np.array([least, most], compute.numpy)
        return np.asarray(ends[element % 2])

    def check(self, element: Ints, active: Bools, unit: Ints, clock: Clock) -> None:
        """That `element` may be read where `active`."""
        used = element[active]
        if self.defined is not None and used.size:
            bad = ~self.defined[used]
            if bad.any():
                first = int(np.argmax(bad))
                sentence = "a read of an element that nothing has written"
                raise self.fault(UninitialisedRead, sentence, int(unit[active][first]), int(used[first]), None)
        if self.tracker is not None:
            self.tracker.read(used, unit[active], clock)

    def arrive(self, element: Ints, content: Array, unit: Ints, clock: Clock) -> None:
        """Writes what a copy by `unit` brings, bit for bit; all arrays flat."""
        if self.tracker is not None:
            self.tracker.write(element, unit, clock)
        self.data[element] = content
        if self.defined is not None:
            self.defined[element] = True

    def store(self, element: Ints, active: Bools, value: Array, unit: Ints, clock: Clock) -> None:
        """Writes `value` where `active`; rounds 16-bit floats to nearest even."""
        used = element[active]
        if self.tracker is not None:
            self.tracker.write(used, unit[active], clock)
        with np.errstate(all="ignore"):
            self.data[used] = value[active].astype(self.dtype.numpy, copy=False)
        if self.defined is not None:
            self.defined[used] = True

    def update(self, monoid: str, element: Ints, active: Bools, value: Array, unit: Ints, clock: Clock) -> None:
        """Atomic updates, in C order."""
        used = element[active]
        if self.defined is not None and used.size and not self.defined[used].all():
            first = int(np.argmax(~self.defined[used]))
            sentence = "an atomic update of an element that nothing has written"
            raise self.fault(UninitialisedRead, sentence, int(unit[active][first]), int(used[first]), None)
        if self.tracker is not None:
            self.tracker.write(used, unit[active], clock, atomic=True)
        with np.errstate(all="ignore"):
            ATOMICS[monoid].at(self.data, used, value[active].astype(self.dtype.numpy, copy=False))

    def fault(self, kind: type[KernelFault], sentence: str, unit: int, element: int, other: int | None) -> KernelFault:
        """The exception for a fault at a flat element."""
        block, thread = divmod(unit, self.threads)
        size = int(np.prod(self.shape, dtype=np.int64))
        index = np.unravel_index(element % max(size, 1), self.shape) if self.shape else ()
        witness = Witness(
            block,
            thread,
            self.name,
            tuple(int(i) for i in index),
            None if other is None or other < 0 else other // self.threads,
            None if other is None or other < 0 else other % self.threads,
        )
        return kind(sentence, witness)


def element_of(index: Sequence[Ints], strides: Sequence[int]) -> Ints:
    """The flat element of an index per dimension."""
    total = np.zeros((), np.int64)
    for entry, stride in zip(index, strides, strict=True):
        total = total + entry * stride
    return total


def broken_vectors(address: Ints, used: Bools, vector: int, itemsize: int, *, cut: bool = False) -> Bools:
    """Where the slots of a vector are not consecutive, aligned, and all accessed or none; where it may be `cut`, some.

    `address` in elements and `used` have one shape ``(blocks, threads, *slots)``; vectors lie along its last slot axis
    of extent above 1.
    """
    axis = max(n for n in range(2, used.ndim) if used.shape[n] > 1)
    split = (*used.shape[:axis], used.shape[axis] // vector, vector, *used.shape[axis + 1 :])
    grouped, masks = address.reshape(split), used.reshape(split)
    first = np.take(grouped, [0], axis + 1)
    lead = (vector, *([1] * (used.ndim - axis - 1)))
    unit = min(VECTOR_BYTES, vector * itemsize)
    wrong = (grouped != first + np.arange(vector).reshape(lead)) | (first * itemsize % unit != 0)
    part = np.False_ if cut else ~masks.all(axis=axis + 1, keepdims=True)
    return np.asarray(masks & (wrong | part)).reshape(used.shape)


def broken_spans(address: Ints, used: Bools, span: int, first: int, whole: bool) -> Bools:
    """Where aligned spans of `span` elements, of whose first one the first slot is number `first`, are not aligned, are
    accessed for some of their slots alone or, where they have to be `whole`, have elements that belong to no slot, or
    to several.

    `address` in elements and `used` have one shape ``(blocks, threads, *slots)``.
    """
    lead = (*used.shape[:2], -1)
    places, masks = address.reshape(lead), used.reshape(lead)
    offsets = first + places - places[..., :1]
    wrong = masks & ((places[..., :1] % span != first) | (offsets != offsets[:1, :1]))
    numbers = offsets[0, 0] // span
    for number in np.unique(numbers):
        slots = np.flatnonzero(numbers == number)
        turns = _turns(offsets[0, 0, slots])
        spans = [slots[turns == turn] for turn in range(max(turns) + 1)]
        for of_span in spans:
            taken = masks[..., of_span]
            wrong[..., of_span] |= taken & ~taken.all(axis=-1, keepdims=True)
            if whole and sorted(offsets[0, 0, of_span] % span) != list(range(span)):
                wrong[..., of_span] |= taken
        if whole:
            several = np.sum([masks[..., of_span].any(axis=-1) for of_span in spans], axis=0) > 1
            wrong[..., slots] |= masks[..., slots] & several[..., None]
    return np.asarray(wrong.reshape(used.shape))


def _turns(elements: Ints) -> Ints:
    """How many slots before each have the same element.  Those that step by sizes have spans of their own, also where a
    size makes their elements those of others, beyond a row or before it."""
    seen: dict[int, int] = {}
    found = []
    for element in elements.tolist():
        found.append(seen.get(element, 0))
        seen[element] = found[-1] + 1
    return np.array(found)
