"""Lines that bring elements together: reductions, scans, normalisations, contractions, sorts."""

from __future__ import annotations

from polyfuse.fuzz.pool import Pool, Proposal
from polyfuse.fuzz.program import Line

SUMS = "sum mean max min prod var std any all amax ptp nansum nanmax nanmin nanmax nanmin nanmean count_nonzero".split()
WHOLE_SUMS = "sum max min prod any all ptp count_nonzero mean".split()
NORMALISED = (
    "{0} - {0}.max(axis=A, keepdims=True)",
    "{0} - {0}.mean(axis=A, keepdims=True)",
    "({0} - {0}.mean(axis=A, keepdims=True)) / ({0}.std(axis=A, keepdims=True) + 1)",
    "{0} / (1 + np.abs({0}).sum(axis=A, keepdims=True))",
    "pf.softmax({0}, axis=A)",
    "pf.log_softmax({0}, axis=A)",
    "{0} / np.sqrt((({0} * {0}).mean(axis=A, keepdims=True)) + 0.1)",
    "{0} * (({0} > 0).sum(axis=A, keepdims=True))",
    "{0} - pf.logsumexp({0}, axis=A, keepdims=True)",
    "np.exp({0} - {0}.max(axis=A, keepdims=True))",
)
SCANS = (
    "np.cumsum({0}, axis=A)",
    "np.cumprod(np.clip({0}, -1.5, 1.5), axis=A)",
    "np.cumprod(np.sign({0}) + 0.5, axis=A)",
    "np.maximum.accumulate({0}, axis=A)",
    "np.minimum.accumulate({0}, axis=A)",
    "np.cumsum({0}[::-1], axis=A)[::-1]",
    "np.diff({0}, axis=A)",
    "pf.logcumsumexp({0}, axis=A)",
    "np.nancumsum({0}, axis=A)",
)
CONTRACTIONS = (
    "{0} @ {1}",
    "{0} @ {1}.T",
    "{0}.T @ {1}",
    "np.einsum('ij,jk->ik', {0}, {1})",
    "np.einsum('ij,kj->ik', {0}, {1})",
    "np.einsum('ij,ij->i', {0}, {1})",
    "np.einsum('ij,ij->', {0}, {1})",
    "np.einsum('ij,kj->k', {0}, {1})",
    "np.tensordot({0}, {1}, axes=([0], [0]))",
    "np.einsum('ij,ik->kj', {0}, {1})",
    "np.matmul({0}, {1})",
)
VECTORS = ("np.outer({0}, {1})", "np.dot({0}, {1})", "np.inner({0}, {1})", "np.vdot({0}, {1})", "{0} @ {1}")
SORTS = (
    "np.sort({0}, axis=A)",
    "np.sort({0}, axis=A)[..., ::-1]",
    "np.argsort({0}, axis=A, kind='stable')",
    "np.searchsorted(np.sort({0}.ravel()), {0})",
    "np.median({0}, axis=A)",
    "np.sort(np.partition({0}, 0, axis=A), axis=A)",
    "np.partition({0}, 0, axis=A)[(slice(None),) * (A % {0}.ndim) + (0,)]",
)


def reduction(pool: Pool) -> Line | None:
    value = pool.some()
    if value is None:
        return None
    array = pool.values[value]
    names = (
        SUMS if array.dtype.kind == "f" else WHOLE_SUMS if array.dtype.kind in "iu" else ["any", "all", "sum", "mean"]
    )
    name, axes = pool.dice.choice(names), pool.axes(value)
    keep = ", keepdims=True" if pool.dice.random() < 0.5 else ""
    return Line(f"np.{name}", f"np.{name}({{0}}, {axes}{keep})", (value,))


def masked(pool: Pool) -> Line | None:
    value = pool.some("f", 1)
    mask = pool.like(value, "b") if value is not None else None
    if value is None or mask is None or pool.values[mask].shape != pool.values[value].shape:
        return None
    name = pool.dice.choice(["sum", "mean", "max"])
    initial = ", initial=0" if name == "max" else ""
    return Line(f"np.{name} where", f"np.{name}({{0}}, {pool.axes(value)}, where={{1}}{initial})", (value, mask))


def position(pool: Pool) -> Line | None:
    value = pool.some("iuf")
    if value is None:
        return None
    name = pool.dice.choice(["argmax", "argmin", "nanargmax"] if pool.dice.random() < 0.2 else ["argmax", "argmin"])
    rank = pool.values[value].ndim
    axis = f"axis={pool.axis(value)}" if rank and pool.dice.random() < 0.8 else "axis=None"
    keep = ", keepdims=True" if pool.dice.random() < 0.3 else ""
    return Line(f"np.{name}", f"np.{name}({{0}}, {axis}{keep})", (value,))


def normalised(pool: Pool) -> Line | None:
    value = pool.some("f", 1)
    if value is None:
        return None
    template = pool.dice.choice(NORMALISED)
    return Line(template, template.replace("A", str(pool.axis(value))), (value,))


def scan(pool: Pool) -> Line | None:
    value = pool.some("f" if pool.dice.random() < 0.7 else "iu", 1)
    if value is None:
        return None
    templates = SCANS if pool.values[value].dtype.kind == "f" else (SCANS[0], *SCANS[3:7])
    template = pool.dice.choice(templates)
    return Line(template, template.replace("A", str(pool.axis(value))), (value,))


def contraction(pool: Pool) -> Line | None:
    value = pool.some("f" if pool.dice.random() < 0.85 else "i", 2, lambda a: a.ndim == 2)
    if value is None:
        return None
    shape, kinds = pool.values[value].shape, pool.values[value].dtype.kind
    other = pool.some(kinds, 2, lambda a: a.ndim == 2 and set(a.shape) & set(shape))
    template = pool.dice.choice(CONTRACTIONS)
    return None if other is None else Line(template, template, (value, other))


def batched(pool: Pool) -> Line | None:
    value = pool.some("f", 3, lambda a: a.ndim == 3)
    if value is None:
        return None
    template = pool.dice.choice(
        [
            "{0} @ {0}.swapaxes(-1, -2)",
            "np.einsum('bij,bkj->bik', {0}, {0})",
            "np.einsum('bij,bkj->ik', {0}, {0})",
            "np.einsum('bij->jb', {0})",
            "np.einsum('bij,bij->j', {0}, {0})",
            "np.tensordot({0}, {0}, axes=([0, 1], [0, 1]))",
        ]
    )
    return Line(template, template, (value,))


def vectors(pool: Pool) -> Line | None:
    value = pool.some("f", 1, lambda a: a.ndim == 1)
    if value is None:
        return None
    other = pool.some("f", 1, lambda a: a.ndim == 1)
    template = pool.dice.choice(VECTORS)
    return None if other is None else Line(template, template, (value, other))


def both_products(pool: Pool) -> Line | None:
    """``A @ x`` or ``y @ A`` for the first three arguments, or both, one after the other."""
    texts = (("{0} @ {1}", (0, 1)), ("{0}.T @ {1}", (0, 2)), ("{1} @ {0}", (0, 2)), ("{0}.T @ ({0} @ {1})", (0, 1)))
    text, operands = pool.dice.choice(texts)
    return Line(text, text, operands)


def row_normalised(pool: Pool) -> Line | None:
    """A normalisation of the last value along its rows."""
    template = pool.dice.choice(NORMALISED)
    return Line(template, template.replace("A", "-1"), (len(pool.values) - 1,))


def grid_window(pool: Pool) -> Line | None:
    """A stencil of the last value."""
    text = pool.dice.choice(
        (
            "{0}[:-2, 1:-1] + {0}[2:, 1:-1] + {0}[1:-1, :-2] + {0}[1:-1, 2:] - 4 * {0}[1:-1, 1:-1]",
            "{0}[1:, 1:] * 0.5 + {0}[:-1, :-1]",
            "{0}[:-2] + {0}[1:-1] * 2 + {0}[2:]",
            "np.maximum({0}[:, :-2], {0}[:, 2:]) - {0}[:, 1:-1]",
        )
    )
    return Line(f"window {text}", text, (len(pool.values) - 1,))


def window_sum(pool: Pool) -> Line | None:
    """Stencils, pooling and convolutions over windows."""
    value = pool.some("f", 1, lambda a: a.shape[-1] >= 3)
    if value is None:
        return None
    rank = pool.values[value].ndim
    if rank == 2 and pool.values[value].shape[0] >= 3 and pool.dice.random() < 0.5:
        text = pool.dice.choice(
            [
                "np.lib.stride_tricks.sliding_window_view({0}, (3, 3)).sum(axis=(-1, -2))",
                "np.lib.stride_tricks.sliding_window_view({0}, (2, 3)).max(axis=(-1, -2))",
                "{0}[:-2, 1:-1] + {0}[2:, 1:-1] + {0}[1:-1, :-2] + {0}[1:-1, 2:] - 4 * {0}[1:-1, 1:-1]",
                "np.lib.stride_tricks.sliding_window_view({0}, (2, 2))[::2, ::2].max(axis=(-1, -2))",
            ]
        )
    else:
        text = pool.dice.choice(
            [
                "{0}[..., :-2] + {0}[..., 1:-1] * 2 + {0}[..., 2:]",
                "{0}[..., 1:] - {0}[..., :-1]",
                "np.lib.stride_tricks.sliding_window_view({0}, 3, axis=-1).mean(axis=-1)",
                "np.lib.stride_tricks.sliding_window_view({0}, 2, axis=-1) @ np.array([0.5, 2.0], f32)",
                "({0}[..., 1:] + {0}[..., :-1])[..., ::2]",
            ]
        )
    return Line(f"window {text}", text, (value,))


def sort(pool: Pool) -> Line | None:
    value = pool.some("iuf", 1)
    if value is None:
        return None
    template = pool.dice.choice(SORTS)
    return Line(template, template.replace("A", str(pool.axis(value))), (value,))


PROPOSALS: dict[Proposal, float] = {
    reduction: 7,
    masked: 0.7,
    position: 1.5,
    normalised: 3,
    scan: 3.3,
    contraction: 2,
    batched: 0.7,
    vectors: 0.5,
    window_sum: 2,
    sort: 0.7,
}
