"""The runtime as the text of one file, for exported kernels."""

from __future__ import annotations

import ast
from pathlib import Path

_PACKAGE = "polyfuse.backends.numba_cpu.fragments."
# In an order in which every file follows those that it imports.
_FILES = (
    "elements",
    "layouts",
    "types",
    "vectors",
    "operation",
    "conversions",
    "elementwise",
    "division",
    "reals",
    "exponential",
    "trigonometric",
    "hyperbolic",
    "special",
    "frame",
    "memory",
    "monoids",
    "reductions",
    "scans",
    "atomics",
    "blocks",
    "entry",
    "threads",
    "launch",
    "runtime",
)


def standalone_source() -> str:
    """The runtime without its package: needs Numba, llvmlite and NumPy.  It defines what `fragments` exports, and
    runs from a file or from `exec`."""
    folder = Path(__file__).parent
    head: dict[str, None] = {}
    bodies = [_body((folder / f"{name}.py").read_text(encoding="utf-8"), head) for name in _FILES]
    return "\n\n\n".join(["from __future__ import annotations\n\n" + "\n".join(head), *bodies]) + "\n"


def _body(text: str, head: dict[str, None]) -> str:
    """`text` without its docstring and imports; imports from outside the package are added to `head`."""
    lines = text.splitlines()
    drop: set[int] = set()
    for position, node in enumerate(ast.parse(text).body):
        docstring = position == 0 and isinstance(node, ast.Expr)
        if not docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        drop.update(range(node.lineno - 1, (node.end_lineno or node.lineno)))
        inner = isinstance(node, ast.ImportFrom) and (node.module or "").startswith((_PACKAGE[:-1], "__future__"))
        if not docstring and not inner:
            head[ast.unparse(node)] = None
    return "\n".join(line for number, line in enumerate(lines) if number not in drop).strip()
