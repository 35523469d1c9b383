"""Interior and border: one test per block instead of a mask per access.

if 1024*b0 + 1023 < N:   whole body without masks, full vectors
else:                    masked body
"""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.inspect import flatten, parts
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Expr, Inside


def border_conditions(ops: Sequence[ir.Op], digits: Sequence[Digit]) -> tuple[Affine, ...] | None:
    """The masks of `ops` at their worst thread, slot and loop iteration: they hold for a block iff all masks do.

    None when a mask depends on a loop of symbolic length.
    """
    inner = {f"${d.name}": d for d in digits if d.kind != "block"}
    worst: dict[Affine, None] = {}
    for condition in masks(ops):
        lowered = condition
        for atom, factor in condition.terms:
            if not isinstance(atom, str):
                if any(n in inner for n in atom.numerator.names()):
                    return None
                continue
            d = inner.get(atom)
            if d is None:
                continue
            if not d.extent.is_constant:
                return None
            lowered = lowered.substitute({atom: d.count - 1 if factor < 0 else 0})
        if any(name.startswith("$b") for name in lowered.names()):
            worst[lowered] = None  # others hold or fail for all blocks alike: they stay masks
    return tuple(worst)


def masks(ops: Sequence[ir.Op]) -> list[Affine]:
    """Every condition of an access or a value of `ops`, nested ones included."""
    found: list[Affine] = []
    for op in flatten(ops):
        if isinstance(op, (ir.Load, ir.Store, ir.AtomicUpdate)):
            found += op.where
        for part in parts(op):
            if not isinstance(part, Affine):
                found += _inside(part)
    return found


def _inside(term: Expr) -> list[Affine]:
    """Padding masks only: a condition of the user's program (a region) is no mask, but testing it is harmless."""
    match term:
        case Inside(where=where):
            return list(where)
        case Apply(operands=operands):
            return [c for o in operands for c in _inside(o)]
        case _:
            return []
