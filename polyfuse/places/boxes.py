"""Boxes of affine expressions: what range an index covers when some of its digits run and the others are fixed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from polyfuse.affine import Affine, Atom
from polyfuse.schedule import Digit


class Unbounded(ValueError):
    """An index runs over a symbolic extent, or is not affine in the running digits: no constant box holds it."""


@dataclass(frozen=True, slots=True)
class Box:
    """Per dimension: the smallest index, affine in the fixed digits and sizes, and a constant extent."""

    origin: tuple[Affine, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """``base + lower .. base + upper`` where `base` holds the fixed part without its constant."""

    base: Affine
    lower: int
    upper: int


def span(index: Affine, digits: Mapping[str, Digit], pinned: Collection[str] = ()) -> Span:
    """The range of `index` while thread, slot and unpinned loop digits run.  Raises Unbounded."""
    base: dict[Atom, int] = {}
    lower = upper = index.constant
    for atom, factor in index.terms:
        name = atom[1:] if isinstance(atom, str) and atom.startswith("$") else ""
        digit = digits.get(name)
        if digit is None or digit.kind == "block" or name in pinned:
            if not isinstance(atom, str) and any(_runs(n, digits, pinned) for n in atom.numerator.names()):
                raise Unbounded(f"{index} is not affine in the digits of a thread")
            base[atom] = factor
            continue
        if not digit.extent.is_constant:
            raise Unbounded(f"{index} runs over the symbolic extent {digit.extent}")
        reach = factor * (digit.count - 1)
        lower, upper = lower + min(reach, 0), upper + max(reach, 0)
    return Span(Affine.build(base, 0), lower, upper)


def _runs(name: str, digits: Mapping[str, Digit], pinned: Collection[str]) -> bool:
    digit = digits.get(name[1:]) if name.startswith("$") else None
    return digit is not None and digit.kind != "block" and digit.name not in pinned


def enclosing_box(
    places: Sequence[tuple[Affine, ...]], digits: Mapping[str, Digit], pinned: Collection[str]
) -> Box:
    """The least box that holds every place, for fixed block and pinned loops.  Raises Unbounded."""
    origin, extents = [], []
    for entries in zip(*places, strict=True):
        spans = [span(entry, digits, pinned) for entry in entries]
        if len({s.base for s in spans}) > 1:
            raise Unbounded(f"the needs {', '.join(map(str, entries))} move apart from block to block")
        low, high = min(s.lower for s in spans), max(s.upper for s in spans)
        origin.append(spans[0].base + low)
        extents.append(high - low + 1)
    return Box(tuple(origin), tuple(extents))
