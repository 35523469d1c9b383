"""Which values of a plan share memory, which are copied, and whether ``out=`` may be an argument."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from polyfuse.bindings import FromArgument
from polyfuse.explain.traffic import Transfer, formula
from polyfuse.planning.sharing import overwriting_verdict, reuse_verdict
from polyfuse.verdict import Hazard

if TYPE_CHECKING:
    from polyfuse.plan import Plan


def memory_lines(plan: Plan) -> Iterator[str]:
    """One line per shared memory, one per copy, then one per result and argument of the same shape and dtype."""
    program, names = plan.program, [plan.scop.statements[v].name for v in plan.scop.outputs]
    for output, argument in plan.reuses:
        yield f"{names[output]} takes the memory of {program.arguments[argument].path}, which was donated"
    for buffer in plan.buffers:
        if isinstance(buffer.within, FromArgument):
            path = program.arguments[buffer.within.position].path
            yield f"{buffer.name} takes the memory of {path}, which was donated"
        elif buffer.within is not None:
            yield f"{buffer.name} takes the memory of {buffer.within.name}"
    yield from _copies(plan, names)
    for output, value in enumerate(plan.scop.outputs):
        if output in program.writes.values() or any(output == o for o, _ in plan.reuses):
            continue
        if plan.scop.outputs.index(value) != output:  # as of the result that it is copied from
            continue
        for position, argument_ in enumerate(program.arguments):
            yield from _over(plan, output, position, names[output], argument_.path)


def _copies(plan: Plan, names: Sequence[str]) -> Iterator[str]:
    """What no kernel stores: a value that is a result already, and new contents of an argument that could not be stored
    where the old ones are."""
    program, of = plan.program, list(plan.scop.outputs)
    written = {output: program.arguments[argument].path for argument, output in program.writes.items()}
    for output, value in enumerate(of):
        first = of.index(value)
        if first != output:
            source, target = (written.get(k, f"result {k + 1}") for k in (first, output))
            yield f"{names[output]} is copied from {source} to {target}: {_moved(plan, output)}"
    for argument, output in program.writes.items():
        if (output, argument) not in plan.reuses and of.index(of[output]) == output:
            verdict = overwriting_verdict(plan, output, argument)
            why = "" if verdict or verdict.hazard is Hazard.BOUNDS else f"; {verdict}"
            copied = f"stored in a temporary, then copied to {written[output]}: {_moved(plan, output)}"
            yield f"{names[output]} is {copied}{why}"


def _moved(plan: Plan, output: int) -> str:
    """The bytes that copying an output moves, which those of kernels do not count."""
    node = plan.program.outputs[output]
    return f"{formula(2 * [Transfer('', node.shape, node.dtype.itemsize)])} bytes besides"


def _over(plan: Plan, output: int, position: int, name: str, path: str) -> Iterator[str]:
    verdict = reuse_verdict(plan, output, position)
    if verdict:
        yield f"out={path}: {name} is stored over {path}, every element after its last read"
    elif verdict.hazard is not Hazard.BOUNDS:
        yield f"out={path}: {name} is stored in a temporary first; {verdict}"
