"""Single values that move over to a neighbouring kernel."""

from __future__ import annotations

from polyfuse.grouping.allowance import allowance
from polyfuse.grouping.moves import advanced
from polyfuse.grouping.partition import KernelGroup, Partition
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.rules import Judge, Rules
from polyfuse.grouping.settle import settle
from tests.grouping.model import Model
from tests.grouping.programs import Builder


def partition(model: Model, *groups: tuple[set[int], set[int], set[int]]) -> Partition:
    kernels = [KernelGroup(*map(frozenset, group), 0) for group in groups]
    return Partition.of(
        model, [KernelGroup(k.roots, k.body, k.loads, model.price(k.body, k.roots, k.loads)) for k in kernels]
    )


def test_a_value_is_computed_by_the_kernel_that_stores_what_it_is_made_of() -> None:
    """Two values of every element are stored; one that is made of them is enough."""
    b = Builder()
    x = b.input()
    first, second = b.map("first", x), b.map("second", x)
    loss = b.map("loss", b.map("log", second), first)
    model = Model(b.program(b.sum(b.map("scaled", loss), "i")))
    found = {op.tag or op.kind: v for v, op in enumerate(model.program.ops)}
    (x,) = [v for v, op in enumerate(model.program.ops) if op.kind == "input"]
    one, two, total = found["first"], found["second"], found["sum"]
    state = partition(
        model,
        ({one, two}, {one, two}, {x}),
        ({total}, {found["log"], found["loss"], found["scaled"], total}, {one, two}),
    )
    before = state.total()
    kept_apart = Judge(model, Rules(apart=(frozenset((one, total)), frozenset((two, total)))))
    settle(Queue(state, kept_apart, allowance(len(state.kernels), 0, None)), set())
    first_kernel, second_kernel = [state.kernels[k] for k in state.in_launch_order()]
    assert first_kernel.body >= {one, two, found["log"], found["loss"]} and len(first_kernel.roots) == 1
    assert second_kernel.loads == first_kernel.roots and total in second_kernel.body
    assert state.total() < before


def test_what_inputs_alone_or_several_kernels_make_stays_where_it_is() -> None:
    b = Builder()
    x, y = b.input(), b.input("j")
    shifted = b.map("shifted", y)
    rows, columns = b.sum(x, "j"), b.sum(x, "i")
    both = b.map("both", rows, columns)
    model = Model(b.program(b.map("out", b.map("outer", both), shifted)))
    found = {op.tag or op.kind + op.over: v for v, op in enumerate(model.program.ops)}
    inputs = {v for v, op in enumerate(model.program.ops) if op.kind == "input"}
    (matrix,) = [v for v in inputs if model.program.ops[v].axes == "ij"]
    (vector,) = inputs - {matrix}
    one, other = found["sumj"], found["sumi"]
    last = {found[tag] for tag in ("both", "outer", "shifted", "out")}
    state = partition(
        model,
        ({one}, {one}, {matrix}),
        ({other}, {other}, {matrix}),
        ({found["out"]}, last, {one, other, vector}),
    )
    reader = state.owner[found["out"]]
    assert advanced(state, found["shifted"], reader) is None
    assert advanced(state, found["both"], reader) is None
