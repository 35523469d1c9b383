"""Imports form floors: who may import what, and how much `import polyfuse` may cost."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FACE = {"polyfuse", "polyfuse.__main__", "polyfuse.api"}  # with polyfuse.face: joins core, frontends and backends
FLOORS = (  # from below; a room (a module or folder of the package) imports from its own floor and from lower ones
    {
        *("affine", "attributes", "bindings", "dtypes", "errors", "options", "scalars", "spans", "target", "terms"),
        *("installed", "units", "overlap", "unravelled", "verdict", "version", "algebra"),
    },
    {"expr", "reference", "library_calls"},
    {"scop", "scop_builder", "rewrites", "scatters"},
    {"constraints", "dependences", "sets"},
    {"schedule", "places", "strategies", "legality", "cost", "grouping", "wanted"},
    {"kernel", "kernel_types", "lower", "verify", "codegen"},
    {"plan", "planning", "run", "text", "explain"},
    {"cache", "info"},
)
HEAVY = {"islpy", "numba", "llvmlite", "sympy", "torch", "cupy", "cuda", "matplotlib"}


def module_files() -> dict[str, Path]:
    """Every module of the package by its dotted name; the links are followed by hand, as Python's import does."""
    roots = [("polyfuse", ROOT / "polyfuse"), *((f"polyfuse.{n}", ROOT / n) for n in ("frontends", "backends"))]
    found = {}
    for prefix, folder in roots:
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((prefix, *(part for part in parts if part != "__init__")))] = path
    return found


MODULES = module_files()


def imported(tree: ast.AST, *, only_at_import: bool = False) -> Iterator[str]:
    """Dotted names that a module imports; with `only_at_import`, those that its import executes."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    whole = f"{module}.{alias.name}"
                    yield whole if whole in MODULES else module
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if only_at_import:
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse) if only_at_import:
                for statement in orelse:
                    yield from imported(statement, only_at_import=True)
            case _:
                yield from imported(node, only_at_import=only_at_import)


IMPORTS = {name: set(imported(ast.parse(path.read_text()))) for name, path in MODULES.items()}


def importers(package: str) -> set[str]:
    return {name for name, used in IMPORTS.items() if any(below({use}, package) for use in used)}


def below(names: set[str], *allowed: str) -> bool:
    """Whether every name is one of the packages `allowed` or lies inside one."""
    return all(any(name == top or name.startswith(top + ".") for top in allowed) for name in names)


def test_every_module_was_found() -> None:
    assert {"polyfuse", "polyfuse.expr", "polyfuse.kernel"} <= MODULES.keys()


def test_only_sets_imports_islpy() -> None:
    assert importers("islpy") <= {"polyfuse.sets"}


def test_only_the_algebra_imports_sympy() -> None:
    assert below(importers("sympy"), "polyfuse.algebra")


def test_only_the_cuda_backend_imports_numba_cuda() -> None:
    used = importers("numba.cuda") | importers("numba_cuda") | importers("cuda")
    assert below(used, "polyfuse.backends.numba_cuda")


def test_the_core_imports_neither_frontends_nor_backends() -> None:
    users = importers("polyfuse.frontends") | importers("polyfuse.backends")
    core = {n for n in users if not below({n}, "polyfuse.frontends", "polyfuse.backends", "polyfuse.face")}
    assert core <= FACE


def floor(module: str) -> int | None:
    """The floor of a module's room; None for rooms that no floor names (frontends and what proves their subscripts,
    backends, the face, tools)."""
    room = module.split(".")[1] if "." in module else ""
    return next((level for level, rooms in enumerate(FLOORS) if room in rooms), None)


def uses(package: str, *floors: int) -> set[tuple[str, str]]:
    """Imports from modules of `package` into modules of these floors."""
    pairs = {(name, use) for name, used in IMPORTS.items() if below({name}, package) for use in used & MODULES.keys()}
    return {(name, use) for name, use in pairs if floor(use) in floors}


def test_the_page_of_concepts_shows_every_room_in_the_order_of_floors() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text()
    shown = re.findall(r"`polyfuse/(\w+)[./]", text.partition("## Where to look in the code")[2])
    rooms = {name.split(".")[1] for name in MODULES if "." in name} - {"__main__"}
    assert set(shown) == rooms
    levels = [level for room in shown if (level := floor(f"polyfuse.{room}")) is not None]
    assert levels == sorted(levels)


def test_no_import_goes_up() -> None:
    known = {name: level for name in MODULES if (level := floor(name)) is not None}
    upward = {(name, use) for name, level in known.items() for use in IMPORTS[name] if known.get(use, 0) > level}
    assert not upward
    assert {known["polyfuse.expr"], known["polyfuse.scop"], known["polyfuse.kernel"]} == {1, 2, 5}


def test_a_frontend_knows_the_tensor_dag_and_nothing_above() -> None:
    assert uses("polyfuse.frontends", 1)
    assert not uses("polyfuse.frontends", 2, 3, 4, 5, 6)


def test_a_backend_knows_kernels_and_nothing_of_how_they_came_about() -> None:
    assert uses("polyfuse.backends", 5)
    assert not uses("polyfuse.backends", 1, 2, 3, 4, 6)


def test_frontends_and_backends_do_not_know_each_other() -> None:
    assert not {name for name in importers("polyfuse.frontends") if below({name}, "polyfuse.backends")}
    assert not {name for name in importers("polyfuse.backends") if below({name}, "polyfuse.frontends")}


def test_no_module_is_imported_under_a_second_name() -> None:
    assert not importers("backends") | importers("frontends")


def test_imports_form_no_circle() -> None:
    at_import = {
        name: {use for use in imported(ast.parse(path.read_text()), only_at_import=True) if use in MODULES} - {name}
        for name, path in MODULES.items()
    }
    try:
        order = list(TopologicalSorter(at_import).static_order())
    except CycleError as circle:
        pytest.fail(f"modules import each other: {' -> '.join(circle.args[1])}")
    assert set(order) >= MODULES.keys()


def run_python(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout


def test_importing_polyfuse_loads_nothing_heavy() -> None:
    loaded = run_python("import sys, polyfuse; print(*sys.modules)").split()
    assert "polyfuse" in loaded
    assert not {name.split(".")[0] for name in loaded} & HEAVY


def test_importing_polyfuse_takes_at_most_150_ms() -> None:
    code = "import time; t = time.perf_counter(); import polyfuse; print(time.perf_counter() - t)"
    # The least of several runs: the others measure what else the machine is doing.
    assert min(float(run_python(code)) for _ in range(5)) <= 0.150
