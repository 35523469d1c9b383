"""Reductions inside a thread: over slot axes as balanced trees, and contractions as chains of multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.backends.numba_cuda.fragments.arithmetic import emit_fma
from polyfuse.backends.numba_cuda.fragments.declare import Emit, Rule, literal, named, operation
from polyfuse.backends.numba_cuda.fragments.monoids import MONOIDS, FragmentMonoid, State, accepts, tree
from polyfuse.backends.numba_cuda.fragments.slots import broadcast_shape, dtype_of, pack, shape_of, spread
from polyfuse.backends.numba_cuda.fragments.values import Builder, Fragment, Value
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, types


def state_fragments(monoid: FragmentMonoid, components: tuple[Any, ...]) -> tuple[Fragment, ...]:
    """The components of a state as strong fragments of one shape; raises TypingError."""
    accepts(monoid, dtype_of(components[0]))
    shape = broadcast_shape(*map(shape_of, components))
    return tuple(Fragment(dtype_of(component), shape) for component in components)


def states_of(b: Builder, components: tuple[Any, ...], fragments: tuple[Fragment, ...], values: Any) -> list[State]:
    """One state per slot."""
    columns = [spread(b, a, v, f.dtype, f.shape) for a, f, v in zip(components, fragments, values, strict=True)]
    return list(zip(*columns, strict=True))


def result_type(fragments: tuple[Fragment, ...]) -> Any:
    """A fragment, or the tuple of them for a state of several."""
    return fragments[0] if len(fragments) == 1 else types.Tuple(fragments)


def pack_states(b: Builder, fragments: tuple[Fragment, ...], states: list[State]) -> Value:
    """The value of `result_type` with one state per slot."""
    columns = [pack(b, f, list(column)) for f, column in zip(fragments, zip(*states, strict=True), strict=True)]
    return columns[0] if len(columns) == 1 else cgutils.pack_struct(b, columns)


def grouped(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[tuple[int, ...], np.ndarray[Any, Any]]:
    """The shape with `axes` at extent 1, and per slot of it the positions that it collects, in C order."""
    reduced = tuple(axis % len(shape) for axis in axes)
    kept = tuple(1 if axis in reduced else extent for axis, extent in enumerate(shape))
    positions = np.arange(int(np.prod(shape))).reshape(shape)
    order = [axis for axis in range(len(shape)) if axis not in reduced] + sorted(reduced)
    return kept, positions.transpose(order).reshape(int(np.prod(kept)), -1)


def _reduction(monoid: FragmentMonoid) -> Rule:
    def typed(components: tuple[Any, ...], axes: Any) -> tuple[Any, Emit] | None:
        if not all(isinstance(c, Fragment) for c in components):
            return None
        fragments = state_fragments(monoid, components)
        kept, groups = grouped(fragments[0].shape, literal(axes, "the axes of a reduction"))
        results = tuple(Fragment(f.dtype, kept) for f in fragments)
        dtypes = tuple(f.dtype for f in fragments)

        def emit(b: Builder, *values: Value) -> Value:
            states = states_of(b, components, fragments, values[:-1])
            reduced = [tree(b, monoid, dtypes, [states[k] for k in group]) for group in groups]
            return pack_states(b, results, reduced)

        return result_type(results), emit

    rules: dict[int, Rule] = {
        1: lambda x, axes: typed((x,), axes),
        2: lambda value, index, axes: typed((value, index), axes),
    }
    return named(rules[monoid.states], f"reduce_{monoid.name}")


REDUCTIONS: dict[str, Callable[..., Any]] = {
    f"reduce_{name}": operation(_reduction(monoid)) for name, monoid in MONOIDS.items()
}


@operation
def contract(acc: Any, x: Any, y: Any, axes: Any) -> tuple[Fragment, Emit] | None:
    """``acc`` + the sum over slot axes of ``x * y``: one chain of fused multiply-adds per slot of `acc`."""
    if not isinstance(acc, Fragment):
        return None
    if any(isinstance(a, Fragment) and not a.weak and a.dtype != acc.dtype for a in (x, y)):
        raise TypingError(f"contract of {x} and {y} into {acc}: use cast()")
    shape = broadcast_shape(shape_of(x), shape_of(y))
    kept, groups = grouped(shape, literal(axes, "the axes of contract"))
    fragment = Fragment(acc.dtype, broadcast_shape(acc.shape, kept))
    chain_of = np.broadcast_to(np.arange(len(groups)).reshape(kept), fragment.shape).ravel()

    def emit(b: Builder, total: Value, left: Value, right: Value, _: Value) -> Value:
        lefts, rights = spread(b, x, left, acc.dtype, shape), spread(b, y, right, acc.dtype, shape)
        results = []
        for slot, chain in zip(spread(b, acc, total, acc.dtype, fragment.shape), chain_of, strict=True):
            for k in groups[chain]:
                slot = emit_fma(b, acc.dtype, lefts[k], rights[k], slot)
            results.append(slot)
        return pack(b, fragment, results)

    return fragment, emit
