"""Affine expressions for readers: ``ceil(N/4096)`` and ``M*N`` instead of floor divisions and made-up symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from polyfuse.affine import Affine, FloorDiv
from polyfuse.expr import Program
from polyfuse.unravelled import Unravelled


def size_text(expression: Affine, rename: Mapping[str, str] | None = None) -> str:
    """One expression.  `rename`: text of an atom, which may be a product."""
    names = rename or {}
    parts: list[str] = []
    for atom, factor in expression.terms:
        name = _floor_text(atom, names) if isinstance(atom, FloorDiv) else names.get(atom, atom.lstrip("$"))
        size = "" if abs(factor) == 1 else f"{abs(factor)}*"
        parts.append(f"{' - ' if factor < 0 else ' + '}{size}{name}")
    if expression.constant or not parts:
        parts.append(f"{' - ' if expression.constant < 0 else ' + '}{abs(expression.constant)}")
    text = "".join(parts)
    return text[3:] if text.startswith(" + ") else f"-{text[3:]}"


def entry_text(entry: Affine | Unravelled | str, rename: Mapping[str, str] | None = None) -> str:
    """One entry of a place or an index; a name is what it says."""
    match entry:
        case str():
            return entry
        case Unravelled(flat, extent, in_row, rows, step, first):
            names = rename or {}
            again = f" mod {_operand(rows, names)}" if rows is not None else ""
            found = f"{_operand(flat, names)} {'mod' if in_row else '//'} {_operand(extent, names)}{again}"
            if entry.is_plain:
                return found
            return size_text(first + step * Affine.symbol("%"), {**names, "%": f"({found})"})
        case _:
            return size_text(entry, rename)


def _floor_text(atom: FloorDiv, names: Mapping[str, str]) -> str:
    above, below = atom.numerator, atom.denominator
    rounded = above - (below - 1)  # floor(e/m) = ceil((e - m + 1)/m)
    if abs(rounded.constant) < above.constant:
        return f"ceil({_operand(rounded, names)}/{below})"
    return f"floor({_operand(above, names)}/{below})"


def _operand(expression: Affine, names: Mapping[str, str]) -> str:
    text = size_text(expression, names)
    return f"({text})" if len(expression.terms) + bool(expression.constant) > 1 else text


def bound_text(expression: Affine, rename: Mapping[str, str] | None = None) -> str:
    """``expression >= 0`` with positive terms on either side: ``i + j < N``, ``N >= 5``, ``N <= 7``."""
    above = Affine(tuple((a, f) for a, f in expression.terms if f > 0))
    below = Affine(tuple((a, -f) for a, f in expression.terms if f < 0))
    if not below.terms:
        return f"{size_text(above, rename)} >= {-expression.constant}"
    if above.terms and expression.constant == -1:
        return f"{size_text(below, rename)} < {size_text(above, rename)}"
    return f"{size_text(below, rename)} <= {size_text(above + expression.constant, rename)}"


def product_text(extents: Iterable[Affine], rename: Mapping[str, str] | None = None) -> str:
    """Extents side by side: ``ceil(N/4096) x M``; ``1`` when there are none."""
    shown = [e for e in extents if e != Affine.of(1)]
    names = rename or {}
    return " x ".join(_operand(e, names) if len(shown) > 1 else size_text(e, names) for e in shown) or "1"


def derived_names(program: Program) -> dict[str, str]:
    """The symbols that stand for products of sizes, spelled out: ``MN`` is ``M*N``."""
    names: dict[str, str] = {}
    for name, factors in program.derived:
        names[name] = "*".join(_operand(f, names) for f in factors)
    return names
