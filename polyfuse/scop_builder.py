"""From the tensor DAG to the SCoP: which nodes become statements, and what vanishes into their reads and bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from polyfuse import expr
from polyfuse.affine import Affine, dimension, dimensions
from polyfuse.dtypes import DType, bool_
from polyfuse.expr import Call, DataIndex, IndexEntry, Node, Program
from polyfuse.rewrites.equal_parts import stacked
from polyfuse.rewrites.refinement import relabelled
from polyfuse.scalars import RECURRENCE
from polyfuse.scatters.operands import index_operands, narrow_updates
from polyfuse.scop import AnyStatement, InputStatement, OpaqueStatement, Read, Scop, Statement
from polyfuse.terms import COUNTS, Apply, Const, Expr, Index, Inside, Ref, before, rewrite


def build_scop(program: Program) -> Scop:
    """The SCoP of a program: `View`, `Constant`, `Scalar` and `Iota` nodes and counts vanish into reads and bodies."""
    builder = _Builder(program)
    outputs = builder.outputs()
    readers: dict[int, dict[int, None]] = {}
    scop = Scop(program, tuple(builder.statements), outputs)
    for statement in scop.statements:
        for operand in scop.operands(statement.id):
            readers.setdefault(operand, {})[statement.id] = None
    return Scop(program, scop.statements, outputs, {k: tuple(v) for k, v in readers.items()})


def _shared(program: Program) -> set[bytes]:
    """The nodes that several others read, or one that is an output too."""
    readers, outputs = expr.readers(expr.topological(program.outputs)), {node.digest for node in program.outputs}
    return {digest for digest, count in readers.items() if count > 1 or digest in outputs}


class _Body:
    """The reads collected while a body is written."""

    def __init__(self) -> None:
        self.reads: list[Read] = []

    def add(self, read: Read, dtype: DType) -> Ref:
        if read not in self.reads:
            self.reads.append(read)
        return Ref(f"r{self.reads.index(read)}", dtype)


class _Builder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.statements: list[AnyStatement] = []
        self.of_node: dict[bytes, int] = {}
        self.used_names: dict[str, int] = {}
        shared = _shared(program)
        self.finer = {node.digest: relabelled(stacked(node, shared)) for node in program.outputs}
        self.names, self.sources = dict(program.names), dict(program.sources)
        for digest, finer in self.finer.items():  # what is stored for an output is called like it
            if digest in program.names:
                self.names.setdefault(finer.digest, program.names[digest])
            if digest in program.sources:
                self.sources.setdefault(finer.digest, program.sources[digest])
        for position, argument in enumerate(program.arguments):
            if not argument.is_scalar:
                self._input(expr.input_(position, argument.shape, argument.dtype), argument.path)
        for node in expr.topological([self.finer[n.digest] for n in program.outputs]):
            self._visit(node)

    def outputs(self) -> tuple[int, ...]:
        """The statements of the outputs.  The shape of one may be finer than its output's, the same elements in the
        same order, but where a call reads it, which wants an array of that shape."""
        found: dict[bytes, int] = {}
        others = {node.digest for node in self.program.outputs}
        called = {o for s in self.statements if isinstance(s, OpaqueStatement) for o in s.operands}
        for node in dict.fromkeys(self.program.outputs):
            finer = self.finer[node.digest]
            stored = finer is not node and finer.digest not in others and not isinstance(finer, _NO_STATEMENT)
            stored = stored and self.of_node.get(finer.digest) not in called
            value = self.materialise(finer if stored else node)
            found[node.digest] = self.materialise(node) if value in found.values() else value
        return tuple(found[node.digest] for node in self.program.outputs)

    # ---------------------------------------------------------------- nodes to statements
    def _visit(self, node: Node) -> None:
        match node:
            case expr.Input() | expr.Scalar() | expr.Constant() | expr.Iota() | expr.View():
                return
            case expr.Map() if _is_count(node):
                return
            case expr.Opaque():
                self._opaque(node)
            case _:
                self._value(node)

    def _input(self, node: expr.Input, path: str) -> None:
        name = self._name(path)
        self._append(node, InputStatement(len(self.statements), name, node.shape, (node.dtype,), node.position))

    def _append(self, node: Node, statement: AnyStatement) -> int:
        self.statements.append(statement)
        self.of_node[node.digest] = statement.id
        return statement.id

    def _value(self, node: Node) -> int:
        if node.digest in self.of_node:
            return self.of_node[node.digest]
        if isinstance(node, expr.Reduce):
            return self._reduction(node)
        if isinstance(node, expr.Recurrence):
            return self._recurrence(node)
        body = _Body()
        scan: dict[str, Any] = {}
        match node:
            case expr.Scan():
                term = self._read(body, node.operand, dimensions(node.rank), ())
                scan = dict(monoid=node.monoid, scanned=node.axis, exclusive=node.exclusive, reverse=node.reverse)
                scan["run"] = node.run
            case expr.Scatter():
                return self._scatter(node)
            case _:
                term = self._term(body, node)
        return self._append(node, replace(self._elements(node, body, term, node.digest), **scan))

    def _elements(self, node: Node, body: _Body, term: Expr, digest: bytes, name: str = "") -> Statement:
        """The statement that computes one term per element of `node`."""
        return Statement(
            id=len(self.statements),
            name=name or self._name_of(node),
            extents=node.shape,
            reads=tuple(body.reads),
            body=(term,),
            dtypes=(node.dtype,),
            digest=digest,
            source=self.sources.get(node.digest),
        )

    def _reduction(self, node: expr.Reduce) -> int:
        """One statement for all components of a tuple reduction."""
        primary = expr.reduce_(node.monoid, node.operands, node.axes, 0)
        if primary.digest not in self.of_node:
            body = _Body()
            points = dimensions(node.operands[0].rank)
            terms = tuple(self._read(body, operand, points, ()) for operand in node.operands)
            statement = Statement(
                id=len(self.statements),
                name=self._name_of(node),
                extents=node.operands[0].shape,
                reads=tuple(body.reads),
                body=terms,
                dtypes=tuple(o.dtype for o in node.operands),
                digest=primary.digest,
                monoid=node.monoid,
                reduced=node.axes,
                source=self.sources.get(node.digest),
            )
            self._append(primary, statement)
        self.of_node[node.digest] = self.of_node[primary.digest]
        return self.of_node[node.digest]

    def _recurrence(self, node: expr.Recurrence) -> int:
        """One statement for all components of the state."""
        first = expr.recurrence(node.steps, node.operands, node.lags, node.axis)
        if first.digest not in self.of_node:
            body = _Body()
            terms = tuple(self._step(body, first, step) for step in first.steps)
            several = len(terms) > 1  # what anything reads of them has the names that the user gave
            statement = replace(
                self._elements(first, body, terms[0], first.digest, self._name(RECURRENCE) if several else ""),
                body=terms,
                dtypes=first.states,
                monoid=RECURRENCE,
                scanned=first.axis,
                lags=first.lags,
            )
            self._append(first, statement)
        self.of_node[node.digest] = self.of_node[first.digest]
        return self.of_node[node.digest]

    def _step(self, body: _Body, node: expr.Recurrence, step: Expr) -> Expr:
        """A step with its operands read, and ``where(i < lag, operand of the lag, value before)`` for every lag whose
        operand is not 0, with which every recurrence begins."""
        points = dimensions(node.rank)
        names = [(before(lag, c), lag) for c in range(len(node.steps)) for lag in node.lags]
        missing = {name: (lag - 1 - points[node.axis],) for name, lag in names}
        starts = {name: operand for (name, _), operand in zip(names, node.starts, strict=True)}

        def leaf(term: Ref | Const | Index | Inside) -> Expr:
            match term:
                case Ref(name, dtype) if name in starts:
                    where = missing[name]
                    first = self._read(body, starts[name], points, where)
                    if isinstance(first, Const) and not first.value:
                        return term
                    return Apply("where", (Inside(where), first, term), dtype)
                case Ref(name, _):
                    operand = node.operands[int(name[1:])]
                    return self._read(body, operand, points[: operand.rank], ())
                case _:
                    return term

        return rewrite(step, leaf)

    def _opaque(self, node: expr.Opaque) -> int:
        copied = dict(node.call.settings).get("copied", ())
        operands = tuple(self.materialise(o) if k in copied else self._whole(o) for k, o in enumerate(node.operands))
        statement = OpaqueStatement(
            len(self.statements), self._name_of(node), node.shape, (node.dtype,), node.call, operands, node.digest
        )
        return self._append(node, statement)

    def _whole(self, node: Node) -> int:
        """The value that a call reads: arguments as the caller's library holds them, everything else stored."""
        return self.of_node[node.digest] if isinstance(node, expr.Input) else self.materialise(node)

    def _scatter(self, node: expr.Scatter) -> int:
        """``np.add.at`` and relatives as a boundary run by the caller's library, in the order of the updates."""
        indices, index, wraps = index_operands(node)
        operands = tuple(map(self._whole, (node.base, narrow_updates(node), *indices)))
        settings = (("index", index), ("monoid", node.monoid), ("bounds", node.bounds), ("wraps", wraps))
        call = Call("scatter", settings)
        statement = OpaqueStatement(
            len(self.statements), self._name_of(node), node.shape, (node.dtype,), call, operands, node.digest
        )
        return self._append(node, statement)

    def materialise(self, node: Node) -> int:
        """The statement whose value is exactly `node`, a copy where the node is a view, a constant or an input."""
        if node.digest in self.of_node and not isinstance(node, expr.Input) and not self._is_part(node):
            return self.of_node[node.digest]
        key = b"copy" + node.digest
        if key in self.of_node:
            return self.of_node[key]
        body = _Body()
        term = self._read(body, node, dimensions(node.rank), ())
        statement = self._elements(node, body, term, expr.digest_of("copy", node))
        self.statements.append(statement)
        self.of_node[key] = statement.id
        return statement.id

    # ---------------------------------------------------------------- bodies
    def _term(self, body: _Body, node: Node) -> Expr:
        points = dimensions(node.rank)
        match node:
            case expr.Map():
                operands = tuple(self._read(body, o, points[: o.rank], ()) for o in node.operands)
                return Apply(node.function, operands, node.dtype)
            case expr.Region():
                return self._region(body, node.pieces, node.dtype, ())
            case expr.Gather():
                return self._gather(body, node)
            case _:
                raise AssertionError(f"{type(node).__name__} has no body")

    def _region(self, body: _Body, pieces: Sequence[expr.Piece], dtype: DType, before: tuple[Affine, ...]) -> Expr:
        """``where(inside(piece 0), read 0, where(inside(piece 1), ...))``: each read guarded by its own condition, and
        by `before`: that no earlier piece has the element, as far as one condition says so."""
        first, rest = pieces[0], pieces[1:]
        term = self._read(body, first.source, first.index, (*first.where, *before))
        if not rest or not first.where:
            return term
        outside = tuple(-condition - 1 for condition in first.where if len(first.where) == 1)
        return Apply("where", (Inside(first.where), term, self._region(body, rest, dtype, before + outside)), dtype)

    def _gather(self, body: _Body, node: expr.Gather) -> Expr:
        points = dimensions(node.rank)
        numbers: dict[int, int] = {}
        for k, operand in enumerate(node.operands):
            term = self._read(body, operand, points[: operand.rank], ())
            if not isinstance(term, Ref) or not term.name.startswith("r"):  # a constant, a scalar, a position
                read = Read(self.materialise(operand), points[: operand.rank])
                term = body.add(read, operand.dtype)
            numbers[k] = int(term.name[1:])
        index = tuple(DataIndex(numbers[e.operand]) if isinstance(e, DataIndex) else e for e in node.index)
        if isinstance(value := node.source.source if isinstance(node.source, expr.View) else None, expr.Constant):
            return self._checked(body, node, index, value)
        source, entries, component = self._resolve(node.source, index)
        wanted, made = (
            [(e.operand, n) for e, n in zip(at, shape, strict=True) if isinstance(e, DataIndex)]
            for at, shape in ((index, node.source.shape), (entries, self.statements[source].shape))
        )
        checks = tuple(pair for pair in wanted if pair not in made) if node.bounds == "raise" else ()
        return body.add(Read(source, entries, (), component, node.bounds, checks), node.dtype)

    def _checked(self, body: _Body, node: expr.Gather, index: tuple[IndexEntry, ...], value: expr.Constant) -> Expr:
        """An element of an array of equal constants: in no memory, and its index is tested all the same."""
        wanted = [(e.operand, n) for e, n in zip(index, node.source.shape, strict=True) if isinstance(e, DataIndex)]
        if wanted and node.bounds == "raise":
            number = wanted[0][0]
            body.reads[number] = replace(body.reads[number], bounds="raise", checks=tuple(wanted))
        return Const(value.value, node.dtype)

    def _read(self, body: _Body, node: Node, index: Sequence[Affine], where: tuple[Affine, ...]) -> Expr:
        """The term for ``node[index]``: constants, scalars, iotas and counts inline, everything else is a read."""
        at = {f"%{k}": entry for k, entry in enumerate(index)}
        match node:
            case expr.View():
                return self._read(body, node.source, [e.substitute(at) for e in node.index], where)
            case expr.Constant():
                return Const(node.value, node.dtype)
            case expr.Scalar():
                return Ref(f"s{node.position}", node.dtype)
            case expr.Iota():
                return Index(node.index.substitute(at), node.dtype)
            case expr.Map() if _is_count(node):
                return Apply(node.function, tuple(self._read(body, o, (), ()) for o in node.operands), node.dtype)
            case _:
                source, component = self._value_of(node)
                return body.add(Read(source, tuple(index), where, component), node.dtype)

    def _resolve(self, node: Node, index: tuple[IndexEntry, ...]) -> tuple[int, tuple[IndexEntry, ...], int]:
        """Compose a gather's index with a view of its source where the view only permutes or fixes dimensions."""
        if isinstance(node, expr.View):
            entries: list[IndexEntry] = []
            for e in node.index:
                if e.is_constant:
                    entries.append(e)
                elif len(e.terms) == 1 and e.terms[0][1] == 1 and not e.constant and e.terms[0][0] in _PLAIN:
                    entries.append(index[_PLAIN[e.terms[0][0]]])
                else:
                    return self.materialise(node), index, 0
            return self._resolve(node.source, tuple(entries))
        if isinstance(node, (expr.Constant, expr.Scalar, expr.Iota)) or _is_count(node):
            return self.materialise(node), index, 0
        source, component = self._value_of(node)
        return source, index, component

    def _value_of(self, node: Node) -> tuple[int, int]:
        if node.digest not in self.of_node:
            self._visit(node)
        return self.of_node[node.digest], self._component(node)

    def _component(self, node: Node) -> int:
        return node.component if isinstance(node, (expr.Reduce, expr.Recurrence)) else 0

    def _is_part(self, node: Node) -> bool:
        """Whether the value of `node` is one of several of its statement: what a kernel stores of a recurrence of
        several states are copies, so that only those that anything reads are stored."""
        return self._component(node) > 0 or (isinstance(node, expr.Recurrence) and len(node.steps) > 1)

    # ---------------------------------------------------------------- names
    def _name_of(self, node: Node) -> str:
        given = self.names.get(node.digest)
        if given:
            return self._name(given)
        match node:
            case expr.Map():
                return self._name(node.function)
            case expr.Reduce() | expr.Scan():
                return self._name(node.monoid)
            case expr.Opaque():
                return self._name(node.call.name)
            case _:
                return self._name(type(node).__name__.lower())

    def _name(self, wanted: str) -> str:
        """An identifier, unique in the program: ``x``, ``x_1``, ``params_w``."""
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted).strip("_") or "v"
        clean = f"v{clean}" if clean[0].isdigit() else clean
        while clean in self.used_names:
            self.used_names[clean] += 1
            clean = f"{clean}_{self.used_names[clean]}"
        self.used_names[clean] = 0
        return clean


def _is_count(node: Node) -> bool:
    """Whether a node is a number made of sizes alone, as what a mean divides by: less to repeat than to read."""
    return isinstance(node, expr.Map) and node.function in COUNTS and all(map(_is_number, node.operands))


def _is_number(node: Node) -> bool:
    """Of no dimension, and in the text or made of sizes."""
    return not node.rank and (isinstance(node, (expr.Iota, expr.Constant)) or _is_count(node))


_NO_STATEMENT = (expr.Input, expr.Scalar, expr.Constant, expr.Iota, expr.Opaque, expr.Scatter)
"""Nodes of which a finer output is no value that a kernel computes."""
_PLAIN: dict[object, int] = {dimension(k).terms[0][0]: k for k in range(64)}


def conjunction(where: tuple[Affine, ...]) -> Expr:
    """A condition as a term."""
    return Inside(where) if where else Const(True, bool_)
