"""The table of operations: one row per spelling.  `CASES` is what every back end is checked on.

A row is an expression over its arrays and over numbers that are drawn for it (`op_draws.NUMBERS`: ``a`` an axis, ``A``
axes or None, ``keep``, ``s`` a subscript, ...).  `{}` in it stands for each of `names`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`own`: compare with NumPy in the dtypes of the arguments, because a rounding in float64 would decide otherwise.
    `special`: NaN, infinities and zeros of both signs among the values.  `loose`: factor on the tolerance."""

    text: str
    arrays: str
    domain: str = "any"
    own: bool = False
    special: bool = False
    loose: float = 1.0


def table(arrays: str, *texts: str, names: str = "", **options: object) -> Iterator[Row]:
    for text in texts:
        for name in names.split() or [""]:
            yield Row(text.replace("{}", name), arrays, **options)  # type: ignore[arg-type]


ELEMENTWISE = (
    *table(
        "x:*:number", "np.{}(x)", names="positive absolute abs fabs square floor ceil trunc rint sign fix", special=True
    ),
    *table("x:*:signed", "np.{}(x)", "-x", "+x", "abs(x)", names="negative"),
    *table(
        "x:*:any",
        "np.{}(x)",
        names="isnan isinf isfinite logical_not signbit conjugate conj real".split()[0],
        special=True,
    ),
    *table("x:*:any", "np.{}(x)", names="isinf isfinite logical_not conj real isreal iscomplex imag", special=True),
    *table("x:*:number", "np.{}(x)", names="signbit conjugate isneginf isposinf", special=True),
    *table(
        "x:*:any",
        "np.{}(x)",
        names="exp exp2 expm1 sin cos tan arctan sinh cosh tanh arcsinh cbrt deg2rad rad2deg radians degrees",
        loose=8,
    ),
    *table("x:*:number", "np.{}(x)", names="sqrt log log2 log10 log1p reciprocal", domain="positive", loose=4),
    *table("x:*:float", "np.{}(x)", names="arcsin arccos arctanh", domain="unit", loose=8),
    *table("x:*:float", "np.{}(x)", names="exp sqrt log tanh", special=True, loose=8),
    *table("x:*:any", "np.{}(x)", names="sinc i0", special=True, loose=8),
    *table("x:*:float", "np.arccosh(x)", domain="above one", loose=8),
    *table(
        "x:*:number y:*:number", "np.{}(x, y)", names="add subtract multiply maximum minimum fmax fmin", special=True
    ),
    *table("x:*:number y:*:number", "x + y", "x - y", "x * y", "np.power(x, y)", "x ** y", domain="small", loose=8),
    *table(
        "x:*:number y:*:number", "np.{}(x, y)", names="floor_divide remainder mod fmod divide true_divide", own=True
    ),
    *table("x:*:real y:*:real", "x // y", "x % y", "divmod(x, y)", "np.divmod(x, y)", own=True, special=True),
    *table("x:*:number y:*:number", "x / y", "np.float_power(x, y)", domain="positive", loose=8),
    *table(
        "x:*:any y:*:any",
        "np.{}(x, y)",
        names="less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor",
        special=True,
    ),
    *table("x:*:any y:*:any", "x < y", "x <= y", "x > y", "x >= y", "x == y", "x != y", special=True),
    *table(
        "x:*:float y:*:float", "np.{}(x, y)", names="copysign arctan2 hypot logaddexp logaddexp2 heaviside", loose=8
    ),
    *table("x:*:float y:=:float", "np.nextafter(x, y)", own=True, special=True),
    *table("x:*:any", "np.spacing(x)", own=True, special=True),
    *table("x:*:bits y:*:bits", "np.{}(x, y)", names="bitwise_and bitwise_or bitwise_xor"),
    *table("x:*:bits y:*:bits", "x & y", "x | y", "x ^ y"),
    *table("x:*:bits", "np.{}(x)", "~x", names="invert bitwise_not"),
    *table("x:*:integer", "np.bitwise_count(x)"),
    *table("x:*:integer y:*:integer", "np.{}(x, y)", names="left_shift right_shift gcd lcm", domain="small"),
    *table("x:*:integer y:*:integer", "x << y", "x >> y", domain="small"),
    *table("x:*:single n:*:index", "np.ldexp(x, n)"),
    *table("x:*:single", "np.frexp(x)", "np.modf(x)", own=True, special=True),
    *table("x:*:number", "x ** 2", "x ** 3", "x * c + 1", "2 - x", "c / (x * x + 1)", "x // 2", "x % 3", own=True),
    *table("x:*:number", "np.round(x)", "np.round(x, 1)", "np.around(x, w)", "x.round(1)", own=True),
    *table("m:*:bool x:*:any y:*:any", "np.where(m, x, y)", special=True),
    *table(
        "x:*:number",
        "np.where(x > 1, x, 0)",
        "np.where(x > 1, 1, c)",
        "np.clip(x, 0, 2)",
        "x.clip(1)",
        "np.clip(x, None, 2)",
    ),
    *table("x:*:any z::number", "np.clip(x, 0, np.abs(z))", "np.clip(x, -z * z, 3)", domain="small"),
    *table("x:*:number y:*:number z:*:number", "np.clip(x, np.minimum(y, z), np.maximum(y, z))"),
    *table("x:*:number y:*:number", "np.select([x > 1, x > 0], [x, y], 7)", "np.select([x > 1], [y])"),
    *table("x:*:number", "np.select([x > 1, x > 0], [x, x], -1)", "np.select([x > 1], [x], 300)"),
    *table("x:*:number", "np.piecewise(x, [x > 1, x <= 0], [2, lambda v: v + 1, 5])", "np.choose(x > 1, [x, x * 2])"),
    *table("x:*:index y:*:any", "np.choose(x, [y, 2 * y, y * y], mode='clip')", "np.choose(x, (1, y), mode='wrap')"),
    *table("x:*:any y:*:any", "np.choose(x > 1, [x, y])", "np.choose(x > 1, [True, False])"),
    *table("x:*:number", "np.nan_to_num(x)", "np.nan_to_num(x, nan=1, posinf=2)", special=True),
    *table("x:*:number y:IJ:number", "np.nan_to_num(x, nan=y.mean(), neginf=y.max())", special=True),
    *table("x:*:float y:*:float", "np.isclose(x, y)", "np.isclose(x, y, equal_nan=True)", own=True, special=True),
    *table("x:*:float y:*:float", "np.allclose(x, y)", "np.array_equal(x, y)", own=True, special=True),
    *table("x:*:any y:*:any", "np.array_equal(x, y)", "np.array_equal(x, x)", "np.array_equiv(x, y)"),
    *table("x:*:any", "x.astype(cast)", "np.astype(x, cast)", "x.copy()", "np.copy(x)", domain="small"),
    *table("x:*:float", "x.view(f'int{8 * x.dtype.itemsize}')", own=True),
    *table("x:*:number", "np.add(x, 1, where=x > 0, out=np.zeros_like(x))", "np.negative(x, dtype=dt)", domain="small"),
    *table("x:*:number y:*:number", "np.add(x, y, dtype='float64')", "np.maximum(x, y, dtype='float64')"),
    *table("x:+:double", "np.unwrap(x)", "np.unwrap(x, axis=a)"),
    *table("x:*:any", "np.angle(x)", "np.angle(x, deg=True)"),
    *table("x:*:number", "np.add(x, 1, np.zeros_like(x))", "np.multiply(x, x, order='F')", domain="small"),
    *table("x:*:bool", "np.square(x)", "x**2", "np.round(x)", "np.reciprocal(x)"),
    *table("x:*:integer", "x < 300", "x >= -1", "x == 1000", "-200 < x", "x != 70000"),
    *table("x:*:float", "x.astype(x.dtype, copy=False) + x.astype('float64', copy=False)"),
)

REDUCTIONS = (
    *table("x:*:any", "np.{}(x, axis=A, keepdims=keep)", "x.{}(axis=A)", names="sum prod mean any all", loose=8),
    *table("x:*:number", "np.{}(x, axis=A, keepdims=keep)", "x.{}()", names="var std", loose=16),
    *table("x:*:any", "np.{}(x, axis=A, keepdims=keep)", names="max min amax amin", special=True),
    *table("x:*:number", "np.ptp(x, axis=A, keepdims=keep)", "x.max(a)", "x.min(axis=a, initial=1)", own=True),
    *table(
        "x:*:number", "np.var(x, A, ddof=1)", "np.std(x, A, ddof=1, keepdims=keep)", "np.var(x, correction=1)", loose=16
    ),
    *table(
        "x:*:number",
        "np.sum(x, axis=A, dtype=dt)",
        "np.prod(x, axis=A, dtype='float64')",
        "x.mean(dtype='f8')",
        loose=8,
    ),
    *table(
        "x:*:number",
        "np.sum(x, axis=A, initial=3)",
        "np.prod(x, axis=A, initial=2)",
        "np.max(x, initial=1, axis=A)",
        loose=8,
    ),
    *table("x:*:number m:=:bool", "np.{}(x, axis=A, where=m)", "x.{}(where=m)", names="sum prod mean", loose=8),
    *table("x:*:number m:=:bool", "np.max(x, axis=A, where=m, initial=0)", "x.min(where=m, initial=2)"),
    *table("x:*:number m:=:bool", "np.{}(x, axis=A, where=m)", names="var std", loose=16),
    *table("x:*:bool m:=:bool", "np.any(x, axis=A, where=m)", "np.all(x, axis=A, where=m)"),
    *table("x:*:any", "np.{}(x, axis=A and None)", "x.{}()", names="argmax argmin", special=True),
    *table(
        "x:+:any", "np.{}(x, axis=a)", "np.{}(x, axis=a, keepdims=True)", "x.{}(a)", names="argmax argmin", special=True
    ),
    *table("x:*:any", "np.count_nonzero(x, axis=A, keepdims=keep)", "np.count_nonzero(x)"),
    *table("x:IJ:number", "np.average(x, axis=A)", loose=8),
    *table("x:IJ:number w:=:double", "np.average(x, axis=A, weights=w)", domain="positive", loose=8),
    *table("x:Ij:number w:I:double", "np.average(x, axis=0, weights=w, returned=True)", domain="positive", loose=8),
    *table("x:*:float", "np.{}(x, axis=A)", names="nansum nanprod nanmean nanvar nanstd", special=True, loose=16),
    *table("x:*:float", "np.{}(x, axis=A, keepdims=keep)", names="nanmax nanmin", special=True),
    *table("x:+:number", "np.nanargmax(x, axis=a)", "np.nanargmin(x)"),
    *table("x:*:any", "np.{}.reduce(x, axis=A)", names="add multiply maximum minimum logical_and logical_or", loose=8),
    *table("x:*:float", "np.{}.reduce(x, axis=A)", names="fmax fmin", special=True),
    *table("x:+:number", "np.logaddexp.reduce(x, axis=a)", loose=8),
    *table("x:*:bits", "np.{}.reduce(x, axis=A)", names="bitwise_or bitwise_and bitwise_xor"),
    *table("x:+:any", "np.{}.accumulate(x, axis=a)", names="add maximum minimum logical_or logical_and", loose=8),
    *table("x:+:double", "np.{}.accumulate(x, axis=a)", names="subtract divide hypot arctan2 logaddexp", loose=8),
    *table("x:+:double", "np.{}.reduce(x, axis=a)", "np.{}.reduce(x, a, keepdims=True)", names="subtract divide hypot"),
    *table("x:+:index", "np.{}.accumulate(x, -1)", names="subtract bitwise_xor divide", loose=8),
    *table("x:+:float", "np.multiply.accumulate(x)", "np.fmax.accumulate(x, a)", loose=8),
    *table("x:*:number", "np.maximum.reduce([x, x * 2])", "np.add.reduce([x, x], 0)", "np.minimum.reduce((x, x), 0)"),
    *table("x:ij:number", "np.sum(x, 1, 'f8', np.zeros(x.shape[0]))", "x.mean(1, 'f8', np.zeros(x.shape[0]))", loose=8),
    *table("x:ij:number", "np.any(x, 0, np.zeros(x.shape[1], bool))", "x.all(axis=0, out=np.ones(x.shape[1], bool))"),
    *table("x:*:any y:+:any", "np.{}.outer(x, y)", names="add multiply less maximum logical_and"),
    *table(
        "x:+:any",
        "np.{}(x, axis=a)",
        "x.{}(a)",
        "np.{}(x)",
        "np.{}(x, axis=a, dtype='f8')",
        names="cumsum cumprod",
        loose=8,
    ),
    *table("x:+:float", "np.nancumsum(x, axis=a)", "np.nancumprod(x, axis=a)", special=True, loose=8),
    *table("x:i:number", "np.cumulative_sum(x)", "np.cumulative_prod(x, include_initial=True)", loose=8),
    *table("x:*:any", "np.linalg.norm(x)", "np.linalg.vector_norm(x, axis=A, keepdims=keep)", loose=8),
    *table(
        "x:+:any", "np.linalg.norm(x, axis=a)", "np.linalg.norm(x, 1, axis=a)", "np.linalg.norm(x, 3, a)", loose=8
    ),
    *table(
        "x:+:any",
        "np.linalg.norm(x, np.inf, axis=a)",
        "np.linalg.norm(x, 0, a)",
        "np.linalg.norm(x, -np.inf, a)",
        loose=8,
    ),
    *table("x:IJ:any", "np.linalg.norm(x, {})", names="'fro' 1 -1 np.inf -np.inf", loose=8),
    *table("x:kIJ:any", "np.linalg.norm(x, axis=(1, 2))", "np.linalg.matrix_norm(x, keepdims=keep)", loose=8),
    *table(
        "x:IJ:double",
        "np.median(x, axis=a)",
        "np.median(x)",
        "np.median(x, axis=a, keepdims=True)",
        loose=8,
    ),
    *table(
        "x:IJ:double",
        "np.quantile(x, 0.3, axis=A, keepdims=keep)",
        "np.percentile(x, [0, 30, 99.5, 100], axis=A)",
        "np.median(x, axis=A, keepdims=keep)",
        "np.nanmedian(np.where(x > 2, np.nan, x), axis=a)",
        "np.nanquantile(np.where(x > 2, np.nan, x), [[0.1, 0.9]], axis=a)",
        "np.nanpercentile(np.where(x > 2, np.nan, x), 70, axis=A)",
        "np.quantile(x, [0.2, 0.7], axis=a, method='inverted_cdf', weights=np.abs(x))",
        loose=8,
    ),
    *table(
        "x:IJ:double q:k:double",
        "np.quantile(x, np.abs(q) / 3, axis=A, method={})",
        names="'averaged_inverted_cdf' 'interpolated_inverted_cdf' 'hazen' 'weibull' 'linear' 'median_unbiased'",
        loose=8,
    ),
    *table(
        "x:IJ:number",
        "np.quantile(x, [0.0, 0.25, 0.5, 0.75, 1.0], axis=a, method={})",
        names="'inverted_cdf' 'closest_observation' 'lower' 'higher' 'nearest' 'midpoint' 'normal_unbiased'",
        own=True,
        loose=8,
    ),
    *table("x:IJ:single", "np.cov(x)", "np.cov(x, rowvar=False)", "np.corrcoef(x)", "np.cov(x, bias=True)", loose=64),
    *table("x:+:number", "np.trapezoid(x, axis=a)", "np.trapezoid(x, dx=0.5)", loose=8),
    *table(
        "x:I:double", "np.trapezoid(x, x * x)", "np.histogram(x, 4)", "np.histogram(x, bins=3, range=(-1, 2))", loose=8
    ),
    *table("x:I:double", "np.histogram(x, [-2, -1, 0.5, 3])", "np.digitize(x, [-2, -1, 0.5, 2])", loose=8),
)

CONTRACTIONS = (
    *table("x:ij:any y:jk:any", "x @ y", "np.matmul(x, y)", "np.dot(x, y)", "x.dot(y)", loose=16),
    *table("x:bij:number y:bjk:number", "x @ y", "np.matmul(x, y)", loose=16),
    *table("x:ij:number y:j:number", "x @ y", "np.dot(x, y)", "np.matvec(x, y)", "np.inner(x, y)", loose=16),
    *table("x:j:number y:jk:number", "x @ y", "np.vecmat(x, y)", loose=16),
    *table("x:i:number y:i:number", "x @ y", "np.{}(x, y)", names="dot vdot inner vecdot", loose=16),
    *table("x:1bij:number y:c1jk:number", "np.matmul(x, y)", "np.einsum('xbij,cyjk->cbik', x, y)", loose=16),
    *table(
        "x:ijk:number y:lkj:number", "np.tensordot(x, y, ([1, 2], [2, 1]))", "np.einsum('ijk,lkj->il', x, y)", loose=16
    ),
    *table(
        "x:ijk:number y:jkl:number",
        "np.tensordot(x, y)",
        "np.tensordot(x, y, 2)",
        "np.linalg.tensordot(x, y)",
        loose=16,
    ),
    *table(
        "x:i:number y:j:number",
        "np.outer(x, y)",
        "np.einsum('i,j', x, y)",
        "np.tensordot(x, y, 0)",
        "np.linalg.outer(x, y)",
    ),
    *table(
        "x:ii:number", "np.einsum('ii->i', x)", "np.einsum('ii', x)", "np.einsum('ij->ji', x)", "np.trace(x)", loose=8
    ),
    *table(
        "x:ij:number y:jk:number z:kl:number",
        "np.einsum('ij,jk,kl', x, y, z)",
        "np.linalg.multi_dot([x, y, z])",
        loose=64,
    ),
    *table(
        "x:bij:number y:bjk:number", "np.einsum('...ij,...jk->...ik', x, y)", "np.einsum('bij,bjk->bk', x, y)", loose=16
    ),
    *table(
        "x:ij:number y:jk:number", "np.einsum(x, [0, 1], y, [1, 2], [0, 2])", "np.einsum('ij,jk->', x, y)", loose=16
    ),
    *table("x:*:number y:*:number", "np.inner(x, x)", "np.kron(x, y)", "np.vdot(x, x)", loose=16),
    *table("x:b3:number y:b3:number", "np.cross(x, y)", "np.linalg.cross(x, y)", loose=16),
    *table("x:3b:number y:3b:number", "np.cross(x, y, axis=0)", "np.cross(x, y, 0, 0, 0)", loose=16),
    *table("x:ij:number", "np.trace(x, n)", "x.trace()", "np.linalg.trace(x)", loose=8),
    *table("x:II:single", "np.linalg.matrix_power(x, w)", "np.linalg.matrix_power(x, 0)", loose=64),
    *table("x:i:single y:j:single", "np.convolve(x, y)", "np.correlate(x, y)", loose=16),
    *table(
        "x:I:single y:J:single",
        "np.convolve(x, y, mode={})",
        "np.correlate(x, y, {})",
        names="'full' 'same' 'valid'",
        loose=16,
    ),
    *table("x:I:single y:j:double", "np.polyval(x, y)", "np.vander(y)", "np.vander(y, 3, increasing=True)", loose=16),
    *table("x:*:number y:*:number", "np.vecdot(x, x)", loose=16),
)

VIEWS = (
    *table(
        "x:*:any",
        "x.T",
        "np.transpose(x)",
        "np.transpose(x, perm)",
        "x.transpose(perm)",
        "np.permute_dims(x, perm)",
        "x.transpose()",
    ),
    *table("x:*:any", "x.reshape(shape)", "np.reshape(x, shape)", "x.reshape(shape, order='F')", "x.reshape(-1)"),
    *table("x:*:any", "x.ravel()", "np.ravel(x)", "x.flatten()", "x.T.ravel()", "np.ravel(x, 'F')", "x.flatten('F')"),
    *table(
        "x:+:any",
        "np.swapaxes(x, a, b)",
        "x.swapaxes(a, b)",
        "np.moveaxis(x, a, b)",
        "np.rollaxis(x, a)",
        "np.rollaxis(x, a, 1)",
    ),
    *table(
        "x:*:any", "np.expand_dims(x, e)", "np.expand_dims(x, (0, -1))", "np.squeeze(x)", "x[None].squeeze(0)", "x[...]"
    ),
    *table("x:*:any", "x[s]", "x[s] if x.ndim else x[()]", "np.broadcast_to(x, wide)", "np.squeeze(x[..., None], -1)"),
    *table("x:*:any y:*:any", "np.broadcast_arrays(x, y)", "np.atleast_1d(x, y)"),
    *table("x:*:any", "np.atleast_1d(x)", "np.atleast_2d(x)", "np.atleast_3d(x)", "np.flip(x)", "np.flip(x, A)"),
    *table(
        "x:ijk:any",
        "np.fliplr(x)",
        "np.flipud(x)",
        "np.rot90(x, n)",
        "np.rot90(x, n, (1, 2))",
        "x.mT",
        "np.matrix_transpose(x)",
    ),
    *table("x:*:any", "np.roll(x, n)", "np.roll(x, n, A)"),
    *table("x:ij:any", "np.roll(x, (1, 2), (0, 0))", "np.roll(x, (1, n), 1)", "np.roll(x, (2,), (0, 1))"),
    *table("x:ij:any", "np.roll(x, (1, n), (0, 1))", "np.roll(x, 9, axis=1)", "np.linalg.matrix_transpose(x)"),
    *table("x:*:any", "np.tile(x, w)", "np.tile(x, (2, w))", "np.repeat(x, w)", "np.repeat(x, 0)"),
    *table("x:+:any", "np.repeat(x, w, a)", "x.repeat(2, axis=a)", "np.tile(x, (2, 0, 1))"),
    *table(
        "x:3j:any",
        "np.repeat(x, [1, 0, 2], axis=0)",
        "np.split(x, 3)",
        "np.array_split(x, 2)",
        "np.vsplit(x, [1])",
        "np.unstack(x)",
    ),
    *table(
        "x:i4:any", "np.split(x, 2, axis=1)", "np.split(x, [1, 3], 1)", "np.hsplit(x, 2)", "np.array_split(x, 3, -1)"
    ),
    *table("x:ij4:any", "np.dsplit(x, 2)", "np.split(x, [1, 3], axis=a)"),
    *table(
        "x:*:any",
        "np.pad(x, pads)",
        "np.pad(x, w)",
        "np.pad(x, pads, constant_values=2)",
        "np.pad(x, (w, 0), 'constant')",
    ),
    *table("x:IJ:any", "np.pad(x, pads, mode={})", names="'edge' 'reflect' 'symmetric' 'wrap'"),
    *table(
        "x:IJ:any",
        "np.pad(x, ((1, 2), (0, w)), 'edge')",
        "np.pad(x, ((1, 0), (0, 1)), constant_values=((1, 2), (3, 4)))",
    ),
    *table("x:IJ:any", "np.pad(x, 4, mode={})", names="'reflect' 'symmetric' 'wrap'"),
    *table(
        "x:ij:any y:kj:any",
        "np.concatenate([x, y])",
        "np.concatenate((x, y, x), 0)",
        "np.vstack([x, y])",
        "np.concat([x, y])",
    ),
    *table(
        "x:ij:any y:ik:any", "np.concatenate([x, y], axis=1)", "np.concatenate([x, y], axis=None)", "np.hstack([x, y])"
    ),
    *table("x:ij:any y:ik:any", "np.append(x, y)", "np.append(x, y, axis=-1)", "np.block([[x, y], [x, y]])"),
    *table(
        "x:*:any y:=:any", "np.stack([x, y], axis=e)", "np.vstack([x, y])", "np.hstack([x, y])", "np.dstack([x, y])"
    ),
    *table(
        "x:*:any y:=:any",
        "np.column_stack([x, y])",
        "np.array([x, y])",
        "np.stack((x, y))",
        "np.concatenate([x, y], dtype='f8')",
    ),
    *table("x:*:any", "np.triu(x)", "np.tril(x)"),
    *table(
        "x:ij:any",
        "np.triu(x, n)",
        "np.tril(x, n)",
        "np.diagonal(x)",
        "np.diagonal(x, n)",
        "x.diagonal(n)",
        "np.diag(x, n)",
    ),
    *table("x:ijk:any", "np.diagonal(x, n, 1, 2)", "np.diagonal(x, 0, 2, 0)", "np.linalg.diagonal(x, offset=n)"),
    *table("x:i:any", "np.diag(x)", "np.diag(x, n)", "np.diagflat(x)", "np.diagflat(x, n)"),
    *table(
        "x:+:any",
        "np.diff(x)",
        "np.diff(x, axis=a)",
        "np.diff(x, 2, a)",
        "np.diff(x, prepend=1)",
        "np.ediff1d(x)",
        own=True,
    ),
    *table("x:+:number", "np.diff(x, axis=a, append=x)", "np.ediff1d(x, to_begin=1, to_end=[2, 3])", own=True),
    *table("x:I:number", "np.gradient(x)", "np.gradient(x, 0.5)", loose=8),
    *table(
        "x:IJ:single",
        "np.gradient(x)",
        "np.gradient(x, axis=a)",
        "np.gradient(x, 2.0, 0.5)",
        "np.gradient(x, edge_order=2)",
        loose=8,
    ),
    *table(
        "x:IJ:any",
        "np.lib.stride_tricks.sliding_window_view(x, w, axis=a)",
        "np.lib.stride_tricks.sliding_window_view(x, (1, w))",
    ),
    *table(
        "x:*:any",
        "np.delete(x, 0, axis=0)",
        "np.insert(x, 0, 5, axis=0)",
        "np.delete(x, [0, -1])",
        "np.insert(x, 1, [5, 6])",
    ),
    *table(
        "x:*:any",
        "np.resize(x, (2, w))",
        "np.ascontiguousarray(x)",
        "np.asfortranarray(x)",
        "np.asarray(x)",
        "np.array(x)",
    ),
    *table("x:*:any", "np.shape(x)", "np.ndim(x)", "np.size(x)", "x.size", "len(x)", "x.shape", "np.iscomplexobj(x)"),
)

INDEXING = (
    *table(
        "x:+:any i:@a",
        "np.take(x, i, axis=a)",
        "x.take(i, a)",
        "np.moveaxis(x, a, 0)[i]",
        "np.take(x, i, a, mode='wrap')",
    ),
    *table(
        "x:+:any i:@a",
        "np.take(x, i, axis=a, mode='clip')",
        "np.moveaxis(x, a, -1)[..., i]",
        "np.moveaxis(x, a, 0)[i][..., None]",
    ),
    *table("x:+:any i:@", "np.take(x, i)", "x.take(i)", "x.reshape(-1)[i]", "np.ravel(x)[i][::-1]"),
    *table(
        "x:4j:any i:k4:index",
        "x[i % 4]",
        "x[i % 4, None]",
        "x.T[:, i % 4]",
        "x[:, :1][i % 4]",
        "x[i % 4][..., ::2]",
        domain="small",
    ),
    *table(
        "x:34k:any i:b:index j:b:index",
        "x[i % 3, j % 4]",
        "x[i % 3, :, j * 0] if x.shape[2] else x",
        "x[-1 - i % 3, j % 4, ::-1]",
        domain="small",
    ),
    *table(
        "x:35:any", "x[[0, -1, 2]]", "x[:, [1, 0]]", "x[[0, 1], [1, 2]]", "x[np.arange(3), [0, 1, 2]]", "x[1, [0, -1]]"
    ),
    *table(
        "x:IJ:any",
        "np.take_along_axis(x, np.argmax(x, axis=a, keepdims=True), axis=a)",
        "np.take_along_axis(x, np.argsort(x, a), a)",
        "np.take_along_axis(x, np.full((1, 1), 0), a)",
        "np.take_along_axis(x, np.zeros_like(x, 'i4')[:1, :1] - 1, a)",
    ),
    *table("x:ij:number", "x.sum(where=x > 1)", "x[x > 1].sum()", "x[x > 1].any()", own=True),
    *table("x:ij:number", "x[np.nonzero(x > 1)].sum()", "x.reshape(-1)[np.flatnonzero(x > 1)].any()", own=True),
    *table(
        "x:IJ:number",
        "np.compress([True], x, axis=0)",
        "x.compress([True], 0)",
        "np.extract([True], x[:1, 0])",
        "x[np.array([True])] if x.shape[0] == 1 else x",
    ),
    *table(
        "x:i:double y:j:double",
        "np.searchsorted(np.sort(x), y)",
        "np.searchsorted(np.sort(x), y, side='right')",
        "np.isin(x, y)",
    ),
    *table("x:+:any", "np.sort(x, axis=a)", "np.argsort(x, axis=a, kind='stable')", "np.sort(x, None)", "np.sort(x)"),
    *table("x:Ij:double", "np.partition(x, 0, axis=0)[0]", "np.lexsort((x[0], x[-1])) if x.shape[1] else x"),
    *table("x:i:double xp:4:double fp:4:double", "np.interp(x, np.cumsum(xp), fp)", domain="positive", loose=8),
    *table(
        "x:i:double xp:4:double fp:4:double",
        "np.interp(x, np.cumsum(xp), fp, left=-1, right=c)",
        domain="positive",
        loose=8,
    ),
    *table(
        "i:a:index w:a:double",
        "np.bincount(i % 12, minlength=12)",
        "np.bincount(i % 3, w, minlength=5)",
        domain="small",
    ),
    *table(
        "i:ab:index", "np.unravel_index(i % 12, (3, 4))", "np.ravel_multi_index((i % 3, i % 4), (3, 4))", domain="small"
    ),
    *table(
        "x:34:any",
        "x[np.ix_([0, 2], [1, 3])]",
        "x[np.tril_indices(3)]",
        "x[np.triu_indices(3, 1)]",
        "x[np.diag_indices(3)]",
    ),
)

CREATION = (
    *table(
        "x:*:any",
        "np.zeros_like(x)",
        "np.ones_like(x)",
        "np.full_like(x, 2)",
        "np.zeros_like(x, dtype='f4')",
        "np.empty_like(x).shape",
    ),
    *table(
        "x:ij:any",
        "np.zeros(x.shape) + x",
        "np.ones(x.shape[0])",
        "np.full(x.shape[1], 3)",
        "np.full((2, 3), 1.5)",
        "np.zeros(3, 'i4')",
    ),
    *table(
        "x:ij:single",
        "np.arange(x.shape[0])",
        "np.arange(1, x.shape[1] + 1, 2)",
        "np.arange(5, 0, -2) + x.sum()",
        "np.arange(0.0, 1.0, 0.25) + x.sum()",
        loose=16,
    ),
    *table(
        "x:ij:single",
        "np.eye(x.shape[0])",
        "np.eye(3, x.shape[1], k=n)",
        "np.identity(len(x))",
        "np.tri(3, x.shape[1], n)",
    ),
    *table(
        "x:ij:single",
        "np.linspace(0, 1, 5)",
        "np.linspace(x.sum(), 2, 4)",
        "np.linspace(0, 1, x.shape[1] + 2)",
        "np.linspace(1, 3, 4, endpoint=False)",
        loose=16,
    ),
    *table("x:ij:double", "np.logspace(0, x.sum() * 0 + 1, 4)", "np.geomspace(1, x.sum() * 0 + 8, 4)", loose=16),
    *table(
        "x:i:any y:j:any", "np.meshgrid(x, y)", "np.meshgrid(x, y, indexing='ij')", "np.meshgrid(x, y, sparse=True)"
    ),
    *table(
        "x:ij:single",
        "np.indices(x.shape)",
        "np.fromfunction(lambda i, j: i + 2 * j, x.shape)",
        "np.array([x.sum(), 1.0, 2])",
        loose=16,
    ),
    *table(
        "x:i:double",
        "np.hanning(len(x)) * x",
        "np.hamming(len(x)) * x",
        "np.blackman(len(x)) * x",
        "np.bartlett(len(x)) * x",
        loose=8,
    ),
    *table(
        "x:I:double",
        "np.fft.fftfreq(len(x))",
        "np.fft.rfftfreq(len(x), 0.5)",
        "np.fft.fftshift(x)",
        "np.fft.ifftshift(x)",
    ),
)

LINEAR_ALGEBRA = (
    *table(
        "x:II:double",
        "np.linalg.inv(x + 9 * np.eye(x.shape[0]))",
        "np.linalg.det(x)",
        "np.linalg.slogdet(x)",
        loose=1e3,
    ),
    *table(
        "x:II:double",
        "np.linalg.cholesky(x @ x.T + 9 * np.eye(x.shape[0]))",
        "np.linalg.pinv(x + 9 * np.eye(x.shape[0]))",
        loose=1e3,
    ),
    *table("x:II:double y:IJ:double", "np.linalg.solve(x + 9 * np.eye(x.shape[0]), y)", loose=1e3),
    *table("x:II:double y:I:double", "np.linalg.solve(x + 9 * np.eye(x.shape[0]), y)", loose=1e3),
    *table(
        "x:II:double",
        "np.linalg.eigvalsh(x + x.T)",
        "np.linalg.eigh(x + x.T)[0]",
        "np.linalg.cond(x + 9 * np.eye(x.shape[0]))",
        loose=1e3,
    ),
    *table(
        "x:IJ:double",
        "np.linalg.svdvals(x)",
        "np.linalg.svd(x, compute_uv=False)",
        "np.abs(np.linalg.qr(x)[1])",
        loose=1e3,
    ),
    *table("x:IJ:double", "np.linalg.matrix_rank(x)", "np.linalg.norm(x, 2)", "np.linalg.norm(x, 'nuc')", loose=1e3),
    *table("x:JI:double y:J:double", "np.linalg.lstsq(x + 9 * np.eye(*x.shape), y)[0]", loose=1e3),
)

CASES: tuple[Row, ...] = (
    *ELEMENTWISE,
    *REDUCTIONS,
    *CONTRACTIONS,
    *VIEWS,
    *INDEXING,
    *CREATION,
    *LINEAR_ALGEBRA,
)
