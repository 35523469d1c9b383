"""A bound call as one CUDA graph: all its launches for the price of one.

    launch = f.graph(x, w, out=y)      captures; waits for the device once
    launch()                           replays on the caller's current stream and returns y

The graph holds the addresses of its arrays, which stay alive as long as it does.  Intermediates and counters are its
own, so that other calls may run beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyfuse.errors import ArgumentError
from polyfuse.run.ahead import OfThisProcess
from polyfuse.run.bound import BoundCall
from polyfuse.run.faults import BOARD
from polyfuse.run.services import Backend
from polyfuse.run.workspace import Counters

STATUS_PAGES = BOARD.pages  # empty while no plan on a device checks data indices


@dataclass(frozen=True, slots=True)
class GraphCall(OfThisProcess):
    """Call it, without arguments, to replay the graph into the same output arrays, which it returns.

    `memory`: what the captured launches point to beside the arrays of the call.
    """

    bound: BoundCall
    memory: tuple[Any, ...]
    replay: Callable[[int], None]
    stream: Callable[[], int]

    @staticmethod
    def of(bound: BoundCall, backend: Backend, name: str) -> GraphCall:
        """Capture the launches of `bound`, which runs on a device of `backend`.

        Raises ArgumentError for calls that do more than launch kernels, and DeviceError.
        """
        _refuse_more_than_kernels(bound, name)
        record = bound.record
        values = [*bound.values, *map(record.library.pointer, bound.outputs)]
        memory: tuple[Any, ...] = ()
        if record.scratch is not None:
            memory = record.scratch.take(record.library, record.device, record.stream(), Counters())
            values += record.scratch.addresses(record.library, *memory, values)

        def launches(stream: int) -> None:
            for step in record.steps:
                step(values, stream)

        backend.synchronize(record.device.ordinal)  # the counters are zero
        replay = backend.captured(launches, record.device.ordinal)
        return GraphCall(bound, memory, replay, record.stream)

    def __call__(self) -> Any:
        if STATUS_PAGES:
            BOARD.check()
        self.replay(self.stream())
        self.bound.record.tell(self.bound.outputs)
        return self.bound.result


def _refuse_more_than_kernels(bound: BoundCall, name: str) -> None:
    """Only kernels are captured: what an array library does inside a capture is its own affair."""
    record = bound.record
    reason = ""
    if record.needs_objects:
        reason = "calls the array library or copies whole arrays"
    elif record.staged:
        reason = "copies an argument whose elements are misaligned"
    elif bound.copies:
        reason = "copies a result into out=, which is strided or overlaps an argument"
    if reason:
        raise ArgumentError(
            f"{name} {reason}, which is no kernel",
            advice="Capture the whole call with the array library's own graphs, for example torch.cuda.graph.",
        )
