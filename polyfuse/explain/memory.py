"""Which values of a plan share memory, and whether ``out=`` may be an argument."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from polyfuse.bindings import FromArgument
from polyfuse.planning.sharing import reuse_verdict
from polyfuse.verdict import Hazard

if TYPE_CHECKING:
    from polyfuse.plan import Plan


def memory_lines(plan: Plan) -> Iterator[str]:
    """One line per shared memory, then one per result and argument of the same shape and dtype."""
    program, names = plan.program, [plan.scop.statements[v].name for v in plan.scop.outputs]
    for output, argument in plan.reuses:
        yield f"{names[output]} takes the memory of {program.arguments[argument].path}, which was donated"
    for buffer in plan.buffers:
        if isinstance(buffer.within, FromArgument):
            path = program.arguments[buffer.within.position].path
            yield f"{buffer.name} takes the memory of {path}, which was donated"
        elif buffer.within is not None:
            yield f"{buffer.name} takes the memory of {buffer.within.name}"
    for output in range(len(program.outputs)):
        if output in program.writes.values() or any(output == o for o, _ in plan.reuses):
            continue
        for position, argument_ in enumerate(program.arguments):
            yield from _over(plan, output, position, names[output], argument_.path)


def _over(plan: Plan, output: int, position: int, name: str, path: str) -> Iterator[str]:
    verdict = reuse_verdict(plan, output, position)
    if verdict:
        yield f"out={path}: {name} is stored over {path}, every element after its last read"
    elif verdict.hazard is not Hazard.BOUNDS:
        yield f"out={path}: {name} is stored in a temporary first; {verdict}"
