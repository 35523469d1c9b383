"""Two neighbouring dimensions of statements and arrays made one: the rewriting behind `collapse` and `picks`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse.affine import Affine, dimension
from polyfuse.expr import Program, Shape
from polyfuse.places.proposal import Group
from polyfuse.scop import AnyStatement, InputStatement, Read, ReadEntry, Scop, Statement
from polyfuse.terms import affines, substituted


@dataclass(frozen=True, slots=True)
class Merge:
    """Per statement and per array: the first of the two neighbouring dimensions that become one.  `parts`: arrays of
    which rows are read in parts, as many as ``extents[0]``: the first dimension counts parts then.  `is_shifted`: the
    second dimension, of the same number everywhere, is read as it is, the first one at neighbours."""

    statements: Mapping[int, int]
    arrays: Mapping[int, int]
    extents: tuple[Affine, Affine]
    parts: Collection[int] = ()
    is_shifted: bool = False

    def extent(self, first: Affine, product: Affine) -> Affine:
        """Of the dimension that two become of which the first has an extent; `product`: of the extents."""
        return first * self.extents[1].constant if self.is_shifted else product


def intact(statement: Statement, d: int, extents: tuple[Affine, Affine], is_shifted: bool = False) -> bool:
    """Both dimensions play one role, have the right extents and occur in no index value or condition."""
    if d + 1 >= len(statement.extents) or statement.extents[d + is_shifted : d + 2] != extents[is_shifted:]:
        return False
    if (d in statement.reduced) != (d + 1 in statement.reduced) or statement.scanned in (d, d + 1):
        return False
    names = {f"%{d}", f"%{d + 1}"}
    mentioned = {n for body in statement.body for e in affines(body) for n in e.names()}
    mentioned |= {n for read in statement.reads for e in read.where for n in e.names()}
    return not names & mentioned


def position(read: Read, d: int, is_shifted: bool = False) -> int:
    """Where ``%d, %(d+1)`` stand side by side in the index; -1 when neither occurs; -2 when they are separated.
    `is_shifted`: or ``%d + 1, %(d+1)``."""
    names = {f"%{d}", f"%{d + 1}"}
    touched = [q for q, e in enumerate(read.index) if isinstance(e, Affine) and e.names() & names]
    if not touched:
        return -1
    q = touched[0]
    plain = len(touched) == 2 and pair_at(read.index, q, is_shifted) == d
    return q if plain else -2


def pair_at(index: Sequence[ReadEntry], q: int, is_shifted: bool = False) -> int | None:
    """d such that ``index[q], index[q+1]`` are ``%d, %(d+1)``.  `is_shifted`: or ``%d + 1, %(d+1)``."""
    first = index[q]
    if not isinstance(first, Affine) or len(first.terms) != 1 or first.constant and not is_shifted:
        return None
    atom, factor = first.terms[0]
    if factor != 1 or not isinstance(atom, str) or not atom.startswith("%"):
        return None
    d = int(atom[1:])
    return d if index[q + 1 : q + 2] == (dimension(d + 1),) else None


def of_parts(read: Read, d: int, rows: Affine) -> int:
    """Where ``%d, %(d+1)`` stand in an index that takes rows in parts of so many, which ``%d`` counts: one behind the
    other in memory lies what both run through, ``8*%k + %d, %(d+1)`` where ``%d < 8``.  -1 for other reads."""
    names = {f"%{d}", f"%{d + 1}"}
    touched = [q for q, e in enumerate(read.index) if isinstance(e, Affine) and e.names() & names]
    q = touched[0] if len(touched) == 2 and touched[1] == touched[0] + 1 else -1
    return q if q >= 0 and in_parts(read.index, q, rows) == d else -1


def in_parts(index: Sequence[ReadEntry], q: int, rows: Affine) -> int:
    """The d of which `of_parts` finds position q; -1 where there is none."""
    first, second = index[q], index[q + 1]
    if not isinstance(first, Affine) or not isinstance(second, Affine) or len(second.terms) != 1 or second.constant:
        return -1
    ((atom, factor),) = second.terms
    d = int(atom[1:]) - 1 if isinstance(atom, str) and atom.startswith("%") and factor == 1 else -1
    if d < 0 or first.coefficient(f"%{d}") != 1 or not rows.is_constant:
        return -1
    part = first - dimension(d)
    is_whole = part.names() and part == part // rows.constant * rows.constant
    return d if is_whole and part.names().isdisjoint((f"%{d}", f"%{d + 1}")) else -1


def merged(group: Group, merge: Merge) -> Group:
    scop = group.scop
    program, extent = (scop.program, merge.extents[0]) if merge.is_shifted else product(scop.program, merge.extents)
    statements: list[AnyStatement] = list(scop.statements)
    for value, q in merge.arrays.items():
        source = scop.statements[value]
        if value in merge.parts:
            rows = merge.extents[0].constant
            part = (source.shape[q] // rows, source.shape[q + 1] * rows)
            statements[value] = array(source, (*source.shape[:q], *part, *source.shape[q + 2 :]))
            continue
        statements[value] = array(source, _shape(source.shape, q, merge.extent(source.shape[q], extent)))
    for value, d in merge.statements.items():
        statement = scop.statements[value]
        assert isinstance(statement, Statement)
        statements[value] = _statement(statement, d, merge.extent(statement.extents[d], extent), merge, scop)
    local = Scop(program, tuple(statements), scop.outputs, scop.readers)
    return Group(local, group.body, group.roots, group.loads)


def product(program: Program, extents: tuple[Affine, Affine]) -> tuple[Program, Affine]:
    first, second = extents
    if first.is_constant or second.is_constant:
        constant, other = (first, second) if first.is_constant else (second, first)
        return program, other * constant.constant
    known = dict(program.derived)
    factors = tuple(f for e in extents for f in factors_of(e, known))
    for name, existing in program.derived:
        if existing == factors:
            return program, Affine.symbol(name)
    name = "".join(str(f) for f in factors)
    if not name.isidentifier() or name in program.symbols:
        name = f"size{len(program.derived)}"
    hint = 1
    for factor in factors:
        hint *= factor.evaluate(program.hints)
    derived = (*program.derived, (name, factors))
    return replace(program, derived=derived, hints={**program.hints, name: hint}), Affine.symbol(name)


def factors_of(extent: Affine, products: Mapping[str, Shape]) -> Shape:
    """What multiplies to `extent`, where that is a multiple of a product of sizes: ``2*MN`` is ``2*M`` times N."""
    if len(extent.terms) != 1 or extent.constant:
        return (extent,)
    atom, factor = extent.terms[0]
    if not isinstance(atom, str) or atom not in products:
        return (extent,)
    first, *others = products[atom]
    return (first * factor, *others)


def _shape(shape: Shape, q: int, extent: Affine) -> Shape:
    return (*shape[:q], extent, *shape[q + 2 :])


def array(source: AnyStatement, shape: Shape) -> AnyStatement:
    if isinstance(source, Statement):  # stored by another kernel: here it is an array
        return InputStatement(source.id, source.name, shape, source.dtypes, -1)
    return replace(source, shape=shape)


def _statement(statement: Statement, d: int, extent: Affine, merge: Merge, scop: Scop) -> Statement:
    values = {f"%{k}": dimension(k - 1) for k in range(d + 2, len(statement.extents))}
    return replace(
        statement,
        extents=_shape(statement.extents, d, extent),
        reads=tuple(_read(read, d, values, merge, scop) for read in statement.reads),
        body=tuple(substituted(b, values) for b in statement.body),
        reduced=tuple(sorted({k if k <= d else k - 1 for k in statement.reduced})),
        scanned=None if statement.scanned is None else statement.scanned - (statement.scanned > d),
    )


def _read(read: Read, d: int, values: Mapping[str, Affine], merge: Merge, scop: Scop) -> Read:
    q = position(read, d, merge.is_shifted)
    entries: Sequence[ReadEntry] = read.index if q < 0 else (*read.index[: q + 1], *read.index[q + 2 :])
    if merge.is_shifted and q >= 0:
        first = read.index[q]
        assert isinstance(first, Affine)
        shift = (first - dimension(d)) * merge.extents[1].constant
        entries = (*read.index[:q], dimension(d) + shift, *read.index[q + 2 :])
    if read.source in merge.parts:
        q, (rows, _) = of_parts(read, d, merge.extents[0]), merge.extents
        first = read.index[q]
        assert q >= 0 and isinstance(first, Affine)
        part = (first - dimension(d)) // rows.constant
        entries = (*read.index[:q], part, dimension(d), *read.index[q + 2 :])
    index = tuple(e.substitute(values) if isinstance(e, Affine) else e for e in entries)
    return replace(read, index=index, where=tuple(w.substitute(values) for w in read.where))
