"""What every test run shares: one hypothesis profile, and which hardware or compiler a marked test needs."""

from __future__ import annotations

import ctypes
import importlib.util
import logging
from collections.abc import Iterator

import hypothesis
import pytest

hypothesis.settings.register_profile("polyfuse", deadline=None, derandomize=True)  # a red run is red again
hypothesis.settings.load_profile("polyfuse")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-ptx", action="store_true", help="fail, instead of skipping, tests marked ptx")
    parser.addoption("--trials", type=int, default=6, help="random arguments per program and back end")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    compiler, device = importlib.util.find_spec("numba_cuda") is not None, has_device()
    if not compiler and config.getoption("--require-ptx"):
        raise pytest.UsageError("--require-ptx: the cuda extra is not installed")
    for item in items:
        if item.get_closest_marker("gpu") and not device:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU"))
        elif item.get_closest_marker("ptx") and not compiler:
            item.add_marker(pytest.mark.skip(reason="the cuda extra is not installed"))


@pytest.fixture(autouse=True)
def no_hidden_fallback(request: pytest.FixtureRequest) -> Iterator[None]:
    """A program that runs unfused after an internal failure is right, and still a failed test."""
    told: list[logging.LogRecord] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = told.append  # type: ignore[method-assign]
    log = logging.getLogger("polyfuse.failure")
    log.addHandler(handler)
    yield
    log.removeHandler(handler)
    if told and not request.node.get_closest_marker("fails_inside"):
        pytest.fail("\n".join(record.getMessage() for record in told))


def has_device() -> bool:
    """Whether the driver is installed and sees a GPU; asked of the driver itself, so that nothing heavy is imported."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
