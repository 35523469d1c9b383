"""The fragment runtime as text, for kernel files that run without polyfuse."""

from __future__ import annotations

import ast
from pathlib import Path

_PACKAGE = "polyfuse.backends.numba_cuda"
_FRAGMENTS = (  # each below its users
    "values slots declare division arithmetic transcendental quotients short elementwise conversion loops positions "
    "monoids reductions threads formats cells clusters dealing combinations scans words carries accesses memory cut "
    "cut_loads copies atomics blocks runtime"
)
_MODULES = ("numba_api", *(f"fragments/{name}" for name in _FRAGMENTS.split()))


def standalone_source(index_bits: int = 32) -> str:
    """The fragment runtime as one module part: it needs only numba-cuda and NumPy, and defines the kernel names.

    With `index_bits` = 64 `thread`, `block` and `slots` are int64, as kernels compiled with 64-bit indices expect.
    """
    here = Path(__file__).parent
    parts = ["from __future__ import annotations\n"]
    for name in _MODULES:
        parts.append(_without_package_imports(here.joinpath(f"{name}.py").read_text(encoding="utf-8")))
    parts.append(f"globals().update(namespace({index_bits}))\n")
    return "\n\n".join(parts)


def _without_package_imports(text: str) -> str:
    """The module without the imports that the one namespace makes needless, its docstring as a comment."""
    tree, lines = ast.parse(text), text.splitlines()
    for node in tree.body:
        ours = isinstance(node, ast.ImportFrom) and str(node.module).startswith((_PACKAGE, "__future__"))
        if ours and isinstance(node, ast.ImportFrom) and any(alias.asname for alias in node.names):
            raise ValueError(f"line {node.lineno}: a renamed import does not survive in one namespace")
        exported = isinstance(node, ast.Assign) and isinstance(t := node.targets[0], ast.Name) and t.id == "__all__"
        if ours or exported:
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    document = tree.body[0]
    assert document.end_lineno is not None
    title = (ast.get_docstring(tree) or "").splitlines()[0]
    lines[: document.end_lineno] = [f"# ---- {title}"] + [""] * (document.end_lineno - 1)
    return _squeezed(lines)


def _squeezed(lines: list[str]) -> str:
    """At most two blank lines in a row."""
    kept: list[str] = []
    for line in lines:
        if line.strip() or kept[-2:] != ["", ""]:
            kept.append(line)
    return "\n".join(kept).strip() + "\n"
