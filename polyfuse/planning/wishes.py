"""What the user asks of a plan: options that no kernel would follow, those that others imply, and the search with the
wishes for what shares a kernel."""

from __future__ import annotations

from dataclasses import replace

from polyfuse.errors import OptionError, ScheduleError
from polyfuse.expr import Opaque, Program, topological
from polyfuse.grouping.allowance import UNIT
from polyfuse.grouping.search import Grouping, search
from polyfuse.options import Options
from polyfuse.planning.members import Packing
from polyfuse.planning.program_costs import ProgramCosts
from polyfuse.planning.witness import with_witness
from polyfuse.target import Target


def refuse(options: Options, target: Target) -> None:
    """Raise OptionError for an option that kernels of this kind of target would not follow."""
    if options.fastmath and target.kind == "cpu":
        raise OptionError(
            f"fastmath=True is not supported on target {target.name}",
            advice="Its functions are accurate to a few ulp and vectorise as they are; leave the option out.",
        )


NO_REGISTERS = "not used on a CPU, whose compiler keeps on the stack what its registers do not hold"
"""What becomes of `max_registers` there."""
EXACT_CALLS = ("sort", "argsort", "top_k_indices", "searchsorted", "scatter")
"""Functions of libraries that round nothing, or in a fixed order."""


def settled(options: Options, program: Program) -> Options:
    """The options with what `batch_invariant` implies: each operation is a function of its operands' bits, in whatever
    kernel it stands.  Raises OptionError for a library's function that may work differently on fewer rows."""
    if not options.batch_invariant:
        return options
    for node in topological(program.outputs):
        if isinstance(node, Opaque) and node.call.name not in EXACT_CALLS:
            raise OptionError(
                f"batch_invariant=True: {node.call.name} runs in the array library, which promises nothing of the kind",
                advice="Call it outside of the jitted function, or leave the option out.",
                source=program.sources.get(node.digest),
            )
    return replace(options, contract=False, round="every-op", library=False)


def keeps_its_form(options: Options) -> bool:
    """Whether values are what the user steers by name, rounds step by step, or wants alike in every batch."""
    steered = options.together or options.apart or options.tiles or options.strategies or options.max_fusion_size
    return bool(options.fuse != "all" or options.round == "every-op" or options.batch_invariant or steered)


def grouped(costs: ProgramCosts, spent: int = 0) -> Grouping:
    """The cheapest partition that respects the user's options, but for wishes that are illegal; not shaken yet.
    `spent`: work of earlier searches for the same plan."""
    return search(
        costs,
        together=costs.steering.wishes(),
        apart=costs.steering.apart,
        max_size=costs.options.max_fusion_size,
        fusible=costs.steering.fusible,
        effort=0,
        granted=granted(costs.options, spent),
    )


def granted(options: Options, spent: int) -> int | None:
    """What is left of the work that the user allows, if the user says so."""
    seconds = options.planning_seconds
    return None if seconds is None else max(0, int(seconds / UNIT) - spent)


def check_wishes(costs: ProgramCosts, packing: Packing) -> None:
    """Raise ScheduleError for what the user wants together and neither one body nor one launch computes."""
    for wish, verdict in packing.grouping.unmet:
        if wish in costs.steering.together and packing.unmet(wish):
            verdict = with_witness(costs, wish, verdict)
            names = ", ".join(costs.scop.statements[v].name for v in sorted(wish))
            raise ScheduleError(f"{names} cannot share a kernel: {verdict}", verdict=verdict)
