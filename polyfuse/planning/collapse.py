"""Collapse neighbouring dimensions that every access of a group traverses contiguously into one.

    y[i, j] = relu(x[i, j] + z[i, j])   0 <= i < M, 0 <= j < N
 -> y[k]    = relu(x[k] + z[k])         0 <= k < MN                 MN bound at launch to the product M*N

isl knows no product of sizes, so a product of two symbols becomes a fresh symbol (`Program.derived`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse.affine import Affine, dimension
from polyfuse.bindings import Layout
from polyfuse.expr import IndexEntry, Program, Shape
from polyfuse.places.proposal import Group
from polyfuse.scop import AnyStatement, InputStatement, Read, Scop, Statement
from polyfuse.terms import Expr, Index, Inside, Leaf, affines, rewrite


def collapse(group: Group, layouts: Mapping[int, Layout]) -> Group:
    """The group over a SCoP in which its statements have as few dimensions as accesses allow."""
    while True:
        pair = _mergeable(group, layouts)
        if pair is None:
            return group
        group = _merged(group, pair)


@dataclass(frozen=True, slots=True)
class _Merge:
    """Per statement and per array: the first of the two neighbouring dimensions that become one."""

    statements: Mapping[int, int]
    arrays: Mapping[int, int]
    extents: tuple[Affine, Affine]


def _mergeable(group: Group, layouts: Mapping[int, Layout]) -> _Merge | None:
    """Looked for from the largest result, then from every reduction: nothing else need have the reduced dimensions."""
    lead = max(group.roots, key=lambda v: (len(group.scop.shape(v)), v))
    reductions = [s.id for s in group.statements() if s.is_reduction and s.id != lead]
    for start in (lead, *reductions):
        statement = group.scop.statements[start]
        assert isinstance(statement, Statement)
        for d in range(len(statement.extents) - 1):
            found = _spread(group, layouts, start, d)
            if found is not None:
                return found
    return None


def _spread(group: Group, layouts: Mapping[int, Layout], lead: int, d: int) -> _Merge | None:
    """Follow dimensions (d, d+1) of `lead` through every access; None as soon as one separates them."""
    scop = group.scop
    first = scop.statements[lead]
    assert isinstance(first, Statement)
    extents = (first.extents[d], first.extents[d + 1])
    statements: dict[int, int] = {lead: d}
    arrays: dict[int, int] = {}
    todo = [lead]
    while todo:
        value = todo.pop()
        statement = scop.statements[value]
        assert isinstance(statement, Statement)
        at = statements[value]
        if not _intact(statement, at, extents):
            return None
        if not _to_readers(group, statement, at, statements, todo):
            return None
        for read in statement.reads:
            q = _position(read, at)
            if q == -2:
                return None
            if q == -1:
                if not _independent(group, read, statements, arrays):
                    return None
                continue
            if not _to_source(group, layouts, read, q, extents, statements, arrays, todo):
                return None
    return _Merge(statements, arrays, extents) if _consistent(group, statements, arrays) else None


def _intact(statement: Statement, d: int, extents: tuple[Affine, Affine]) -> bool:
    """Both dimensions play one role, have the right extents and occur in no index value or condition."""
    if d + 1 >= len(statement.extents) or statement.extents[d : d + 2] != extents:
        return False
    if (d in statement.reduced) != (d + 1 in statement.reduced) or statement.scanned in (d, d + 1):
        return False
    names = {f"%{d}", f"%{d + 1}"}
    mentioned = {n for body in statement.body for e in affines(body) for n in e.names()}
    mentioned |= {n for read in statement.reads for e in read.where for n in e.names()}
    return not names & mentioned


def _position(read: Read, d: int) -> int:
    """Where ``%d, %(d+1)`` stand side by side in the index; -1 when neither occurs; -2 when they are separated."""
    names = {f"%{d}", f"%{d + 1}"}
    touched = [q for q, e in enumerate(read.index) if isinstance(e, Affine) and e.names() & names]
    if not touched:
        return -1
    q = touched[0]
    plain = len(touched) == 2 and read.index[q : q + 2] == (dimension(d), dimension(d + 1))
    return q if plain else -2


def _to_readers(group: Group, statement: Statement, d: int, statements: dict[int, int], todo: list[int]) -> bool:
    """Readers inside the group must see the two kept dimensions side by side."""
    if d in statement.reduced:
        return True
    return _read_side_by_side(group, statement.id, statement.kept.index(d), statements, todo)


def _read_side_by_side(group: Group, source: int, q: int, statements: dict[int, int], todo: list[int]) -> bool:
    """Whether all readers inside the group have dimensions q and q + 1 of `source` as neighbours; they join in."""
    for reader in group.scop.readers.get(source, ()):
        if reader not in group.body:
            continue
        other = group.scop.statements[reader]
        assert isinstance(other, Statement)
        for read in other.reads:
            if read.source != source:
                continue
            e = _plain_pair(read.index, q)
            if e is None or statements.get(reader, e) != e:
                return False
            if reader not in statements:
                statements[reader] = e
                todo.append(reader)
    return True


def _plain_pair(index: tuple[IndexEntry, ...], q: int) -> int | None:
    """d such that ``index[q], index[q+1]`` are ``%d, %(d+1)``."""
    first = index[q]
    if not isinstance(first, Affine) or len(first.terms) != 1 or first.constant or first.terms[0][1] != 1:
        return None
    atom = first.terms[0][0]
    if not isinstance(atom, str) or not atom.startswith("%"):
        return None
    d = int(atom[1:])
    return d if index[q + 1] == dimension(d + 1) else None


def _to_source(
    group: Group,
    layouts: Mapping[int, Layout],
    read: Read,
    q: int,
    extents: tuple[Affine, Affine],
    statements: dict[int, int],
    arrays: dict[int, int],
    todo: list[int],
) -> bool:
    source = group.scop.statements[read.source]
    if source.shape[q : q + 2] != extents:
        return False
    if read.source not in group.body:
        if layouts.get(read.source, Layout()).strides is not None:
            return False
        if read.source in arrays:
            return arrays[read.source] == q
        arrays[read.source] = q
        return _read_side_by_side(group, read.source, q, statements, todo)
    assert isinstance(source, Statement)
    d = source.kept[q]
    if source.kept[q + 1] != d + 1:
        return False
    if read.source not in statements:
        statements[read.source] = d
        todo.append(read.source)
    return statements[read.source] == d


def _independent(group: Group, read: Read, statements: dict[int, int], arrays: dict[int, int]) -> bool:
    """A read that mentions neither dimension must not read what is merged elsewhere; checked again at the end."""
    return read.source not in statements and read.source not in arrays


def _consistent(group: Group, statements: Mapping[int, int], arrays: Mapping[int, int]) -> bool:
    """Every read of a merged value, by any statement of the group, is a merged read."""
    for statement in group.statements():
        for read in statement.reads:
            q = arrays.get(read.source)
            source = group.scop.statements[read.source]
            if q is None and read.source in statements and isinstance(source, Statement):
                d = statements[read.source]
                q = source.kept.index(d) if d in source.kept else None
            if q is None:
                continue
            at = statements.get(statement.id)
            if at is None or _position(read, at) != q:
                return False
    return True


# ---------------------------------------------------------------------------------------------- rewriting


def _merged(group: Group, merge: _Merge) -> Group:
    scop = group.scop
    program, extent = _product(scop.program, merge.extents)
    statements: list[AnyStatement] = list(scop.statements)
    for value, q in merge.arrays.items():
        source = scop.statements[value]
        statements[value] = _array(source, _shape(source.shape, q, extent))
    for value, d in merge.statements.items():
        statement = scop.statements[value]
        assert isinstance(statement, Statement)
        statements[value] = _statement(statement, d, extent, merge, scop)
    local = Scop(program, tuple(statements), scop.outputs, scop.readers)
    return Group(local, group.body, group.roots, group.loads)


def _product(program: Program, extents: tuple[Affine, Affine]) -> tuple[Program, Affine]:
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


def _array(source: AnyStatement, shape: Shape) -> AnyStatement:
    if isinstance(source, Statement):  # stored by another kernel: here it is an array
        return InputStatement(source.id, source.name, shape, source.dtypes, -1)
    return replace(source, shape=shape)


def _statement(statement: Statement, d: int, extent: Affine, merge: _Merge, scop: Scop) -> Statement:
    values = {f"%{k}": dimension(k - 1) for k in range(d + 2, len(statement.extents))}

    def leaf(term: Leaf) -> Expr:
        match term:
            case Index(affine, dtype):
                return Index(affine.substitute(values), dtype)
            case Inside(where):
                return Inside(tuple(w.substitute(values) for w in where))
            case _:
                return term

    return replace(
        statement,
        extents=_shape(statement.extents, d, extent),
        reads=tuple(_read(read, d, values, merge, scop) for read in statement.reads),
        body=tuple(rewrite(b, leaf) for b in statement.body),
        reduced=tuple(sorted({k if k <= d else k - 1 for k in statement.reduced})),
        scanned=None if statement.scanned is None else statement.scanned - (statement.scanned > d),
    )


def _read(read: Read, d: int, values: Mapping[str, Affine], merge: _Merge, scop: Scop) -> Read:
    q = _position(read, d)
    entries: Sequence[IndexEntry] = read.index if q < 0 else (*read.index[: q + 1], *read.index[q + 2 :])
    index = tuple(e.substitute(values) if isinstance(e, Affine) else e for e in entries)
    return replace(read, index=index, where=tuple(w.substitute(values) for w in read.where))
