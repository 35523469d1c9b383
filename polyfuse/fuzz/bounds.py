"""How far a right answer may be from the exact one: error bounds, propagated through a traced program.

Every value is evaluated in float64 together with a bound on what any order of summation, contraction and storage in
the value's own dtype may add.  A bound of infinity says that nothing is known (a comparison of two values closer than
their bounds, an overflow); bounds of integers and booleans are zero or infinity.

The rules: rounding to nearest in the dtype of the value (16-bit floats compute in float32), the last-place errors that
`ULPS` grants a function, first-order error of sums by their length (Higham, Accuracy and Stability, chapter 4), and for
every function of uncertain operands its values at the corners of the box of what they may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from polyfuse.dtypes import DType, bf16, f16, f32, integer_limits
from polyfuse.expr import (
    Constant,
    DataIndex,
    Gather,
    IndexEntry,
    Input,
    Map,
    Node,
    Opaque,
    Program,
    Recurrence,
    Reduce,
    Region,
    Scalar,
    Scan,
    Scatter,
    View,
    operands_of,
)
from polyfuse.reference import Array, Evaluation, given_values, with_one_axis

ULPS = {
    "add": 1, "subtract": 1, "multiply": 1, "divide": 1, "sqrt": 1, "fma": 1, "cast": 1, "fmod": 1, "remainder": 4,
    "rsqrt": 4, "cbrt": 4, "hypot": 4, "power": 32, "lgamma": 64, "tgamma": 64, "floor_divide": 1,
}  # fmt: skip
FUNCTION_ULPS = 8  # of exp, log, the trigonometric functions and the like
EXACT = frozenset(
    "negative absolute sign maximum minimum fmax fmin floor ceil trunc rint copysign where bitcast".split()
)
STEPS = frozenset("floor ceil trunc rint sign remainder fmod floor_divide copysign tgamma bitcast".split())
"""Functions that jump: known only where every corner of the box gives the same."""
FOLDED = 4  # roundings of a constant that was computed from others while tracing
PERIODIC = frozenset("sin cos".split())
OVERFLOWING = frozenset("multiply square fma power".split())
"""Functions whose infinity of finite operands a contraction with what follows avoids."""


def limits_of(dtype: DType) -> Any:
    """NumPy's ``finfo``, of bfloat16 too."""
    finfo: Any = ml_dtypes.finfo
    return finfo(dtype.numpy)


def epsilon(dtype: DType) -> float:
    return float(limits_of(dtype).eps)


def smallest(dtype: DType) -> float:
    return float(limits_of(dtype).smallest_subnormal)


def largest(dtype: DType) -> float:
    return float(limits_of(dtype).max)


def digits_of(value: Array, dtype: DType) -> float:
    """The epsilon of the narrowest dtype that holds a constant: a trace computes with constants in their own dtypes
    and widens the result, where the oracle has more digits from the start."""
    held = [t for t in (bf16, f16, f32) if epsilon(t) > epsilon(dtype) and value == value.astype(t.numpy)]
    return epsilon(held[0] if held else dtype)


def evaluate_with_bounds(
    program: Program, arrays: Sequence[Array], scalars: Sequence[Any] = ()
) -> list[tuple[Array, Array]]:
    """Per output its value, floats in float64, and its bound."""
    run = Bounded(*given_values(program, arrays, scalars), True)
    run.all(program.outputs)
    return [(run.results[o], run.errors[o]) for o in program.outputs]


def has_common_factor(node: Reduce) -> bool:
    """Whether terms of a sum have a factor in common, which NumPy may take out of it: inf*0 + 1*0 is NaN or inf."""
    (terms,) = node.operands
    factors = terms.operands if isinstance(terms, Map) and terms.function == "multiply" else ()
    return any(
        isinstance(factor, View) and not any(f"%{axis}" in entry.names() for entry in factor.index)
        for factor in factors
        for axis in node.axes
    )


class Bounded(Evaluation):
    """One evaluation with the bound of every value so far."""

    def __init__(self, sizes: Any, arguments: Any, upcast: bool) -> None:
        super().__init__(sizes, arguments, upcast)
        self.errors: dict[Node, Array] = {}

    def after(self, node: Node) -> None:
        value = self.results[node]
        error = np.broadcast_to(np.asarray(self.error(node), np.float64), value.shape)
        error = np.where(np.isnan(error), np.inf, error)
        if node.dtype.is_float:
            finite = np.isfinite(value)
            error = np.where(finite & (np.abs(value) + error > largest(node.dtype)), np.inf, error)
        self.errors[node] = error

    def error(self, node: Node) -> Any:
        match node:
            case Constant() | Scalar():
                value = np.asarray(self.results[node], np.float64)
                if node.dtype.is_float and node.dtype.itemsize < 8 and abs(value) == largest(node.dtype):
                    return np.inf  # the limit of a dtype: NumPy's own program, in float64, has another one
                parts = value * (1024 if node.dtype.itemsize > 2 else 4)  # what 16 bits round to is often short
                is_short = not node.dtype.is_float or parts == np.rint(parts) or not np.isfinite(value)
                return 0.0 if is_short else FOLDED * digits_of(value, node.dtype) * abs(value)
            case Map():
                return self.map_error(node)
            case Reduce():
                return self.reduce_error(node)
            case Scan():
                return self.scan_error(node)
            case Recurrence():
                return np.inf  # what a step makes of an error, any number of times
            case View():
                return self.errors[node.source][self.points(node.shape, node.index)]
            case Region():
                return self.pieced(node, self.errors, np.float64)
            case Gather():
                return self.gather_error(node)
            case Scatter():
                return self.scatter_error(node)
            case Opaque():
                return self.opaque_error(node)
            case _:
                return 0.0

    # ------------------------------------------------------------------------------------------ functions
    def map_error(self, node: Map) -> Any:
        value = self.results[node]
        operands = [self.results[o] for o in node.operands]
        errors = [self.errors[o] for o in node.operands]
        rounding = self.rounding(node.function, node.dtype, value)
        if node.function == "where":
            return self.choice_error(operands, errors, value) + rounding
        unknown = np.zeros(value.shape, np.bool_)
        for error in errors:
            unknown = unknown | np.isinf(error)
        if node.function == "cast" and node.dtype.kind in "iu" and node.operands[0].dtype.is_float:
            limits = integer_limits(node.dtype)
            unknown = unknown | ~((operands[0] >= float(limits.min)) & (operands[0] < float(limits.max)))
        if node.function in OVERFLOWING:
            finite = np.ones(value.shape, np.bool_)
            for operand in operands:
                finite = finite & np.isfinite(operand)
            unknown = unknown | (np.isinf(value) & finite)
        if node.function in ("signbit", "copysign", "bitcast") and not self.is_moved(node.operands[-1]):
            unknown = unknown | (operands[-1] != operands[-1])  # the sign of a NaN that was computed
        if node.function == "power":  # 1 to the power of NaN is 1, and so is NaN to the power of 0
            one = (errors[0] > 0) & (np.abs(operands[0] - 1) <= errors[0]) & np.isnan(operands[1])
            unknown = unknown | one | ((errors[1] > 0) & (np.abs(operands[1]) <= errors[1]) & np.isnan(operands[0]))
        if node.function == "fma":  # the oracle rounds twice
            rounding = rounding + epsilon(node.dtype) * np.where(np.isfinite(value), np.abs(operands[2]), 0.0)
        moved = self.deviation(node, value, operands, errors)
        return np.where(unknown, np.inf, moved + rounding)

    def is_moved(self, node: Node) -> bool:
        """Whether every element of a value has the bits of an element of an argument."""
        match node:
            case Input():
                return True
            case View() | Gather():
                return self.is_moved(node.source)
            case Region():
                return all(self.is_moved(piece.source) for piece in node.pieces)
            case _:
                return False

    def rounding(self, function: str, dtype: DType, value: Array) -> Any:
        if not dtype.is_float:
            return 0.0
        if function in EXACT:
            return np.where(value == 0, smallest(dtype), 0.0)  # which of two zeros is left open
        ulps = ULPS.get(function, FUNCTION_ULPS)
        finite = np.where(np.isfinite(value), np.abs(value), 0.0)
        extra = np.abs(finite) * 0 + (1.0 if function == "lgamma" else 0.0)
        return ulps * (epsilon(dtype) * (finite + extra) + smallest(dtype))

    def deviation(self, node: Map, value: Array, operands: Sequence[Array], errors: Sequence[Array]) -> Any:
        """The largest change of a function over the corners of what its operands may be."""
        uncertain = [k for k, error in enumerate(errors) if operands[k].dtype.kind == "f" and error.any()]
        if not uncertain:
            return 0.0
        found = np.zeros(value.shape)
        if node.function in ("equal", "not_equal") or (node.function == "cast" and node.dtype.kind == "b"):
            return self.equality_error(operands, errors)
        jumps = node.function in STEPS or not node.dtype.is_float
        quotient = np.floor_divide(*operands) if node.function in ("remainder", "fmod") else None
        for signs in product((-1.0, 0.0, 1.0), repeat=len(uncertain)):
            corner = list(operands)
            for k, sign in zip(uncertain, signs, strict=True):
                corner[k] = operands[k] + sign * np.where(np.isinf(errors[k]), 0.0, errors[k])
            moved = np.asarray(self.apply(node, corner), self.dtype(node.dtype))
            same = (moved == value) | ((moved != moved) & (value != value))
            if jumps and quotient is None:
                found = np.where(same, found, np.inf)
            else:
                change = np.where(same, 0.0, np.abs(moved.astype(np.float64) - value))
                found = np.maximum(found, np.where(np.isfinite(change), change, np.inf))
            if quotient is not None:
                found = np.where(np.floor_divide(*corner) == quotient, found, np.inf)
        if node.function in PERIODIC:
            return np.minimum(errors[0], 2.0)
        if node.function == "tan":
            poles = np.abs(np.cos(operands[0])) <= 2 * errors[0]
            return np.where(poles | (errors[0] > 0.5), np.inf, found)
        if node.function == "divide":
            return np.where((np.abs(operands[1]) <= errors[1]) & (errors[1] > 0), np.inf, found)
        return found

    def equality_error(self, operands: Sequence[Array], errors: Sequence[Array]) -> Any:
        """Of a comparison for equality, or of one operand with zero: open where both may be the same number."""
        with_zero = len(operands) == 1
        gap = np.abs(operands[0] if with_zero else operands[0] - operands[1])
        reach = errors[0] if with_zero else errors[0] + errors[1]
        return np.where((reach > 0) & (gap <= reach), np.inf, 0.0)

    def choice_error(self, operands: Sequence[Array], errors: Sequence[Array], value: Array) -> Any:
        condition, first, second = operands
        known = np.where(condition, errors[1], errors[2])
        if first.dtype.kind != "f":
            either = np.where(first == second, np.maximum(errors[1], errors[2]), np.inf)
        else:
            gap = np.where(first == second, 0.0, np.abs(first - second))
            either = gap + np.maximum(errors[1], errors[2])
        return np.where(errors[0] > 0, either, known)

    # ------------------------------------------------------------------------------------------ reductions
    def reduce_error(self, node: Reduce) -> Any:
        values, errors = self.results[node.operands[0]], self.errors[node.operands[0]]
        count = int(np.prod([values.shape[a] for a in node.axes], dtype=np.int64))
        unknown = np.isinf(errors).any(node.axes) if node.axes else np.isinf(errors)
        if node.monoid in ("argmax", "argmin"):
            return self.position_error(node, values, errors, np.asarray(unknown))
        if not node.dtype.is_float:
            return np.where(unknown, np.inf, 0.0)
        result = self.results[node]
        match node.monoid:
            case "sum":
                size = np.where(np.isfinite(values), np.abs(values), 0.0).sum(node.axes)
                found = errors.sum(node.axes) + self.sum_rounding(node.dtype, size, count, result)
                if has_common_factor(node):
                    found = np.where(np.isfinite(result), found, np.inf)
            case "prod":
                found = self.product_error(node, values, errors, count)
            case _:
                found = errors.max(node.axes, initial=0.0) + self.rounding("maximum", node.dtype, result)
        return np.where(unknown, np.inf, found)

    def sum_rounding(self, dtype: DType, size: Array, count: int, result: Array) -> Any:
        """Of a sum of `count` terms, `size` in total: in float32 at least, then rounded to the dtype."""
        compute = dtype.compute
        own = np.where(np.isfinite(result), np.abs(result), 0.0)
        found = count * epsilon(compute) * size + epsilon(dtype) * own + smallest(dtype)
        return np.where(size * (1 + count * epsilon(compute)) > largest(compute), np.inf, found)

    def product_error(self, node: Reduce, values: Array, errors: Array, count: int) -> Any:
        finite = np.where(np.isfinite(values), np.abs(values), 1.0)
        compute = node.dtype.compute
        above = np.prod(np.maximum(finite, 1.0), node.axes)
        below = np.prod(np.where(finite > 0, np.minimum(finite, 1.0), 1.0), node.axes)
        wide = np.prod(finite + errors, node.axes) * (1 + epsilon(compute)) ** count
        found = wide - np.prod(finite, node.axes) + epsilon(node.dtype) * np.prod(finite, node.axes)
        out_of_range = (above > largest(compute)) | (below < float(limits_of(compute).smallest_normal))
        return np.where(out_of_range & (errors.any() or count > 1), np.inf, found + smallest(node.dtype))

    def position_error(self, node: Reduce, values: Array, errors: Array, unknown: Array) -> Any:
        """Positions are known where no other element may be as large as the one found."""
        if not errors.any():
            return np.where(unknown, np.inf, 0.0)
        flat = [with_one_axis(node, a) for a in (values, errors)]
        rank = flat[0].astype(np.float64) * (1 if node.monoid == "argmax" else -1)
        if rank.shape[-1] == 0:
            return 0.0
        best = np.argmax(rank, -1)[..., None]
        gap = np.take_along_axis(rank, best, -1) - rank
        reach = np.take_along_axis(flat[1], best, -1) + flat[1]
        others = np.arange(rank.shape[-1]) != best
        doubtful = (others & ~(gap > reach) & (reach > 0)).any(-1)
        bound = flat[1].max(-1) if node.component == 0 else 0.0
        if node.component == 0:
            return np.where(unknown, np.inf, bound)
        return np.where(unknown | doubtful, np.inf, 0.0)

    def scan_error(self, node: Scan) -> Any:
        values, errors = self.results[node.operand], self.errors[node.operand]
        count = values.shape[node.axis]

        def along(array: Array, ufunc: np.ufunc) -> Array:
            flipped = np.flip(array, node.axis) if node.reverse else array
            found = ufunc.accumulate(flipped, axis=node.axis) if array.size else flipped
            return np.flip(found, node.axis) if node.reverse else found

        unknown = along(np.isinf(errors), np.logical_or)
        if not node.dtype.is_float:
            return np.where(unknown, np.inf, 0.0)
        finite = np.where(np.isfinite(values), np.abs(values), 0.0)
        match node.monoid:
            case "sum":
                found = (
                    along(errors, np.add)
                    + self.sum_rounding(node.dtype, along(finite, np.add), count, self.results[node])
                    + epsilon(node.dtype) * finite
                )
            case "prod":
                wide = along(finite + errors, np.multiply) * (1 + epsilon(node.dtype.compute)) ** count
                above, below = along(np.maximum(finite, 1.0), np.multiply), along(np.minimum(finite, 1.0), np.multiply)
                compute = node.dtype.compute
                limits = (above > largest(compute)) | (below < float(limits_of(compute).smallest_normal))
                plain = along(finite, np.multiply)
                found = wide - plain + epsilon(node.dtype) * plain + smallest(node.dtype)
                found = np.where(limits, np.inf, found)
            case _:
                found = along(errors, np.maximum) + smallest(node.dtype)
        return np.where(unknown, np.inf, found)

    # ------------------------------------------------------------------------------------------ moved values
    def gather_error(self, node: Gather) -> Any:
        source = self.errors[node.source]
        points = self.points(node.shape, node.index, node.operands)
        found = source[self.checked(source.shape, points, "clip")]
        return np.where(self.doubtful(node.operands, node.index, found.shape), np.inf, found)

    def doubtful(self, operands: Sequence[Node], index: Sequence[IndexEntry], shape: tuple[int, ...]) -> Array:
        """Where an index that is data is unknown."""
        found = np.zeros(shape, np.bool_)
        for entry in index:
            if isinstance(entry, DataIndex):
                found = found | (self.errors[operands[entry.operand]] > 0)
        return found

    def scatter_error(self, node: Scatter) -> Any:
        from polyfuse.library_calls.scatter import scatter

        points = self.points(node.updates.shape, node.index, node.operands)
        index = tuple(DataIndex(k) for k in range(len(points)))
        if self.doubtful(node.operands, node.index, self.results[node.updates].shape).any():
            return np.inf
        base, updates = self.errors[node.base], self.errors[node.updates]

        def scattered(first: Array, second: Array, monoid: str) -> Array:
            return scatter(first, second, *points, index=index, monoid=monoid, bounds=node.bounds)

        if node.monoid == "set":
            return scattered(base, updates, "set")
        if not node.dtype.is_float:
            return np.where(np.isinf(scattered(base, updates, "max")), np.inf, 0.0)
        if node.monoid != "sum":
            worst = scattered(base, updates, "max")
            return np.where(worst > 0, np.inf, 0.0) if node.monoid == "prod" else worst + smallest(node.dtype)
        sizes = [
            np.where(np.isfinite(v), np.abs(v), 0.0) for v in (self.results[node.base], self.results[node.updates])
        ]
        count = self.results[node.updates].size + 1
        size = scattered(sizes[0], sizes[1], "sum")
        return scattered(base, updates, "sum") + count * epsilon(node.dtype) * size + smallest(node.dtype)

    def opaque_error(self, node: Opaque) -> Any:
        """Sorting moves no value further than the largest error; everything else is known for exact operands only."""
        errors = [self.errors[o] for o in operands_of(node)]
        settings = dict(node.call.settings)
        if node.call.name == "sort":
            axis = int(settings["axis"])
            return errors[0].max(axis, keepdims=True, initial=0.0)
        return np.inf if any(e.any() for e in errors) else 0.0
