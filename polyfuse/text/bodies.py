"""What a statement computes, in one line of NumPy-like text: ``max(x, axis=1)``, ``x - m``, ``x[j, i]``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyfuse.affine import Affine
from polyfuse.expr import DataIndex
from polyfuse.library_calls import contraction
from polyfuse.scalars import FUNCTIONS
from polyfuse.scop import InputStatement, OpaqueStatement, Read, ReadEntry, Scop, Statement
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref, lag_and_component
from polyfuse.text.sizes import bound_text, entry_text, size_text

LETTERS = "ijklpqrs"


def dimension_names(rank: int) -> dict[str, str]:
    """Names of the dimensions of a statement: ``i, j, k, l, p, q, r, s, d8, ...``."""
    return {f"%{k}": LETTERS[k] if k < len(LETTERS) else f"d{k}" for k in range(rank)}


def body_text(scop: Scop, value: int) -> str:
    """The right-hand side of one statement of the SCoP."""
    match scop.statements[value]:
        case InputStatement(name=name):
            return name
        case OpaqueStatement(call=call, operands=operands):
            names = [scop.statements[o].name for o in operands]
            if call.name == contraction.NAME:
                return _contraction_text(dict(call.settings)["contraction"], names)
            reads: tuple[str, ...] = dict(call.settings).get("reads", ()) if call.in_place else ()
            shown = [f"{read}={name}" for read, name in zip(reads, names, strict=True)] if reads else names
            return f"{call.name}({', '.join(shown)})"
        case Statement() as statement:
            return _statement_text(scop, statement)


def _contraction_text(found: contraction.Contraction, operands: Sequence[str]) -> str:
    """``contraction(x[i, k], w[k, j], over k)``."""
    names = dimension_names(len(found.extents))
    sides = zip(operands, (found.left, found.right), strict=True)
    shown = [f"{name}[{', '.join(e.text(names) for e in side.index)}]" for name, side in sides]
    return f"{contraction.NAME}({', '.join(shown)}, over {', '.join(names[f'%{k}'] for k in found.summed)})"


def _statement_text(scop: Scop, statement: Statement) -> str:
    writer = _Writer(scop, statement)
    if statement.monoid is None:
        return writer.term(statement.body[0])
    parts = [writer.term(term) for term in statement.body]
    if statement.lags:
        return f"recurrence({', '.join(parts)}, axis={statement.scanned})"
    if statement.scanned is not None:
        flags = [f"{flag}=True" for flag in ("exclusive", "reverse") if getattr(statement, flag)]
        flags += [f"run={statement.run}"] if statement.run else []
        return f"scan_{statement.monoid}({', '.join([*parts, f'axis={statement.scanned}', *flags])})"
    axes = statement.reduced
    axis = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
    return f"{statement.monoid}({', '.join(parts)}, axis={axis})"


class _Writer:
    def __init__(self, scop: Scop, statement: Statement) -> None:
        self.scop, self.statement = scop, statement
        self.names = dimension_names(len(statement.extents))

    def term(self, term: Expr) -> str:
        match term:
            case Ref(name=name) if name.startswith("r"):
                return self.read(self.statement.reads[int(name[1:])])
            case Ref(name=name) if name.startswith("b"):
                lag, component = lag_and_component(name)
                return f"before({lag})" + (f".{component}" if component else "")
            case Ref(name=name):
                return self.scop.program.arguments[int(name[1:])].path
            case Const():
                return constant_text(term)
            case Index(affine=affine):
                return size_text(affine, self.names)
            case Inside(where=where):
                return " and ".join(bound_text(w, self.names) for w in where) or "True"
            case Apply():
                return self.apply(term)

    def apply(self, term: Apply) -> str:
        entry = FUNCTIONS[term.function]
        operands = sorted(term.operands, key=self.rank) if entry.commutative else list(term.operands)
        parts = [self.term(o) for o in operands]
        if entry.infix and len(parts) == 2:
            shown = (f"({p})" if isinstance(o, (Apply, Inside)) else p for o, p in zip(operands, parts, strict=True))
            return f" {entry.infix} ".join(shown)
        if term.function in ("cast", "bitcast"):
            return f"{'' if term.function == 'cast' else 'bits_'}{term.dtype.name}({parts[0]})"
        return f"{term.function}({', '.join(parts)})"

    def rank(self, term: Expr) -> tuple[int, int, str]:
        """Commutative operands are shown in the order of the program: values, scalars, then constants."""
        match term:
            case Ref(name=name) if name.startswith("r"):
                read = self.statement.reads[int(name[1:])]
                return 0, read.source, self.read(read)
            case Ref(name=name) if name.startswith("b"):
                return 0, self.statement.id, name
            case Ref(name=name):
                return 1, int(name[1:]), ""
            case _:
                return 2, 0, self.term(term)

    def read(self, read: Read) -> str:
        source = self.scop.statements[read.source]
        name = source.name if not read.component else f"{source.name}.{read.component}"
        if _is_plain(read.index):
            return name
        return f"{name}[{', '.join(self.entry(e) for e in read.index)}]"

    def entry(self, entry: ReadEntry) -> str:
        if isinstance(entry, DataIndex):
            return self.read(self.statement.reads[entry.operand])
        return entry_text(entry, self.names)


def _is_plain(index: Sequence[ReadEntry]) -> bool:
    """Dimensions of the statement in rising order: read as it lies, perhaps broadcast."""
    seen: list[int] = []
    for entry in index:
        if not isinstance(entry, Affine) or entry.constant or len(entry.terms) != 1 or entry.terms[0][1] != 1:
            return False
        atom = entry.terms[0][0]
        if not isinstance(atom, str) or not atom.startswith("%"):
            return False
        seen.append(int(atom[1:]))
    return all(a < b for a, b in zip(seen, seen[1:], strict=False))


def constant_text(constant: Const) -> str:
    """The shortest literal that rounds to the constant in its own dtype: ``0.1``, not ``0.10000000149``."""
    if constant.dtype.is_float:
        short = np.float64 if constant.dtype.itemsize == 8 else np.float32
        return repr(float(str(short(constant.value))))
    return repr(constant.value)
