"""Split long prefixes of few rows, so that the whole device shares each of them.

    y[i] = x[0] + ... + x[i],  0 <= i < N
 -> t[q] = sum(x[4096*q + r], 0 <= r < 4096);   b[q] = t[0] + ... + t[q-1]
    p[i] = x[4096*(i // 4096)] + ... + x[i];    y[i] = b[i // 4096] + p[i]

The monoid's associativity makes it legal; what comes of it are ordinary statements for everything that follows: two
reads and a write in three launches, of which the middle one is small (Blelloch, "Prefix sums and their applications",
1990).  `p` is a scan in runs over the domain of `y`, so whatever could be fused with the scan can be fused with it.
Mostly one kernel is faster whose blocks begin in order and hand on their totals (`polyfuse/strategies/in_order.py`).
A sum of floats also rounds less: its carries run through the parts of a row instead of through all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from polyfuse import expr
from polyfuse.affine import Affine, dimension
from polyfuse.bindings import Guard, Layout
from polyfuse.expr import Argument, Node, Piece, Program
from polyfuse.options import Options
from polyfuse.planning.choose import Pricer
from polyfuse.planning.program_costs import ProgramCosts, program_costs
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.scalars import MONOIDS
from polyfuse.scop import neutral
from polyfuse.strategies.situation import power_above
from polyfuse.target import Target

PARTS = {"cuda": (8, 2, 32), "cpu": (256, 32, 4)}
"""Blocks per processor that runs are dealt to, of which the price takes one.  Few leave few totals, many hide latency;
on a CPU many leave runs that stay in a core's cache and round little."""
SHORTEST = 64  # elements of a run
ABREAST = 512  # columns whose prefixes a block of a GPU runs through side by side, where there are as many
IGNORE_NAN = ("fmax", "fmin")  # a row that begins with NaN keeps them, which no neutral number of a part does

_log = logging.getLogger("polyfuse.fusion")


def split_scans(
    program: Program, target: Target, hints: Mapping[str, int], pricer: Pricer
) -> tuple[Program, tuple[Guard, ...]]:
    """The program with those scans in parts that are faster so, and guards for the sizes that make it worth while."""
    guards: dict[Guard, None] = {}
    names: dict[bytes, str] = {}
    inner: set[bytes] = set()
    prices = _Prices(target, hints, pricer)

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, expr.Scan) or node.run or node.reverse or node.monoid in IGNORE_NAN:
            return node
        run = prices.best_run(node)
        if not run:
            return node
        extent = node.shape[node.axis]
        if not extent.is_constant:
            guards[Guard(extent - run - 1)] = None
        whole, parts = in_runs(node, run)
        name = program.names.get(original.digest)
        for value, suffix in parts if name else ():
            names.setdefault(value.digest, f"{name}_{suffix}")
        inner.update(value.digest for value, _ in parts)
        return whole

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, names={**names, **rebuilt.names}, inner=rebuilt.inner | inner), tuple(guards)


def in_runs(node: expr.Scan, run: int) -> tuple[Node, tuple[tuple[Node, str], ...]]:
    """The scan from scans of runs of `run` elements and the totals in front of them, and the values on its way.

    The axis has more than `run` elements.  The last part's total is in front of nothing, so no part needs padding.
    """
    axis, whole_runs = node.axis, (node.shape[node.axis] - 1) // run
    total = expr.reduce_(node.monoid, [_in_parts(node, whole_runs, run)], [axis + 1])
    before = expr.scan(node.monoid, _with_one_more(node, total), axis, exclusive=True)
    within = expr.scan(node.monoid, node.operand, axis, node.exclusive, run=run)
    points = [dimension(k) for k in range(node.rank)]
    points[axis] = points[axis] // run
    offset = expr.view(before, node.shape, points)
    whole = expr.map_(MONOIDS[node.monoid].function, [offset, within], node.dtype)
    return whole, ((total, "total"), (before, "before"), (within, "run"))


def _in_parts(node: expr.Scan, count: Affine, run: int) -> Node:
    """The operand with `count` runs of its axis as (run, element of the run)."""
    axis = node.axis
    points = [dimension(k if k < axis else k + 1) for k in range(node.rank)]
    points[axis] = dimension(axis) * run + dimension(axis + 1)
    shape = (*node.shape[:axis], count, Affine.of(run), *node.shape[axis + 1 :])
    return expr.view(node.operand, shape, points)


def _with_one_more(node: expr.Scan, total: Node) -> Node:
    """The totals and a neutral element behind them, where there is nothing to add."""
    axis = node.axis
    points = [dimension(k) for k in range(node.rank)]
    shape = (*total.shape[:axis], total.shape[axis] + 1, *total.shape[axis + 1 :])
    (fill,) = neutral(node.monoid, [total.dtype])
    rest = Piece((), expr.constant(fill.value, total.dtype), ())
    return expr.region(shape, [Piece((total.shape[axis] - points[axis] - 1,), total, tuple(points)), rest])


# ---------------------------------------------------------------------------------------------- prices


@dataclass(frozen=True, slots=True)
class _Prices:
    target: Target
    hints: Mapping[str, int]
    pricer: Pricer

    def best_run(self, node: expr.Scan) -> int:
        """Elements of a run where that is predicted to be faster than the scan in one kernel, else 0."""
        runs = self._runs(node)
        if not runs:
            return 0
        source = expr.input_(0, node.shape, node.operand.dtype)
        alone = expr.scan(node.monoid, source, node.axis, node.exclusive)
        assert isinstance(alone, expr.Scan)
        best = self._seconds([alone], source, 0)
        found, in_one = 0, best
        moved = prod(n.evaluate(self.hints) for n in node.shape) * node.dtype.itemsize
        if best <= 3 * (self.target.launch + moved / self.target.bandwidth):  # no split could be faster
            return 0
        for run in runs:
            whole, ((total, _), (before, _), _) = in_runs(alone, run)
            seconds = self._seconds([before, total, whole], source, best)
            found, best = (run, seconds) if seconds < 0.98 * best else (found, best)
        if found:
            times = best * 1e6, in_one * 1e6
            _log.info("scan of %s: in runs of %d, %.1f us instead of %.1f", node.monoid, found, *times)
        return found

    def _runs(self, node: expr.Scan) -> list[int]:
        """Candidates for the elements of a run: powers of two, so that vectors stay aligned."""
        elements = prod(n.evaluate(self.hints) for n in node.shape)
        if node.axis < node.rank - 1 and self.target.kind == "cuda":
            elements //= max(1, min(ABREAST, node.shape[-1].evaluate(self.hints)))
        parts = [count * self.target.processors for count in PARTS[self.target.kind]]
        lengths = dict.fromkeys(power_above(max(SHORTEST, elements // count)) for count in parts)
        return [run for run in lengths if 2 * run <= node.shape[node.axis].evaluate(self.hints)]

    def _seconds(self, stored: Sequence[Node], source: Node, most: float) -> float:
        """What the kernels that store these values take, one for each, every other value kept in registers; with
        `most`, something above it as soon as that is certain."""
        argument = Argument("x", source.shape, source.dtype)
        names = tuple(f"y{k}" for k in range(len(stored)))
        program = Program("scan", (argument,), tuple(stored), names, hints=self.hints)
        costs = program_costs(program, self.target, Options(), (Layout(),), self.pricer)
        roots, seconds = costs.scop.outputs, 0.0
        for k, root in enumerate(roots):
            seconds += _kernel(costs, root, frozenset(roots)) * 1e-12
            if most and seconds * len(roots) / (k + 1) > most and k == 0:  # the least of them, and a launch each
                return seconds * len(roots)
        return seconds


def _kernel(costs: ProgramCosts, root: int, stored: frozenset[int]) -> int:
    """The price of computing `root` from what is stored."""
    body, loads, todo = set[int](), set[int](), [root]
    while todo:
        value = todo.pop()
        if costs.is_input(value) or value in stored - {root}:
            loads.add(value)
        elif value not in body:
            body.add(value)
            todo.extend(costs.operands(value))
    return costs.price(frozenset(body), frozenset((root,)), frozenset(loads))
