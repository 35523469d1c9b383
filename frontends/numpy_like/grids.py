"""``np.mgrid[:h, :w]`` and ``np.ogrid[-1:1:5j]``: index vectors of the trace, so that grids as large as an array cost
no memory and may have symbolic sizes.  Small ones of numbers stay NumPy's, which loops of Python may go over."""

from __future__ import annotations

from math import ceil, inf, prod
from typing import Any

import numpy as np

from polyfuse.affine import Affine, dimension
from polyfuse.dtypes import f64
from polyfuse.errors import ArgumentError
from polyfuse.frontends.numpy_like import nodes, promotion
from polyfuse.frontends.numpy_like.creation import arange
from polyfuse.frontends.numpy_like.elementwise import ufunc
from polyfuse.frontends.numpy_like.state import Trace, located
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import broadcast
from polyfuse.frontends.numpy_like.watched import read_values

SMALL = 4096
"""Points of a grid of numbers, up to which it is NumPy's."""


class Grid:
    """What ``np.mgrid`` or ``np.ogrid`` is inside a jitted function; `original`: NumPy's."""

    def __init__(self, trace: Trace, name: str, original: Any) -> None:
        self._trace, self._name, self._original = trace, name, original

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if not isinstance(part, slice) or part.stop is None:
                raise located(
                    ArgumentError(
                        f"np.{self._name} takes slices that end somewhere, not {_text(part)}",
                        advice=f"Write np.{self._name}[0:n, 0:m].",
                    )
                )
        if _points(parts) <= SMALL:
            return self._original[read_values(key)]
        vectors = [self._trace.run(_vector, self._trace, part) for part in parts]
        if key is not parts:
            return vectors[0]
        return self._trace.run(_open if self._name == "ogrid" else _full, self._trace, vectors)


def _text(part: Any) -> str:
    if isinstance(part, slice):
        return ":".join("" if p is None else str(p) for p in (part.start, part.stop))
    return str(part) if isinstance(part, (int, float, str)) else type(part).__name__


def _points(parts: tuple[slice, ...]) -> float:
    """Of a grid of numbers; of any other, more than any number."""
    counts = list[float]()
    for part in parts:
        numbers = [n for n in (part.start, part.stop, part.step) if n is not None]
        if not all(isinstance(n, (int, float, complex, np.number)) for n in numbers):
            return inf
        step = 1 if part.step is None else part.step
        if isinstance(step, complex):
            counts.append(abs(step))
        elif not step:
            return 0  # NumPy says what is wrong with it
        else:
            counts.append(max(0, ceil((part.stop - (part.start or 0)) / step)))
    return prod(counts)


def _vector(trace: Trace, part: slice) -> Tracer:
    """One axis.  A step like ``5j`` says how many points there are, the last one at the end."""
    start, step = 0 if part.start is None else part.start, 1 if part.step is None else part.step
    if not isinstance(step, complex):
        return arange(trace, start, part.stop, step)
    count = int(abs(step))
    width = (part.stop - start) / (abs(step) - 1) if abs(step) != 1 else 1
    index = Tracer(trace, nodes.cast(nodes.iota((Affine.of(count),), dimension(0)), f64))
    return ufunc("add", ufunc("multiply", index, width), start)


def _open(trace: Trace, vectors: list[Tracer]) -> tuple[Tracer, ...]:
    """Each axis as an array of one row along its dimension, all of one dtype."""
    wanted = promotion.common(tuple([v.element for v in vectors]))
    rank, found = len(vectors), list[Tracer]()
    for k, v in enumerate(vectors):
        row = v[tuple([slice(None) if j == k else None for j in range(rank)])]
        found.append(row if row.element == wanted else Tracer(trace, nodes.cast(row.node, wanted)))
    return tuple(found)


def _full(trace: Trace, vectors: list[Tracer]) -> Tracer:
    """All axes, each over the whole grid."""
    shape = tuple([v.sizes[0] for v in vectors])
    stacked: Tracer = trace.functions["stack"]([broadcast(row, shape) for row in _open(trace, vectors)])
    return stacked
