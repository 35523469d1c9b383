"""The CUDA driver: lazily imported, errors as exceptions, one retained primary context per device.

Primary contexts are the ones that torch, CuPy and Numba use, so pointers and streams of theirs are valid here.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from polyfuse.errors import DeviceError


@functools.cache
def driver() -> Any:
    """The module `cuda.bindings.driver`, initialised; raises `DeviceError` when there is no usable driver."""
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        raise DeviceError("the CUDA driver bindings are not installed", advice="pip install polyfuse[cuda]") from error
    try:
        (status,) = api.cuInit(0)
    except (RuntimeError, OSError) as error:  # the bindings load libcuda here
        raise DeviceError(f"no CUDA driver: {error}") from error
    if int(status):
        raise DeviceError(f"the CUDA driver does not start: {status.name}")
    return api


def check(outcome: tuple[Any, ...], doing: str) -> Any:
    """The results of a driver call without its status; raises `DeviceError` naming what failed."""
    status, *results = outcome
    if int(status):
        raise failure(status, doing)
    return results[0] if len(results) == 1 else tuple(results)


def failure(status: Any, doing: str) -> DeviceError:
    """The error for a status of the driver, in its own words."""
    code, text = driver().cuGetErrorString(status)
    words = text.decode() if not int(code) and text else "unknown error"
    name = str(getattr(status, "name", status))
    return DeviceError(f"{doing}: {words} ({name})", advice=_ADVICE.get(name.removeprefix("CUDA_ERROR_"), ""))


_UPDATE = "Update the NVIDIA driver, or install a CUDA toolkit no newer than it."
_DEFECT = 'An earlier kernel may have failed, and a new process is needed; backend="interpreter" finds the fault.'
_ADVICE = {
    "OUT_OF_MEMORY": "Free what other libraries hold (torch.cuda.empty_cache()), or call with fewer rows at a time.",
    "NO_DEVICE": "Pass NumPy arrays to run on the CPU.",
    "UNSUPPORTED_PTX_VERSION": _UPDATE,
    "SYSTEM_DRIVER_MISMATCH": _UPDATE,
    "NO_BINARY_FOR_GPU": _UPDATE,
    "ILLEGAL_ADDRESS": _DEFECT,
    "MISALIGNED_ADDRESS": _DEFECT,
    "LAUNCH_FAILED": _DEFECT,
}
"""What to do, by the driver's name of an error."""


def device_count() -> int:
    """Number of devices; 0 where there is no driver."""
    try:
        return int(check(driver().cuDeviceGetCount(), "counting devices"))
    except DeviceError:
        return 0


@functools.cache
def primary_context(ordinal: int) -> Any:
    """The primary context of a device, retained until the process ends."""
    api = driver()
    device = check(api.cuDeviceGet(ordinal), f"finding CUDA device {ordinal}")
    return check(api.cuDevicePrimaryCtxRetain(device), f"starting CUDA device {ordinal}")


@functools.cache
def capability(ordinal: int = 0) -> tuple[int, int]:
    """The compute capability of a device, such as (9, 0)."""
    api = driver()
    device = check(api.cuDeviceGet(ordinal), f"finding CUDA device {ordinal}")
    names = api.CUdevice_attribute
    wanted = (
        names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    )
    major, minor = (int(check(api.cuDeviceGetAttribute(name, device), "asking for the capability")) for name in wanted)
    return major, minor


def shared_page(ordinal: int, size: int) -> int:
    """The address of `size` zero bytes of page-locked host memory, the same for the host and the kernels of every
    device; kept until the process ends."""
    api = driver()
    portable, mapped = api.CU_MEMHOSTALLOC_PORTABLE, api.CU_MEMHOSTALLOC_DEVICEMAP
    with current_context(ordinal):
        address = int(check(api.cuMemHostAlloc(size, portable | mapped), "allocating page-locked memory"))
    ctypes.memset(address, 0, size)
    return address


@contextlib.contextmanager
def current_context(ordinal: int = 0) -> Iterator[None]:
    """Make the device's primary context current for a while."""
    api = driver()
    check(api.cuCtxPushCurrent(primary_context(ordinal)), "entering a CUDA context")
    try:
        yield
    finally:
        check(api.cuCtxPopCurrent(), "leaving a CUDA context")
