"""Which dtypes a ufunc computes in: NumPy's own resolution (NEP 50), with bfloat16 put in."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Union

import numpy as np

from polyfuse import dtypes
from polyfuse.dtypes import DType, bf16, bool_, f32, promote, promote_weak
from polyfuse.errors import DTypeError

Kind = Union[DType, type]  # a strong dtype, or bool, int, float of a weak Python scalar

# Functions that NumPy lacks, by the ufunc whose dtypes they share.
_ALIKE = {"rsqrt": "sqrt", "erf": "exp", "erfc": "exp", "lgamma": "exp", "tgamma": "exp", "fma": "add"}


@lru_cache(maxsize=4096)
def resolve(name: str, kinds: tuple[Kind, ...]) -> tuple[tuple[DType, ...], DType]:
    """The dtypes of the operands after casting, and of the (first) result.  Raises DTypeError."""
    strong = tuple(bool_ if kind is bool else kind for kind in kinds)
    if not any(isinstance(kind, DType) for kind in strong):
        strong = tuple(default(kind) for kind in strong if isinstance(kind, type))
    if bf16 in strong:
        return _resolve_bfloat16(name, strong)
    ufunc: np.ufunc = getattr(np, _ALIKE.get(name, name))
    wanted = tuple(kind.numpy if isinstance(kind, DType) else kind for kind in strong)
    try:
        resolved = ufunc.resolve_dtypes((*wanted, *[None] * (ufunc.nin + ufunc.nout - len(wanted))))
    except (TypeError, OverflowError) as error:
        raise _refusal(name, kinds, str(error)) from None
    found = [dtypes.from_numpy(d) for d in resolved]
    result = found[ufunc.nin]
    operands = tuple(d for d in found[: len(kinds)] if d is not None)
    if result is None or len(operands) < len(kinds):
        raise _refusal(name, kinds, "")
    return operands, result


def resolve_for(name: str, kinds: tuple[Kind, ...], wanted: DType | None, casting: Any) -> tuple[DType, ...]:
    """The dtypes of the operands where ``dtype=wanted`` asks for that of the result.  Raises DTypeError where NumPy has
    no such loop, or does not cast to it by the rule `casting`."""
    strong = tuple(bool_ if kind is bool else kind for kind in kinds)
    if bf16 in (*strong, wanted):  # of which NumPy's resolution knows nothing
        return (wanted,) * len(kinds) if wanted is not None else resolve(name, kinds)[0]
    ufunc: np.ufunc = getattr(np, name)
    given = tuple(kind.numpy if isinstance(kind, DType) else kind for kind in strong)
    signature = (*[None] * ufunc.nin, *[None if wanted is None else wanted.numpy] * ufunc.nout)
    try:
        found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout), signature=signature, casting=casting)
    except (TypeError, OverflowError):
        raise _unreachable(name, kinds, wanted, casting) from None
    return tuple(d for d in map(dtypes.from_numpy, found[: ufunc.nin]) if d is not None)


def check_reduction(name: str, element: DType, wanted: DType) -> None:
    """Raise DTypeError unless NumPy reduces arrays of `element` by the function in the dtype `wanted`."""
    if bf16 in (element, wanted):
        return
    ufunc: np.ufunc = getattr(np, name)
    try:
        ufunc.resolve_dtypes(
            (None, element.numpy, None), signature=(wanted.numpy, None, None), casting="unsafe", reduction=True
        )
    except TypeError:
        raise _unreachable(name, (element,), wanted, "unsafe") from None


def _unreachable(name: str, kinds: tuple[Kind, ...], wanted: DType | None, casting: str) -> DTypeError:
    place = "" if wanted is None else f" in dtype={wanted.numpy}"
    shown = ", ".join(str(k.numpy) if isinstance(k, DType) else f"Python {k.__name__}" for k in kinds)
    return DTypeError(
        f"np.{name} does not compute{place} for {shown} by the rule {casting!r}",
        advice="Cast operands first with x.astype(...), or leave dtype and casting out and cast the result.",
    )


def _refusal(name: str, kinds: tuple[Kind, ...], reason: str) -> DTypeError:
    shown = ", ".join(str(k.numpy) if isinstance(k, DType) else f"Python {k.__name__}" for k in kinds)
    advice = "Cast an operand first with x.astype(...)."
    if "boolean subtract" in reason:
        advice = "Use ^ or np.logical_xor."
    elif "boolean negative" in reason or name == "positive":
        advice = "Use ~ or np.logical_not."
    return DTypeError(f"np.{name} does not accept {shown}", advice=advice)


def _resolve_bfloat16(name: str, kinds: tuple[Kind, ...]) -> tuple[tuple[DType, ...], DType]:
    """As if bfloat16 were float32 among narrower types, unless a wider float joins in."""
    strong = [kind for kind in kinds if isinstance(kind, DType)]
    common = strong[0]
    for kind in strong[1:]:
        common = promote(common, kind)
    stand_in = f32 if common == bf16 else common
    inputs, result = resolve(name, tuple(stand_in if isinstance(kind, DType) else kind for kind in kinds))
    if common != bf16:
        return inputs, result
    return tuple(bf16 if d == f32 else d for d in inputs), bf16 if result == f32 else result


def common(kinds: tuple[Kind, ...]) -> DType:
    """The dtype that arrays and weak scalars of these kinds share (`np.result_type`)."""
    strong = [kind if isinstance(kind, DType) else bool_ for kind in kinds if isinstance(kind, DType) or kind is bool]
    weak = [kind for kind in kinds if not isinstance(kind, DType) and kind is not bool]
    if not strong:
        return dtypes.f64 if float in weak else dtypes.i64
    result = strong[0]
    for kind in strong[1:]:
        result = promote(result, kind)
    for scalar in weak:
        result = promote_weak(result, scalar)
    return result


def default(weak: type) -> DType:
    return {bool: bool_, int: dtypes.i64, float: dtypes.f64}[weak]


def weak_of(dtype: DType) -> type:
    """The Python scalar type of a dtype's kind."""
    kinds: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": float}
    found: type = kinds[dtype.kind]
    return found


def accumulator(dtype: DType) -> DType:
    """The dtype in which NumPy sums and multiplies: integers in 64 bits."""
    if dtype.kind in "bi":
        return dtypes.i64
    return dtypes.u64 if dtype.kind == "u" else dtype
