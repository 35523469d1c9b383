"""A scatter of rows: each goes to a numbered place, in the order of places or in any.

    targets  4 1 4 1      order  1 3 0 2       places, in order:   1: rows 1, 3    4: rows 0, 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from polyfuse.affine import Affine
from polyfuse.bindings import Guard, Layout
from polyfuse.dtypes import DType
from polyfuse.expr import Shape
from polyfuse.scatters.call import ONE, ScatterCall, elements
from polyfuse.scatters.ways import Volume
from polyfuse.scop import OpaqueStatement, Scop

SORTED, MERGED, ORDER = "scatter_sorted", "scatter_merged", "stable_order"
"""Of the calls that combine updates, in order and as they come, and of the one that sorts."""
LENGTH = 32
"""Consecutive updates that one thread combines: 10 million scalars are 312,500 threads, more than a device holds."""
WIDEST = 16  # bytes of one access
THREADS = 256

Role = Literal["base", "updates", "targets", "order"]
"""Of an operand: ``h.at[i].add(h)`` reads one array in two roles, with a shape of its own in each."""
Products = tuple[tuple[str, tuple[Affine, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScatter(ScatterCall):
    """`targets` (row-major, one per row of updates) and `by` (the order of the updates, by target; None where they come
    in any): values of the SCoP.

    `count` rows of updates of `width` elements go to `places` rows of the result, which have `total` elements.
    `products`: names in them that stand for products of sizes.  `vector` elements of a row are one access, and `lanes`
    threads lie side by side along it.  `depth`: kernels that join what threads have combined.
    """

    targets: int
    by: int | None
    places: Affine
    width: Affine
    total: Affine
    products: Products
    vector: int
    lanes: int
    depth: int
    guards: tuple[Guard, ...]

    @staticmethod
    def of(
        scop: Scop, statement: OpaqueStatement, hints: Mapping[str, int], layouts: Mapping[int, Layout]
    ) -> RowScatter | None:
        """None for other calls."""
        if statement.call.name not in (SORTED, MERGED):
            return None
        settings: Mapping[str, Any] = dict(statement.call.settings)
        base, updates, targets = statement.operands[:3]
        by = statement.operands[3] if statement.call.name == SORTED else None
        row = scop.shape(updates)[len(scop.shape(targets)) :]
        shape = scop.shape(statement.id)
        volumes = [
            _product(f"{statement.name}_{what}", extents)
            for what, extents in (
                ("updates", scop.shape(targets)),
                ("places", shape[: len(shape) - len(row)]),
                ("width", row),
                ("total", shape),
            )
        ]
        (count, places, width, total), products = zip(*volumes, strict=True)
        is_wide = all(layouts.get(v, Layout()).alignment >= WIDEST for v in (base, updates))
        vector, guards = _vector(row, scop.dtype(updates), hints) if is_wide else (1, ())
        rows = prod(n.evaluate(hints) for n in scop.shape(targets))
        across = prod(n.evaluate(hints) for n in row)
        return RowScatter(
            scop=scop, result=statement.id, base=base, updates=updates, targets=targets, by=by,
            monoid=settings["monoid"], count=count, places=places, width=width, total=total,
            products=tuple(p for found in products for p in found),
            vector=vector, lanes=_lanes(across, vector), depth=joins(rows), guards=guards,
        )  # fmt: skip

    @property
    def order(self) -> int:
        """The value that is the order."""
        assert self.by is not None, f"the updates of {self.name} come in any order"
        return self.by

    @property
    def is_filled(self) -> bool:
        """Whether the base is one number everywhere."""
        return elements(self.scop.shape(self.base)) == ONE

    @property
    def operands(self) -> dict[Role, int]:
        """The value in each role."""
        found: dict[Role, int] = {"base": self.base, "updates": self.updates, "targets": self.targets}
        return found if self.by is None else {**found, "order": self.by}

    def array(self, role: Role) -> str:
        """The parameter of an operand, one for each role."""
        return f"{self.scop.statements[self.operands[role]].name}_{role}"

    def arrays(self) -> dict[str, int]:
        """The value behind each array parameter that is no share."""
        return {self.target: self.result, **{self.array(role): v for role, v in self.operands.items()}}

    def shares(self, level: int) -> tuple[str, str]:
        """What the threads of a level leave the next one: of the run that an earlier thread began, and of the one that
        a later one ends."""
        return f"{self.name}_heads{level}", f"{self.name}_tails{level}"

    def volume(self, sizes: Mapping[str, int]) -> Volume:
        """At these sizes."""
        rows, updates, result = (
            prod(n.evaluate(sizes) for n in self.scop.shape(v)) for v in (self.targets, self.updates, self.result)
        )
        width = updates // max(1, rows)
        places = result // max(1, width)
        return Volume(rows, width, places, self.dtype.itemsize, self.scop.dtype(self.targets).itemsize)

    def pieces(self, level: int) -> Affine:
        """Threads along the updates."""
        return self.count.ceildiv(int(LENGTH ** (level + 1)))


def _product(name: str, shape: Shape) -> tuple[Affine, Products]:
    found = elements(shape)
    return (found, ()) if found is not None else (Affine.symbol(name), ((name, tuple(shape)),))


def _vector(row: Sequence[Affine], dtype: DType, hints: Mapping[str, int]) -> tuple[int, tuple[Guard, ...]]:
    """Elements of one access, and the guards for sizes that it divides."""
    last = row[-1] if row else ONE
    width = max(1, WIDEST // dtype.itemsize)
    while width > 1 and last.evaluate(hints) % width:
        width //= 2
    if last.is_constant:
        return width, ()
    better = (Guard(last, 2 * width, negated=True, advisory=True),) if 2 * width * dtype.itemsize <= WIDEST else ()
    return width, (*((Guard(last, width),) if width > 1 else ()), *better)


def _lanes(width: int, vector: int) -> int:
    lanes = 1
    while lanes < THREADS and lanes * vector < width:
        lanes *= 2
    return lanes


def joins(rows: int) -> int:
    """Kernels that join shares: so many that the last one, a single thread per column, has `LENGTH` at most."""
    depth, shares = 1, -(-rows // LENGTH)
    while shares > LENGTH:
        depth, shares = depth + 1, -(-shares // LENGTH)
    return depth


