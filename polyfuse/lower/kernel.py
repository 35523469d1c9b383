"""Lowering: schedule to kernel IR, in the order of the order tree.

m  compute  [b0, 1024*c + 4*t + v]  combine over t         Let    m = -inf            (only around loops)
                                                      ->   Reduce m = max(x) over c, v
                                                           Combine m over bits 255
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.bindings import FAULT, Layout
from polyfuse.lower.ahead import ring_buffers
from polyfuse.lower.cells import in_cells
from polyfuse.lower.context import kernel_context
from polyfuse.lower.counted import BOUND, with_counts
from polyfuse.lower.decide import needed
from polyfuse.lower.declarations import (
    ScratchUse,
    array_uses,
    parameters,
    scalar_arguments,
    scratch_uses,
    share_uses,
    shared_buffer,
    source_notes,
)
from polyfuse.lower.divisors import with_divisors
from polyfuse.lower.environment import TURNS, ArrayUse, Environment, held_name
from polyfuse.lower.fold import folded
from polyfuse.lower.guarded import guarded
from polyfuse.lower.inspect import flatten
from polyfuse.lower.masked import with_masked_values
from polyfuse.lower.meetings import with_meetings_together
from polyfuse.lower.moves import index_sites
from polyfuse.lower.neighbours import with_neighbours
from polyfuse.lower.neutral import without_idle_masks
from polyfuse.lower.open_ends import with_open_ends
from polyfuse.lower.pieces import with_pieces
from polyfuse.lower.reductions import PEERS
from polyfuse.lower.repeated import without_repeated_indices
from polyfuse.lower.scans import carry_uses, with_lead
from polyfuse.lower.settled import settled
from polyfuse.lower.sums import with_sums
from polyfuse.lower.together import with_loads_together
from polyfuse.lower.tree import lower_body
from polyfuse.lower.wanted import with_wanted_loads
from polyfuse.options import Options
from polyfuse.places.exponentials import held_exponentials, held_shares
from polyfuse.places.narrow_cells import as_in_memory
from polyfuse.places.products import folded_products
from polyfuse.schedule import IN_PIECES, KernelSchedule
from polyfuse.scop import Scop

DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and the arrays, sizes and scalar arguments behind its parameters, in order; `scratch`: what blocks leave
    each other in global memory, and the counters of their elections; `checked`: the statements whose data indices it
    checks, in the order of their numbers; `sums`: what its parameters mean that are sums of sizes."""

    kernel: ir.Kernel
    arrays: tuple[ArrayUse, ...]
    scratch: tuple[ScratchUse, ...] = ()
    checked: tuple[int, ...] = ()
    sums: Mapping[str, Affine] = field(default_factory=dict)


def lower(
    scop: Scop,
    schedule: KernelSchedule,
    layouts: Mapping[int, Layout],
    options: Options = DEFAULTS,
    index_bits: int = 32,
    first_site: int = 1,
) -> Lowered:
    """`layouts`: of the values that the kernel loads or stores; a missing one is C order, aligned to 16 bytes.
    `options`: whether products and sums contract, and where 16-bit floats round.  `first_site`: the number of the
    kernel's first check of data indices, which it leaves in the parameter `FAULT` where one is out of bounds; such an
    index never touches memory."""
    env = replace(_environment(scop, schedule, layouts, options, first_site), index_bits=index_bits)
    body = folded(with_lead(env, lower_body))
    body = needed(body) if env.taken else body  # the differences that exponentials were to be taken of
    body = with_divisors(guarded(body, [s.name for s in env.slots]), schedule.of_kind("thread"))
    body = without_repeated_indices(with_open_ends(body, schedule.of_kind("thread")))
    body = without_idle_masks(with_masked_values(body, schedule.of_kind("thread")))
    body = with_loads_together(with_wanted_loads(env, body))
    body = with_meetings_together(body)
    sums: Mapping[str, Affine] = {}
    if IN_PIECES in dict(schedule.parameters):
        sizes = frozenset(scop.program.symbols)
        products = {name for name, _ in scop.program.derived}
        taken = {*sizes, *(use.name for use in env.arrays.values()), *env.scalars}
        body, sums = with_sums(body, sizes - products, taken)
    grid, scratch = _grid(schedule), (*scratch_uses(env), *carry_uses(env))
    kernel = ir.Kernel(
        name=schedule.name,
        parameters=parameters(env, scratch, grid, body),
        grid=grid,
        threads=schedule.threads,
        digits=tuple(ir.ThreadDigit(d.name, d.stride, d.count) for d in schedule.of_kind("thread") if d.name != "t"),
        slots=(*_peers(body), *(ir.Slot(s.name, s.count) for s in env.slots)),
        shared=(*(shared_buffer(scop, box) for box in schedule.shared), *ring_buffers(env, body)),
        body=body,
        index_bits=index_bits,
        minimum_blocks=schedule.minimum_blocks,
        cluster=schedule.cluster,
        notes=source_notes(scop, schedule),
        turns=TURNS if schedule.grid_scans else "",
        settled=settled(body, env.slots, env.context) if schedule.block_threads > 1 else (),
    )
    kernel = with_pieces(kernel) if schedule.border else kernel
    if schedule.cells is not None:
        narrow = as_in_memory(scop, schedule)
        held = {held_name(env, p, p.component): narrow[p.name] for p in schedule.placed if p.name in narrow}
        kernel = in_cells(kernel, schedule.cells, held)
    elif env.slots:
        itemsizes = {use.name: use.dtype.itemsize for use in env.arrays.values()}
        kernel = replace(kernel, body=with_neighbours(kernel.body, env.slots[-1].name, itemsizes))
    if schedule.block_threads > 1:
        has_room = schedule.block_threads * schedule.minimum_blocks < BOUND
        counted = with_counts(kernel.body, kernel.slots, of_values=has_room)
        kernel = replace(kernel, body=counted, one_division=counted is not kernel.body)
    reports = any(isinstance(p, ir.ArrayParameter) and p.name == FAULT for p in kernel.parameters)
    return Lowered(kernel, tuple(env.arrays.values()), scratch, tuple(env.sites) if reports else (), sums)


def _environment(
    scop: Scop, schedule: KernelSchedule, layouts: Mapping[int, Layout], options: Options, first_site: int
) -> Environment:
    rounds = options.round == "every-op"
    taken = held_exponentials(scop, schedule)
    return Environment(
        scop,
        schedule,
        context=kernel_context(schedule, scop.program),
        by_name=dict(schedule.by_name()),
        arrays=array_uses(scop, schedule, layouts),
        shares=share_uses(scop, schedule),
        scalars=scalar_arguments(scop, schedule),
        folded=folded_products(scop, schedule) if options.contract and not rounds else {},
        taken=taken,
        parts=held_shares(scop, schedule, taken),
        slots=schedule.of_kind("slot"),
        sites=index_sites(scop, schedule, first_site),
        rounds=rounds,
        wide=frozenset() if options.batch_invariant else scop.program.inner,
    )


def _grid(schedule: KernelSchedule) -> tuple[Affine, ...]:
    """Extents of the block digits ``b0, b1, ...``, 1 where one is missing."""
    lead = {scan.digit: scan.lead for scan in schedule.grid_scans}
    extents = {d.number: d.extent + lead.get(d.name, 0) for d in schedule.of_kind("block")}
    return tuple(extents.get(k, Affine.of(1)) for k in range(max(extents, default=0) + 1))


def _peers(body: tuple[ir.Op, ...]) -> tuple[ir.Slot, ...]:
    """The slots along which values of other blocks lie."""
    names = dict.fromkeys(op.slot for op in flatten(body) if isinstance(op, ir.Exchange) and op.slot is not None)
    return tuple(ir.Slot(name, int(name.removeprefix(PEERS))) for name in names)
