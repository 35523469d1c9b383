"""The kernel IR as text, for dumps: the level between places and source.  One line per operation, with every field that
is not what it is by default.

    kernel m_d_s_y: threads 256, grid N, 32-bit indices
      thread digit name=tx stride=1 extent=256
      slot name=c extent=4
      load name=x array=x_in index=[b0, 1024*c + 4*tx + v] other=0 vector=4
      reduce names=[m] monoid=max values=[x] slots=[c, v]
      combine names=[m] monoid=max values=[m] bits=255
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from polyfuse.affine import Affine
from polyfuse.kernel import For, If, Kernel
from polyfuse.terms import Apply, Const, Index, Inside, Ref
from polyfuse.text.sizes import size_text

_NESTED = ("body", "orelse")


def kernel_text(kernel: Kernel) -> str:
    """The launch, its parameters, digits, slots, buffers and operations; members of one launch one by one."""
    grid = " x ".join(map(size_text, kernel.grid))
    lines = [f"kernel {kernel.name}: threads {kernel.threads}, grid {grid}, {kernel.index_bits}-bit indices"]
    declared = (*kernel.parameters, *kernel.digits, *kernel.slots, *kernel.shared, *kernel.cells)
    lines += [f"  {_line(part)}" for part in declared]
    lines += _operations(kernel.body, "  ")
    for member in kernel.members:
        lines.append(f"  from block {size_text(member.first)}, parameters {_value(member.arguments)}")
        lines += [f"  {line}" for line in kernel_text(member.kernel).splitlines()]
    return "\n".join(lines)


def _operations(body: tuple[Any, ...], indent: str) -> Iterator[str]:
    for op in body:
        yield f"{indent}{_line(op)}"
        if isinstance(op, (For, If)):
            yield from _operations(op.body, f"{indent}  ")
        if isinstance(op, If) and op.orelse:
            yield f"{indent}else"
            yield from _operations(op.orelse, f"{indent}  ")


def _line(part: Any) -> str:
    """The kind of an operation or declaration, and its fields."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).lower()
    shown = [f for f in dataclasses.fields(part) if f.name not in _NESTED and getattr(part, f.name) != f.default]
    return " ".join([kind, *(f"{f.name}={_value(getattr(part, f.name))}" for f in shown)])


def _value(value: Any) -> str:
    match value:
        case Affine():
            return size_text(value)
        case Ref():
            return value.name
        case Index():
            return size_text(value.affine)
        case Inside():
            return " and ".join(f"{size_text(w)} >= 0" for w in value.where)
        case Const():
            return repr(value.value)
        case Apply():
            return f"{value.function}({', '.join(map(_value, value.operands))})"
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return str(getattr(value, "name", value))
