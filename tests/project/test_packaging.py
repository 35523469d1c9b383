"""The wheel holds the whole package, though two of its folders are links in the checkout."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import polyfuse as pf

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a freshly built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


@pytest.mark.parametrize("folder", ["frontends", "backends"])
def test_links_become_folders_of_the_wheel(wheel: set[str], folder: str) -> None:
    assert (ROOT / "polyfuse" / folder).is_symlink()
    expected = {f"polyfuse/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / folder).rglob("*.py")}
    assert expected <= wheel
    assert not {name for name in wheel if name.startswith(folder)}


def test_wheel_is_typed_and_licensed(wheel: set[str]) -> None:
    assert "polyfuse/py.typed" in wheel
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


def test_version_is_stated_once_and_in_the_changelog() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", pf.__version__)
    assert f"## {pf.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_cpu_users_get_no_cuda_and_no_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = " ".join([*project["dependencies"], *project["optional-dependencies"]["dev"]])
    assert "cuda" not in base and "torch" not in base


def test_what_the_package_lists_is_there_and_is_for_users() -> None:
    listed = dir(pf)
    assert {"jit", "spec", "nn", "random", "testing", "softmax", "zeros", "indices", "sum", "__version__"} <= {*listed}
    assert {"Any", "TYPE_CHECKING", "annotations", "find_spec", "import_module", "scop", "kernel"}.isdisjoint(listed)
    assert all(hasattr(pf, name) for name in listed)
