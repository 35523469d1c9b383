"""What a price needs to know of a machine: data, with built-in targets, so that planning needs no device."""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.errors import OptionError


@dataclass(frozen=True, slots=True)
class LibraryRates:
    """Operations/s that a vendor library reaches in large matrix products, by the operands; 0 where it has none.

    call: seconds of host time that a call costs beyond a launch.  On an H100's host, of 4743 x 316 times 316 x 107: a
    plan with such a call 14 to 16 us, `torch.mm` into memory that is there 9 to 10, one kernel 5.5.
    """

    half: float = 0.0
    single: float = 0.0
    double: float = 0.0
    call: float = 0.0


EXCHANGED = 16 * 1024
"""Bytes through which the warps of a block exchange partial results, at most."""


KEPT = 0.7  # of the last-level cache


@dataclass(frozen=True, slots=True)
class Target:
    """One machine model.

    bandwidth: bytes/s of main memory as a copy achieves it.  l2_bandwidth, l2_bytes: of the last-level cache.
    flops: float32 operations/s outside matrix units.  launch: seconds that one more launch costs the host and the
    device (softmax of 64 x 50 on an H100: one kernel 5.4 us behind other work, four 15.3, five 18.0; 12.1, 22.5 and
    25.0 where the device waits for the host).  start: seconds more until the device has the first one of a call.  call:
    seconds that a call of a plan costs the host beside its launches.  latency: seconds of one memory round trip.
    library: of matrix products.  members: kernels that one launch runs side by side at most: more take too long to
    compile.  busy_bytes: of the longest domain of a kernel, from which more classes of sizes pay for what they take to
    compile; 0: always.  In those that many lengths share, 4 MB of rows of 65 take 11 us instead of 5 (softmax, H100).
    evict_last: whether kernels that read and write are quicker where the last-level cache lets go what they write
    first.  Sizes in bytes, counts per multiprocessor (core on a
    CPU); clock: cycles/s of one.
    """

    name: str
    kind: str  # "cuda" or "cpu"
    capability: tuple[int, int]
    processors: int
    bandwidth: float
    flops: float
    l2_bytes: int
    l2_bandwidth: float
    launch: float
    latency: float
    call: float = 12e-6
    start: float = 3e-6
    threads_per_block: int = 1024
    threads_per_processor: int = 2048
    blocks_per_processor: int = 32
    registers_per_processor: int = 65536
    registers_per_thread: int = 255
    shared_per_processor: int = 228 * 1024
    shared_per_block: int = 48 * 1024
    vector_bytes: int = 16
    warp: int = 32
    cluster: int = 1
    library: LibraryRates = LibraryRates()
    clock: float = 1.4e9
    members: int = 32
    busy_bytes: int = 2 << 20
    evict_last: bool = False

    @property
    def shared_on_demand(self) -> int:
        """Bytes of shared memory that one block may have where its launch asks for them, but for what combinations of
        its threads take: all of a processor's but 1 KB (CUDA Programming Guide, compute capabilities)."""
        return self.shared_per_processor - 1024 - EXCHANGED

    @property
    def l2_kept(self) -> float:
        """Bytes in the last-level cache that are still there when they are read again."""
        return KEPT * self.l2_bytes

    @property
    def ridge(self) -> float:
        """The arithmetic intensity, in operations per byte, above which compute bounds a program."""
        return self.flops / self.bandwidth

    def occupancy(self, threads: int, registers: int, shared: int) -> int:
        """Resident blocks per processor: the tightest of threads, registers (allocated per warp in units of 256) and
        shared memory (plus 1 KB a block that the system keeps).  CUDA Programming Guide, compute capabilities."""
        warps = -(-threads // self.warp)
        per_warp = -(-max(registers, 16) * self.warp // 256) * 256
        by_threads = self.threads_per_processor // (warps * self.warp)
        by_registers = (self.registers_per_processor // per_warp) // warps
        by_shared = self.shared_per_processor // (shared + 1024) if self.kind == "cuda" else self.blocks_per_processor
        return max(0, min(self.blocks_per_processor, by_threads, by_registers, by_shared))


H200 = Target(
    "h200", "cuda", (9, 0), 132, 4.28e12, 60e12, 60 << 20, 9e12, 3e-6, 0.8e-6, cluster=16, clock=1.755e9,
    library=LibraryRates(700e12, 50e12, 55e12, 10e-6), evict_last=True,
)  # copy speed measured: benchmarks/results
H100 = Target(
    "h100", "cuda", (9, 0), 132, 2.9e12, 60e12, 50 << 20, 8e12, 3e-6, 0.8e-6, cluster=16, clock=1.755e9,
    library=LibraryRates(700e12, 50e12, 55e12, 10e-6), evict_last=True,
)
A100 = Target(
    "a100", "cuda", (8, 0), 108, 1.75e12, 19.5e12, 40 << 20, 5e12, 3e-6, 0.8e-6, shared_per_processor=164 * 1024,
    library=LibraryRates(240e12, 18e12, 17e12, 10e-6),
)
GENERIC = Target(
    "generic", "cuda", (8, 0), 80, 0.8e12, 15e12, 16 << 20, 2.5e12, 3e-6, 0.8e-6, shared_per_processor=100 * 1024,
    library=LibraryRates(50e12, 12e12, 0.4e12, 10e-6),
)
CPU = Target(
    "cpu",
    "cpu",
    (0, 0),
    2,
    20e9,
    100e9,
    32 << 20,
    100e9,
    5e-6,
    0.1e-6,
    threads_per_block=1,
    threads_per_processor=1,
    blocks_per_processor=1,
    registers_per_processor=32 * 16,
    registers_per_thread=32 * 16,
    shared_per_processor=1 << 20,
    shared_per_block=1 << 20,
    vector_bytes=64,
    warp=1,
    library=LibraryRates(0.0, 100e9, 50e9, 5e-6),
    call=0.0,
    start=0.0,
    members=1,  # a launch of few blocks runs in the caller's thread, which enters no parallel region
)

BUILT_IN = {t.name: t for t in (H200, H100, A100, GENERIC, CPU)} | {"sm_90": H200, "sm_80": A100}


COPIED_BYTES = (4, 8)
"""What one asynchronous copy moves, beside 16 bytes, as several of which wider vectors travel (PTX ISA, cp.async)."""


def is_copied(width: int, itemsize: int) -> bool:
    """Whether vectors of `width` elements can be copied asynchronously."""
    size = width * itemsize
    return size in COPIED_BYTES or size > 0 and size % 16 == 0


def named(name: object) -> Target:
    """The built-in target of that name.  Raises OptionError listing the names."""
    if not isinstance(name, str) or name not in BUILT_IN:
        raise OptionError(f"unknown target {name!r}", advice=f"built in: {', '.join(sorted(BUILT_IN))}")
    return BUILT_IN[name]
