"""Host arrays that a program holds are copied to the device of the call: once, and again when they change."""

from __future__ import annotations

import logging

import ml_dtypes
import numpy as np
import pytest

from polyfuse.run.arrays import HOST, Device
from polyfuse.run.captures import Watch
from polyfuse.run.libraries.numpy_arrays import NumPyLibrary

DEVICE = Device("cuda", 0)


def test_a_constant_is_copied_once_and_a_changed_array_again(caplog: pytest.LogCaptureFixture) -> None:
    weights = np.array([0.5, 2.0], np.float32)
    watch = Watch((lambda: weights,))
    read = watch.reader(0, NumPyLibrary(), DEVICE)
    with caplog.at_level(logging.INFO, logger="polyfuse.run"):
        first = read()
        assert first is not weights and np.array_equal(first, weights)
        assert read() is first
        weights[0] = 0.25
        assert read() is not first and read()[0] == 0.25
    assert sum("was copied to cuda:0" in r.message for r in caplog.records) == 2


def test_equal_bytes_of_another_shape_are_another_array() -> None:
    held = [np.zeros((2, 3), np.float32)]
    read = Watch((lambda: held[0],)).reader(0, NumPyLibrary(), DEVICE)
    assert read().shape == (2, 3)
    held[0] = np.zeros((3, 2), np.float32)
    assert read().shape == (3, 2)


def test_on_the_host_the_array_itself_is_read() -> None:
    weights = np.ones(3)
    assert Watch((lambda: weights,)).reader(0, NumPyLibrary(), HOST)() is weights


def test_what_is_no_numpy_array_is_read_as_it_is() -> None:
    rebound = object()
    assert Watch((lambda: rebound,)).reader(0, NumPyLibrary(), DEVICE)() is rebound


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "float16", "bfloat16"])
def test_torch_copies_every_dtype(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    from polyfuse.run.libraries.torch_tensors import TORCH

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    array = np.arange(6).reshape(2, 3).astype(kind)[:, ::-1]
    array.flags.writeable = False
    copied = TORCH.upload(array, HOST)
    assert copied.dtype == getattr(torch, dtype) and tuple(copied.shape) == (2, 3)
    assert np.array_equal(copied.float().numpy(), array.astype(np.float32))
