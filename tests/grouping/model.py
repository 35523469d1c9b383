"""Programs on paper: statement DAGs with a plausible price and legality, to test the search apart from the compiler.

Values are matrices, rows, columns or scalars (they span a subset of the axes ``i`` and ``j``).  One kernel is legal if
its blocks can hold what its statements need of each other: a sum over ``j`` that is read again inside the kernel wants
whole rows in one block, a sum over ``i`` whole columns, so both at once are not possible.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal

Values = frozenset[int]
EXTENT = {"i": 16384, "j": 4096}
DEVICE = 4.28  # bytes per picosecond
RATE = 30.0  # operations per picosecond
LAUNCH = 2_000_000
LATENCY = 1_500_000


@dataclass(frozen=True, slots=True)
class Op:
    """One value.  kind: input, map, sum, dot or opaque.  axes: those that the value spans.  over: those summed."""

    kind: str
    operands: tuple[int, ...]
    axes: str
    over: str = ""
    flops: int = 1
    scale: int = 1  # extent of j is divided by this: sizes that differ
    tag: str = ""

    @property
    def elements(self) -> int:
        count = 1
        for axis in self.axes:
            count *= EXTENT[axis] // (self.scale if axis == "j" else 1)
        return count

    @property
    def instances(self) -> int:
        return self.elements * (EXTENT[self.over] if self.over else 1)


@dataclass(frozen=True, slots=True)
class Program:
    """Operations in any topological order, and which of them are outputs."""

    ops: tuple[Op, ...]
    outputs: frozenset[int]

    def digests(self) -> list[str]:
        """Structural names: equal for equal computations, whatever the order of statements."""
        found: list[str] = []
        for op in self.ops:
            text = repr((replace(op, operands=()), sorted({found[v] for v in op.operands})))
            found.append(hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
        return found

    def canonical(self) -> Program:
        """The same program in the order of a depth-first walk by digests; equal and dead values collapse."""
        digests = self.digests()
        rank: dict[str, int] = {}
        ops: list[Op] = []
        for output in sorted(self.outputs, key=digests.__getitem__):
            stack = [(output, False)]
            while stack:
                value, expanded = stack.pop()
                if digests[value] in rank:
                    continue
                operands = sorted(self.ops[value].operands, key=digests.__getitem__)
                if expanded:
                    rank[digests[value]] = len(ops)
                    ops.append(replace(self.ops[value], operands=tuple(sorted({rank[digests[v]] for v in operands}))))
                else:
                    stack.append((value, True))
                    stack.extend((v, False) for v in reversed(operands))
        return Program(tuple(ops), frozenset(rank[digests[v]] for v in self.outputs))

    def shuffled(self, seed: int) -> Program:
        """The same program with its statements in another valid order and operands swapped."""
        chance = random.Random(seed)
        waiting = list(range(len(self.ops)))
        place: dict[int, int] = {}
        ops: list[Op] = []
        while waiting:
            ready = [v for v in waiting if all(o in place for o in self.ops[v].operands)]
            value = chance.choice(ready)
            waiting.remove(value)
            operands = [place[o] for o in self.ops[value].operands]
            chance.shuffle(operands)
            place[value] = len(ops)
            ops.append(replace(self.ops[value], operands=tuple(operands)))
        return Program(tuple(ops), frozenset(place[v] for v in self.outputs))


Oracle = Callable[[Values, Values, Values], Verdict]


class Model:
    """The costs of a canonical program.  `forbid` adds rules to the model's own; `asked` counts questions."""

    def __init__(self, program: Program, forbid: Oracle | None = None) -> None:
        self.program = program
        self.count = len(program.ops)
        self.work = 0  # its prices cost nothing
        self.forbid = forbid
        self.asked = {"price": 0, "legal": 0}
        self._bytes = [4 * op.elements for op in program.ops]
        self._work = [op.flops * op.instances for op in program.ops]
        self._prices: dict[tuple[Values, Values], int] = {}

    def operands(self, value: int) -> tuple[int, ...]:
        return self.program.ops[value].operands

    def is_input(self, value: int) -> bool:
        return self.program.ops[value].kind == "input"

    def is_output(self, value: int) -> bool:
        return value in self.program.outputs

    def blocks_apart(self, one: Values, other: Values) -> bool:
        return False

    def is_elementwise(self, value: int, reader: int) -> bool:
        one, other = self.program.ops[value], self.program.ops[reader]
        return one.kind == other.kind == "map" and (one.axes, one.scale) == (other.axes, other.scale)

    def structure(self, body: Values, roots: Values, loads: Values) -> int | None:
        return None

    def must_store(self, value: int) -> bool:
        return self.program.ops[value].kind == "opaque"

    def bytes(self, value: int) -> int:
        return self._bytes[value]

    def floor(self, roots: Values, loads: Values) -> int:
        return int(max(sum(map(self._bytes.__getitem__, roots | loads)) / DEVICE, LATENCY)) + LAUNCH

    def floor_of_all(self, roots: Values, loads: Values) -> int:
        return self.floor(roots, loads)

    def whole_price(self, body: Values, roots: Values, loads: Values, *, teaches: bool = False) -> int:
        return self.price(body, roots, loads)

    def learning(self) -> Callable[[], None]:
        """It knows one schedule of each kernel."""
        return lambda: None

    def price(self, body: Values, roots: Values, loads: Values) -> int:
        self.asked["price"] += 1
        known = self._prices.get((body, roots))
        if known is None:
            ops = self.program.ops
            tiled = {o for v in body if ops[v].kind == "dot" for o in ops[v].operands}  # computed once per column tile
            flops = sum(self._work[v] * (4 if v in tiled else 1) for v in body)
            crowded = max(0, len(roots) + len(loads) - 12) * 100_000
            busy = max(self.floor(roots, loads) - LAUNCH, int(flops / RATE))
            known = self._prices[body, roots] = LAUNCH + busy + crowded
        return known

    def legal(self, body: Values, roots: Values, loads: Values) -> Verdict:
        self.asked["legal"] += 1
        ops = self.program.ops
        if any(ops[v].kind == "opaque" for v in body):
            return illegal(Hazard.EFFECT, "an opaque call runs alone")
        read = {o for v in body for o in ops[v].operands if o in body}
        inner = {ops[v].over for v in read if ops[v].kind == "sum"}
        if len(inner) > 1:
            return illegal(Hazard.SCOPE, "a block holds whole rows or whole columns, not both")
        dots = [v for v in body if ops[v].kind == "dot"]
        chained = any(v in read for v in dots) and any(not read.isdisjoint(self._above(v, body)) for v in dots)
        if len(dots) > 2 or (len(dots) == 2 and not chained):
            return illegal(Hazard.SCOPE, "contractions of different tiles")
        if len(dots) == 1 and inner:
            return illegal(Hazard.COMBINE, "a row of the product lies in several blocks")
        return self.forbid(body, roots, loads) if self.forbid else LEGAL

    def _above(self, value: int, body: Values) -> set[int]:
        """Contractions in `body` among the ancestors of `value`."""
        found: set[int] = set()
        todo, seen = list(self.program.ops[value].operands), set[int]()
        while todo:
            v = todo.pop()
            if v in body and v not in seen:
                seen.add(v)
                todo.extend(self.program.ops[v].operands)
                if self.program.ops[v].kind == "dot":
                    found.add(v)
        return found
