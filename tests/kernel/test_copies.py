"""Asynchronous copies: what they bring, and that whoever reads too early, or copies too soon, is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyfuse.affine import Affine
from polyfuse.backends.interpreter import faults, run_kernel, run_source
from polyfuse.codegen.printer import print_kernel
from polyfuse.dtypes import bf16, f32
from polyfuse.errors import KernelError
from polyfuse.kernel import (
    AsyncCopy,
    Barrier,
    CommitCopies,
    For,
    If,
    Inside,
    Kernel,
    Load,
    Op,
    SharedBuffer,
    Slot,
    Store,
    WaitCopies,
)
from polyfuse.verify.kernel import verify_kernel
from tests.kernel.kernels import T, V, array, call, normal, ref

TRIPS, THREADS, WIDTH = 7, 32, 4
R = Affine.symbol("$r")


def cells(trip: Affine, trips: int = 3) -> tuple[Affine, ...]:
    return trip % trips, T, V


def copy(trip: Affine, trips: int = 3, **fields: object) -> AsyncCopy:
    op = AsyncCopy("ring", cells(trip, trips), "x", (trip, WIDTH * T + V), vector=WIDTH)
    return replace(op, **fields)  # type: ignore[arg-type]


def ring(
    wait: tuple[Op, ...] = (WaitCopies(2),), trips: int = 3, lead: int = 2, read: tuple[Affine, ...] | None = None
) -> Kernel:
    """y = 2 x, a row a trip, through a ring of `trips` rows in shared memory, `lead` of them on their way."""
    front: list[Op] = []
    for k in range(lead):
        front += [copy(Affine.of(k), trips), CommitCopies()]
    body: tuple[Op, ...] = (
        If(Inside((Affine.of(TRIPS - lead - 1) - R,)), (copy(R + lead, trips),)),
        CommitCopies(),
        *wait,
        Load("xv", "ring", read or cells(R, trips), vector=WIDTH),
        Store("y", (R, WIDTH * T + V), call("add", ref("xv"), ref("xv")), vector=WIDTH),
    )
    shape = (trips, THREADS, WIDTH)
    return Kernel(
        "ring_kernel",
        (array("x", TRIPS, THREADS * WIDTH), array("y", TRIPS, THREADS * WIDTH, out=True)),
        (Affine.of(1),), THREADS, (), (Slot("v", WIDTH),),
        (SharedBuffer("ring", f32, shape, (THREADS * WIDTH, WIDTH, 1)),),
        (*front, For("r", Affine.of(TRIPS), body)),
    )  # fmt: skip


def run(kernel: Kernel, printed: bool) -> np.ndarray:
    arrays = {"x": normal(TRIPS, THREADS * WIDTH), "y": np.zeros((TRIPS, THREADS * WIDTH), np.float32)}
    if printed:
        run_source(print_kernel(kernel), "ring_kernel", kernel, arrays, {}, {})
    else:
        run_kernel(kernel, arrays, {}, {})
    return arrays["y"]


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize(("trips", "lead"), [(2, 1), (3, 2), (4, 3), (4, 1)])
def test_a_ring_brings_every_row(printed: bool, trips: int, lead: int) -> None:
    kernel = ring((WaitCopies(lead),), trips, lead)
    verify_kernel(kernel)
    np.testing.assert_array_equal(run(kernel, printed), 2 * normal(TRIPS, THREADS * WIDTH))


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize(
    ("kernel", "fault"),
    [
        (ring((WaitCopies(3),)), faults.UninitialisedRead),  # one group too many on its way
        (ring((WaitCopies(2),), trips=2), faults.DataRace),  # a ring one trip too short
        (ring(read=((R + 1) % 3, T, V)), faults.UninitialisedRead),  # the row that is on its way
        (ring(read=(R % 3, (T + 1) % THREADS, V)), faults.DataRace),  # a neighbour's cells, with no barrier between
    ],
    ids=["wait", "length", "trip", "thread"],
)
def test_planted_faults_are_found(kernel: Kernel, fault: type[faults.KernelFault], printed: bool) -> None:
    with pytest.raises(fault) as found:
        run(kernel, printed)
    assert found.value.witness.buffer == "ring"


def test_behind_a_barrier_others_read_the_cells_too() -> None:
    kernel = ring((WaitCopies(0), Barrier()), lead=1, read=(R % 3, THREADS - 1 - T, V))
    rows = 2 * normal(TRIPS, THREADS * WIDTH).reshape(TRIPS, THREADS, WIDTH)[:, ::-1]
    np.testing.assert_array_equal(run(kernel, printed=False), rows.reshape(TRIPS, -1))


@pytest.mark.parametrize("printed", [False, True])
def test_what_a_condition_leaves_out_is_zero(printed: bool) -> None:
    kernel = ring()
    outside = (Affine.of(4 * THREADS // 2 - 4) - WIDTH * T,)

    def masked(op: Op) -> Op:
        match op:
            case AsyncCopy():
                return replace(op, where=outside)
            case For():
                return replace(op, body=tuple(map(masked, op.body)))
            case If():
                return replace(op, body=tuple(map(masked, op.body)))
            case _:
                return op

    kernel = replace(kernel, body=tuple(map(masked, kernel.body)))
    verify_kernel(kernel)
    found, wanted = run(kernel, printed), 2 * normal(TRIPS, THREADS * WIDTH)
    np.testing.assert_array_equal(found[:, : 2 * THREADS], wanted[:, : 2 * THREADS])
    assert not found[:, 2 * THREADS :].any()


def refused(body: tuple[Op, ...], **fields: object) -> Kernel:
    return replace(ring(), body=body, **fields)  # type: ignore[arg-type]


def halves() -> Kernel:
    """Elements of two bytes, one at a time."""
    parameters = (array("x", TRIPS, THREADS * WIDTH, dtype=bf16),)
    shared = (SharedBuffer("ring", bf16, (3, THREADS, WIDTH), (THREADS * WIDTH, WIDTH, 1)),)
    return refused((copy(Affine.of(0), vector=1),), parameters=parameters, shared=shared)


WHOLE = (copy(Affine.of(0)), CommitCopies(), WaitCopies(0))
READ = Load("xv", "ring", cells(Affine.of(0)), vector=WIDTH)


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (refused((*WHOLE[:2], READ)), "no wait for its copies"),
        (refused((WHOLE[0], WHOLE[2], WHOLE[1], READ)), "no wait for its copies"),
        (refused((*WHOLE[:2], For("q", Affine.of(3), (WHOLE[2],)), READ)), "no wait for its copies"),
        (refused((copy(Affine.of(0), array="ring"),)), "no global array"),
        (refused((copy(Affine.of(0), buffer="x"),)), "no shared buffer"),
        (refused((copy(Affine.of(0), vector=1, into=(Affine.of(3), T, V)),)), "may exceed 2"),
        (refused((copy(Affine.of(0), into=(Affine.of(0), T, Affine.of(0))),)), "vector"),
        (refused((*WHOLE, Store("ring", cells(Affine.of(0)), ref("xv")))), "xv"),
        (refused((If(Inside((T - 8,)), (CommitCopies(),), uniform=False),)), "may not come"),
        (halves(), "a copy of 2 bytes"),
        (refused((*WHOLE, READ), shared=(SharedBuffer("ring", bf16, (3, 32, 4), (128, 4, 1)),)), "bf16"),
    ],
)
def test_what_the_verifier_refuses(kernel: Kernel, sentence: str) -> None:
    with pytest.raises(KernelError, match=sentence):
        verify_kernel(kernel)
