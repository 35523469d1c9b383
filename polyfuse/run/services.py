"""What the dispatcher needs from the other floors, as protocols: a frontend, a planner, back ends, a store.

The public face joins the real ones; tests join their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from polyfuse.bindings import AnyGuard, Layout
from polyfuse.dtypes import DType
from polyfuse.errors import OptionError, Source
from polyfuse.expr import Program, Shape
from polyfuse.options import Options
from polyfuse.plan import Launch, Plan
from polyfuse.run.arrays import Device
from polyfuse.run.failure import Reporter
from polyfuse.target import Target

# ---------------------------------------------------------------------------------------------- frontends


Form = Literal["single", "tuple", "else"]


@dataclass(frozen=True, slots=True)
class Traced:
    """One trace of a function.

    `program.arguments`: the array and scalar leaves of the call in order, then the captured arrays. `shapes`: of the
    array leaves in symbols that the trace had not yet equated or fixed; `guards`, over these symbols, say for which
    sizes the trace holds.  `fixed`: leaves of the call whose Python value the trace depends on; `ranges`: integers,
    with the least and the largest that it holds for.  `captured`: arrays that the function closes over; `read`: those
    whose contents the program depends on; `watched`: those of which `read` says so where they are.  `named`: attributes
    that the function has asked for by names that it computes, and who had none.  `results`: how many of the program's
    outputs the function returns; further ones are arguments written in place.  `form`: whether the result is a
    ``single`` output, a flat ``tuple`` of all of them, or anything ``else``.  `rebuild` makes the result of the outputs
    and the sizes.
    """

    program: Program
    shapes: tuple[Shape, ...]
    results: int
    form: Form
    rebuild: Callable[[Sequence[Any], Mapping[str, int]], Any]
    guards: tuple[AnyGuard, ...] = ()
    fixed: tuple[tuple[int, bool | int | float], ...] = ()
    ranges: tuple[tuple[int, int, int], ...] = ()
    captured: tuple[Any, ...] = ()
    read: tuple[Any, ...] = ()
    watched: tuple[Any, ...] = ()
    named: Mapping[str, Collection[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Static:
    """An argument that is passed on as it is.  A wrapper of its own: what is in it may be another argument as well."""

    value: Any


class Frontend(Protocol):
    """Turns a function and its arguments into a program."""

    def trace(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        donate: Sequence[int | str],
        again: Callable[[], None] = lambda: None,
    ) -> Traced:
        """Call `function` with tracers in place of the arrays, Python numbers and shape specs in its arguments.

        `Static` arguments are passed on as they are.  `donate`: names of arguments that the function may write.
        `again`: called before each run but the first, where sizes have to be assumed.
        """

    def flatten(self, value: Any, prefix: str) -> list[tuple[str, Any]]:
        """Leaves with the paths by which a user reaches them."""

    def is_tracer(self, value: Any) -> bool:
        """Whether `value` stands for an array during a trace."""

    def origin(self, value: Any) -> tuple[str, Source | None] | None:
        """For what is of a trace: what it is in words, and the line that made it.  None for anything else."""

    def is_spec(self, value: Any) -> bool:
        """Whether `value` is a shape specification."""


class Planner(Protocol):
    """Chooses and proves the schedule of a program."""

    def __call__(self, program: Program, target: Target, options: Options, layouts: tuple[Layout, ...]) -> Plan: ...


# ---------------------------------------------------------------------------------------------- back ends


@dataclass(frozen=True, slots=True)
class Bound:
    """One launch at fixed sizes; `blocks`: of all grid axes together, which launch as one.

    `constants`: per kernel parameter its value in every launch, None where it is an address or a number of the call.
    `numbers`: size symbols and strides by name.
    """

    launch: Launch
    blocks: int
    constants: tuple[int | float | None, ...]
    numbers: Mapping[str, int] = field(hash=False)
    device: Device


Launcher = Callable[[list[Any], int], object]  # called with the record's values and the stream


class Compiled(Protocol):
    """One compiled kernel."""

    @property
    def spilled(self) -> int:
        """Bytes that the assembler keeps in memory for want of registers, per thread; 0 where it did not say."""

    def launcher(self, bound: Bound) -> Callable[..., object]:
        """A function of the stream and the arguments that vary, in order, which starts the kernel; it may be called
        from several threads at once."""

    def to_bytes(self) -> bytes:
        """The object code, for the disk cache; empty where there is none."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A step that starts one kernel: `launch` takes the stream and the values at `slots`, the arguments that vary."""

    kernel: Compiled
    bound: Bound
    slots: tuple[int, ...]
    launch: Callable[..., object]

    @staticmethod
    def of(kernel: Compiled, bound: Bound, slots: tuple[int, ...]) -> KernelLaunch:
        return KernelLaunch(kernel, bound, slots, kernel.launcher(bound))

    def __call__(self, values: list[Any], stream: int) -> None:
        self.launch(stream, *[values[k] for k in self.slots])

    def fixed(self, values: Mapping[int, Any]) -> KernelLaunch:
        """The same with these values, by slot, in every launch."""
        slots = iter(self.slots)
        constants = tuple([values.get(next(slots)) if c is None else c for c in self.bound.constants])
        left = tuple([slot for slot in self.slots if slot not in values])
        return KernelLaunch.of(self.kernel, replace(self.bound, constants=constants), left)


class Job(Protocol):
    """Compiling one kernel, as a value that another process of the same package can be given.

    `weight`: how long it takes beside others.  `is_concurrent`: whether several threads get on faster than one.
    `is_begun`: whether this process has compiled one before.  `code`: what it compiles, in which names are numbers:
    jobs of equal code make the same.
    """

    @property
    def weight(self) -> int: ...

    @property
    def code(self) -> Hashable: ...

    @property
    def is_concurrent(self) -> bool: ...

    @property
    def is_begun(self) -> bool: ...

    def run(self) -> bytes:
        """What `Backend.load` reads.  Raises CompileError."""


class Backend(Protocol):
    """Compiles kernels for one kind of target.  The dispatcher calls it, and `Compiled.launcher`, under one lock."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``: where the arrays of its kernels lie."""

    def versions(self) -> tuple[str, ...]:
        """Versions of everything that shapes the object code, for the key of the disk cache."""

    def compile(self, launch: Launch, plan: Plan) -> Compiled:
        """Print and compile one kernel of `plan`.  Raises CompileError."""

    def job(self, launch: Launch, plan: Plan) -> Job | None:
        """Compiling one kernel of `plan`, printed; None where there is nothing to compile."""

    def load(self, launch: Launch, plan: Plan, data: bytes) -> Compiled:
        """The kernel whose `to_bytes` was `data`, which is trusted.  Raises ValueError where it does not load."""

    def allocator(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any] | None:
        """A function that returns a new NumPy array, where the back end has a better one than ``np.empty``."""

    def status_page(self, ordinal: int) -> int:
        """The address of 4096 zero bytes that kernels on any device write and the host reads.  Raises DeviceError where
        kernels run on the host."""

    def synchronize(self, ordinal: int) -> None:
        """Wait until a device is idle.  Raises DeviceError."""

    def captured(self, launches: Callable[[int], None], ordinal: int) -> Callable[[int], None]:
        """A function of a stream that replays what `launches` enqueues on the stream that it is given.  Raises
        DeviceError."""


# ---------------------------------------------------------------------------------------------- store


class Store(Protocol):
    """Plans and object code that outlive the process.  The dispatcher calls it under its lock."""

    def load(self, key: PlanKey, sizes: Mapping[str, int]) -> tuple[Plan, tuple[bytes, ...]] | None:
        """A plan whose guards hold for `sizes`, with the object code of each launch; None for any failure."""

    def save(self, key: PlanKey, plan: Plan, objects: Sequence[bytes]) -> None:
        """Keep a plan.  Failures are logged, never raised."""


@dataclass(frozen=True, slots=True)
class PlanKey:
    """What a plan depends on; `backend` and `versions` are what its object code depends on.  `pairs`: of an output and
    the argument that is its ``out=``."""

    program: Program
    options: Options
    layouts: tuple[Layout, ...]
    target: Target
    backend: str
    versions: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that a jitted function calls.  `backend` and `target` raise DeviceError where there is no device;
    `target` of None is the one that plans without arrays are made for.  `reporter`: writes down internal failures,
    after which the program runs unfused; without one they are raised as they are."""

    frontend: Frontend
    planner: Planner
    backend: Callable[[str], Backend]
    target: Callable[[Device | None], Target]
    store: Store | None = None
    reporter: Reporter | None = None


_OF_KIND = {"cuda": "numba_cuda", "cpu": "numba_cpu"}


def backend_name(options: Options, target: Target) -> str:
    """The back end that runs plans for `target`.  Raises OptionError where the one asked for cannot."""
    usual = _OF_KIND[target.kind]
    if options.backend in (None, usual, "interpreter") or options.backend not in _OF_KIND.values():
        return options.backend or usual
    raise OptionError(
        f"back end {options.backend} cannot run plans for target {target.name}",
        advice=f'Use {usual}, or "interpreter", which runs every plan.',
    )
