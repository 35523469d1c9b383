"""``np.linalg``: factorisations and solvers are calls of the caller's array library between fused kernels; what follows
from them (norms, condition, rank) is composed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import index
from typing import Any, NamedTuple

import numpy as np

from polyfuse.affine import Affine
from polyfuse.dtypes import bf16, f16, f64
from polyfuse.errors import DTypeError, MatrixError, ShapeError, UnsupportedError
from polyfuse.frontends.numpy_like import axes, nodes, promotion, reductions
from polyfuse.frontends.numpy_like.boundaries import library
from polyfuse.frontends.numpy_like.contractions import matmul
from polyfuse.frontends.numpy_like.creation import eye
from polyfuse.frontends.numpy_like.elementwise import ufunc, where
from polyfuse.frontends.numpy_like.lifting import as_dtype, broadcast_shapes, lift, lift_all, text_of
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import expand_dims, moveaxis

ArrayLike = object


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


# ---------------------------------------------------------------------------------------------- linear algebra


def _matrices(name: str, x: ArrayLike, square: bool = True) -> Tracer:
    """Stacks of matrices in float32 or float64.  Raises MatrixError and DTypeError as NumPy does."""
    (array,) = lift_all(x)
    if array.ndim < 2:
        raise MatrixError(f"np.linalg.{name} needs matrices, not an array of rank {array.ndim}")
    if array.element in (f16, bf16):
        raise DTypeError(f"np.linalg.{name} does not accept {array.dtype}", advice="Cast with .astype(np.float32).")
    if square:
        _check_square(name, array)
    return array if array.element.is_float else Tracer(array.state, as_dtype(array, f64))


def _check_square(name: str, array: Tracer) -> None:
    rows, columns = array.sizes[-2:]
    if not (rows == columns or array.state.equal(rows, columns)):
        raise MatrixError(f"np.linalg.{name} needs square matrices, not {text_of(array.sizes)}")


def same_shape(name: str, x: ArrayLike) -> Tracer:
    """A function of square matrices that gives matrices of their shape."""
    a = _matrices(name, x)
    return library(f"linalg.{name}", [a], a.sizes, a.element)


def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Tracer:
    """The lower triangular factor; its transpose where `upper`."""
    factor = same_shape("cholesky", x)
    return factor.mT if upper else factor


def matrix_power(x: ArrayLike, n: int) -> Tracer:
    """By repeated squaring; of the inverse for negative `n`."""
    (array,) = lift_all(x)
    if array.ndim < 2:
        raise MatrixError(f"np.linalg.matrix_power needs matrices, not an array of rank {array.ndim}")
    _check_square("matrix_power", array)
    n = index(n)
    if n < 0:
        return matrix_power(same_shape("inv", array), -n)
    if n == 0:
        identity = eye(array.state, array.shape[-1], dtype=array.dtype)
        return Tracer(array.state, nodes.broadcast(identity.node, array.sizes))
    if n == 1:
        return array[...]
    half = matrix_power(array, n // 2)
    return matmul(matmul(half, half), array) if n % 2 else matmul(half, half)


def pinv(x: ArrayLike, rcond: ArrayLike = None, hermitian: bool = False, *, rtol: ArrayLike = None) -> Tracer:
    """The pseudo-inverse.  `rtol` (or `rcond`): singular values up to this share of the largest count as zero."""
    limit = rtol if rcond is None else rcond
    if limit is None:
        a = _matrices("pinv", x, square=False)
        return library("linalg.pinv", [a], (*a.sizes[:-2], a.sizes[-1], a.sizes[-2]), a.element)
    left, values, right = svd(x, full_matrices=False)
    share = lift(values.state, limit)
    cutoff = share[..., None] * reductions.max_(values, -1, keepdims=True, initial=0)
    kept = ufunc("greater", values, cutoff)
    inverse = where(kept, ufunc("divide", 1, where(kept, values, 1)), 0)
    result = matmul(right.mT, inverse[..., None] * left.mT)
    return Tracer(result.state, as_dtype(result, values.element))


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


def qr(x: ArrayLike, mode: str = "reduced") -> Any:
    """Q and R; R alone where `mode` is "r"."""
    a = _matrices("qr", x, square=False)
    if mode == "r":
        return qr(a).R
    if mode not in ("reduced", "complete"):
        raise UnsupportedError(f"np.linalg.qr with mode={mode!r} is not supported", advice='Use mode="reduced".')
    *batch, rows, columns = a.sizes
    inner = rows if mode == "complete" else _least(a)
    shapes = ((*batch, rows, inner), (*batch, inner, columns))
    return QRResult(*(library("linalg.qr", [a], s, a.element, mode=mode, result=k) for k, s in enumerate(shapes)))


def svd(x: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Of any matrix in one way: vectors of equal singular values are not those that `hermitian` gives."""
    if hermitian and compute_uv:
        raise UnsupportedError("np.linalg.svd with hermitian=True is not supported", advice="Use np.linalg.eigh.")
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


def lstsq(a: ArrayLike, b: ArrayLike, rcond: Any = None) -> tuple[Tracer, Tracer, Tracer, Tracer]:
    """Solution, sums of squared residuals (of matrices of full column rank), rank, singular values."""
    a, b = lift_all(a, b)
    a, vector = _matrices("lstsq", a, square=False), b.ndim == 1
    b = _matrices("lstsq", b[:, None] if vector else b, square=False)
    if rcond is not None:
        raise UnsupportedError("np.linalg.lstsq with rcond= is not supported", advice="Leave rcond out.")
    common = promotion.common((a.element, b.element))
    operands = [Tracer(t.state, as_dtype(t, common)) for t in (a, b)]
    shape = (a.sizes[-1], b.sizes[-1])
    x = library("linalg.lstsq", operands, shape, common, result=0)
    rest = b - matmul(a, x)
    squares = (rest * rest).sum(axis=0)
    if not a.state.decide(a.sizes[0] - a.sizes[1] - 1):  # every equation holds: NumPy gives no squares
        squares = squares[:0]
    return (x[:, 0] if vector else x), squares, matrix_rank(a).astype(np.int32), svdvals(a)


def matrix_rank(x: ArrayLike, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tracer:
    """How many singular values exceed the largest times max(M, N) times the rounding of the dtype."""
    (array,) = lift_all(x)
    if array.ndim < 2:
        return array.astype(np.bool_).any().astype(np.int64)
    a = _matrices("matrix_rank", array, square=False)
    singular = svdvals(a)
    if tol is None:
        rows, columns = a.shape[-2:]
        largest = rows if a.state.decide(a.sizes[-2] - a.sizes[-1]) else columns
        factor = largest * float(np.finfo(a.dtype).eps) if rtol is None else lift(a.state, rtol)[..., None]
        tol = reductions.max_(singular, -1, keepdims=True, initial=0) * factor
    else:
        tol = lift(a.state, tol)[..., None]
    return reductions.sum_(singular > tol, -1)


def norm(x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tracer:
    """Norms by singular values here, all others as reductions.  Raises ShapeError as NumPy does."""
    ord = float(ord) if isinstance(ord, Tracer) else ord
    (array,) = lift_all(x)
    reduced = axes.sequence(axis, array.ndim)
    if ord is not None and len(reduced) > 2:
        raise ShapeError(f"np.linalg.norm with ord={ord!r} takes one or two axes, not {len(reduced)}")
    if len(reduced) != 2 or ord not in (2, -2, "nuc"):
        return reductions.norm(array, ord, axis, keepdims)
    singular = svdvals(moveaxis(array, reduced, (-2, -1)))
    result = {2: reductions.max_, -2: reductions.min_, "nuc": reductions.sum_}[ord](singular, -1)
    return expand_dims(result, tuple(sorted(reduced))) if keepdims else result


def cond(x: ArrayLike, p: Any = None) -> Tracer:
    """The condition number in any norm."""
    a = _matrices("cond", x, square=p not in (None, 2, -2))
    if p not in (None, 2, -2):
        return norm(a, p, (-2, -1)) * norm(same_shape("inv", a), p, (-2, -1))
    singular = svdvals(a)
    return singular[..., -1] / singular[..., 0] if p == -2 else singular[..., 0] / singular[..., -1]


def tensorinv(a: ArrayLike, ind: int = 2) -> Tracer:
    """The inverse of ``tensordot(a, x, ind)``."""
    (a,) = lift_all(a)
    flipped = (*a.shape[ind:], *a.shape[:ind])
    rows = _product(a.shape[:ind])
    return same_shape("inv", a.reshape(rows, -1)).reshape(flipped)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Any = None) -> Tracer:
    """The `x` of ``tensordot(a, x, x.ndim) == b``."""
    a, b = lift_all(a, b)
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(a.ndim - len(axes), a.ndim)))
    shape = a.shape[b.ndim :]
    return solve(a.reshape(-1, _product(shape)), b.reshape(-1)).reshape(shape)


def _product(sizes: Any) -> Any:
    return reduce(lambda m, n: m * n, sizes, 1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"linalg.{f.__name__}": f for f in (cholesky, pinv, det, slogdet, solve, eigh, eigvalsh, qr, svd, svdvals)},
    **{f"linalg.{f.__name__}": f for f in (lstsq, matrix_power, matrix_rank, norm, cond, tensorinv, tensorsolve)},
    "linalg.inv": partial(same_shape, "inv"),
    "linalg.matrix_norm": lambda x, *, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims),
}
