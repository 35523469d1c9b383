"""The price of a schedule on CPU cores: a block is a task of one core, its slots are vector lanes.

    time = launch + blocks * start + max(memory bytes / bandwidth, cache bytes / cache bandwidth, lane time)

Registers and occupancy bound nothing here.  Constants are those of a 2-core Sapphire Rapids machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from polyfuse.affine import Affine
from polyfuse.cost.counts import Cost, Sizes, box_bytes, moved_bytes, placed_operations
from polyfuse.cost.middle import decided
from polyfuse.cost.registers import register_need
from polyfuse.schedule import IN_PIECES, KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target

LINE = 64  # bytes that caches move
START = 20e-9  # seconds to enter a block: an index step, a call, the hoisted addresses
CORE_CACHE = 1 << 20  # bytes that a core reads again at cache speed: half of a second-level cache
LANES = 16  # float32 lanes of one vector instruction


def price(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> Cost:
    """The predicted cost of one kernel at the hinted sizes."""
    sizes = Sizes(schedule, hints)
    blocks = sizes.product(frozenset(sizes.extent), ("block",))
    read, cached = _loads(scop, schedule, sizes, blocks)
    stores = [p for p in schedule.placed if p.role == "store"]
    written = sum(moved_bytes(scop, p, sizes) for p in stores)
    cached += sum(int(moved_bytes(scop, p, sizes) * _waste(scop, p, schedule)) for p in stores)
    busy = min(1.0, blocks / target.processors)
    terms = {
        "memory": (read + written) / (target.bandwidth * busy),
        "cache": cached / (target.l2_bandwidth * busy),
        "compute": sum(_lane_time(scop, p, schedule, sizes) for p in schedule.placed) / (target.flops * busy),
    }
    bound = max(terms, key=lambda k: terms[k])
    seconds = target.launch + START * blocks / (target.processors * busy) + terms[bound]
    if terms[bound] < target.launch:
        bound = "launch"
    flops = sum(_operations(scop, p, schedule, sizes) for p in schedule.placed)
    registers = register_need(scop, schedule, sizes)
    return Cost(read, written, cached, flops, registers, box_bytes(scop, schedule), 1, blocks, seconds, bound)


def _lane_time(scop: Scop, placed: Placed, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Operations, those that leave lanes empty counted as if these worked too."""
    lanes = min(LANES, sizes.product(placed.digits(), ("slot",)))
    return _operations(scop, placed, schedule, sizes) * LANES / lanes


def _operations(scop: Scop, placed: Placed, schedule: KernelSchedule, sizes: Sizes) -> int:
    if IN_PIECES not in dict(schedule.parameters):
        return placed_operations(scop, placed, sizes, 1)
    return int(placed_operations(scop, placed, sizes, 1, decided) * _existing(scop, placed, sizes))


def _existing(scop: Scop, placed: Placed, sizes: Sizes) -> float:
    """How much of the places of a statement there is of it: in rows cut into pieces it runs nowhere else."""
    statement = scop.statements[placed.value]
    extents = scop.shape(placed.value)
    if placed.role == "compute" and isinstance(statement, Statement):
        extents = statement.extents
    return min(1.0, sizes.volume(extents) / max(1, sizes.product(placed.digits())))


def _loads(scop: Scop, schedule: KernelSchedule, sizes: Sizes, blocks: int) -> tuple[int, int]:
    """(bytes from memory, bytes through a core's cache).  Several passes over what a block reads come from memory again
    unless it stays in the core's cache."""
    passes: dict[tuple[int, int], set[tuple[tuple[str, int], ...]]] = defaultdict(set)
    cached = 0
    for load in (p for p in schedule.placed if p.role == "load"):
        used = load.digits() | {n for n in sizes.extent if sizes.kind[n] == "block"}
        itemsize = scop.dtype(load.value, load.component).itemsize
        share = _existing(scop, load, sizes) if IN_PIECES in dict(schedule.parameters) else 1.0
        cached += int(sizes.product(used) * share * itemsize * _waste(scop, load, schedule))
        passes[(load.value, load.component)].add(load.path)
    volumes = {key: sizes.volume(scop.shape(key[0])) * scop.dtype(*key).itemsize for key in passes}
    stays = sum(volumes.values()) / max(1, blocks) <= CORE_CACHE
    read = sum(volumes[key] * (1 if stays else len(paths)) for key, paths in passes.items())
    return read, cached


def _waste(scop: Scop, move: Placed, schedule: KernelSchedule) -> float:
    """Bytes of touched cache lines over bytes used: consecutive elements that a block touches."""
    itemsize = scop.dtype(move.value, move.component).itemsize
    if not move.place:
        return 1.0
    if not isinstance(move.place[-1], Affine):
        return LINE / itemsize / 2  # a gather: half of its neighbours are assumed to help
    run = 1
    inner = [d for d in schedule.digits if d.kind in ("slot", "loop")]
    for factor, extent in sorted((abs(move.place[-1].coefficient(f"${d.name}")), _extent(d.extent)) for d in inner):
        if factor and factor <= run:
            run = max(run, factor * extent)
    return max(1.0, LINE / (run * itemsize))


def _extent(extent: Affine) -> int:
    return extent.constant if extent.is_constant else LINE
