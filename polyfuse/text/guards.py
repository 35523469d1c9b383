"""Guards for readers: ``N >= 1025``, ``4 divides N``, ``at most 2147418112 elements in M x N``,
``at most 528 blocks in ceil(N/4096)``."""

from __future__ import annotations

from collections.abc import Mapping

from polyfuse.bindings import AnyGuard, DerivedGuard, Guard, VolumeGuard
from polyfuse.text.sizes import bound_text, product_text, size_text


def guard_text(guard: AnyGuard, rename: Mapping[str, str] | None = None) -> str:
    """One condition.  `rename`: text of a size symbol, which may be a product."""
    match guard:
        case DerivedGuard(guard=inner, derived=derived):
            return guard_text(inner, {name: "*".join(map(size_text, factors)) for name, factors in derived})
        case VolumeGuard(shape, limit, exceeds, advisory):
            what = "blocks" if advisory else "elements"
            return f"{'more than' if exceeds else 'at most'} {limit} {what} in {product_text(shape, rename)}"
        case Guard(expression, modulus) if modulus:
            verb = "does not divide" if guard.negated else "divides"
            return f"{modulus} {verb} {size_text(expression, rename)}"
        case Guard(expression):
            return bound_text(expression, rename)
