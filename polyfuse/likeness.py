"""Candidate kernels that differ only in which values they hold: repeated blocks of a program are priced once.

    e1 = exp(x1 - m1)  and  e9 = exp(x9 - m9)     over equal extents, layouts and dtypes: one price
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from polyfuse.bindings import Layout
from polyfuse.scop import Read, Scop, Statement


@dataclass
class Likeness:
    """Statements and arrays by kind: equal kinds do the same to whatever they read."""

    scop: Scop
    layouts: Mapping[int, Layout]
    kinds: dict[Hashable, int] = field(default_factory=dict)
    of_statement: dict[int, int] = field(default_factory=dict)
    of_array: dict[int, int] = field(default_factory=dict)

    def key(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> Hashable:
        """Equal for groups whose members, in canonical order, are of equal kinds and read one another alike."""
        members = sorted(body | loads)
        position = {value: k for k, value in enumerate(members)}
        return tuple(
            (self._statement(v), v in roots, tuple(position[r.source] for r in self._reads(v)))
            if v in body
            else self._array(v)
            for v in members
        )

    def _reads(self, value: int) -> tuple[Read, ...]:
        statement = self.scop.statements[value]
        return statement.reads if isinstance(statement, Statement) else ()

    def _statement(self, value: int) -> int:
        if value not in self.of_statement:
            s = self.scop.statements[value]
            assert isinstance(s, Statement)
            reads = tuple((r.index, r.where, r.component) for r in s.reads)
            order = (s.monoid, s.reduced, s.scanned, s.exclusive, s.reverse)
            kind = repr((s.extents, reads, s.body, s.dtypes, order))  # equality would take -0.0 for 0.0
            self.of_statement[value] = self.kinds.setdefault(kind, len(self.kinds))
        return self.of_statement[value]

    def _array(self, value: int) -> int:
        if value not in self.of_array:
            source = self.scop.statements[value]
            stored = isinstance(source, Statement)
            kind = ("array", stored, source.shape, source.dtypes, self.layouts.get(value))
            self.of_array[value] = self.kinds.setdefault(kind, len(self.kinds))
        return self.of_array[value]
