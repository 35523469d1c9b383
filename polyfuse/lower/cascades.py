"""States of cascades (`polyfuse.scalars.CASCADES`) meet: in the slots of a thread, across threads, and around a loop.

    max_sumexp       M = max m,  S = sum of s * exp(m - M)      (max_sumexp_short likewise)
    max_sumexp_sum   and N = sum of n,  D = sum of d + n * (m - M)
    moments          N = sum of n,  U = (sum of n * u) / N,  Q = sum of q + n * (u - U)^2
    comoments        likewise with V of v, and Q = sum of q + n * (u - U) * (v - V)
    moments2         both of these and those of v, moments3 those of three

An element is the state (x, w), (x, w, 1, 0), (1, x, 0), (1, x, y, 0), or with as many zeros as there are products.  Any
number of states meets at once, so that an element costs one exponential; what was summed relative to one maximum or
mean is moved to the common one.  Parts without elements, and exponentials of -inf, count nothing: (-inf, 0) and
(0, 0, ...) are neutral.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from polyfuse import kernel as ir
from polyfuse.dtypes import DType, bool_, f32
from polyfuse.scalars import CASCADES
from polyfuse.terms import Apply, Const, Expr, Inside, Ref

OF_MAXIMA = {"max_sumexp": "exp", "max_sumexp_short": "exp_short", "max_sumexp_sum": "exp"}
"""Whose states are relative to a maximum, and the function that moves them."""
Collect = Callable[[str, str, Expr], Sequence[ir.Op]]
"""``name = monoid of all values``: in registers, or across threads."""


def gathered(
    monoid: str, dtype: DType, names: tuple[str, ...], state: Sequence[Expr], collect: Collect, terms: str = ""
) -> list[ir.Op]:
    """All states that `collect` brings together, merged into `names`; `state` may read them.  `terms`: what the
    exponentials are called, where they are wanted besides."""
    apply = _Arithmetic(dtype)
    if monoid in OF_MAXIMA:
        top, total, *more = state
        whole, base = Ref(f"{names[0]}.all", dtype), Ref(f"{names[0]}.all_base", dtype)
        distance = apply("subtract", top, base)
        moved: Expr = apply(OF_MAXIMA[monoid], distance)
        named = [ir.Let(terms, moved)] if terms else []
        found = [
            *collect(whole.name, "max", top),
            ir.Let(base.name, apply.base(whole)),
            *named,
            *collect(names[1], "sum", apply.times(total, Ref(terms, dtype) if terms else moved)),
        ]
        if more:
            found += collect(names[3], "sum", apply.plus(more[1], apply.as_often(more[0], distance)))
            found += collect(names[2], "sum", more[0])
        return [*found, ir.Let(names[0], whole)]
    last = 1 + CASCADES[monoid].means
    count, means, spreads = state[0], state[1:last], state[last:]
    every = Ref(f"{names[0]}.all", dtype)
    centres = [Ref(f"{name}.all", dtype) for name in names[1:last]]
    distances: list[Expr] = [apply("subtract", mean, centre) for mean, centre in zip(means, centres, strict=True)]
    ops: list[ir.Op] = [*collect(every.name, "sum", count)]
    for mean, centre in zip(means, centres, strict=True):
        ops += collect(centre.name, "sum", apply.times(count, mean))
    ops.sort(key=lambda op: isinstance(op, ir.Combine))  # threads meet for one sum after the other, and add up before
    ops += [ir.Let(centre.name, apply.quotient(centre, every)) for centre in centres]
    single = apply.times(count, Const(1.0, dtype))
    if single == count:  # of elements: a product of what is masked is added in one operation
        ops += [ir.Let(f"{name}.off", apply.times(count, d)) for name, d in zip(names[1:last], distances, strict=True)]
        distances, count = [Ref(f"{name}.off", dtype) for name in names[1:last]], Const(1.0, dtype)
    for name, spread, (i, j) in zip(names[last:], spreads, CASCADES[monoid].pairs, strict=True):
        apart = apply.apart(count, distances[i], distances[j])
        ops += collect(name, "sum", apply.plus(spread, apart))
    return [*ops, *[ir.Let(name, value) for name, value in zip(names, (every, *centres), strict=False)]]


def merged(monoid: str, dtype: DType, names: tuple[str, ...], parts: tuple[str, ...]) -> list[ir.Op]:
    """The states `names` and `parts` into `names`."""
    apply = _Arithmetic(dtype)
    old, new = [Ref(n, dtype) for n in names], [Ref(n, dtype) for n in parts]
    if monoid in OF_MAXIMA:
        whole, base = Ref(f"{names[0]}.all", dtype), Ref(f"{names[0]}.all_base", dtype)
        distances = [apply("subtract", state[0], base) for state in (old, new)]
        powers = [apply(OF_MAXIMA[monoid], d) for d in distances]
        moved = [apply("multiply", s[1], power) for s, power in zip((old, new), powers, strict=True)]
        found = [
            ir.Let(whole.name, apply("maximum", old[0], new[0])),
            ir.Let(base.name, apply.base(whole)),
            ir.Let(names[1], apply("add", *moved)),
        ]
        if len(names) > 2:
            pairs = zip((old, new), distances, strict=True)
            sums = [apply.plus(s[3], apply.as_often(s[2], distance)) for s, distance in pairs]
            found += [ir.Let(names[3], apply("add", *sums)), ir.Let(names[2], apply("add", old[2], new[2]))]
        return [*found, ir.Let(names[0], whole)]
    every, share = Ref(f"{names[0]}.all", dtype), Ref(f"{names[0]}.share", dtype)
    last = 1 + CASCADES[monoid].means
    steps = [Ref(f"{name}.step", dtype) for name in names[1:last]]
    ops: list[ir.Op] = [
        ir.Let(every.name, apply("add", old[0], new[0])),
        ir.Let(share.name, apply.quotient(new[0], every)),
    ]
    for step, mean, other in zip(steps, old[1:last], new[1:last], strict=True):
        ops.append(ir.Let(step.name, apply("subtract", other, mean)))
    for mine, theirs, (i, j) in zip(old[last:], new[last:], CASCADES[monoid].pairs, strict=True):
        apart = apply.apart(apply("multiply", old[0], share), steps[i], steps[j])
        ops.append(ir.Let(mine.name, apply("add", apply("add", mine, theirs), apart)))
    for step, mean, other in zip(steps, old[1:last], new[1:last], strict=True):
        usual = apply("add", mean, apply("multiply", step, share))
        ops.append(ir.Let(mean.name, apply.unless_infinite(mean, usual, apply("add", mean, other))))
    return [*ops, ir.Let(names[0], every)]


def moving(dtype: DType, part: Ref, whole: Ref) -> Expr:
    """What exponentials relative to the maximum `part` are multiplied by to be relative to `whole`.  Those relative to
    an infinity are 0 or no number already, as they should be."""
    apply = _Arithmetic(dtype)
    factor = apply("exp", apply("subtract", part, whole))
    infinite = Apply("equal", (part, Const(math.inf, dtype)), bool_)
    return apply("where", infinite, Const(1.0, dtype), factor)


class _Arithmetic:
    """Terms of one dtype."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, function: str, *operands: Expr) -> Expr:
        return Apply(function, operands, self.dtype)

    def times(self, weight: Expr, value: Expr) -> Expr:
        """``weight * value`` where a weight of 1 or 0 is known: values that do not count may be anything."""
        match weight:
            case Const(value=1):
                return value
            case Apply(function="where", operands=(Inside() as where, kept, Const(value=0) as none)):
                return self("where", where, self.times(kept, value), none)
            case _:
                return self("multiply", weight, value)

    def apart(self, count: Expr, one: Expr, other: Expr) -> Expr:
        """``count * one * other``, which of no element is nothing, however large the product of the distances is."""
        if isinstance(count, Const) or (isinstance(count, Apply) and count.function == "where"):
            return self.times(count, self("multiply", one, other))
        return self("multiply", self("multiply", count, one), other)

    def as_often(self, count: Expr, distance: Expr) -> Expr:
        """``count * distance``, and nothing where nothing is counted: that may be infinitely far."""
        if not isinstance(count, Ref):
            return self.times(count, distance)
        none = Apply("equal", (count, Const(0.0, self.dtype)), bool_)
        return self("where", none, Const(0.0, self.dtype), self("multiply", count, distance))

    def unless_infinite(self, value: Expr, usual: Expr, infinite: Expr) -> Expr:
        """An infinite mean stays one: the step from it to a finite one is the other infinity."""
        return self("where", Apply("isfinite", (value,), bool_), usual, infinite)

    def plus(self, known: Expr, value: Expr) -> Expr:
        match known:
            case Const(value=0) | Apply(function="where", operands=(_, Const(value=0), Const(value=0))):
                return value
            case _:
                return self("add", known, value)

    def base(self, top: Ref) -> Expr:
        """What exponents are relative to: nothing of -inf alone is summed, and -inf less itself is no number."""
        nothing = Apply("equal", (top, Const(-math.inf, self.dtype)), bool_)
        return self("where", nothing, Const(0.0, self.dtype), top)

    def quotient(self, part: Expr, count: Ref) -> Expr:
        """``part / count``, to the last place or two of float32: what is summed relative to a mean forgives that."""
        function = "divide_short" if self.dtype == f32 else "divide"
        return self(function, part, self("maximum", count, Const(1.0, self.dtype)))
