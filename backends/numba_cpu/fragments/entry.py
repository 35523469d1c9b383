"""From a kernel function to machine code: Numba types and lowers it, one LLVM pipeline optimises it.

The object code exports one C function, ``void polyfuse_kernel(int64 *launch)``.  `launch` points to a record of 64-bit
words (`LaunchWord`, then one word per parameter).  The function takes chunks of consecutive blocks from a counter in
the record until none is left, so any number of threads may run it on one record at the same time.
"""

from __future__ import annotations

import types as python_types
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba.core import types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from polyfuse.backends.numba_cpu.fragments.blocks import INDEX_RANGE
from polyfuse.backends.numba_cpu.fragments.frame import CACHE_LINE, FRAME, SCRATCH, scratch_bytes
from polyfuse.backends.numba_cpu.fragments.object_code import (
    ENTRY,
    LaunchWord,
    ObjectCode,
    host_processor,
    object_code,
    target_machine,
)
from polyfuse.backends.numba_cpu.fragments.pipeline import KernelCompiler
from polyfuse.backends.numba_cpu.fragments.types import BYTE_POINTER, Fragment, Pointer
from polyfuse.backends.numba_cpu.fragments.vectors import I32, I64, Builder, Value, stack_slot

# Larger scratch comes from the heap: threads that Numba does not own may have stacks of 512 KB.
STACK_SCRATCH = 128 * 1024
# Calls of one mathematical function in a kernel up to which its body is copied into each.
MOST_INLINED = 16
# Basic blocks of a kernel from which it is made of many short loops, as for each of many arrays that are joined: to
# unroll them takes longer to compile than running them saves.
MANY_BLOCKS = 100
# Operations whose steps wait for those of the trip in front: prefixes of rows gain by being unrolled.
PREFIXES = "scan_"


def _flags() -> Any:
    flags = Flags()
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.forceinline = True
    flags.error_model = "numpy"
    return flags


def _lowered(function: Callable[..., None], arguments: Sequence[Any]) -> tuple[ir.Module, str]:
    """The LLVM module of a kernel function, and its name there."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    modules: list[ir.Module] = []
    library = cpu_target.target_context.codegen().create_library(function.__name__)
    library.add_ir_module = modules.append  # kept as text: this project's own pipeline optimises it
    result = compile_extra(
        cpu_target.typing_context,
        cpu_target.target_context,
        function,
        tuple(arguments),
        types.void,
        _flags(),
        {},
        library=library,
        pipeline_class=KernelCompiler,
    )
    return modules[-1], result.fndesc.llvm_func_name


@global_compiler_lock
def compile_function(
    function: Callable[..., None], arguments: Sequence[Any], names: dict[str, Any], nontemporal: bool
) -> ObjectCode:
    """Compile `function`, whose global names are looked up in `names` first.

    `arguments`: one Numba type per parameter, `Pointer` or a weak 0-d `Fragment`.  `nontemporal`: whether some store
    bypasses the cache.  Raises Numba's errors where the function does not type.
    """
    code = function.__code__
    code = code.replace(co_names=tuple(INDEX_RANGE if name == "range" else name for name in code.co_names))
    merged = python_types.FunctionType(code, {**function.__globals__, **names}, function.__name__)
    module, symbol = _lowered(merged, arguments)
    scratch = scratch_bytes(module)
    _add_entry(module, symbol, arguments, scratch, nontemporal)
    if not any(name.startswith(PREFIXES) for name in code.co_names):
        _limit_unrolling(module)
    return ObjectCode(object_code(_optimised(module, target_machine())), host_processor())


def _optimised(module: ir.Module, machine: Any) -> Any:
    """The LLVM module after the standard pipeline, without the loop and superword vectorisers: fragments are vectors
    already, and the two would cost a third of the time."""
    from numba.core import cgutils

    _limit_inlining(module)
    module.triple = binding.get_process_triple()
    module.data_layout = str(machine.target_data)
    parsed = binding.parse_assembly(cgutils.normalize_ir_text(str(module)))
    for function in parsed.functions:
        if not function.is_declaration and function.name != ENTRY:
            function.linkage = "internal"
    parsed.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = max(len(f.blocks) for f in module.functions) < MANY_BLOCKS
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


def _limit_inlining(module: ir.Module) -> None:
    """Keep functions with many calls out of line: a row of 4096 slots calls `exp` 128 times, and copying its body as
    often takes LLVM longer than running it saves."""
    calls = Counter(
        instruction.callee.name
        for function in module.functions
        for block in function.blocks
        for instruction in block.instructions
        if isinstance(instruction, ir.CallInstr)
    )
    for function in module.functions:
        if calls[function.name] > MOST_INLINED and "alwaysinline" in function.attributes:
            function.attributes.discard("alwaysinline")
            function.attributes.add("noinline")


def _limit_unrolling(module: ir.Module) -> None:
    """Keep loops of unknown length as they are: a trip is a vector or more already, and eight trips at once are as many
    times the code (LLVM took a fifth of its time for them) for no time saved."""
    disable = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.runtime.disable")])
    for function in module.functions:
        place = {block.name: k for k, block in enumerate(function.blocks)}
        for block in function.blocks:
            branch = block.terminator
            targets = [o for o in getattr(branch, "operands", ()) if isinstance(o, ir.Block)]
            if any(place[target.name] <= place[block.name] for target in targets):
                loop = module.add_metadata([disable, I32(len(module.metadata))])  # a number makes it one of its own
                loop.operands = (loop, disable)
                branch.set_metadata("llvm.loop", loop)


# ---------------------------------------------------------------------------------------------- the entry point


def _add_entry(module: ir.Module, symbol: str, arguments: Sequence[Any], scratch: int, nontemporal: bool) -> None:
    kernel = module.globals[symbol]
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), ENTRY)
    entry.args[0].add_attribute("noalias")
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    record = entry.args[0]
    words = {word: _word(builder, record, word) for word in (LaunchWord.CHUNK, LaunchWord.BLOCKS)}
    extents = [_word(builder, record, word) for word in (LaunchWord.EXTENT_0, LaunchWord.EXTENT_1)]
    parameters = [_parameter(builder, record, k, ty) for k, ty in enumerate(arguments)]
    frame = stack_slot(builder, FRAME)
    result = builder.alloca(kernel.args[0].type.pointee)
    failed, finish = entry.append_basic_block("failed"), entry.append_basic_block("finish")
    memory, allocated = _scratch(builder, scratch, failed)
    _set_field(builder, frame, 0, ir.Constant(ir.PointerType(), None))
    _set_field(builder, frame, SCRATCH, memory)

    def run_block(inner: Builder, places: Sequence[Value]) -> None:
        for axis, place in enumerate(places):
            _set_field(inner, frame, 1 + axis, place)
        inner.call(kernel, [result, frame, *parameters])

    _chunk_loop(builder, record, words, extents, run_block, finish)
    if allocated is not None:
        builder.call(_library(module, "free", ir.VoidType(), [ir.PointerType()]), [allocated])
    if nontemporal:
        _store_fence(builder)
    builder.ret_void()
    builder.position_at_end(failed)
    builder.store(I64(1), _address(builder, record, LaunchWord.FAILED))
    builder.ret_void()


def _address(builder: Builder, record: Value, word: int) -> Value:
    return builder.gep(record, [I64(word)], source_etype=I64)


def _word(builder: Builder, record: Value, word: int) -> Value:
    return builder.load(_address(builder, record, word), typ=I64)


def _set_field(builder: Builder, frame: Value, index: int, value: Value) -> None:
    builder.store(value, builder.gep(frame, [I32(0), I32(index)], source_etype=FRAME))


def _parameter(builder: Builder, record: Value, position: int, ty: Any) -> Value:
    """One parameter from its word; narrow numbers lie in the low bytes."""
    address = _address(builder, record, LaunchWord.PARAMETERS + position)
    if isinstance(ty, Pointer):
        return builder.load(address, typ=BYTE_POINTER)
    assert isinstance(ty, Fragment)
    if ty.dtype.kind == "b":
        return builder.trunc(builder.load(address, typ=I64), ir.IntType(1))
    return builder.load(address, typ=ty.dtype.register)


def _library(module: ir.Module, name: str, result: ir.Type, operands: Sequence[ir.Type]) -> Value:
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, operands), name)


def _scratch(builder: Builder, size: int, failed: Value) -> tuple[Value, Value | None]:
    """(aligned address, what to free): one scratch memory for all blocks that a call runs."""
    if size == 0:
        return ir.Constant(ir.PointerType(), None), None
    if size <= STACK_SCRATCH:
        buffer = stack_slot(builder, ir.ArrayType(ir.IntType(8), size))
        buffer.align = CACHE_LINE
        return buffer, None
    malloc = _library(builder.module, "malloc", ir.PointerType(), [I64])
    raw = builder.call(malloc, [I64(size + CACHE_LINE)])
    null = builder.icmp_unsigned("==", builder.ptrtoint(raw, I64), I64(0))
    found = builder.append_basic_block("scratch")
    builder.cbranch(null, failed, found)
    builder.position_at_end(found)
    up = builder.add(builder.ptrtoint(raw, I64), I64(CACHE_LINE - 1))
    return builder.inttoptr(builder.and_(up, I64(-CACHE_LINE)), ir.PointerType()), raw


def _store_fence(builder: Builder) -> None:
    """Order non-temporal stores before whatever tells other threads that the kernel is done."""
    if binding.get_process_triple().startswith("x86_64"):
        builder.call(_library(builder.module, "llvm.x86.sse.sfence", ir.VoidType(), []), [])
    else:
        builder.fence("release")


def _chunk_loop(
    builder: Builder,
    record: Value,
    words: dict[LaunchWord, Value],
    extents: Sequence[Value],
    run_block: Callable[[Builder, Sequence[Value]], None],
    finish: Value,
) -> None:
    """``while (lo = next += chunk) < blocks: for block in lo .. min(lo + chunk, blocks)``, block ids counted along."""
    blocks = words[LaunchWord.BLOCKS]
    take, chunk, block = (builder.append_basic_block(name) for name in ("take", "chunk", "block"))
    builder.branch(take)
    builder.position_at_end(take)
    lo = builder.atomic_rmw("add", _address(builder, record, LaunchWord.NEXT), words[LaunchWord.CHUNK], "monotonic")
    builder.cbranch(builder.icmp_signed("<", lo, blocks), chunk, finish)
    builder.position_at_end(chunk)
    end = builder.add(lo, words[LaunchWord.CHUNK])
    hi = builder.select(builder.icmp_signed("<", end, blocks), end, blocks)
    rest = builder.udiv(lo, extents[0])
    firsts = [builder.urem(lo, extents[0]), builder.urem(rest, extents[1]), builder.udiv(rest, extents[1])]
    builder.branch(block)
    builder.position_at_end(block)
    number = builder.phi(I64)
    places = [builder.phi(I64) for _ in range(3)]
    for phi, first in zip([number, *places], [lo, *firsts], strict=True):
        phi.add_incoming(first, chunk)
    run_block(builder, places)
    following = [builder.add(number, I64(1)), *_successor(builder, places, extents)]
    for phi, value in zip([number, *places], following, strict=True):
        phi.add_incoming(value, builder.block)
    builder.cbranch(builder.icmp_signed("<", following[0], hi), block, take)
    builder.position_at_end(finish)


def _successor(builder: Builder, places: Sequence[Value], extents: Sequence[Value]) -> list[Value]:
    """The block ids after `places`, axis 0 fastest."""
    one, zero = I64(1), I64(0)
    x = builder.add(places[0], one)
    wrap_x = builder.icmp_signed("==", x, extents[0])
    y = builder.select(wrap_x, builder.add(places[1], one), places[1])
    wrap_y = builder.icmp_signed("==", y, extents[1])
    z = builder.select(wrap_y, builder.add(places[2], one), places[2])
    return [builder.select(wrap_x, zero, x), builder.select(wrap_y, zero, y), z]
