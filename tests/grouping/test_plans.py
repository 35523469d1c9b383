"""Plans of programs that people write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from polyfuse.grouping import Grouping, search
from tests.grouping.invariants import check
from tests.grouping.model import Model, Op, Program
from tests.grouping.programs import (
    Builder,
    adversarial,
    attention,
    blocks,
    chain,
    layernorm,
    normalised_twice,
    optimizer,
    realistic,
    softmax,
)


def planned(program: Program) -> Grouping:
    model = Model(program)
    grouping = search(model)
    check(model, grouping)
    return grouping


@pytest.mark.parametrize("program", [chain(5), softmax(), layernorm()], ids=["chain", "softmax", "layernorm"])
def test_one_kernel(program: Program) -> None:
    assert len(planned(program).kernels) == 1


def test_attention_is_reached_though_its_parts_are_illegal() -> None:
    program = attention()
    first, second = (v for v, op in enumerate(program.ops) if op.kind == "dot")
    row_maximum = next(v for v, op in enumerate(program.ops) if op.kind == "sum")
    softened = frozenset((first, row_maximum, next(v for v, op in enumerate(program.ops) if op.tag == "exp")))
    assert not Model(program).legal(softened, frozenset((max(softened),)), frozenset())
    grouping = planned(program)
    assert [kernel.body >= {first, row_maximum, second} for kernel in grouping.kernels] == [True]


def test_statistics_are_stored_and_the_normalised_rows_are_recomputed() -> None:
    """`thin`: no rule names a mean, yet what the first kernel stores is two numbers a row."""
    program = normalised_twice()
    first, second, opaque = planned(program).kernels
    assert {program.ops[v].tag for v in first.roots} == {"mean", "rsqrt"}
    assert {"sub", "mul", "add", "gelu", "dot"} <= {program.ops[v].tag for v in second.body}
    centred = next(v for v, op in enumerate(program.ops) if op.tag == "sub")
    assert centred in first.body & second.body
    assert opaque.loads <= second.roots


def test_what_is_stored_is_the_value_before_a_widening_cast() -> None:
    b = Builder()
    half = b.add(Op("map", (b.input(),), "ij", flops=4000, scale=2, tag="half"))
    wide = b.add(Op("map", (half,), "ij", tag="cast"))
    model = Model(b.program(b.map("f", wide), b.map("g", wide)))
    f, g = (next(v for v, op in enumerate(model.program.ops) if op.tag == tag) for tag in "fg")
    grouping = search(model, apart=[(f, g)])
    check(model, grouping)
    stored = {v for kernel in grouping.kernels for v in kernel.roots} - model.program.outputs
    assert [model.program.ops[v].tag for v in stored] == ["half"]


def test_cheap_producer_of_two_distant_readers_is_recomputed() -> None:
    """`drop`: reading x twice is cheaper than writing 2x and reading it twice."""
    b = Builder()
    x = b.input()
    doubled = b.map("double", x)
    model = Model(b.program(b.opaque(b.map("f", doubled)), b.sum(b.map("g", doubled), "i")))
    grouping = search(model)
    check(model, grouping)
    value = next(v for v, op in enumerate(model.program.ops) if op.tag == "double")
    assert value not in {root for kernel in grouping.kernels for root in kernel.roots}


def test_costly_producer_is_stored_when_its_readers_stay_apart() -> None:
    b = Builder()
    costly = b.map("costly", b.input(), flops=4000)
    model = Model(b.program(b.map("f", costly), b.map("g", costly)))
    value, f, g = (next(v for v, op in enumerate(model.program.ops) if op.tag == tag) for tag in ("costly", "f", "g"))
    grouping = search(model, apart=[(f, g)])
    check(model, grouping)
    assert value in {root for kernel in grouping.kernels for root in kernel.roots}
    assert grouping.why_stored(value).numbers["loss_us"] > 0


def test_independent_updates_share_launches() -> None:
    grouping = planned(optimizer(30))
    assert len(grouping.kernels) <= 15


def test_outputs_and_opaque_results_are_stored_once() -> None:
    b = Builder()
    called = b.opaque(b.map("f", b.input()))
    model = Model(b.program(b.map("g", called), b.map("h", called)))
    grouping = search(model)
    check(model, grouping)
    value = next(v for v, op in enumerate(model.program.ops) if op.kind == "opaque")
    assert [kernel.roots for kernel in grouping.kernels if value in kernel.body] == [frozenset((value,))]


def test_values_that_no_output_needs_are_not_computed() -> None:
    b = Builder()
    x = b.input()
    program = b.program(b.map("f", x))
    dead = Program((*program.ops, program.ops[-1]), program.outputs)
    grouping = planned(dead)
    assert {v for kernel in grouping.kernels for v in kernel.body} == set(program.outputs)


def test_a_program_without_statements() -> None:
    b = Builder()
    grouping = search(Model(b.program(b.input())))
    assert grouping.kernels == () and grouping.time == 0


@pytest.mark.parametrize("seed", range(40))
def test_invariants_on_random_programs(seed: int) -> None:
    for model in (realistic(seed, 20), adversarial(seed, 14)):
        check(model, search(model, effort=2))


def test_invariants_on_a_large_program() -> None:
    model = Model(blocks(300))
    check(model, search(model))


@pytest.mark.parametrize("family", [blocks, chain])
def test_questions_grow_linearly(family: Callable[[int], Program]) -> None:
    """Prices and proofs cost far more than the search itself; the benchmark measures time."""
    for statements in (40, 400):
        model = Model(family(statements))
        search(model)
        assert model.asked["price"] <= 8 * statements
        assert model.asked["legal"] <= 3 * statements


def test_the_size_limit_is_asked_before_the_price() -> None:
    model = Model(chain(200))
    sizes = list[int]()
    price = model.price
    model.price = lambda body, *boundary: sizes.append(len(body)) or price(body, *boundary)  # type: ignore[method-assign]
    search(model, max_size=16)
    assert max(sizes) <= 16
