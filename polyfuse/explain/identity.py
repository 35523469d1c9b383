"""The structural identity of a plan: the same for programs that differ in names, source lines, size symbols, the order
in which independent values were traced, or the spelling of views.

Every value gets a digest of what it computes, built from the digests of what it reads; sizes are numbered in the order
in which the arguments mention them; operands of commutative functions are put in the order of their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from polyfuse.affine import Affine, FloorDiv
from polyfuse.bindings import AnyGuard, DerivedGuard, Guard, VolumeGuard
from polyfuse.explain.kernels import by_step
from polyfuse.expr import DataIndex, Program
from polyfuse.scalars import FUNCTIONS
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import InputStatement, OpaqueStatement, Read, Scop, Statement
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref
from polyfuse.unravelled import Unravelled

if TYPE_CHECKING:
    from polyfuse.plan import Plan


def digest(*parts: object) -> bytes:
    """Of a sequence of texts, bytes, numbers and nested tuples of them; every part is delimited."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def plan_key(plan: Plan) -> bytes:
    """The identity of a whole plan: what is computed, on what, by which kernels."""
    sizes = Sizes(plan.program)
    values = value_keys(plan.scop, sizes)
    steps = [
        digest(sorted(_kernel_key(k.schedule, values, Sizes(k.group.scop.program)) for k in kernels))
        for _, kernels in by_step(plan)
        if kernels
    ]
    steps += [values[plan.called(step)] for step in plan.library_calls]
    arguments = tuple((sizes.shape(a.shape), a.dtype.name, a.is_scalar) for a in plan.program.arguments)
    outputs = tuple(values[o] for o in plan.scop.outputs)
    layouts = tuple((layout.strides, layout.alignment) for layout in plan.layouts)
    writes = tuple(sorted(plan.program.writes.items()))
    return digest(plan.target.name, arguments, outputs, layouts, writes, sorted(steps))


class Sizes:
    """Size symbols by the order of their first mention: ``N`` and ``K`` are both ``n0`` in ``f(x: f32[N])``.

    Symbols that stand for products are spelled out.
    """

    def __init__(self, program: Program) -> None:
        derived = dict(program.derived)
        plain = [name for name in program.symbols if name not in derived]
        self.names = {name: f"n{k}" for k, name in enumerate(plain)}
        for name, factors in program.derived:
            self.names[name] = f"({'*'.join(map(self.text, factors))})"

    def text(self, expression: Affine | Unravelled) -> str:
        """Canonical whatever the symbols were called: terms are sorted after renaming."""
        if isinstance(expression, Unravelled):
            rows = "" if expression.rows is None else f" {self.text(expression.rows)}"
            where = "" if expression.is_plain else f" {expression.step} {self.text(expression.first)}"
            return f"{self.text(expression.flat)} {expression.in_row} {self.text(expression.extent)}{rows}{where}"
        terms = []
        for atom, factor in expression.terms:
            if isinstance(atom, FloorDiv):
                terms.append(f"{factor}*(({self.text(atom.numerator)})//{atom.denominator})")
            else:
                terms.append(f"{factor}*{self.names.get(atom, atom)}")
        return "+".join([*sorted(terms), str(expression.constant)])

    def shape(self, shape: tuple[Affine, ...]) -> tuple[str, ...]:
        return tuple(map(self.text, shape))

    def guard(self, guard: AnyGuard) -> str:
        match guard:
            case Guard(expression, modulus, negated):
                return f"{self.text(expression)} mod {modulus} {negated}"
            case VolumeGuard(shape, limit, exceeds):
                return f"{sorted(self.shape(shape))} {limit} {exceeds}"
            case DerivedGuard(guard=inner):
                return self.guard(inner)


def value_keys(scop: Scop, sizes: Sizes) -> Mapping[int, bytes]:
    """A digest per value of the SCoP."""
    keys: dict[int, bytes] = {}
    for statement in scop.statements:
        match statement:
            case InputStatement():
                keys[statement.id] = digest("input", statement.position)
            case OpaqueStatement():
                operands = tuple(keys[o] for o in statement.operands)
                shape = sizes.shape(statement.shape)
                keys[statement.id] = digest("call", statement.call.name, repr(statement.call.settings), operands, shape)
            case Statement():
                keys[statement.id] = _statement_key(statement, keys, sizes)
    return keys


def _statement_key(statement: Statement, keys: Mapping[int, bytes], sizes: Sizes) -> bytes:
    def read(number: int) -> tuple[object, ...]:
        access: Read = statement.reads[number]
        index = tuple(read(e.operand) if isinstance(e, DataIndex) else sizes.text(e) for e in access.index)
        return "read", keys[access.source], index, sizes.shape(access.where), access.component

    def term(expression: Expr) -> bytes:
        match expression:
            case Ref(name=name) if name.startswith("r"):
                return digest(read(int(name[1:])))
            case Ref(name=name, dtype=dtype):
                return digest("scalar", name, dtype.name)
            case Const(value, dtype):
                return digest("constant", repr(value), dtype.name)
            case Index(affine, dtype):
                return digest("index", sizes.text(affine), dtype.name)
            case Inside(where):
                return digest("inside", sorted(sizes.shape(where)))
            case Apply(function, operands, dtype):
                parts = [term(o) for o in operands]
                ordered = sorted(parts) if FUNCTIONS[function].commutative else parts
                return digest(function, dtype.name, ordered)

    return digest(
        sizes.shape(statement.extents),
        tuple(term(b) for b in statement.body),
        tuple(d.name for d in statement.dtypes),
        statement.monoid,
        statement.reduced,
        (statement.scanned, statement.exclusive, statement.reverse, statement.run, statement.lags),
    )


def _kernel_key(schedule: KernelSchedule, values: Mapping[int, bytes], sizes: Sizes) -> bytes:
    """Decisions, without the order of independent statements."""
    digits = sorted((d.name, d.kind, sizes.text(d.extent), d.stride) for d in schedule.digits)
    placed = sorted(_placed_key(p, values, sizes) for p in schedule.placed)
    return digest(
        schedule.strategy,
        tuple(sorted(schedule.parameters)),
        sorted(values[v] for v in schedule.body),
        sorted(values[v] for v in schedule.roots),
        sorted(values[v] for v in schedule.loads),
        digits,
        placed,
        sorted(values[b.value] for b in schedule.shared),
        sorted(sizes.guard(g) for g in schedule.guards),
        (schedule.minimum_blocks, schedule.cluster, schedule.border, schedule.ahead, schedule.rings, _cells(schedule)),
        schedule.evict_last,
    )


def _cells(schedule: KernelSchedule) -> tuple[str, int, int]:
    """Where the part of a slot begins that waits in shared memory, and in what pieces it runs."""
    cells = schedule.cells
    return ("", 0, 0) if cells is None else (cells.slot, cells.first, cells.piece)


def _placed_key(placed: Placed, values: Mapping[int, bytes], sizes: Sizes) -> bytes:
    place = tuple("data" if isinstance(e, str) else sizes.text(e) for e in placed.place)
    return digest(placed.role, values[placed.value], place, placed.path, placed.component)
