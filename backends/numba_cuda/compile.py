"""Printed kernel text to PTX, without a GPU; `assemble` turns PTX into machine code where an assembler is found."""

from __future__ import annotations

import hashlib
import json
import linecache
import re
import struct
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from polyfuse.codegen.lifetimes import separated
from polyfuse.errors import CompileError
from polyfuse.kernel import ArrayParameter, Parameter, ScalarParameter, SizeParameter

STATIC_SHARED_LIMIT = 48 * 1024  # bytes; more has to be asked for at the launch
_PORTABLE_PTX = (8, 1)  # the oldest PTX that has everything we emit for sm_80 to sm_90: drivers of CUDA 12.1 take it
_PRAGMA_PTX = (8, 3)  # the pragma `used_bytes_mask`, which NVVM puts beside partly used vector loads
_POOL = "shared_pool"
_HEADER = struct.Struct("<II")  # lengths of the description and of the PTX text; the machine code follows


@dataclass(frozen=True, slots=True)
class Resources:
    """What the assembler found that a kernel needs, per thread: registers, bytes of local memory, bytes spilled."""

    registers: int
    local_bytes: int
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel as PTX, and as machine code once assembled.

    `argument_format`: the characters of module `struct`, one per parameter in order.  `shared_bytes`: all shared
    memory of a block; `dynamic_shared`: the part of it that the launch has to ask for, 0 or everything.
    """

    entry: str
    ptx: str
    threads: int
    minimum_blocks: int
    capability: tuple[int, int]
    argument_format: str
    shared_bytes: int
    dynamic_shared: int
    cubin: bytes | None = None
    resources: Resources | None = None
    cluster: int = 1  # blocks that the launch groups

    def to_bytes(self) -> bytes:
        """Description, PTX, machine code where there is some."""
        fields = asdict(self)
        ptx, cubin = fields.pop("ptx").encode(), self.cubin or b""
        del fields["cubin"]
        description = json.dumps(fields).encode()
        return b"".join((_HEADER.pack(len(description), len(ptx)), description, ptx, cubin))

    @staticmethod
    def from_bytes(data: bytes) -> CompiledKernel:
        """The inverse of `to_bytes`.  Raises ValueError for anything else."""
        try:
            length, text = _HEADER.unpack_from(data)
            description = json.loads(data[_HEADER.size : _HEADER.size + length])
            start = _HEADER.size + length
            description["capability"] = tuple(description["capability"])
            found = description.pop("resources")
            resources = Resources(**found) if found is not None else None
            ptx, cubin = data[start : start + text].decode(), data[start + text :] or None
            return CompiledKernel(**description, ptx=ptx, cubin=cubin, resources=resources)
        except (struct.error, KeyError, TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"not a stored CUDA kernel: {error}") from error


# ---------------------------------------------------------------------------------------------- parameters

_FORMATS = dict(zip("bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64".split(), "?bhiqBHIQfd", strict=True))
_FORMATS |= {"f16": "f", "bf16": "f"}  # 16-bit floats are passed as they live in registers
_NUMBA = {"bool": "boolean", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"} | {
    f"{kind}{bits}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)
}


def _argument_format(parameter: Parameter, index_bits: int) -> str:
    match parameter:
        case ArrayParameter():
            return "Q"
        case SizeParameter():
            return "q" if index_bits == 64 else "i"
        case ScalarParameter():
            return _FORMATS[parameter.dtype.name]


def argument_formats(parameters: Sequence[Parameter], index_bits: int) -> str:
    """One character of module `struct` per parameter."""
    return "".join(_argument_format(p, index_bits) for p in parameters)


def _argument_type(parameter: Parameter, index_bits: int) -> Any:
    from polyfuse.backends.numba_cuda.fragments.values import DTYPES, Fragment, Pointer, register_dtype

    match parameter:
        case ArrayParameter():
            constant = parameter.readonly and not parameter.overwritten
            return Pointer(DTYPES[_NUMBA[parameter.dtype.name]], readonly=constant)
        case SizeParameter():
            return Fragment(DTYPES[f"int{index_bits}"], (), weak=True)
        case ScalarParameter():
            return Fragment(register_dtype(DTYPES[_NUMBA[parameter.dtype.name]]), (), weak=True)


# ---------------------------------------------------------------------------------------------- text to PTX


def compile_kernel(
    source: str,
    name: str,
    parameters: Sequence[Parameter],
    threads: int,
    capability: tuple[int, int],
    minimum_blocks: int = 1,
    index_bits: int = 32,
    *,
    contract: bool = True,
    fastmath: bool = False,
    cluster: int = 1,
) -> CompiledKernel:
    """Compile the kernel `name` of a printed module (tile constants and functions over fragments) to PTX.

    `parameters` in the order of the function's parameters.  `threads` per block; `minimum_blocks` per multiprocessor
    bounds the registers.  `cluster`: neighbouring blocks that run together.  `contract`: a multiply and an add may
    become one fused multiply-add.  Needs no GPU.
    Raises `CompileError` when the text does not type or lower: a defect of the printer.
    """
    from polyfuse.backends.numba_cuda import numba_api
    from polyfuse.backends.numba_cuda.fragments.runtime import namespace

    function = _execute(source, name, namespace(index_bits))
    types = tuple(_argument_type(p, index_bits) for p in parameters)
    try:
        text = numba_api.compile_ptx(
            function,
            types,
            capability,
            (threads, minimum_blocks),
            contract=contract,
            fastmath=fastmath,
            cluster=cluster,
        )
    except numba_api.CompilerError as error:
        raise CompileError(
            f"kernel {name} does not compile:\n{_essence(str(error))}",
            advice="This is a defect of the code generator; the kernel text is the reproducer.",
        ) from error
    entry = re.search(r"\.visible \.entry (\w+)\(", text)
    assert entry is not None
    text = _portable(text.replace(entry[1], name), capability)
    text, shared, dynamic = _place_shared(text)
    formats = argument_formats(parameters, index_bits)
    _BEGUN.set()
    return CompiledKernel(name, text, threads, minimum_blocks, capability, formats, shared, dynamic, cluster=cluster)


_BEGUN = threading.Event()


def begun() -> bool:
    """Whether this process has compiled a kernel: what Numba makes once per process is there."""
    return _BEGUN.is_set()


def _execute(source: str, name: str, names: dict[str, Any]) -> Any:
    """Run the module text; its lines stay readable in tracebacks."""
    file = f"<polyfuse {name} {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names["__name__"] = "polyfuse_kernel"
    exec(compile(separated(source), file, "exec"), names)
    if name not in names:
        raise CompileError(f"the module text defines no function {name}")
    return names[name]


def _essence(report: str) -> str:
    """Our own reasons and the kernel's lines out of Numba's report, or its beginning where it has none of ours."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", report).splitlines() if line.strip()]
    reasons = [line.partition(": ")[2] for line in lines if line.startswith("TypingError: ")]
    shown = [line for line in lines if line.startswith(("During: ", 'File "<polyfuse'))]
    kept = dict.fromkeys([*reasons, *shown] if reasons else lines)
    return "\n".join(list(kept)[:25])


def _portable(ptx: str, capability: tuple[int, int]) -> str:
    """Name the oldest PTX version that suffices, so that older drivers and assemblers take the text as well."""
    if capability > (9, 0):
        return ptx
    major, minor = _PRAGMA_PTX if "used_bytes_mask" in ptx else _PORTABLE_PTX
    return re.sub(r"^\.version .*$", f".version {major}.{minor}", ptx, count=1, flags=re.MULTILINE)


_SHARED = re.compile(r"^[ \t]*(?:\.visible |\.weak )?\.shared \.align \d+ \.b8 (\S+)\[(\d+)\];\n", re.MULTILINE)


def _place_shared(ptx: str) -> tuple[str, int, int]:
    """(PTX, bytes of shared memory per block, bytes of it that are dynamic).

    More than 48 KB can only be dynamic: then every buffer becomes a place in one pool ::

        .shared .align 16 .b8 a[65536];             .extern .shared .align 16 .b8 shared_pool[];
        mov.u64 %rd1, a;                   ->       mov.u64 %rd1, shared_pool+0;
        ld.shared.f32 %f1, [b+16];                  ld.shared.f32 %f1, [shared_pool+65552];
    """
    buffers = [(name, int(size)) for name, size in _SHARED.findall(ptx)]
    total, offsets = 0, {}
    for name, size in buffers:
        offsets[name] = total
        total += -(-size // 16) * 16
    if total <= STATIC_SHARED_LIMIT:
        return ptx, total, 0
    text = _SHARED.sub("", ptx)

    def moved(found: re.Match[str]) -> str:
        return f"{_POOL}+{offsets[found[1]] + int(found[2] or 0)}"

    names = "|".join(map(re.escape, sorted(offsets, key=len, reverse=True)))
    text = re.sub(rf"(?<![\w$%.])({names})(?:\+(\d+))?(?![\w$])", moved, text)
    declaration = f".extern .shared .align 16 .b8 {_POOL}[];\n\n.visible .entry"
    return text.replace(".visible .entry", declaration, 1), total, total
