"""A plan: what runs for one program, one class of calls and one target, as data.  No device and no arrays needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from polyfuse.bindings import AnyGuard, Binding, Buffer, Layout
from polyfuse.expr import Call, Program
from polyfuse.kernel import Kernel
from polyfuse.options import Options
from polyfuse.target import Target

if TYPE_CHECKING:
    from polyfuse.schedule import KernelSchedule
    from polyfuse.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: `bindings` has one entry per entry of ``kernel.parameters``."""

    kernel: Kernel
    bindings: tuple[Binding, ...]
    schedule: KernelSchedule


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call into the caller's array library (or a user's kernel): reads `operands`, writes `results`."""

    call: Call
    operands: tuple[Binding, ...]
    results: tuple[Binding, ...]


Step = Union[Launch, LibraryCall]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in launch order, the buffers between them, and the class of calls for which they hold.

    `layouts`: one per array argument (scalars hold a default `Layout`).  `guards`: all must hold for the sizes of a
    call, else another plan is needed.  `refusals`: for pairs of statement names that the search wanted to fuse, why not.
    """

    program: Program
    target: Target
    options: Options
    layouts: tuple[Layout, ...]
    guards: tuple[AnyGuard, ...]
    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    refusals: tuple[tuple[str, str, Verdict], ...] = field(default=())

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(step for step in self.steps if isinstance(step, Launch))
