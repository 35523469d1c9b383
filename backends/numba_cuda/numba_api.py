"""The one module that imports `numba.cuda` and `llvmlite`: every other file takes their names from here.

The successor package of numba-cuda keeps the typing side (types, templates, signatures) and changes how values are
lowered, so a port replaces this file, and gives the fragments a builder with the methods of `llvmlite.ir.IRBuilder`
that they call.  Importing this file costs 0.4 to 0.7 s: callers import it inside functions.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import errors as core_errors
from numba.cuda import cgutils, types
from numba.cuda.compiler import (
    CreateLibrary,
    CUDABackend,
    CUDANativeLowering,
    CUDATranslateBytecode,
    compile_extra,
    kernel_fixup,
)
from numba.cuda.core import ir as numba_ir
from numba.cuda.core.callconv import CUDACallConv
from numba.cuda.core.compiler import CompilerBase
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.compiler_machinery import PassManager, register_pass
from numba.cuda.core.errors import NumbaError, TypingError
from numba.cuda.core.targetconfig import ConfigStack
from numba.cuda.core.typed_passes import NopythonTypeInference
from numba.cuda.core.untyped_passes import FixupArgs, IRProcessing
from numba.cuda.cudadecl import registry as typing_registry
from numba.cuda.cudadrv import nvvm
from numba.cuda.cudaimpl import registry as lowering_registry
from numba.cuda.descriptor import cuda_target
from numba.cuda.extending import core_models as models
from numba.cuda.extending import register_model, typeof_impl
from numba.cuda.flags import CUDAFlags
from numba.cuda.lowering import CUDALower
from numba.cuda.target import CUDATypingContext
from numba.cuda.typeconv import Conversion
from numba.cuda.typing.templates import AbstractTemplate, signature
from numba.cuda.utils import numba_target_override

__all__ = [
    "AbstractTemplate",
    "Conversion",
    "CompilerError",
    "TypingError",
    "cgutils",
    "compile_ptx",
    "ir",
    "lowering_registry",
    "models",
    "packed",
    "register_model",
    "signature",
    "slots_of",
    "target_capability",
    "types",
    "typeof_impl",
    "typing_registry",
]


class CompilerError(Exception):
    """Numba refuses a kernel; the text is its report."""


def target_capability() -> tuple[int, int]:
    """The compute capability that the function being lowered is compiled for."""
    return tuple(ConfigStack().top().compute_capability[:2])


class _Packed(ir.Instruction):
    """An aggregate of its operands: one instruction until it is written, as a chain of `insertvalue`."""

    def _to_string(self) -> str:
        kind, whole, lines = str(self.type), "undef", list[str]()
        for k, value in enumerate(self.operands):
            name = self.get_reference() if k == len(self.operands) - 1 else f'%"{self.name}.{k}"'
            lines.append(f"{name} = insertvalue {kind} {whole}, {value.type} {value.get_reference()}, {k}")
            whole = name
        return "\n  ".join(lines)


def packed(builder: ir.IRBuilder, kind: ir.Type, slots: list[Any]) -> Any:
    """The aggregate with these slots."""
    instruction = _Packed(builder.block, kind, "insertvalue", slots)
    builder._insert(instruction)
    return instruction


def slots_of(value: Any) -> list[Any] | None:
    """What `packed` made an aggregate of; None of any other."""
    return value.operands if isinstance(value, _Packed) else None


class KernelTyping(CUDATypingContext):
    """Numba's types of functions, with calls remembered: inference asks for each one twice, and Numba sorts dozens of
    overloads of an operator for every answer."""

    def __init__(self, other: CUDATypingContext) -> None:
        self.__dict__ = other.__dict__  # what is registered there is known here
        self.__dict__.setdefault("remembered", {})

    def resolve_function_type(self, func: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        key = func, tuple(args), tuple(kws.items() if kws else ())  # where there are none, Numba hands over either kind
        found = self.remembered.get(key)
        if found is None:
            found = super().resolve_function_type(func, args, kws)
            if found is not None:
                self.remembered[key] = found
        return found


class KernelLower(CUDALower):
    """Numba's lowering, which looks through a whole block for every variable to find those that need no memory."""

    def _find_singly_assigned_variable(self) -> None:
        """Variables that are assigned once and read by the same block alone."""
        blocks = self.func_ir.blocks.values()
        assigned = Counter(s.target.name for block in blocks for s in block.body if isinstance(s, numba_ir.Assign))
        elsewhere = frozenset().union(*self.func_ir.variable_lifetime.usedefs.usemap.values())
        self._singly_assigned_vars = {name for name, count in assigned.items() if count == 1} - elsewhere
        self._blk_local_varmap: dict[str, Any] = {}


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(CUDANativeLowering):
    """The pass of the lowering above."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type:
        return KernelLower


class KernelCompiler(CompilerBase):
    """Numba's pipeline without closures, literal unrolling, overload inlining and rewrites of arrays: kernels have none
    of these, and the passes that look for them take a tenth of a compilation.

    Nor has it Numba's single assignments and deletes: NVVM makes the former out of variables by itself, fragments need
    no release, and the PTX of 255 kernels of benchmark programs is the same without them, but for numbers in names.
    """

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("fragments")
        passes.add_pass(CUDATranslateBytecode, "bytecode to Numba's representation")
        passes.add_pass(FixupArgs, "argument names and types")
        passes.add_pass(IRProcessing, "blocks and definitions, which type inference looks up")
        passes.add_pass(NopythonTypeInference, "fragments get their dtypes and shapes")
        passes.add_pass(CreateLibrary, "the module to be, with options of NVVM")
        passes.add_pass(KernelLowering, "operations emit LLVM")
        passes.add_pass(CUDABackend, "collect the result")
        passes.finalize()
        return [passes]


@global_compiler_lock
def _lowered(
    function: Callable[..., None],
    arguments: tuple[Any, ...],
    capability: tuple[int, int],
    *,
    fastmath: bool,
    options: dict[str, Any],
) -> Any:
    """What Numba makes of a kernel up to NVVM: `numba.cuda.compiler.compile_cuda` with the pipeline above."""
    flags = CUDAFlags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.inline, flags.error_model = "never", "numpy"
    flags.fastmath, flags.nvvm_options, flags.compute_capability = fastmath, options, capability
    with numba_target_override():
        result = compile_extra(
            KernelTyping(cuda_target.typing_context),
            cuda_target.target_context,
            function,
            arguments,
            types.void,
            flags,
            {},
            pipeline_class=KernelCompiler,
            call_conv=CUDACallConv(cuda_target.target_context),
            abi_info={},
        )
    result.library.finalize()
    return result


def compile_ptx(
    function: Callable[..., None],
    arguments: tuple[Any, ...],
    capability: tuple[int, int],
    launch_bounds: tuple[int, int],
    *,
    contract: bool = True,
    fastmath: bool = False,
    cluster: int = 1,
) -> str:
    """PTX of the kernel `function` for Numba argument types; needs no GPU.

    `launch_bounds`: (threads per block, least blocks per multiprocessor).  `contract` lets a multiply and an add
    become one fused multiply-add; `numba.cuda.compile` has no such switch, hence the lower-level entry.  `cluster`:
    that many neighbouring blocks of the grid run together, whose number divides the grid (sm_90).
    Raises `CompilerError` when typing or lowering fails.
    """
    if "CUDA_HOME" not in os.environ and "CUDA_PATH" not in os.environ and os.path.isdir("/usr/local/cuda/nvvm"):
        os.environ["CUDA_HOME"] = "/usr/local/cuda"  # the toolkit's default place, which Numba searches only if told
    options = {"fastmath": fastmath, "opt": 3, "fma": int(contract)}
    try:
        result = _lowered(function, arguments, capability, fastmath=fastmath, options=options)
    except (NumbaError, core_errors.NumbaError) as error:
        raise CompilerError(str(error)) from error
    library = result.library
    kernel = library.get_function(result.fndesc.llvm_func_name)
    library._entry_name = result.fndesc.llvm_func_name
    kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, launch_bounds)
    _drop_unused(kernel)
    (text,) = library.get_asm_strs(cc=capability)
    return _in_clusters(str(text), cluster)


def _drop_unused(function: ir.Function) -> None:
    """Leave out aggregates that nothing takes as a whole: NVVM would drop them too, but has to read them first."""
    used = set[int]()
    for block in function.blocks:
        for instruction in block.instructions:
            is_phi = isinstance(instruction, ir.PhiInstr)
            used.update([id(v) for v, _ in instruction.incomings] if is_phi else map(id, instruction.operands))
    for block in function.blocks:
        block.instructions[:] = [i for i in block.instructions if not isinstance(i, _Packed) or id(i) in used]


def _in_clusters(ptx: str, cluster: int) -> str:
    """Numba and NVVM cannot state the shape of a cluster, so it is written into the entry's directives."""
    if cluster == 1:
        return ptx
    return re.sub(r"^(\.maxntid .*)$", rf"\1\n.reqnctapercluster {cluster}, 1, 1", ptx, count=1, flags=re.MULTILINE)
