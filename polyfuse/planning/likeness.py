"""Candidate kernels that differ only in which values they hold: repeated blocks of a program are priced once.

e1 = exp(x1 - m1) + 1  and  e9 = exp(x9 - m9) + 9    over equal extents, layouts and dtypes: one price
x @ ws[1]              and  x @ ws[7]                one price: offsets count from the least of a group
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from polyfuse.affine import Affine
from polyfuse.bindings import Layout
from polyfuse.scop import OpaqueStatement, Read, ReadEntry, Scop, Statement
from polyfuse.terms import Const, Expr, Index, Inside, Ref, rewrite

Offset = tuple[int, int, int]
"""A constant index of a statement: number of the read, dimension of its source, value."""


@dataclass
class Likeness:
    """Statements and arrays by kind: equal kinds cost the same whatever they read."""

    scop: Scop
    layouts: Mapping[int, Layout]
    kinds: dict[Hashable, int] = field(default_factory=dict)
    of_statement: dict[int, int] = field(default_factory=dict)
    of_array: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, tuple[Offset, ...]] = field(default_factory=dict)

    def key(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> int:
        """Equal for groups of one structure: there is a renaming of values that takes one into the other.

        Members are numbered on a walk from the roots along the reads, so that ranks, which depend on what else the
        program holds, do not matter.  Equal keys always mean equal structure; of two results made alike the one of
        lower rank comes first, so that some equal structures are not seen.
        """
        reads = {v: self._sources(v) for v in body}
        position: dict[int, int] = {}
        for root in self._ordered(body, roots, reads):
            _walk(root, reads, position)
        members = tuple(
            [
                (self._statement(v), v in roots, tuple([position[s] for s in reads[v]]))
                if v in body
                else self._array(v)
                for v in position
            ]
        )
        return self._kind((members, self._relative(body, position)))

    def _ordered(self, body: frozenset[int], roots: frozenset[int], reads: Mapping[int, tuple[int, ...]]) -> list[int]:
        """The roots by what is computed for them, then by where in an array that begins, ties by rank."""
        if len(roots) == 1:
            return list(roots)
        made: dict[int, int] = {}
        begins: dict[int, tuple[Offset, ...]] = {}
        for value in sorted(body):
            known = [made[s] if s in body else self._array(s) for s in reads[value]]
            made[value] = self._kind(("made", self._statement(value), value in roots, *known))
            begins[value] = self.offsets[value] or next((b for s in reads[value] if (b := begins.get(s))), ())
        return sorted(roots, key=lambda v: (made[v], begins[v], v))

    def _relative(self, body: frozenset[int], position: Mapping[int, int]) -> tuple[Hashable, ...]:
        """Constant indices, less the least that the group has in that dimension of that array."""
        constants: list[tuple[int, int, int, int, int]] = []
        for value in body:
            for k, dim, offset in self.offsets[value]:
                constants.append((position[value], k, position[self._reads(value)[k].source], dim, offset))
        if not constants:
            return ()
        least: dict[tuple[int, int], int] = {}
        for _, _, source, dim, offset in constants:
            least[source, dim] = min(offset, least.get((source, dim), offset))
        return tuple(sorted([(v, k, dim, offset - least[s, dim]) for v, k, s, dim, offset in constants]))

    def _sources(self, value: int) -> tuple[int, ...]:
        statement = self.scop.statements[value]
        if isinstance(statement, OpaqueStatement):
            return statement.operands
        return tuple([r.source for r in self._reads(value)])

    def _reads(self, value: int) -> tuple[Read, ...]:
        statement = self.scop.statements[value]
        return statement.reads if isinstance(statement, Statement) else ()

    def _statement(self, value: int) -> int:
        if value not in self.of_statement:
            s = self.scop.statements[value]
            if isinstance(s, OpaqueStatement):
                self.offsets[value] = ()
                self.of_statement[value] = self._kind(("call", s.call.name, s.shape, s.dtypes))
                return self.of_statement[value]
            assert isinstance(s, Statement)
            self.offsets[value] = tuple(
                [
                    (k, d, e.constant)
                    for k, r in enumerate(s.reads)
                    for d, e in enumerate(r.index)
                    if isinstance(e, Affine) and _is_offset(r, d, e)
                ]
            )
            reads = tuple([(_without_offsets(r), r.where, r.component, r.bounds) for r in s.reads])
            body = tuple([rewrite(b, _without_value) for b in s.body])
            self.of_statement[value] = self._kind((
                "statement", s.extents, reads, body, s.dtypes, s.monoid, s.reduced,
                s.scanned, s.exclusive, s.reverse, s.run, s.lags,
            ))  # fmt: skip
        return self.of_statement[value]

    def _array(self, value: int) -> int:
        if value not in self.of_array:
            source = self.scop.statements[value]
            stored = isinstance(source, Statement)
            self.of_array[value] = self._kind(("array", stored, source.shape, source.dtypes, self.layouts.get(value)))
        return self.of_array[value]

    def _kind(self, description: Hashable) -> int:
        return self.kinds.setdefault(description, len(self.kinds))


def _walk(root: int, reads: Mapping[int, tuple[int, ...]], position: dict[int, int]) -> None:
    """Number what `root` is made of, depth first, operands from left to right."""
    todo = [root]
    while todo:
        value = todo.pop()
        if value not in position:
            position[value] = len(position)
            todo.extend(reversed(reads.get(value, ())))


def _is_offset(read: Read, dim: int, entry: object) -> bool:
    """A constant index, but along the last dimension: there it decides what is aligned."""
    return isinstance(entry, Affine) and entry.is_constant and dim < len(read.index) - 1


def _without_offsets(read: Read) -> tuple[ReadEntry | None, ...]:
    return tuple([None if _is_offset(read, d, e) else e for d, e in enumerate(read.index)])


def _without_value(leaf: Ref | Const | Index | Inside) -> Expr:
    """No price depends on the value of a constant."""
    return Const(0, leaf.dtype) if isinstance(leaf, Const) else leaf
