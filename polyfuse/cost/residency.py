"""The registers of a thread under the bound that a launch sets, and how many blocks a launch asks a processor for.

The compiler takes as many registers as it likes, up to 255, unless it is told how many blocks are to fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from polyfuse.cost.counts import Cost, Sizes, box_bytes
from polyfuse.cost.l1 import WORD
from polyfuse.cost.middle import chosen, of_the_middle
from polyfuse.cost.phases import in_phases, waiting
from polyfuse.cost.registers import least_registers, moments, register_need
from polyfuse.cost.traffic import bytes_of_thread
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop
from polyfuse.target import Target


def registers_of_thread(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> tuple[int, int]:
    """(registers of a thread, how many values it spills in all its trips) under the bound that the launch sets for its
    blocks."""
    need = register_need(scop, schedule, sizes)
    resident = schedule.block_threads * schedule.minimum_blocks
    bound = min(target.registers_per_thread, target.registers_per_processor // resident)
    if need <= bound:
        return need, 0
    if schedule.minimum_blocks > 1 and _is_asked_for_more(schedule, need, bound):
        return bound // 8 * 8, 0
    if schedule.minimum_blocks > 1 and _in_middle(scop, schedule, sizes) <= bound:
        return bound // 8 * 8, 0  # as registers are allocated; a few blocks at the border spill
    if bound == target.registers_per_thread and (need <= CERTAIN * bound or not schedule.of_kind("loop")):
        return need, need - bound
    least = moments(scop, schedule, sizes)
    spilled = [(words - bound) * _trips(placed, sizes) for words, placed in least if words > bound]
    if bound == target.registers_per_thread:
        return need, max(need - bound, max(spilled, default=0))
    return max(bound, min(need, max(words for words, _ in least))), max(spilled, default=0)


CERTAIN = 1.25
"""Times all registers that a thread may have, beyond which what it needs in a loop is spilled in every trip: similarity
in windows of 7 x 7 loaded a trip early needs 1.9 times as many, and spills 4 KB in each of 63 trips."""


ROOM = 1.25
"""Times the registers that blocks in the middle seem to need: those at the border are to spill, and no others."""


ENOUGH_THREADS = 768
"""Of a processor, for which the branch at the border may have to spill: 25 taps of 67 million elements take 144 us on
an H200 in six blocks of 128."""


def _in_middle(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Registers of a thread that touches no border, where others need more; else those of every thread."""
    middle = of_the_middle(scop, schedule, sizes)
    if middle is schedule:
        return register_need(scop, schedule, sizes)
    return int(ROOM * register_need(scop, middle, sizes, chosen(scop, middle)))


def _trips(placed: Placed, sizes: Sizes) -> int:
    """Of the loops around a placed statement."""
    return sizes.product({loop for loop, _ in placed.path}, ("loop",))


TWO = 2
"""Blocks of 256 threads that have 128 registers each.  Of tiles of 8 x 8 results the compiler takes 128 to 190 as it
likes, and 127 or 128 without a spill where it is told."""


def _keeps_tiles(schedule: KernelSchedule) -> bool:
    """Whether threads add up tiles of results in their registers, trip by trip."""
    return bool(schedule.of_kind("loop")) and (bool(schedule.shared) or schedule.strategy == "row_tiles")


def resident_blocks(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> int:
    """The blocks per processor that the launch bounds should ask for: two, where the compiler would otherwise take so
    many registers that there is room for one, and where loads of the other would fill the gaps of the first.  Pieces
    one behind the other are what the compiler runs side by side unless it is told.  And as many as the registers of a
    block in the middle leave room for, where those at the border need more: 25 taps of an image padded by its edges
    take 64 registers in the middle, 140 at the border, and 218 us with these on an H200, where 144 are possible."""
    asked = schedule.minimum_blocks
    if target.kind == "cpu" or asked > 1:
        return asked
    sizes = Sizes.of(schedule, hints)
    threads, shared = schedule.block_threads, box_bytes(scop, schedule)
    if schedule.border and (need := _in_middle(scop, schedule, sizes)) < register_need(scop, schedule, sizes):
        return max(asked, min(target.occupancy(threads, need, shared), ENOUGH_THREADS // threads))
    if not in_phases(scop, schedule, target, sizes) and not waiting(scop, schedule, target, sizes):
        fits = _keeps_tiles(schedule) and target.occupancy(threads, register_need(scop, schedule, sizes), shared) > 1
        return max(asked, TWO) if fits else asked
    cut = "frames" in dict(schedule.parameters)  # what asks for the ends of rows takes more than their elements
    is_whole = schedule.cells is None or not (schedule.cells.piece or cut)
    if is_whole and target.occupancy(threads, register_need(scop, schedule, sizes), shared) > 1:
        return asked
    return 2 if target.occupancy(threads, least_registers(scop, schedule, sizes), shared) > 1 else asked


BUSY, INTENSE = 1024, 1.0
"""Threads of a processor, and operations per byte of loops from which so many are better than more trips at once, for
which the compiler takes all registers that it may.  On an H200, least and most registers in blocks of 256: largest of
1000003 x 131 bytes 47 us in 44, 60 in 93; covariance of columns 193 and 192 (drawn) in 64, 211 and 216 in 80; rows of
64 times 64 x 16 123 in 56, 132 in 126.  Where there is less to compute: masked means of 300 columns 69 in 64, 67 in 80
(benchmarks/results/registers_h200.json)."""
NEARLY = 1.12
"""Times the registers that a thread may have, up to which it seems to need more than it does.  Entropy of rows of 4099
bfloat16 in frames takes an H200 130 us in 128 registers, 154 in 135, where three blocks of 128 fit and not four."""
LARGE = 3
"""Blocks of elementwise threads that seem to need more than 168 registers: of means of 3 x 3 x 3 as 27 terms in 152 651
us, in 235, which leave room for two blocks of 128, 835."""


def settled_blocks(scop: Scop, schedule: KernelSchedule, cost: Cost, target: Target, hints: Mapping[str, int]) -> int:
    """The blocks per processor that the launch bounds should ask for, once it is known what a kernel does: more than it
    has otherwise, where these hide its operations, and where it can have them for a few registers less."""
    asked, threads = schedule.minimum_blocks, schedule.block_threads
    if target.kind == "cpu" or schedule.cluster > 1:
        return asked
    loops, cut = bool(schedule.of_kind("loop")), "frames" in dict(schedule.parameters)
    most = target.occupancy(threads, int(cost.registers / NEARLY), cost.shared)
    if loops and (schedule.strategy in ("columns", "row_tiles") or schedule.strategy == "rows" and cut):
        enough = BUSY // threads
        return max(asked, enough) if cost.intensity >= INTENSE and enough <= most else asked
    if loops or asked > 1:
        return asked
    few = cost.occupancy * threads < BUSY // 2
    if schedule.strategy == "rows" and cut:
        return most if few and cost.occupancy < most and threads * most <= BUSY // 2 else asked
    if few and _is_elementwise(schedule) and cost.occupancy < LARGE and threads * LARGE < BUSY // 2:
        rest = cost.registers - _words_read_once(scop, schedule, Sizes.of(schedule, hints))
        return LARGE if target.occupancy(threads, rest, cost.shared) >= LARGE else asked
    return asked


def _words_read_once(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Of what a thread loads for one statement: the compiler can load it as late as it is read."""
    readers = Counter(provider for placed in schedule.placed for provider in placed.providers)
    loads = [p for p in schedule.placed if p.role == "load" and readers[p.name] == 1]
    return sum(bytes_of_thread(scop, load, sizes) for load in loads) // WORD


def _is_elementwise(schedule: KernelSchedule) -> bool:
    return schedule.strategy == "pointwise" and not schedule.border and not schedule.of_kind("loop")


def _is_asked_for_more(schedule: KernelSchedule, need: int, bound: int) -> bool:
    """Whether `settled_blocks` asked for so many blocks that threads have fewer registers than they seem to need."""
    if _is_elementwise(schedule):
        return True
    cut = schedule.strategy == "rows" and "frames" in dict(schedule.parameters)
    return (cut or schedule.strategy == "row_tiles") and need <= NEARLY * bound
