"""A prepared call: everything that calls with one key share, so that a call only fills in addresses and launches.

The arguments of all launches live in one list of values, made per call::

    leaves | outputs | buffers | objects (where a step needs arrays rather than addresses)

A call that looks like an earlier one does not come here: `recognised` writes the same out for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyfuse.bindings import Buffer
from polyfuse.dtypes import DType
from polyfuse.errors import ArgumentError
from polyfuse.run.arguments import same
from polyfuse.run.arrays import Device, Library, share
from polyfuse.run.captures import Watch, of_capture
from polyfuse.run.services import Form, Launcher
from polyfuse.run.workspace import Counters

Pairs = tuple[tuple[int, int], ...]
"""(output, leaf): the output lies in the memory of the leaf."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """Global intermediates of one plan at fixed sizes.

    `offsets`: per buffer, in bytes, into the workspace (`total` bytes) or, where `zeroed`, into the counters.  `hosts`:
    per buffer the leaf in whose memory it lies, -1 for none.
    """

    allocate: Callable[[], Any]
    buffers: tuple[tuple[Buffer, tuple[int, ...]], ...]
    offsets: tuple[int, ...]
    hosts: tuple[int, ...]
    total: int
    counted: int
    viewed: frozenset[int] = frozenset()  # buffers that some step needs as arrays

    def take(self, library: Library, device: Device, stream: int, counters: Counters) -> tuple[Any, Any]:
        """The workspace and the counters of one call, None where there are none."""
        memory = self.allocate() if self.total else None
        return memory, counters.take(library, device, stream, self.counted) if self.counted else None

    def addresses(self, library: Library, memory: Any, zeroed: Any, values: Sequence[Any]) -> list[int]:
        base = library.pointer(memory) if memory is not None else 0
        counter = library.pointer(zeroed) if zeroed is not None else 0
        triples = zip(self.buffers, self.offsets, self.hosts, strict=True)
        return [
            values[host] if host >= 0 else (counter if buffer.zeroed else base) + offset
            for (buffer, _), offset, host in triples
        ]

    def views(self, library: Library, memory: Any, zeroed: Any, leaves: Sequence[Any]) -> list[Any]:
        """The buffers as arrays, None where no step needs one."""
        found: list[Any] = [None] * len(self.buffers)
        for k in self.viewed:
            (buffer, shape), host = self.buffers[k], self.hosts[k]
            source = zeroed if buffer.zeroed else memory
            found[k] = leaves[host] if host >= 0 else library.view(source, self.offsets[k], shape, buffer.dtype)
        return found


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
class Siblings:
    """Records of the same call with other results in its arguments, each made when a call first needs it.

    `make`: the record whose outputs lie in the arguments of these pairs; for none, the one that donates nothing.
    `allows`: whether an output may be stored over an argument.
    """

    make: Callable[[Pairs], Record]
    allows: Callable[[int, int], bool]
    records: dict[Pairs, Record] = field(default_factory=dict)
    allowed: dict[tuple[int, int], bool] = field(default_factory=dict)

    def record(self, pairs: Pairs) -> Record:
        found = self.records.get(pairs)
        if found is None:
            found = self.records[pairs] = self.make(pairs)
        return found

    def may_hold(self, output: int, argument: int) -> bool:
        known = self.allowed.get((output, argument))
        if known is None:
            known = self.allowed[output, argument] = self.allows(output, argument)
        return known


@dataclass(frozen=True, slots=True)
class Record:
    """One prepared call.

    `library`: allocates outputs.  `stream`: reads the handle of the caller's current stream.  `steps` run in order.
    `nested` makes the caller's structure of the list of outputs, `finish` also the library's scalars where an output
    has rank 0; `form` says of which kind the result of `finish` is.  `staged`: leaves that are copied first, because no
    kernel can read them in place.  `fixed`: leaves whose value the trace depends on; `ranges`: integers, with those
    that the trace holds for.  `results`: outputs that the function returns; the others are arguments written in place.
    `is_conditional`: whether `holds` must be asked before the record is used.  `spans`: per array leaf the bytes it
    reaches from its address, for overlap tests.  `recognised`: functions that recognise further calls and run them, by
    what a call looks like; None where there can be none.  `targets`: classes of arrays seen as ``out=``, by output and
    key.  `given`: per output the donated leaf whose memory it takes, -1 for none; `taken`: all leaves whose memory the
    kernels write; `written`: all that the function writes, by path, where some of them are copied to.
    """

    library: Library
    device: Device
    stream: Callable[[], int]
    outputs: tuple[Output, ...]
    allocators: tuple[Callable[[], Any], ...]
    scratch: Scratch | None
    needs_objects: bool
    steps: tuple[Launcher, ...]
    finish: Callable[[list[Any]], Any]
    form: Form
    nested: Callable[[list[Any]], Any]
    staged: tuple[tuple[int, Library], ...]
    captured: tuple[Capture, ...]
    fixed: tuple[tuple[int, Any], ...]
    ranges: tuple[tuple[int, range], ...]
    watch: Watch
    results: int
    is_conditional: bool
    spans: tuple[tuple[int, int, int], ...]  # leaf, lowest byte, highest byte + 1
    counters: Counters
    siblings: Siblings
    given: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()
    written: Mapping[int, str] = field(default_factory=dict)
    recognised: dict[tuple[Any, ...], Callable[..., Any] | None] = field(default_factory=dict)
    targets: dict[tuple[Any, ...], TargetClass] = field(default_factory=dict)

    def holds(self, values: list[Any], leaves: list[Any]) -> bool:
        """Whether values that the key does not hold are as they were; appends the captured arrays."""
        if not self.watch.holds() or not all(same(values[k], value) for k, value in self.fixed):
            return False
        if not all(values[k] in allowed for k, allowed in self.ranges):
            return False
        found = [capture.read() for capture in self.captured]
        pointers = []
        for capture, array in zip(self.captured, found, strict=True):
            try:
                key, pointer = capture.library.read(array)
            except (AttributeError, TypeError):  # rebound to something else
                return False
            except ArgumentError as error:
                raise of_capture(error) from None
            if key != capture.key:
                return False
            pointers.append(pointer)
        values += pointers
        leaves += found
        return True

    def run(self, values: list[Any], leaves: list[Any]) -> Any:
        """Launch into new outputs and return them as the caller's result.  Consumes both lists."""
        if self.written:
            self._check_written(values, leaves)
        if self.taken:
            return self._run_given(values, leaves)
        outputs = [allocate() for allocate in self.allocators]
        self.launch(values, leaves, outputs)
        return self.finish(outputs)

    def _run_given(self, values: list[Any], leaves: list[Any]) -> Any:
        """`run` with results in donated arguments, where these arrays may be written."""
        if not self._may_take(values, leaves):
            return self.siblings.record(()).run(values, leaves)
        pairs = zip(self.allocators, self.given, strict=True)
        outputs = [leaves[leaf] if leaf >= 0 else allocate() for allocate, leaf in pairs]
        taken = [leaves[leaf] for leaf in self.taken]
        self.launch(values, leaves, outputs)
        self.tell(taken)
        return self.finish(outputs)

    def _may_take(self, values: Sequence[Any], leaves: Sequence[Any]) -> bool:
        """Whether the donated leaves share no byte with another leaf and can be written: of one that is copied first,
        kernels would read the copy and write the array, which another order or alignment than the plan's may have."""
        if any(leaf in self.taken for leaf, _ in self.staged):
            return False
        spans = [(leaf, values[leaf] + low, values[leaf] + high) for leaf, low, high in self.spans]
        for leaf, first, last in spans:
            if leaf in self.taken and any(o != leaf and a < last and first < b for o, a, b in spans):
                return False
        return self.library.name != "numpy" or all(leaves[leaf].flags.writeable for leaf in self.taken)

    def _check_written(self, values: Sequence[Any], leaves: Sequence[Any]) -> None:
        """Raise ArgumentError where an array that the function writes is read-only, or shares elements with another."""
        spans = [(leaf, values[leaf] + low, values[leaf] + high) for leaf, low, high in self.spans]
        found = [span for span in spans if span[0] in self.written]
        for k, (leaf, first, last) in enumerate(found):
            path = self.written[leaf]
            if self.library.name == "numpy" and not leaves[leaf].flags.writeable:
                raise ArgumentError(f"{path} is read-only, and the function writes it", advice="Pass a copy.")
            for other, low, high in found[:k]:
                if first < high and low < last and share(*map(self.library.facts, (leaves[leaf], leaves[other]))):
                    problem = f"{self.written[other]} and {path} share memory, and the function writes both"
                    raise ArgumentError(problem, advice="Pass a copy of one of them.")

    def run_into(self, values: list[Any], leaves: list[Any], targets: Sequence[Target]) -> None:
        """Launch into the caller's arrays.

        A kernel writes a target directly when it is contiguous, aligned, and shares no byte with an argument, or is the
        very argument and is proved to be written after the last read; otherwise a new array, which is then copied.
        """
        record, outputs, copies = self.place(values, leaves, targets)
        record.launch(values, leaves, outputs)
        for target, output in copies:
            self.library.copy(target, output)
        self.tell([*(target.array for target in targets), *(leaves[leaf] for leaf in record.taken)])

    def tell(self, written: Sequence[Any]) -> None:
        """Tell the library of arrays of the caller that kernels wrote."""
        if written and self.library.written is not None:
            self.library.written(written)

    def place(
        self, values: Sequence[Any], leaves: Sequence[Any], targets: Sequence[Target]
    ) -> tuple[Record, list[Any], list[tuple[Any, Any]]]:
        """The record to launch, what its kernels write where results go to `targets`, and pairs (target, new array) to
        be copied after."""
        if self.written:
            self._check_written(values, leaves)
        if self.taken and (targets or not self._may_take(values, leaves)):
            return self.siblings.record(()).place(values, leaves, targets)
        outputs, copies, pairs = [], [], list[tuple[int, int]]()
        for k, allocate in enumerate(self.allocators):
            if self.given and self.given[k] >= 0:
                outputs.append(leaves[self.given[k]])
                continue
            over = self._overwritten(k, targets[k], values) if k < len(targets) else None
            if over is not None:
                outputs.append(targets[k].array)
                pairs += [(k, leaf) for leaf in over]
                continue
            outputs.append(allocate())
            if k < len(targets):
                copies.append((targets[k].array, outputs[k]))
        return self.siblings.record(tuple(pairs)) if pairs else self, outputs, copies

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
            values += self.scratch.addresses(library, memory, zeroed, values)
            views = self.scratch.views(library, memory, zeroed, leaves) if self.needs_objects else []
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

    def _overwritten(self, output: int, target: Target, values: Sequence[Any]) -> list[int] | None:
        """The leaves that kernels overwrite when they write `target` in place of a new output; None where they may
        not."""
        if not target.layout.is_plain:
            return None
        first, last = target.pointer + target.layout.low, target.pointer + target.layout.high
        met = [s for s in self.spans if first < values[s[0]] + s[2] and values[s[0]] + s[1] < last]
        for leaf, low, high in met:
            same = target.pointer == values[leaf] and (target.layout.low, target.layout.high) == (low, high)
            if not same or any(leaf == k for k, _ in self.staged) or not self.siblings.may_hold(output, leaf):
                return None
        return [leaf for leaf, _, _ in met]
