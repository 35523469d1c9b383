"""Functions that no affine kernel computes: sorting, searching, linear algebra.  Each is one call of the caller's array
library between fused kernels; shapes and dtypes of the results are known while tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.dtypes import DType, bf16, f16, f32, f64, i64
from polyfuse.errors import DTypeError, ShapeError, UnsupportedError
from polyfuse.expr import Call, Shape
from polyfuse.frontends.numpy_like import axes, nodes, promotion
from polyfuse.frontends.numpy_like.elementwise import as_float, isnan, where
from polyfuse.frontends.numpy_like.indexing import take_along_axis
from polyfuse.frontends.numpy_like.lifting import as_dtype, broadcast_shapes, kind_of, lift_all, text_of
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import shape_argument

ArrayLike = object


def library(name: str, operands: Sequence[Tracer], shape: Shape, dtype: DType, **settings: Any) -> Tracer:
    """A call of the caller's array library; the setting `result` says which one where there are several."""
    call = Call(name, tuple(sorted(settings.items())))
    return Tracer(operands[0].state, expr.opaque(call, [o.node for o in operands], shape, dtype))


def opaque(call: Call, operands: Sequence[Tracer], shape: Any, dtype: Any) -> Tracer:
    """The result of any call, with its shape and dtype as a user writes them."""
    trace = operands[0].state
    sizes = shape_argument(trace, shape)
    return Tracer(trace, expr.opaque(call, [o.node for o in operands], sizes, numpy_dtype(dtype)))


class SlogdetResult(NamedTuple):
    sign: Tracer
    logabsdet: Tracer


class EighResult(NamedTuple):
    eigenvalues: Tracer
    eigenvectors: Tracer


class QRResult(NamedTuple):
    Q: Tracer
    R: Tracer


class SVDResult(NamedTuple):
    U: Tracer
    S: Tracer
    Vh: Tracer


# ---------------------------------------------------------------------------------------------- sorting


def _sortable(x: Tracer) -> Tracer:
    """bfloat16 sorts as float32: exact, and every library has it."""
    return Tracer(x.state, nodes.cast(x.node, f32)) if x.element == bf16 else x


def _along(x: ArrayLike, axis: Any) -> tuple[Tracer, int]:
    (array,) = lift_all(x)
    if axis is None:
        return array.reshape(-1), 0
    return array, axes.one(axis, array.ndim)


def _check_kind(kind: Any, order: Any, descending: bool = False) -> None:
    if order is not None:
        raise UnsupportedError("np.sort with order= needs structured arrays", advice="Sort one field at a time.")
    if descending:
        raise UnsupportedError("descending=True is not supported", advice="Write np.flip(np.sort(x, axis), axis).")
    del kind  # every kind of sort is stable here


def sort(
    x: ArrayLike, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Tracer:
    """``np.sort``; NaN stands last."""
    _check_kind(kind, order, descending)
    array, axis = _along(x, axis)
    keys = _sortable(array)
    found = library("sort", [keys], keys.sizes, keys.element, axis=axis)
    return Tracer(array.state, nodes.cast(found.node, array.element))


def argsort(
    x: ArrayLike, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Tracer:
    """``np.argsort``, always stable, so that the answer is the same in every library."""
    _check_kind(kind, order, descending)
    array, axis = _along(x, axis)
    return library("argsort", [_sortable(array)], array.sizes, i64, axis=axis)


def top_k(x: ArrayLike, k: int, axis: int = -1) -> tuple[Tracer, Tracer]:
    """Values and positions of the `k` largest along an axis, largest first; of equal ones the first comes first."""
    array, axis = _along(x, axis)
    extent = array.sizes[axis]
    if k < 0 or not array.state.decide(extent - k):
        raise ShapeError(f"the {k} largest of an axis of size {extent}")
    shape = tuple(Affine.of(k) if d == axis else n for d, n in enumerate(array.sizes))
    indices = library("top_k_indices", [_sortable(array)], shape, i64, axis=axis, k=k)
    return take_along_axis(array, indices, axis), indices


def partition(x: ArrayLike, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    """A sort: every position is in place, not only `kth`."""
    return sort(x, axis, None, order)


def argpartition(x: ArrayLike, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    return argsort(x, axis, None, order)


def median(x: ArrayLike, axis: Any = None, keepdims: bool = False) -> Tracer:
    """The mean of the middle two of the sorted axis; NaN where there is one."""
    array, place = _along(x, axis)
    ordered = sort(array, place)
    extent = ordered.shape[place]
    before: tuple[Any, ...] = (slice(None),) * place
    wide = as_float(ordered).astype(as_float(ordered).element.compute.numpy)
    low = wide[(*before, slice((extent - 1) // 2, (extent - 1) // 2 + 1))]
    high = wide[(*before, slice(extent // 2, extent // 2 + 1))]
    last = wide[(*before, slice(-1, None))]
    found = where(isnan(last), last, (low + high) / 2).astype(as_float(ordered).dtype)
    if axis is None:
        (whole,) = lift_all(x)
        return found.reshape((1,) * whole.ndim) if keepdims else found[0]
    return found if keepdims else found[(*before, 0)]


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike = None) -> Tracer:
    """``np.searchsorted``: where to insert `v` into the sorted vector `a`."""
    keys, values = lift_all(a, v)
    if keys.ndim != 1:
        raise ShapeError(f"searchsorted needs a sorted vector, not an array of rank {keys.ndim}")
    if side not in ("left", "right"):
        raise UnsupportedError(f"searchsorted has no side {side!r}", advice='Write side="left" or side="right".')
    if sorter is not None:
        keys = keys[sorter]
    common = promotion.common((kind_of(keys), kind_of(values)))
    common = f32 if common == bf16 else common
    operands = [Tracer(t.state, as_dtype(t, common)) for t in (keys, values)]
    return library("searchsorted", operands, values.sizes, i64, side=side)


# ---------------------------------------------------------------------------------------------- linear algebra


def _matrices(name: str, x: ArrayLike, square: bool = True) -> Tracer:
    """Stacks of matrices in float32 or float64.  Raises ShapeError and DTypeError as NumPy does."""
    (array,) = lift_all(x)
    if array.ndim < 2:
        raise ShapeError(f"np.linalg.{name} needs matrices, not an array of rank {array.ndim}")
    if array.element in (f16, bf16):
        raise DTypeError(f"np.linalg.{name} does not accept {array.dtype}", advice="Cast with .astype(np.float32).")
    rows, columns = array.sizes[-2:]
    if square and not (rows == columns or array.state.equal(rows, columns)):
        raise ShapeError(f"np.linalg.{name} needs square matrices, not {text_of(array.sizes)}")
    return array if array.element.is_float else Tracer(array.state, as_dtype(array, f64))


def same_shape(name: str, x: ArrayLike) -> Tracer:
    """A function of square matrices that gives matrices of their shape."""
    a = _matrices(name, x)
    return library(f"linalg.{name}", [a], a.sizes, a.element)


def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Tracer:
    """The lower triangular factor; its transpose where `upper`."""
    factor = same_shape("cholesky", x)
    return factor.mT if upper else factor


def pinv(x: ArrayLike) -> Tracer:
    a = _matrices("pinv", x, square=False)
    return library("linalg.pinv", [a], (*a.sizes[:-2], a.sizes[-1], a.sizes[-2]), a.element)


def det(x: ArrayLike) -> Tracer:
    a = _matrices("det", x)
    return library("linalg.det", [a], a.sizes[:-2], a.element)


def slogdet(x: ArrayLike) -> SlogdetResult:
    """Sign and logarithm of the determinant."""
    a = _matrices("slogdet", x)
    return SlogdetResult(*(library("linalg.slogdet", [a], a.sizes[:-2], a.element, result=k) for k in (0, 1)))


def solve(a: ArrayLike, b: ArrayLike) -> Tracer:
    """``np.linalg.solve``: `b` is one vector, or a stack of matrices."""
    a, b = lift_all(a, b)
    a, vector = _matrices("solve", a), b.ndim == 1
    b = _matrices("solve", b[:, None] if vector else b, square=False)
    if not a.state.equal(a.sizes[-1], b.sizes[-2]):
        raise ShapeError(f"np.linalg.solve: {text_of(a.sizes)} and {text_of(b.sizes)} have other numbers of rows")
    common = promotion.common((a.element, b.element))
    batch = broadcast_shapes(a.state, a.sizes[:-2], b.sizes[:-2])
    operands = [Tracer(t.state, as_dtype(t, common)) for t in (a, b)]
    found = library("linalg.solve", operands, (*batch, *b.sizes[-2:]), common)
    return found[..., 0] if vector else found


def eigvalsh(x: ArrayLike, UPLO: str = "L") -> Tracer:
    a = _lower(_matrices("eigvalsh", x), UPLO)
    return library("linalg.eigvalsh", [a], a.sizes[:-1], a.element)


def eigh(x: ArrayLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues in rising order, and eigenvectors as columns."""
    a = _lower(_matrices("eigh", x), UPLO)
    shapes = (a.sizes[:-1], a.sizes)
    return EighResult(*(library("linalg.eigh", [a], s, a.element, result=k) for k, s in enumerate(shapes)))


def _lower(a: Tracer, triangle: str) -> Tracer:
    return a.mT if triangle == "U" else a


def _least(a: Tracer) -> Affine:
    rows, columns = a.sizes[-2:]
    return rows if a.state.decide(columns - rows) else columns


def qr(x: ArrayLike, mode: str = "reduced") -> QRResult:
    a = _matrices("qr", x, square=False)
    if mode not in ("reduced", "complete"):
        raise UnsupportedError(f"np.linalg.qr with mode={mode!r} is not supported", advice='Use mode="reduced".')
    *batch, rows, columns = a.sizes
    inner = rows if mode == "complete" else _least(a)
    shapes = ((*batch, rows, inner), (*batch, inner, columns))
    return QRResult(*(library("linalg.qr", [a], s, a.element, mode=mode, result=k) for k, s in enumerate(shapes)))


def svd(x: ArrayLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    a = _matrices("svd", x, square=False)
    *batch, rows, columns = a.sizes
    inner = _least(a)
    if not compute_uv:
        return svdvals(x)
    left, right = (rows, columns) if full_matrices else (inner, inner)
    shapes = ((*batch, rows, left), (*batch, inner), (*batch, right, columns))
    full = bool(full_matrices)
    return SVDResult(
        *(library("linalg.svd", [a], s, a.element, full_matrices=full, result=k) for k, s in enumerate(shapes))
    )


def svdvals(x: ArrayLike) -> Tracer:
    a = _matrices("svdvals", x, square=False)
    return library("linalg.svd", [a], (*a.sizes[:-2], _least(a)), a.element, full_matrices=False, result=1)


# ---------------------------------------------------------------------------------------------- complex results


def refuse_complex(name: str, *_: Any, **__: Any) -> Any:
    raise UnsupportedError(
        f"np.{name} has complex results, and programs are real",
        advice="Call it outside the jitted function, and pass the real and the imaginary part as two arrays.",
    )


def shift(sign: int, x: ArrayLike, axes: Any = None) -> Tracer:
    """fftshift and ifftshift: a roll by half of each axis."""
    (array,) = lift_all(x)
    found = tuple(range(array.ndim)) if axes is None else (axes if isinstance(axes, (tuple, list)) else (axes,))
    steps = [array.shape[a] // 2 if sign > 0 else -(array.shape[a] // 2) for a in found]
    result: Tracer = array.state.functions["roll"](array, steps, found)
    return result


_COMPLEX = [
    f"fft.{n}" for n in "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft".split()
]
_COMPLEX += ["linalg.eig", "linalg.eigvals"]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (sort, argsort, top_k, partition, argpartition, median, searchsorted)},
    **{f"linalg.{f.__name__}": f for f in (cholesky, pinv, det, slogdet, solve, eigh, eigvalsh, qr, svd, svdvals)},
    "linalg.inv": partial(same_shape, "inv"),
    **{n: partial(refuse_complex, n) for n in _COMPLEX},
    "fft.fftshift": partial(shift, 1),
    "fft.ifftshift": partial(shift, -1),
}
