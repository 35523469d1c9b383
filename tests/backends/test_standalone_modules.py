"""The parts of the fragment runtime that exported kernels carry along; no CUDA package is needed to read them."""

from __future__ import annotations

import ast
from pathlib import Path

from polyfuse.backends.numba_cuda import standalone

FOLDER = Path(standalone.__file__).parent / "fragments"
PREFIX = "polyfuse.backends.numba_cuda.fragments."


def needed(name: str) -> set[str]:
    """Modules beside it that a module imports."""
    tree = ast.parse(FOLDER.joinpath(f"{name}.py").read_text(encoding="utf-8"))
    found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {module.removeprefix(PREFIX) for module in found if module.startswith(PREFIX)}


def test_every_module_of_the_runtime_stands_below_its_users() -> None:
    order = standalone._FRAGMENTS.split()
    for place, name in enumerate(order):
        assert needed(name) <= set(order[:place]), name
