"""Contractions of a SCoP that an array library can run, found from access relations alone.

    t = sum(cast(x[2*i, k]) * w[k, j], axis=k); y = cast(t)    ->    contraction(x[2*i, k], w[k, j]) into y

A library takes one stride for all stacks, one for all rows, and so on: where several letters of a group have none in
common, as heads cut out of a projection, it would copy the operand, so a kernel does that first, where it may fuse with
what computes the operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from polyfuse.affine import Affine, FloorDiv, dimension, dimensions
from polyfuse.dtypes import DType, bf16, f16, f32, f64
from polyfuse.expr import Shape
from polyfuse.library_calls.contraction import Contraction, Operand
from polyfuse.scop import Read, Scop, Statement
from polyfuse.terms import Apply, Ref


@dataclass(frozen=True, slots=True)
class View:
    """``copy[%0, %1, ...] = array[index]`` of this shape."""

    shape: Shape
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """How one factor reads which value, and the conversion in between.

    index: the access.  `is_strided`: `operand` is it as a strided one.  `view`: the copy that `operand` reads instead.
    """

    index: tuple[Affine, ...]
    operand: Operand
    is_strided: bool
    source: int
    cast: int | None
    view: View | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A contraction of a SCoP: what the library gets (`sources`) and makes (`root`), and the statements it replaces.

    `views`: per source, how a kernel has to rearrange it first, where no library could read it in place.
    """

    root: int
    body: frozenset[int]
    sources: tuple[int, int]
    views: tuple[View | None, View | None]
    contraction: Contraction


def contractions(scop: Scop, hints: Mapping[str, int]) -> Iterator[Found]:
    """Every contraction of two arrays of one floating dtype, with rows and columns, laid out for sizes like these."""
    for statement in scop.statements:
        if isinstance(statement, Statement) and (found := _contraction(scop, statement, hints)) is not None:
            yield found


def _contraction(scop: Scop, total: Statement, hints: Mapping[str, int]) -> Found | None:
    if total.monoid != "sum" or not total.is_reduction or len(total.body) != 1 or total.dtypes[0] not in (f32, f64):
        return None
    product, body = total, {total.id}
    if isinstance(total.body[0], Ref):  # the products are a statement of their own
        single = _single_read(scop, total)
        if single is None or scop.readers[single.id] != (total.id,) or single.id in scop.outputs:
            return None
        product = single
        body.add(product.id)
    factors = _factors(product)
    if factors is None:
        return None
    sides = [_side(scop, read) for read in factors]
    if None in sides:
        return None
    left, right = (s for s in sides if s is not None)
    dtype = scop.dtype(left.source)
    if scop.dtype(right.source) != dtype:
        return None
    if (dtype in (f16, bf16)) != (total.dtypes[0] != dtype):
        return None
    body |= {side.cast for side in (left, right) if side.cast is not None}
    root = _rounded(scop, total, dtype) if dtype in (f16, bf16) else total
    if root is None:
        return None
    made = Contraction(total.extents, total.reduced, left.operand, right.operand, root.dtypes[0])
    both, rows, columns, summed = made.letters()
    if both + columns + rows == [k for k in range(len(total.extents)) if k not in total.reduced]:
        left, right = right, left  # so that the library can write the result in place
        made = replace(made, left=left.operand, right=right.operand)
        rows, columns = columns, rows
    whole = len(both) + len(rows) + len(columns) + len(summed) == len(total.extents)
    in_both = made.left.letters() & made.right.letters()
    if not (rows and columns and summed and whole and all(f"%{k}" in in_both for k in summed)):
        return None
    laid = [
        side if _joins(scop, side, groups, made.extents, hints) else _rearranged(side, groups, made.extents)
        for side, groups in ((left, (both, rows, summed)), (right, (both, columns, summed)))
    ]
    made = replace(made, left=laid[0].operand, right=laid[1].operand)
    return Found(
        root.id, frozenset({*body, root.id}), (left.source, right.source), (laid[0].view, laid[1].view), made
    )


def _joins(
    scop: Scop, side: Side, groups: Sequence[Sequence[int]], extents: Shape, hints: Mapping[str, int]
) -> bool:
    """Whether every group of letters has one stride in the operand, as it lies in C order."""
    if not side.is_strided:
        return False
    strides = [1]
    for extent in reversed(scop.shape(side.source)[1:]):
        strides.insert(0, strides[0] * extent.evaluate(hints))
    steps = [1] if side.operand.flat else strides
    for group in groups:
        axes = [(n, side.operand.stride(k, steps)) for k in group if (n := extents[k].evaluate(hints)) != 1]
        if any(outer != extent * inner for (_, outer), (extent, inner) in pairwise(axes)):
            return False
    return True


def _rearranged(side: Side, groups: Sequence[Sequence[int]], extents: Shape) -> Side:
    """The side read from a copy with an axis per letter, group by group: stacks first, last what lay closest."""
    both, free, summed = groups
    near = {n for n in side.index[-1].names() if side.index[-1].coefficient(n) == 1} if side.index else set()
    letters = [*both, *summed, *free] if near & {f"%{k}" for k in free} else [*both, *free, *summed]
    letters = [k for k in letters if f"%{k}" in side.operand.letters()]
    places = {f"%{k}": dimension(p) for p, k in enumerate(letters)}
    view = View(tuple(extents[k] for k in letters), tuple(e.substitute(places) for e in side.index))
    return replace(side, operand=Operand(tuple(map(dimension, letters))), view=view)


def _single_read(scop: Scop, total: Statement) -> Statement | None:
    """The statement whose value `total` sums, point by point."""
    if len(total.reads) != 1:
        return None
    (read,) = total.reads
    source = scop.statements[read.source]
    same = read.index == dimensions(len(total.extents)) and not read.where and read.component == 0
    return source if isinstance(source, Statement) and same and source.monoid is None else None


def _factors(product: Statement) -> tuple[Read, Read] | None:
    match product.body:
        case (Apply(function="multiply", operands=(Ref(name=a), Ref(name=b))),) if a[0] == b[0] == "r":
            return product.reads[int(a[1:])], product.reads[int(b[1:])]
    return None


def _side(scop: Scop, read: Read) -> Side | None:
    if read.where or not read.affine or read.component:
        return None
    source, cast = scop.statements[read.source], None
    if isinstance(source, Statement) and _is_widening(scop, source):
        (inner,) = source.reads
        if inner.where or not inner.affine or inner.component:
            return None
        at = {f"%{k}": entry for k, entry in enumerate(read.index) if isinstance(entry, Affine)}
        entries = [e.substitute(at) for e in inner.index if isinstance(e, Affine)]
        read, cast, source = Read(inner.source, tuple(entries)), source.id, scop.statements[inner.source]
    index = tuple(e for e in read.index if isinstance(e, Affine))
    operand = _strided(index, source.shape)
    return Side(index, operand or Operand(index), operand is not None, source.id, cast)


def _strided(index: tuple[Affine, ...], shape: Shape) -> Operand | None:
    """The access as a strided one; None where it is none, or has negative strides, which not every library knows."""
    if any(factor < 0 for entry in index for atom, factor in entry.terms if str(atom).startswith("%")):
        return None
    if not any(_mixes(entry) for entry in index):
        return Operand(index)
    if not all(extent.is_constant for extent in shape):
        return None
    flat, step = Affine.of(0), 1
    for entry, extent in zip(reversed(index), reversed(shape), strict=True):
        flat, step = flat + entry * step, step * extent.constant
    return None if _mixes(flat) else Operand((flat,), flat=True)


def _mixes(entry: Affine) -> bool:
    """Whether a quotient keeps an index from being strided in every letter."""
    return any(isinstance(a, FloorDiv) and any(n.startswith("%") for n in a.numerator.names()) for a, _ in entry.terms)


def _is_widening(scop: Scop, statement: Statement) -> bool:
    """``f32(x)`` of a 16-bit float."""
    match statement.body:
        case (Apply(function="cast", operands=(Ref(),)),) if statement.monoid is None and len(statement.reads) == 1:
            return statement.dtypes == (f32,) and scop.dtype(statement.reads[0].source) in (f16, bf16)
    return False


def _rounded(scop: Scop, total: Statement, dtype: DType) -> Statement | None:
    """The statement that rounds the sum to the operands' dtype, where that is its only use."""
    readers = scop.readers.get(total.id, ())
    if len(readers) != 1 or total.id in scop.outputs:
        return None
    reader = scop.statements[readers[0]]
    match reader:
        case Statement(body=(Apply(function="cast", operands=(Ref(),)),), monoid=None, reads=(read,)):
            whole = read.index == tuple(map(dimension, range(len(total.shape)))) and not read.where
            return reader if whole and reader.dtypes == (dtype,) else None
    return None

