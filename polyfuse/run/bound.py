"""A call bound to its arrays: everything but the launches is done once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.errors import StalePlanError
from polyfuse.run.ahead import OfThisProcess
from polyfuse.run.captures import Contents
from polyfuse.run.faults import BOARD
from polyfuse.run.recognised import rerun
from polyfuse.run.record import Record, Target

STATUS_PAGES = BOARD.pages  # empty while no plan on a device checks data indices


@dataclass(frozen=True, slots=True)
class BoundCall(OfThisProcess):
    """Call it, without arguments, to launch again into the same output arrays, which it returns.

    `values` and `leaves` are those of the record; `outputs` are what kernels write, `copies` the targets that an output
    has to be copied to, because they are strided or overlap an argument.  `rerun`: all launches written out, where a
    call does nothing else.  `held`: captured arrays that launches read, and of which the program has elements as
    constants besides, with the contents that these are of.
    """

    record: Record
    values: tuple[Any, ...]
    leaves: tuple[Any, ...]
    outputs: tuple[Any, ...]
    copies: tuple[tuple[Any, Any], ...]
    result: Any
    rerun: Callable[[], None] | None
    held: tuple[tuple[Contents, Any], ...] = ()

    @staticmethod
    def of(
        record: Record, values: list[Any], leaves: list[Any], targets: Sequence[Target] | None, out: Any
    ) -> BoundCall:
        record, outputs, copies = record.place(values, leaves, targets or ())
        result = out if targets is not None else record.nested(list(outputs))
        held = () if record.device.kind != "cpu" else record.watch.held()  # a device has copies of its own
        again = None if copies or held else rerun(record, values, outputs)
        return BoundCall(record, tuple(values), tuple(leaves), tuple(outputs), tuple(copies), result, again, held)

    def __call__(self) -> Any:
        if STATUS_PAGES:
            BOARD.check()
        if self.rerun is not None:
            self.rerun()
            return self.result
        if any(read() != contents for read, contents in self.held):
            names = ", ".join(read.shown for read, _ in self.held)
            raise StalePlanError(
                f"{names} changed since the call was bound, and the program has elements of it as constants",
                advice="Bind the call again, or pass as an argument what changes.",
            )
        record = self.record
        record.launch(list(self.values), list(self.leaves), list(self.outputs))
        for target, output in self.copies:
            record.library.copy(target, output)
        record.tell([*self.outputs, *(self.leaves[leaf] for leaf in record.taken)])
        return self.result
