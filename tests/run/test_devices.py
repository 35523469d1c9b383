"""All arrays of a call lie on one device, and that device decides the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from polyfuse.errors import ArgumentError
from polyfuse.face.joined import target_of
from polyfuse.run.arrays import HOST, Device
from polyfuse.run.dispatch import Jitted
from polyfuse.run.libraries.numpy_arrays import NUMPY
from polyfuse.run.prepare import Leaf
from polyfuse.run.variants import Fitted, device_of

Jit = Callable[..., Jitted]


def on(device: Device) -> Leaf:
    array = np.zeros(4, np.float32)
    return Leaf(array, replace(NUMPY.facts(array), device=device), NUMPY)


@pytest.fixture
def call(jit: Jit) -> Fitted:
    f = jit(lambda x, y: x + y)
    f(np.zeros(4, np.float32), np.zeros(4, np.float32))
    (variant,) = f._variants.all()
    return Fitted(variant, [], {}, {})


def test_one_device(call: Fitted) -> None:
    assert device_of(replace(call, leaves=[on(Device("cuda", 1))] * 2)) == Device("cuda", 1)
    assert device_of(replace(call, leaves=[Leaf(1.0), on(HOST)])) == HOST
    assert device_of(replace(call, leaves=[Leaf(1.0), Leaf(2)])) is None


def test_two_devices_are_an_error_that_names_both_arguments(call: Fitted) -> None:
    with pytest.raises(ArgumentError, match="x is on cpu, y is on cuda:0"):
        device_of(replace(call, leaves=[on(HOST), on(Device("cuda"))]))
    with pytest.raises(ArgumentError, match="x is on cuda:0, y is on cuda:1"):
        device_of(replace(call, leaves=[on(Device("cuda")), on(Device("cuda", 1))]))


def test_the_host_is_the_cpu_target() -> None:
    assert target_of(HOST).kind == "cpu"
    assert target_of(None).kind == "cuda"
