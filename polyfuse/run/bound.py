"""A call bound to its arrays: everything but the launches is done once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.run.record import Record, Target


@dataclass(frozen=True, slots=True)
class BoundCall:
    """Call it, without arguments, to launch again into the same output arrays, which it returns.

    `values` and `leaves` are those of the record; `outputs` are what kernels write, `copies` the targets that an output
    has to be copied to, because they are strided or overlap an argument.
    """

    record: Record
    values: tuple[Any, ...]
    leaves: tuple[Any, ...]
    outputs: tuple[Any, ...]
    copies: tuple[tuple[Any, Any], ...]
    result: Any

    @staticmethod
    def of(
        record: Record, values: list[Any], leaves: list[Any], targets: Sequence[Target] | None, out: Any
    ) -> BoundCall:
        outputs, copies = record.place(values, targets or ())
        result = out if targets is not None else record.nested(list(outputs))
        return BoundCall(record, tuple(values), tuple(leaves), tuple(outputs), tuple(copies), result)

    def __call__(self) -> Any:
        self.record.launch(list(self.values), list(self.leaves), list(self.outputs))
        for target, output in self.copies:
            self.record.library.copy(target, output)
        return self.result
