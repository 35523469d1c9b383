"""`numpy.polynomial` is traced like the user's code, but for what looks at the values of coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.polynomial import polyutils

from polyfuse.errors import ShapeError
from polyfuse.frontends.numpy_like import promotion
from polyfuse.frontends.numpy_like.lifting import as_dtype, as_real, lift, trace_of
from polyfuse.frontends.numpy_like.tracer import Tracer


def as_series(alist: Sequence[Any], trim: bool = True) -> list[Tracer]:
    """Vectors of coefficients in one float dtype.  Zeros at the end stay, which NumPy drops: a shape says nothing of
    values."""
    del trim
    vectors = [as_real(lift(trace_of(alist), a)).reshape(-1) for a in alist]
    if not all(v.state.decide(v.sizes[0] - 1) for v in vectors):
        raise ShapeError("a polynomial has one coefficient at least")
    dtype = promotion.common(tuple(v.element for v in vectors))
    return [Tracer(v.state, as_dtype(v, dtype)) for v in vectors]


def trimseq(seq: Any) -> Any:
    """As it is, like the coefficients of `as_series`."""
    return seq


INSTEAD: dict[Callable[..., Any], Callable[..., Any]] = {
    polyutils.as_series: as_series,
    polyutils.trimseq: trimseq,
}
