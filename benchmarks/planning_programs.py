"""Programs that grow, to time the planner on: towers, chains, time loops, networks, width, sharing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import polyfuse as pf

Function = Callable[..., Any]

ROWS, MATRIX = "f32[M~16384, 4096]", "f32[4096, 4096]"


@dataclass(frozen=True, slots=True)
class Case:
    """A function of arrays, the specifications of its arguments, and whose arrays they stand for, if anybody's."""

    function: Function
    specs: tuple[str, ...]
    library: bool | str = True

    def plan(self) -> pf.Plan:
        """A fresh plan for an H200."""
        return pf.jit(self.function, library=self.library).plan(*map(pf.spec, self.specs), target="h200")


def residual_blocks(blocks: int) -> Case:
    """``x`` through blocks: x + gelu(layernorm(x) * gain + bias), scaled by the largest magnitude of a row."""

    def program(x: Any, gain: Any, bias: Any) -> Any:
        for _ in range(blocks):
            centred = x - x.mean(axis=-1, keepdims=True)
            deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
            x = x + pf.gelu(centred / deviation * gain + bias)
            x = x / (1 + np.abs(x).max(axis=-1, keepdims=True))
        return x

    return Case(program, (ROWS, "f32[4096]", "f32[4096]"))


def pointwise_chain(steps: int) -> Case:
    """One operation after another, no two neighbours alike."""
    functions: Sequence[Function] = (np.tanh, np.exp, np.abs, np.sqrt, np.negative, np.sin, np.cos)

    def program(x: Any) -> Any:
        for k in range(steps):
            x = functions[k % len(functions)](x) + (1 + k)
        return x

    return Case(program, (ROWS,))


def softmax_and_matmul(layers: int) -> Case:
    """``x = softmax(x) @ w``, again and again."""

    def program(x: Any, w: Any) -> Any:
        for _ in range(layers):
            e = np.exp(x - x.max(axis=-1, keepdims=True))
            x = (e / e.sum(axis=-1, keepdims=True)) @ w
        return x

    return Case(program, (ROWS, MATRIX))


def stencil_steps(steps: int) -> Case:
    """A time loop, unrolled: five-point averages of the interior, which shrinks by one element on every side."""

    def program(x: Any) -> Any:
        for _ in range(steps):
            x = (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * np.float32(0.2)
        return x

    return Case(program, (MATRIX,))


def recurrent_steps(steps: int) -> Case:
    """A gated recurrent unit, one step after another."""

    def program(xs: Any, h: Any, wx: Any, wh: Any, b: Any) -> Any:
        for t in range(steps):
            x = xs[t]
            z = pf.sigmoid(x @ wx[0] + h @ wh[0] + b[0])
            r = pf.sigmoid(x @ wx[1] + h @ wh[1] + b[1])
            n = np.tanh(x @ wx[2] + (r * h) @ wh[2] + b[2])
            h = (1 - z) * n + z * h
        return h

    weights = "f32[3, 512, 512]"
    return Case(program, (f"f32[{steps}, 64, 512]", "f32[64, 512]", weights, weights, "f32[3, 512]"))


def binomial_tree(steps: int) -> Case:
    """Backward induction of an American option: every step is shorter by one, and compares with early exercise."""

    def program(price: Any, strike: Any) -> Any:
        value = np.maximum(strike - price, 0)
        for k in range(steps):
            held = np.float32(0.99) * (np.float32(0.51) * value[:, 1:] + np.float32(0.49) * value[:, :-1])
            value = np.maximum(held, strike - price[:, : held.shape[1]] * (1 + np.float32(0.01) * k))
        return value

    return Case(program, ("f32[4096, 2048]", "f32[4096, 1]"))


def perceptron(layers: int) -> Case:
    """Layers of ``relu(x @ w + b)``."""

    def program(x: Any, ws: Any, bs: Any) -> Any:
        for k in range(layers):
            x = np.maximum(x @ ws[k] + bs[k], 0)
        return x

    return Case(program, ("f32[1024, 512]", f"f32[{layers}, 512, 512]", f"f32[{layers}, 512]"))


def transformer_blocks(blocks: int) -> Case:
    """Attention and a two-layer network, each behind a normalisation and beside a residual."""

    def normalised(x: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)

    def program(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, up: Any, down: Any) -> Any:
        for _ in range(blocks):
            h = normalised(x)
            scores = (h @ wq) @ np.swapaxes(h @ wk, -1, -2) / np.float32(16)
            e = np.exp(scores - scores.max(axis=-1, keepdims=True))
            x = x + ((e / e.sum(axis=-1, keepdims=True)) @ (h @ wv)) @ wo
            x = x + pf.gelu(normalised(x) @ up) @ down
        return x

    square = "f32[256, 256]"
    return Case(program, ("f32[8, 1024, 256]", square, square, square, square, "f32[256, 1024]", "f32[1024, 256]"))


def transformer_with_library(layers: int) -> Case:
    """Twelve heads of attention and a two-layer network, every layer with weights of its own; a library multiplies."""

    def normalised(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias

    def layer(x: Any, g1: Any, b1: Any, wqkv: Any, wo: Any, g2: Any, b2: Any, up: Any, b3: Any, down: Any) -> Any:
        heads = (normalised(x, g1, b1) @ wqkv).reshape(8, 1024, 3, 12, 64).transpose(2, 0, 3, 1, 4)
        scores = heads[0] @ np.swapaxes(heads[1], -1, -2) * np.float32(0.125)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (e / e.sum(axis=-1, keepdims=True)) @ heads[2]
        x = x + mixed.transpose(0, 2, 1, 3).reshape(8, 1024, 768) @ wo
        return x + pf.gelu(normalised(x, g2, b2) @ up + b3) @ down

    def program(x: Any, *weights: Any) -> Any:
        for k in range(layers):
            x = layer(x, *weights[9 * k : 9 * k + 9])
        return x

    row, wide = "f32[768]", "f32[3072]"
    attention = (row, row, "f32[768, 2304]", "f32[768, 768]")
    network = (row, row, "f32[768, 3072]", wide, "f32[3072, 768]")
    return Case(program, ("f32[8, 1024, 768]", *(attention + network) * layers), "torch")


def adam(parameters: int) -> Case:
    """One step of an optimiser over parameters of many shapes."""

    def program(*arrays: Any) -> Any:
        updated = []
        for p, g, m, v in zip(*(arrays[k::4] for k in range(4)), strict=True):
            m = np.float32(0.9) * m + np.float32(0.1) * g
            v = np.float32(0.999) * v + np.float32(0.001) * g * g
            updated += [p - np.float32(1e-3) * m / (np.sqrt(v) + np.float32(1e-8)), m, v]
        return tuple(updated)

    shapes = [f"f32[{256 * (1 + k % 5)}, {128 * (1 + k % 7)}]" for k in range(parameters)]
    return Case(program, tuple(shape for shape in shapes for _ in range(4)))


def runge_kutta(steps: int) -> Case:
    """Fourth-order steps of the Lorenz system at many points at once."""

    def slope(x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
        return 10 * (y - x), x * (28 - z) - y, x * y - np.float32(8 / 3) * z

    def program(x: Any, y: Any, z: Any) -> Any:
        h = np.float32(0.01)
        for _ in range(steps):
            a = slope(x, y, z)
            b = slope(x + h / 2 * a[0], y + h / 2 * a[1], z + h / 2 * a[2])
            c = slope(x + h / 2 * b[0], y + h / 2 * b[1], z + h / 2 * b[2])
            d = slope(x + h * c[0], y + h * c[1], z + h * c[2])
            x, y, z = (s + h / 6 * (p + 2 * q + 2 * r + t) for s, p, q, r, t in zip((x, y, z), a, b, c, d, strict=True))
        return x, y, z

    return Case(program, ("f32[1048576]",) * 3)


def attention_heads(heads: int) -> Case:
    """A Python loop over the heads of an attention."""

    def program(q: Any, k: Any, v: Any) -> Any:
        results = []
        for head in range(heads):
            scores = q[head] @ k[head].T
            e = np.exp(scores - scores.max(axis=-1, keepdims=True))
            results.append((e / e.sum(axis=-1, keepdims=True)) @ v[head])
        return tuple(results)

    return Case(program, (f"f32[{heads}, 1024, 64]",) * 3)


def independent_outputs(outputs: int) -> Case:
    """Many results that share nothing but what they read."""

    def program(x: Any, y: Any) -> Any:
        return tuple(np.sin(x + k) * y for k in range(outputs))

    return Case(program, ("f32[1024, 1024]", "f32[1024, 1024]"))


def small_sums(sums: int) -> Case:
    """Many reductions of small arrays of their own."""

    def program(*arrays: Any) -> Any:
        return tuple((a * a).sum() for a in arrays)

    return Case(program, tuple(f"f32[{64 * (1 + k % 9)}]" for k in range(sums)))


def deep_sharing(steps: int) -> Case:
    """Every value is read three times: a program that is small as a graph and endless as a tree."""

    def program(x: Any) -> Any:
        for _ in range(steps):
            x = x * x + x
        return x

    return Case(program, (ROWS,))


def many_inputs(inputs: int) -> Case:
    """A weighted sum of as many arrays."""

    def program(*arrays: Any) -> Any:
        total = arrays[0]
        for k, array in enumerate(arrays[1:]):
            total = total + array * (2 + k)
        return total

    return Case(program, ("f32[1024, 1024]",) * max(inputs, 2))


def triangular_solve(size: int) -> Case:
    """Forward substitution, unrolled: every unknown needs all those before it."""

    def program(matrix: Any, right: Any) -> Any:
        found: list[Any] = []
        for i in range(size):
            rest = right[i]
            for j in range(i):
                rest = rest - matrix[i, j] * found[j]
            found.append(rest / matrix[i, i])
        return np.stack(found)

    return Case(program, (f"f32[{size}, {size}, 65536]", f"f32[{size}, 65536]"))


@dataclass(frozen=True, slots=True)
class Family:
    """Programs of one kind by their number of repetitions, and the statements that one repetition adds; where
    repetitions are `nested`, that many add their square."""

    make: Callable[[int], Case]
    statements: int
    nested: bool = False

    def of(self, operations: int) -> Case:
        """The program of about that many statements."""
        count = operations / self.statements
        return self.make(max(1, round(count**0.5 if self.nested else count)))


FAMILIES: Mapping[str, Family] = {
    "residual blocks": Family(residual_blocks, 21),
    "pointwise chain": Family(pointwise_chain, 2),
    "softmax and matmul": Family(softmax_and_matmul, 7),
    "stencil steps": Family(stencil_steps, 5),
    "recurrent steps": Family(recurrent_steps, 28),
    "binomial tree": Family(binomial_tree, 7),
    "perceptron": Family(perceptron, 4),
    "transformer blocks": Family(transformer_blocks, 45),
    "transformer with library": Family(transformer_with_library, 58),
    "adam": Family(adam, 12),
    "runge-kutta": Family(runge_kutta, 90),
    "attention heads": Family(attention_heads, 9),
    "independent outputs": Family(independent_outputs, 3),
    "small sums": Family(small_sums, 2),
    "deep sharing": Family(deep_sharing, 2),
    "many inputs": Family(many_inputs, 2),
    "triangular solve": Family(triangular_solve, 1, nested=True),
}
