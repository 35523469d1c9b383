"""The one module that imports `numba.cuda` and `llvmlite`: every other file takes their names from here.

The successor package of numba-cuda keeps the typing side (types, templates, signatures) and changes how values are
lowered, so a port replaces this file, and gives the fragments a builder with the methods of `llvmlite.ir.IRBuilder`
that they call.  Importing this file costs 0.4 to 0.7 s: callers import it inside functions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import errors as core_errors
from numba.cuda import cgutils, types
from numba.cuda.compiler import compile_cuda, kernel_fixup
from numba.cuda.core.errors import NumbaError, TypingError
from numba.cuda.core.targetconfig import ConfigStack
from numba.cuda.cudadecl import registry as typing_registry
from numba.cuda.cudadrv import nvvm
from numba.cuda.cudaimpl import registry as lowering_registry
from numba.cuda.extending import core_models as models
from numba.cuda.extending import register_model, typeof_impl
from numba.cuda.typeconv import Conversion
from numba.cuda.typing.templates import AbstractTemplate, signature

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
    "register_model",
    "signature",
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
        result = compile_cuda(
            function, types.void, arguments, fastmath=fastmath, nvvm_options=options, cc=capability, abi="numba"
        )
    except (NumbaError, core_errors.NumbaError) as error:
        raise CompilerError(str(error)) from error
    library = result.library
    kernel = library.get_function(result.fndesc.llvm_func_name)
    library._entry_name = result.fndesc.llvm_func_name
    kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, launch_bounds)
    (text,) = library.get_asm_strs(cc=capability)
    return _in_clusters(str(text), cluster)


def _in_clusters(ptx: str, cluster: int) -> str:
    """Numba and NVVM cannot state the shape of a cluster, so it is written into the entry's directives."""
    if cluster == 1:
        return ptx
    return re.sub(r"^(\.maxntid .*)$", rf"\1\n.reqnctapercluster {cluster}, 1, 1", ptx, count=1, flags=re.MULTILINE)
