"""The parts of the fragment runtime that exported kernels carry along; no CUDA package is needed to read them."""

from __future__ import annotations

import ast
from collections import Counter
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


def bound(name: str) -> set[str]:
    """What a module binds at its top, but for imports."""
    found: set[str] = set()
    for node in ast.parse(FOLDER.joinpath(f"{name}.py").read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=own) | ast.ClassDef(name=own):
                found.add(own)
            case ast.Assign(targets=targets):
                found |= {leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=own)):
                found.add(own)
    return found


def test_no_two_modules_of_the_runtime_bind_a_name() -> None:
    """In one namespace the later one would take the other's place."""
    names = Counter(name for module in standalone._FRAGMENTS.split() for name in bound(module))
    assert not [name for name, count in names.items() if count > 1 and name != "__all__"]
