"""A few kernels of each strategy at odd sizes, small enough to run under a tool that slows them down fifty times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import polyfuse as pf
from tests.schedules import strategies
from tests.schedules.strategies import Array, assert_close, expected

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Sample:
    """`function` of standard normal arrays of `shapes`, or of indices below `below` where that is set by position; the
    kernel that computes the first output by `strategy` with `tiles`, if named."""

    name: str
    function: Callable[..., Any]
    shapes: Shapes
    strategy: str
    tiles: dict[str, int] = field(default_factory=dict)
    dtype: str = "f4"
    below: dict[int, int] = field(default_factory=dict)
    fuse: bool = True

    def arrays(self) -> list[Array]:
        random = np.random.default_rng(len(self.name))
        return [
            random.integers(-self.below[k], self.below[k], shape)
            if k in self.below
            else random.standard_normal(shape).astype(self.dtype)
            for k, shape in enumerate(self.shapes)
        ]

    def jitted(self, **options: Any) -> Any:
        """The function, which takes arrays of any library."""
        plain = pf.jit(self.function, fuse=self.fuse, library=False, **options)
        if not self.fuse:
            return plain
        value = plain.plan(*(pf.spec(text) for text in self.specs())).program.output_names[0]
        tiles = {value: self.tiles} if self.tiles else {}
        return pf.jit(self.function, strategies={value: self.strategy}, tiles=tiles, library=False, **options)

    def specs(self) -> list[str]:
        names = {"f2": "f16", "f4": "f32", "f8": "f64", "i4": "i32"}
        shapes = [", ".join(map(str, shape)) for shape in self.shapes]
        return [f"{'i64' if k in self.below else names[self.dtype]}[{s}]" for k, s in enumerate(shapes)]

    def check(self, results: Any) -> None:
        """Raises AssertionError where `results`, host arrays, are not what NumPy computes."""
        assert_close(results, expected(self.function, self.arrays()), np.dtype(self.dtype).name)


def normal_equations(a, x):
    return a.T @ (a @ x)


def both_products(a, p, r):
    return a @ p, a.T @ r


def planes(x):
    centred = x - x.mean(axis=(0, 2), keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=(0, 2), keepdims=True) + 1)


def lengths(x):
    return np.sqrt((x * x).sum(axis=1))


def rotated(x, c, s):
    half = x.shape[1] // 2
    low, high = x[:, :half], x[:, half:]
    return np.concatenate([low * c - high * s, high * c + low * s], axis=1)


def scaled_rows(x, s):
    return x * s[:, None]


def row_sums(x):
    return x.sum(axis=1, dtype=np.float32)


S = strategies
CORPUS = (
    Sample("polynomial", S.polynomial, ((63, 129),) * 2, "pointwise"),
    Sample("half precision", S.polynomial, ((64, 130),) * 2, "pointwise", dtype="f2"),
    Sample("several results", S.several_results, ((33, 101), (101,)), "pointwise"),
    Sample("gather", S.rows_by_index, ((50, 33), (70,), (70, 33)), "pointwise", below={1: 50}),
    Sample("joined", S.joined, ((65, 31), (65, 34)), "pointwise"),
    Sample("mirrored", S.mirrored, ((63, 255),), "windows"),
    Sample("two relaxations", S.two_relaxations, ((61, 77),), "windows"),
    Sample("heat", S.heat, ((13, 21, 37),), "windows"),
    Sample("two relaxations, shared", S.two_relaxations, ((61, 77),), "stencil"),
    Sample("plus transposed", S.plus_transposed, ((97, 130), (130, 97)), "tiles"),
    Sample("softmax", S.softmax, ((37, 509),), "rows"),
    Sample("softmax of vectors", S.softmax, ((5, 4096),), "rows"),
    Sample("rows in frames", scaled_rows, ((37, 1003), (37,)), "pointwise", {"frames": 1}, dtype="f2"),
    Sample("sums of rows in frames", row_sums, ((61, 2045),), "rows", {"frames": 1}, dtype="f2"),
    Sample("lengths of points", lengths, ((1001, 3),), "in_thread"),
    Sample("distances", S.distances, ((301, 5), (1027, 5)), "pairs", {"trips": 32}),
    Sample("nearest", S.nearest, ((517, 4), (131, 4)), "pairs"),
    Sample("forces", S.forces, ((1301, 3),), "pairs", {"share": 256}),
    Sample("quadratic forms", S.quadratic_forms, ((517, 13), (13, 13)), "row_tiles"),
    Sample("rotated", rotated, ((65, 128), (65, 64), (65, 64)), "pointwise"),
    Sample("softmax in a loop", S.softmax, ((3, 3001),), "rows"),
    Sample("row positions", S.row_positions, ((50, 37),), "rows"),
    Sample("sum by the last block", S.whole_sum, ((251, 401),), "rows", {"share": 4096}),
    Sample("running sums", S.running_sums, ((9, 1031),), "rows"),
    Sample("standardised columns", S.standardised_columns, ((301, 67),), "columns"),
    Sample("columns by the last block", S.tall_column_sums, ((7001, 3),), "columns", {"share": 512}),
    Sample("column positions", S.column_positions, ((130, 67),), "columns"),
    Sample("rows of a cluster", S.softmax, ((3, 16381),), "held_rows", {"cluster": 4}),
    Sample("panels", S.standardised_columns, ((301, 67),), "panels"),
    Sample("panels of a cluster", S.standardised_columns, ((901, 67),), "panels", {"cluster": 2}),
    Sample("planes", planes, ((21, 7, 301),), "planes"),
    Sample("pooled", S.pooled, ((2, 67, 131),), "in_thread"),
    Sample("both products", both_products, ((130, 259), (259,), (130,)), "one_pass"),
    Sample("normal equations", normal_equations, ((67, 900), (900,)), "one_pass"),
    Sample("normal equations, cluster", normal_equations, ((67, 4096), (4096,)), "one_pass", {"cluster": 4}),
    Sample("linear", S.linear_relu, ((65, 33), (33, 67), (67,)), "contraction"),
    Sample("odd contraction", S.odd_contraction, ((9, 8, 30), (30, 8, 9)), "serial"),
    Sample("unfused normalisation", S.normalised, ((8, 512), (512,)), "rows", fuse=False),
)
