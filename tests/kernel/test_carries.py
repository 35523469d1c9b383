"""Totals that blocks hand on: both interpreters, in whatever order blocks run, and what the verifier refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyfuse import schedule
from polyfuse.affine import Affine
from polyfuse.backends.interpreter import collectives, faults, run_kernel, run_source
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import KernelError
from polyfuse.kernel import Carry, For, If, Inside, Kernel, Leave, Op, ThreadDigit
from polyfuse.verify.kernel import verify_kernel
from tests.kernel.kernels import B0, B1, BLOCKS, Case, T, prefix_in_order
from tests.kernel.test_run import check


@pytest.mark.parametrize("lead", [0, 1, 4, 12])
@pytest.mark.parametrize("columns", [False, True])
def test_prefixes_go_on_from_block_to_block(lead: int, columns: bool) -> None:
    check(prefix_in_order(lead, columns))


@pytest.mark.parametrize("lead", [0, 2])
def test_every_order_of_blocks_gives_the_same_bits(lead: int) -> None:
    found = []
    for seed in (None, 0, 1, 2):
        case = prefix_in_order(lead)
        run_kernel(case.kernel, case.arrays, case.sizes, {}, seed=seed)
        found.append(case.arrays["y"])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("group", [1, 2, 3, 100])
@pytest.mark.parametrize("monoid", ["sum", "max"])
@pytest.mark.parametrize("slots", [1, 2])
def test_totals_of_whole_groups_are_merged_first(group: int, monoid: str, slots: int) -> None:
    totals = [np.full((1, 8, slots), float(k)) for k in range(23)]
    before = collectives.carried(monoid, totals, totals[0], 7, 8, group)
    np.testing.assert_array_equal(before, np.full((1, 8, slots), 253.0 if monoid == "sum" else 22.0))


def test_of_several_values_groups_of_groups_are_merged_first() -> None:
    """One thread merges in turn: 2**25 swallows ones and twos that come alone, and not a four."""
    totals = [np.array([[[2.0**25 if k == 0 else 1.0, 0.0]]], np.float32) for k in range(15)]
    alone = [total[..., :1] for total in totals]
    several = collectives.carried("sum", totals, totals[0], 0, 1, 2)
    single = collectives.carried("sum", alone, alone[0], 0, 1, 2)
    # six groups of two, of which four are two groups of groups, and three blocks; a two on top of a four makes eight
    assert several[0, 0, 0] == 2.0**25 + 8 and single[0, 0, 0] == 2.0**25


def test_what_runs_and_what_is_allocated_agree() -> None:
    from polyfuse.backends.numba_cuda.fragments import carries

    for group in (1, 2, 3, 16, 64, 100, 256):
        assert carries._stretch(group) == schedule.stretch(group) >= 2 * group  # what one reads lies in two stretches
        for slots in (1, 2, 4):
            assert carries._nests(group, slots) == schedule.nests(group, slots)


def test_nothing_is_in_front_of_the_first_block() -> None:
    like = np.zeros((1, 8), np.float32)
    assert np.signbit(collectives.carried("sum", [], like, 7, 8, 4)).all()  # -0.0 changes no sum
    assert (collectives.carried("max", [], like, 7, 8, 4) == -np.inf).all()


@pytest.mark.parametrize("printed", [False, True])
def test_what_others_left_in_the_words_is_found(printed: bool) -> None:
    case = prefix_in_order()
    case.arrays["words"][0, 0, 0] = 1
    with pytest.raises(faults.CounterFault, match="not zero at launch"):
        if printed:
            run_source(print_kernel(case.kernel), case.kernel.name, case.kernel, case.arrays, case.sizes, {})
        else:
            run_kernel(case.kernel, case.arrays, case.sizes, {})


def changed(kernel: Kernel, kind: type[Op], **fields: Any) -> Kernel:
    def of(body: tuple[Op, ...]) -> tuple[Op, ...]:
        return tuple(
            replace(op, **fields)
            if isinstance(op, kind)
            else replace(op, body=of(op.body))
            if isinstance(op, (If, For))
            else op
            for op in body
        )

    return replace(kernel, body=of(kernel.body))


def without(kernel: Kernel, kind: type[Op]) -> Kernel:
    return replace(kernel, body=tuple(op for op in kernel.body if not isinstance(op, kind)))


def twice(kernel: Kernel, kind: type[Op]) -> Kernel:
    return replace(kernel, body=tuple(op for old in kernel.body for op in [old] * (1 + isinstance(old, kind))))


def in_branch(kernel: Kernel, condition: Affine, uniform: bool = True) -> Kernel:
    """What is handed on, in some blocks or threads alone."""
    first = next(k for k, op in enumerate(kernel.body) if isinstance(op, Leave))
    return replace(kernel, body=(*kernel.body[:first], If(Inside((condition,)), kernel.body[first:], uniform=uniform)))


REFUSED: dict[str, tuple[Callable[[Kernel], Kernel], str]] = {
    "in no order": (lambda k: replace(k, turns=""), "do not begin in order"),
    "turns that are no counter": (lambda k: replace(k, turns="x"), "x is no writable array of i32"),
    "for itself": (lambda k: changed(k, Carry, number=B1 + 1), "that of a later block"),
    "along another axis": (lambda k: changed(k, Carry, number=B0), "are not those of a line"),
    "fewer blocks": (lambda k: changed(k, Carry, count=BLOCKS - 1), "are not those of a line"),
    "by a later block": (lambda k: changed(k, Leave, number=B1 - 1), "is left by a later one"),
    "one line for all": (lambda k: changed(k, Carry, line=(Affine.of(0),)), "is not one of blocks that differ in .b1"),
    "lines counted elsewhere": (
        lambda k: changed(k, Carry, line=(B0, B0)),
        "arrived has not .* x .* counters",
    ),
    "groups of none": (lambda k: changed(k, Leave, group=0), "0 totals are left as one"),
    "other groups": (lambda k: changed(k, Leave, group=4), "words for each line"),
    "words of floats": (lambda k: changed(k, Leave, words="y"), "y is no writable array of u64"),
    "few words": (lambda k: changed(changed(k, Leave, bits=31), Carry, bits=31), "rows of 2 words"),
    "counted in words": (lambda k: changed(k, Carry, arrived="words"), "words is no writable array of i32"),
    "left by nobody": (lambda k: without(k, Leave), "is not what others take from it"),
    "left twice": (lambda k: twice(k, Leave), "a block hands on a total twice"),
    "by some blocks": (lambda k: in_branch(k, BLOCKS - 2 - B1), "some blocks do not come by it"),
    "by some threads": (lambda k: in_branch(k, T - 1, uniform=False), "where some"),
    "in a loop": (
        lambda k: replace(k, body=(*k.body[:2], For("r", Affine.of(2), k.body[2:4]), *k.body[2:])),
        "in every trip of a loop",
    ),
    "in a cluster": (lambda k: replace(k, cluster=2), "cluster"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_verifier_refuses(name: str) -> None:
    change, sentence = REFUSED[name]
    kernel = prefix_in_order().kernel
    verify_kernel(kernel)
    with pytest.raises(KernelError, match=sentence):
        verify_kernel(change(kernel))


def test_blocks_that_have_nothing_to_leave_need_not() -> None:
    """Behind the last total and in front of the first block, and nowhere else."""
    kernel = prefix_in_order(lead=2).kernel
    verify_kernel(kernel)
    leaving, taking = kernel.body
    assert isinstance(leaving, If) and isinstance(taking, If)
    for wrong in (replace(leaving, condition=Inside((BLOCKS - 2 - B1,))), replace(leaving, orelse=leaving.body)):
        with pytest.raises(KernelError):
            verify_kernel(replace(kernel, body=(wrong, taking)))
    with pytest.raises(KernelError, match="none of the line come by it"):
        verify_kernel(replace(kernel, body=(leaving, replace(taking, condition=Inside((B1 - 3,))))))


@pytest.mark.ptx
@pytest.mark.parametrize("columns", [False, True])
def test_words_are_read_and_written_as_a_whole(columns: bool) -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    case: Case = prefix_in_order(3, columns)
    k = replace(case.kernel, digits=(ThreadDigit("lane", 1, 32), ThreadDigit("warp", 32, 2)))
    ptx = compile_kernel(print_kernel(k), k.name, k.parameters, k.threads, (9, 0)).ptx
    assert "ld.relaxed.gpu.global.b64" in ptx and "st.relaxed.gpu.global.b64" in ptx
    assert "ld.acquire.gpu.global.u32" in ptx and "fence.acq_rel.gpu" not in ptx
