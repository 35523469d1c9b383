"""Random kernels: the IR and its printed text must agree to the bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from polyfuse.affine import Affine, digit
from polyfuse.backends.interpreter import run_kernel, run_source
from polyfuse.codegen.printer import print_kernel
from polyfuse.dtypes import DType, bool_, f32, i32, i64
from polyfuse.kernel import (
    Apply,
    Combine,
    Const,
    Contract,
    Expr,
    For,
    If,
    Index,
    Inside,
    Kernel,
    Let,
    Load,
    Op,
    Reduce,
    Ref,
    ScalarParameter,
    Scan,
    Slot,
    Store,
    ThreadDigit,
)
from polyfuse.scalars import MONOIDS
from polyfuse.verify.kernel import verify_kernel
from tests.kernel.kernels import M, N, array, sizes

SLOTS = (Slot("p", 2), Slot("q", 3), Slot("v", 4))
THREADS = 64
OUTPUTS = {"reals": f32, "words": i32, "longs": i64, "flags": bool_}
BINARY = "add subtract multiply maximum minimum".split()
UNARY = "negative absolute sign".split()
COMPARISONS = "less less_equal greater equal not_equal".split()


class Generator:
    """Grows one kernel; `values` are the names in scope with their dtypes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.values: dict[str, DType] = {"alpha": f32}
        self.digits = ["$b0", "$b1", "$t", "$lane", "$warp", "$p", "$q", "$v", "N"]
        self.serial = 0

    def fresh(self) -> str:
        self.serial += 1
        return self.rng.choice(["x", "exp", "sum", "row", "thread", "y"]) + str(self.serial)

    def affine(self) -> Affine:
        rng = self.rng
        total = Affine.of(rng.randint(-3, 5))
        for name in rng.sample(self.digits, rng.randint(1, 3)):
            term = Affine.symbol(name) * rng.choice([1, 1, 2, -1, 8])
            total += rng.choice([term, term, (term + 1) // 3, (term + total) % 4])
        return total

    def expression(self, dtype: DType, depth: int = 3) -> Expr:
        rng = self.rng
        names = [n for n, t in self.values.items() if t == dtype]
        if depth == 0 or rng.random() < 0.2:
            if names and rng.random() < 0.7:
                return Ref(rng.choice(names), dtype)
            return self.leaf(dtype)
        if dtype == bool_:
            kind = rng.choice([f32, i32, i64])
            operands = (self.expression(kind, depth - 1), self.expression(kind, depth - 1))
            return Apply(rng.choice(COMPARISONS), operands, bool_)
        choice = rng.random()
        if choice < 0.55:
            operands = (self.expression(dtype, depth - 1), self.expression(dtype, depth - 1))
            return Apply(rng.choice(BINARY), operands, dtype)
        if choice < 0.7:
            return Apply(rng.choice(UNARY), (self.expression(dtype, depth - 1),), dtype)
        if choice < 0.85:
            condition = self.expression(bool_, depth - 1)
            chosen = (self.expression(dtype, depth - 1), self.expression(dtype, depth - 1))
            return Apply("where", (condition, *chosen), dtype)
        return Apply("cast", (self.expression(rng.choice([i32, i64, bool_]), depth - 1),), dtype)

    def leaf(self, dtype: DType) -> Expr:
        rng = self.rng
        if dtype == bool_:
            return rng.choice([Inside((self.affine(), self.affine())), Const(rng.random() < 0.5, bool_)])
        if rng.random() < 0.5:
            return Index(self.affine(), dtype)
        return Const(rng.choice([0.5, -1.25, 3.0]) if dtype.is_float else rng.randint(-4, 9), dtype)

    def bind(self, name: str, dtype: DType) -> str:
        self.values[name] = dtype
        return name

    def load(self) -> Op:
        v, t, q = digit("v"), digit("t"), digit("q")
        index = self.rng.choice([(digit("b1"), 4 * t + v), (q, 4 * t + v), (digit("p") + 1, t + 64 * v)])
        vector = 4 if index[1].coefficient("$t") == 4 and self.rng.random() < 0.5 else 1
        where = () if self.rng.random() < 0.5 else (N - 200 - index[1] + v,)
        mask = self.expression(bool_, 1) if vector == 1 and self.rng.random() < 0.3 else None
        other = Const(-1.5, f32) if where or mask else None
        return Load(self.bind(self.fresh(), f32), "data", index, where, mask, other, vector)

    def operation(self, depth: int) -> list[Op]:
        rng = self.rng
        match rng.randrange(8 if depth else 5):
            case 0:
                return [self.load()]
            case 1:
                dtype = rng.choice([f32, i32, i64, bool_])
                value = self.expression(dtype)
                return [Let(self.bind(self.fresh(), dtype), value)]
            case 2:
                monoid = rng.choice(["sum", "max", "argmin"])
                values = (self.expression(f32), Index(self.affine(), i32))[: MONOIDS[monoid].state]
                slots = tuple(s.name for s in rng.sample(SLOTS, rng.randint(1, 3)))
                names = tuple(self.bind(self.fresh(), t) for t in (f32, i32)[: len(values)])
                return [Reduce(names, monoid, values, slots)]
            case 3:
                value = self.expression(f32)
                return [Combine((self.bind(self.fresh(), f32),), "sum", (value,), rng.choice([1, 31, 48, 63]))]
            case 4:
                value = self.expression(i32)
                name, total = self.bind(self.fresh(), i32), self.bind(self.fresh(), i32)
                slot = rng.choice([None, "q", "v"])
                flags = rng.random() < 0.5, rng.random() < 0.5
                return [Scan(name, total, "sum", value, slot, rng.choice([0, 31, 63]), *flags)]
            case 5 | 6:
                return self.loop(depth)
            case _:
                return self.branch(depth)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names bound inside are not read outside."""
        known = dict(self.values)
        yield
        self.values = known

    def loop(self, depth: int) -> list[Op]:
        rng = self.rng
        name, dtype = self.fresh(), rng.choice([f32, i64])
        start = Let(name, Const(1, dtype))
        self.bind(name, dtype)
        counter = f"k{self.serial}"
        self.digits.append(f"${counter}")
        with self.scope():
            body = self.block(depth - 1)
            body.append(Let(name, Apply("add", (Ref(name, dtype), self.expression(dtype)), dtype)))
            if dtype == f32 and rng.random() < 0.5:
                body.append(Contract(name, self.expression(f32, 1), self.expression(f32, 1), ()))
        self.digits.remove(f"${counter}")
        extent = rng.choice([Affine.of(3), N // 100, digit("b1") + 1])
        return [start, For(counter, extent, tuple(body))]

    def branch(self, depth: int) -> list[Op]:
        """A name that both branches update; uniform branches hold anything, divergent ones only scalar code."""
        name, uniform = self.fresh(), self.rng.random() < 0.5
        start = Let(name, Const(0.0, f32))
        self.bind(name, f32)
        bodies: list[tuple[Op, ...]] = []
        for _ in range(2):
            with self.scope():
                body = self.block(depth - 1) if uniform else []
                bodies.append((*body, Let(name, self.expression(f32)), Let(name, self.expression(f32))))
        condition = digit("b0") + digit("b1") - 1 if uniform else digit("lane") - 7
        return [start, If(Inside((condition,)), *bodies, uniform=uniform)]

    def block(self, depth: int) -> list[Op]:
        return [op for _ in range(self.rng.randint(1, 4)) for op in self.operation(depth)]

    def kernel(self) -> Kernel:
        body = [self.load(), *self.block(2)]
        place = (digit("b1"), digit("b0"), digit("t"), *(digit(s.name) for s in SLOTS))
        body += [Store(name, place, self.expression(dtype)) for name, dtype in OUTPUTS.items()]
        outputs = [array(n, M, 2, THREADS, 2, 3, 4, dtype=t, out=True) for n, t in OUTPUTS.items()]
        return Kernel(
            "random", (array("data", 4, N), *outputs, *sizes("M", "N"), ScalarParameter("alpha", f32)),
            (Affine.of(2), M), THREADS, (ThreadDigit("lane", 1, 32), ThreadDigit("warp", 32, 2)), SLOTS, (),
            tuple(body),
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_print_what_they_mean(seed: int) -> None:
    kernel = Generator(seed).kernel()
    verify_kernel(kernel)
    sources = np.random.default_rng(seed).standard_normal((4, 256)).astype(np.float32)
    shape = (3, 2, THREADS, 2, 3, 4)
    direct, printed = (
        {"data": sources} | {n: np.zeros(shape, t.numpy) for n, t in OUTPUTS.items()} for _ in range(2)
    )
    given = {"M": 3, "N": 256}, {"alpha": 0.75}
    run_kernel(kernel, direct, *given)
    run_source(print_kernel(kernel), "random", kernel, printed, *given)
    for name in OUTPUTS:
        np.testing.assert_array_equal(printed[name], direct[name], err_msg=name)
