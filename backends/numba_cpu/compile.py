"""Printed kernel text to a callable: the CPU counterpart of a launch."""

from __future__ import annotations

import hashlib
import json
import linecache
import re
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polyfuse.codegen.lifetimes import separated
from polyfuse.errors import CompileError
from polyfuse.kernel import ArrayParameter, Parameter, ScalarParameter, SizeParameter

if TYPE_CHECKING:
    from polyfuse.backends.numba_cpu.fragments import LoadedKernel

_MAGIC = b"polyfuse-cpu-1\n"
# Where the caller does not say how much a block does: large enough that two blocks run on two threads.
USUAL_BLOCK = 16 * 1024


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel as machine code in this process.  Immutable; `run` may be called by any number of threads."""

    name: str
    loaded: LoadedKernel

    def run(self, grid: Sequence[int], arguments: Sequence[int | float]) -> None:
        """Run every block of `grid` (1 to 3 extents) and return when all are done; the interpreter's lock is released.

        `arguments` in the order of the kernel's parameters: addresses of arrays, sizes, scalars.  Nothing is checked
        but their number and kind (struct.error); raises MemoryError where scratch memory cannot be allocated.
        """
        self.loaded.run(grid, arguments)

    def to_bytes(self) -> bytes:
        """The object code with what is needed to load it; for this processor and LLVM version only."""
        loaded = self.loaded
        head = {
            "name": self.name,
            "layout": "".join(loaded.layout),
            "block_elements": loaded.block_elements,
            "processor": loaded.code.processor,
        }
        text = json.dumps(head).encode()
        return _MAGIC + struct.pack("<I", len(text)) + text + loaded.code.code

    @staticmethod
    def from_bytes(data: bytes) -> CompiledKernel:
        """The inverse of `to_bytes`, without compiling.  The data must come from a trusted place: it is run.

        Raises ValueError for data of another format, processor or LLVM version.
        """
        from polyfuse.backends.numba_cpu.fragments import LoadedKernel, ObjectCode

        if not data.startswith(_MAGIC):
            raise ValueError("not a CPU kernel of this version of polyfuse")
        start = len(_MAGIC) + 4
        (length,) = struct.unpack("<I", data[len(_MAGIC) : start])
        head = json.loads(data[start : start + length])
        code = ObjectCode(data[start + length :], head["processor"])
        return CompiledKernel(head["name"], LoadedKernel(code, head["layout"], head["block_elements"]))


def compile_kernel(
    source: str,
    name: str,
    parameters: Sequence[Parameter],
    *,
    index_bits: int = 32,
    nontemporal: bool | Collection[str] = False,
    block_elements: int = USUAL_BLOCK,
) -> CompiledKernel:
    """Compile the kernel `name` of a printed module (tile constants and functions over fragments).

    `parameters` in the order of the function's parameters.  `nontemporal`: outputs (all, or those named) whose stores
    bypass the cache where they cover whole cache lines: right for outputs larger than the last cache, which then cost
    no read (measured: 22 % less time).  `block_elements`: elements that one block handles; launches of few elements
    run in the caller's thread.  Raises `CompileError` when the text does not type or lower: a defect of the printer.
    """
    from numba.core.errors import NumbaError

    from polyfuse.backends.numba_cpu.fragments import LoadedKernel, compile_function, namespace, parameter_layout

    names = namespace(index_bits)
    function = _execute(source, name, dict(names))
    streamed = _streamed(parameters, nontemporal)
    types = [_argument_type(parameter, index_bits, parameter.name in streamed) for parameter in parameters]
    try:
        code = compile_function(function, types, names, bool(streamed))
    except (NumbaError, NotImplementedError, RuntimeError, ValueError, AssertionError) as error:
        raise CompileError(
            f"kernel {name} does not compile:\n{_essence(str(error))}",
            advice="This is a defect of the code generator; the kernel text is the reproducer.",
        ) from error
    return CompiledKernel(name, LoadedKernel(code, parameter_layout(types), block_elements))


def _streamed(parameters: Sequence[Parameter], nontemporal: bool | Collection[str]) -> frozenset[str]:
    outputs = frozenset(p.name for p in parameters if isinstance(p, ArrayParameter) and not p.readonly)
    if isinstance(nontemporal, bool):
        return outputs if nontemporal else frozenset()
    return outputs & frozenset(nontemporal)


_ELEMENT_NAMES = {"bool": "boolean", "bf16": "bfloat16"} | {
    f"{kind}{bits}": f"{name}{bits}"
    for kind, name in (("i", "int"), ("u", "uint"), ("f", "float"))
    for bits in (8, 16, 32, 64)
}


def _argument_type(parameter: Parameter, index_bits: int, streamed: bool) -> Any:
    from polyfuse.backends.numba_cpu.fragments import Fragment, Pointer, namespace

    names = namespace(index_bits)
    match parameter:
        case ArrayParameter(dtype=dtype, readonly=readonly):
            return Pointer(names[_ELEMENT_NAMES[dtype.name]], readonly, streamed)
        case SizeParameter():
            return Fragment(names[f"int{index_bits}"], (), weak=True)
        case ScalarParameter(dtype=dtype):
            return Fragment(names[_ELEMENT_NAMES[dtype.name]].compute, (), weak=True)


def _execute(source: str, name: str, names: dict[str, Any]) -> Callable[..., None]:
    """Run the module text; its lines stay readable in tracebacks and debuggers."""
    file = f"<polyfuse {name} {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names["__name__"] = "polyfuse_kernel"
    exec(compile(separated(source), file, "exec"), names)
    if name not in names:
        raise CompileError(f"the module text defines no function {name}")
    function: Callable[..., None] = names[name]
    return function


def _essence(report: str) -> str:
    """Numba's report without colours, repetitions and the frames of its own files."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", report)
    kept = dict.fromkeys(line for line in plain.splitlines() if line.strip() and "site-packages" not in line)
    return "\n".join(list(kept)[:25])
