"""What a thread computes while no other loads: kernels with windows so large that few blocks share a processor."""

from __future__ import annotations

from polyfuse.cost.counts import Sizes
from polyfuse.cost.l1 import WORD
from polyfuse.cost.registers import whole_windows
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.target import Target

ENOUGH, FEWEST = 512, 256
"""Threads of a processor from which on some always load while others compute, and up to which none do.  On an H100, of
16 and of 4 to 8 results of a thread: Rusanov fluxes 144 and 98 us (103 by bytes, 44 by operations), means of 20
neighbours 249 and 164 (157, 72), bands of 20 prices 252 and 183 (176, 139), faces of a heat equation 195 and 165.  Of
119 programs with such kernels 13 have another tile with this and a proposal of a single row: they are 1.26 times as
fast (geometric mean), none is slower (benchmarks/results/windows_h100.json)."""

MANY = 1024
"""Threads of a processor from which on exponentials, quotients and powers, each step of which waits for the one before,
run beside what others load.  On an H200, of 16 results of a thread and of 4: cells of a recurrent network, with three
exponentials and two hyperbolic tangents, 148 us and 124 (110 by bytes), a WENO scheme with four quotients 403 and 328,
response normalisation with a power 415 of 16 results, 329 of 8."""
BESIDE = 0.25
"""Of the time of the bytes, what such functions take beside them in any case: edges with a root each, 180 us of 16
results and 188 of 4, gates of two exponentials 117 of 16."""

HELD_BY_FEW = 1.2
"""Times that rows in frames take, all of their elements in registers, where two blocks of four warps share a processor
and each has one row: one loads, reduces or stores while the other does.  On an H200, 21,192 rows of 6323 bfloat16 over
their norm: 160 us in two blocks of 128 threads with 56 elements each, 129 in two of 256 with 28; softmax of them, in
three blocks of 128, 136 as predicted; softmax backward of 2047, two rows in each of two blocks of 128, 194 (191)."""

HELD_WHOLE_BY_FEW = 1.05
"""The same of rows of whole vectors, which mostly take no longer: as much as tells two ways of one price apart.  On an
H200, in two blocks of 128 threads and in two of 256 that hold half as much each: of rows of 8192 float32, logarithms of
sums of exponentials less a diagonal 83 us and 69, entropies 64 and 65; of 5120 bfloat16, a residual and its norm 160
and 160."""


def held_by_few(schedule: KernelSchedule, occupancy: int) -> float:
    """Times that such rows take; 1 for other kernels."""
    tile = dict(schedule.parameters)
    few = schedule.block_threads * max(1, occupancy) <= FEWEST and tile.get("lanes") == schedule.block_threads
    if not few or schedule.strategy != "rows":
        return 1.0
    return HELD_BY_FEW if "frames" in tile else 1.0 if schedule.of_kind("loop") else HELD_WHOLE_BY_FEW


NEIGHBOURS_BY_FEW, SOME = 1.08, 768
"""Times that elementwise rows in frames take which read an array at several places, of words, where a processor has
fewer threads.  On an H200, of 8192 x 8192 float32 less a border, in one block of 416 or 512 and in four to eight of
128: four derivatives 366 us and 347, both derivatives and the Laplacian 332 and 287, three differences 304 and 275, two
211 and 206, two derivatives 265 and 221, five points 200 and 181; of float64 167 and 174."""


def neighbours_by_few(scop: Scop, schedule: KernelSchedule, occupancy: int) -> float:
    """Times that such rows take; 1 for other kernels."""
    framed = schedule.strategy == "pointwise" and "frames" in dict(schedule.parameters)
    if not framed or schedule.block_threads * max(1, occupancy) >= SOME:
        return 1.0
    arrays = [(p.value, p.component) for p in schedule.placed if p.role == "load" and p.place]
    of_words = all(scop.dtype(*array).itemsize == WORD for array in arrays)
    return NEIGHBOURS_BY_FEW if of_words and len(set(arrays)) < len(arrays) else 1.0


def in_few_warps(schedule: KernelSchedule, target: Target, blocks: int) -> float:
    """Times that the operations of windows take which loops walk through, where there are few blocks: each warp waits
    for its own results.  Structural similarity by means of 7 x 7 takes an H200 509 us of 6000 x 6000, three
    blocks of 128 threads on a processor, 727 of 8000 x 8000, four: 383 and 680 predicted without."""
    if schedule.strategy != "window_sums":
        return 1.0
    threads = schedule.block_threads * max(1, -(-blocks // target.processors))
    return max(1.0, ENOUGH / threads)


def exposed(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """The share of the operations of a kernel with windows, or of its bytes if they take less time, that nothing runs
    beside."""
    registers = whole_windows(scop, schedule, sizes)
    return _share(schedule, target, registers, ENOUGH) if registers else 0.0


def in_chains(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, registers: int) -> float:
    """The same of functions of several instructions, which leave no register free: ptxas takes 128 for the cells below
    and 140 for the scheme, 120 and 147 by all words.  `registers`: of a thread, where it has no windows."""
    if schedule.strategy != "windows":
        return 0.0
    return _share(schedule, target, whole_windows(scop, schedule, sizes, share=1.0) or registers, MANY)


def _share(schedule: KernelSchedule, target: Target, registers: int, enough: int) -> float:
    blocks = target.occupancy(schedule.block_threads, min(registers, target.registers_per_thread), 0)
    threads = schedule.block_threads * max(1, blocks)
    return min(1.0, max(0.0, (enough - threads) / (enough - FEWEST)))
