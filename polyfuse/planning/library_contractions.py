"""Contractions that the caller's array library runs faster than a kernel of ours would: they become calls.

    y = relu(x @ w + b)      s = contraction(x[i, k], w[k, j]);  y = relu(s + b)      where that is the faster program

Weighed before the search for kernels: the library's predicted time, the host time of the call (which bounds programs of
small products), and the store and load of whatever a kernel of ours would have kept in registers, against the best
kernel for the contraction alone.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.bindings import Guard, Layout
from polyfuse.dtypes import DType, bf16, f16, f32, f64
from polyfuse.expr import Call, Node, Program
from polyfuse.library_calls.contraction import EVEN, NAME
from polyfuse.options import Options
from polyfuse.planning.choose import Pricer
from polyfuse.planning.contractions import Found, contractions
from polyfuse.planning.program_costs import ProgramCosts, program_costs
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.scop import InputStatement, Statement
from polyfuse.target import Target

DTYPES: Mapping[tuple[str, str], tuple[DType, ...]] = {
    ("numpy", "cpu"): (f32, f64),
    ("torch", "cpu"): (f32, f64),
    ("torch", "cuda"): (f16, bf16, f32, f64),
    ("cupy", "cuda"): (f16, f32, f64),
}
"""What each library multiplies with an accumulator no narrower than ours, by its name and the kind of target."""

_log = logging.getLogger("polyfuse.fusion")


def give_to_library(
    program: Program, target: Target, options: Options, layouts: Sequence[Layout], pricer: Pricer
) -> tuple[Program, tuple[Guard, ...]]:
    """The program with a call for every contraction that ``options.library`` runs faster; the sizes for which that is
    so."""
    dtypes = DTYPES.get((str(options.library), target.kind), ())
    exact = not options.contract or options.round == "every-op"  # a library contracts, and rounds where it likes
    if not dtypes or exact or not any(isinstance(node, expr.Reduce) for node in _nodes(program)):
        return program, ()
    costs = program_costs(program, target, options, layouts, pricer)
    found = [f for f in contractions(costs.scop, costs.hints) if costs.scop.dtype(f.sources[0]) in dtypes]
    found = [f for f in found if _is_free(costs, f)]
    faster = [f for f in found if _is_faster(costs, f)]
    guards = dict.fromkeys(g for f in found for g in _narrow_classes(costs, f))
    return _with_calls(program, costs, faster) if faster else program, tuple(guards)


NARROW_CLASSES = (4, 8, 16, 32, 64)
"""Bounds between which the choice between a library and a kernel serves narrow products.  With a plan for rows of 33
times 7 columns, which is a call, 12 times 12 of float32 take an H100 230 us, 80 with their own."""


def _narrow_classes(costs: ProgramCosts, found: Found) -> Iterator[Guard]:
    """Guards that keep narrow sides of a product in the class of their hint: by these, and by whether rows of 16-bit
    elements are whole accesses, a library is fast or slow."""
    short = costs.scop.dtype(found.sources[0]).itemsize == 2
    _, *groups = found.contraction.letters()
    for letter in itertools.chain(*groups):
        extent = found.contraction.extents[letter]
        size = extent.evaluate(costs.hints)
        if extent.is_constant or not 0 < size <= NARROW_CLASSES[-1]:
            continue
        above = next(bound for bound in NARROW_CLASSES if size <= bound)
        yield Guard(Affine.of(above) - extent, advisory=True)
        if above > NARROW_CLASSES[0]:
            yield Guard(extent - above // 2 - 1, advisory=True)
        if short:
            yield Guard(extent, EVEN, negated=size % EVEN > 0, advisory=True)


def _nodes(program: Program) -> Sequence[Node]:
    return tuple(expr.topological(program.outputs))


def _is_free(costs: ProgramCosts, found: Found) -> bool:
    """Whether the user asked for nothing that only a kernel can do."""
    steering = costs.steering
    asked = frozenset().union(*steering.together, steering.tiles, steering.strategies)
    return found.body.isdisjoint(asked)


def _is_faster(costs: ProgramCosts, found: Found) -> bool:
    scop, target = costs.scop, costs.target
    ours = costs.price(found.body, frozenset((found.root,)), frozenset(found.sources)) * 1e-12
    device = found.contraction.seconds(target, costs.hints, scop.dtype(found.sources[0]))
    theirs = max(device, target.launch + target.library.call)  # the host calls while the device is busy
    for source, view in zip(found.sources, found.views, strict=True):
        if view is not None or not isinstance(scop.statements[source], InputStatement):
            theirs += target.launch + 2 * costs.bytes(source) / target.bandwidth
    if found.root not in scop.outputs:
        theirs += target.launch + costs.bytes(found.root) / target.bandwidth
    name = scop.statements[found.root].name
    _log.info("contraction %s: %.1f us in the library, %.1f us in a kernel", name, theirs * 1e6, ours * 1e6)
    return theirs < ours


def _with_calls(program: Program, costs: ProgramCosts, faster: Sequence[Found]) -> Program:
    """The program whose contractions are calls on the values that they read."""
    scop = costs.scop
    nodes = {node.digest: node for node in _nodes(program)}
    calls: dict[bytes, tuple[Found, tuple[Node, ...]]] = {}
    for f in faster:
        root = scop.statements[f.root]
        sources = tuple(_node(scop.statements[s], nodes) for s in f.sources)
        if isinstance(root, Statement) and None not in sources:
            calls[root.digest] = (f, tuple(s for s in sources if s is not None))
    done: dict[bytes, Node] = {}

    def change(original: Node, node: Node) -> Node:
        if original.digest in calls:
            found, sources = calls[original.digest]
            settings = (("contraction", found.contraction),)
            operands = [
                done.get(s.digest, s) if view is None else expr.view(done.get(s.digest, s), view.shape, view.index)
                for s, view in zip(sources, found.views, strict=True)
            ]
            node = expr.opaque(Call(NAME, settings), operands, node.shape, node.dtype)
        done[original.digest] = node
        return node

    rebuilt = rebuild_program(program, change)
    inner = rebuilt.inner - {done[digest].digest for digest in calls}
    return replace(rebuilt, inner=inner)


def _node(statement: object, nodes: Mapping[bytes, Node]) -> Node | None:
    if isinstance(statement, InputStatement):
        return expr.input_(statement.position, statement.shape, statement.dtypes[0])
    return nodes.get(getattr(statement, "digest", b""))
