"""The price of a schedule: what it moves, computes and occupies, and the time that follows.

    time = launch + max(HBM bytes / bandwidth, cache bytes / cache bandwidth, operations / rate)
           with bandwidths scaled by the bytes that resident threads keep in flight (Little's law)

Cost decides nothing about legality.  Every constant names the measurement that set it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from polyfuse.affine import Affine
from polyfuse.scalars import FUNCTIONS
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target
from polyfuse.terms import Apply, Expr

BASE_REGISTERS = 20  # addresses, indices and temporaries of a small kernel as ptxas reports it
SPILL_FACTOR = 2.0  # a spilled register is written and read once


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted figures of one kernel.  Bytes of main memory, operations as `scalars` counts them, registers per
    thread, bytes of shared memory per block, resident blocks per processor, seconds; `bound` names the largest term."""

    bytes_read: int
    bytes_written: int
    cache_bytes: int
    flops: int
    registers: int
    shared: int
    occupancy: int
    blocks: int
    seconds: float
    bound: str

    @property
    def hbm_bytes(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Operations per byte of main memory."""
        return self.flops / max(1, self.hbm_bytes)

    @property
    def picoseconds(self) -> int:
        return int(self.seconds * 1e12)


@lru_cache(maxsize=100_000)
def operations(term: Expr) -> int:
    """Operations of one evaluation of a body."""
    if not isinstance(term, Apply):
        return 0
    return FUNCTIONS[term.function].cost + sum(operations(o) for o in term.operands)


class _Sizes:
    """Extents of digits at the hinted sizes."""

    def __init__(self, schedule: KernelSchedule, hints: Mapping[str, int]) -> None:
        self.hints = hints
        self.extent = {d.name: max(1, d.extent.evaluate(hints)) for d in schedule.digits}
        self.kind = {d.name: d.kind for d in schedule.digits}

    def product(self, names: frozenset[str] | set[str], kinds: tuple[str, ...] = ()) -> int:
        count = 1
        for name in names:
            if name in self.extent and (not kinds or self.kind[name] in kinds):
                count *= self.extent[name]
        return count

    def volume(self, shape: tuple[Affine, ...]) -> int:
        count = 1
        for extent in shape:
            count *= max(0, extent.evaluate(self.hints))
        return count


def price(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> Cost:
    """The predicted cost of one kernel at the hinted sizes."""
    sizes = _Sizes(schedule, hints)
    everything = frozenset(sizes.extent)
    blocks = sizes.product(everything, ("block",))
    threads = schedule.threads
    shared = _shared_bytes(scop, schedule)
    registers = _registers(scop, schedule, sizes)
    spilled = max(0, registers - target.registers_per_thread)
    occupancy = target.occupancy(threads, min(registers, target.registers_per_thread), shared)
    read, cache_read, in_flight = _loads(scop, schedule, target, sizes, blocks, occupancy)
    written = sum(_bytes(scop, p, sizes) for p in schedule.placed if p.role == "store")
    stored = sum(
        int(_bytes(scop, p, sizes) * _waste(p, schedule, target, scop.dtype(p.value, p.component).itemsize))
        for p in schedule.placed
        if p.role == "store"
    )
    flops = sum(_flops(scop, p, sizes, threads) for p in schedule.placed)
    resident = min(blocks, max(1, occupancy) * target.processors)
    fill = min(1.0, resident * threads * max(16, in_flight) / (target.bandwidth * target.latency))
    busy = min(1.0, blocks / target.processors)
    terms = {
        "memory": (read + written) / (target.bandwidth * fill),
        "cache": (cache_read + stored) / (target.l2_bandwidth * fill),
        "compute": flops / (target.flops * busy),
    }
    terms["memory"] += spilled * 4 * SPILL_FACTOR * threads * blocks / target.bandwidth
    bound = max(terms, key=lambda k: terms[k])
    seconds = target.launch + max(terms.values())
    if terms[bound] < target.launch:
        bound = "launch"
    elif fill < 0.5 and bound in ("memory", "cache"):
        bound = "latency"
    return Cost(read, written, cache_read, flops, registers, shared, occupancy, blocks, seconds, bound)


def _bytes(scop: Scop, move: Placed, sizes: _Sizes) -> int:
    return sizes.volume(scop.shape(move.value)) * scop.dtype(move.value, move.component).itemsize


def _loads(
    scop: Scop, schedule: KernelSchedule, target: Target, sizes: _Sizes, blocks: int, occupancy: int
) -> tuple[int, int, int]:
    """(bytes from main memory, bytes through the cache, bytes a thread has in flight)."""
    passes: dict[tuple[int, int], set[tuple[tuple[str, int], ...]]] = defaultdict(set)
    cache = in_flight = 0
    for load in (p for p in schedule.placed if p.role == "load"):
        key = (load.value, load.component)
        itemsize = scop.dtype(load.value, load.component).itemsize
        used = load.digits()
        executed = sizes.product(
            used | {n for n in sizes.extent if sizes.kind[n] == "block"}, ("block", "thread", "slot", "loop")
        )
        if load.path not in passes[key]:
            touched = min(executed, sizes.volume(scop.shape(load.value)) * blocks) * itemsize
            cache += int(touched * _waste(load, schedule, target, itemsize))
        passes[key].add(load.path)
        in_flight += sizes.product(used, ("slot",)) * itemsize
    read = 0
    for (value, component), paths in passes.items():
        volume = sizes.volume(scop.shape(value)) * scop.dtype(value, component).itemsize
        resident = volume * min(1.0, max(1, occupancy) * target.processors / max(1, blocks))
        again = 0 if resident <= target.l2_bytes * 0.7 else len(paths) - 1
        read += volume * (1 + again)
    return read, cache, in_flight


SECTOR = 32  # bytes the memory system moves at least


def _waste(move: Placed, schedule: KernelSchedule, target: Target, itemsize: int) -> float:
    """Bytes moved over bytes used: consecutive elements that a warp (CPU: a block) touches, in sectors."""
    if not move.place or not isinstance(move.place[-1], Affine):
        return SECTOR / itemsize / 2  # a gather: half of its neighbours are assumed to help
    last, run = move.place[-1], 1
    steps = []
    for d in schedule.digits:
        within = d.kind in ("slot", "loop") if target.kind == "cpu" else d.kind in ("slot", "thread")
        if within and d.kind == "thread":
            extent = max(1, min(d.count, target.warp // d.stride)) if d.stride < target.warp else 1
            steps.append((abs(last.coefficient(f"${d.name}")), extent))
        elif within and d.extent.is_constant:
            steps.append((abs(last.coefficient(f"${d.name}")), d.count))
    for factor, extent in sorted(steps):
        if factor and factor <= run:
            run = max(run, factor * extent)
    return max(1.0, SECTOR / (run * itemsize))


def _flops(scop: Scop, placed: Placed, sizes: _Sizes, threads: int) -> int:
    """Operations of all executions: replicated ones cost issue slots like any other."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement):
        return 0
    each = sum(operations(b) for b in statement.body) + (1 if statement.monoid else 0)
    used = placed.digits() | {loop for loop, _ in placed.path}
    count = sizes.product(used, ("slot", "loop")) * threads * sizes.product(frozenset(sizes.extent), ("block",))
    return each * count


def _shared_bytes(scop: Scop, schedule: KernelSchedule) -> int:
    total = 0
    for box in schedule.shared:
        elements = 1 + sum((n - 1) * p for n, p in zip(box.extents, box.pitch, strict=True))
        total += elements * scop.dtype(box.value).compute.itemsize
    return total


def _registers(scop: Scop, schedule: KernelSchedule, sizes: _Sizes) -> int:
    """The widest moment: values alive between their definition and last use, in order of the placed statements."""
    order = list(reversed(schedule.placed))
    last: dict[str, int] = {}
    for k, placed in enumerate(order):
        for provider in placed.providers:
            last[provider] = k
    alive: dict[str, int] = {}
    widest = 0
    for k, placed in enumerate(order):
        if placed.role in ("load", "get", "compute"):
            alive[placed.name] = _words(scop, placed, sizes)
        widest = max(widest, sum(alive.values()))
        for provider in placed.providers:
            if last.get(provider) == k:
                alive.pop(provider, None)
    return BASE_REGISTERS + widest


def _words(scop: Scop, placed: Placed, sizes: _Sizes) -> int:
    """32-bit registers of one value: its slots, without those a reduction sums over."""
    statement = scop.statements[placed.value]
    used = set(placed.digits())
    if placed.role == "compute" and isinstance(statement, Statement) and statement.is_reduction:
        over = {n[1:] for d in statement.reduced for n in _names(placed.place[d])}
        used -= over
    words = max(1, scop.dtype(placed.value, placed.component).compute.itemsize // 4)
    return sizes.product(frozenset(used), ("slot",)) * words


def _names(entry: object) -> frozenset[str]:
    return entry.names() if isinstance(entry, Affine) else frozenset()
