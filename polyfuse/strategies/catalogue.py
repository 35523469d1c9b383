"""Every strategy, in order of preference at equal price."""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.places.proposal import Proposal
from polyfuse.strategies.atomics import merged_by_atomics
from polyfuse.strategies.batch_invariant import batch_invariant
from polyfuse.strategies.batches import batches
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.contraction import contraction
from polyfuse.strategies.cut_rows import cut_rows
from polyfuse.strategies.few_results import few_results
from polyfuse.strategies.framed_elements import framed_elements
from polyfuse.strategies.groups import groups
from polyfuse.strategies.held import held
from polyfuse.strategies.in_order import in_order
from polyfuse.strategies.in_thread import in_thread
from polyfuse.strategies.joined_tiles import joined_tiles
from polyfuse.strategies.one_pass import one_pass
from polyfuse.strategies.pairs import pairs
from polyfuse.strategies.pixel_tiles import pixel_tiles
from polyfuse.strategies.pixels import pixels
from polyfuse.strategies.planes import planes
from polyfuse.strategies.points import points
from polyfuse.strategies.pointwise import pointwise
from polyfuse.strategies.prefix import prefix
from polyfuse.strategies.records import records
from polyfuse.strategies.reduction import reduction
from polyfuse.strategies.row_tiles import row_tiles
from polyfuse.strategies.serial import serial
from polyfuse.strategies.shared_factors import shared_factors
from polyfuse.strategies.situation import Situation
from polyfuse.strategies.stacked import beside_reductions, is_made_of_rows, stacked
from polyfuse.strategies.staged_scans import staged_scans
from polyfuse.strategies.tiles import tiles
from polyfuse.strategies.tiles_cpu import tiles_cpu
from polyfuse.strategies.window_sums import window_sums
from polyfuse.strategies.windows import windows

STRATEGIES = (
    pointwise,  # elementwise groups
    cut_rows,  # the same on a CPU core over rows of several pieces: joined, padded, rolled
    framed_elements,  # the same over rows that begin anywhere in memory
    windows,  # neighbouring elements of one array: stencils, shifted, reversed and strided reads
    tiles_cpu,  # transposed reads in vector registers
    tiles,  # transposed reads and stencils through shared memory
    pixel_tiles,  # the same for rows of a few elements
    joined_tiles,  # the same for short rows
    in_thread,  # reductions over a few elements: windows of a pooling
    records,  # results of a few elements each, of which a thread makes all and a block stores its own
    pairs,  # reductions over a few elements for every pair of two classes
    held,  # rows and columns that one block or cluster keeps in registers between passes
    reduction,  # rows and columns of one or several reductions
    batches,  # the same between two classes, the inner one short: threads with whole columns of several batches
    points,  # rows of points: what is short beside a row is whole in a thread
    pixels,  # sums over short rows of short elements
    few_results,  # sums over one long class with few results, each thread with all of them
    planes,  # rows that are reduced together, side by side
    window_sums,  # all of what neighbouring elements give, as the residual of a stencil
    groups,  # short rows side by side, reduced with what lies behind them
    staged_scans,  # prefixes whose neighbours along a row are needed
    prefix,  # scans in fewer threads than a block could have
    in_order,  # long scans of few rows, from block to block
    one_pass,  # results along both dimensions of a matrix
    shared_factors,  # long rows of which several meet the same, as a matrix a few vectors
    row_tiles,  # products with a small matrix, and sums along their rows
    contraction,  # sums of products with reuse
)

FALLBACKS = (
    serial,  # a thread per element of the lead, loops over what is reduced: slow, but a lone statement always has it
)


def propose(situation: Situation) -> Iterator[Iterator[Proposal]]:
    """Tiers of proposals: a later tier counts only where nothing of an earlier one can be placed."""
    if situation.invariant and (situation.reductions or any(not s.lags for s in situation.scans)):
        yield iter(batch_invariant(situation))
        return
    axis = beside_reductions(situation)
    alone = any(s.lags for s in situation.scans)  # a thread per row is all that a recurrence allows
    for tier in ((*STRATEGIES, *FALLBACKS),) if alone else (STRATEGIES, FALLBACKS):
        yield (p for strategy in tier for proposal in strategy(situation) for p in _ways(situation, proposal, axis))


def _ways(situation: Situation, proposal: Proposal, axis: AxisClass | None) -> Iterator[Proposal]:
    """Results that are stacked, along `axis`, beside each other in one thread; and how the shares of blocks meet: by
    the block elected, or in any order where the user allows it."""
    in_threads = proposal if axis is None else stacked(proposal, axis)
    if in_threads is not proposal and is_made_of_rows(situation):
        yield proposal
    proposal = in_threads
    yield proposal
    merged = merged_by_atomics(situation, proposal)
    if merged is not None:
        yield merged
