"""What a plan says of itself: kernels, statements, prices, reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.algebra import Formula, size
from polyfuse.errors import OptionError
from polyfuse.schedule import Scope
from polyfuse.target import H200
from polyfuse.verdict import Hazard, Kind
from tests.schedules import programs
from tests.schedules.programs import plan

M, N = Formula(size("M")), Formula(size("N"))


def test_a_kernel_has_statements_with_places_times_scopes_and_tiles() -> None:
    (kernel,) = plan(programs.softmax, "f32[N~65536, 4096]").kernels
    assert (kernel.name, kernel.strategy, kernel.threads) == ("m_d_s_y", "rows", 256)
    assert kernel.parameters == {"threads": 256, "lanes": 256, "chunks": 4, "vector": 4}
    assert [s.name for s in kernel.statements] == ["m", "d", "e", "s", "y"]
    assert [s.name for s in kernel.loads] == ["x"]
    m, y = kernel.statement("m"), kernel.statement("y")
    assert (m.scope, m.combine, m.tile) == (Scope.REGISTER, "block", (1, 4096))
    assert (y.scope, y.combine, y.copies) == (Scope.GLOBAL, "", 1)
    assert m.places == ("i = b0, j = 1024*c + 4*tx + v",)
    assert kernel.stores == ("y",)
    with pytest.raises(KeyError):
        kernel.statement("z")


def test_a_row_too_long_for_registers_is_read_in_several_passes() -> None:
    (kernel,) = plan(programs.softmax, "f32[M~65536, N~4000]", target="cpu").kernels
    assert kernel.statement("e").times == ((("r", 2),), (("r", 1),))
    assert kernel.statement("e").tile == (1, None)


def test_bytes_are_exact_for_all_sizes() -> None:
    fused = plan(programs.softmax, "f32[M, N]")
    assert fused.hbm_bytes == 8 * M * N
    assert fused.kernels[0].bytes_read == 4 * M * N == fused.kernels[0].bytes_written
    assert fused.hbm_bytes.at(M=10, N=1000) == 80_000
    assert plan(programs.softmax, "f32[M, N]", fuse=False).hbm_bytes > fused.hbm_bytes


def test_predictions_follow_the_target() -> None:
    (kernel,) = plan(programs.softmax, "f32[N~65536, 4096]").kernels
    assert kernel.bound == "memory"
    assert 1.0 < kernel.seconds / (2 * 65536 * 4096 * 4 / H200.bandwidth) < 1.06  # the combinations of its warps show
    assert kernel.intensity < H200.ridge
    assert kernel.registers <= 255 and kernel.occupancy >= 2 and kernel.shared_bytes == 0
    slower = plan(programs.softmax, "f32[N~65536, 4096]", target="a100").kernels[0]
    assert slower.seconds > 2 * kernel.seconds
    assert kernel.cost_at({"N": 1}).bound == "launch"


def test_cost_analysis_adds_up() -> None:
    loose = plan(programs.gate, "f32[N~1000000]", "f32[N]", "f32[N]", fuse=False)
    analysis = loose.cost_analysis()
    assert list(analysis.kernels) == [k.name for k in loose.kernels]
    assert analysis.seconds == pytest.approx(H200.start + sum(k.seconds for k in loose.kernels))
    assert analysis.hbm_bytes == 32 * N
    assert analysis.bound(H200.ridge) == "memory"


def test_a_short_call_takes_what_the_host_needs() -> None:
    """15 us on an H200 for one small kernel, 18 for two; longer ones run while the host hands over."""
    small = plan(programs.softmax, "f32[64, 50]")
    (kernel,), target = small.kernels, small.target
    assert target.launch < kernel.seconds < small.cost_analysis().seconds == target.call + target.launch
    loose = plan(programs.softmax, "f32[64, 50]", fuse=False)
    device = target.start + sum(k.seconds for k in loose.kernels)
    host = target.call + target.launch * len(loose.launches)
    assert loose.cost_analysis().seconds == pytest.approx(max(host, device))
    assert pf.compare(loose, small).predicted == (loose.cost_analysis().seconds, small.cost_analysis().seconds)
    long = plan(programs.softmax, "f32[65536, 4096]")
    assert long.cost_analysis().seconds == target.start + long.kernels[0].seconds


def test_kernels_are_found_by_their_own_name_and_by_a_value() -> None:
    both = plan(programs.rows_then_columns, "f32[M~4096, N~65536]")
    assert both.kernel("c") is both.kernel("r_c") is both.kernels[1]
    with pytest.raises(KeyError):
        both.kernel("nothing")


# ---------------------------------------------------------------------------------------------- explain


def test_explain_says_what_fuses_why_it_is_legal_and_what_it_saves() -> None:
    text = plan(programs.softmax, "f32[N~65536, 4096]").explain()
    for line in (
        "softmax on h200: 5 operations in 1 kernel, no intermediate in memory",
        "at N = 65536: 2.15 GB instead of 8.59 GB unfused, predicted 525 us",
        "  fuses      m, d, e, s, y",
        "  legal      the partial results of m meet across the block, so that d needs no other",
        "             every element of y is stored, by one thread only",
        "  saves      98320*N bytes; not in memory: m, d, e, s",
        "  moves      32768*N bytes: reads x once, writes y once",
        "  tiles      a block holds i: 1, j: 4096 of y",
        "  scopes     register: m, d, e, s",
        "             global: y",
        "  predicted  522 us, bound by memory bandwidth",
        "  N <= 65536",
    ):
        assert line in text.splitlines()


def test_explain_names_shared_boxes_and_what_stayed_apart() -> None:
    def transposed(x: Any, y: Any) -> Any:
        return x + y.T

    text = plan(transposed, "f32[M, N]", "f32[N, M]").explain()
    assert "y lives in shared memory: each block writes a box of 64 x 64, a barrier follows" in text
    assert "4 divides N" in text
    text = plan(programs.rows_then_columns, "f32[M~4096, N~65536]").explain()
    assert "in memory between them: sum" in text
    lines = text.split("kept apart, as whole kernels and with those between them\n")[1].splitlines()
    assert any(line.startswith("  sum | c: unprofitable: one kernel is not faster than apart") for line in lines)


def test_explain_says_why_a_fallback_was_taken() -> None:
    def skewed(x: Any) -> Any:
        s = x.cumsum(axis=1)
        return s.cumsum(axis=0)

    text = plan(skewed, "f32[64, 64]", strategies={"s": "serial"}).explain()
    assert "fallback   serial: " in text


# ---------------------------------------------------------------------------------------------- why not


def gathered(x: Any, i: Any) -> Any:
    e = np.cumsum(x, axis=1)
    y = e[i]
    return y


def test_a_refusal_has_a_witness_across_blocks() -> None:
    verdict = plan(gathered, "f32[M~64, 64]", "i32[K~100000]").why_not("e", "y")  # few rows, computed once
    assert verdict.kind is Kind.ILLEGAL and verdict.hazard is Hazard.SCOPE
    assert "it must be stored before it is gathered" in verdict.sentence
    witness = verdict.witness
    assert witness is not None and str(witness.first).startswith("e[") and str(witness.second).startswith("y[")
    assert dict(witness.sizes)["M"] > witness.first.point[0], "the element exists at the sizes of the witness"


def test_what_is_fused_is_legal_and_what_is_slower_has_its_price() -> None:
    fused = plan(programs.softmax, "f32[N, 4096]")
    assert fused.why_not("m", "y").kind is Kind.LEGAL
    assert fused.why_not("m", "m").kind is Kind.LEGAL
    apart = plan(programs.rows_then_columns, "f32[M~4096, N~65536]")
    verdict = apart.why_not("sum", "c")
    assert verdict.kind is Kind.UNPROFITABLE and verdict.numbers["loss_us"] > 0
    assert apart.why_not("sum", "sum").kind is Kind.UNPROFITABLE


def test_the_users_own_wish_is_the_reason() -> None:
    loose = plan(programs.softmax, "f32[N, 4096]", fuse=False)
    verdict = loose.why_not("m", "y")
    assert verdict.hazard is Hazard.STEERING and verdict.witness is None


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OptionError, match="no value is called 'q'"):
        plan(programs.softmax, "f32[N, 4096]").why_not("q", "y")


def test_only_a_budget_leaves_a_question_open() -> None:
    softmax = plan(programs.softmax, "f32[N, 4096]")
    read, stored = softmax.why_not("x", "y"), softmax.why_not("y", "y")
    assert read.kind is Kind.LEGAL and "lies in memory" in read.sentence
    assert stored.kind is Kind.ILLEGAL and "always stored" in stored.sentence and stored.witness is None


def test_an_argument_may_be_overwritten_where_every_read_comes_first() -> None:
    assert plan(lambda x: x * 2 + 1, "f32[N]").why_not("x", "x").kind is Kind.LEGAL
    verdict = plan(lambda x: x[::-1] * 2, "f32[N]").why_not("x", "x")
    assert verdict.hazard is Hazard.WAR and verdict.witness is not None
    verdict = plan(programs.rows_then_columns, "f32[M~4096, N~65536]").why_not("x", "x")
    assert verdict.kind is Kind.ILLEGAL and "shape and dtype of x" in verdict.sentence


def test_a_condition_that_is_advised_and_needed_is_said_once() -> None:
    text = plan(programs.softmax, "f32[M, N]").explain()
    needed, chosen = (text.split(head)[1].split("\n\n")[0].splitlines() for head in ("holds where\n", "chosen for\n"))
    conditions = [*needed, *chosen]
    assert "  N <= 16384" in conditions and len(conditions) == len(set(conditions)), conditions


def test_sizes_that_a_plan_needs_and_those_it_was_chosen_for() -> None:
    given = plan(programs.softmax, "f32[N, 4096]")
    needed, chosen = given.explain().split("holds where\n")[1].split("right elsewhere too, chosen for\n")
    assert "elements in N x 4096" in needed and "N >= " not in needed
    assert "N >= 4097" in chosen
    compiled = pf.jit(programs.softmax).compile(pf.spec("f32[N, 4096]"), target="cpu")
    x = np.ones((3, 4096), np.float32)
    np.testing.assert_allclose(compiled(x), programs.softmax(x), rtol=1e-6)


def test_operations_are_exact_for_all_sizes_whatever_is_fused() -> None:
    def scaled(x, bias):
        return np.maximum(x * 2 + bias, 0)

    specs = pf.spec("f32[M, N]"), pf.spec("f32[N]")
    fused, loose = (pf.jit(scaled).plan(*specs, target="h200", fuse=fuse) for fuse in (True, False))
    assert str(fused.operations) == "3*M*N" and fused.operations == loose.operations
    (kernel,) = fused.kernels
    assert kernel.operations.at(M=1000, N=33) == 99_000 <= kernel.cost_at({"M": 1000, "N": 33}).flops
    total = pf.jit(lambda x: (x * x).sum()).plan(pf.spec("f32[N]"), target="cpu")
    assert total.operations > pf.jit(lambda x: x.sum()).plan(pf.spec("f32[N]"), target="cpu").operations


def twice(x):
    y = x * 2
    return y, y


def transposed_in_place(x):
    x[...] = x.T
    return x.sum(axis=0)


def increased(x):
    x += 1
    return x


def test_explain_names_the_copies_that_no_kernel_makes() -> None:
    square = pf.spec("f32[N, N]")
    text = pf.jit(twice).plan(square, target="cpu").explain()
    assert "y is copied from result 1 to result 2: 8*N**2 bytes besides" in text
    assert text.count("out=x: y is stored over x") == 1
    text = pf.jit(transposed_in_place, donate="x").plan(square, target="cpu").explain()
    assert "is stored in a temporary, then copied to x: 8*N**2 bytes besides; illegal: x[" in text
    assert "at N = " in text.split("then copied to x")[1].split("\n")[0]
    text = pf.jit(increased, donate="x").plan(square, target="cpu").explain()
    assert "x_1 is copied from result 1 to x: 8*N**2 bytes besides" in text


def test_explain_tells_calls_of_the_library_from_kernels() -> None:
    def head(function: Any, target: str) -> str:
        return pf.jit(function).plan(pf.spec("f32[N, M]"), target=target).explain().split("\n")[0]

    between = head(lambda x: np.sort(x * 2, axis=0) + 1, "cpu")
    assert "3 operations in 2 kernels and 1 library call, in memory" in between
    assert "1 operation in 1 library call, no intermediate" in head(lambda x: np.sort(x, axis=0), "h200")


def test_unfused_bytes_are_those_of_the_plan_without_fusion() -> None:
    def function(x):
        return np.take_along_axis(x, np.argmax(x, axis=1)[:, None] * 2 // 3, axis=1)

    loose = pf.jit(function).plan(pf.spec("f64[N, 64]"), target="h200", fuse=False)
    assert "unfused" not in loose.explain()


def test_a_plan_says_what_its_program_takes_for_granted() -> None:
    """Two columns at least, of what is rolled by two: shorter rows have a trace of their own."""
    plan = pf.jit(lambda x: np.roll(x, -2, axis=1)).plan(pf.spec("f32[H~4096, W~4096]"), target="h200")
    text = plan.explain()
    assert "W >= 2" in text[text.index("holds where") :]
