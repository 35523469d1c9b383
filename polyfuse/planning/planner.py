"""Propose -> prove -> price -> print: from a program to a plan, as one readable list of passes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from polyfuse import expr
from polyfuse.affine import Affine, names_of
from polyfuse.bindings import AnyGuard, Guard, Layout
from polyfuse.cost.counts import of_function
from polyfuse.cost.prices import price
from polyfuse.cost.scatters import way_seconds
from polyfuse.errors import Source
from polyfuse.expr import Program
from polyfuse.options import Options
from polyfuse.plan import LibraryCall, Plan, Step
from polyfuse.planning.assembly import assemble
from polyfuse.planning.choose import Pricer
from polyfuse.planning.forms import (
    by_where_rows_begin,
    in_nested_sums,
    in_one_pass,
    in_one_pass_at_once,
    in_two_stages,
    some_axes_first,
    with_places_reduced,
)
from polyfuse.planning.index_ranges import settle_bounds
from polyfuse.planning.library_contractions import give_to_library
from polyfuse.planning.members import packed
from polyfuse.planning.program_costs import program_costs, size_hints
from polyfuse.planning.proving import proved, shaken
from polyfuse.planning.split_scans import split_scans
from polyfuse.planning.wishes import NO_REGISTERS, check_wishes, grouped, keeps_its_form, refuse, settled
from polyfuse.rewrites.byte_tables import byte_tables
from polyfuse.rewrites.compared_positions import compared_positions
from polyfuse.rewrites.factors import factors_apart
from polyfuse.rewrites.gathers import sink_gathers
from polyfuse.rewrites.index_arithmetic import index_arithmetic
from polyfuse.rewrites.merged_reductions import merged_reductions
from polyfuse.rewrites.moves import sink_moves
from polyfuse.rewrites.normalise import normalise
from polyfuse.rewrites.positions import short_positions
from polyfuse.rewrites.refinement import refine
from polyfuse.rewrites.regions import short_regions
from polyfuse.rewrites.scatters import ordered_scatters
from polyfuse.rewrites.short_sums import short_sums
from polyfuse.rewrites.split import split_reductions
from polyfuse.rewrites.stacks import unstacked
from polyfuse.strategies.atomics import UNUSED
from polyfuse.target import Target

fusion_log = logging.getLogger("polyfuse.fusion")


def plan_program(
    program: Program,
    target: Target,
    options: Options,
    layouts: Sequence[Layout],
    pricer: Pricer = price,
    effort: int | None = None,
) -> Plan:
    """The plan for one class of calls.  `layouts` has one entry per argument.  Whatever `pricer` says, the plan is
    proved.  `effort`: rounds of shake, see `grouping.search` and `proving.shaken`.  Raises PolyfuseError subclasses."""
    refuse(options, target)
    options, traced = settled(options, program), program
    if options.atomics and target.kind == "cpu":
        fusion_log.info("%s: atomics: %s", program.name, UNUSED)
    if options.max_registers and target.kind == "cpu":
        fusion_log.info("%s: max_registers: %s", program.name, NO_REGISTERS)
    hints = size_hints(program)
    program = index_arithmetic(program)  # sums of places are places
    program = settle_bounds(program, options.bounds)  # data indices that are proved to be in bounds need no check
    program = unstacked(program)  # reductions of a stack are operations on its arrays
    program = sink_gathers(program, hints)  # what data choose of a computed array is computed alone
    program = sink_moves(program)  # of a computed array that is moved around, what it is computed of is moved
    if not keeps_its_form(options):
        program = merged_reductions(program)  # of what reductions leave
        program = byte_tables(program, hints, of_function)  # long functions of bytes are looked up
    shorts, keys, sums = tuple[Guard, ...](), tuple[AnyGuard, ...](), tuple[AnyGuard, ...]()
    if target.kind == "cuda":
        program, keys = ordered_scatters(  # updates are sorted by their place, or merged as they come
            program, hints, layouts, options, partial(way_seconds, target=target)
        )
    program = refine(program) if target.kind == "cuda" else program  # reshapes in between become finer dimensions
    program = replace(normalise(program), hints=hints)  # reverse scans become flips
    program = short_regions(program)  # arrays written element by element are computed a few elements at a time
    if target.kind == "cuda":
        program, shorts = short_positions(program, hints)  # positions of extremes are one register, not two
        program, sums = short_sums(program, hints)  # and so are counts, and sums of small integers
    else:
        program, shorts = compared_positions(program, hints)  # which vectors find, as they do no pairs
    program, calls = give_to_library(program, target, options, layouts, pricer)  # contractions that it runs faster
    program = factors_apart(program, hints) if target.kind == "cuda" else program  # blocks have tiles of both
    runs, split = tuple[Guard, ...](), tuple[Guard, ...]()
    if not options.batch_invariant:
        program, runs = split_scans(program, target, hints, pricer)  # few long prefixes become scans of their parts
        program, split = split_reductions(program, target, hints)  # few long reductions become two stages
    costs = program_costs(program, target, options, layouts, pricer)  # what a kernel of some statements would cost
    at_once = in_one_pass_at_once(costs, tuple(layouts))  # dependent reductions, if that is cheaper for certain
    costs, grouping = at_once or (costs, grouped(costs))  # the cheapest partition of stored values
    if not at_once:
        costs, grouping = in_one_pass(costs, grouping, tuple(layouts))  # dependent reductions, if that is cheaper
    costs, grouping = with_places_reduced(costs, grouping, tuple(layouts))  # what all of a row of a scan need, likewise
    costs, grouping = in_nested_sums(costs, grouping, tuple(layouts))  # totals of what is summed anyway, likewise
    costs, grouping = some_axes_first(costs, grouping, tuple(layouts))  # planes of short rows as columns, likewise
    grouping = proved(costs, grouping)  # isl proves every final kernel; refuted ones are taken apart
    costs, grouping = by_where_rows_begin(costs, grouping, tuple(layouts))  # columns of odd rows, if that is cheaper
    costs, grouping = in_two_stages(costs, grouping, tuple(layouts))  # sums of many shares, likewise
    grouping = shaken(costs, grouping, effort)  # what a greedy search cannot undo; proved where that changes kernels
    packing = packed(costs, grouping)  # independent kernels side by side in one launch, where that is faster
    check_wishes(costs, packing)
    plan = assemble(costs, packing, tuple(layouts))  # kernel IR, bindings, buffers, guards
    formed = [Guard(fact) for fact in costs.scop.program.facts if fact not in program.facts]  # what its form relies on
    guards = (*plan.guards, *keys, *shorts, *sums, *runs, *split, *formed, *calls, *size_classes(program, hints))
    plan = _as_traced(plan, traced)
    return replace(plan, guards=tuple(dict.fromkeys(guards)))


def _as_traced(plan: Plan, traced: Program) -> Plan:
    """The plan, whose indices and library calls are known by what the user's program has on their lines: it may serve
    a program that has the same elsewhere."""
    if not plan.sites and not plan.library_calls:
        return plan
    at: dict[Source | None, bytes] = {}
    nodes = expr.topological(traced.outputs)
    for node in sorted(nodes, key=lambda node: not isinstance(node, (expr.Gather, expr.Scatter, expr.Opaque))):
        at.setdefault(traced.sources.get(node.digest), node.digest)

    def known(digest: bytes, line: Source | None) -> bytes:
        return digest if digest in traced.sources or line is None else at.get(line, digest)

    def step(one: Step) -> Step:
        if not isinstance(one, LibraryCall):
            return one
        return replace(one, digest=known(one.digest, plan.program.sources.get(one.digest)))

    sites = tuple([replace(site, digest=known(site.digest, site.line)) for site in plan.sites])
    return replace(plan, sites=sites, steps=tuple(map(step, plan.steps)))


SIZE_CLASSES = (64, 256, 1024, 4096, 16384, 65536, 262144)
"""Bounds between which one plan serves all sizes: prices, not legality, change from class to class."""

SHORT, LARGE = 8, 1 << 18
"""One more such bound, of sizes of rows in arrays of so many elements: rows of a few have strategies of their own.  On
an H200, 56 x 935856 float32 turned: 104 us, 175 by the plan for 3 x 15935399 (`short` of
benchmarks/results/permutations_h200.json)."""


def size_classes(program: Program, hints: Mapping[str, int]) -> tuple[Guard, ...]:
    """Guards that keep every size symbol in the class of its hint."""
    found: list[Guard] = []
    arrays = [array.shape for array in (*program.arguments, *program.outputs) if array.shape]
    volumes = [prod([extent.evaluate(hints) for extent in shape]) for shape in arrays]
    rows = names_of(shape[-1] for shape, volume in zip(arrays, volumes, strict=True) if volume >= LARGE)
    for name in program.symbols:
        symbol, hint = Affine.symbol(name), hints[name]
        bounds = (SHORT, *SIZE_CLASSES) if name in rows else SIZE_CLASSES
        below = [bound for bound in bounds if hint > bound]
        above = [bound for bound in bounds if hint <= bound]
        found += [Guard(symbol - below[-1] - 1, advisory=True)] if below else []
        found += [Guard(Affine.of(above[0]) - symbol, advisory=True)] if above else []
    return tuple(found)
