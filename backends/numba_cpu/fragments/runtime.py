"""The names of the fragment language, bound to this runtime."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from polyfuse.backends.numba_cpu.fragments.atomics import atomic
from polyfuse.backends.numba_cpu.fragments.blocks import (
    barrier,
    cluster_arrive,
    cluster_wait,
    constant_fragment,
    elect,
    exchange,
    full,
    index64,
    index_runtime,
    inside,
    scalar,
    take,
    warp_barrier,
)
from polyfuse.backends.numba_cpu.fragments.cells import get_cells, own_cells, put_cells
from polyfuse.backends.numba_cpu.fragments.contractions import contract
from polyfuse.backends.numba_cpu.fragments.division import floor_divide, fmod, remainder
from polyfuse.backends.numba_cpu.fragments.elements import (
    bfloat16,
    boolean,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from polyfuse.backends.numba_cpu.fragments.elementwise import (
    absolute,
    add,
    bitcast,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    copysign,
    divide,
    divide_short,
    equal,
    floor,
    fma,
    fmax,
    fmin,
    greater,
    greater_equal,
    invert,
    isfinite,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    multiply_high,
    negative,
    nextafter,
    not_equal,
    right_shift,
    rint,
    rsqrt,
    sign,
    signbit,
    sqrt,
    subtract,
    trunc,
    where,
)
from polyfuse.backends.numba_cpu.fragments.exponential import exp, exp2, exp_short, expm1, log, log1p, log2, log10
from polyfuse.backends.numba_cpu.fragments.hyperbolic import arccosh, arcsinh, arctanh, cosh, sinh, tanh, tanh_short
from polyfuse.backends.numba_cpu.fragments.layouts import Size, Tile
from polyfuse.backends.numba_cpu.fragments.memory import advance, load, shared, store
from polyfuse.backends.numba_cpu.fragments.reductions import REDUCTIONS, THREAD_REDUCTIONS
from polyfuse.backends.numba_cpu.fragments.scans import SCANS
from polyfuse.backends.numba_cpu.fragments.special import cbrt, erf, erfc, hypot, lgamma, power, tgamma
from polyfuse.backends.numba_cpu.fragments.trigonometric import arccos, arcsin, arctan, arctan2, cos, sin, tan

_ELEMENTS = (
    boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64,
)  # fmt: skip
_OPERATIONS = (
    absolute, add, advance, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, atomic, barrier, bitcast,
    bitwise_and, bitwise_or, bitwise_xor, cast, cbrt, ceil, cluster_arrive, cluster_wait, contract, copysign, cos, cosh,
    divide, divide_short,
    elect, equal, erf, erfc, exchange, exp, exp2, exp_short, expm1, floor, floor_divide, fma, fmax, fmin, fmod, full,
    get_cells, own_cells, put_cells,
    greater, greater_equal, hypot, index64, inside, invert, isfinite, isinf, isnan, left_shift, less, less_equal,
    lgamma,
    load, log, log10, log1p, log2, maximum, minimum, multiply, multiply_high, negative, nextafter, not_equal, power,
    remainder, right_shift, rint, rsqrt, scalar, shared, sign, signbit, sin, sinh, sqrt, store, subtract, take, tan,
    tanh, tanh_short, tgamma, trunc, warp_barrier, where,
)  # fmt: skip


@cache
def namespace(index_bits: int) -> dict[str, Any]:
    """Every name that a kernel compiled with 32- or 64-bit indices may use.  Callers copy it before adding to it."""
    names: dict[str, Any] = {"Tile": Tile, "Size": Size, "INF": math.inf, "NAN": math.nan}
    names |= {element.name: element for element in _ELEMENTS}
    names |= {operation.__name__: operation for operation in _OPERATIONS}
    names |= {"constant": constant_fragment, **REDUCTIONS, **THREAD_REDUCTIONS, **SCANS}
    return names | index_runtime(index_bits)
