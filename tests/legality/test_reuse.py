"""A result in the buffer of an argument: only where every read of an element comes before its store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyfuse import expr
from polyfuse.affine import Affine, dimensions
from polyfuse.expr import Node, Program
from polyfuse.legality import may_reuse, prove
from polyfuse.places.proposal import Combination
from polyfuse.schedule import Digit, KernelSchedule
from polyfuse.scop import Scop
from polyfuse.verdict import Hazard, Kind, Verdict
from tests.legality import programs
from tests.legality.schedules import M, N, b, block, loop, r, schedule, slot, t, thread, v

ROW = [block("b", N.ceildiv(32)), thread("t", 1, 32)]


def reuse(scop: Scop, kernel: KernelSchedule, root: str, argument: str = "x0") -> Verdict:
    return may_reuse(scop, kernel, programs.statement(scop, argument), programs.statement(scop, root))


def plus(x: Node, index: Affine) -> Program:
    """``x[i] + x[index]``"""
    return programs.program([x], [programs.add(x, expr.view(x, x.shape, [index]))])


def test_pointwise_in_place_is_legal() -> None:
    scop, kernel = schedule(programs.chain(N), ROW, {"exp": [32 * b + t]})
    assert reuse(scop, kernel, "exp") and reuse(scop, kernel, "exp", "x1")


def test_a_softmax_of_rows_in_registers_is_legal() -> None:
    digits = [block("b", M), thread("t", 1, 16), slot("v", 4)]
    scop, kernel = schedule(
        programs.softmax(M, 64), digits, {n: [b, 16 * v + t] for n in ("max", "exp", "sum", "divide")}
    )
    assert reuse(scop, kernel, "divide")


def test_a_softmax_in_passes_reads_the_row_again_but_before_it_is_stored() -> None:
    digits = [block("b", M), thread("t", 1, 16), loop("r", N.ceildiv(16))]
    scop, kernel = schedule(
        programs.softmax(M, N), digits, {n: [b, 16 * r + t] for n in ("max", "exp", "sum", "divide")}
    )
    assert reuse(scop, kernel, "divide")


@pytest.mark.parametrize(
    ("digits", "place", "words", "witness"),
    [
        (ROW, 32 * b + t, "by another block", "x0[0] -> add[0] at N = 33"),
        ([thread("t", 1, 64)], t, "by another thread", "x0[0] -> add[0]"),
        ([slot("v", 64)], v, "", ""),  # one thread loads everything before it stores anything
        ([loop("r", 64)], r, "is read after add[0] is stored", "x0[0] -> add[0]"),
    ],
)
def test_reversing_in_place(digits: list[Digit], place: Affine, words: str, witness: str) -> None:
    """``x[i] + x[n-1-i]``: by blocks, by threads, by registers, one by one."""
    n = N if digits is ROW else Affine.of(64)
    scop, kernel = schedule(plus(programs.array(0, n), n - 1 - dimensions(1)[0]), digits, {"add": [place]})
    verdict = reuse(scop, kernel, "add")
    if not words:
        assert verdict
        return
    assert (verdict.kind, verdict.hazard, verdict.rule) == (Kind.ILLEGAL, Hazard.WAR, "reuse")
    assert words in verdict.sentence and str(verdict.witness) == witness


def test_a_scalar_read_by_every_thread_is_refused() -> None:
    scop, kernel = schedule(plus(programs.array(0, N), Affine.of(0)), ROW, {"add": [32 * b + t]})
    verdict = reuse(scop, kernel, "add")
    assert verdict.kind is Kind.ILLEGAL
    assert str(verdict.witness).startswith("x0[0] -> add[0]")


def test_what_is_gathered_may_be_any_element() -> None:
    x, where = programs.array(0, N), programs.array(1, N, integer=True)
    scop, kernel = schedule(programs.program([x, where], [programs.gathered(x, where)]), ROW, {"gather": [32 * b + t]})
    verdict = reuse(scop, kernel, "gather")
    assert verdict.kind is Kind.ILLEGAL and "possibly read (its position is data)" in verdict.sentence


def test_shape_and_dtype_must_agree() -> None:
    scop, kernel = schedule(programs.bias(M, N), [block("b", M), loop("r", N)], {"exp": [b, r]})
    assert reuse(scop, kernel, "exp")
    verdict = reuse(scop, kernel, "exp", "x1")
    assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.BOUNDS)


def test_only_a_root_into_an_argument() -> None:
    scop, kernel = schedule(programs.chain(N), ROW, {"exp": [32 * b + t]})
    assert reuse(scop, kernel, "add").hazard is Hazard.WAW
    assert (
        may_reuse(scop, kernel, programs.statement(scop, "add"), programs.statement(scop, "exp")).hazard is Hazard.WAW
    )


def test_a_later_kernel_that_reads_the_argument_forbids_it() -> None:
    scop, kernel = schedule(programs.chain(N), ROW, {"exp": [32 * b + t]})
    argument, root = programs.statement(scop, "x0"), programs.statement(scop, "exp")
    verdict = may_reuse(scop, kernel, argument, root, later_loads={argument})
    assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.WAR)
    assert "read by a later kernel" in verdict.sentence


def test_a_schedule_that_says_what_it_reuses_is_proved_with_it() -> None:
    x, y = programs.array(0, N), programs.array(1, N)
    total = programs.add(x, y)
    traced = programs.program([x, y], [total, programs.exp(total)])
    scop, kernel = schedule(traced, ROW, {"add": [32 * b + t], "exp": [32 * b + t]})
    x0, x1, one, two = (programs.statement(scop, n) for n in ("x0", "x1", "add", "exp"))
    assert prove(scop, replace(kernel, reuses=((x0, one), (x1, two))))
    verdict = prove(scop, replace(kernel, reuses=((x0, one), (x0, two))))
    assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.WAW)
    assert "both stored into x0" in verdict.sentence


def test_what_the_last_block_to_arrive_reads_or_stores_keeps_its_memory() -> None:
    """``exp(x).sum() + y`` over `y`, read and stored by whichever block is elected."""
    x, y = programs.array(0, N), programs.array(1)
    traced = programs.program([x, y], [programs.add(programs.reduce("sum", programs.exp(x), 0), y)])
    digits = [block("b", N.ceildiv(64)), thread("t", 1, 16), slot("v", 4)]
    place = [64 * b + 16 * v + t]
    combines = {"b": Combination(("t",))}
    scop, kernel = schedule(traced, digits, {"exp": place, "sum": place, "add": []}, combines=combines)
    verdict = reuse(scop, kernel, "add", "x1")
    assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.WAR)
    assert "runs in whichever block along b arrives last" in verdict.sentence
