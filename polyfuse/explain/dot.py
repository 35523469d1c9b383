"""The graph of a program before and after fusion, as DOT text: needs no graphviz to write, only to draw.

Before, every statement is a box and every edge a tensor in memory.  After, kernels are frames: edges inside a frame
stay on chip, edges between frames are tensors written and read again; a value that several kernels compute appears in
each::

    dot -Tsvg after.dot > after.svg
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polyfuse.scop import InputStatement, OpaqueStatement, Scop
from polyfuse.text.bodies import body_text
from polyfuse.text.sizes import derived_names, size_text

HEAD = """\
  rankdir=TB;
  node [shape=box, style=rounded, fontname="monospace"];
  edge [fontname="monospace", fontsize=10];"""


@dataclass(frozen=True, slots=True)
class Frame:
    """One kernel: what it is called, the values that it computes and those that it stores, by their ids in the SCoP."""

    title: str
    body: frozenset[int]
    roots: frozenset[int]


def dot(scop: Scop, frames: Sequence[Frame] = ()) -> str:
    """DOT text of the program with the kernels `frames`, in launch order; without frames every statement is a kernel.

    Inputs are ellipses, outputs have a double border, recomputed values a dashed one; library calls stand outside the
    frames.  The text depends on the program and the frames alone.
    """
    lines = [f"digraph {_quoted(scop.program.name)} {{", HEAD]
    lines += [f"  v{s.id} [{_label(scop, s.id)}, shape=ellipse];" for s in scop.statements if _is_input(scop, s.id)]
    if frames:
        computed = Counter(value for frame in frames for value in frame.body)
        for number, frame in enumerate(frames):
            again = frozenset(v for v in frame.body - frame.roots if computed[v] > 1)
            lines += _frame(scop, number, frame, again)
        calls = [s.id for s in scop.statements if isinstance(s, OpaqueStatement) and not computed[s.id]]
        lines += [f"  v{value} [{_label(scop, value)}, shape=component{_border(scop, value)}];" for value in calls]
        lines += _edges(scop, frames, calls)
    else:
        values = [s.id for s in scop.statements if not _is_input(scop, s.id)]
        lines += [f"  v{value} [{_label(scop, value)}{_border(scop, value)}];" for value in values]
        lines += [f"  v{source} -> v{value};" for value in values for source in scop.operands(value)]
    return "\n".join([*lines, "}", ""])


def _frame(scop: Scop, number: int, frame: Frame, again: frozenset[int]) -> Iterable[str]:
    """The box of one kernel; `again` are values that another kernel computes too and this one does not store."""
    yield f"  subgraph cluster_{number} {{"
    yield f"    label={_quoted(frame.title)};"
    for value in sorted(frame.body):
        border = ', style="rounded,dashed"' if value in again else _border(scop, value)
        yield f"    k{number}_v{value} [{_label(scop, value)}{border}];"
    yield "  }"


def _edges(scop: Scop, frames: Sequence[Frame], calls: Sequence[int]) -> Iterable[str]:
    """Thin edges inside a frame; bold ones with the tensor's type where a value goes through memory."""
    stored = {root: f"k{number}_v{root}" for number, frame in enumerate(frames) for root in frame.roots}

    def through_memory(source: int, node: str) -> str:
        return f"  {stored.get(source, f'v{source}')} -> {node} [style=bold, label={_quoted(_type(scop, source))}];"

    for number, frame in enumerate(frames):
        for value in sorted(frame.body):
            for source in scop.operands(value):
                if source in frame.body:
                    yield f"  k{number}_v{source} -> k{number}_v{value};"
                else:
                    yield through_memory(source, f"k{number}_v{value}")
    for value in calls:
        yield from (through_memory(source, f"v{value}") for source in scop.operands(value))


def _border(scop: Scop, value: int) -> str:
    return ", peripheries=2" if value in scop.outputs else ""


def _label(scop: Scop, value: int) -> str:
    """``m = max(x, axis=1)`` over the type of the value."""
    statement = scop.statements[value]
    text = statement.name if _is_input(scop, value) else f"{statement.name} = {body_text(scop, value)}"
    return f"label={_quoted(text, _type(scop, value))}"


def _type(scop: Scop, value: int) -> str:
    names = derived_names(scop.program)
    statement = scop.statements[value]
    shape = ", ".join(size_text(extent, names) for extent in statement.shape)
    return f"{'+'.join(d.name for d in statement.dtypes)}[{shape}]"


def _is_input(scop: Scop, value: int) -> bool:
    return isinstance(scop.statements[value], InputStatement)


def _quoted(*lines: str) -> str:
    """A DOT string of centred lines."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
