"""Strides of arrays, in elements: polynomials of sizes, since memory lies in C order.

Those of an array (a, b, c) are ``b*c, c, 1``; isl knows no products of sizes, so they are kept beside the index maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyfuse.affine import Affine, Atom, FloorDiv
from polyfuse.expr import Shape

Monomial = tuple[Atom, ...]
Polynomial = Mapping[Monomial, int]
Strides = tuple[Polynomial, ...]

UNIT: Polynomial = {(): 1}


def of_shape(shape: Shape) -> Strides:
    """Those of an array whose elements lie one after the other."""
    return split(UNIT, shape)


def split(step: Polynomial, sizes: Sequence[Affine]) -> Strides:
    """Those of the axes that one axis of memory is divided into."""
    found = []
    for size in reversed(sizes):
        found.append(step)
        step = times(step, size)
    return tuple(reversed(found))


def of_view(strides: Strides | None, index: Sequence[Affine], rank: int) -> Strides | None:
    """Those of a view that reads ``x[index]``; None where a point does not step evenly."""
    if strides is None:
        return None
    found: list[dict[Monomial, int]] = [{} for _ in range(rank)]
    for stride, entry in zip(strides, index, strict=True):
        for atom, factor in entry.terms:
            if isinstance(atom, str) and atom.startswith("%"):
                _add(found[int(atom[1:])], stride, factor)
            elif isinstance(atom, FloorDiv) and any(name.startswith("%") for name in atom.numerator.names()):
                return None
    return tuple(found)


def times(polynomial: Polynomial, size: Affine) -> Polynomial:
    found: dict[Monomial, int] = {}
    _add(found, polynomial, size.constant)
    for atom, factor in size.terms:
        _add(found, {tuple(sorted((*m, atom), key=str)): c for m, c in polynomial.items()}, factor)
    return found


def difference(a: Polynomial, b: Polynomial) -> Affine | None:
    """What decides whether two strides are equal: it is 0 exactly where they are.  None for products of sizes that
    have no size in common."""
    found = dict(a)
    _add(found, b, -1)
    shared = set.intersection(*map(set, found)) if found else set()
    rest = [([atom for atom in monomial if atom not in shared], factor) for monomial, factor in found.items()]
    if any(len(atoms) > 1 for atoms, _ in rest):
        return None
    return sum((Affine(((atoms[0], f),)) if atoms else Affine.of(f) for atoms, f in rest), start=Affine.of(0))


def _add(to: dict[Monomial, int], polynomial: Polynomial, factor: int) -> None:
    for monomial, coefficient in polynomial.items():
        to[monomial] = to.get(monomial, 0) + coefficient * factor
        if not to[monomial]:
            del to[monomial]
