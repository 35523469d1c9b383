"""A prepared call: everything that calls with one key share, so that a call only fills in addresses and launches.

The arguments of all launches live in one list of values, made per call::

    leaves | outputs | buffers | constants | objects (where a step needs arrays rather than addresses)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyfuse.bindings import Buffer
from polyfuse.dtypes import DType
from polyfuse.run.arguments import same
from polyfuse.run.arrays import Device, Library
from polyfuse.run.captures import Watch
from polyfuse.run.services import Launcher
from polyfuse.run.workspace import Counters


@dataclass(frozen=True, slots=True)
class Scratch:
    """Global intermediates of one plan at fixed sizes.

    `offsets`: per buffer, in bytes, into the workspace (`total` bytes) or, where `zeroed`, into the counters.
    """

    allocate: Callable[[], Any]
    buffers: tuple[tuple[Buffer, tuple[int, ...]], ...]
    offsets: tuple[int, ...]
    total: int
    counted: int

    def take(self, library: Library, device: Device, stream: int, counters: Counters) -> tuple[Any, Any]:
        """The workspace and the counters of one call, None where there are none."""
        memory = self.allocate() if self.total else None
        return memory, counters.take(library, device, stream, self.counted) if self.counted else None

    def addresses(self, library: Library, memory: Any, zeroed: Any) -> list[int]:
        base = library.pointer(memory) if memory is not None else 0
        counter = library.pointer(zeroed) if zeroed is not None else 0
        pairs = zip(self.buffers, self.offsets, strict=True)
        return [(counter if buffer.zeroed else base) + offset for (buffer, _), offset in pairs]

    def views(self, library: Library, memory: Any, zeroed: Any) -> list[Any]:
        """The buffers as arrays."""
        triples = zip(self.buffers, self.offsets, strict=True)
        return [library.view(zeroed if b.zeroed else memory, o, shape, b.dtype) for (b, shape), o in triples]


@dataclass(frozen=True, slots=True)
class Output:
    shape: tuple[int, ...]
    dtype: DType
    allocate: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Capture:
    """A captured array: how it is read, and the key that it had when the record was made."""

    read: Callable[[], Any]
    library: Library
    key: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TargetClass:
    """What arrays of ``out=`` with one key have in common.  `low`, `high`: the bytes they reach from their address.
    `is_plain`: contiguous and aligned, so that kernels may write them."""

    low: int
    high: int
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One array of ``out=``."""

    array: Any
    pointer: int
    layout: TargetClass


@dataclass(frozen=True, slots=True)
class Record:
    """One prepared call.

    `library`: allocates outputs.  `stream`: reads the handle of the caller's current stream.  `steps` run in order.
    `nested` makes the caller's structure of the list of outputs, `finish` also the library's scalars where an output
    has rank 0.  `staged`: leaves that are copied first, because no kernel can read them in place.  `fixed`: leaves
    whose value the trace depends on.  `results`: outputs that the function returns; the others are arguments written in
    place.  `is_conditional`: whether `holds` must be asked before the record is used.  `spans`: per array leaf the
    bytes it reaches from its address, for overlap tests.  `direct`: a shorter `run`, where there is one.  `check`: a
    quick test for the arrays of a plain call, all aligned.  `targets`: classes of arrays seen as ``out=``, by output
    and key.
    """

    library: Library
    device: Device
    stream: Callable[[], int]
    outputs: tuple[Output, ...]
    allocators: tuple[Callable[[], Any], ...]
    scratch: Scratch | None
    constants: tuple[int, ...]
    needs_objects: bool
    steps: tuple[Launcher, ...]
    finish: Callable[[list[Any]], Any]
    nested: Callable[[list[Any]], Any]
    staged: tuple[tuple[int, Library], ...]
    captured: tuple[Capture, ...]
    fixed: tuple[tuple[int, Any], ...]
    watch: Watch
    results: int
    is_conditional: bool
    spans: tuple[tuple[int, int, int], ...]  # leaf, lowest byte, highest byte + 1
    counters: Counters
    direct: Callable[[list[Any]], Any] | None = None
    check: Callable[..., bool] | None = None
    targets: dict[tuple[Any, ...], TargetClass] = field(default_factory=dict)

    def holds(self, values: list[Any], leaves: list[Any]) -> bool:
        """Whether values that the key does not hold are as they were; appends the captured arrays."""
        if not self.watch.holds() or not all(same(values[k], value) for k, value in self.fixed):
            return False
        found = [capture.read() for capture in self.captured]
        pointers = []
        for capture, array in zip(self.captured, found, strict=True):
            try:
                key, pointer = capture.library.read(array)
            except (AttributeError, TypeError):  # rebound to something else
                return False
            if key != capture.key:
                return False
            pointers.append(pointer)
        values += pointers
        leaves += found
        return True

    def run(self, values: list[Any], leaves: list[Any]) -> Any:
        """Launch into new outputs and return them as the caller's result.  Consumes both lists."""
        if self.direct is not None:
            return self.direct(values)
        outputs = [allocate() for allocate in self.allocators]
        self.launch(values, leaves, outputs)
        return self.finish(outputs)

    def run_into(self, values: list[Any], leaves: list[Any], targets: Sequence[Target]) -> None:
        """Launch into the caller's arrays.

        A kernel writes a target directly when it is contiguous, aligned, and shares no byte with an argument; otherwise
        it writes a new array, which is then copied.
        """
        outputs, copies = self.place(values, targets)
        self.launch(values, leaves, outputs)
        for target, output in copies:
            self.library.copy(target, output)

    def place(self, values: Sequence[Any], targets: Sequence[Target]) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """What the kernels write, where results go to `targets`; and pairs (target, new array) to be copied after."""
        outputs, copies = [], []
        for k, allocate in enumerate(self.allocators):
            if k < len(targets) and self._is_direct(targets[k], values):
                outputs.append(targets[k].array)
                continue
            outputs.append(allocate())
            if k < len(targets):
                copies.append((targets[k].array, outputs[k]))
        return outputs, copies

    def launch(self, values: list[Any], leaves: list[Any], outputs: list[Any]) -> None:
        """Run the steps; `outputs` are arrays that kernels write.  Extends `values`."""
        library = self.library
        copies = self._stage(values, leaves) if self.staged else None  # alive until every step is queued
        pointer = library.pointer
        for output in outputs:
            values.append(pointer(output))
        stream = self.stream()
        views: list[Any] = []
        memory = zeroed = None  # alive as long as the copies are: the allocators are ordered by the stream
        if self.scratch is not None:
            memory, zeroed = self.scratch.take(library, self.device, stream, self.counters)
            values += self.scratch.addresses(library, memory, zeroed)
            views = self.scratch.views(library, memory, zeroed) if self.needs_objects else []
        values += self.constants
        if self.needs_objects:
            values += [*leaves, *outputs, *views]
        for step in self.steps:
            step(values, stream)
        del copies, memory, zeroed

    def _stage(self, values: list[Any], leaves: list[Any]) -> list[Any]:
        """Contiguous copies of the staged leaves, whose addresses replace theirs."""
        copies = []
        for position, library in self.staged:
            copies.append(library.contiguous(leaves[position]))
            values[position] = library.pointer(copies[-1])
        return copies

    def _is_direct(self, target: Target, values: Sequence[Any]) -> bool:
        """Whether kernels may write `target` in place of a new output."""
        if not target.layout.is_plain:
            return False
        first, last = target.pointer + target.layout.low, target.pointer + target.layout.high
        return not any(first < values[k] + high and values[k] + low < last for k, low, high in self.spans)
