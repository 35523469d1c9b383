"""The `Tile` constants of a printed module: one per layout, with a name that says its shape."""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.codegen.names import Namer


@dataclass(frozen=True, slots=True)
class Layout:
    """A compile-time layout: per slot axis an extent and a stride ``factor * Size(name)``, name None for 1.
    `first`: the element of its span that the first slot is."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, str | None], ...]
    vector: int = 1
    span: int = 1
    first: int = 0

    def __str__(self) -> str:
        strides = [_stride(factor, size) for factor, size in self.strides]
        vector = f", vector={self.vector}" if self.vector > 1 else ""
        span = f", span={self.span}" if self.span > 1 else ""
        first = f", first={self.first}" if self.first else ""
        return f"Tile({_items([str(n) for n in self.shape])}, {_items(strides)}{vector}{span}{first})"

    @property
    def wanted(self) -> str:
        """``ROW4``, ``COLUMN8``, ``TILE4X4``; ``CELL`` for a single element."""
        wide = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n > 1]
        if not wide:
            return "CELL"
        if len(wide) > 1:
            return "TILE" + "X".join(str(n) for n, _ in wide)
        extent, stride = wide[0]
        if stride == (0, None):
            return f"SAME{extent}"
        return f"ROW{extent}" if stride == (1, None) else f"COLUMN{extent}"


def _stride(factor: int, size: str | None) -> str:
    if size is None:
        return str(factor)
    return f'Size("{size}")' if factor == 1 else f'{factor} * Size("{size}")'


def _items(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


class TileTable:
    """Layouts of one module in order of first use, deduplicated and named."""

    def __init__(self) -> None:
        self._namer = Namer()
        self._names: dict[Layout, str] = {}

    def name(self, layout: Layout) -> str:
        """The constant's name."""
        if layout not in self._names:
            self._names[layout] = self._namer.fresh(layout.wanted)
        return self._names[layout]

    def lines(self) -> list[str]:
        """The definitions."""
        return [f"{name} = {layout}" for layout, name in self._names.items()]
