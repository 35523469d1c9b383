"""How many blocks a processor is asked for, where the compiler would take registers as it likes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polyfuse as pf
from benchmarks.compile_programs import programs
from benchmarks.peers import polyfuse_function
from polyfuse.cost.prices import price
from polyfuse.explain.kernels import KernelView
from polyfuse.target import H200

TERMS = "means of 3 x 3 x 3 of every second"
"""27 terms, which windows and elementwise threads take an H200 as long for."""


def first_kernel(name: str) -> KernelView:
    """Of the benchmark program with this name; of the terms elementwise."""
    (program,) = (p for _, p in programs() if p.name == name)
    options = (("strategies", {"divide": "pointwise"}),) if name == TERMS else program.options
    program = replace(program, options=options)
    specs = [pf.spec(f"{i.dtype}[{', '.join(map(str, i.shape))}]") for i in program.inputs]
    kernel: KernelView = polyfuse_function(program).plan(*specs, target="h200").kernels[0]
    return kernel


@pytest.mark.parametrize(
    ("name", "strategy", "threads"),
    [
        ("covariance of columns", "columns", 1024),
        ("largest of columns of 1000003 x 131 u8", "columns", 1024),
        ("1000000 x 64 times 64 x 16", "row_tiles", 1024),
        ("cross-entropy of 50257 bf16", "rows", 1024),
        ("entropy of 4099 bf16", "rows", 512),
        (TERMS, "pointwise", 384),
    ],
)
def test_loops_that_compute_and_threads_that_nearly_fit_have_company(name: str, strategy: str, threads: int) -> None:
    kernel = first_kernel(name)
    assert kernel.strategy == strategy
    assert kernel.schedule.minimum_blocks * kernel.schedule.block_threads == threads


@pytest.mark.parametrize(
    "name", ["masked means of 300", "row dot", "cross-entropy of 50304 bf16", "softmax of 777 bf16"]
)
def test_others_have_the_registers_that_the_compiler_likes(name: str) -> None:
    """What was measured slower, or no faster, with fewer."""
    assert first_kernel(name).schedule.minimum_blocks == 1


def test_what_is_asked_for_does_not_count_as_spilled() -> None:
    """By the price, which takes the registers that the blocks leave."""
    kernel = first_kernel(TERMS)
    free = replace(kernel.schedule, minimum_blocks=1)
    costs = [price(kernel.scop, schedule, H200, kernel.hints) for schedule in (kernel.schedule, free)]
    assert costs[0].registers == 168 < costs[1].registers
    assert costs[0].seconds <= costs[1].seconds
