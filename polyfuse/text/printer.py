"""The canonical text of a plan: its decisions and nothing else.

    kernel softmax   rows lanes=256 chunks=4 vector=4   grid M   block 256
      m = max(x, axis=1)   register, combine block
      e = exp(d)           register
      y = e / s            global

    call y = sort(x)

    kernel w   pointwise unroll=2 vector=4   grid 16   block 128
      w = a * 2   global
    beside b   pointwise unroll=1 vector=4   grid 1   block 128
      b = c + 1   global

One header line per kernel: name, strategy, its parameters, the grid, threads per block.  One line per value computed,
in canonical order: what it is, where it lives, at which level partial results meet, at how many places it is computed.
A kernel that runs beside the one above it, in the same launch and in blocks of its own, says so in place of `kernel`.
Inputs have a line only where they are staged in shared memory, or wait there in part.  The grid follows from the
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse.explain.kernels import KernelView, StatementView, by_step
from polyfuse.plan import LibraryCall, Plan
from polyfuse.schedule import Scope
from polyfuse.text.bodies import body_text

HIDDEN = ("threads",)  # a parameter that the header shows as the block


def plan_text(plan: Plan) -> str:
    """Blocks of lines, one block per step, an empty line between blocks."""
    blocks = []
    for step, kernels in by_step(plan):
        if isinstance(step, LibraryCall):
            blocks.append(call_text(plan, step))
        elif kernels:  # what fills the results of a kernel follows from it
            blocks.append("\n".join(map(kernel_text, kernels)))
    return "\n\n".join(blocks)


def call_text(plan: Plan, step: LibraryCall) -> str:
    """One library call."""
    value = plan.called(step)
    return f"call {plan.scop.statements[value].name} = {body_text(plan.scop, value)}"


def kernel_text(kernel: KernelView) -> str:
    """One kernel."""
    lines = [header_text(kernel)]
    rows = [(v.name, v.text, v.scope.value) for v in kernel.loads if v.scope in (Scope.SHARED, Scope.SPLIT)]
    rows += [(v.name, v.text, home_text(kernel, v)) for v in kernel.statements]
    return "\n".join([*lines, *_aligned(rows)])


def header_text(kernel: KernelView) -> str:
    words = [kernel.strategy, *(f"{n}={v}" for n, v in kernel.parameters.items() if n not in HIDDEN)]
    parts = [f"{'beside' if kernel.member else 'kernel'} {kernel.name}", " ".join(words), f"grid {kernel.grid_text}"]
    if kernel.threads > 1:
        parts.append(f"block {kernel.threads}")
    return "   ".join(parts)


def home_text(kernel: KernelView, view: StatementView) -> str:
    """``register, combine block, 3 places``."""
    notes = [view.scope.value]
    if view.scope is Scope.GLOBAL and any(box.value == view.value for box in kernel.schedule.shared):
        notes.append("staged")
    if view.combine not in ("", "thread"):
        notes.append(f"combine {view.combine}")
    if view.copies > 1:
        notes.append(f"{view.copies} places")
    return ", ".join(notes)


def _aligned(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """``  name = body   home`` in columns; a body that is very long does not push the others."""
    left = max((len(name) for name, _, _ in rows), default=0)
    shown = [f"{name:<{left}} = {body}" for name, body, _ in rows]
    width = max((len(text) for text in shown if len(text) <= 60), default=0)
    return [f"  {text:<{width}}   {home}" for text, (_, _, home) in zip(shown, rows, strict=True)]
