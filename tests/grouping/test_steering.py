"""Wishes, limits, modes, refutations, and the reason for each refusal."""

from __future__ import annotations

import pytest

from polyfuse.grouping import Grouping, KernelGroup, search
from polyfuse.verdict import Hazard, Kind, Verdict, illegal
from tests.grouping.invariants import check, unfused
from tests.grouping.model import Model, Program, Values
from tests.grouping.programs import Builder, adversarial, blocks, chain, normalised_twice, realistic, softmax


def tagged(program: Program, tag: str) -> int:
    return next(v for v, op in enumerate(program.ops) if op.tag == tag)


def kernels_of(grouping: Grouping, value: int) -> list[KernelGroup]:
    return [kernel for kernel in grouping.kernels if value in kernel.body]


def test_fuse_nothing_is_one_kernel_per_statement() -> None:
    model = Model(softmax())
    grouping = search(model, fusible=lambda body: False)
    check(model, grouping)
    assert [len(kernel.body) for kernel in grouping.kernels] == [1] * 4
    assert grouping.time == unfused(model)
    verdict = grouping.why_not(1, 2)
    assert verdict.hazard is Hazard.STEERING and "fuse option" in verdict.sentence


def test_fuse_pointwise_leaves_sums_alone() -> None:
    model = Model(normalised_twice())
    grouping = search(model, fusible=lambda body: all(model.program.ops[v].kind == "map" for v in body))
    check(model, grouping)
    for kernel in grouping.kernels:
        assert len(kernel.body) == 1 or {model.program.ops[v].kind for v in kernel.body} == {"map"}
    assert max(len(kernel.body) for kernel in grouping.kernels) > 1


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_max_size_holds(limit: int) -> None:
    model = Model(chain(11))
    grouping = search(model, max_size=limit)
    check(model, grouping)
    assert max(len(kernel.body) for kernel in grouping.kernels) <= limit
    assert len(grouping.kernels) == -(-11 // limit)


def test_max_size_is_named_as_the_reason() -> None:
    grouping = search(Model(chain(6)), max_size=3)
    verdict = grouping.why_not(1, 6)
    assert verdict.hazard is Hazard.STEERING and "max_fusion_size is 3" in verdict.sentence


def test_apart_is_obeyed_and_given_as_the_reason() -> None:
    model = Model(softmax())
    exp, div = tagged(model.program, "exp"), tagged(model.program, "div")
    grouping = search(model, apart=[(exp, div)])
    check(model, grouping)
    assert not any({exp, div} <= kernel.body for kernel in grouping.kernels)
    assert grouping.why_not(exp, div).sentence == "the user keeps these values apart"
    assert grouping.time > search(model).time


def test_together_is_obeyed_even_when_slower() -> None:
    b = Builder()
    x = b.input()
    model = Model(b.program(b.map("f", x, flops=2000), b.map("g", b.input("j"), flops=1)))
    f, g = tagged(model.program, "f"), tagged(model.program, "g")
    grouping = search(model, together=[(f, g)])
    check(model, grouping)
    assert kernels_of(grouping, f) == kernels_of(grouping, g)
    assert grouping.unmet == ()


def test_together_brings_along_what_lies_between() -> None:
    model = Model(chain(20))
    grouping = search(model, together=[(3, 9)], max_size=8)
    check(model, grouping)
    assert any(kernel.body >= set(range(3, 10)) for kernel in grouping.kernels)


def test_impossible_together_returns_the_verdict() -> None:
    b = Builder()
    x = b.input()
    model = Model(b.program(b.map("f", x, b.sum(x, "j"), b.sum(x, "i"))))
    row, column = (v for v, op in enumerate(model.program.ops) if op.kind == "sum")
    f = tagged(model.program, "f")
    wish = frozenset((row, column, f))
    grouping = search(model, together=[wish])
    check(model, grouping)
    ((refused, verdict),) = grouping.unmet
    assert refused == wish and verdict.hazard is Hazard.SCOPE
    assert verdict.sentence == "a block holds whole rows or whole columns, not both"


def test_together_against_apart_and_size_is_refused() -> None:
    model = Model(chain(6))
    assert search(model, together=[(1, 2)], apart=[(1, 2)]).unmet[0][1].hazard is Hazard.STEERING
    assert "max_fusion_size" in search(model, together=[(1, 6)], max_size=3).unmet[0][1].sentence


def test_together_survives_a_large_search() -> None:
    model = Model(blocks(120))
    wish = tuple(v for v in range(40, 44) if not model.is_input(v))
    grouping = search(model, together=[wish])
    check(model, grouping)
    granted = not grouping.unmet
    for kernel in grouping.kernels:
        assert not granted or kernel.body >= set(wish) or kernel.body.isdisjoint(wish)


# ---------------------------------------------------------------------------------------------------- reasons


@pytest.mark.parametrize("seed", range(25))
def test_every_refusal_has_a_reason(seed: int) -> None:
    """Whatever lies in two neighbouring kernels was refused, and says why; nothing that is fused counts as refused."""
    for model in (realistic(seed, 14), adversarial(seed, 12)):
        grouping = search(model, effort=2)
        owner = {root: kernel for kernel in grouping.kernels for root in kernel.roots}
        for (u, v), verdict in grouping.log.items():
            assert not verdict and verdict.sentence
            assert u == v or not any({u, v} <= kernel.body for kernel in grouping.kernels)
        for kernel in grouping.kernels:
            for value in kernel.loads & owner.keys():
                verdict = grouping.why_not(value, min(kernel.roots))
                assert verdict.sentence
                assert not verdict or any({value, min(kernel.roots)} <= other.body for other in grouping.kernels)
                if verdict.kind is Kind.UNPROFITABLE:
                    assert verdict.numbers["loss_us"] >= 0


def test_refusals_of_the_search_are_logged_by_pairs() -> None:
    b = Builder()
    x = b.input()
    f = b.map("f", x, flops=3000)
    model = Model(b.program(b.map("g", f, b.sum(f, "i"), b.sum(f, "j"))))
    grouping = search(model)
    assert len(grouping.kernels) > 1
    assert any(verdict.hazard is Hazard.SCOPE for (u, v), verdict in grouping.log.items() if u != v)


def test_why_not_of_a_fused_pair_is_legal() -> None:
    grouping = search(Model(softmax()))
    assert grouping.why_not(1, 4) and grouping.why_stored(1)


def test_why_not_of_inputs() -> None:
    verdict = search(Model(softmax())).why_not(0, 1)
    assert verdict.kind is Kind.LEGAL and "input" in verdict.sentence


def test_why_stored_of_an_output() -> None:
    model = Model(softmax())
    (output,) = model.program.outputs
    assert search(model).why_stored(output).kind is Kind.ILLEGAL


# ---------------------------------------------------------------------------------------------------- refutation

REFUSED = illegal(Hazard.RAW, "the emitted schedule violates a dependence")


def test_a_refuted_kernel_does_not_come_back() -> None:
    model = Model(softmax())
    grouping = search(model)
    (whole,) = grouping.kernels
    again = grouping.refute({whole: REFUSED})
    check(model, again)
    assert whole not in again.kernels
    assert whole.time < again.time < unfused(model)
    assert again.why_not(min(whole.body), max(whole.body)) == REFUSED


def test_refuting_on_and_on_ends_with_single_statements() -> None:
    model = Model(chain(5))
    grouping = search(model)
    for _ in range(200):
        fused = {kernel: REFUSED for kernel in grouping.kernels if len(kernel.body) > 1}
        if not fused:
            break
        grouping = grouping.refute(fused)
        check(model, grouping)
    assert [len(kernel.body) for kernel in grouping.kernels] == [1] * 5
    with pytest.raises(ValueError, match="alone was refused"):
        grouping.refute({grouping.kernels[0]: REFUSED})


@pytest.mark.parametrize("seed", range(20))
def test_refuting_random_plans_keeps_the_invariants(seed: int) -> None:
    """Also where kernels recompute values that refuted kernels compute."""
    for model in (realistic(seed, 16), adversarial(seed, 12)):
        grouping, refuted = search(model, effort=1), set[tuple[Values, Values]]()
        for round_ in range(3):
            fused = [kernel for kernel in grouping.kernels if len(kernel.body) > 1]
            if not fused:
                break
            refused = fused[round_ % len(fused)]
            refuted.add((refused.body, refused.roots))
            grouping = grouping.refute({refused: REFUSED})
            check(model, grouping, refuted)
            assert refuted.isdisjoint((kernel.body, kernel.roots) for kernel in grouping.kernels)


def test_a_refuted_wish_becomes_unmet() -> None:
    model = Model(chain(3))
    grouping = search(model, together=[(1, 2, 3)])
    again = grouping.refute({grouping.kernels[0]: REFUSED})
    assert again.unmet == ((frozenset((1, 2, 3)), REFUSED),)


# ---------------------------------------------------------------------------------------------------- recompute


@pytest.mark.parametrize("seed", range(15))
def test_who_recomputes_a_stored_value_was_told(seed: int) -> None:
    """What a kernel computes although another one stored it before would be dearer, or illegal, to load."""
    for model in (adversarial(seed, 14), realistic(seed, 16)):
        stored: set[int] = set()
        for kernel in search(model, effort=2).kernels:
            for value in kernel.body & stored:
                body, loads = demanded(model, kernel.roots, (stored - kernel.body) | {value})
                cheaper = model.price(body, kernel.roots, loads) < kernel.time
                assert not cheaper or not model.legal(body, kernel.roots, loads)
            stored |= kernel.roots


def demanded(model: Model, roots: Values, stored: set[int]) -> tuple[Values, Values]:
    """Body and loads of the kernel that stores `roots` and loads what is in `stored`."""
    body, loads, todo = set(roots), set[int](), list(roots)
    while todo:
        for value in model.operands(todo.pop()):
            if model.is_input(value) or value in stored:
                loads.add(value)
            elif value not in body:
                body.add(value)
                todo.append(value)
    return frozenset(body), frozenset(loads)


def test_an_output_is_rebuilt_where_its_operands_are_read_anyway() -> None:
    """`repeat`: the rows h = f(x) are an output, yet the second kernel reads x alone."""
    b = Builder()
    x = b.input()
    h = b.map("f", x)
    model = Model(b.program(h, b.map("g", x, h, b.sum(h, "i"), b.sum(h, "j"))))
    grouping = search(model)
    check(model, grouping)
    rebuilt = tagged(model.program, "f")
    assert len(kernels_of(grouping, rebuilt)) == 2
    assert all(rebuilt not in kernel.loads for kernel in grouping.kernels)


def test_what_may_be_computed_once_is_not_rebuilt() -> None:
    model = Once(adversarial(7, 12))
    assert model.effects
    grouping = search(model)
    for value in model.effects:
        assert len(kernels_of(grouping, value)) == 1


class Once(Model):
    """Every third value has an effect."""

    def __init__(self, base: Model) -> None:
        super().__init__(base.program, base.forbid)
        self.effects = [v for v in range(self.count) if v % 3 == 2 and not self.is_input(v)]

    def must_store(self, value: int) -> bool:
        return value in self.effects


def test_legality_is_not_hereditary() -> None:
    """Neighbours may only share a kernel when all four do: no pair or triple is a way station."""
    model = Model(chain(4), all_or_nothing)
    grouping = search(model)
    check(model, grouping)
    assert [len(kernel.body) for kernel in grouping.kernels] == [4]


def all_or_nothing(body: Values, roots: Values, loads: Values) -> Verdict:
    whole = illegal(Hazard.SCOPE, "only the whole chain fits")
    return Verdict(Kind.LEGAL, "whole") if len(body) == 4 else whole
