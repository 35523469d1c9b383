"""Split long reductions with few results on a CPU, so that all cores can share them and sums round little.

A GPU's blocks share a reduction inside one kernel (`strategies/shares.py`); cores gain nothing from that.  Where one
block would add up many shares of many results, a GPU takes two stages as well (`in_two_stages`).

    s = sum(x[k], 0 <= k < N)
 -> p[q] = sum(x[4096*q + r], 0 <= r < 4096, 4096*q + r < N);   s = sum(p[q])

A part of a sum of floats is summed in runs of its own: 4 million numbers would be 130,000 additions to each vector
lane, and 40 million times 0.1 err by 2e-5.  The monoid's associativity makes it legal; the stages are ordinary
reductions for everything that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from polyfuse import expr
from polyfuse.affine import ZERO, Affine, dimension, dimensions, names_of
from polyfuse.bindings import Guard
from polyfuse.expr import Node, Piece, Program
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.scop import neutral
from polyfuse.target import Target
from polyfuse.terms import Const

FEW_RESULTS = 4  # per core: fewer leave cores idle when each result is the work of one
LONG = 1 << 16  # elements per result below which one core is as fast as two launches
TOO_LONG = 1 << 20  # numbers in each of many sums of floats: one core sums each of them, but not in one run
RUN = 1 << 13  # numbers that are summed at once: 256 to a lane, which keeps the error near that of pairwise sums
LANES = 32  # that share a run, where the innermost axis of what is summed has as many numbers
RUNS = 64  # of a part that are added up one after the other


class Cut(NamedTuple):
    """Of a reduction: the axis of its operands to split, and the elements per part, or the parts to which neighbouring
    elements are `dealt`.

    dealt to 4:   p[r] = sum(x[4*q + r], 0 <= q < N // 4);   s = sum(p[r], 0 <= r < 4) + sum(x[k], N - N % 4 <= k < N)
    """

    axis: int
    size: int
    dealt: bool = False


def split_reductions(program: Program, target: Target, hints: Mapping[str, int]) -> tuple[Program, tuple[Guard, ...]]:
    """The program with long reductions in two stages, and guards for the sizes that made it worth while."""
    if target.kind != "cpu":
        return program, ()
    guards: dict[Guard, None] = {}

    def cut(_: Node, node: expr.Reduce) -> Cut | None:
        plan = _plan(node, target, hints)
        if plan is not None and not (extent := node.operands[0].shape[plan[0]]).is_constant:
            guards[Guard(extent - plan[1])] = None
        return plan

    return _split(program, cut, hints), tuple(guards)


class Staged(NamedTuple):
    """A program with reductions in two stages.  By digest: what takes the place of each value, and the first stages of
    the reductions."""

    program: Program
    became: Mapping[bytes, bytes]
    first: Mapping[bytes, bytes]


def in_two_stages(program: Program, cuts: Mapping[bytes, Cut]) -> Staged:
    """The program with each reduction of `cuts`, by its digest, in two stages."""
    became, first = dict[bytes, bytes](), dict[bytes, bytes]()

    def follow(original: Node, final: Node, stages: Sequence[Node]) -> None:
        became[_whole(original)] = _whole(final)
        first.update({_whole(original): _whole(stage) for stage in stages})

    return Staged(_split(program, lambda node, _: cuts.get(_whole(node)), follow=follow), became, first)


def _whole(node: Node) -> bytes:
    """What a reduction is known by, of which a node may be but one component of a state."""
    if not isinstance(node, expr.Reduce) or not node.component:
        return node.digest
    return expr.reduce_(node.monoid, node.operands, node.axes).digest


def outer_first(program: Program, outer: Mapping[bytes, tuple[int, ...]]) -> Program:
    """The program with each reduction of `outer`, by its digest, over these of its axes first.

    s[j] = sum(x[i, j, k], i, k)   ->   p[j, k] = sum(x[i, j, k], i);   s[j] = sum(p[j, k], k)
    """
    names: dict[bytes, str] = {}

    def change(original: Node, node: Node) -> Node:
        axes = outer.get(_whole(original))
        if axes is None or not isinstance(node, expr.Reduce):
            return node
        assert set(axes) < set(node.axes), "what is kept is not summed"
        operands = [_in_front(operand, axes) for operand in node.operands]  # what is kept lies side by side
        partial = [expr.reduce_(node.monoid, operands, range(len(axes)), k) for k in range(len(operands))]
        if (name := program.names.get(original.digest)) is not None:
            names[partial[0].digest] = f"{name}_part"
        rest = [a - sum(o < a for o in axes) for a in node.axes if a not in axes]
        return expr.reduce_(node.monoid, partial, rest, node.component)

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, names={**rebuilt.names, **names})


def _in_front(operand: Node, axes: tuple[int, ...]) -> Node:
    """With these axes first, also in what it is made of element by element, where they may have been so before."""
    order = [*axes, *[k for k in range(operand.rank) if k not in axes]]
    if order == list(range(operand.rank)):
        return operand
    index, moved = [dimension(order.index(k)) for k in range(len(order))], dict[bytes, Node]()
    for node in expr.topological([operand]):
        if node.shape != operand.shape:
            continue
        if isinstance(node, expr.Map):
            moved[node.digest] = expr.map_(node.function, [moved.get(o.digest, o) for o in node.operands], node.dtype)
        else:
            moved[node.digest] = expr.view(node, [node.shape[k] for k in order], index)
    return moved[operand.digest]


def _split(
    program: Program,
    cut: Callable[[Node, expr.Reduce], Cut | None],
    hints: Mapping[str, int] | None = None,
    follow: Callable[[Node, Node, Sequence[Node]], None] = lambda original, final, stages: None,
) -> Program:
    """`hints`: of runs that are summed apart; none where a part of a sum is one run.  `follow`: is told of every node,
    what takes its place, and first stages of that.  That there is a whole round of what is dealt is a fact of the
    program, which a plan has to guard."""
    names: dict[bytes, str] = {}
    padded: set[bytes] = set()
    facts = dict.fromkeys(program.facts)

    def change(original: Node, node: Node) -> Node:
        plan = cut(original, node) if isinstance(node, expr.Reduce) else None
        if plan is None:
            follow(original, node, ())
            return node
        assert isinstance(node, expr.Reduce) and plan.axis in node.axes, "what is kept is not cut"
        name = program.names.get(original.digest)
        final = None if plan.dealt else _contraction(node, plan.axis, plan.size)
        final = final or _two_stages(node, plan, hints, names, name)
        extent = node.operands[0].shape[plan.axis]
        if plan.dealt and not extent.is_constant:
            facts[extent - plan.size] = None
        users = {n.digest for n in expr.topological(node.operands)}
        below = [o for partial in final.operands for o in expr.operands_of(partial)]
        padded.update(n.digest for n in expr.topological(below) if n.digest not in users)
        made = [n for n in expr.topological(final.operands) if n.digest not in users]
        follow(original, final, [n for n in made if isinstance(n, expr.Reduce)])
        return final

    rebuilt = rebuild_program(program, change)
    inner = rebuilt.inner | padded  # padded operands and sums of runs are no values of the user's
    return replace(rebuilt, names={**rebuilt.names, **names}, inner=inner, facts=tuple(facts))


def _plan(node: expr.Reduce, target: Target, hints: Mapping[str, int]) -> Cut | None:
    """None where one stage serves."""
    shape = [n.evaluate(hints) for n in node.operands[0].shape]
    kept = reduced = 1
    for k, n in enumerate(shape):
        if k in node.axes:
            reduced *= n
        else:
            kept *= n
    if reduced < LONG:
        return None
    if kept >= FEW_RESULTS * target.processors:
        axis = max(node.axes, key=lambda k: (shape[k], -k))
        run = _run(node, axis, shape[axis], hints) if reduced >= TOO_LONG else None
        return None if run is None else Cut(axis, run)
    parts = max(2, min(8 * target.processors // max(1, kept), reduced // 8192))
    long = [k for k in node.axes if shape[k] >= parts]  # the outermost long axis: rows stay whole
    axis = long[0] if long else max(node.axes, key=lambda k: (shape[k], -k))
    parts = min(parts, shape[axis])
    chunk = 1 << max(0, -(-shape[axis] // parts) - 1).bit_length()
    return Cut(axis, chunk) if chunk < shape[axis] else None


def _run(node: expr.Reduce, axis: int, chunk: int, hints: Mapping[str, int]) -> int | None:
    """Steps along `axis`, of `chunk` steps, that make a run; None where this is no sum of floats, or one run."""
    if node.monoid != "sum" or not node.dtype.is_float:
        return None
    inner = [n for k in node.axes if k > axis and (n := node.operands[0].shape[k].evaluate(hints)) > 1]
    numbers = RUN * min(LANES, inner[-1]) // LANES if inner else RUN
    run = 1 << max(1, (numbers // max(1, prod(inner))).bit_length() - 1)
    return run if run < chunk else None


def _two_stages(
    node: expr.Reduce,
    plan: Cut,
    hints: Mapping[str, int] | None,
    names: dict[bytes, str],
    name: str | None,
    of_runs: bool = False,
) -> expr.Reduce:
    axis, chunk, dealt = plan
    source = node.operands[0].shape
    extent = source[axis]
    if dealt and (node.axes == (axis,) or extent == extent // chunk * chunk):
        return _in_rounds(node, axis, chunk, names, name)
    parts = extent.ceildiv(chunk)
    shape = (*source[:axis], parts, Affine.of(chunk), *source[axis + 1 :])
    points = [dimension(k if k < axis else k + 1) for k in range(len(source))]
    points[axis] = dimension(axis) * chunk + dimension(axis + 1)
    inside = extent - points[axis] - 1
    fill = neutral(node.monoid, [o.dtype for o in node.operands])
    exact = extent.is_constant and extent.constant % chunk == 0
    cut: list[Node] = []
    for operand, other in zip(node.operands, fill, strict=True):
        if exact:
            cut.append(expr.view(operand, shape, points))
            continue
        rest = Piece((), expr.constant(other.value, operand.dtype), ())
        cut.append(expr.region(shape, [Piece((inside,), operand, tuple(points)), rest]))
    before = [a for a in node.axes if a < axis]  # of a run they wait for the second stage: a run is one in memory
    inner = tuple(a + 1 for a in node.axes if a >= axis)  # the part's own axis stays, the chunk's is reduced
    inner, before = (inner, before) if of_runs else ((*before, *inner), [])
    kept = axis + 1 if dealt else axis  # what the first stage leaves to the second
    inner = tuple([axis if a == kept else a for a in inner])
    state = range(len(node.operands))
    partial = [expr.reduce_(node.monoid, cut, inner, component) for component in state]
    run = None if hints is None else _run(partial[0], axis + 1, chunk, hints)
    if run is not None and hints is not None:
        again = Cut(axis + 1, max(run, chunk // RUNS))
        partial = [_two_stages(partial[0], again, hints, names, None, of_runs=True)]
    if name:
        names[partial[0].digest] = f"{name}_part"
    left = kept - sum(a < kept for a in inner)  # where the parts' axis lies among what the first stage keeps
    return expr.reduce_(node.monoid, partial, [*before, left], node.component)


def _in_rounds(node: expr.Reduce, axis: int, count: int, names: dict[bytes, str], name: str | None) -> expr.Reduce:
    """A reduction whose elements are dealt to `count` parts in whole rounds; the second stage has what is left over.

    p[r] = sum(x[4*q + r], 0 <= q < N // 4);   s = sum(p[r] where r < 4, else x[N - N % 4 + r - 4] or 0, 0 <= r < 8)
    """
    operand = node.operands[0]
    rounds, rest = operand.shape[axis] // count, operand.shape[axis] % count
    left = _in_front_of_rows(node.operands, axis, node.axes)
    order = [k for k in range(operand.rank) if k != axis]
    order.insert(left, axis)
    point = {k: dimension(at + (at >= left)) for at, k in enumerate(order)}
    point[axis] = dimension(left) * count + dimension(left + 1)
    extents = [operand.shape[k] for k in order]
    shape = (*extents[:left], rounds, Affine.of(count), *extents[left + 1 :])
    dealt = [_elements(o, shape, [point[k] for k in range(o.rank)]) for o in node.operands]
    over = [at + (at > left) for at, k in enumerate(order) if k in node.axes]
    stage: list[Node] = [expr.reduce_(node.monoid, dealt, over, component) for component in range(len(dealt))]
    if name:
        names[stage[0].digest] = f"{name}_part"
    left -= sum(k in node.axes for k in order[:left])  # where the parts' axis lies among what the first stage keeps
    if rest != ZERO:
        extents[left] = rest
        behind = {k: dimension(at) + (rounds * count if k == axis else 0) for at, k in enumerate(order)}
        others = [_elements(o, extents, [behind[k] for k in range(o.rank)]) for o in node.operands]
        fill = neutral(node.monoid, [o.dtype for o in node.operands])
        stage = [_behind(*each, left) for each in zip(stage, others, fill, strict=True)]
    return expr.reduce_(node.monoid, stage, [left], node.component)


def _behind(first: Node, second: Node, fill: Const, axis: int) -> Node:
    """`second`, which is at most as long, behind `first`, filled up: how long it is need not be known."""
    point, count = list(dimensions(first.rank)), first.shape[axis]
    shape = (*first.shape[:axis], count * 2, *first.shape[axis + 1 :])
    behind = [at - count if k == axis else at for k, at in enumerate(point)]
    inside, until = count - 1 - point[axis], count + second.shape[axis] - 1 - point[axis]
    rest = Piece((), expr.constant(fill.value, first.dtype), ())
    return expr.region(shape, [Piece((inside,), first, tuple(point)), Piece((until,), second, tuple(behind)), rest])


def _in_front_of_rows(operands: Sequence[Node], axis: int, axes: Sequence[int]) -> int:
    """Where among the others the elements of a part stand next to what lies inside of them in memory: that is read as
    one with them.  Where that would change the order of what is kept, they stay where they are."""
    place, dims = _in_memory(operands), range(operands[0].rank)
    inside = [k for k in dims if k not in axes and place.get(k, k) > place.get(axis, axis)]
    others = [k for k in dims if k not in (axis, *inside)]
    usual = axis if not inside else min(inside) - (axis < min(inside))
    return usual if all(k < min(inside, default=axis) for k in others) else axis


def _in_memory(operands: Sequence[Node]) -> dict[int, int]:
    """Of the dimensions of what is computed element by element, where those of the largest array lie that they go
    along."""
    found: dict[int, int] = {}
    for node in expr.topological(operands):
        if node.shape == operands[0].shape and isinstance(node, expr.View):
            at = {int(n[1:]): k for k, entry in enumerate(node.index) for n in entry.names() if n.startswith("%")}
            found = at if len(at) > len(found) else found
    return found


def _elements(node: Node, shape: Sequence[Affine], index: Sequence[Affine]) -> Node:
    """A view of what is computed element by element, as that computed of views: it is not kept for two kernels."""
    match node:
        case expr.Map():
            whole = [_elements(o, shape, index) if o.shape == node.shape else o for o in node.operands]
            return expr.map_(node.function, whole, node.dtype)
        case expr.View(source=source) if sorted(map(str, node.index)) == sorted(map(str, dimensions(source.rank))):
            at = {f"%{k}": entry for k, entry in enumerate(index)}
            return _elements(source, shape, [entry.substitute(at) for entry in node.index])  # it is only turned
        case _:
            return expr.view(node, shape, index)


# ---------------------------------------------------------------------------------------------- contractions


def _contraction(node: expr.Reduce, axis: int, chunk: int) -> expr.Reduce | None:
    """A sum of products of two arrays, each repeated along an axis of its own, in two stages of which the first is a
    contraction too, its parts outermost; None for other sums.  What is cut are the arrays: zero times zero is zero.

    s[i, j] = sum(x[k, i] * y[k, j])
    -> a[q, r, i] = x[4096*q + r, i] or 0;  b likewise;  p[q, i, j] = sum(a[q, r, i] * b[q, r, j], r);  s = sum(p, q)
    """
    if node.monoid != "sum" or len(node.operands) > 1 or not node.dtype.is_float:
        return None
    (product,) = node.operands
    if not isinstance(product, expr.Map) or product.function != "multiply":
        return None
    extents = product.shape
    shape = (extents[axis].ceildiv(chunk), *extents[:axis], Affine.of(chunk), *extents[axis + 1 :])
    factors = [_cut(factor, axis, chunk, shape) for factor in product.operands]
    if not all(f is not None and f.dtype == product.dtype for f in factors):
        return None
    whole = expr.map_("multiply", [f for f in factors if f is not None], product.dtype)
    partial = expr.reduce_("sum", [whole], [a + 1 for a in node.axes])
    return expr.reduce_("sum", [partial], [0])


def _cut(factor: Node, axis: int, chunk: int, shape: tuple[Affine, ...]) -> Node | None:
    """A view whose one dimension goes along `axis`, as a view of `shape` of its source in parts."""
    if not isinstance(factor, expr.View) or len(names_of(factor.index)) == factor.rank:
        return None
    source, along = factor.source, [d for d, e in enumerate(factor.index) if f"%{axis}" in e.names()]
    if len(along) != 1 or factor.index[along[0]] != dimension(axis) or source.shape[along[0]] != factor.shape[axis]:
        return None
    (dim,) = along
    extent = source.shape[dim]
    whole = (extent.ceildiv(chunk), *source.shape[:dim], Affine.of(chunk), *source.shape[dim + 1 :])
    points = [dimension(k + 1) for k in range(source.rank)]
    points[dim] = dimension(0) * chunk + dimension(dim + 1)
    rest = Piece((), expr.constant(0, source.dtype), ())
    parts = expr.region(whole, [Piece((extent - points[dim] - 1,), source, tuple(points)), rest])
    moved = {f"%{k}": dimension(k + 1) for k in range(factor.rank)}
    return expr.view(parts, shape, [dimension(0), *(entry.substitute(moved) for entry in factor.index)])
