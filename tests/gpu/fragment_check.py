"""Check the CUDA fragment runtime on a GPU against NumPy: every operation, dtype, width, mask and thread mask.

    python tests/gpu/fragment_check.py [--compile-only] [--only TEXT]

Prints one line per check and exits with 1 on a mismatch.  `--compile-only` stops after the assembler and needs no GPU.
Kernels run in a child process, which is started again after one that crashed or hung, so every check is reported.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import select
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.assemble import assemble, assemble_by_driver, find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.backends.numba_cuda.driver import capability, current_context, driver
from polyfuse.backends.numba_cuda.driver import check as succeed
from polyfuse.backends.numba_cuda.launch import Launcher
from polyfuse.dtypes import f32
from polyfuse.kernel import ArrayParameter, SizeParameter
from tests.gpu.check_functions import function_checks
from tests.gpu.check_memory import memory_checks
from tests.gpu.check_programs import atomic_checks, elect_check, printed_checks, program_checks
from tests.gpu.check_reductions import all_reduction_checks
from tests.gpu.checks import Check

Outcome = CompiledKernel | str
HANG = 20.0  # seconds without a line from the child
LOST = 101  # exit status of a child whose context may be lost


def chosen(text: str) -> list[Check]:
    """The checks whose name contains `text`."""
    every = chain(
        memory_checks(),
        function_checks(),
        all_reduction_checks(),
        elect_check(),
        atomic_checks(),
        program_checks(),
        printed_checks(),
    )
    return [c for c in every if text in c.name]


# ---------------------------------------------------------------------------------------------- compiling


def compile_one(c: Check, target: tuple[int, int]) -> Outcome:
    try:
        kernel = compile_kernel(c.source, c.entry, c.parameters(), c.threads, target, index_bits=c.index_bits)
        return assemble(kernel) if find_ptxas() else kernel
    except Exception as error:  # one failed line, not the end
        return f"{type(error).__name__}: {error}\n{c.source}"


def compile_all(checks: list[Check], target: tuple[int, int]) -> list[Outcome]:
    """In processes, as the compiler holds a global lock."""
    workers = min(os.cpu_count() or 1, 16)
    if workers < 3:
        return [compile_one(c, target) for c in checks]
    from polyfuse.backends.numba_cuda.fragments import runtime

    assert runtime.namespace()  # imported once, inherited by the workers
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        return list(pool.map(compile_one, checks, [target] * len(checks), chunksize=4))


# ---------------------------------------------------------------------------------------------- running


def difference(got: np.ndarray, want: np.ndarray, c: Check) -> str:
    """Empty, or how they differ."""
    got, want = got.reshape(-1), want.reshape(-1)
    if got.dtype.kind in "biu":
        wrong = got != want
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            close = (g == w) | (np.isnan(g) & np.isnan(w))
            if c.tolerance:
                scale = np.maximum(np.abs(w), c.floor)
                close |= np.abs(g - w) <= c.tolerance * scale
            if c.signed_zero:
                close &= (np.signbit(g) == np.signbit(w)) | np.isnan(w)
        wrong = ~close
    if not wrong.any():
        return ""
    k = int(np.argmax(wrong))
    inputs = {n: a.reshape(-1)[k] for n, a in c.arrays.items() if n not in c.expected and a.size == got.size}
    return f"{int(wrong.sum())} of {wrong.size} differ; at {k} got {got[k]!r}, expected {want[k]!r}, inputs {inputs}"


def run_one(c: Check, kernel: CompiledKernel) -> str:
    """Launch one check; empty, or what is wrong."""
    api, places = driver(), {}
    for name, array in c.arrays.items():
        data = np.ascontiguousarray(array)
        places[name] = succeed(api.cuMemAlloc(max(data.nbytes, 16)), "allocating")
        succeed(api.cuMemcpyHtoD(places[name], data.ctypes.data, data.nbytes), "copying in")
    arguments = [int(places[p.name]) if p.name in places else c.value(p.name) for p in c.parameters()]
    launcher = Launcher(kernel)
    for _ in range(c.launches):
        launcher.launch(c.grid, arguments)
    succeed(api.cuCtxSynchronize(), "running")
    problems = []
    for name, want in c.expected.items():
        got = np.empty(c.arrays[name].shape, c.arrays[name].dtype)
        succeed(api.cuMemcpyDtoH(got.ctypes.data, places[name], got.nbytes), "copying out")
        found = difference(got, want, c)
        problems += [f"{name}: {found}"] if found else []
    for place in places.values():
        succeed(api.cuMemFree(place), "freeing")
    return "; ".join(problems)


def report(c: Check, kernel: Outcome, wrong: str) -> None:
    used = kernel.resources if isinstance(kernel, CompiledKernel) else None
    facts = f"{used.registers} registers, {used.local_bytes} bytes local" if used else ""
    print(f"{'FAIL' if wrong else 'ok  '} {c.name}  {wrong or facts}", flush=True)


def child(file: str, start: int) -> int:
    """Run the checks of `file` from `start`; a number of failures, or a crash."""
    checks, kernels = pickle.loads(Path(file).read_bytes())
    failed = 0
    with current_context():
        for c, kernel in list(zip(checks, kernels, strict=True))[start:]:
            if isinstance(kernel, str):
                report(c, kernel, f"DOES NOT COMPILE {kernel}")
                failed += 1
                continue
            try:
                wrong = run_one(c, kernel)
            except Exception as error:
                report(c, kernel, f"{type(error).__name__}: {error}")
                os._exit(LOST)  # the parent goes on with the next check
            report(c, kernel, wrong)
            failed += bool(wrong)
        launch_cost()
    return min(failed, 100)


def launch_cost() -> None:
    """Host time of a launch, of a kernel that the driver has assembled."""
    text = "ONE = Tile((), ())\ndef nothing(x, n):\n    store(x, thread(), ONE, 0.0, mask=thread() < n)\n"
    parameters = (ArrayParameter("x", f32, (Affine.of(1),), readonly=False), SizeParameter("n"))
    launcher = Launcher(assemble_by_driver(compile_kernel(text, "nothing", parameters, 32, capability())))
    for repetitions in (10, 1000):
        start = time.perf_counter()
        for _ in range(repetitions):
            launcher.launch((1, 1, 1), (0, 0))
        cost = (time.perf_counter() - start) / repetitions
        succeed(driver().cuCtxSynchronize(), "running")
    launcher.launch((0, 4), (0, 0))
    print(f"a launch takes {1e6 * cost:.2f} us of host time; {launcher.resources()}")


def run_all(checks: list[Check], kernels: list[Outcome]) -> int:
    """The number of failures, over as many children as it takes."""
    done, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "checks.pickle")
        file.write_bytes(pickle.dumps((checks, kernels)))
        while done < len(checks):
            lines, code = watch([sys.executable, __file__, "--child", str(file), "--start", str(done)])
            finished = [line for line in lines if line.startswith(("ok  ", "FAIL"))]
            wrong = sum(line.startswith("FAIL") for line in finished)
            done, failed = done + len(finished), failed + wrong
            if code == (LOST if done < len(checks) else min(wrong, 100)):
                continue
            name = checks[done].name if done < len(checks) else "the launch cost"
            print(f"FAIL {name}  the process ended with {code} (or hung)", flush=True)
            done, failed = done + 1, failed + 1
    return failed


def watch(command: list[str]) -> tuple[list[str], int]:
    """Run a command, show its lines, end it when it says nothing for long; its lines and exit status."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    text = b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], HANG)
        if not ready:
            process.kill()
            break
        part = os.read(process.stdout.fileno(), 65536)
        if not part:
            break
        text += part
        sys.stdout.write(part.decode(errors="replace"))
        sys.stdout.flush()
    return text.decode(errors="replace").splitlines(), process.wait()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--capability", default="", help="such as 9.0; without it that of the GPU")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, options.start)
    begin, checks = time.perf_counter(), chosen(options.only)
    text = options.capability or ("9.0" if options.compile_only else subprocess_capability())
    major, minor = map(int, text.split("."))
    kernels = compile_all(checks, (major, minor))
    print(f"{len(checks)} kernels for sm_{major}{minor} compiled in {time.perf_counter() - begin:.1f} s", flush=True)
    if options.compile_only:
        for c, kernel in zip(checks, kernels, strict=True):
            report(c, kernel, f"DOES NOT COMPILE {kernel}" if isinstance(kernel, str) else "")
        failed = sum(isinstance(kernel, str) for kernel in kernels)
    else:
        failed = run_all(checks, kernels)
    print(f"{len(checks) - failed} of {len(checks)} pass, {time.perf_counter() - begin:.1f} s")
    return 1 if failed else 0


def subprocess_capability() -> str:
    """Asked in a process of its own: workers that are forked later must not inherit a driver that has started."""
    code = "from polyfuse.backends.numba_cuda.driver import capability; print(*capability(), sep='.')"
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    if done.returncode:
        raise SystemExit(f"no CUDA device: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
