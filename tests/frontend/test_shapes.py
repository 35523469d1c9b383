"""Views, joins, reductions, scans, indexing, contractions and creation against NumPy, table-driven."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.ops import Case, assert_same, run

M, N, K = 5, 4, 3
MASK = np.array([True, False, True, True, False])
TABLE = np.arange(12.0).reshape(4, 3)

REDUCTIONS: dict[str, Case] = {
    f"{name} {axis} {keep}": Case(
        lambda x, name=name, axis=axis, keep=keep: getattr(np, name)(x, axis=axis, keepdims=keep), ((3, 4, 5),)
    )
    for name in "sum prod max min mean var std any all argmax argmin nansum nanmax nanmean ptp count_nonzero".split()
    for axis in (None, 0, -1, (0, 2))
    for keep in (False, True)
    if not (name.startswith("arg") and isinstance(axis, tuple))
}

DTYPES: dict[str, Case] = {
    f"{name} {dtype}": Case(lambda x, name=name: getattr(np, name)(x, axis=0), ((6, 3),), dtype)
    for name in "sum prod max min mean var std any all argmax argmin cumsum cumprod".split()
    for dtype in "b1 i1 i4 i8 u1 u4 f2 f4 f8".split()
    if not (name in ("var", "std", "prod", "cumprod") and dtype == "f2")
}

OPTIONS: dict[str, Case] = {
    "where": Case(lambda x, m: x.sum(axis=1, where=m), ((4, 5), (4, 5)), "f8 b1"),
    "mean where": Case(lambda x, m: x.mean(axis=1, where=m), ((4, 50), (4, 50)), "f8 b1"),
    "var where": Case(lambda x, m: np.var(x, axis=1, where=m, ddof=1), ((4, 50), (4, 50)), "f8 b1"),
    "max where": Case(lambda x, m: np.max(x, axis=1, where=m, initial=-9), ((4, 5), (1, 5)), "f8 b1"),
    "initial": Case(lambda x: (x.sum(0, initial=5), x.min(initial=-7.0)), ((4, 5),)),
    "dtype": Case(lambda x: (x.sum(0, dtype="f4"), x.mean(dtype=np.float32)), ((4, 5),)),
    "ddof": Case(lambda x: (x.var(0, ddof=1), x.std(ddof=2), np.var(x, correction=1)), ((4, 5),)),
    "average": Case(lambda x, w: (np.average(x, weights=w), np.average(x, 0)), ((4, 5), (4, 5)), "f8", 1, 2),
    "average 1-d": Case(lambda x, w: np.average(x, 1, w), ((4, 5), (5,)), "f8", 1, 2),
    "norm": Case(lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, 1)), ((4, 5),)),
    "norm orders": Case(
        lambda x: [np.linalg.norm(x, o, 0) for o in (0, 1, 2, 3, np.inf, -np.inf)] + [np.linalg.norm(x, np.inf)],
        ((4, 5),),
    ),
    "reduce": Case(lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1), np.logical_or.reduce(x)), ((4, 5),)),
    "bitwise": Case(lambda x: (np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x, 1)), ((4, 5),), "i4"),
    "accumulate": Case(lambda x: (np.add.accumulate(x), np.maximum.accumulate(x, axis=1)), ((4, 5),)),
    "outer": Case(lambda x, y: (np.add.outer(x, y), np.outer(x, y), np.less.outer(x, y)), ((4,), (5,))),
    "scans": Case(lambda x: (x.cumsum(), np.cumsum(x, 1), np.cumprod(x, -1), np.nancumsum(x, 0)), ((4, 5),)),
    "cumulative": Case(lambda x: (np.cumulative_sum(x, axis=1, include_initial=True),), ((4, 5),)),
    "empty sum": Case(lambda x: (x.sum(0), x.prod(1), x.any(), x.mean(1)), ((0, 3),)),
    "one": Case(lambda x: (x.sum(0), x.max(1), x.argmax(), x.var()), ((1, 1),)),
    "rank 0": Case(lambda x: (x.sum(), x.max(), x.mean(), x.argmax()), ((),)),
    "axes of rank 0": Case(lambda x: (x.sum(0), x.argmax(-1), np.cumsum(x, 0), np.cumprod(x, axis=-1)), ((),)),
    "cumulative sums of rank 0": Case(
        lambda x: (np.cumulative_sum(x), np.cumulative_prod(x, axis=0, include_initial=True)), ((),)
    ),
}

VIEWS: dict[str, Case] = {
    "T": Case(lambda x: (x.T, x.transpose(0, 2, 1), np.transpose(x, (1, 0, 2)), x.mT), ((2, 3, 4),)),
    "swap": Case(lambda x: (x.swapaxes(0, 2), np.moveaxis(x, 0, -1), np.moveaxis(x, (0, 1), (2, 0))), ((2, 3, 4),)),
    "rollaxis": Case(lambda x: (np.rollaxis(x, 2), np.rollaxis(x, 0, 3), np.rollaxis(x, 1)), ((2, 3, 4),)),
    "dims": Case(lambda x: (np.expand_dims(x, (0, -1)), x[None, :, None], np.squeeze(x[None])), ((3, 4),)),
    "squeeze what may be one": Case(lambda x: (np.squeeze(x[1:]), x[:, 2:].squeeze() + 1), ((3, 4),)),
    "squeeze what is one": Case(lambda x: (np.squeeze(x[2:]), x[:, 3:].squeeze(1), np.squeeze(x[1:-1])), ((3, 4),)),
    "contract along one": Case(lambda x, y: np.einsum("i,i->i", x[2:], y), ((3,), (5,))),
    "squeeze": Case(lambda x: (x.squeeze(), np.squeeze(x, 1), x.squeeze((0, 1))), ((1, 1, 4),)),
    "atleast": Case(lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), ((4,),)),
    "broadcast": Case(lambda x: (np.broadcast_to(x, (2, 3, 4)), *np.broadcast_arrays(x, x[:, :1])), ((3, 4),)),
    "flip": Case(lambda x: (np.flip(x), np.flip(x, 1), np.fliplr(x), np.flipud(x), np.flip(x, (0, 1))), ((3, 4),)),
    "rot90": Case(lambda x: [np.rot90(x, k) for k in range(-1, 5)] + [np.rot90(x, 1, (1, 0))], ((3, 4),)),
    "diagonal": Case(lambda x: (np.diagonal(x), x.diagonal(1), x.diagonal(-1), np.trace(x), np.diag(x, 2)), ((3, 5),)),
    "windows": Case(lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)), ((4, 5),)),
    "windows 1": Case(lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=0).mean(-1), ((6, 5),)),
    "reshape": Case(lambda x: (x.reshape(12), x.reshape(4, -1), x.reshape((3, 2, 2)), np.ravel(x)), ((3, 4),)),
    "reshape by name": Case(lambda x: (np.reshape(x, shape=(6, 2)), np.reshape(x, shape=-1, order="F")), ((3, 4),)),
    "reshape unit": Case(lambda x: (x.reshape(1, 3, 1, 4), x.reshape(-1, 1), x.reshape(3, 4)), ((3, 4),)),
    "reshape order": Case(lambda x: (x.reshape(2, 6, order="F"), x.ravel("F")), ((3, 4),)),
    "reshape transposed": Case(lambda x: (x.T.reshape(-1), x.T.reshape(2, 6), x.T.flatten()), ((3, 4),)),
    "reshape empty": Case(lambda x: (x.reshape(0, 5), x.reshape(-1)), ((3, 0),)),
    "reshape twice": Case(lambda x: x.reshape(4, 6, 2).reshape(24, 2).reshape(2, -1), ((8, 6),)),
    "reshape by size": Case(lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2]), ((2, 3, 4),)),
    "heads": Case(lambda x: x.reshape(x.shape[0], x.shape[1], 2, -1).transpose(0, 2, 1, 3), ((2, 3, 8),)),
    "slices": Case(lambda x: (x[1:], x[:-1], x[1:-1, ::2], x[::-1], x[::-2, 1], x[-3:, -1]), ((5, 4),)),
    "slice clamps": Case(lambda x: (x[2:100], x[-100:2], x[4:1], x[7:], x[3:0:-2], x[:, -9::-1]), ((5, 4),)),
    "slice ellipsis": Case(lambda x: (x[..., 0], x[0, ...], x[..., None], x[1, ..., 2], x[...]), ((2, 3, 4),)),
    "slice by size": Case(lambda x: (x[: len(x) // 2], x[x.shape[0] // 2 :], x[1 : x.shape[0] - 1]), ((6, 4),)),
    "split": Case(lambda x: (*np.split(x, 2), *np.split(x, [1, 3], 1), *np.array_split(x, 3)), ((4, 5),)),
    "hsplit": Case(lambda x: (*np.hsplit(x, 2), *np.vsplit(x, 3)), ((3, 4),)),
    "iteration": Case(lambda x: sum(row * k for k, row in enumerate(x)), ((3, 4),)),
    "unpack": Case(lambda x: (lambda a, b: a - b)(*x), ((2, 4),)),
}

JOINS: dict[str, Case] = {
    "concatenate": Case(lambda x, y: (np.concatenate([x, y]), np.concatenate((y, x, x))), ((3, 4), (2, 4))),
    "concatenate axis": Case(lambda x, y: (np.concatenate([x, y], 1), np.concatenate([x, y], None)), ((3, 4), (3, 2))),
    "concatenate dtypes": Case(lambda x, y: np.concatenate([x, y]), ((3,), (2,)), "i4 f4"),
    "concatenate empty": Case(lambda x, y: np.concatenate([x, y]), ((0, 4), (2, 4))),
    "stack": Case(
        lambda x, y: (np.stack([x, y]), np.stack([x, y], -1), np.vstack([x, y]), np.hstack([x, y])), ((4,), (4,))
    ),
    "dstack": Case(lambda x, y: (np.dstack([x, y]), np.column_stack([x, y])), ((4,), (4,))),
    "block": Case(lambda x, y: np.block([[x, y], [y, x]]), ((3, 3), (3, 3))),
    "array of": Case(lambda x: np.array([x[0], x[1] * 2, 3.0]), ((4,),)),
    "pad": Case(lambda x: (np.pad(x, 1), np.pad(x, (1, 2)), np.pad(x, ((0, 1), (2, 0)), constant_values=7)), ((3, 4),)),
    "pad two values": Case(lambda x: np.pad(x, 2, constant_values=((1, 2), (3, 4))), ((3, 4),)),
    "pad modes": Case(lambda x: [np.pad(x, 2, mode=m) for m in ("edge", "reflect", "symmetric", "wrap")], ((3, 4),)),
    "roll": Case(lambda x: (np.roll(x, 1), np.roll(x, -1, 0), np.roll(x, (1, 2), (0, 1)), np.roll(x, 7, 1)), ((3, 4),)),
    "tile": Case(lambda x: (np.tile(x, 2), np.tile(x, (2, 1)), np.tile(x, (2, 1, 3))), ((3, 4),)),
    "repeat": Case(lambda x: (np.repeat(x, 2), np.repeat(x, 3, 0), x.repeat(2, -1)), ((3, 4),)),
    "repeats": Case(lambda x: np.repeat(x, [1, 0, 2], 0), ((3, 4),)),
    "triangles": Case(lambda x: (np.tril(x), np.triu(x, 1), np.tril(x, -1)), ((4, 5),)),
    "diff": Case(lambda x: (np.diff(x), np.diff(x, 2, 0), np.diff(x, prepend=0), np.diff(x > 0)), ((4, 5),)),
    "append": Case(lambda x: (np.append(x, x), np.append(x, x, 1)), ((4, 5),)),
    "diag": Case(lambda x: (np.diag(x), np.diag(x, 1), np.diag(x, -2)), ((4,),)),
}

INDEXING: dict[str, Case] = {
    "take": Case(lambda x, i: (x[i], np.take(x, i, 0), x.take(i, 1), np.take(x, i)), ((5, 4), (3,)), "f8 i8", -3, 3),
    "two": Case(lambda x, i: (x[i, i], x[i, :], x[:, i], x[i, 1], x[1, i]), ((5, 4), (3,)), "f8 i8", -3, 3),
    "shapes": Case(lambda x, i: (x[i], x[i, None], x[..., i], x[:, i, None]), ((5, 4), (3, 2)), "f8 i4", -3, 3),
    "apart": Case(lambda x, i: (x[i, :, i], x[:, i, i], x[0, :, i], x[i, :, 0]), ((5, 4, 4), (3,)), "f8 i8", -3, 3),
    "slices": Case(lambda x, i: (x[i, ::2], x[1:, i], x[i][::2]), ((5, 4), (3,)), "f8 i8", -3, 3),
    "unsigned": Case(lambda x, i: x[i], ((5, 4), (3,)), "f8 u1", 0, 3),
    "list": Case(lambda x: (x[[0, -1, 2]], x[:, [1, 0]], x[[0, 1], [1, 2]]), ((5, 4),)),
    "static mask": Case(lambda x: (x[MASK], x[:, [True, False, False, True]]), ((5, 4),)),
    "arange": Case(lambda x, i: x[np.arange(5), i], ((5, 4), (5,)), "f8 i8", -3, 3),
    "table": Case(lambda i: TABLE[0].sum() + i, ((3,),), "f8"),
    "along": Case(lambda x: np.take_along_axis(x, np.argmax(x, 1)[:, None], 1), ((5, 4),)),
    "along list": Case(lambda x, i: np.take_along_axis(x, i, axis=0), ((5, 4), (2, 4)), "f8 i8", -3, 3),
    "modes": Case(
        lambda x, i: (np.take(x, i, 0, mode="clip"), np.take(x, i, 1, mode="wrap")), ((3, 2), (9,)), "f8 i8", -9, 9
    ),
    "modes of long axes by 8 bits": Case(
        lambda x, i: (np.take(x, i, mode="clip"), np.take(x, i, mode="wrap")), ((300,), (40,)), "f8 u1", 0, 255
    ),
    "64 bits without a sign": Case(
        lambda x, i: (np.take(x, i - 1, mode="clip"), x[i - 1]), ((4,), (9,)), "f8 u8", 0, 3
    ),
    "computed": Case(lambda x, i: (x * 2)[i + 1] + x[i], ((5, 4), (3,)), "f8 i8", -3, 3),
    "views": Case(lambda x, i: (x.T[i], x[::2][i % 2], x[None][0, i]), ((5, 4), (3,)), "f8 i8", -3, 3),
    "scalar index": Case(lambda x: x[x.argmax(0)[0]], ((5, 4),)),
    "choose": Case(lambda i: np.choose(i, [i * 10, i * 20, i * 30]), ((4,),), "i8", 0, 2),
}

CONTRACTIONS: dict[str, Case] = {
    "matmul": Case(lambda a, b: (a @ b, np.dot(a, b), np.matmul(a, b)), ((3, 4), (4, 5))),
    "matvec": Case(lambda a, b: (a @ b, b @ a.T, b @ b, np.inner(a, b), np.vdot(b, b)), ((3, 4), (4,))),
    "batch": Case(lambda a, b: (a @ b, a @ b[0], a[0] @ b), ((2, 3, 4), (2, 4, 5))),
    "batch broadcast": Case(lambda a, b: a @ b, ((2, 1, 3, 4), (5, 4, 2))),
    "mixed": Case(lambda a, b: (a @ b, a @ a.T), ((3, 4), (4, 5)), "f4 f8"),
    "half": Case(lambda a, b: a @ b, ((3, 4), (4, 5)), "f2 f2"),
    "integers": Case(lambda a, b: a @ b, ((3, 4), (4, 5)), "i4 i4"),
    "booleans": Case(lambda a, b: a @ b, ((3, 4), (4, 5)), "b1 b1"),
    "tensordot": Case(
        lambda a, b: (np.tensordot(a, b, 1), np.tensordot(a, b, ([1, 2], [1, 0]))), ((2, 3, 4), (4, 3, 5))
    ),
    "einsum": Case(lambda a, b: (np.einsum("ij,jk->ik", a, b), np.einsum("ij,jk", a, b)), ((3, 4), (4, 5))),
    "einsum one": Case(
        lambda a: (np.einsum("ii->i", a), np.einsum("ii", a), np.einsum("ij->ji", a), np.einsum("ij->", a)), ((3, 3),)
    ),
    "einsum dots": Case(lambda a, b: np.einsum("...ij,...jk->...ik", a, b), ((2, 3, 4), (2, 4, 5))),
    "einsum lists": Case(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), ((3, 4), (4, 5))),
    "einsum three": Case(lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c), ((3, 4), (4, 5), (5, 2))),
    "einsum outer": Case(lambda a, b: np.einsum("i,j->ij", a, b), ((3,), (4,))),
    "kron": Case(lambda a, b: (np.kron(a, b), np.cross(a[:, :3], a[:, :3] + 1)), ((2, 3), (4, 5))),
    "vecdot": Case(lambda a, b: (np.vecdot(a, b), np.linalg.multi_dot([a, b.T, a])), ((3, 4), (3, 4))),
    "power": Case(lambda a: (np.linalg.matrix_power(a, 3), np.linalg.matrix_power(a, 0)), ((3, 3),)),
    "empty": Case(lambda a, b: a @ b, ((3, 0), (0, 5))),
}

CREATION: dict[str, Case] = {
    "zeros": Case(lambda x: (x + np.zeros(x.shape), np.ones((2, len(x))) + x[0, 0], np.full(3, x[0, 0])), ((3, 4),)),
    "like": Case(
        lambda x: (np.zeros_like(x), np.ones_like(x, dtype="i4"), np.full_like(x, 2) + x, np.empty_like(x) * 0),
        ((3, 4),),
    ),
    "arange": Case(
        lambda x: (x[:, 0] + np.arange(len(x)), np.arange(2, 9, 3) * x[0, 0], np.arange(5, 0, -2) + x[0, 0]), ((3, 4),)
    ),
    "arange float": Case(lambda x: np.arange(0.0, 1.0, 0.3) + x[0, 0], ((3, 4),)),
    "eye": Case(lambda x: (x @ np.eye(4), np.eye(3, 4, 1) + x, np.identity(4) * x[0], np.tri(3, 4) * x), ((3, 4),)),
    "linspace": Case(
        lambda x: (
            np.linspace(0, 1, 4) + x,
            np.linspace(0, x[0, 0], 5),
            np.linspace(1, 2, 3, endpoint=False) + x[0, 0],
        ),
        ((3, 4),),
    ),
    "meshgrid": Case(lambda x: np.meshgrid(x[0], x[:, 0]) + np.meshgrid(x[0], x[:, 0], indexing="ij"), ((3, 4),)),
    "indices": Case(lambda x: (np.indices((3, 4)) + x, np.fromfunction(lambda i, j: i * j, (3, 4)) + x), ((3, 4),)),
    "captured": Case(lambda x: x[:, :3] @ TABLE.T[:3, :] + TABLE[0, 1], ((2, 4),)),
    "loop": Case(lambda x: sum(x[k] * w for k, w in enumerate([0.25, 0.5, 0.25])), ((3, 4),)),
    "size": Case(lambda x: (x / x.size, x.sum() / len(x), x * x.shape[1] ** 0.5, x.shape[0] * 1.5 + x), ((3, 4),)),
}

ALL: dict[str, Case] = {
    f"{topic}: {name}": case
    for topic, table in {
        "reduce": REDUCTIONS,
        "dtype": DTYPES,
        "option": OPTIONS,
        "view": VIEWS,
        "join": JOINS,
        "index": INDEXING,
        "contract": CONTRACTIONS,
        "create": CREATION,
    }.items()
    for name, case in table.items()
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
def test_against_numpy(name: str) -> None:
    case = ALL[name]
    arguments: list[Any] = case.arguments()
    with np.errstate(all="ignore"):
        assert_same(run(case.function, *arguments), case.function(*arguments))


CHOSEN = np.array([True, False, True, True])


def _written(write: Any) -> Any:
    def function(x: Any, i: Any) -> Any:
        a = x.copy()
        write(a, i)
        return a

    return function


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[:2, [3, 2], ..., 3],
        lambda x, i: x[:2, i, ..., 3],
        lambda x, i: x[:2, 1, ..., i],
        lambda x, i: x[:2, i, ..., i],
        lambda x, i: x[:3, CHOSEN, ..., 1],
        lambda x, i: x[:3, x[0, :, 0] > 0, ..., 1].sum(axis=0),
        lambda x, i: (x[:2, i, 3, ...], x[..., i, 3], x[0, ..., i], x[:2, i, None, ..., 3], x[1, ..., [1, 2], :]),
        _written(lambda a, i: a.__setitem__((slice(2), i, ..., 3), [[1, 2], [3, 4]])),
        _written(lambda a, i: a.__setitem__((slice(2), 1, ..., [3, 2]), [[1, 2], [3, 4]])),
        _written(lambda a, i: np.add.at(a, (slice(2), i, ..., 3), [[1, 2], [3, 4]])),
    ],
)
def test_an_ellipsis_parts_arrays_where_it_stands_for_no_axis(function: Any) -> None:
    """Then NumPy has the axes of the arrays in front."""
    x = np.random.default_rng(4).standard_normal((4, 4, 4))
    i = np.array([3, 2])
    assert_same(run(function, x, i), function(x, i))
