"""Launching CPU kernels: threads, forks, saved object code, the standalone source; and whole hand-written kernels."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyfuse import dtypes
from polyfuse.backends.numba_cpu import fragments
from polyfuse.backends.numba_cpu.compile import CompiledKernel
from polyfuse.backends.numba_cpu.prepared import prepared
from tests.backends.cpu_kernels import address, array, build, scalar, size

F4 = np.dtype("f4")
ROOT = Path(__file__).resolve().parents[2]

SOFTMAX = """
ROW = Tile((64,), (1,), vector=64)
def kernel(x, y, n):
    at = block(0) * n
    row = shared(float32, 8192)
    m = full((64,), -INF, float32)
    for k in range(n // 64):
        m = maximum(m, load(x, at + 64 * k, ROW))
    m = reduce_max(m, (0,))
    s = full((64,), 0, float32)
    for k in range(n // 64):
        e = exp(load(x, at + 64 * k, ROW) - m)
        store(row, 64 * k, ROW, e)
        s = s + e
    s = 1 / reduce_sum(s, (0,))
    for k in range(n // 64):
        store(y, at + 64 * k, ROW, load(row, 64 * k, ROW) * s)
"""

LAYERNORM = """
ROW = Tile((64,), (1,), vector=64)
def kernel(x, gain, bias, y, n, epsilon):
    at = block(0) * n
    total = full((64,), 0, float32)
    for k in range(n // 64):
        total = total + load(x, at + 64 * k, ROW)
    mean = reduce_sum(total, (0,)) / cast(n, float32)
    squares = full((64,), 0, float32)
    for k in range(n // 64):
        d = load(x, at + 64 * k, ROW) - mean
        squares = squares + d * d
    scale = rsqrt(reduce_sum(squares, (0,)) / cast(n, float32) + epsilon)
    for k in range(n // 64):
        v = (load(x, at + 64 * k, ROW) - mean) * scale
        store(y, at + 64 * k, ROW, v * load(gain, 64 * k, ROW) + load(bias, 64 * k, ROW))
"""

COLUMN_SUM = """
ROWS = Tile((8, 64), (Size("n"), 1), vector=64)
ONE = Tile((1, 64), (0, 1), vector=64)
def kernel(x, partial, y, counter, m, n):
    c = 64 * block(0)
    acc = full((1, 64), 0, float32)
    for k in range(16):
        r = 128 * block(1) + 8 * k
        rows = slots((8, 1), 0) + r
        acc = acc + reduce_sum(load(x, r * n + c, ROWS, (n,), mask=rows < m), (0,))
    store(partial, block(1) * n + c, ONE, acc)
    parts = (m + 127) // 128
    if elect(counter, block(0), parts):
        acc = full((1, 64), 0, float32)
        for p in range(parts):
            acc = acc + load(partial, p * n + c, ONE)
        store(y, c, ONE, acc)
"""

POINTWISE = """
T = Tile((4, 64), (64, 1), vector=64)
def kernel(x, y, o, n):
    at = 256 * block(0)
    here = inside(n - 1 - at - 64 * slots((4, 64), 0) - slots((4, 64), 1))
    z = maximum((load(x, at, T, mask=here) + load(y, at, T, mask=here)) * 2, 0) - 1
    store(o, at, T, 1 / (1 + exp(-z)), mask=here)
"""


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(-1, keepdims=True), dtype="f8")
    return e / e.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def softmax_kernel() -> CompiledKernel:
    return build(SOFTMAX, [array("x", F4), array("y", F4, False), size("n")])


# ---------------------------------------------------------------------------------------------- whole kernels


def test_softmax_of_rows(softmax_kernel: CompiledKernel) -> None:
    x = np.random.default_rng(0).normal(size=(300, 1024)).astype("f4")
    y = np.empty_like(x)
    softmax_kernel.run((300,), [address(x), address(y), 1024])
    np.testing.assert_allclose(y, softmax(x), rtol=3e-6)


def test_layernorm_with_a_scalar_parameter() -> None:
    parameters = [array("x", F4), array("gain", F4), array("bias", F4), array("y", F4, False)]
    kernel = build(LAYERNORM, [*parameters, size("n"), scalar("epsilon", dtypes.f32)])
    rng = np.random.default_rng(0)
    x, gain, bias = (rng.normal(2, 1, shape).astype("f4") for shape in ((100, 512), 512, 512))
    y = np.empty_like(x)
    kernel.run((100,), [address(x), address(gain), address(bias), address(y), 512, 1e-5])
    wide = x.astype("f8")
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * gain + bias
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("index_bits", [32, 64])
def test_column_sum_with_a_last_block_pass(index_bits: int) -> None:
    arrays = [array("x", F4), array("partial", F4, False), array("y", F4, False)]
    counters = array("counter", np.dtype("i4"), False)
    kernel = build(COLUMN_SUM, [*arrays, counters, size("m"), size("n")], index_bits=index_bits)
    m, n = 1000, 640
    x = np.random.default_rng(0).normal(size=(m, n)).astype("f4")
    partial, y, counter = np.empty((8, n), "f4"), np.empty(n, "f4"), np.zeros(n // 64, "i4")
    kernel.run((n // 64, 8), [*map(address, (x, partial, y, counter)), m, n])
    np.testing.assert_allclose(y, x.sum(0, dtype="f8"), atol=1e-4)
    first = y.copy()
    kernel.run((n // 64, 8), [*map(address, (x, partial, y, counter)), m, n])
    np.testing.assert_array_equal(y, first)


def test_pointwise_chain_of_any_length() -> None:
    kernel = build(POINTWISE, [array("x", F4), array("y", F4), array("o", F4, False), size("n")])
    for count in (1, 255, 256, 257, 100_003):
        x, y = np.random.default_rng(count).normal(size=(2, count)).astype("f4")
        o = np.empty_like(x)
        kernel.run((-(-count // 256),), [address(x), address(y), address(o), count])
        z = np.maximum((x + y) * 2, 0) - 1
        np.testing.assert_allclose(o, 1 / (1 + np.exp(-z.astype("f8"))), rtol=1e-6)


# ---------------------------------------------------------------------------------------------- launches


def test_grids_of_three_axes_visit_every_block_once() -> None:
    source = """
P = Tile((), ())
def kernel(y, a, b):
    at = (block(2) * b + block(1)) * a + block(0)
    store(y, at, P, load(y, at, P) + 1 + cast(at, int32))
"""
    kernel = build(source, [array("y", np.dtype("i4"), False), size("a"), size("b")])
    for grid in ((7, 5, 11), (1, 1, 300), (300, 1, 1), (1, 40, 2), (1, 1, 1)):
        y = np.zeros(grid[0] * grid[1] * grid[2], "i4")
        kernel.run(grid, [address(y), grid[0], grid[1]])
        np.testing.assert_array_equal(y, 1 + np.arange(y.size))
    kernel.run((0, 3), [0, 0, 3])  # no block, no access


def test_python_threads_may_launch_at_the_same_time(softmax_kernel: CompiledKernel) -> None:
    x = np.random.default_rng(0).normal(size=(8, 64, 512)).astype("f4")
    y = np.empty_like(x)
    problems: list[BaseException] = []

    def work(part: int) -> None:
        try:
            for _ in range(30):
                softmax_kernel.run((64,), [address(x[part]), address(y[part]), 512])
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    np.testing.assert_allclose(y, softmax(x), rtol=3e-6)


SCRIPT = f"""
import os, sys, threading
import numpy as np
sys.path.insert(0, {str(ROOT)!r})
from tests.backends.cpu_kernels import address, array, build, size
from tests.backends.test_cpu_runtime import F4, SOFTMAX, softmax
kernel = build(SOFTMAX, [array("x", F4), array("y", F4, False), size("n")])
x = np.random.default_rng(0).normal(size=(300, 512)).astype("f4")
def check():
    y = np.empty_like(x)
    kernel.run((300,), [address(x), address(y), 512])
    np.testing.assert_allclose(y, softmax(x), rtol=3e-6)
check()
"""
FORK = """
for _ in range(2):
    child = os.fork()
    if child == 0:
        check(); check()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    check()
"""
CONCURRENT = """
import numba
threads = [threading.Thread(target=lambda: [check() for _ in range(20)]) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(numba.threading_layer() if numba.config.NUMBA_NUM_THREADS > 1 else "none")
"""


def run_script(text: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + text],
        env={**os.environ, "NUMBA_NUM_THREADS": "2", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_a_forked_child_runs_kernels_too(layer: str) -> None:
    assert run_script(FORK, NUMBA_THREADING_LAYER=layer).split() == ["7", "7"]


def test_the_workqueue_layer_takes_concurrent_launches() -> None:
    assert run_script(CONCURRENT, NUMBA_THREADING_LAYER="workqueue") == "workqueue"


def test_one_numba_thread_means_no_threading_layer() -> None:
    assert run_script(CONCURRENT, NUMBA_NUM_THREADS="1") == "none"


def test_a_prepared_launch_keeps_its_code_in_memory() -> None:
    kernel = build(SOFTMAX, [array("x", F4), array("y", F4, False), size("n")])
    launch = prepared(kernel.loaded, 64, 512, [None, None, 512])
    del kernel
    gc.collect()
    x = np.random.default_rng(0).normal(size=(64, 512)).astype("f4")
    y = np.empty_like(x)
    for _ in range(3):
        launch(0, address(x), address(y))
    np.testing.assert_allclose(y, softmax(x), rtol=3e-6)


# ---------------------------------------------------------------------------------------------- saved code


def test_object_code_reloads_without_compiling(softmax_kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    data = softmax_kernel.to_bytes()
    monkeypatch.setattr(fragments, "compile_function", None)
    again = CompiledKernel.from_bytes(data)
    x = np.random.default_rng(0).normal(size=(5, 256)).astype("f4")
    y = np.empty_like(x)
    again.run((5,), [address(x), address(y), 256])
    np.testing.assert_allclose(y, softmax(x), rtol=3e-6)
    assert again.name == softmax_kernel.name
    assert again.to_bytes() == data


def test_object_code_of_another_processor_is_refused(softmax_kernel: CompiledKernel) -> None:
    data = softmax_kernel.to_bytes()
    here = fragments.host_processor().encode()
    with pytest.raises(ValueError, match="another processor"):
        CompiledKernel.from_bytes(data.replace(here, b"0" * len(here)))
    with pytest.raises(ValueError, match="not a CPU kernel"):
        CompiledKernel.from_bytes(b"something else")


STANDALONE = """
TILE = Tile((64,), (1,), vector=64)
def double_plus(x, y, n):
    at = 64 * block(0)
    for k in range(2):
        store(y, at, TILE, load(x, at, TILE) * 2 + k)

parameters = [Pointer(float32, readonly=True), Pointer(float32), Fragment(int32, (), weak=True)]
code = compile_function(double_plus, parameters, namespace(32), False)
kernel = LoadedKernel(code, parameter_layout(parameters), 64)
import numpy
x = numpy.arange(640, dtype="f4")
y = numpy.zeros_like(x)
kernel.run((10,), (x.ctypes.data, y.ctypes.data, 640))
assert (y == 2 * x + 1).all()
assert not any(name.split(".")[0] == "polyfuse" for name in sys.modules)
print("fine")
"""


def test_the_standalone_source_runs_without_the_package(tmp_path: Path) -> None:
    source = fragments.standalone_source()
    assert "import polyfuse" not in source and "from polyfuse" not in source
    file = tmp_path / "exported.py"
    file.write_text(source + "\nimport sys\n" + STANDALONE)
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert done.stdout.strip() == "fine", done.stderr


def test_the_standalone_source_defines_no_name_twice() -> None:
    names: Counter[str] = Counter()
    for node in ast.parse(fragments.standalone_source()).body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                names[node.name] += 1
            case ast.Assign():
                names.update(t.id for target in node.targets for t in ast.walk(target) if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names[name] += 1
            case ast.Import() | ast.ImportFrom():
                names.update({alias.asname or alias.name for alias in node.names})
    assert not [name for name, count in names.items() if count > 1 and name not in ("_keys", "_function")]


def test_the_runtime_has_every_name_of_the_language() -> None:
    from polyfuse.codegen.language import ON_DEVICES, VOCABULARY

    paired = {"scan_argmax", "scan_argmin"}
    missing = VOCABULARY - paired - set(ON_DEVICES) - set(fragments.namespace(32)) - {"range"}
    assert not missing
