"""``np.nonzero(mask)`` of a mask of unknown values: as many positions as hold, so that they stay beside their mask.

    a[np.where(m)] = 0        a[m] = 0
    i, j = np.nonzero(m)
    a[i, j] += 1              a[m] += 1
    a[i, j].sum(), i.max()    a[m].sum(), np.indices(m.shape)[0][m].max()
    a[i, j] = means[j]        a[m] = means[np.indices(m.shape)[1][m]]

All positions of a mask, one axis after the other, are an index that is the mask itself; of those along one axis there
is what there is of ``x[mask]``, and they choose elements as its integers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.affine import dimension
from polyfuse.errors import ShapeError, TraceError, UnsupportedError
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.locations import Location
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.tracer import Tracer

ADVICE = (
    "Positions are an index, all of them at once (a[np.nonzero(mask)] = 0), choose what is read, or are reduced. "
    "np.count_nonzero(mask) is their number, np.argmax(mask) the first; np.where(mask, a, b) keeps the shape."
)


class Positions(Masked):
    """The positions along `axis` of the elements of `mask` that hold."""

    __slots__ = ("axis", "found", "name")

    def __init__(self, mask: Tracer, axis: int, name: str) -> None:
        self.found = nodes.iota(mask.sizes, dimension(axis))
        super().__init__(Tracer(mask.state, self.found), mask)
        self.axis, self.name = axis, name

    def is_of(self, mask: Tracer) -> bool:
        """Whether these are positions of `mask` still: ``i += 1`` makes others of them."""
        return self.mask.node is mask.node and self.array.node is self.found

    def refusal(self, location: Location | None = None) -> TraceError:
        problem = f"the shape of {self.name} depends on the values of the mask"
        return UnsupportedError(problem, advice=ADVICE, source=location.source() if location else None)


def nonzero(x: Tracer, name: str = "np.nonzero(mask)") -> Any:
    """``np.nonzero(x)``, ``np.where(x)``: real arrays where the values of `x` are known while tracing."""
    if not x.ndim:
        raise ShapeError(f"{name} of an array of rank 0", advice="Write np.atleast_1d(x) != 0.")
    values = settled(x.state, x.node)
    if values is not None:
        return np.nonzero(values)
    mask = Tracer(x.state, nodes.logical(x.node))
    return tuple(Positions(mask, axis, name) for axis in range(x.ndim))


def flatnonzero(x: Tracer) -> Any:
    """``np.flatnonzero(x)``: positions among all elements in C order."""
    return nonzero(x.reshape(-1), "np.flatnonzero(mask)")[0]


class Chooser(Tracer):
    """A mask in place of all of its positions, which may choose among the first elements of a longer axis."""

    __slots__ = ()

    def spans(self, sizes: Sequence[Any]) -> list[slice]:
        """What it covers of axes of these sizes."""
        pairs = zip(self.sizes, self.shape, sizes, strict=False)
        return [slice(None) if self.state.equal(own, n) else slice(shown) for own, shown, n in pairs]


def as_masks(items: Sequence[Any]) -> list[Any]:
    """The items of an index, with the mask in place of all of its positions.  Some of them, or in another order, stay
    what they are: integers of a selection."""
    found, left = [], list(items)
    while left:
        item = left.pop(0)
        if isinstance(item, Positions):
            others = left[: item.mask.ndim - 1]
            together = [p for p in (item, *others) if isinstance(p, Positions) and p.is_of(item.mask)]
            if [p.axis for p in together] == list(range(item.mask.ndim)):
                item, left = Chooser(item.state, item.mask.node), left[len(others) :]
        found.append(item)
    return found
