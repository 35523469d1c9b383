"""Planted faults: each must be found, by its own name and with a witness, by the kernel and by its printed text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from polyfuse.affine import Affine, digit
from polyfuse.backends.interpreter import faults, run_kernel, run_source
from polyfuse.codegen.printer import print_kernel
from polyfuse.dtypes import bool_, f32
from polyfuse.kernel import (
    Barrier,
    Combine,
    Const,
    If,
    Inside,
    Kernel,
    Let,
    Load,
    Op,
    SharedBuffer,
    Slot,
    Store,
    ThreadDigit,
)
from tests.kernel import kernels
from tests.kernel.kernels import LANE, M, N, T, V, array, call, ref


def small(*body: Op, threads: int = 64, blocks: int = 1) -> kernels.Case:
    """A kernel on x[256], y[256] and a shared buffer s[64]."""
    parameters = (array("x", 256), array("y", 256, out=True))
    shared = (SharedBuffer("s", f32, (64,), (1,)),)
    digits = (ThreadDigit("lane", 1, 32),) if threads >= 32 else ()
    kernel = Kernel("faulty", parameters, (Affine.of(blocks),), threads, digits, (Slot("v", 4),), shared, body)
    return kernels.Case(kernel, {"x": kernels.normal(256), "y": np.zeros(256, np.float32)}, {}, {})


def beyond_a_row() -> kernels.Case:
    """Column N of row 0 is row 1 in memory: only a check per dimension sees it."""
    kernel = kernels.softmax().kernel
    body = tuple(replace(op, where=(N - 128 * kernels.C - T,)) if isinstance(op, Load) else op for op in kernel.body)
    return replace(kernels.softmax(), kernel=replace(kernel, body=body))


def doubled_store() -> kernels.Case:
    return small(Load("xv", "x", (T,)), Store("y", (T - LANE,), ref("xv")))


def between_blocks() -> kernels.Case:
    """Every block stores the same elements."""
    return small(Load("xv", "x", (T,)), Store("y", (T,), ref("xv")), blocks=2)


def neighbour(barrier: Op | None, threads: int = 64) -> kernels.Case:
    """A thread reads what the next one stored."""
    middle = (barrier,) if barrier else ()
    return small(
        Load("xv", "x", (T,)),
        Store("s", (T,), ref("xv")),
        *middle,
        Load("next", "s", ((T + 1) % threads,)),
        Store("y", (T,), ref("next")),
        threads=threads,
    )


def overwritten() -> kernels.Case:
    """A second round stores into shared memory that slower threads still read."""
    k = digit("k")
    inner: tuple[Op, ...] = (
        Load("xv", "x", (64 * k + T,)),
        Store("s", (T,), ref("xv")),
        Barrier(),
        Load("next", "s", (63 - T,)),
        Store("y", (64 * k + T,), ref("next")),
    )
    return small(kernels.For("k", Affine.of(2), inner))


def divergent_barrier() -> kernels.Case:
    return small(If(Inside((T - 8,)), (Barrier(),), uniform=False))


def wrongly_uniform() -> kernels.Case:
    body = (Load("xv", "x", (T,)), If(call("less", ref("xv"), Const(0.0, f32), dtype=bool_), (Barrier(),)))
    return small(*body)


def divergent_combine() -> kernels.Case:
    body = (Let("one", Const(1.0, f32)), If(Inside((15 - LANE,)), (Combine(("sum",), "sum", (ref("one"),), 31),)))
    return small(*body)


def misaligned() -> kernels.Case:
    return small(Load("xv", "x", (4 * T + V + 2,), where=(60 - T,), vector=4), threads=16)


def uninitialised() -> kernels.Case:
    stored = Store("s", (T,), ref("xv"), where=(30 - T,))
    body = (Load("xv", "x", (T,)), stored, Barrier(), Load("got", "s", (T,)), Store("y", (T,), ref("got")))
    return small(*body)


CAUGHT_BY_BOTH: dict[str, tuple[Callable[[], kernels.Case], type[faults.KernelFault]]] = {
    "two threads, one element": (doubled_store, faults.WriteConflict),
    "two blocks, one element": (between_blocks, faults.WriteConflict),
    "no barrier": (lambda: neighbour(None), faults.DataRace),
    "a warp barrier between warps": (lambda: neighbour(Barrier("warp")), faults.DataRace),
    "transpose without its barrier": (lambda: kernels.transpose(barrier=False), faults.DataRace),
    "matmul without any barrier": (lambda: kernels.matmul(barriers=0), faults.DataRace),
    "matmul without its first barrier": (lambda: kernels.matmul(barriers=1), faults.DataRace),
    "shared memory overwritten too early": (overwritten, faults.DataRace),
    "barrier in a divergent branch": (divergent_barrier, faults.BarrierDivergence),
    "combine in a divergent branch": (divergent_combine, faults.BarrierDivergence),
    "vector off its alignment": (misaligned, faults.MisalignedVector),
    "shared memory read before it is written": (uninitialised, faults.UninitialisedRead),
    "partial sums read without election": (lambda: kernels.column_sum(elect=False), faults.UnsynchronisedRead),
}


@pytest.mark.parametrize("name", CAUGHT_BY_BOTH)
def test_fault_is_found(name: str) -> None:
    build, kind = CAUGHT_BY_BOTH[name]
    case = build()
    with pytest.raises(kind) as direct:
        run_kernel(case.kernel, case.arrays, case.sizes, case.scalars)
    assert direct.type is kind and direct.value.witness.block >= 0
    case, text = build(), print_kernel(case.kernel)
    with pytest.raises(kind):
        run_source(text, case.kernel.name, case.kernel, case.arrays, case.sizes, case.scalars)


def test_each_dimension_has_bounds_of_its_own() -> None:
    case = beyond_a_row()
    with pytest.raises(faults.OutOfBounds, match="index 317 of dimension 1") as caught:
        run_kernel(case.kernel, case.arrays, case.sizes, {})
    assert caught.value.witness == faults.Witness(0, 61, "x", (0, 317))


def test_the_printed_text_has_bounds_too() -> None:
    case = small(Load("xv", "x", (64 * V + T + 1,)))
    with pytest.raises(faults.OutOfBounds, match="element 256 of x lies outside"):
        run_source(print_kernel(case.kernel), "faulty", case.kernel, case.arrays, {}, {})


def test_branches_declared_uniform_are_checked() -> None:
    case = wrongly_uniform()
    with pytest.raises(faults.BarrierDivergence, match="a branch declared uniform"):
        run_kernel(case.kernel, case.arrays, {}, {})


@pytest.mark.parametrize("barrier", [Barrier(), Barrier("warp")])
def test_sufficient_barriers_are_accepted(barrier: Barrier) -> None:
    case = neighbour(barrier, threads=32 if barrier.scope == "warp" else 64)
    run_kernel(case.kernel, case.arrays, {}, {})
    np.testing.assert_array_equal(case.arrays["y"][:31], case.arrays["x"][1:32])


def test_undefined_elements_are_tracked_across_launches() -> None:
    case = small(Load("yv", "y", (T,)), Store("y", (T,), ref("yv")))
    defined = {"y": np.arange(256) != 5}
    with pytest.raises(faults.UninitialisedRead, match=r"thread 5 of block 0 at y\[5\]"):
        run_kernel(case.kernel, case.arrays, {}, {}, defined=defined)
    fill = small(Load("xv", "x", (T,)), Store("y", (T,), ref("xv")))
    run_kernel(fill.kernel, case.arrays, {}, {}, defined=defined)
    assert defined["y"].all()
    run_kernel(case.kernel, case.arrays, {}, {}, defined=defined)


def test_elections_need_clean_counters_and_all_their_blocks() -> None:
    case = kernels.column_sum()
    case.arrays["counter"][1] = 1
    with pytest.raises(faults.CounterFault, match="not zero at launch"):
        run_kernel(case.kernel, case.arrays, case.sizes, {})
    case = kernels.column_sum()
    body = tuple(replace(op, count=M) if isinstance(op, kernels.Elect) else op for op in case.kernel.body)
    with pytest.raises(faults.CounterFault, match="only 6 of 43 blocks"):
        run_kernel(replace(case.kernel, body=body), case.arrays, case.sizes, {})


def test_stores_after_an_election_stay_invisible() -> None:
    """Partial sums stored after arriving are not covered by the fence."""
    case = kernels.column_sum()
    load, reduce, store, elect, finish = case.kernel.body
    kernel = replace(case.kernel, body=(load, reduce, elect, store, finish))
    with pytest.raises(faults.UnsynchronisedRead):
        run_kernel(kernel, case.arrays, case.sizes, {}, seed=None)


def test_checks_can_be_left_out() -> None:
    case = neighbour(None)
    run_kernel(case.kernel, case.arrays, {}, {}, checks=False)


def test_arguments_must_fit() -> None:
    case = kernels.softmax()
    with pytest.raises(TypeError, match=r"softmax takes f32\[38, 317\]"):
        run_kernel(case.kernel, case.arrays, {"M": 38, "N": 317}, {})
    with pytest.raises(TypeError, match="needs an argument for its parameter N"):
        run_kernel(case.kernel, case.arrays, {"M": 37}, {})
