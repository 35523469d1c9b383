"""A plan as one file that runs without polyfuse: ``plan.export("softmax.py")``.

The file holds the fragment runtime, the kernels as `plan.source()` prints them, and a table from which a small launcher
(``backends/exported.py`` and ``backends/*/exported.py``, whose text is included) allocates and launches.  It needs only
Numba (and numba-cuda).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from polyfuse.affine import Affine, FloorDiv
from polyfuse.bindings import (
    FAULT,
    AnyGuard,
    Binding,
    Buffer,
    DerivedGuard,
    FromArgument,
    FromBlocks,
    FromBuffer,
    FromOutput,
    FromProduct,
    FromSize,
    Guard,
    VolumeGuard,
    is_advisory,
)
from polyfuse.codegen.names import function_name
from polyfuse.dtypes import DType, bf16
from polyfuse.errors import UnsupportedError
from polyfuse.kernel import ArrayParameter, Parameter, ScalarParameter
from polyfuse.plan import Launch, Plan, Step
from polyfuse.run.prepare import copies_of
from polyfuse.run.sizes import granted
from polyfuse.text.guards import guard_text


def export(plan: Plan, path: str | Path) -> None:
    """Write the plan as a standalone module with one function, named like the program.

    Raises UnsupportedError for plans with library calls, strided arguments or bfloat16 arguments on a CPU, and for
    functions that write their arguments.
    """
    runtime = _runtime(plan)
    name = _program_name(plan, runtime)
    plan = _renamed(plan)
    parts = [_header(plan, name), runtime, f"# {'-' * 90} kernels", _kernels(plan), _table(plan, name)]
    Path(path).write_text("\n\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _program_name(plan: Plan, runtime: str) -> str:
    """The user's name, unless the runtime has something of that name."""
    name = plan.program.name if plan.program.name.isidentifier() else "program"
    defined = {n.name for n in ast.parse(runtime).body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return f"{name}_program" if name in defined else name


def _renamed(plan: Plan) -> Plan:
    """Kernels under names that neither the runtime nor the program has."""

    def renamed(step: Step) -> Step:
        if not isinstance(step, Launch):
            return step
        return replace(step, kernel=replace(step.kernel, name=f"{step.kernel.name}_kernel"))

    return replace(plan, steps=tuple(renamed(step) for step in plan.steps))


def _header(plan: Plan, name: str) -> str:
    arguments = ", ".join(a.path for a in plan.program.arguments)
    guards = "".join(f"\n    {guard_text(guard)}" for guard in _needed(plan)) or " none"
    return f'"""{name}({arguments}), fused by polyfuse for {plan.target.name}.\n\nSizes must satisfy:{guards}\n"""'


def _needed(plan: Plan) -> list[AnyGuard]:
    """The guards without which the kernels would be wrong; those that only keep other sizes for faster plans go."""
    return list(dict.fromkeys([*granted(plan.program), *(g for g in plan.guards if not is_advisory(g))]))


_LAUNCHER = "polyfuse.backends.exported"  # the part of it that does not depend on the target


def _runtime(plan: Plan) -> str:
    if plan.target.kind == "cpu":
        from polyfuse.backends.numba_cpu.fragments.standalone import standalone_source

        return "\n\n".join([standalone_source(), *map(_text, (_LAUNCHER, "polyfuse.backends.numba_cpu.exported"))])
    from polyfuse.backends.numba_cuda.standalone import standalone_source as cuda_source

    return "\n\n".join([cuda_source(_bits(plan)), *map(_text, (_LAUNCHER, "polyfuse.backends.numba_cuda.exported"))])


def _text(module: str) -> str:
    """A module, read and not imported, without its docstring and the imports that the runtime already satisfies."""
    found = find_spec(module)
    assert found is not None and found.origin is not None
    source = Path(found.origin).read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.parse(source).body:
        ours = isinstance(node, ast.ImportFrom) and str(node.module).startswith(("polyfuse", "__future__"))
        document = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if ours or document:
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines).strip()


def _kernels(plan: Plan) -> str:
    if len(plan.launches) != len(plan.steps):
        raise UnsupportedError(
            "a plan with library calls cannot be exported",
            advice="export the parts before and after the call as functions of their own",
        )
    return plan.source()


def _bits(plan: Plan) -> int:
    return max((launch.kernel.index_bits for launch in plan.launches), default=32)


# ---------------------------------------------------------------------------------------------- the table


def _table(plan: Plan, name: str) -> str:
    program = plan.program
    if any(layout.strides is not None for layout in plan.layouts):
        raise UnsupportedError("a plan for strided arguments cannot be exported", advice="plan for contiguous arrays")
    if program.writes:
        path = program.arguments[min(program.writes)].path
        problem = f"a function that writes its argument {path} cannot be exported"
        raise UnsupportedError(problem, advice="return the new contents instead")
    lines = [f"{name} = ExportedProgram(", f"    {name!r},", "    arguments=["]
    for argument in program.arguments:
        shape = None if argument.is_scalar else [_extent(n) for n in argument.shape]
        lines.append(f"        ({argument.path!r}, {_dtype(argument.dtype)!r}, {shape!r}),")
    lines += ["    ],", "    outputs=["]
    lines += [f"        ({_dtype(o.dtype)!r}, lambda s: {_shape(o.shape)})," for o in program.outputs]
    lines += ["    ],", "    buffers=["]
    for b in _buffers(plan):
        extents = _shape(b.shape, dict(b.derived))
        lines.append(f"        ({_dtype(b.dtype)!r}, lambda s: {extents}, {b.zeroed}),")
    lines += ["    ],", "    guards=["]
    lines += [f"        ({guard_text(g)!r}, lambda s: {_guard(g)})," for g in _needed(plan)]
    lines += ["    ],", "    launches=["]
    for launch in plan.launches:
        lines += _launch(plan, launch)
    buffers = [b.name for b in _buffers(plan)]
    copies = [f"({_binding(target, buffers)}, {_binding(source, buffers)})" for target, source in copies_of(plan)]
    checks = [f"{site.fault(program).message} in {program.name}" for site in plan.sites]
    lines += ["    ],", f"    index_bits={_bits(plan)},", f"    checks={checks!r},"]
    return "\n".join([*lines, f"    copies=[{', '.join(copies)}],", ")"])


def _buffers(plan: Plan) -> list[Buffer]:
    """The status word last."""
    return sorted(plan.buffers, key=lambda buffer: buffer.name == FAULT)


def _launch(plan: Plan, launch: Launch) -> list[str]:
    kernel = launch.kernel
    products = {
        p.name: binding.factors
        for p, binding in zip(kernel.parameters, launch.bindings, strict=True)
        if isinstance(binding, FromProduct)
    }
    named = {p.name: b for p, b in zip(kernel.parameters, launch.bindings, strict=True) if isinstance(b, FromBlocks)}
    (grid, *more) = kernel.grid
    whole = named.get(str(grid)) if not more else None
    blocks = _total(whole) if whole is not None else " * ".join(f"({_python(n, products)})" for n in kernel.grid)
    buffers = [b.name for b in _buffers(plan)]
    return [
        "        ExportedLaunch(",
        f"            {function_name(kernel.name)},",
        f"            {[_parameter(p) for p in kernel.parameters]!r},",
        f"            lambda s: {blocks},",
        f"            [{', '.join(_binding(b, buffers) for b in launch.bindings)}],",
        *([f"            {kernel.block_threads},"] if plan.target.kind == "cuda" else []),
        *([f"            cluster={kernel.cluster},"] if kernel.cluster > 1 else []),
        "        ),",
    ]


def _parameter(parameter: Parameter) -> tuple[str, str]:
    match parameter:
        case ArrayParameter(dtype=dtype, readonly=readonly):
            return ("in" if readonly else "out", _fragment(dtype))
        case ScalarParameter(dtype=dtype):
            return ("scalar", _fragment(dtype))
        case _:
            return ("size", "")


def _binding(binding: Binding, buffers: Sequence[str]) -> str:
    match binding:
        case FromArgument(position):
            return f"('argument', {position})"
        case FromOutput(position):
            return f"('output', {position})"
        case FromBuffer(name):
            return f"('buffer', {buffers.index(name)})"
        case FromSize(expression):
            return f"('size', lambda s: {_python(expression)})"
        case FromBlocks():
            return f"('size', lambda s: {_total(binding)})"
        case FromProduct(factors):
            return f"('size', lambda s: {' * '.join(f'({_python(f)})' for f in factors)})"
        case _:
            raise UnsupportedError("a plan for strided arguments cannot be exported")


def _total(blocks: FromBlocks) -> str:
    """The blocks of all grids together."""
    pairs = zip(blocks.grids, map(dict, blocks.derived), strict=True)
    grids = (" * ".join(f"max(0, {_python(n, products)})" for n in grid) for grid, products in pairs)
    return " + ".join(grids) or "0"


def _guard(guard: AnyGuard) -> str:
    if isinstance(guard, DerivedGuard):
        return _condition(guard.guard, dict(guard.derived))
    return _condition(guard, {})


def _condition(guard: Guard | VolumeGuard, products: dict[str, tuple[Affine, ...]]) -> str:
    if isinstance(guard, Guard):
        return _test(guard, products)
    volume = " * ".join(f"({_python(n, products)})" for n in guard.shape) or "1"
    return f"{volume} {'>' if guard.exceeds else '<='} {guard.limit}"


def _test(guard: Guard, products: dict[str, tuple[Affine, ...]]) -> str:
    text = _python(guard.expression, products)
    return f"({text}) % {guard.modulus} {'!=' if guard.negated else '=='} 0" if guard.modulus else f"{text} >= 0"


def _python(expression: Affine, products: dict[str, tuple[Affine, ...]] | None = None) -> str:
    """An affine expression over the sizes in ``s``."""
    parts = []
    for atom, factor in expression.terms:
        if isinstance(atom, FloorDiv):
            text = f"(({_python(atom.numerator, products)}) // {atom.denominator})"
        elif products and atom in products:
            text = f"({' * '.join(f'({_python(f)})' for f in products[atom])})"
        else:
            text = f"s[{atom!r}]"
        parts.append(text if factor == 1 else f"{factor} * {text}")
    if expression.constant or not parts:
        parts.append(str(expression.constant))
    return " + ".join(parts).replace("+ -", "- ")


def _shape(shape: Sequence[Affine], products: dict[str, tuple[Affine, ...]] | None = None) -> str:
    return f"({''.join(_python(n, products) + ', ' for n in shape)})"


def _extent(extent: Affine) -> str | int:
    if extent.is_constant:
        return extent.constant
    name = str(extent)
    if not name.isidentifier():
        raise UnsupportedError(f"an argument axis of {name} cannot be exported", advice="give every axis a letter")
    return name


def _dtype(dtype: DType) -> str:
    if dtype == bf16:
        raise UnsupportedError("bfloat16 arrays cannot be exported: NumPy has no such type", advice="export float32")
    return str(dtype.numpy)


def _fragment(dtype: DType) -> str:
    return "boolean" if dtype.kind == "b" else _dtype(dtype)
