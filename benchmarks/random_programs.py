"""Random programs beside what their bytes take: `python -m benchmarks.random_programs FIRST LAST [--save FILE]`.

A seed is a program of one to four steps of what NumPy users write (maps, broadcasts, normalisations, sums along any
axes, stencils, prefixes, slices, rolls, concatenations, transpositions, pools) over an array of 150 MB, of one to four
dimensions of even or odd sizes and any dtype.  None was chosen, so that they show what tuned benchmarks hide.  Each is
checked against CuPy in float64, in memory that was poisoned, then timed.  `text SEED` prints a program.
"""

from __future__ import annotations

import linecache
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any

from benchmarks import seeds

BYTES = 150_000_000
"""Of the array that a program begins with: three times what the last-level cache of an H100 holds."""
SIZES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "u8": 1, "i32": 4}
TOLERANCES = {"bf16": 3e-2, "f16": 4e-3, "f64": 1e-10}
"""Of results relative to their largest magnitude; 1e-4 for others.  Programs whose exact result is zero, or leaves the
range of float16, exceed them: who reads a record looks at each."""
BELOW = 200
"""Integers are drawn below it."""
LAUNCH = 4.0
"""Microseconds that a kernel takes for nothing."""

UNARY = (
    *("np.tanh({})", "np.exp(-np.abs({}))", "np.sqrt(np.abs({}) + 1)", "np.maximum({}, 0)", "{} * {} - 1"),
    *("np.log1p(np.abs({}))", "1 / (1 + np.exp(-{}))"),
)
STEPS = {
    **{"unary": 3, "binary": 4, "norm": 4, "stencil": 3, "scan": 1.5, "view": 2, "reduceback": 2, "concat": 1},
    **{"where": 1.5, "transposed": 1, "pool": 1.5, "window2": 1},
}
NORMS = {
    "mean": "{v} - {v}.mean(axis={ax}, keepdims=True)",
    "std": "({v} - {v}.mean(axis={ax}, keepdims=True)) / ({v}.std(axis={ax}, keepdims=True) + 1e-3)",
    "softmax": "",
    "max": "{v} / (np.abs({v}).max(axis={ax}, keepdims=True) + 1)",
    "l2": "{v} / np.sqrt(({v} * {v}).sum(axis={ax}, keepdims=True) + 1)",
    "stdonly": "{v} / ({v}.std(axis={ax}, keepdims=True) + 1e-3)",
}
Shape = tuple[int, ...]
Value = tuple[str, Shape]


@dataclass(frozen=True)
class Drawn:
    """The text of a program over ``np``, and the (dtype, shape) of its arguments."""

    text: str
    inputs: tuple[tuple[str, Shape], ...]

    def function(self, np: Any) -> Callable[..., Any]:
        """With NumPy, or what looks like it.  Its lines are kept for traces."""
        file, names = f"<random program {hash(self.text)}>", dict[str, Any](np=np)
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        exec(compile(self.text, file, "exec"), names)
        found: Callable[..., Any] = names["f"]
        return found


def drawn(seed: int, size: int = BYTES) -> Drawn:
    """The program of a seed, whose first argument has about so many bytes."""
    return _Writer(Random(seed), size).program()


class _Writer:
    def __init__(self, random: Random, size: int) -> None:
        self.random = random
        self.dtype: str = random.choices(["f32", "bf16", "f16", "f64", "u8", "i32"], [50, 20, 8, 8, 8, 6])[0]
        rank: int = random.choices([1, 2, 3, 4], [1, 5, 5, 2])[0]
        self.shape = _shape(random, rank, size // SIZES[self.dtype])
        self.inputs: list[tuple[str, Shape]] = [(self.dtype, self.shape)]
        self.lines: list[str] = []

    def program(self) -> Drawn:
        value, shape = "a0", self.shape
        if self.dtype in ("u8", "i32"):
            value = self.line(self.random.choice([f"{value}.astype(np.float32)", f"{value} * np.float32(.5)"]))
        for _ in range(self.random.choice([1, 2, 2, 3, 4])):
            value, shape = self.step(value, shape)
        results = [value]
        if self.random.random() < 0.35:
            results = [self.reduced(value, shape), *([value] if self.random.random() < 0.4 else [])]
        body = "".join(f"    {line}\n" for line in self.lines)
        arguments = ", ".join(f"a{k}" for k in range(len(self.inputs)))
        return Drawn(f"def f({arguments}):\n{body}    return {', '.join(results)}\n", tuple(self.inputs))

    def line(self, text: str) -> str:
        name = f"v{len(self.lines) + 1}"
        self.lines.append(f"{name} = {text}")
        return name

    def axes(self, shape: Shape) -> Shape:
        count = self.random.choice([1, 1, 1, 2]) if len(shape) > 1 else 1
        return tuple(sorted(self.random.sample(range(len(shape)), count)))

    def other(self, shape: Shape) -> str:
        """One more argument, which broadcasts."""
        some = self.random.random() < 0.6
        if some:
            shape = tuple(d if self.random.random() < 0.6 else 1 for d in shape)
        if self.random.randrange(3) == 0:
            while len(shape) > 1 and shape[0] == 1:
                shape = shape[1:]
        self.inputs.append((self.dtype if self.dtype not in ("u8", "i32") else "f32", shape))
        return f"a{len(self.inputs) - 1}"

    def step(self, v: str, shape: Shape) -> Value:
        random = self.random
        kind = random.choices(list(STEPS), list(STEPS.values()))[0]
        ax = self.axes(shape)
        a, n = ax[0], shape[ax[0]]
        match kind:
            case "unary":
                return self.line(random.choice(UNARY).replace("{}", v)), shape
            case "binary":
                return self.line(f"{v} {random.choice('+*-')} {self.other(shape)}"), shape
            case "where":
                return self.line(f"np.where({v} > 0, {v}, {random.choice(['0.1 * ' + v, self.other(shape)])})"), shape
            case "norm":
                return self.norm(v, ax), shape
            case "stencil" if n > 8:
                return self.stencil(v, shape, a)
            case "window2" if len(shape) > 1 and shape[-1] > 8 and shape[-2] > 8:
                sides = [f"{v}[..., {at}]" for at in (":-2, 1:-1", "2:, 1:-1", "1:-1, :-2", "1:-1, 2:")]
                text = f"{' + '.join(sides)} - 4 * {v}[..., 1:-1, 1:-1]"
                return self.line(text), (*shape[:-2], shape[-2] - 2, shape[-1] - 2)
            case "scan":
                return self.line(f"np.cumsum({v}, axis={a}) / {n}"), shape
            case "view":
                return self.view(v, shape, a)
            case "reduceback":
                return self.line(f"{v} * {v}.{random.choice(['mean', 'max', 'min'])}(axis={ax}, keepdims=True)"), shape
            case "concat":
                return self.line(f"np.concatenate([{v}, 0.5 * {v}], axis={a})"), _with(shape, a, 2 * n)
            case "transposed" if len(shape) > 1:
                order = list(range(len(shape)))
                random.shuffle(order)
                return self.line(f"np.transpose({v}, {tuple(order)}) + 1"), tuple(shape[i] for i in order)
            case "pool" if n >= 8:
                k = random.choice([2, 3, 4])
                pools = (*shape[:a], n // k, k, *shape[a + 1 :])
                whole, pooled = _slice(a, f":{n // k * k}"), random.choice(["mean", "max"])
                return self.line(f"{v}{whole}.reshape({pools}).{pooled}(axis={a + 1})"), _with(shape, a, n // k)
        return v, shape

    def norm(self, v: str, ax: Shape) -> str:
        kind = self.random.choice(list(NORMS))
        if kind != "softmax":
            return self.line(NORMS[kind].format(v=v, ax=ax))
        e = self.line(f"np.exp({v} - {v}.max(axis={ax}, keepdims=True))")
        return self.line(f"{e} / {e}.sum(axis={ax}, keepdims=True)")

    def stencil(self, v: str, shape: Shape, a: int) -> Value:
        k = self.random.choice([1, 1, 2])
        if self.random.random() < 0.5:
            return self.line(f"{v}{_slice(a, f'{k}:')} - {v}{_slice(a, f':-{k}')}"), _with(shape, a, shape[a] - k)
        before, at, behind = [f"{v}{_slice(a, part)}" for part in (":-2", "1:-1", "2:")]
        return self.line(f"({before} + 2 * {at} + {behind}) / 4"), _with(shape, a, shape[a] - 2)

    def view(self, v: str, shape: Shape, a: int) -> Value:
        n, kind = shape[a], self.random.choice(["flip", "half", "cut", "roll"])
        if kind == "flip":
            return self.line(f"{v}{_slice(a, '::-1')} * 2"), shape
        if kind == "roll":
            return self.line(f"{v} + np.roll({v}, {self.random.choice([1, -1, n // 2])}, axis={a})"), shape
        if n < 6:
            return v, shape
        if kind == "half":
            text = f"{v}{_slice(a, f':{n // 2}')} * {v}{_slice(a, f'{n - n // 2}:')}"
            return self.line(text), _with(shape, a, n // 2)
        return self.line(f"{v}{_slice(a, '3:')} + 1"), _with(shape, a, n - 3)

    def reduced(self, v: str, shape: Shape) -> str:
        ax = self.axes(shape) if self.random.random() < 0.8 else None
        return self.line(f"{v}.{self.random.choice(['sum', 'max', 'mean', 'var'])}(axis={ax})")


def _shape(random: Random, rank: int, elements: int) -> Shape:
    """A shape of about so many elements: all dimensions in eights, all odd, or each as it comes."""
    style = random.choice(["even", "odd", "mix"])
    while True:
        logs = [random.random() for _ in range(rank)]
        shape = [max(1, round(math.exp(math.log(elements) * x / sum(logs)))) for x in logs]
        if rank > 1 and min(shape) < 2:
            continue
        if style == "even":
            shape = [(x + 7) // 8 * 8 if x > 8 else x for x in shape]
        elif style == "odd":
            shape = [x | 1 for x in shape]
        else:
            shape = [random.choice([x, x | 1, (x + 15) // 16 * 16]) for x in shape]
        if elements / 2 < math.prod(shape) < 2 * elements:
            return tuple(shape)


def _with(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _slice(axis: int, part: str) -> str:
    return f"[{', '.join([*[':'] * axis, part])}]"


COLUMNS = ["seed", "measured, us", "bytes take, us", "predicted, us", "kernels", "error", "inputs", "strategies"]


@cache
def _speed() -> float:
    """Bytes that a copy moves in a second, read and written."""
    from benchmarks import gpu

    return gpu.copy_bandwidth()


def measured(seed: int) -> list[Any]:
    """The row of one program."""
    import cupy
    import numpy as np
    import torch

    import polyfuse as pf
    from benchmarks import gpu
    from benchmarks.programs import Input

    program = drawn(seed)
    arrays = [Input(shape, dtype, BELOW if dtype in ("u8", "i32") else 0) for dtype, shape in program.inputs]
    sets = [[gpu.draw(array) for array in arrays]]
    function = pf.jit(program.function(np))
    gpu.poison(function(*sets[0]))
    results = gpu.as_tuple(function(*sets[0]))
    needed = [t for k, t in enumerate(sets[0]) if re.search(rf"    .*\ba{k}\b", program.text)]
    moved = sum(t.numel() * t.element_size() for t in (*needed, *results))
    exact = gpu.as_tuple(program.function(cupy)(*[cupy.from_dlpack(t.double().contiguous()) for t in sets[0]]))
    error = max(_error(mine, torch.from_dlpack(wide)) for mine, wide in zip(results, exact, strict=True))
    del results, exact
    cupy.get_default_memory_pool().free_all_blocks()
    torch.cuda.empty_cache()
    size = sum(t.numel() * t.element_size() for t in sets[0])
    while size * len(sets) < gpu.ROTATED_BYTES:
        sets.append([gpu.draw(array) for array in arrays])
    time, _ = gpu.microseconds([partial(function, *tensors) for tensors in sets], 11)
    plan = function.plan(*sets[0])
    roof, predicted = LAUNCH + 1e6 * moved / _speed(), 1e6 * plan.cost_analysis().seconds
    inputs = " ".join(f"{dtype}{list(shape)}" for dtype, shape in program.inputs)
    strategies = ", ".join(kernel.schedule.strategy for kernel in plan.kernels)
    figures = [round(figure, 1) for figure in (time, roof, predicted)]
    return [seed, *figures, len(plan.kernels), float(f"{error:.1e}"), inputs, strategies]


def _error(mine: Any, exact: Any) -> float:
    assert mine.shape == exact.shape, f"shape {tuple(mine.shape)}, not {tuple(exact.shape)}"
    difference = (mine.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-30)
    return float(difference.nan_to_num(nan=float("inf")))


def summary(rows: Sequence[Sequence[Any]]) -> str:
    """How many are near what their bytes take, and near what was predicted."""
    single = [row for row in rows if row[4] == 1]
    near = sum(row[2] >= 0.8 * row[1] for row in single)
    told = sum(0.8 * row[1] <= row[3] <= 1.2 * row[1] for row in rows)
    return (
        f"{len(rows)} programs; {near} of {len(single)} single kernels take at most a quarter more than their bytes; "
        f"{told} within 20 % of the prediction"
    )


def _remark(row: Sequence[Any]) -> str:
    dtype = drawn(row[0]).inputs[0][0]
    return "" if row[5] <= TOLERANCES.get(dtype, 1e-4) else "  LOOK"


def main() -> int:
    if sys.argv[1:2] == ["text"]:
        print(drawn(int(sys.argv[2])).text)
        return 0
    return seeds.run("random_programs", __doc__, COLUMNS, measured, summary, _remark)


if __name__ == "__main__":
    sys.exit(main())
