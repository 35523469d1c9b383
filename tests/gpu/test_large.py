"""Arrays beyond 2**31 elements, and the same bits on every stream."""

from __future__ import annotations

import pytest

from tests.gpu import large, streams

pytestmark = pytest.mark.gpu


@pytest.mark.slow
@pytest.mark.parametrize("name", large.CHECKS)
def test_large_arrays(name: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_properties(0).total_memory < 60 << 30:
        pytest.skip("the arrays need 60 GB of device memory")
    large.CHECKS[name](torch)


@pytest.mark.parametrize("name", streams.PROGRAMS)
def test_the_same_bits_on_every_stream(name: str) -> None:
    streams.check(pytest.importorskip("torch"), name)
