"""Programs for the search: the ones people write, random ones, and adversarial ones."""

from __future__ import annotations

import random
from collections.abc import Iterable

from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal
from tests.grouping.model import Model, Op, Program, Values


class Builder:
    """Operations in the order of their calls; a value is its number."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def add(self, op: Op) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def input(self, axes: str = "ij", scale: int = 1) -> int:
        return self.add(Op("input", (), axes, scale=scale, tag=f"x{len(self.ops)}"))

    def map(self, tag: str, *operands: int, flops: int = 1) -> int:
        axes = "".join(sorted(set().union(*(self.ops[v].axes for v in operands))))
        scale = max(self.ops[v].scale for v in operands)
        return self.add(Op("map", operands, axes, flops=flops, scale=scale, tag=tag))

    def sum(self, operand: int, over: str) -> int:
        op = self.ops[operand]
        return self.add(Op("sum", (operand,), op.axes.replace(over, ""), over, scale=op.scale))

    def dot(self, left: int, right: int) -> int:
        return self.add(Op("dot", (left, right), "ij", flops=2, tag="dot"))

    def opaque(self, operand: int) -> int:
        return self.add(Op("opaque", (operand,), "ij", flops=50))

    def program(self, *outputs: int) -> Program:
        return Program(tuple(self.ops), frozenset(outputs)).canonical()

    # ------------------------------------------------------------------------------------------------ idioms
    def softmax(self, x: int) -> int:
        e = self.map("exp", x, self.sum(x, "j"), flops=8)
        return self.map("div", e, self.sum(e, "j"))

    def layernorm(self, x: int) -> int:
        centred = self.map("sub", x, self.map("mean", self.sum(x, "j")))
        rstd = self.map("rsqrt", self.sum(self.map("square", centred), "j"), flops=8)
        return self.map("add", self.map("mul", centred, rstd), self.input("j"))


def chain(length: int) -> Program:
    b = Builder()
    x = b.input()
    for k in range(length):
        x = b.map(f"f{k % 7}", x)
    return b.program(x)


def softmax() -> Program:
    b = Builder()
    return b.program(b.softmax(b.input()))


def layernorm() -> Program:
    """Residual, normalised; both are outputs."""
    b = Builder()
    h = b.map("add", b.input(), b.input())
    return b.program(h, b.layernorm(h))


def attention() -> Program:
    b = Builder()
    scores = b.dot(b.input(), b.input())
    return b.program(b.dot(b.softmax(scores), b.input()))


def normalised_twice() -> Program:
    """One normalisation read by consumers that may not all share its kernel: statistics are stored, rows recomputed."""
    b = Builder()
    y = b.layernorm(b.input())
    return b.program(b.sum(b.map("square", y), "i"), b.opaque(b.map("gelu", y, flops=8)), b.dot(y, b.input()))


def optimizer(tensors: int) -> Program:
    """Many independent updates: nothing to share but the learning rate and launches."""
    b = Builder()
    rate = b.input("")
    outputs = []
    for k in range(tensors):
        p, g, m = (b.input("j", scale=1 + k % 3) for _ in range(3))
        outputs += [average := b.map("ema", m, g, flops=3), b.map("update", p, b.map("scale", average, rate), flops=2)]
    return b.program(*outputs)


def blocks(statements: int, seed: int = 0) -> Program:
    """About `statements` statements: residual blocks, normalisations, softmaxes, chains, column sums."""
    chance, b = random.Random(seed), Builder()
    x, outputs = b.input(), list[int]()
    while sum(op.kind != "input" for op in b.ops) < statements:
        match chance.randrange(5):
            case 0:
                x = b.map("residual", x, b.dot(b.map("relu", b.dot(b.layernorm(x), b.input())), b.input()))
            case 1:
                x = b.map("residual", x, b.layernorm(x))
            case 2:
                for k in range(chance.randint(3, 12)):
                    x = b.map(f"p{k}", x, flops=chance.choice([1, 8]))
            case 3:
                x = b.map("residual", x, b.softmax(x))
            case _:
                outputs.append(b.sum(b.map("square", x), "i"))
    return b.program(x, *outputs)


def realistic(seed: int, statements: int) -> Model:
    """Maps over matrices, rows and columns, sums over both axes read again, now and then a contraction."""
    chance, b = random.Random(seed), Builder()
    pools = {"ij": [b.input() for _ in range(chance.randint(1, 2))], "i": [b.input("i")], "j": [b.input("j")]}
    used = set[int]()
    for k in range(statements):
        full = _pick(chance, pools["ij"])
        operands = [full]
        match chance.choices(("map", "row", "column", "small", "dot"), (50, 18, 14, 12, 6))[0]:
            case "map":
                operands += [_pick(chance, pools[p]) for p in ("ij", "i", "j") if chance.random() < 0.35]
                pools["ij"].append(b.map(f"m{k}", *operands, flops=chance.choice([1, 1, 8])))
            case "row":
                pools["i"].append(b.sum(full, "j"))
            case "column":
                pools["j"].append(b.sum(full, "i"))
            case "small":
                operands = [_pick(chance, pools[axis := chance.choice("ij")])]
                pools[axis].append(b.map(f"s{k}", *operands))
            case _:
                pools["ij"].append(b.dot(full, b.input("j")))
        used.update(operands)
    return Model(_with_outputs(chance, b, used))


def adversarial(seed: int, statements: int) -> Model:
    """Random reads and sizes, costly recompute, pairs that may not share a kernel, a limit on the statements of one."""
    chance, b = random.Random(seed), Builder()
    values = [b.input(scale=chance.choice([1, 4, 64])) for _ in range(2)]
    used = set[int]()
    for k in range(statements):
        operands = sorted({chance.choice(values[-5:]) for _ in range(chance.choice([1, 1, 2, 3]))})
        flops, scale = chance.choice([1, 1, 30, 300]), chance.choice([1, 1, 4, 16, 64])
        values.append(b.add(Op("map", tuple(operands), "ij", flops=flops, scale=scale, tag=f"a{k}")))
        used.update(operands)
    program = _with_outputs(chance, b, used)
    count = len(program.ops)
    hostile = frozenset((u, v) for v in range(count) for u in range(v) if chance.random() < 0.12)
    return Model(program, Forbid(hostile, chance.randint(5, 8)))


class Forbid:
    """Pairs that may not share a kernel, and a limit on statements."""

    def __init__(self, pairs: frozenset[tuple[int, int]], limit: int) -> None:
        self.pairs, self.limit = pairs, limit

    def __call__(self, body: Values, roots: Values, loads: Values) -> Verdict:
        if len(body) > self.limit:
            return illegal(Hazard.CAPACITY, f"{len(body)} statements, {self.limit} fit")
        for u, v in self.pairs:
            if u in body and v in body:
                return illegal(Hazard.SCOPE, f"{u} and {v} cannot share a kernel")
        return LEGAL


def _pick(chance: random.Random, pool: list[int]) -> int:
    return pool[-1] if chance.random() < 0.35 else chance.choice(pool)


def _with_outputs(chance: random.Random, b: Builder, used: Iterable[int]) -> Program:
    made = [v for v, op in enumerate(b.ops) if op.kind != "input"]
    return b.program(*(v for v in made if v not in set(used) or chance.random() < 0.1))
