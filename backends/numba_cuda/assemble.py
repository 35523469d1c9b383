"""PTX to machine code: by ptxas where one is found, else by the driver's compiler.

Both compile the whole program.  (nvJitLink would compile PTX as relocatable code, which is slower in places.)
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from polyfuse.backends.numba_cuda.compile import CompiledKernel, Resources
from polyfuse.errors import CompileError

_LARGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"
"""How ptxas gets its memory where the C library knows of it: 5,000 small pages are a tenth of its time (softmax of rows
of 5002: 80 ms, 71 with large ones; layernorm of 3001 bfloat16: 64 and 55)."""


@functools.cache
def find_ptxas() -> str | None:
    """The path of ptxas: on the search path, in the toolkit, or in the packages of NVIDIA and Triton."""
    places = [shutil.which("ptxas")]
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places += [os.path.join(root, "bin", "ptxas") for root in roots if root]
    for package, pattern in (("nvidia", "*/bin/ptxas"), ("triton", "backends/nvidia/bin/ptxas")):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            places += [str(path) for path in sorted(Path(folder).glob(pattern))]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def assemble(kernel: CompiledKernel) -> CompiledKernel:
    """The kernel with `cubin` and `resources`.

    Uses ptxas, which needs no GPU, or else the driver for the current device.  Raises `CompileError` when the text is
    not accepted, `DeviceError` when neither assembler nor driver is there.
    """
    if kernel.cubin is not None:
        return kernel
    path = find_ptxas()
    return assemble_by_ptxas(kernel, path) if path else assemble_by_driver(kernel)


def assemble_by_ptxas(kernel: CompiledKernel, path: str) -> CompiledKernel:
    """By the ptxas at `path`, which needs no GPU; raises `CompileError`."""
    return begin(kernel, path).result()


@dataclass(frozen=True, slots=True)
class Assembly:
    """A run of ptxas that goes on beside this process."""

    kernel: CompiledKernel
    folder: tempfile.TemporaryDirectory[str]
    process: subprocess.Popen[str]

    def result(self) -> CompiledKernel:
        """Wait for the machine code; raises `CompileError`."""
        with self.folder:
            _, said = self.process.communicate()
            if self.process.returncode:
                raise CompileError(f"ptxas refuses kernel {self.kernel.entry}:\n{said.strip()[:2000]}")
            return replace(self.kernel, cubin=_target(self.folder).read_bytes(), resources=resources_from(said))

    def drop(self) -> None:
        """End it: nobody wants what it makes."""
        with self.folder:
            self.process.kill()
            self.process.communicate()


def begin(kernel: CompiledKernel, path: str) -> Assembly:
    """Begin what `assemble_by_ptxas` does."""
    major, minor = kernel.capability
    folder = tempfile.TemporaryDirectory()
    source = Path(folder.name, "kernel.ptx")
    source.write_text(kernel.ptx)
    command = [path, "-v", f"-arch=sm_{major}{minor}", str(source), "-o", str(_target(folder))]
    tunables = ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), _LARGE_PAGES)))
    environment = {**os.environ, "GLIBC_TUNABLES": tunables}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
    return Assembly(kernel, folder, process)


def _target(folder: tempfile.TemporaryDirectory[str]) -> Path:
    return Path(folder.name, "kernel.cubin")


def resources_from(log: str) -> Resources:
    """The figures of ``ptxas -v`` for a program of one kernel."""

    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    return Resources(
        registers=number(r"Used (\d+) registers"),
        local_bytes=number(r"(\d+) bytes stack frame"),
        spilled_bytes=number(r"(\d+) bytes spill stores"),
    )


def assemble_by_driver(kernel: CompiledKernel) -> CompiledKernel:
    """By the driver's compiler, for the current device; raises `CompileError` and `DeviceError`."""
    from polyfuse.backends.numba_cuda.driver import check, current_context, driver

    with current_context():
        api = driver()
        option, errors, facts = api.CUjit_option, bytearray(8192), bytearray(8192)
        options = {
            option.CU_JIT_ERROR_LOG_BUFFER: errors,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: len(errors),
            option.CU_JIT_INFO_LOG_BUFFER: facts,
            option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: len(facts),
            option.CU_JIT_LOG_VERBOSE: 1,
        }
        state = check(api.cuLinkCreate(len(options), list(options), list(options.values())), "creating a linker")
        text, kind = kernel.ptx.encode() + b"\0", api.CUjitInputType.CU_JIT_INPUT_PTX
        (status,) = api.cuLinkAddData(state, kind, text, len(text), kernel.entry.encode(), 0, [], [])
        if int(status):
            said = errors.split(b"\0")[0].decode(errors="replace")
            raise CompileError(f"the driver refuses kernel {kernel.entry} ({status.name}):\n{said[:2000]}")
        address, size = check(api.cuLinkComplete(state), f"linking {kernel.entry}")
        cubin = ctypes.string_at(int(address), size)
        check(api.cuLinkDestroy(state), "destroying a linker")
        found = resources_from(facts.split(b"\0")[0].decode(errors="replace"))
        return replace(kernel, cubin=cubin, resources=_measured(kernel.entry, cubin, found))


def _measured(entry: str, cubin: bytes, logged: Resources) -> Resources:
    """Registers and local memory as the loaded kernel has them; only the log tells what was spilled."""
    from polyfuse.backends.numba_cuda.driver import check, driver

    api = driver()
    names = api.CUfunction_attribute
    module = check(api.cuModuleLoadData(cubin), f"loading {entry}")
    function = check(api.cuModuleGetFunction(module, entry.encode()), f"finding {entry}")
    wanted = (names.CU_FUNC_ATTRIBUTE_NUM_REGS, names.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    registers, local = (int(check(api.cuFuncGetAttribute(name, function), "asking for resources")) for name in wanted)
    check(api.cuModuleUnload(module), f"unloading {entry}")
    return Resources(registers, local, logged.spilled_bytes)
