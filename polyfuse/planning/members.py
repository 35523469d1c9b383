"""Which final kernels of a program run side by side in one launch, by the price of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyfuse.cost.counts import Cost
from polyfuse.cost.members import price_together
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.search import Grouping
from polyfuse.grouping.side_by_side import Beside, Launched, depth, depths, side_by_side
from polyfuse.legality import prove, prove_side_by_side
from polyfuse.planning.choose import Choice
from polyfuse.planning.program_costs import ProgramCosts
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Statement
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal, unprofitable

PARAMETERS = 448
"""Of a launch: 8 bytes each, of the 4 KB that every device takes (CUDA C++ Programming Guide, function parameters)."""

STATEMENTS = 480
"""Of a launch.  Numba compiles 240 of them in 1.9 s, ten kernels of 12 in 0.8 s, one in 0.05 s: slightly worse than in
proportion."""

CLEARLY, AGAIN = 0.9, 0.75
"""Of the price of one body, below which its parts run side by side instead: the two prices come from two models, and
predictions within a tenth of each other do not tell which is faster.  And where the parts read most of it again, as
prices of short kernels are off by a third (`polyfuse/cost/alone.py`)."""

SHORT = 5
"""Launches' time a kernel may take at most that gets another block size to run beside others: a longer one has more to
lose by it than a launch costs."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The kernels of a program and the launches that run them, in order.  `apart`: for pairs of kernels, by their
    names, why the second has another launch than the first."""

    grouping: Grouping
    launches: tuple[Launched, ...]
    apart: Mapping[tuple[int, int], Verdict]

    def unmet(self, wish: frozenset[int]) -> bool:
        """Whether no launch computes all of these values."""
        return not any(wish <= frozenset().union(*(k.body for k in launch)) for launch in self.launches)


def packed(costs: ProgramCosts, grouping: Grouping) -> Packing:
    """Kernels that wait for nothing of each other side by side, where that is faster; so are the unrelated parts of one
    kernel, whose single body would take blocks over the product of their spaces."""
    if costs.target.members < 2 or costs.steering.fuse != "all":
        return Packing(grouping, tuple((kernel,) for kernel in grouping.kernels), {})
    weighed = _Weighed(costs, grouping, depths(grouping.kernels))
    kernels = grouping.kernels
    if not costs.options.batch_invariant:  # which bodies there are, and how they sum, must not follow a price
        kernels = tuple(part for kernel in kernels for part in weighed.parted(kernel))
    beside = Beside(weighed.fits, weighed.price)
    launches, apart = side_by_side(kernels, beside, weighed.wanted(kernels))
    for launch in launches:
        weighed.settle(launch)
    return Packing(replace(grouping, kernels=kernels), launches, apart)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Answers about kernels side by side; the first gives the launch its block size.  `deep`: of stored values.
    `resized`: schedules of kernels with another number of threads per block than their own."""

    costs: ProgramCosts
    grouping: Grouping
    deep: Mapping[int, int]
    resized: dict[tuple[KernelGroup, int], Choice | None] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------ one kernel
    def _own(self, kernel: KernelGroup) -> Choice:
        return self.costs.choice(kernel.body, kernel.roots, kernel.loads)

    def _chosen(self, kernels: Launched) -> list[tuple[KernelSchedule, Cost] | None]:
        """The schedules in one launch; None for what the array library runs."""
        leader = self._own(kernels[0]).schedule
        choices = [self._with_threads(k, leader.threads) if leader else self._own(k) for k in kernels]
        return [None if c.schedule is None or c.cost is None else (c.schedule, c.cost) for c in choices]

    def _with_threads(self, kernel: KernelGroup, threads: int) -> Choice:
        """Of that many threads per block if there is one, proved; else the kernel's own."""
        own = self._own(kernel)
        if own.schedule is None or own.schedule.threads == threads or own.schedule.cluster > 1:
            return own
        if self.costs.options.batch_invariant or kernel.time > SHORT * self.costs.target.launch * 1e12:
            return own
        key = (kernel, threads)
        if key not in self.resized:
            self.resized[key] = self._resized(kernel, threads)
        return self.resized[key] or own

    def _resized(self, kernel: KernelGroup, threads: int) -> Choice | None:
        found = self.costs.with_threads(kernel.body, kernel.roots, kernel.loads, threads)
        if found.schedule is None or found.group is None or found.schedule.threads != threads:
            return None
        is_proved = prove(found.group.scop, found.schedule, atomics=self.costs.options.atomics)
        return found if is_proved else None

    def settle(self, launch: Launched) -> None:
        """Keep the schedules that the launch has as the choices for its kernels."""
        leader = self._own(launch[0]).schedule
        for kernel in launch[1:]:
            assert leader is not None, "a library call shares no launch"
            self.costs.choices[kernel.body, kernel.roots] = self._with_threads(kernel, leader.threads)

    # ------------------------------------------------------------------------------------------ one launch
    def price(self, kernels: Launched) -> int:
        """Picoseconds of one launch."""
        chosen = [c for c in self._chosen(kernels) if c is not None]
        if len(kernels) == 1 or not chosen:
            return kernels[0].time
        return price_together([c for _, c in chosen], chosen[0][0].threads, self.costs.target).picoseconds

    def fits(self, kernels: Launched) -> Verdict:
        """Whether these may run side by side: what a launch holds, the user's wishes, then the proof."""
        chosen = [c for c in self._chosen(kernels) if c is not None]
        if len(chosen) < len(kernels):
            return illegal(Hazard.SCOPE, "the array library runs one of them, on whole arrays", rule="opaque")
        for verdict in (self._capacity(kernels, [c for _, c in chosen]), self._wishes(kernels), self._bounds(chosen)):
            if not verdict:
                return verdict
        return prove_side_by_side(self.costs.scop, [s for s, _ in chosen])

    def _wishes(self, kernels: Launched) -> Verdict:
        body, roots = (frozenset().union(*sets) for sets in ([k.body for k in kernels], [k.roots for k in kernels]))
        return self.grouping.allows(body, roots)

    def _bounds(self, chosen: list[tuple[KernelSchedule, Cost]]) -> Verdict:
        """The launch asks for as many resident blocks as any member does: none may spill for it."""
        blocks = max(s.minimum_blocks for s, _ in chosen)
        bound = self.costs.target.registers_per_processor // (chosen[0][0].threads * blocks)
        need = max(c.registers for s, c in chosen if s.minimum_blocks == blocks or c.registers > bound)
        low = [c.registers for s, c in chosen if s.minimum_blocks < blocks and c.registers > bound]
        return unprofitable(f"registers {need} > {bound}, the bound of another member") if low else LEGAL

    def _capacity(self, kernels: Launched, costs: list[Cost]) -> Verdict:
        target = self.costs.target
        if len(kernels) > target.members:
            return unprofitable(f"a launch has {target.members} members at most: more take too long to compile")
        shared = sum(c.shared for c in costs)
        if shared > target.shared_per_block:
            sentence = f"shared memory {shared} > {target.shared_per_block} bytes"
            return illegal(Hazard.CAPACITY, sentence, rule="capacity")
        count = sum(map(self._parameters, kernels))
        if count > PARAMETERS:
            return unprofitable(f"{count} parameters > {PARAMETERS}")
        size = sum(len(k.body) for k in kernels)
        return unprofitable(f"{size} statements > {STATEMENTS}") if size > STATEMENTS else LEGAL

    def _parameters(self, kernel: KernelGroup) -> int:
        """No fewer than the kernel has: arrays, sizes and products of them, strides, scalars, where it begins, and what
        its blocks leave each other."""
        scop, arrays = self.costs.scop, kernel.loads | kernel.roots
        sizes = frozenset().union(*(extent.names() for v in arrays for extent in scop.shape(v)))
        strided = (scop.shape(v) for v in arrays if v in self.costs.layouts)
        held = sum(len(scop.statements[v].dtypes) for v in arrays) + sum(map(len, strided))
        shares = sum(len(scop.statements[v].dtypes) for v in kernel.body if self._is_reduction(v))
        scalars = sum(argument.is_scalar for argument in scop.program.arguments)
        return 2 + held + 2 * len(sizes) + 2 * shares + scalars

    def _is_reduction(self, value: int) -> bool:
        statement = self.costs.scop.statements[value]
        return isinstance(statement, Statement) and statement.is_reduction

    def wanted(self, kernels: Launched) -> list[Launched]:
        """What the user wants together and no single body can compute, where it may run side by side."""
        found: list[Launched] = []
        for wish, _ in self.grouping.unmet:
            members = [k for k in kernels if not wish.isdisjoint(k.body) and not any(k in other for other in found)]
            launch = tuple(sorted(members, key=lambda k: (-k.time, k.name)))
            together = wish <= frozenset().union(*(k.body for k in launch))
            if together and len({depth(k, self.deep) for k in launch}) == 1 and self.fits(launch):
                found.append(launch)
        return found

    # ------------------------------------------------------------------------------------------ one body
    def parted(self, kernel: KernelGroup) -> Launched:
        """The parts of a kernel that share no computed value, where they are clearly faster side by side; else itself.
        All of them wait for as much as the kernel does."""
        bodies = _components(self.costs, kernel)
        wishes = self.costs.steering.wishes()
        if len(bodies) < 2 or any(sum(not wish.isdisjoint(b) for b in bodies) > 1 for wish in wishes):
            return (kernel,)
        loads = [frozenset([o for v in body for o in self.costs.operands(v)]) - body for body in bodies]
        roots, most = [body & kernel.roots for body in bodies], self._clearly(loads) * kernel.time
        none = frozenset[int]()
        least = sum(map(self.costs.floor, roots, loads)) - (len(bodies) - 1) * self.costs.floor(none, none)
        if least >= most:
            return (kernel,)  # what their bytes take: no price is needed to know
        priced = [KernelGroup(r, b, o, self.costs.price(b, r, o)) for r, b, o in zip(roots, bodies, loads, strict=True)]
        parts = tuple(sorted(priced, key=lambda part: (-part.time, part.name)))
        if len({depth(part, self.deep) for part in parts}) > 1:
            return (kernel,)
        if not self.fits(parts) or self.price(parts) >= most:
            return (kernel,)
        chosen = [self._own(part) for part in parts]
        atomics = self.costs.options.atomics
        proved = all(c.group and c.schedule and prove(c.group.scop, c.schedule, atomics=atomics) for c in chosen)
        return parts if proved else (kernel,)

    def _clearly(self, loads: Sequence[frozenset[int]]) -> float:
        once, each = frozenset[int]().union(*loads), [value for part in loads for value in part]
        again = 2 * sum(map(self.costs.bytes, each)) > 3 * sum(map(self.costs.bytes, once))
        return AGAIN if again else CLEARLY


def _components(costs: ProgramCosts, kernel: KernelGroup) -> list[frozenset[int]]:
    """The values of a kernel in sets that no computed value connects with each other."""
    connected: dict[int, list[int]] = {value: [] for value in kernel.body}
    for value in kernel.body:
        for operand in costs.operands(value):
            if operand in connected:
                connected[value].append(operand)
                connected[operand].append(value)
    return [_reached(first, connected) for first in sorted(kernel.body) if first in connected]


def _reached(first: int, connected: dict[int, list[int]]) -> frozenset[int]:
    """What `first` is connected with; taken out."""
    found, todo = set[int](), [first]
    while todo:
        value = todo.pop()
        todo += connected.pop(value, ())
        found.add(value)
    return frozenset(found)
