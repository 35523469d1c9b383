"""The NumPy-like frontend as the dispatcher knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polyfuse.errors import Source
from polyfuse.run.services import Static, Traced

if TYPE_CHECKING:
    from polyfuse.frontends.numpy_like.tracing import Traced as TracedFunction


@dataclass(frozen=True, slots=True)
class NumPyFrontend:
    """Traces NumPy code.  The frontend is imported by what needs it, so that decorating a function costs nothing."""

    def trace(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        donate: Sequence[int | str],
        again: Callable[[], None] = lambda: None,
    ) -> Traced:
        from polyfuse.frontends.numpy_like import ArraySpec, specs_of_arrays, trace, tree

        every = [*args, *kwargs.values()]
        described = iter(specs_of_arrays([value for value in every if not isinstance(value, Static)]))
        specs = [value.value if isinstance(value, Static) else next(described) for value in every]
        keywords = dict(zip(kwargs, specs[len(args) :], strict=True))
        traced = trace(function, specs[: len(args)], keywords, donate=donate, again=again)
        leaves = [leaf for spec in specs for _, leaf in tree.flatten(spec)[0]]
        kept = replace(traced, captured=(), read=(), watched=())
        return Traced(
            program=traced.program,
            shapes=tuple(leaf.shape for leaf in leaves if isinstance(leaf, ArraySpec)),
            results=traced.results,
            form=_form(traced),
            rebuild=lambda outputs, sizes: _fresh(kept).rebuild(outputs, sizes),
            guards=traced.guards,
            fixed=tuple((guard.position, guard.value) for guard in traced.scalar_guards),
            ranges=traced.scalar_ranges,
            captured=traced.captured,
            read=traced.read,
            watched=traced.watched,
            named=traced.named,
        )

    def flatten(self, value: Any, prefix: str) -> list[tuple[str, Any]]:
        from polyfuse.frontends.numpy_like import tree

        return tree.flatten(value, prefix)[0]

    def is_tracer(self, value: Any) -> bool:
        from polyfuse.frontends.numpy_like.tracer import Tracer

        return isinstance(value, Tracer)

    def origin(self, value: Any) -> tuple[str, Source | None] | None:
        from polyfuse.frontends.numpy_like.escapes import origin

        return origin(value)

    def is_spec(self, value: Any) -> bool:
        from polyfuse.frontends.numpy_like import ArraySpec, ScalarSpec

        return isinstance(value, (ArraySpec, ScalarSpec))


def _form(traced: TracedFunction) -> Literal["single", "tuple", "else"]:
    from polyfuse.frontends.numpy_like import Output, tree

    count = len(traced.program.outputs)
    plain = [isinstance(leaf, Output) and not leaf.is_python for leaf in traced.leaves]
    positions = tuple(leaf.position if is_plain else None for leaf, is_plain in zip(traced.leaves, plain, strict=True))
    if traced.structure == tree.LEAF and positions == (0,):
        return "single"
    flat = tree.Structure(tuple, tuple(range(count)), (tree.LEAF,) * count)
    return "tuple" if traced.structure == flat and positions == tuple(range(count)) else "else"


def _fresh(traced: TracedFunction) -> TracedFunction:
    """The trace with its constant arrays copied: what one caller does to a result, no other sees."""
    leaves = tuple(leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in traced.leaves)
    return replace(traced, leaves=leaves)
