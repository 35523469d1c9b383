"""The Numba passes that a kernel needs."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode


class KernelCompiler(CompilerBase):
    """Numba's pipeline without closures, literal unrolling, overload inlining and rewrites of arrays: kernels have
    none of these, and the passes that look for them take half of the time."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("fragments")
        passes.add_pass(TranslateByteCode, "bytecode to Numba's representation")
        passes.add_pass(FixupArgs, "argument names and types")
        passes.add_pass(IRProcessing, "variable lifetimes")
        passes.add_pass(ReconstructSSA, "a name assigned again may change its shape")
        passes.add_pass(NopythonTypeInference, "fragments get their dtypes and shapes")
        passes.add_pass(PreLowerStripPhis, "lowering knows variables, not phi nodes")
        passes.add_pass(IRLegalization, "deletes of variables that lowering expects")
        passes.add_pass(NativeLowering, "operations emit LLVM")
        passes.add_pass(NoPythonBackend, "collect the result")
        passes.finalize()
        return [passes]
