"""What an `Opaque` node may call by name, over any module that spells its functions as NumPy does (NumPy, CuPy).

=============================  ====================================================================================
name                           result
=============================  ====================================================================================
sort, argsort, top_k_indices   along ``axis``, NaN last; equal elements keep their order, so that indices are unique,
                               of a sort but for the signs of zeros
searchsorted                   int64 positions in a sorted vector, ``side`` left or right
scatter                        `polyfuse.library_calls.scatter`
stable_order                   positions of integers, by number, of equal ones in their order; it writes its last
                               operand, which is the result
linalg.<function>              the module's; ``result`` picks one of several
anything else                  the module's function of that name
=============================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyfuse.library_calls.orders import largest, stable_order
from polyfuse.library_calls.scatter import Tools, in_order, narrow, scatter, targets

Function = Callable[..., Any]


def call(module: Any, name: str, operands: Sequence[Any], settings: Mapping[str, Any]) -> Any:
    """The result of the function `name`; None where it writes its last operand.  Raises what the module raises, such as
    its LinAlgError."""
    options = dict(settings)
    result = options.pop("result", None)
    own = _FUNCTIONS.get(name)
    answer = own(module, *operands, **options) if own else found(module, name)(*operands, **options)
    return answer if result is None else answer[result]


def found(module: Any, name: str) -> Function:
    """``linalg.solve`` of a module."""
    for part in name.split("."):
        module = getattr(module, part)
    function: Function = module
    return function


def _sort(module: Any, x: Any, *, axis: int) -> Any:
    """Equal values are alike, but for the signs of zeros, and NumPy takes many times as long to keep their order."""
    return module.sort(x, axis=axis)


def _argsort(module: Any, x: Any, *, axis: int) -> Any:
    return stable_order(x, axis) if module is np else module.argsort(x, axis=axis, kind="stable")


def _top_k_indices(module: Any, x: Any, *, k: int, axis: int) -> Any:
    """The positions of the k largest, largest first, NaN before all numbers; of equal elements the first one first."""
    if module is np:
        return largest(x, k, axis)
    last = module.moveaxis(x, axis, -1)
    order = last.shape[-1] - 1 - module.argsort(last[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return module.moveaxis(order[..., :k], -1, axis)


def _scatter(
    module: Any, base: Any, updates: Any, *operands: Any, index: Any, monoid: str, bounds: str, wraps: Any = ()
) -> Any:
    if module is np:
        return scatter(base, updates, *operands, index=index, monoid=monoid, bounds=bounds, wraps=wraps)
    result = module.array(base, order="C")
    wide = [o.astype(np.int64) for o in operands]
    at, values = targets(module, base.shape, updates, wide, index, bounds, module.arange, wraps)
    in_order(tools_of(module), result.reshape(-1), values, at, monoid)
    return result


def tools_of(module: Any) -> Tools:
    """For modules that spell their functions as NumPy does."""
    def sort(at: Any, extent: int) -> tuple[Any, Any]:
        keys = at.astype(f"i{narrow(extent) // 8}")
        order = module.argsort(keys, kind="stable")
        return keys[order], order

    def extreme(x: Any, largest: bool) -> Any:
        if x.dtype.kind not in "biu":
            return np.inf if largest else -np.inf
        bounds = np.iinfo(x.dtype)
        return bounds.max if largest else bounds.min

    return Tools(
        module=module,
        arange=module.arange,
        sort=sort,
        nonzero=module.flatnonzero,
        like=lambda x, y: x.astype(y.dtype),
        int64=lambda x: x.astype(np.int64),
        wide=lambda x: x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x,
        full=lambda shape, value, x: module.full(shape, value, x.dtype),
        extreme=extreme,
    )


def _stable_order(module: Any, keys: Any, result: Any) -> None:
    result[...] = _argsort(module, keys.reshape(-1), axis=0).reshape(result.shape)


_FUNCTIONS: Mapping[str, Function] = {
    "sort": _sort,
    "argsort": _argsort,
    "top_k_indices": _top_k_indices,
    "scatter": _scatter,
    "stable_order": _stable_order,
}
