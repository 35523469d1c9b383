"""A plan: what runs for one program, one class of calls and one target, as data.  No device and no arrays needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Union

from polyfuse.bindings import AnyGuard, Binding, Buffer, FromBuffer, FromOutput, Layout
from polyfuse.errors import IndexFault, Source
from polyfuse.expr import Call, Program
from polyfuse.kernel import Kernel
from polyfuse.options import Options
from polyfuse.target import Target

if TYPE_CHECKING:
    from polyfuse.algebra import Formula
    from polyfuse.explain.analysis import CostAnalysis
    from polyfuse.explain.kernels import KernelView
    from polyfuse.schedule import KernelSchedule
    from polyfuse.scop import Scop
    from polyfuse.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: `bindings` has one entry per entry of ``kernel.parameters``.  `schedules`: of the kernel, or
    of each of its members, which run side by side in blocks of their own.  `filled`: the values that it fills with
    neutral elements, for a later launch to merge into; then it computes nothing, and has no schedule."""

    kernel: Kernel
    bindings: tuple[Binding, ...]
    schedules: tuple[KernelSchedule, ...]
    filled: tuple[int, ...] = ()

    @property
    def schedule(self) -> KernelSchedule:
        """The only one, or that of the first member."""
        return self.schedules[0]

    @property
    def roots(self) -> tuple[int, ...]:
        """The values stored."""
        return tuple(root for schedule in self.schedules for root in schedule.roots)

    @property
    def loads(self) -> tuple[int, ...]:
        """The values read from memory, each once."""
        return tuple(dict.fromkeys(value for schedule in self.schedules for value in schedule.loads))


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call into the caller's array library (or a user's kernel): reads `operands`, writes `results`.  `launches`:
    kernels without schedules that do the same in its place.  `digest`: of the node that it computes, by which a program
    knows its line."""

    call: Call
    operands: tuple[Binding, ...]
    results: tuple[Binding, ...]
    launches: tuple[Launch, ...] = ()
    digest: bytes = field(default=b"", compare=False)


Step = Union[Launch, LibraryCall]


@dataclass(frozen=True, slots=True)
class IndexSite:
    """A statement `reader` whose data index into `array` is checked while its kernel runs.  `digest`: of the node that
    the statement computes, by which a program knows its line; `line`: what that was when the plan was made."""

    reader: str
    array: str
    digest: bytes
    line: Source | None = None

    def source(self, program: Program) -> Source | None:
        """The user's line, as `program` was traced this time where it has the node."""
        return program.sources.get(self.digest, self.line)

    def fault(self, program: Program) -> IndexFault:
        """The error for an index out of bounds."""
        return IndexFault(
            f"an index into {self.array} is out of bounds where {self.reader} is computed",
            advice='Use np.clip on the index, np.take(..., mode="clip"), or jit(bounds="clip").',
            source=self.source(program),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Steps in launch order, the buffers between them, and the class of calls for which they hold.

    `layouts`: one per array argument (scalars hold a default `Layout`).  `guards`: all must hold for the sizes of a
    call, else another plan is needed.  `refusals`: for pairs of statement names that the search wanted to fuse, why
    not.  `reuses`: pairs (output, argument) where the output is stored into the memory of the argument.  `sites`: where
    data indices are checked at run time; the k-th (from 1) leaves k in the status word.  `fallback`: why the plan is
    unfused although fusion was asked for: an internal failure.  `spills`: kernels that the assembler found to spill,
    dropped for that or kept all the same; known of compiled plans only.

    Plans are equal when they launch the same kernels for the same program, whatever its values, sizes and kernels are
    called.
    """

    program: Program
    target: Target
    options: Options
    layouts: tuple[Layout, ...]
    guards: tuple[AnyGuard, ...]
    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    refusals: tuple[tuple[str, str, Verdict], ...] = field(default=())
    reuses: tuple[tuple[int, int], ...] = field(default=())
    work: int = 0
    unweighed: int = 0
    sites: tuple[IndexSite, ...] = field(default=())
    fallback: str = ""
    spills: tuple[str, ...] = field(default=())

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Of every kernel, in order."""
        found = (step.launches if isinstance(step, LibraryCall) else (step,) for step in self.steps)
        return tuple(launch for launches in found for launch in launches)

    @property
    def schedules(self) -> tuple[KernelSchedule, ...]:
        """Of every kernel, in launch order, members of one launch one by one."""
        return tuple(schedule for launch in self.launches for schedule in launch.schedules)

    def source(self) -> str:
        """The generated kernels as readable Python in the fragment language (docs/fragments.md)."""
        from polyfuse.codegen.printer import print_module

        return print_module([launch.kernel for launch in self.launches])

    def export(self, path: str | Path) -> None:
        """Write a module that runs the plan with Numba (or numba-cuda) and NumPy alone.

        Raises UnsupportedError for plans with library calls, strided arguments or bfloat16 arrays, and for functions
        that write their arguments.
        """
        import_module("polyfuse.face.export").export(self, path)  # the face alone knows the backends

    @cached_property
    def scop(self) -> Scop:
        """The statements that the kernels' schedules speak of."""
        from polyfuse.scop_builder import build_scop

        return build_scop(self.program)

    @cached_property
    def kernels(self) -> tuple[KernelView, ...]:
        """The kernels in launch order, with their statements, places, prices."""
        from polyfuse.explain.kernels import views

        return views(self)

    def kernel(self, name: str) -> KernelView:
        """The kernel of that name, or the first that computes the value of that name.  Raises KeyError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        for kernel in self.kernels:
            if any(s.name == name for s in kernel.statements):
                return kernel
        raise KeyError(name)

    @property
    def library_calls(self) -> tuple[LibraryCall, ...]:
        return tuple(step for step in self.steps if isinstance(step, LibraryCall))

    def called(self, step: LibraryCall) -> int:
        """The value, by its id in the SCoP, that a library call makes."""
        from polyfuse.scop import OpaqueStatement

        (result,) = step.results
        for statement in self.scop.statements:
            if not isinstance(statement, OpaqueStatement):
                continue
            match result:
                case FromOutput(position=position) if self.scop.outputs[position] == statement.id:
                    return statement.id
                case FromBuffer(name=name) if name == statement.name:
                    return statement.id
        raise KeyError(f"no value of the program is {result}")

    def line_of(self, step: LibraryCall, traced: Program) -> Source | None:
        """The user's line that a library call stands for: where `traced`, which the plan serves, has what it computes,
        its own."""
        return traced.sources.get(step.digest) or self.program.sources.get(step.digest)

    @property
    def hbm_bytes(self) -> Formula:
        """Bytes that all steps move, each array once per kernel: exact, for all sizes."""
        from polyfuse.explain.traffic import formula, step_traffic

        moved = [step_traffic(self, step) for step in self.steps]
        return formula(transfer for t in moved for transfer in (*t.reads, *t.writes))

    @property
    def operations(self) -> Formula:
        """What all kernels compute, each element once per kernel: exact, for all sizes."""
        from polyfuse.explain.traffic import work

        return work(self.scop, [value for kernel in self.kernels for value in kernel.schedule.body])

    def cost_analysis(self) -> CostAnalysis:
        """Bytes, operations, intensity and predicted time, in total and per kernel."""
        from polyfuse.explain.analysis import cost_analysis

        return cost_analysis(self)

    def explain(self) -> str:
        """Per kernel: what is fused, why that is legal, bytes saved, tiles, scopes, predicted time; and what stayed
        apart, with the reason."""
        from polyfuse.explain.report import report

        return report(self)

    def dot(self, *, fused: bool = True) -> str:
        """The graph as DOT text, kernels as frames; before fusion every statement stands alone."""
        from polyfuse.explain.dot import Frame, dot

        views = self.kernels if fused else ()
        return dot(self.scop, [Frame(k.name, k.group.body, k.group.roots) for k in views])

    def why_not(self, first: str, second: str) -> Verdict:
        """Why no kernel computes both values: what keeps the kernels that compute them, and those between, from being
        one; fewer of their values may share one, which ``together=`` asks for.  For one value twice: why it is written
        to memory.  Legal where the plan does what is asked.  Raises OptionError for names that the program does not
        have."""
        from polyfuse.explain.refusal import why_not

        return why_not(self, first, second)

    @cached_property
    def key(self) -> bytes:
        """Structural identity: program, target and decisions, without names, lines, size symbols and trace order."""
        from polyfuse.explain.identity import plan_key

        return plan_key(self)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<plan of {self.program.name} on {self.target.name}: {len(self.steps)} kernels>"

    def __str__(self) -> str:
        from polyfuse.text.printer import plan_text

        return plan_text(self)
