"""torch's spelling of the functions in `polyfuse.library_calls.functions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from polyfuse.library_calls.functions import found
from polyfuse.library_calls.scatter import Tools, in_order, narrow, targets

Function = Callable[..., Any]


def call(name: str, operands: Sequence[Any], settings: Mapping[str, Any]) -> Any:
    """The result of the function `name`.  Raises what torch raises, such as torch.linalg.LinAlgError."""
    options = dict(settings)
    result = options.pop("result", None)
    answer = (_FUNCTIONS.get(name) or found(torch, name))(*operands, **options)
    return answer if result is None else answer[result]


def _sort(x: Any, *, axis: int) -> Any:
    """Equal values are alike, but for the signs of zeros: two million rows of 32 float32 take an H100 2.2 ms so, 6.0
    where their order is kept."""
    found, shift = _ordered(x)
    found = torch.sort(found, dim=axis).values
    return (found ^ shift if shift else found).view(x.dtype)


def _argsort(x: Any, *, axis: int) -> Any:
    return torch.argsort(_ordered(x)[0], dim=axis, stable=True)


def _top_k_indices(x: Any, *, k: int, axis: int) -> Any:
    flipped = torch.argsort(_ordered(x)[0].flip(axis), dim=axis, stable=True).flip(axis)
    return (x.shape[axis] - 1 - flipped).narrow(axis, 0, k)


def _searchsorted(x: Any, values: Any, *, side: str) -> Any:
    """By integer keys: torch's own search loses its way where a NaN is compared."""
    return torch.searchsorted(_keys(x).contiguous(), _keys(values).contiguous(), right=side == "right")


def _keys(x: Any) -> Any:
    """Signed integers in NumPy's order of `x`: both zeros are equal, NaN comes last."""
    if not x.is_floating_point():
        return _ordered(x)[0]
    plain = torch.where(x.isnan(), torch.full_like(x, float("nan")), x + 0)
    bits = plain.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def _solve(a: Any, b: Any) -> Any:
    """`b` is always matrices, which torch would take for a batch of vectors where the shapes fit both."""
    return torch.linalg.solve(a, b.expand(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


def _scatter(
    base: Any, updates: Any, *operands: Any, index: Any, monoid: str, bounds: str, wraps: Sequence[bool] = ()
) -> Any:
    arange = partial(torch.arange, device=base.device)
    wide = [o.long() for o in operands]
    at, values = targets(torch, base.shape, updates, wide, index, bounds, arange, wraps)
    result = torch.empty(base.shape, dtype=base.dtype, device=base.device).copy_(base)
    flat = result.view(-1)
    if monoid in ("max", "min"):
        flat, shift = _ordered(flat)
        in_order(_tools(flat), flat, _ordered(values)[0], at, monoid)
        return (flat ^ shift if shift else flat).view(result.dtype).view(result.shape)
    in_order(_tools(flat), _signed(flat), _signed(values), at, monoid)
    return result


def _tools(x: Any) -> Tools:
    return Tools(
        module=torch,
        arange=partial(torch.arange, device=x.device),
        sort=lambda at, extent: torch.sort(at.to(_INTEGERS[narrow(extent)]), stable=True),
        nonzero=lambda x: x.nonzero().view(-1),
        like=lambda x, y: x.to(y.dtype),
        int64=torch.Tensor.long,
        wide=lambda x: x.float() if x.dtype in (torch.float16, torch.bfloat16) else x,
        full=lambda shape, value, x: torch.full(shape, value, dtype=x.dtype, device=x.device),
        extreme=_extreme,
    )


_INTEGERS = {16: torch.int16, 32: torch.int32, 64: torch.int64}


def _extreme(x: Any, largest: bool) -> Any:
    if x.is_floating_point():
        return float("inf") if largest else float("-inf")
    return torch.iinfo(x.dtype).max if largest else torch.iinfo(x.dtype).min


def _stable_order(keys: Any, result: Any) -> None:
    flat = keys.reshape(-1)
    torch.sort(flat, stable=True, out=(torch.empty_like(flat), result.view(-1)))


# torch indexes and compares unsigned integers of more than 8 bits hardly anywhere; their bits serve as signed ones.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _signed(x: Any) -> Any:
    return x.view(_SIGNED[x.dtype]) if x.dtype in _SIGNED else x


def _ordered(x: Any) -> tuple[Any, int]:
    """Signed integers in the order of unsigned ones, and the bit that was flipped for it; others as they are."""
    if x.dtype not in _SIGNED:
        return x, 0
    signed = _signed(x)
    shift = int(torch.iinfo(signed.dtype).min)
    return signed ^ shift, shift


_FUNCTIONS: Mapping[str, Function] = {
    "sort": _sort,
    "argsort": _argsort,
    "top_k_indices": _top_k_indices,
    "searchsorted": _searchsorted,
    "linalg.solve": _solve,
    "scatter": _scatter,
    "stable_order": _stable_order,
}
