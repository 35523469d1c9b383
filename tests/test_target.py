"""Targets are data; occupancy follows from registers, threads and shared memory."""

from __future__ import annotations

import pytest

from polyfuse.errors import OptionError
from polyfuse.target import A100, CPU, H200, named


def test_sixteen_more_registers_cost_three_blocks() -> None:
    """256 threads on 65,536 registers: 65536 / (32 * 256) = 8 blocks, 65536 / (48 * 256) = 5.3."""
    assert H200.registers_per_processor == 65_536
    assert H200.occupancy(threads=256, registers=32, shared=0) == 8
    assert H200.occupancy(threads=256, registers=48, shared=0) == 5


@pytest.mark.parametrize(
    "threads, registers, shared, blocks",
    [
        (1024, 32, 0, 2),  # threads: 2048 / 1024
        (1024, 64, 0, 1),  # registers: 65536 / (64 * 1024)
        (1024, 255, 0, 0),  # 32 warps of 255 registers do not fit
        (32, 16, 0, 32),  # never more blocks than the limit
        (256, 33, 0, 6),  # registers are allocated per warp in units of 256: 33 count as 40
        (33, 32, 0, 32),  # a started warp is a whole warp: 2 x 32 threads
        (128, 32, 47 * 1024, 4),  # shared memory: 228 KB / (47 + 1) KB
        (128, 32, 227 * 1024, 1),
        (128, 32, 228 * 1024, 0),
        (256, 1, 0, 8),  # at least 16 registers a thread are allocated
    ],
)
def test_occupancy_is_the_tightest_limit(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert H200.occupancy(threads, registers, shared) == blocks


def test_occupancy_never_grows_with_need() -> None:
    for threads in (32, 96, 256, 1024):
        for registers in range(16, 250, 7):
            blocks = H200.occupancy(threads, registers, 1024)
            assert H200.occupancy(threads, registers + 8, 1024) <= blocks
            assert H200.occupancy(threads, registers, 9000) <= blocks
            assert H200.occupancy(threads + 32, registers, 1024) <= blocks


def test_less_shared_memory_fits_fewer_blocks() -> None:
    assert A100.occupancy(128, 32, 40 * 1024) == 4 < H200.occupancy(128, 32, 40 * 1024)


def test_a_core_runs_one_block() -> None:
    assert CPU.occupancy(threads=1, registers=16, shared=1 << 20) == 1


def test_ridge_is_operations_per_byte() -> None:
    assert H200.ridge == pytest.approx(60e12 / 4.28e12)


def test_targets_by_name() -> None:
    assert named("h200") is H200 is named("sm_90")
    with pytest.raises(OptionError, match=r"unknown target 'h900'\s+built in: .*h200"):
        named("h900")
