"""Kernels that spill: only the assembler knows how many registers a kernel takes.  A plan whose kernels keep values of
threads in memory for want of registers is priced again with what that costs, and makes way for one that is faster then.

    planned   one_pass lanes=512 unroll=4   320 us, but 944 bytes of each thread in memory: some 400 us more
    instead   one_pass lanes=512 unroll=2   258 us
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from polyfuse.cost.counts import Sizes
from polyfuse.cost.lines import LINE
from polyfuse.plan import Plan
from polyfuse.run.prepare import Ready
from polyfuse.run.services import PlanKey
from polyfuse.run.sizes import hold
from polyfuse.run.tuning import Signature, replanned, signature
from polyfuse.schedule import KernelSchedule
from polyfuse.target import Target

ROUNDS = 3  # plans that are tried in place of the first
WORTH = 0.03
"""Of the predicted time, below which spilling is no reason to plan and compile again, nor what would be gained by it:
prices are not finer.  The 48 bytes that softmax of 4096 x 32768 spills in each of 512 threads, 2.5 parts in a hundred,
do not show on an H200; three plans for a softmax over a middle axis took two seconds there, and the first stayed."""
CACHED = 0.5  # of a processor's memory for blocks, which the first-level cache shares with what they ask for

_log = logging.getLogger("polyfuse.schedule")


def unspilled(first: Ready, key: PlanKey, sizes: Mapping[str, int], compile: Callable[[Plan], Ready]) -> Ready:
    """`first`, or a plan that is faster by price once it is known what the kernels of both spill.

    `compile` makes a plan ready to run.  What was dropped is said in the plan that stays, and in the log.
    """
    known, tried = dict[Signature, float](), [first]
    for _ in range(ROUNDS):
        found = _spilling(tried[-1], known)
        if sum(found.values()) < WORTH * _seconds(tried[-1].plan, {}):
            break
        known |= found
        plan = _planned(key, known)
        expected = {name: _expected(name, known) for name in _names(plan)}
        gain = min(_seconds(ready.plan, known) for ready in tried) - _seconds(plan, expected)
        if not hold(plan.guards, sizes) or gain < WORTH * _seconds(plan, {}):
            break
        tried.append(compile(plan))
    known |= _spilling(tried[-1], known)
    best = min(tried, key=lambda ready: _seconds(ready.plan, known))
    spills = [f"{'kept' if ready is best else 'dropped'} {note}" for ready in tried for note in _notes(ready)]
    for note in spills:
        _log.info("%s: %s", key.program.name, note)
    return replace(best, plan=replace(best.plan, spills=tuple(spills))) if spills else best


def _spilling(ready: Ready, known: Mapping[Signature, float]) -> dict[Signature, float]:
    """Seconds that the spills of each kernel take, of those that are not `known`."""
    plan, found = ready.plan, dict[Signature, float]()
    spilled = [k.spilled for launch, k in zip(plan.launches, ready.kernels, strict=True) for _ in launch.schedules]
    for kernel, size in zip(plan.kernels, spilled, strict=True) if any(spilled) else ():
        schedule = kernel.schedule
        if not size or schedule.border and schedule.minimum_blocks > 1:
            continue  # asked for: what spills is the branch of a few blocks at the border
        found[signature(schedule)] = spill_seconds(size, schedule, plan.target, kernel.sizes_at(kernel.hints))
    return {name: seconds for name, seconds in found.items() if name not in known}


def spill_seconds(spilled: int, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> float:
    """Seconds in which the threads of a kernel write and read `spilled` bytes each, in every trip."""
    sizes = Sizes(schedule, hints)
    threads = schedule.block_threads * schedule.cluster * sizes.product(sizes.blocks_of)
    trips = max([sizes.product({loop for loop, _ in p.path}, ("loop",)) for p in schedule.placed], default=1)
    return 2 * spilled * threads * trips / _bandwidth(spilled, schedule, target)


def _bandwidth(spilled: int, schedule: KernelSchedule, target: Target) -> float:
    """Bytes/s of the caches that hold what the threads at work spill, each of which has all registers it may: the first
    as much as fits.  Batch normalisation that spills 224 bytes in each of 1,024 threads of a processor takes an H100
    213 us where 168 were predicted without."""
    most = target.registers_per_processor // (schedule.block_threads * schedule.minimum_blocks)
    resident = target.registers_per_processor // min(target.registers_per_thread, max(1, most))
    near = min(1.0, CACHED * target.shared_per_processor / (spilled * resident))
    return 1 / (near / (LINE * target.processors * target.clock) + (1 - near) / target.l2_bandwidth)


def _planned(key: PlanKey, known: Mapping[Signature, float]) -> Plan:
    return replanned(key, lambda name, seconds: seconds + _expected(name, known))


def _expected(name: Signature, known: Mapping[Signature, float]) -> float:
    """Seconds that a schedule spills, or one like it of another form of the program: most of its values are the same.
    """
    if name in known:
        return known[name]
    alike = (seconds for other, seconds in known.items() if other[1:] == name[1:] and _are_most(other[0], name[0]))
    return max(alike, default=0.0)


def _are_most(some: frozenset[str], others: frozenset[str]) -> bool:
    return 2 * len(some & others) >= max(len(some), len(others))


def _names(plan: Plan) -> frozenset[Signature]:
    return frozenset(map(signature, plan.schedules))


def _seconds(plan: Plan, known: Mapping[Signature, float]) -> float:
    """As predicted without spills, and what those take."""
    predicted = sum(kernel.seconds for kernel in plan.kernels)
    return predicted + sum(known.get(name, 0.0) for name in _names(plan))


def _notes(ready: Ready) -> list[str]:
    """Kernels that spill, one sentence each."""
    notes = []
    for launch, kernel in zip(ready.plan.launches, ready.kernels, strict=True):
        if kernel.spilled and launch.schedules:
            schedule = launch.schedule
            chosen = " ".join([schedule.strategy, *(f"{name}={size}" for name, size in schedule.parameters)])
            notes.append(f"{launch.kernel.name}, {chosen}: {kernel.spilled} bytes of each thread spilled")
    return notes
