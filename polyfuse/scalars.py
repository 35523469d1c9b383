"""The scalar functions that a `Map` may apply: one table for frontends, prices, printers and backends.

All operands of an entry have one dtype (frontends insert casts) unless `signature` says otherwise.  The result has
that dtype unless `result` names another.  `cost` is in floating-point operations as the price counts them: the issue
slots of one element relative to an add (measured classes: arithmetic 1, division and roots 8, transcendental 16-30).
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.dtypes import DType


@dataclass(frozen=True, slots=True)
class Function:
    """One scalar function.

    `kinds`: dtype kinds it accepts (``b i u f``).  `result`: ``same``, ``bool``, or a dtype name.  `infix`: the
    Python operator that prints it, if any.  `commutative`: operand order carries no meaning.
    """

    name: str
    arity: int
    kinds: str = "f"
    result: str = "same"
    infix: str = ""
    commutative: bool = False
    cost: int = 1


OF_SEVERAL = 8  # the cost from which a function is several instructions, each of which waits for the one before


def _table(*functions: Function) -> dict[str, Function]:
    return {f.name: f for f in functions}


def _many(names: str, arity: int, **fields: object) -> list[Function]:
    return [Function(name, arity, **fields) for name in names.split()]  # type: ignore[arg-type]


FUNCTIONS: dict[str, Function] = _table(
    Function("add", 2, "iuf", infix="+", commutative=True),
    Function("subtract", 2, "iuf", infix="-"),
    Function("multiply", 2, "iuf", infix="*", commutative=True),
    Function("divide", 2, "f", infix="/", cost=8),
    Function("floor_divide", 2, "iuf", cost=12),
    Function("remainder", 2, "iuf", cost=12),  # the sign of the divisor, as np.remainder
    Function("fmod", 2, "iuf", cost=12),  # the sign of the dividend, as C
    Function("negative", 1, "iuf"),
    Function("absolute", 1, "iuf"),
    Function("sign", 1, "iuf", cost=2),
    Function("power", 2, "iuf", cost=40),
    Function("maximum", 2, "biuf", commutative=True),  # NaN propagates
    Function("minimum", 2, "biuf", commutative=True),
    Function("fmax", 2, "f", commutative=True),  # NaN is ignored
    Function("fmin", 2, "f", commutative=True),
    *_many("less less_equal greater greater_equal", 2, kinds="biuf", result="bool"),
    *_many("equal not_equal", 2, kinds="biuf", result="bool", commutative=True),
    *_many("bitwise_and bitwise_or bitwise_xor", 2, kinds="biu", commutative=True),
    Function("invert", 1, "biu"),  # logical not on bool
    Function("left_shift", 2, "iu"),
    Function("right_shift", 2, "iu"),
    Function("multiply_high", 2, "u", commutative=True),  # the upper half of the double-width product (Philox)
    *_many("isnan isinf isfinite signbit", 1, result="bool"),
    *_many("floor ceil trunc rint", 1),
    Function("copysign", 2, "f"),
    Function("nextafter", 2, "f", cost=6),
    Function("sqrt", 1, cost=8),
    Function("rsqrt", 1, cost=8),
    *_many("exp exp2 expm1 log log2 log10 log1p", 1, cost=16),
    *_many("sin cos tan", 1, cost=20),
    *_many("arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt", 1, cost=24),
    *_many("erf erfc", 1, cost=24),
    *_many("lgamma tgamma", 1, cost=40),
    *_many("arctan2 hypot", 2, cost=30),
    Function("fma", 3),  # a * b + c with one rounding
    Function("where", 3, "biuf"),  # (bool, T, T) -> T
    Function("divide_short", 2, cost=3),  # of float32, for results that are rounded to 16 bits: see `SHORT`
    Function("exp_short", 1, cost=4),
    Function("tanh_short", 1, cost=2),
    Function("cast", 1, "biuf"),  # to the dtype of the node; float to int truncates, any to bool tests for zero
    Function("bitcast", 1, "biuf"),  # same width
)


SHORT: dict[str, dict[str, str]] = {
    "f16": {"divide": "divide_short", "exp": "exp_short"},
    "bf16": {"divide": "divide_short", "exp": "exp_short", "tanh": "tanh_short"},
}
"""Per 16-bit dtype, the functions that a kernel applies in place of the exact ones: a dtype with 11 or 8 significant
bits does not see the difference.  On CUDA they are few instructions of the PTX ISA with relative errors of at most
2^-22 (``div.full``, or a product with ``rcp.approx``), 2^-17 (the square of ``ex2.approx`` of a rounded multiple) and
2^-10.9 (``tanh.approx``); elsewhere exact."""


@dataclass(frozen=True, slots=True)
class Monoid:
    """An associative operation with a neutral element; declaring it is what makes a reduction splittable.

    `state`: values carried per partial result.  ``argmax`` carries (value, index): the first NaN wins, else the larger
    value, else the lower index.  `neutral` per component: a number, or ``lowest`` / ``highest`` of the dtype
    (infinities for floats), ``nan``, or ``last`` for the largest index.
    """

    name: str
    function: str
    neutral: tuple[str, ...]
    kinds: str = "iuf"

    @property
    def state(self) -> int:
        return len(self.neutral)


MONOIDS: dict[str, Monoid] = {
    m.name: m
    for m in (
        Monoid("sum", "add", ("0",)),
        Monoid("prod", "multiply", ("1",)),
        Monoid("max", "maximum", ("lowest",), "biuf"),
        Monoid("min", "minimum", ("highest",), "biuf"),
        Monoid("fmax", "fmax", ("nan",), "f"),
        Monoid("fmin", "fmin", ("nan",), "f"),
        Monoid("any", "bitwise_or", ("0",), "b"),
        Monoid("all", "bitwise_and", ("1",), "b"),
        Monoid("bitor", "bitwise_or", ("0",), "iu"),
        Monoid("bitand", "bitwise_and", ("-1",), "iu"),
        Monoid("bitxor", "bitwise_xor", ("0",), "biu"),
        Monoid("argmax", "argmax", ("lowest", "last"), "biuf"),
        Monoid("argmin", "argmin", ("highest", "last"), "biuf"),
    )
}


def in_any_order(monoid: str, dtype: DType) -> bool:
    """Whether elements of `dtype` give the same bits in whatever order they are combined: integers do, whose sums and
    products wrap around, truth values too; floats round, and have two zeros."""
    found = MONOIDS.get(monoid)
    return found is not None and found.state == 1 and FUNCTIONS[found.function].commutative and dtype.kind in "biu"


@dataclass(frozen=True, slots=True)
class Cascade(Monoid):
    """A monoid whose states meet in rounds of single ones: first what the others are relative to, then those.  Kernels
    know the single monoids only (`polyfuse.lower.cascades`).  `steps`: instructions per element, about; `cost`: its
    operations.

    ``max_sumexp`` carries (m, sum of w * exp(x - m)) with m the maximum of x, ``max_sumexp_short`` the same of
    exponentials that are values of 16 bits (`SHORT`), ``max_sumexp_sum`` besides (n, sum of x - m), ``moments`` (n,
    mean, sum of squared distances from the mean), ``comoments`` (n, two means, sum of products of distances from them),
    ``moments2`` and ``moments3`` the means of so many and the sums of all products of two of their distances.  They
    merge without cancellation, the latter as Chan, Golub and LeVeque have it (1983).  `pairs`: of which means the
    distances of each sum of products are.
    """

    steps: int = 1
    cost: int = 1
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def means(self) -> int:
        return self.state - 1 - len(self.pairs) if self.pairs else 0


_OF_TWO = ((0, 0), (0, 1), (1, 1))
_OF_THREE = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


CASCADES: dict[str, Cascade] = {
    c.name: c
    for c in (
        Cascade("max_sumexp", "", ("lowest", "0"), "f", 12, FUNCTIONS["exp"].cost + 3),
        Cascade("max_sumexp_short", "", ("lowest", "0"), "f", 7, FUNCTIONS["exp_short"].cost + 3),
        Cascade("max_sumexp_sum", "", ("lowest", "0", "0", "0"), "f", 14, FUNCTIONS["exp"].cost + 5),
        Cascade("moments", "", ("0",) * 3, "f", 4, 5, ((0, 0),)),
        Cascade("comoments", "", ("0",) * 4, "f", 6, 7, ((0, 1),)),
        Cascade("moments2", "", ("0",) * 6, "f", 10, 12, _OF_TWO),
        Cascade("moments3", "", ("0",) * 10, "f", 17, 20, _OF_THREE),
    )
}


RECURRENCE = "recurrence"
"""What a statement has in place of a monoid whose values follow from earlier ones in any way: no kernel splits it."""
_STEPS = {RECURRENCE: Monoid(RECURRENCE, "", ("0",), "biuf")}


def monoid_named(name: str) -> Monoid:
    """The monoid of a reduction, single or a cascade; what a recurrence begins with."""
    return MONOIDS.get(name) or CASCADES.get(name) or _STEPS[name]


POSITION = 9
"""Instructions of one merge of two positions, which compares values, tests for NaN and compares positions.  Best of
257 MB in rows of 257 bfloat16: 72 us on an H200."""


def merge_cost(name: str | None) -> int:
    """Operations per element beyond a reduction's operands; 0 for no reduction."""
    return CASCADES[name].cost if name in CASCADES else merge_steps(name)


def merge_steps(name: str | None) -> int:
    """Functions applied per element beyond a reduction's operands; 0 for no reduction."""
    return CASCADES[name].steps if name in CASCADES else POSITION if name in ("argmax", "argmin") else int(bool(name))
