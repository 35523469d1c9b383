"""Programs whose one kernel no several undercut by much are not searched."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from polyfuse.grouping import search, whole
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.rules import Judge, Rules
from polyfuse.verdict import Hazard, illegal
from tests.grouping.invariants import check
from tests.grouping.model import Model, Program, Values
from tests.grouping.oracle import optimum
from tests.grouping.programs import Builder, adversarial, chain, layernorm, realistic, softmax


def one_kernel(model: Model, rules: Rules | None = None) -> KernelGroup | None:
    return whole.whole(Judge(model, rules or Rules()), inf)


class Slower(Model):
    """The kernel of everything takes that many times as long."""

    factor = 1.0

    def price(self, body: Values, roots: Values, loads: Values) -> int:
        computed = sum(op.kind != "input" for op in self.program.ops)
        return int(super().price(body, roots, loads) * (self.factor if len(body) == computed else 1))


def slower(program: Program, factor: float) -> Slower:
    model = Slower(program.canonical())
    model.factor = factor
    return model


@pytest.mark.parametrize("program", [chain(9), softmax(), layernorm()], ids=["chain", "softmax", "layernorm"])
def test_one_price_is_all_that_is_asked(program: Program) -> None:
    model = Model(program)
    grouping = search(model)
    assert len(grouping.kernels) == 1 and model.asked == {"price": 1, "legal": 1}
    check(model, grouping)


@pytest.mark.parametrize("family", [realistic, adversarial])
def test_several_kernels_are_not_faster_by_more_than_is_said(family: Callable[[int, int], Model]) -> None:
    """Than the one kernel that is not searched: beside the exact optimum, by the same prices and legality."""
    found = 0
    for seed in range(300):
        model = family(seed, 6)
        kernel = one_kernel(model)
        if kernel is not None:
            found += 1
            exact = optimum(model, kernel.time)
            assert (kernel.time - exact) * whole.NEAR <= kernel.time
    assert found > 10


@pytest.mark.parametrize("program, factor", [(softmax(), 1.4), (chain(4), 2.7)])
def test_what_is_passed_on_counts(program: Program, factor: float) -> None:
    """Rows are read again by the second of two kernels, arrays of a chain are written and read: kernels that take
    nearly as long are left, and those that take longer are not."""
    assert one_kernel(slower(program, factor)) is not None
    assert one_kernel(slower(program, factor * 1.25)) is None


def test_a_small_value_that_nothing_goes_around_is_passed_on_for_little() -> None:
    """Of a mean of sums of rows, the sums: another kernel takes their mean, and reads nothing else."""
    b = Builder()
    program = b.program(b.sum(b.map("square", b.sum(b.map("twice", b.input()), "j")), "i"))
    assert one_kernel(slower(program, 1.0)) is not None
    assert one_kernel(slower(program, 1.4)) is None


def test_outputs_that_share_an_input_may_be_apart() -> None:
    b = Builder()
    small = b.input("i")
    wide = b.map("wide", b.input(), small)
    program = b.program(wide, b.map("narrow", small))
    assert one_kernel(slower(program, 1.4)) is None


def test_programs_that_share_nothing_are_searched() -> None:
    b = Builder()
    model = Model(b.program(b.map("one", b.input()), b.map("other", b.input("j"))).canonical())
    assert one_kernel(model) is None


@pytest.mark.parametrize(
    "rules",
    [Rules(max_size=2), Rules(fusible=lambda body: False), Rules(apart=(frozenset((1, 2)),))],
    ids=["size", "option", "apart"],
)
def test_what_the_user_forbids_is_searched(rules: Rules) -> None:
    model = Model(softmax())
    assert one_kernel(model) is not None
    assert one_kernel(model, rules) is None


def test_what_would_cost_more_than_is_allowed_is_searched() -> None:
    judge = Judge(Model(softmax()), Rules())
    assert whole.whole(judge, whole.EACH * 4) is not None
    assert whole.whole(judge, whole.EACH * 4 - 1) is None


def test_what_is_illegal_or_stored_in_any_case_is_searched() -> None:
    assert one_kernel(Model(softmax(), lambda body, roots, loads: illegal(Hazard.SCOPE, "not in one block"))) is None
    b = Builder()
    assert one_kernel(Model(b.program(b.map("after", b.opaque(b.map("before", b.input())))))) is None
