"""More blocks per multiprocessor than a kernel's registers allow, where the assembler gets by with fewer.

Threads that wait for each other leave gaps, which another block fills as long as less than half of the threads that a
processor holds are there.  Blocks that share a reduction are as many as the device is to run at once: what does not
fit runs alone, in a second wave.  ptxas takes registers as it likes, up to the bound that the PTX sets; only the
figures of the finished kernel tell whether a tighter bound makes it spill.  Layernorm of rows of 4096 in blocks of 256
on an H200: 141 us in 3 blocks, 133 to 135 in 4, 135 in 5 and 6, and 218 in 5 with 112 bytes spilled.  So are a few
blocks that each run through a loop: variances over 1500 between, 550 blocks of 256, 127 us in 4, 112 in 5.

ptxas is a process of its own, and takes about as long as all that comes before it.  Where blocks share a reduction, the
bound that they need is assembled first if registers will probably not do without: it often tells all.  For threads that
wait, the first version tells which bound to ask for.  What a version has in memory tells as well which others will have
some for certain: they are left out, and so is a first one that hundreds of registers are missing for.  What will
probably be asked for next is begun beside the first version where processors are idle (`probable`, `others`, `looser`),
and dropped if it is not.  Of 20 kernels of benchmark programs that wait and had a second version, 12 asked for the
first of these, 6 for the second and 2 for the third.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from polyfuse.backends.numba_cuda.assemble import Assembly, assemble, begin, find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel
from polyfuse.backends.numba_cuda.pressure import pressure
from polyfuse.target import Target

TAKEN = 1.03
"""Times the registers needed at once that ptxas takes, at least.  Of 32 kernels of benchmark programs whose blocks
share a reduction, 4 begin with a bound with this factor, and need it; 2 others need one."""

HOPELESS = 100
"""Registers that are missing by the same count, from which a bound is not tried.  Of ten such bounds for kernels whose
blocks share a reduction, one that misses 57 does without memory, one that misses 55 spills 364 bytes of a thread, and
those that miss 245 and more 4 to 8 KB, each of which takes ptxas 0.7 s."""

Bounded = Callable[[int], CompiledKernel]


def assembled(
    kernel: CompiledKernel,
    target: Target,
    *,
    waits: bool,
    blocks: int,
    wave: int = 0,
    guessed: bool = False,
    idle: int = 0,
) -> CompiledKernel:
    """`kernel` as machine code, with room for as many blocks as it profits from.

    `waits`: its threads wait for each other.  `blocks`: of a processor that are to run at once, 0 where that does not
    matter.  `wave`: of a processor, which each run through a loop: one that finds no room takes as long as all others.
    `guessed`: how many it is to have registers for is a guess.  `idle`: further versions that may be begun
    before the first one is there.  Raises as `assemble` does.
    """
    least = max(1, kernel.minimum_blocks)  # that the first version has registers for
    versions = Versions(kernel)
    try:
        if blocks > least and _BOUND.search(kernel.ptx):  # room for more than there are is no use
            expected = _expected(kernel, target)
            versions.begin(*others(kernel, target, blocks, expected)[:idle])
            found = crowded(kernel, target, blocks, expected, versions)
            return found or at_once(versions(least), target, blocks, versions)
        if waits and not blocks:
            versions.begin(*probable(kernel, target)[:idle])
            return denser(assemble(kernel), target, versions)
        if guessed:
            fewer = looser(kernel, target)
            if fewer and _missing(kernel, target, least) > HOPELESS:
                return roomier(versions(fewer[0]), target, versions)
            versions.begin(*fewer[:idle])
        found = assemble(kernel)
        found = roomier(found, target, versions) if guessed else found
        return in_one_wave(found, target, wave, versions)
    finally:
        versions.drop()


def probable(kernel: CompiledKernel, target: Target) -> tuple[int, ...]:
    """Blocks for which threads that wait will probably want registers, one more than fit without a bound; the likeliest
    first."""
    fit = _expected(kernel, target)
    found = [blocks for blocks in (fit + 1, fit, fit + 2) if not _are_enough(blocks - 1, kernel, target)]
    bounds = _BOUND.search(kernel.ptx) is not None
    return tuple([b for b in found if bounds and kernel.minimum_blocks < b <= _most(kernel, target)])


SPILLED = 160
"""Bytes that the threads of all blocks of a processor, one of each, may have in memory for want of registers: a block
less costs more where they are few.  On an H100, by blocks that there are registers for, and bytes of one thread: a step
of shallow water that is rolled, 36 million cells, 422 us in 6 (652), 410 in 5 (440), 377 in 4 (48), 352 in 3 (0);
padding by a roll 205 in 6 (28), 187 in 5 (0); Gray and Scott's step 140 in 4 (76), 137 in 3 (32), 150 in 2 (0); two
kernels of such steps 293 in 4 and 5 (76, 420), 273 in 3 (32, 24), 298 in 2 (0); a step of Life that is rolled, 100
million bytes, 145 in 6 (444), 147 in 4 (32), 179 in 3 (56), 247 in 2 (0), of rows of 10004 125 in 6 (180), 148 in 4
(40), 173 in 3 (12), 231 in 2 (0)."""

SURE = 0.85
"""Of the registers that a version took and its words in memory, with less of which another one spills for certain.  Of
11 kernels of benchmark programs that did, versions without a word in memory took 0.87 to 1.23 of that many."""


MORE = 8
"""Registers that a version takes which may take what it likes beyond what one with a bound holds, at most, of four
kernels of benchmark programs whose blocks fit without, or nearly do."""
UNIT = 8
"""Registers of a thread that are given together: 13 and 16 blocks of 128 threads have 32 each."""
LITTLE = 4
"""Bytes of a thread in memory, one word, that are as good as none where more blocks have room: covariance of columns of
30000 x 3001 takes an H200 200 us in blocks with 64 registers, 216 with 80."""


def others(kernel: CompiledKernel, target: Target, blocks: int, expected: int) -> tuple[int, ...]:
    """Blocks that share a reduction for which registers will probably be asked for beside the first version, the
    likeliest first: that is the one for all `blocks`, or where these fit without a bound (`expected`), the usual one.
    """
    if expected >= blocks:
        return (blocks,)
    least = max(1, kernel.minimum_blocks)
    if _missing(kernel, target, max(least, blocks - 1)) > HOPELESS:
        return ()
    return tuple(dict.fromkeys((max(least, blocks - 1), least))) if _will_spill(kernel, target, blocks) else ()


def looser(kernel: CompiledKernel, target: Target) -> tuple[int, ...]:
    """Blocks that `roomier` will probably ask for registers for, the likeliest first."""
    blocks = kernel.minimum_blocks
    if blocks <= 2 or not _BOUND.search(kernel.ptx) or not _will_spill(kernel, target, blocks):
        return ()
    fit = next((b for b in range(blocks - 1, 2, -1) if not _will_spill(kernel, target, b)), 2)
    return tuple(dict.fromkeys((max(2, fit - 1), fit)))


def roomier(kernel: CompiledKernel, target: Target, bounded: Bounded) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with registers for fewer blocks, two at least, where it spills with
    those that it was asked to have registers for: what its blocks in the middle need was underestimated."""
    while kernel.minimum_blocks > 2 and kernel.resources is not None:
        if kernel.resources.spilled_bytes * kernel.minimum_blocks <= SPILLED:
            break
        fewer = range(kernel.minimum_blocks - 1, 2, -1)
        kernel = bounded(next((blocks for blocks in fewer if not _spills_like(kernel, target, blocks)), 2))
    return kernel


FEW = 3 / 8
"""Of the threads of a processor, from which on one more block is enough.  Hyperbolic tangents of standardised rows of
8192 float32 take an H200 150 us in 2 blocks of 256 threads with 127 registers, where ptxas takes 140 as it likes; 129
in 3 with 80, 140 in 4 with 64."""


def denser(kernel: CompiledKernel, target: Target, bounded: Bounded) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with fewer registers and room for one more block, and for another one
    where threads are few all the same.  `bounded`: it with room for so many blocks, assembled."""
    blocks = _resident(kernel, target)
    if _are_enough(blocks, kernel, target):
        return kernel
    found = _with_room(kernel, target, blocks + 1, bounded)
    few = (blocks + 1) * kernel.threads < FEW * target.threads_per_processor
    if found is kernel or not few or _will_spill(kernel, target, blocks + 2):
        return found
    other = _with_room(kernel, target, blocks + 2, bounded)
    return found if other is kernel else other


def in_one_wave(kernel: CompiledKernel, target: Target, blocks: int, bounded: Bounded) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with registers for all `blocks`, or for half of those that find no
    room, where it does not spill for them: of loops the assembler loads many trips ahead, in registers that leave no
    other blocks that would hide as much."""
    resident, tried = _resident(kernel, target), set[int]()
    for wanted in (blocks, (blocks + resident + 1) // 2):
        if wanted > resident and (bound := _registers(kernel, target, wanted) // UNIT) not in tried:
            tried.add(bound)
            other = _with_room(kernel, target, wanted, bounded)
            if other is not kernel:
                return other
    return kernel


def at_once(kernel: CompiledKernel, target: Target, blocks: int, bounded: Bounded) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with fewer registers and room for `blocks`, or for as many of them as
    spill nothing."""
    tried: list[CompiledKernel] = []

    def noted(wanted: int) -> CompiledKernel:
        tried.append(bounded(wanted))
        return tried[-1]

    for wanted in range(blocks, _resident(kernel, target), -1):
        if any(_spills_like(other, target, wanted) for other in tried):
            continue
        other = _with_room(kernel, target, wanted, noted)
        if other is not kernel:
            return other
    return kernel


def crowded(
    kernel: CompiledKernel, target: Target, blocks: int, expected: int, bounded: Bounded
) -> CompiledKernel | None:
    """As good as what `at_once` finds, where that is known without the version that takes registers as it likes: one
    with room for all blocks that spills next to nothing.  If they fit without a bound as well, that one is hardly
    another (`MORE`).
    `expected`: blocks that probably fit without."""
    other = None
    for wanted in range(min(blocks, _most(kernel, target)), 1, -1):
        if _registers(kernel, target, wanted) >= target.registers_per_thread:
            break  # it bounds nothing
        if wanted <= expected and (other is None or _words(other) + MORE <= _registers(kernel, target, expected)):
            break
        if _missing(kernel, target, wanted) > HOPELESS or other and _spills_like(other, target, wanted):
            continue
        other = bounded(wanted)
        found = other.resources
        if found is not None and found.spilled_bytes > LITTLE:
            continue
        return None if found is None or found.local_bytes > LITTLE else other
    return None


def _resident(kernel: CompiledKernel, target: Target) -> int:
    """Blocks per processor; without figures, as many as threads allow."""
    registers = 1 if kernel.resources is None else kernel.resources.registers
    return target.occupancy(kernel.threads, registers, kernel.shared_bytes)


def _are_enough(blocks: int, kernel: CompiledKernel, target: Target) -> bool:
    return 2 * blocks * kernel.threads >= target.threads_per_processor


def _with_room(kernel: CompiledKernel, target: Target, blocks: int, bounded: Bounded) -> CompiledKernel:
    """`kernel` with registers for so many blocks; itself where that makes it spill more than a little, or nothing makes
    room for them."""
    found = kernel.resources
    if found is None or found.spilled_bytes or blocks > _most(kernel, target) or not _BOUND.search(kernel.ptx):
        return kernel
    if _missing(kernel, target, blocks) > HOPELESS:
        return kernel
    other = bounded(blocks)
    then = other.resources
    spills = then is None or then.spilled_bytes > LITTLE or then.local_bytes > found.local_bytes + LITTLE
    return kernel if spills else other


def _most(kernel: CompiledKernel, target: Target) -> int:
    """Blocks per processor, whatever registers they take."""
    return target.occupancy(kernel.threads, 1, kernel.shared_bytes)


def _expected(kernel: CompiledKernel, target: Target) -> int:
    """Blocks per processor that there is at most room for, by a guess, before registers are known."""
    taken = max(1, int(TAKEN * pressure(kernel.ptx)))
    return max(kernel.minimum_blocks, target.occupancy(kernel.threads, taken, kernel.shared_bytes))


def _will_spill(kernel: CompiledKernel, target: Target, blocks: int) -> bool:
    """Whether registers for so many blocks will probably be too few."""
    return _missing(kernel, target, blocks) > 0


def _spills_like(kernel: CompiledKernel, target: Target, blocks: int) -> bool:
    """Whether registers for so many blocks are too few for certain, by what `kernel`, which is assembled, took."""
    found = kernel.resources
    there = _registers(kernel, target, blocks)
    return found is not None and found.local_bytes > 0 and there < SURE * _words(kernel)


def _words(kernel: CompiledKernel) -> int:
    """What a thread of a kernel, which is assembled, holds in registers and in memory."""
    return kernel.resources.registers + kernel.resources.local_bytes // 4 if kernel.resources else 0


def _registers(kernel: CompiledKernel, target: Target, blocks: int) -> int:
    """Registers that so many blocks leave a thread."""
    return target.registers_per_processor // (blocks * kernel.threads)


def _missing(kernel: CompiledKernel, target: Target, blocks: int) -> int:
    """Registers of a thread that values need at once beyond those that so many blocks leave it."""
    return pressure(kernel.ptx) - _registers(kernel, target, blocks)


_BOUND = re.compile(r"^\.minnctapersm \d+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Versions:
    """A kernel by the blocks per processor that it has registers for, assembled when first asked for.  `begun`: those
    that are on their way."""

    kernel: CompiledKernel
    made: dict[int, CompiledKernel] = field(default_factory=dict)
    begun: dict[int, Assembly] = field(default_factory=dict)

    def __call__(self, blocks: int) -> CompiledKernel:
        if blocks not in self.made:
            begun = self.begun.pop(blocks, None)
            self.made[blocks] = assemble(self._bounded(blocks)) if begun is None else begun.result()
        return self.made[blocks]

    def begin(self, *blocks: int) -> None:
        """Begin versions that may be asked for, where there is an assembler to run beside this process."""
        path = find_ptxas()
        if path is not None:
            self.begun.update({b: begin(self._bounded(b), path) for b in blocks})

    def drop(self) -> None:
        """End those that nobody asked for."""
        while self.begun:
            self.begun.popitem()[1].drop()

    def _bounded(self, blocks: int) -> CompiledKernel:
        text = _BOUND.sub(f".minnctapersm {blocks}", self.kernel.ptx)
        return replace(self.kernel, ptx=text, minimum_blocks=blocks, cubin=None, resources=None)
