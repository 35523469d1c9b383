"""The runtime as the text of one file, for exported kernels."""

from __future__ import annotations

import ast
from pathlib import Path

_PACKAGE = "polyfuse."
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
    "places",
    "lane_loops",
    "accesses",
    "transposes",
    "memory",
    "monoids",
    "reductions",
    "contractions",
    "scans",
    "atomics",
    "cells",
    "blocks",
    "object_code",
    "pipeline",
    "entry",
    "threads",
    "launch",
    "runtime",
)


def standalone_source() -> str:
    """The runtime without its package: needs Numba, llvmlite and NumPy.  It defines what `fragments` exports, and
    runs from a file or from `exec`; what follows it in one file must not define its names again."""
    folder = Path(__file__).parent
    imports: set[tuple[str, str]] = set()
    bodies = [_body((folder / f"{name}.py").read_text(encoding="utf-8"), imports) for name in _FILES]
    plain = [f"import {name}" for module, name in sorted(imports) if not module]
    modules = sorted({module for module, _ in imports if module})
    named = [f"from {m} import {', '.join(n for module, n in sorted(imports) if module == m)}" for m in modules]
    return "\n\n\n".join(["from __future__ import annotations\n\n" + "\n".join(plain + named), *bodies]) + "\n"


def _body(text: str, imports: set[tuple[str, str]]) -> str:
    """`text` without its docstring and imports; those from outside the package are added as (module, name)."""
    lines = text.splitlines()
    drop: set[int] = set()
    tree = ast.parse(text)
    for position, node in enumerate(tree.body):
        match node:
            case ast.Import(names=names):
                imports.update(("", ast.unparse(name)) for name in names)
            case ast.ImportFrom(module=module, names=names):
                if not (module or "").startswith((_PACKAGE, "__future__")):
                    imports.update((module or "", ast.unparse(name)) for name in names)
            case ast.Expr() if position == 0:
                pass
            case _:
                continue
        drop.update(range(node.lineno - 1, node.end_lineno or node.lineno))
    for inner in ast.walk(tree):  # what functions import when they first run is defined in this file
        if isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith(_PACKAGE):
            drop.update(range(inner.lineno - 1, inner.end_lineno or inner.lineno))
    return "\n".join(line for number, line in enumerate(lines) if number not in drop).strip()
