"""Arrays beyond 2**31 elements, and the same bits on every stream."""

from __future__ import annotations

import pytest

from tests.gpu import bits, large

pytestmark = pytest.mark.gpu


@pytest.mark.slow
@pytest.mark.parametrize("name", large.CHECKS)
def test_large_arrays(name: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_properties(0).total_memory < 60 << 30:
        pytest.skip("the arrays need 60 GB of device memory")
    large.CHECKS[name](torch)


@pytest.mark.parametrize("name", bits.PROGRAMS)
def test_the_same_bits_on_every_stream(name: str) -> None:
    bits.check(pytest.importorskip("torch"), name)


@pytest.mark.parametrize("name", bits.OF_ROWS)
def test_the_same_bits_for_any_number_of_rows(name: str) -> None:
    bits.check_rows(pytest.importorskip("torch"), name)
