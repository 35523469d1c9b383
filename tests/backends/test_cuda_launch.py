"""Launching, against a driver that writes down what it is asked: packing, contexts, errors, shared memory."""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from polyfuse.backends.numba_cuda import driver as driver_module
from polyfuse.backends.numba_cuda import launch as launch_module
from polyfuse.backends.numba_cuda.assemble import resources_from
from polyfuse.backends.numba_cuda.compile import CompiledKernel
from polyfuse.backends.numba_cuda.launch import Launcher
from polyfuse.errors import DeviceError


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_INVALID_CONTEXT = 201


class FakeDriver:
    """Answers as `cuda.bindings.driver` does: tuples that begin with a status."""

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic")

    def __init__(self, formats: str) -> None:
        self.formats, self.depth = formats, 0
        self.launches: list[tuple[Any, ...]] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.answers: list[Status] = []

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return Status.CUDA_SUCCESS, ordinal

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        return Status.CUDA_SUCCESS, f"context {device}"

    def cuCtxPushCurrent(self, context: str) -> tuple[Any, ...]:
        self.depth += 1
        return (Status.CUDA_SUCCESS,)

    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        self.depth -= 1
        return Status.CUDA_SUCCESS, "context"

    def cuModuleLoadData(self, cubin: bytes) -> tuple[Any, ...]:
        assert self.depth == 1, "modules are loaded in a context"
        return Status.CUDA_SUCCESS, "module"

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[Any, ...]:
        return Status.CUDA_SUCCESS, name

    def cuFuncSetAttribute(self, *arguments: Any) -> tuple[Any, ...]:
        self.attributes.append(arguments)
        return (Status.CUDA_SUCCESS,)

    def cuGetErrorString(self, status: Status) -> tuple[Any, ...]:
        return Status.CUDA_SUCCESS, b"invalid argument"

    def cuLaunchKernel(self, function: bytes, *rest: Any) -> tuple[Any, ...]:
        *shape, stream, pointers, _ = rest
        values, offset = [], 0
        places = (ctypes.c_void_p * len(self.formats)).from_address(pointers)
        for kind, place in zip(self.formats, places, strict=True):
            size = struct.calcsize(kind)
            assert place % size == 0, "every argument lies at its natural alignment"
            values.append(struct.unpack(kind, ctypes.string_at(place, size))[0])
            offset += size
        self.launches.append((function, shape, stream, values, self.depth))
        return (self.answers.pop(0) if self.answers else Status.CUDA_SUCCESS,)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    api = FakeDriver("QiQ?d")
    for module in (driver_module, launch_module):
        monkeypatch.setattr(module, "driver", lambda: api)
    driver_module.primary_context.cache_clear()
    yield api
    driver_module.primary_context.cache_clear()


def kernel(dynamic: int = 0) -> CompiledKernel:
    return CompiledKernel("scale", "", 128, 1, (9, 0), "QiQ?d", dynamic, dynamic, cubin=b"machine code")


ARGUMENTS = (2**40, -3, 2**41, True, 0.25)


def test_arguments_are_packed_at_their_alignment(fake: FakeDriver) -> None:
    Launcher(kernel()).launch((7, 2), ARGUMENTS, stream=99)
    assert fake.launches == [(b"scale", [7, 2, 1, 128, 1, 1, 0], 99, list(ARGUMENTS), 0)]
    assert not fake.attributes and fake.depth == 0


@pytest.mark.parametrize("grid", [(0,), (4, 0), (1, 1, 0)])
def test_an_empty_grid_launches_nothing(fake: FakeDriver, grid: tuple[int, ...]) -> None:
    Launcher(kernel()).launch(grid, ARGUMENTS)
    assert not fake.launches


def test_large_dynamic_shared_memory_is_asked_for_once(fake: FakeDriver) -> None:
    launcher = Launcher(kernel(dynamic=65536))
    launcher.launch((1,), ARGUMENTS)
    launcher.launch((1,), ARGUMENTS)
    assert fake.attributes == [(b"scale", "dynamic", 65536)]
    assert [shape[-1] for _, shape, *_ in fake.launches] == [65536, 65536]


def test_a_thread_without_a_context_launches_in_the_primary_one(fake: FakeDriver) -> None:
    fake.answers = [Status.CUDA_ERROR_INVALID_CONTEXT]
    Launcher(kernel()).launch((1,), ARGUMENTS)
    assert [depth for *_, depth in fake.launches] == [0, 1] and fake.depth == 0


def test_a_failure_names_the_kernel_and_the_grid(fake: FakeDriver) -> None:
    fake.answers = [Status.CUDA_ERROR_INVALID_VALUE]
    message = "launching scale on a grid of 3 x 1 x 1 blocks of 128 threads: invalid argument"
    with pytest.raises(DeviceError, match=message):
        Launcher(kernel()).launch((3,), ARGUMENTS)


def test_a_wrong_number_of_arguments_is_refused(fake: FakeDriver) -> None:
    with pytest.raises(DeviceError, match="arguments of scale"):
        Launcher(kernel()).launch((3,), ARGUMENTS[:-1])
    assert not fake.launches


def test_resources_are_read_from_the_log_of_the_assembler() -> None:
    log = (
        "ptxas info    : Function properties for k\n"
        "    40 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 64 registers, used 1 barriers, 384 bytes cmem[0]\n"
    )
    found = resources_from(log)
    assert (found.registers, found.local_bytes, found.spilled_bytes) == (64, 40, 12)
