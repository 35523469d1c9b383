"""Exported plans run without polyfuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import UnsupportedError


@pf.jit
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pf.jit
def deviations(x, scale):
    d = x - x.mean()
    return (d * d).sum(), d * scale


CHECK = """
import sys
import numpy as np
from exported import {name} as program

assert not any(m.split(".")[0] in ("polyfuse", "islpy", "sympy") for m in sys.modules)
x = np.random.default_rng(0).standard_normal((301, 77)).astype(np.float32)
wide = x.astype(np.float64)
{body}
try:
    program(x[0])
except (ValueError, TypeError) as error:
    print(error)
"""


def run_alone(folder: Path, name: str, body: str) -> str:
    (folder / "check.py").write_text(CHECK.format(name=name, body=body))
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; sys.path.insert(0, '.'); import check"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_runs_from_its_file_alone(tmp_path: Path) -> None:
    softmax.plan(pf.spec("f32[M, N]"), target="cpu").export(tmp_path / "exported.py")
    body = """
e = np.exp(wide - wide.max(axis=1, keepdims=True))
assert np.abs(program(x) - e / e.sum(axis=1, keepdims=True)).max() < 1e-6
assert np.array_equal(program(x.T.copy().T), program(x))
"""
    assert "x has 1 dimensions, not 2" in run_alone(tmp_path, "softmax", body)


def test_several_kernels_buffers_and_scalars(tmp_path: Path) -> None:
    plan = deviations.plan(pf.spec("f32[M~4000, N~4000]"), 2.5, target="cpu")
    assert len(plan.launches) > 1 and plan.buffers
    plan.export(tmp_path / "exported.py")
    body = """
x = np.tile(x, (10, 30))  # the plan holds for at most 4096 rows
wide = x.astype(np.float64)
total, scaled = program(x, 2.5)
d = wide - wide.mean()
assert abs(total / (d * d).sum() - 1) < 1e-5 and np.abs(scaled - d * 2.5).max() < 1e-5
"""
    run_alone(tmp_path, "deviations", body)


@pf.jit
def looked_up(x, i):
    picked = x[i]
    return (picked * 2).sum(axis=1) + picked.sum()


def test_an_exported_program_checks_its_data_indices(tmp_path: Path) -> None:
    plan = looked_up.plan(pf.spec("f32[M~300, N~80]"), pf.spec("i64[K~3]"), target="cpu", fuse=False)
    assert plan.sites and len(plan.buffers) > 1
    plan.export(tmp_path / "exported.py")
    body = """
i = np.array([3, -1, 300])
expected = (wide[i] * 2).sum(axis=1) + wide[i].sum()
assert np.abs(program(x, i) - expected).max() < 1e-3
for wrong in (301, -302, 2**40):
    i[1] = wrong
    try:
        program(x, i)
    except IndexError as error:
        print(error)
    else:
        raise AssertionError("no IndexError")
"""
    said = run_alone(tmp_path, "looked_up", body)
    assert said.count("an index into x is out of bounds where picked is computed in looked_up") == 3


def test_numbers_of_an_exported_program_are_passed_by_value(tmp_path: Path) -> None:
    deviations.plan(pf.spec("f32[M~40, N~40]"), pf.spec("f64"), target="cpu").export(tmp_path / "exported.py")
    body = """
x = np.ones((600, 3), np.float32)
for scale in (2, 2.0, np.float32(2), np.array(2.0)):
    assert np.array_equal(program(x, scale)[1], program(x, 2.0)[1])
for wrong in (x, "2", None):
    try:
        program(x, wrong)
    except TypeError as error:
        print(error)
"""
    assert run_alone(tmp_path, "deviations", body).count("and takes a number") == 3


@pf.jit
def repeated(x):
    y = x * 2
    return x, y, y, y.sum(axis=0)


def test_results_that_nothing_computes_are_copied(tmp_path: Path) -> None:
    repeated.plan(pf.spec("f32[M, N]"), target="cpu").export(tmp_path / "exported.py")
    body = """
given, y, again, total = program(x)
assert given is not x and np.array_equal(given, x) and np.array_equal(y, 2 * x) and np.array_equal(again, y)
try:
    program(x[:0])
except ValueError as error:
    print(error)
"""
    assert "exported for sizes with M >= 1; these are" in run_alone(tmp_path, "repeated", body)


def test_what_cannot_be_exported_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="bfloat16"):
        softmax.plan(pf.spec("bf16[M, N]"), target="cpu").export(tmp_path / "exported.py")
    strided = softmax.plan(np.zeros((8, 8), np.float32)[:, ::2], target="cpu")
    with pytest.raises(UnsupportedError, match="strided"):
        strided.export(tmp_path / "exported.py")
    written = pf.jit(lambda x: x.fill(2), donate="x").plan(pf.spec("f32[N]"), target="cpu")
    with pytest.raises(UnsupportedError, match="writes its argument x"):
        written.export(tmp_path / "exported.py")


@pytest.mark.ptx
def test_an_exported_cuda_program_compiles_without_polyfuse(tmp_path: Path) -> None:
    softmax.plan(pf.spec("f32[M, N~4096]"), target="h200").export(tmp_path / "exported.py")
    body = """
for capability in ((8, 0), (9, 0)):
    assert "ld.global" in program.ptx(0, capability)
sys.exit(0)
"""
    run_alone(tmp_path, "softmax", body)
