"""Programs on a CUDA device beside their peers: checked against float64 first, then timed in one run.

Times are medians of CUDA events around single calls, outputs allocated by each library; inputs rotate over enough
copies to exceed three times the last-level cache.  jax and cupy read the same memory as torch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import polyfuse as pf
from benchmarks.peers import (
    TorchNamespace,
    bound,
    cupy_fuse_peer,
    jax_peer,
    polyfuse_function,
    torch_peers,
)
from benchmarks.programs import Input, Program

DTYPES = {
    **{"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64},
    **{"i64": torch.int64, "i32": torch.int32, "u8": torch.uint8},
}
ROTATED_BYTES = 3 * 60 << 20
SMALL = 16 << 20  # bytes moved, below which a call costs the host more than the device


@dataclass(slots=True)
class Row:
    """One program: microseconds per contender (of small programs on the host as well), and what the plan said."""

    name: str
    kernels: int
    bytes: int
    flops: int
    predicted: float
    compile_seconds: float
    error: float
    times: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, float] = field(default_factory=dict)
    hosts: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def draw(given: Input) -> torch.Tensor:
    if given.below:
        return torch.randint(0, given.below, given.shape, device="cuda", dtype=DTYPES[given.dtype])
    drawn = torch.randn(given.shape, device="cuda", dtype=torch.float32)
    return (drawn.abs() + 0.1 if given.positive else drawn).to(DTYPES[given.dtype])


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def relative_error(program: Program, tensors: Sequence[torch.Tensor], result: Any) -> float:
    """The largest difference from the same program in float64, over the largest magnitude of that result."""
    wide = [t.double() if t.is_floating_point() else t for t in tensors]
    worst = 0.0
    for mine, exact in zip(as_tuple(result), as_tuple(bound(program, TorchNamespace(torch))(*wide)), strict=True):
        assert mine.shape == exact.shape, f"{program.name}: shape {tuple(mine.shape)}, not {tuple(exact.shape)}"
        difference = (mine.double() - exact).abs().max() / exact.abs().max()
        worst = max(worst, float(difference.nan_to_num(nan=float("inf"))))
    return worst


def poison(result: Any) -> None:
    """Leave NaN, or the largest integer, in the memory that the allocator hands out next for results of these sizes."""
    for t in as_tuple(result):
        torch.full_like(t, float("nan") if t.is_floating_point() else torch.iinfo(t.dtype).max)


def microseconds(calls: Sequence[Callable[[], Any]], repeats: int) -> tuple[float, float]:
    """Median and spread (the half width of the middle half) of device time per call; `calls` in rotation."""
    for call in (*calls, calls[0], calls[0]):
        call()
    torch.cuda.synchronize()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for k, (first, last) in enumerate(pairs):
        first.record()
        calls[k % len(calls)]()
        last.record()
    torch.cuda.synchronize()
    found = sorted(1e3 * first.elapsed_time(last) for first, last in pairs)
    return statistics.median(found), (found[3 * repeats // 4] - found[repeats // 4]) / 2


def host_microseconds(call: Callable[[], Any], calls: int = 300) -> float:
    """Median over rounds of host time per call, with little work queued."""
    rounds = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - start) / calls)
    return 1e6 * statistics.median(rounds)


def measured(program: Program, peers: frozenset[str], repeats: int = 21) -> Row:
    """Check and time one program.  Raises AssertionError where our result is wrong; a peer that fails is noted."""
    sets = [[draw(i) for i in program.inputs]]
    size = sum(t.numel() * t.element_size() for t in sets[0])
    while size * len(sets) < ROTATED_BYTES:
        sets.append([draw(i) for i in program.inputs])
    function = polyfuse_function(program)
    start = time.perf_counter()
    result = function(*sets[0])
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    poison(result)
    result = function(*sets[0])
    error = relative_error(program, sets[0], result)
    assert error <= program.tolerance, f"{program.name}: error {error:.1e}, allowed {program.tolerance:.0e}"
    moved = size + sum(t.numel() * t.element_size() for t in as_tuple(result))
    plan = function.plan(*sets[0])
    cost = plan.cost_analysis()
    row = Row(program.name, len(plan.steps), moved, cost.flops, 1e6 * cost.seconds, seconds, error)
    contend(row, "polyfuse", function, sets, repeats)
    for name, peer in torch_peers(program, peers, torch):
        contend(row, name, peer, sets, repeats)
    if "jax" in peers:
        contend_foreign(row, "jax", lambda tensors: jax_peer(program, tensors), sets, repeats)
    if "cupy.fuse" in peers:
        contend_foreign(row, "cupy.fuse", lambda tensors: cupy_fuse_peer(program, tensors), sets, repeats)
    return row


def contend(row: Row, name: str, function: Callable[..., Any], sets: list[list[Any]], repeats: int) -> None:
    try:
        row.times[name], row.spreads[name] = microseconds([lambda s=s: function(*s) for s in sets], repeats)
        if row.bytes < SMALL:
            row.hosts[name] = host_microseconds(lambda: function(*sets[0]))
    except Exception as error:  # a peer's failure is a fact of the table
        row.failures[name] = f"{type(error).__name__}: {str(error)[:200]}"


def contend_foreign(
    row: Row, name: str, made: Callable[[list[Any]], Callable[..., Any] | None], sets: list[list[Any]], repeats: int
) -> None:
    """A library with a stream of its own: the default stream orders it with the events."""
    try:
        functions = [made(tensors) for tensors in sets]
        if None not in functions:
            times = synchronised([f for f in functions if f], repeats)
            row.times[name], row.spreads[name] = times
            if row.bytes < SMALL:
                row.hosts[name] = host_microseconds(lambda: functions[0] and functions[0]())
    except Exception as error:
        row.failures[name] = f"{type(error).__name__}: {str(error)[:200]}"


def synchronised(functions: Sequence[Callable[..., Any]], repeats: int) -> tuple[float, float]:
    """Host clock around batches of calls that are waited for, less what one waited-for empty batch costs per call.

    JAX launches on streams that torch's events do not see.
    """
    batch = 10
    for function in functions:
        wait(function())
    found = []
    for _ in range(max(5, repeats // 3)):
        torch.cuda.synchronize()
        start = time.perf_counter()
        results = [functions[k % len(functions)]() for k in range(batch)]
        for r in results:
            wait(r)
        found.append(1e6 * (time.perf_counter() - start) / batch)
        del results
    found.sort()
    return statistics.median(found), (found[3 * len(found) // 4] - found[len(found) // 4]) / 2


def wait(result: Any) -> None:
    for r in as_tuple(result):
        if hasattr(r, "block_until_ready"):
            r.block_until_ready()
    torch.cuda.synchronize()


def copy_bandwidth() -> float:
    """Bytes per second of a large device copy, read plus written."""
    source = torch.empty(1 << 30, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    time_us, _ = microseconds([lambda: target.copy_(source)], 15)
    return 2 * source.numel() * 4 / (time_us * 1e-6)


def device_name() -> str:
    return str(torch.cuda.get_device_name())


def versions() -> str:
    import importlib.metadata

    names = ("torch", "jax", "cupy-cuda13x", "numba", "numba-cuda", "numpy")
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join([f"polyfuse {pf.__version__}", *found])
