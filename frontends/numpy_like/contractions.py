"""Contractions: every one is ``Reduce(sum, Map(multiply, View, View))`` over labelled axes, so that spelling is lost.

np.einsum("ij,jk->ik", a, b)  ==  a @ b  ==  np.tensordot(a, b, 1)  ==  np.sum(a[:, None, :] * b.T[None], -1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from polyfuse.affine import ONE, ZERO, Affine, dimension, dimensions
from polyfuse.dtypes import DType, bool_
from polyfuse.errors import DTypeError, ShapeError
from polyfuse.expr import Node
from polyfuse.frontends.numpy_like import axes, nodes, promotion
from polyfuse.frontends.numpy_like.elementwise import ufunc
from polyfuse.frontends.numpy_like.lifting import as_dtype, kind_of, lift_arrays, mismatch, text_of
from polyfuse.frontends.numpy_like.reductions import sum_
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Path, Tracer
from polyfuse.frontends.numpy_like.views import diagonal, moveaxis

ArrayLike = object
Labels = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """An operand whose axes carry labels."""

    node: Node
    labels: Labels


def contract(trace: Trace, terms: Sequence[Term], output: Labels, repeated: bool = True) -> Node:
    """The sum over all labels that `output` lacks of the product of the terms, all of one dtype.

    The product space has the output's axes first, then the summed labels in order of appearance.  `repeated`: an axis
    of size 1 may be summed with a longer one, as in einsum alone.
    """
    extents = _extents(trace, terms, None if repeated else output)
    summed = [n for n in dict.fromkeys(n for t in terms for n in t.labels) if n not in output]
    space = (*output, *summed)
    shape = [extents[n] for n in space]
    place = {n: dimension(k) for k, n in enumerate(space)}
    factors = []
    for term in terms:
        entries = zip(term.node.shape, term.labels, strict=True)
        factors.append(nodes.view(term.node, shape, [ZERO if n == ONE else place[label] for n, label in entries]))
    function, monoid = ("bitwise_and", "any") if terms[0].node.dtype == bool_ else ("multiply", "sum")
    product = reduce(lambda a, b: nodes.apply(function, [a, b]), factors)
    return nodes.reduce_(monoid, [nodes.broadcast(product, shape)], range(len(output), len(space)))


def _extents(trace: Trace, terms: Sequence[Term], broadcast: Labels | None) -> dict[Any, Affine]:
    """The size of every label.  `broadcast`: those where 1 goes with any size; None for all.  Raises ShapeError."""
    extents: dict[Any, Affine] = {}
    for term in terms:
        for label, size in zip(term.labels, term.node.shape, strict=True):
            known = extents.setdefault(label, size)
            found = _joint(trace, known, size, broadcast is None or label in broadcast)
            if found is None:
                shapes = tuple(t.node.shape for t in terms)
                raise mismatch("sizes to contract differ", trace, shapes, known, size, "axes of one label")
            extents[label] = found
    return extents


def _joint(trace: Trace, known: Affine, size: Affine, broadcast: bool) -> Affine | None:
    """The size of two axes of one label; None where they do not fit."""
    if broadcast and known == ONE:
        return size
    if (broadcast and size == ONE) or trace.equal(known, size) or (broadcast and trace.equal(size, ONE)):
        return known
    return size if broadcast and trace.equal(known, ONE) else None


def _common(tracers: Sequence[Tracer], dtype: Any = None) -> tuple[list[Node], DType]:
    """Operands in the dtype to multiply in (16-bit floats in float32), and the result's dtype."""
    kinds = tuple(kind_of(t) for t in tracers)
    wanted = numpy_dtype(dtype) if dtype is not None else promotion.common(kinds)
    return [as_dtype(t, wanted.compute) for t in tracers], wanted


def labelled(
    tracers: Sequence[Tracer], labels: Sequence[Labels], output: Labels, dtype: Any = None, repeated: bool = False
) -> Tracer:
    """`contract` with NumPy's dtypes."""
    operands, wanted = _common(tracers, dtype)
    trace = tracers[0].state
    terms = [Term(node, names) for node, names in zip(operands, labels, strict=True)]
    return Tracer(trace, nodes.cast(contract(trace, terms, output, repeated), wanted))


# ---------------------------------------------------------------------------------------------- products of two


def matmul(a: ArrayLike, b: ArrayLike, *, dtype: Any = None) -> Tracer:
    a, b = lift_arrays(a, b)
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul needs arrays of rank 1 or more", advice="Use * for scalars.")
    batch = max(a.ndim, b.ndim, 2) - 2
    left: Labels = ("k",) if a.ndim == 1 else (*range(batch - a.ndim + 2, batch), "i", "k")
    right: Labels = ("k",) if b.ndim == 1 else (*range(batch - b.ndim + 2, batch), "k", "j")
    output = (*range(batch), *(["i"] if a.ndim > 1 else []), *(["j"] if b.ndim > 1 else []))
    return labelled([a, b], [left, right], output, dtype)


def dot(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = lift_arrays(a, b)
    if not a.ndim or not b.ndim:
        return ufunc("multiply", a, b)
    return tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Tracer:
    a, b = lift_arrays(a, b)
    if isinstance(axes, (int, np.integer)):
        if axes > min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot over {axes} axes of arrays of rank {a.ndim} and {b.ndim}")
        first, second = list(range(a.ndim - int(axes), a.ndim)), list(range(int(axes)))
    else:
        first, second = _axis_pairs(axes[0], a.ndim), _axis_pairs(axes[1], b.ndim)
    if len(first) != len(second):
        raise ShapeError("tensordot needs as many axes of one operand as of the other")
    left: list[Any] = [("a", k) for k in range(a.ndim)]
    right: list[Any] = [("b", k) for k in range(b.ndim)]
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    kept = [n for k, n in enumerate(left) if k not in first] + [n for k, n in enumerate(right) if k not in second]
    return labelled([a, b], [tuple(left), tuple(right)], tuple(kept))


def _axis_pairs(chosen: Any, rank: int) -> list[int]:
    return axes.sequence(chosen if isinstance(chosen, (tuple, list)) else [chosen], rank)


def inner(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = lift_arrays(a, b)
    return tensordot(a, b, ([-1], [-1])) if a.ndim and b.ndim else ufunc("multiply", a, b)


def vdot(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = lift_arrays(a, b)
    return dot(a.reshape(-1), b.reshape(-1))


def vecdot(a: ArrayLike, b: ArrayLike, *, axis: int = -1) -> Tracer:
    a, b = lift_arrays(a, b)
    rank = max(a.ndim, b.ndim)
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    left, right = (tuple(range(rank - x.ndim, rank - 1)) + ("k",) for x in (a, b))
    return labelled([a, b], [left, right], tuple(range(rank - 1)))


def matvec(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = lift_arrays(a, b)
    return matmul(a, b[..., None])[..., 0]


def vecmat(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = lift_arrays(a, b)
    return matmul(a[..., None, :], b)[..., 0, :]


def outer(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = lift_arrays(a, b)
    return ufunc("multiply", a.reshape(-1)[:, None], b.reshape(-1)[None, :])


def kron(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = lift_arrays(a, b)
    rank = max(a.ndim, b.ndim)
    while a.ndim < rank:
        a = a[None]
    while b.ndim < rank:
        b = b[None]
    product = a[(slice(None), None) * rank] * b[(None, slice(None)) * rank]
    return product.reshape(tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)))


def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tracer:
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Tracer:
    """The vector product of vectors of three components."""
    a, b = lift_arrays(a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    given = f"{text_of(a.sizes)} and {text_of(b.sizes)}"
    a, b = moveaxis(a, axisa, 0), moveaxis(b, axisb, 0)
    if not all(x.state.equal(x.sizes[0], Affine.of(3)) for x in (a, b)):
        raise ShapeError(
            f"cross needs vectors of 3 components, not {given}",
            advice="Of vectors of 2, write a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0].",
        )
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return moveaxis(parts[0].state.call("stack", parts), 0, axisc)


# ---------------------------------------------------------------------------------------------- einsum


def einsum(
    *operands: Any, optimize: Any = True, dtype: Any = None, casting: str = "safe", order: str = "K"
) -> Tracer:
    """``np.einsum`` in both of its spellings; more than two operands are contracted two by two.  Raises DTypeError for
    a `dtype` to which the operands are not cast."""
    labels, output, arrays = _parsed(operands)
    tracers = lift_arrays(*arrays)
    inputs, result = _with_ellipsis(labels, output, tracers)
    if len(tracers) == 1 and (view := _unsummed(tracers[0], inputs[0], result)) is not None:
        return view
    for x in tracers if dtype is not None else ():
        if not np.can_cast(x.dtype, numpy_dtype(dtype).numpy, casting):  # type: ignore[arg-type]
            raise DTypeError(
                f"np.einsum does not cast {x.dtype} to {np.dtype(dtype)} by the rule {casting!r}",
                advice="Cast the operand first with x.astype(...), or give casting='unsafe'.",
            )
    if len(tracers) < 3:
        return labelled(tracers, inputs, result, dtype, repeated=True)
    operands_, wanted = _common(tracers, dtype)
    terms = [Term(node, names) for node, names in zip(operands_, inputs, strict=True)]
    return Tracer(tracers[0].state, nodes.cast(_pairwise(tracers[0].state, terms, result), wanted))


def _unsummed(x: Tracer, labels: Labels, output: Labels) -> Tracer | None:
    """What NumPy gives of one operand where nothing is summed, whatever `dtype` is asked for: a view."""
    if not labels or set(labels) != set(output):
        return None
    first = {label: axis for axis, label in reversed(list(enumerate(labels)))}
    if not all(x.state.equal(x.sizes[first[label]], n) for n, label in zip(x.sizes, labels, strict=True)):
        return None
    place = {label: dimension(j) for j, label in enumerate(output)}
    gaps = [dimension(first[label]) - dimension(axis) for axis, label in enumerate(labels) if axis != first[label]]
    where = tuple(side for gap in gaps for side in (gap, -gap))
    shape, inverse = (tuple(of[first[label]] for label in output) for of in (x.sizes, dimensions(x.ndim)))
    return x.through(Path(shape, tuple(place[label] for label in labels), inverse, where))


def _parsed(operands: Sequence[Any]) -> tuple[list[list[Any]], list[Any] | None, list[Any]]:
    """Labels per operand, labels of the output or None, and the operands; an ellipsis stays as Ellipsis."""
    if not isinstance(operands[0], str):
        pairs = len(operands) // 2
        output = list(operands[-1]) if len(operands) % 2 else None
        return [list(operands[2 * k + 1]) for k in range(pairs)], output, [operands[2 * k] for k in range(pairs)]
    text = operands[0].replace(" ", "").replace("...", ".")
    inputs, arrow, right = text.partition("->")

    def labels(part: str) -> list[Any]:
        return [Ellipsis if c == "." else c for c in part]

    if wrong := sorted(c for c in f"{inputs}{right}" if c not in ".," and not (c.isascii() and c.isalpha())):
        raise ShapeError(f"einsum {operands[0]!r} has {wrong[0]!r} among its labels, which are letters")
    found = [labels(part) for part in inputs.split(",")]
    if len(found) != len(operands) - 1:
        raise ShapeError(f"einsum {operands[0]!r} names {len(found)} operands, {len(operands) - 1} are given")
    return found, labels(right) if arrow else None, list(operands[1:])


def _with_ellipsis(
    labels: Sequence[Sequence[Any]], output: Sequence[Any] | None, tracers: Sequence[Tracer]
) -> tuple[list[Labels], Labels]:
    """Ellipses replaced by labels ``0, 1, ...`` counted from the right; the implicit output filled in."""
    inputs: list[Labels] = []
    widest = 0
    for names, x in zip(labels, tracers, strict=True):
        missing = x.ndim - (len(names) - (Ellipsis in names))
        if missing < 0 or (missing and Ellipsis not in names):
            shown = "".join("..." if n is Ellipsis else str(n) for n in names)
            raise ShapeError(f"einsum operand {shown!r} does not fit an array of shape {text_of(x.sizes)}")
        widest = max(widest, missing)
        inputs.append(_replaced(names, missing))
        _check_diagonals(x, inputs[-1])
    if output is None:
        every = [n for names in labels for n in names if n is not Ellipsis]
        once = sorted((n for n in set(every) if every.count(n) == 1), key=str)
        output = [*([Ellipsis] if widest else []), *once]
    elif widest and Ellipsis not in output:
        raise ShapeError(
            f"einsum has '...' among its inputs and not in the output {''.join(map(str, output))!r}",
            advice="Name the dimensions to sum over, or keep them with '...'.",
        )
    result = _replaced(output, widest)
    known = {n for names in inputs for n in names}
    if not set(result) <= known or len(set(result)) < len(result):
        raise ShapeError(f"einsum output {result} names unknown labels, or one twice")
    return inputs, result


def _check_diagonals(x: Tracer, labels: Labels) -> None:
    """Axes of one label are of one size where they are axes of one operand: there NumPy repeats nothing."""
    first: dict[Any, Affine] = {}
    for label, size in zip(labels, x.sizes, strict=True):
        if not x.state.equal(first.setdefault(label, size), size):
            problem = f"einsum takes a diagonal of axes of sizes {first[label]} and {size}"
            raise ShapeError(f"{problem}, in an array of shape {text_of(x.sizes)}")


def _replaced(names: Sequence[Any], missing: int) -> Labels:
    dots = [("...", missing - 1 - k) for k in range(missing)]
    return tuple(label for n in names for label in (dots if n is Ellipsis else [n]))


def _pairwise(trace: Trace, terms: list[Term], output: Labels) -> Node:
    """Contract two terms at a time, in the order that NumPy's path search finds for the hinted sizes."""
    letters = {n: chr(ord("A") + k) for k, n in enumerate(dict.fromkeys(n for t in terms for n in t.labels))}
    text = ",".join("".join(letters[n] for n in t.labels) for t in terms) + "->" + "".join(letters[n] for n in output)
    stand_ins = [np.broadcast_to(0.0, [trace.hint(n) for n in t.node.shape]) for t in terms]
    path = np.einsum_path(text, *stand_ins, optimize="greedy")[0][1:]
    remaining = list(terms)
    for chosen in path:
        taken = [remaining[k] for k in chosen]
        remaining = [t for k, t in enumerate(remaining) if k not in chosen]
        alive = {n for t in remaining for n in t.labels} | set(output)
        names = tuple(n for n in dict.fromkeys(n for t in taken for n in t.labels) if n in alive)
        kept = output if not remaining else names
        remaining.append(Term(contract(trace, taken, kept), kept))
    return remaining[0].node


def multi_dot(arrays: Sequence[ArrayLike]) -> Tracer:
    return reduce(matmul, lift_arrays(*arrays))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "dot": dot,
    "vdot": vdot,
    "vecdot": vecdot,
    "matvec": matvec,
    "vecmat": vecmat,
    "inner": inner,
    "outer": outer,
    "tensordot": tensordot,
    "einsum": einsum,
    "kron": kron,
    "trace": trace,
    "cross": cross,
    "linalg.matmul": matmul,
    "linalg.tensordot": tensordot,
    "linalg.vecdot": vecdot,
    "linalg.outer": outer,
    "linalg.cross": lambda a, b, *, axis=-1: cross(a, b, axis=axis),
    "linalg.trace": lambda a, *, offset=0, dtype=None: trace(a, offset, -2, -1, dtype),
    "linalg.multi_dot": multi_dot,
}
