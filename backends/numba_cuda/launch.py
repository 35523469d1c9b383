"""Launching compiled kernels through the driver, at a few microseconds of host time a launch."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.backends.numba_cuda import single
from polyfuse.backends.numba_cuda.assemble import assemble
from polyfuse.backends.numba_cuda.compile import STATIC_SHARED_LIMIT, CompiledKernel, Resources
from polyfuse.backends.numba_cuda.driver import check, current_context, driver, failure
from polyfuse.codegen.closures import function_of
from polyfuse.errors import DeviceError

_NO_CONTEXT, _FOREIGN_CONTEXT = 201, 400  # CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE
PORTABLE_CLUSTER = 8  # blocks that every device of sm_90 and later can group; 16 have to be asked for


class Launcher:
    """A kernel on one device: loaded on the first launch, then launched from one packed argument buffer.

    Safe to use from several threads.  The module stays loaded as long as the launcher lives.
    """

    __slots__ = (
        "_api",
        "_buffer",
        "_call",
        "_function",
        "_lock",
        "_module",
        "_pack",
        "_pointers",
        "_pointers_address",
        "device",
        "kernel",
    )

    def __init__(self, kernel: CompiledKernel, device: int = 0) -> None:
        self.kernel, self.device = kernel, device
        self._lock = threading.Lock()
        self._function: Any = None
        self._module: Any = None
        # "@": every argument at its natural alignment, as the driver reads it through its pointer
        layout = struct.Struct("@" + kernel.argument_format)
        self._buffer = ctypes.create_string_buffer(max(layout.size, 1))
        self._pack = layout.pack_into
        base = ctypes.addressof(self._buffer)
        places = [base + _offset(kernel.argument_format, k) for k in range(len(kernel.argument_format))]
        self._pointers = (ctypes.c_void_p * max(len(places), 1))(*places)
        self._pointers_address = ctypes.addressof(self._pointers)

    def launch(self, grid: Sequence[int], arguments: Sequence[int | float | bool], stream: int = 0) -> None:
        """Enqueue the kernel on `stream` (a raw handle).

        `grid`: 1 to 3 extents in clusters of blocks; with an extent of 0 nothing is launched.  `arguments`: device
        addresses, sizes and scalars in the order of the kernel's parameters.  Raises `DeviceError`.
        """
        x, y, z = grid if len(grid) == 3 else (*grid, 1, 1)[:3]
        x *= self.kernel.cluster
        if x <= 0 or y <= 0 or z <= 0:
            return
        if self._function is None:
            self.load()
        with self._lock:
            try:
                self._pack(self._buffer, 0, *arguments)
            except struct.error as error:
                raise DeviceError(f"arguments of {self.kernel.entry}: {error}, {len(arguments)} given") from error
            status = self._enqueue(x, y, z, stream)
            if status and int(status) in (_NO_CONTEXT, _FOREIGN_CONTEXT):
                with current_context(self.device):  # this thread has no context yet, or another device's
                    status = self._enqueue(x, y, z, stream)
        if status:
            shape = f"a grid of {x} x {y} x {z} blocks of {self.kernel.threads} threads"
            raise failure(status, f"launching {self.kernel.entry} on {shape}")

    def _enqueue(self, x: int, y: int, z: int, stream: int) -> Any:
        kernel = self.kernel
        (status,) = self._call(
            self._function, x, y, z, kernel.threads, 1, 1, kernel.dynamic_shared, stream, self._pointers_address, 0
        )
        return int(status) and status

    def prepared(self, blocks: int, constants: Sequence[int | float | None]) -> Callable[..., None]:
        """`launch` for a grid of one axis, as a function of the stream and the arguments that vary.

        `constants`: per parameter its value in every launch, None where it varies.  Everything but the varying
        arguments and the stream is packed and wrapped for the driver once.  Such records are used again: a call takes
        one from a list and puts it back, so that any number of threads may launch.
        """
        self.load()

        def careful(stream: int, *varying: int | float | bool) -> None:
            """Mends the context, or says what is wrong."""
            given = iter(varying)
            self.launch((blocks,), [next(given) if c is None else c for c in constants], stream)

        free, is_single = deque[_Prepared](), self.replays()
        packed = _Packing.of(self.kernel.argument_format, constants)
        names = {
            "pop": free.pop,
            "push": free.append,
            "make": lambda: _Prepared(self, blocks, packed),
            "pack": packed.varying.pack_into,
            "enqueue": self.enqueuer(),
            "careful": careful,
        }
        if is_single:
            names["update"], names["replay"] = single.functions()
        return function_of(_launch_text(constants.count(None), is_single), "launch", names)

    def replays(self) -> bool:
        """Whether launches on the default stream are graphs of one node."""
        return single.is_usual()

    def enqueuer(self) -> Callable[..., int]:
        """The driver's launch function; its arguments are those of `_Prepared.wrapped`."""
        function: Callable[..., int] = _enqueue_function()
        return function

    def load(self) -> None:
        """Assemble and load the kernel, as the first launch does.  Raises `DeviceError` and `CompileError`."""
        with self._lock:
            if self._function is not None:
                return
            api = driver()
            with current_context(self.device):
                self.kernel = assemble(self.kernel)
                name = self.kernel.entry
                self._module = check(api.cuModuleLoadData(self.kernel.cubin), f"loading {name}")
                function = check(api.cuModuleGetFunction(self._module, name.encode()), f"finding {name}")
                if self.kernel.cluster > PORTABLE_CLUSTER:
                    attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                    check(api.cuFuncSetAttribute(function, attribute, 1), f"{name} needs a larger cluster")
                if self.kernel.dynamic_shared > STATIC_SHARED_LIMIT:
                    attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                    size = self.kernel.dynamic_shared
                    check(api.cuFuncSetAttribute(function, attribute, size), f"{name} needs {size} bytes shared")
            self._call = api.cuLaunchKernel
            self._function = function

    def resources(self) -> Resources:
        """Registers and local memory per thread, as assembled for this device."""
        self.load()
        found = self.kernel.resources
        assert found is not None
        return found


class _Configuration(ctypes.Structure):
    """``CUlaunchConfig`` of the driver interface."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True)
class _Packing:
    """Where the arguments of one kernel lie in a buffer: those that vary first, so that one `pack_into`
    writes them.  `offsets`: per parameter.  `initial`: the buffer with the constants in it."""

    varying: struct.Struct
    offsets: tuple[int, ...]
    initial: bytes

    @staticmethod
    def of(formats: str, constants: Sequence[int | float | None]) -> _Packing:
        """For parameters of these formats, with the value of each that is constant."""
        order = sorted(range(len(formats)), key=lambda k: constants[k] is not None)  # stable
        ordered = "".join(formats[k] for k in order)
        offsets = {k: _offset(ordered, position) for position, k in enumerate(order)}
        initial = bytearray(max(struct.calcsize("@" + ordered), 1))
        for k, constant in enumerate(constants):
            if constant is not None:
                struct.pack_into("@" + formats[k], initial, offsets[k], constant)
        varying = struct.Struct("@" + ordered[: constants.count(None)])
        return _Packing(varying, tuple(offsets[k] for k in range(len(formats))), bytes(initial))


class _Prepared:
    """The arguments of ``cuLaunchKernelEx`` for one kernel and grid.  `node`: the same as a graph, once they have been
    launched `often` on the default stream."""

    __slots__ = ("buffer", "configuration", "node", "often", "pointers", "stream", "wrapped")

    def __init__(self, launcher: Launcher, blocks: int, packing: _Packing) -> None:
        kernel = launcher.kernel
        self.stream = 0
        self.buffer = ctypes.create_string_buffer(packing.initial, len(packing.initial))
        base = ctypes.addressof(self.buffer)
        places = [base + offset for offset in packing.offsets]
        self.pointers = (ctypes.c_void_p * max(len(places), 1))(*places)
        grid, block = (blocks * kernel.cluster, 1, 1), (kernel.threads, 1, 1)
        self.configuration = _Configuration(grid, block, kernel.dynamic_shared)
        addresses = (ctypes.addressof(self.configuration), int(launcher._function), ctypes.addressof(self.pointers), 0)
        self.wrapped = tuple(map(ctypes.c_void_p, addresses))
        self.node: single.SingleNode | None = None
        self.often = 0

    def again(self) -> None:
        """One more launch on the default stream."""
        self.often += 1
        if self.often == single.OFTEN:
            made, function, pointers = self.configuration, self.wrapped[1].value, self.wrapped[2].value
            assert function and pointers, "a launch that was prepared"
            self.node = single.single_node(function, tuple(made.grid), tuple(made.block), made.shared_bytes, pointers)


@functools.cache
def _launch_text(count: int, is_single: bool) -> str:
    """The launch of a kernel with `count` arguments that vary; `is_single`: on the default stream as a graph, soon."""
    names = "".join(f", v{k}" for k in range(count))
    pack = f"pack(record.buffer, 0{names})" if count else "pass"
    plain = ["if stream != record.stream:", "    record.configuration.stream = record.stream = stream"]
    plain += ["status = enqueue(*record.wrapped)"]
    if is_single:
        update = "update(*node.update) or " if count else ""
        graph = ["else:", "    node = record.node", f"    status = {update}replay(*node.replay)"]
        plain += ["if not stream:", "    record.again()"]
        plain = ["if stream or record.node is None:", *(f"    {line}" for line in plain), *graph]
    started = "\n    ".join([pack, *plain])
    return f"""\
def launch(stream{names}):
    try:
        record = pop()
    except IndexError:
        record = make()
    {started}
    if status:
        careful(stream{names})
    push(record)
"""


@functools.cache
def _enqueue_function() -> Any:
    """``cuLaunchKernelEx`` through ctypes: with wrapped arguments it costs half of what the generated bindings do.  It
    releases the interpreter's lock, because a launch may wait for a full queue."""
    driver()  # loaded and initialised
    return ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx


def _offset(formats: str, position: int) -> int:
    """Where argument `position` starts in the packed buffer."""
    return struct.calcsize("@" + formats[: position + 1]) - struct.calcsize("@" + formats[position])
