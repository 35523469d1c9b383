"""Kernel IR to the text of a fragment-language function (docs/fragments.md).

Before::

    Kernel softmax(x, y, M, N)  slots (c, v)
      Load xv = x[$b0, 1024*$c + 4*$t + $v]  vector 4
      Reduce m = max(xv) over (c, v)
      ...

After::

    TILE4X4 = Tile((4, 4), (1024, 1), vector=4)

    def softmax(x, y, M, N):
        at = block(0) * N + 4 * thread()
        xv = load(x, at, TILE4X4)
        m = threads_max(reduce_max(xv, (0, 1)), 255, 256)
        ...

One line per statement, in the order of the IR; index arithmetic is hoisted and named (`statements`, `symbols`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from polyfuse.affine import Affine
from polyfuse.codegen.accesses import Access, Linearizer
from polyfuse.codegen.expressions import Expressions
from polyfuse.codegen.indices import INTEGER, Indices, Symbol
from polyfuse.codegen.language import dtype_text
from polyfuse.codegen.literals import literal
from polyfuse.codegen.meetings import at_once
from polyfuse.codegen.names import Namer, function_name
from polyfuse.codegen.statements import Assign, Branch, Effect, Loop, Statement, lines
from polyfuse.codegen.symbols import symbol_table, thread_strides, with_bases
from polyfuse.codegen.tiles import Layout, TileTable
from polyfuse.codegen.tree import Call, Items, Literal, Name, Node, text
from polyfuse.kernel import (
    ArrayParameter,
    AsyncCopy,
    AtomicUpdate,
    Barrier,
    Carry,
    Combine,
    CommitCopies,
    Contract,
    Elect,
    Exchange,
    Expr,
    For,
    If,
    Keep,
    Kept,
    Kernel,
    Leave,
    Let,
    Load,
    Neighbours,
    Op,
    Reduce,
    ScalarParameter,
    Scan,
    Store,
    Take,
    ThreadCells,
    WaitCopies,
)
from polyfuse.kernel_types import Types, ValueType, bound_names, memories, register_numbers, value_types

IDEMPOTENT = frozenset(("max", "min", "fmax", "fmin", "any", "all", "bitor", "bitand", "argmax", "argmin"))
"""Monoids for which a value that does not vary along a reduced slot may be taken once."""


def print_kernel(kernel: Kernel) -> str:
    """`kernel` as a module part: `Tile` constants, then the function.

    The function is called `names.function_name`: the kernel's name unless that hides an operation.
    Its parameters are ``kernel.parameters`` in order; arrays are pointers, sizes and scalars plain numbers.
    """
    return print_module((kernel,))


def print_module(kernels: Sequence[Kernel]) -> str:
    """Several kernels as one module part that shares its constants."""
    tiles = TileTable()
    functions = [_function(kernel, tiles) for kernel in kernels]
    body = "\n\n\n".join(functions)
    constants = [f"{name} = {value}" for name, value in _SPECIAL if re.search(rf"\b{name}\b", body)]
    head = "\n".join(constants + tiles.lines())
    return f"{head}\n\n\n{body}\n" if head else f"{body}\n"


_SPECIAL = (("INF", 'float("inf")'), ("NAN", 'float("nan")'))


def _function(kernel: Kernel, tiles: TileTable) -> str:
    namer = Namer()
    names = {p.name: namer.fresh(p.name) for p in kernel.parameters}
    if not kernel.members:
        names |= {b.name: namer.fresh(b.name) for b in kernel.shared}
        names |= {c.name: namer.fresh(c.name) for c in kernel.cells}
    body = _side_by_side(kernel, names, namer, tiles) if kernel.members else _body(kernel, names, namer, tiles)
    header = [f"# {line}".rstrip() for line in kernel.header]
    parameters = ", ".join(names[p.name] for p in kernel.parameters)
    return "\n".join([*header, f"def {function_name(kernel.name)}({parameters}):", *body])


def _body(kernel: Kernel, names: dict[str, str], namer: Namer, tiles: TileTable) -> list[str]:
    """The lines of a kernel that is a launch of its own."""
    opened, closed = (
        ([Effect(Call("cluster_arrive", ()))], [Effect(Call("cluster_wait", ()))]) if kernel.cluster > 1 else ([], [])
    )
    inner = (*_policies(kernel, names, names), *_operations(kernel, names, namer, tiles))
    return lines([*_buffers(kernel, names), *opened, *inner, *closed], namer)


def _buffers(kernel: Kernel, names: dict[str, str]) -> list[Statement]:
    buffers = [
        Assign((names[b.name],), Call("shared", (Name(dtype_text(b.dtype)), Literal(b.elements))))
        for b in kernel.shared
    ]
    return [*buffers, *(Assign((names[c.name],), _cells(kernel, c)) for c in kernel.cells)]


def _cells(kernel: Kernel, cells: ThreadCells) -> Call:
    shape = tuple(Literal(s.extent if s.name in cells.slots else 1) for s in kernel.slots)
    return Call("own_cells", (Name(dtype_text(cells.dtype)), Items(shape), Literal(kernel.block_threads)))


def _has_cuts(body: Sequence[Op]) -> bool:
    """Whether conditions cut vectors of an access."""
    inside = [part for op in body for part in ((op.body,) if isinstance(op, For) else _branches(op))]
    return any(isinstance(op, (Load, Store)) and op.cut for op in body) or any(map(_has_cuts, inside))


def _branches(op: Op) -> tuple[tuple[Op, ...], ...]:
    return (op.body, op.orelse) if isinstance(op, If) else ()


def _operations(
    kernel: Kernel, names: dict[str, str], namer: Namer, tiles: TileTable, first: Node | None = None
) -> tuple[Statement, ...]:
    """The operations of a kernel whose blocks count from block `first` of the launch."""
    scalars = frozenset(p.name for p in kernel.parameters if isinstance(p, ScalarParameter))
    values = {n: names[n] for n in scalars} | {n: namer.fresh(n) for n in bound_names(kernel.body)}
    memory = memories(kernel)
    indices = Indices(symbol_table(kernel, names, namer, first), threads=thread_strides(kernel))
    indices = with_bases(indices, kernel, memory)
    expressions = Expressions(kernel, value_types(kernel), indices, values, scalars, _has_cuts(kernel.body))
    printer = _Printer(kernel, expressions.types, expressions, Linearizer(expressions, memory), names, tiles)
    return printer.block(kernel.body)


def _policies(kernel: Kernel, names: dict[str, str], kept: dict[str, str]) -> list[Statement]:
    """Of the cache, by which arrays of `names` are `kept`; one that results are stored over is loaded as any other
    memory."""
    arrays = [p.name for p in kernel.parameters if isinstance(p, ArrayParameter) and _is_kept(p)]
    return [Assign((kept[name],), Call("evict_last", (Name(names[name]),))) for name in arrays]


def _is_kept(parameter: ArrayParameter) -> bool:
    return parameter.evicted_last and not parameter.overwritten


def _side_by_side(kernel: Kernel, names: dict[str, str], namer: Namer, tiles: TileTable) -> list[str]:
    """One branch per member, on the block; every buffer before the first, each line of a member inside its own."""
    sizes = Indices({p.name: Symbol(Name(names[p.name]), INTEGER, 0) for p in kernel.parameters})
    buffers, branches = list[str](), list[str]()
    for number, member in enumerate(kernel.members):
        own, given = member.kernel, [kernel.parameters[k].name for k in member.arguments]
        local = {p.name: names[name] for p, name in zip(own.parameters, given, strict=True)}
        local |= {b.name: namer.fresh(b.name) for b in own.shared}
        buffers += lines(_buffers(own, local), namer) if own.shared else []
        begins = None if member.first == Affine.of(0) else sizes.tree(member.first)
        test = "else:"
        if number + 1 < len(kernel.members):
            end = text(sizes.tree(kernel.members[number + 1].first))
            test = f"{'el' if number else ''}if block(0) < {end}:"
        arrays = [p for p in own.parameters if isinstance(p, ArrayParameter) and _is_kept(p)]
        kept = local | {p.name: namer.fresh(p.name) for p in arrays}  # to other members it is plain memory
        inner = (*_policies(own, local, kept), *_operations(own, kept, namer, tiles, begins))
        body = lines(inner, namer, depth=2)
        branches += [f"    {test}  # {own.name}", *body]
    return [*buffers, *branches]


@dataclass(frozen=True, slots=True)
class _Printer:
    """Prints the operations of one kernel; `names` are those of parameters and buffers, values have their own."""

    kernel: Kernel
    types: Types
    expressions: Expressions
    linearizer: Linearizer
    names: dict[str, str]
    tiles: TileTable
    noted: set[str] = field(default_factory=set)

    def block(self, body: Sequence[Op]) -> tuple[Statement, ...]:
        groups = at_once(body, lambda value: self.expressions.type_of(value).dtype)
        return tuple(self._statement(ops[0]) if len(ops) == 1 else self._meeting_at_once(ops) for ops in groups)

    def _meeting_at_once(self, ops: Sequence[Op]) -> Statement:
        """Combinations of several values in one call."""
        found = [op for op in ops if isinstance(op, Combine)]
        values = tuple(node for op in found for node in self._tuple_state(op.values, frozenset()))
        arguments = (Items(values), Literal(found[0].bits), *self._meeting())
        return self._assign([name for op in found for name in op.names], Call(f"threads_{found[0].monoid}", arguments))

    def _statement(self, op: Op) -> Statement:
        match op:
            case Let(name, value):
                return self._assign((name,), self.expressions.shaped(value, self.types[name]))
            case Load():
                return self._load(op)
            case Neighbours():
                return self._neighbours(op)
            case Take():
                return self._assign((op.name,), self._take(op))
            case Store(array, index, value, where, mask, vector, span, cut):
                access = self.linearizer.access(array, index, where, mask, vector, span=span)
                stored = self.expressions.fragment(value)
                function = "store_cut" if cut else "store"
                return Effect(self._call(function, array, access, stored, cut=where if cut else None))
            case AtomicUpdate(array, index, monoid, value, where, mask, vector):
                axes = self.expressions.type_of(value).axes
                access = self.linearizer.access(array, index, where, mask, vector, axes)
                stored = self.expressions.fragment(value)
                return Effect(self._call("atomic", array, access, stored, leading=(Literal(monoid, f'"{monoid}"'),)))
            case Keep(cells, value):
                return Effect(Call("put_cells", (Name(self.names[cells]), self.expressions.fragment(value))))
            case Kept(name, cells):
                return self._assign((name,), Call("get_cells", (Name(self.names[cells]),)))
            case Reduce(names, monoid, values, slots):
                return self._assign(names, self._reduction(monoid, values, slots))
            case Contract():
                return self._assign((op.name,), self._contraction(op))
            case Combine(names, monoid, values, bits):
                operands = self._tuple_state(values, frozenset())
                arguments = (*operands, Literal(bits), *self._meeting())
                return self._assign(names, Call(f"threads_{monoid}", arguments))
            case Exchange(names, values, bits, slot):
                operands = self._tuple_state(values, frozenset(), ranked=True)
                axis = Literal(self._axis(slot) if slot else None)
                arguments = (Items(tuple(operands)), axis, Literal(bits), *self._meeting())
                return self._assign(names, Call("exchange", arguments))
            case Scan():
                return self._assign((op.name, op.total), self._scan(op))
            case Leave():
                return Effect(self._leave(op))
            case Carry(name):
                return self._assign((name,), self._carry(op))
            case For():
                return self._loop(op)
            case If(condition, body, orelse):
                return Branch(self.expressions.fragment(condition), self.block(body), self.block(orelse))
            case Barrier(scope):
                return Effect(Call("warp_barrier" if scope == "warp" else "barrier", ()))
            case Elect(name, counter, group, count):
                place = self.linearizer.number(group, counter)
                size = self.expressions.indices.tree(count)
                arguments = (Name(self.names[counter]), place, size, *self._meeting()[1:])
                return self._assign((name,), Call("elect", arguments))
            case AsyncCopy():
                return Effect(self._copy(op))
            case CommitCopies():
                return Effect(Call("commit_copies", ()))
            case WaitCopies(pending):
                return Effect(Call("wait_copies", (Literal(pending),)))
            case _:
                assert_never(op)

    def _meeting(self) -> tuple[Node, ...]:
        """The threads that meet: of a block, and how many blocks where it is a cluster."""
        kernel = self.kernel
        blocks = (Literal(kernel.cluster),) if kernel.cluster > 1 else ()
        return (Literal(kernel.block_threads), *blocks)

    # ------------------------------------------------------------------------------------------ memory
    def _load(self, op: Load) -> Statement:
        access = self.linearizer.access(op.array, op.index, op.where, op.mask, op.vector, span=op.span)
        keywords: tuple[tuple[str, Node], ...] = ()
        if access.mask is not None and op.other is not None and op.other.value != 0:
            keywords = (("other", literal(op.other.value, op.other.dtype)),)
        if not (op.cut or op.across):
            if op.instead is not None:
                keywords = (("other", self.expressions.fragment(op.instead)),)
            if op.some:
                keywords = (*keywords, ("some", self.expressions.condition(op.some)))
            return self._assign((op.name,), self._call("load", op.array, access, None, keywords))
        keywords = keywords if op.other is not None else (("other", Literal(None)),)
        keywords = (("end", self.linearizer.end(op.array)), *keywords)
        function = "load_across" if op.across else "load_cut"
        call = self._call(function, op.array, access, None, keywords, cut=op.where, across=op.across)
        return self._assign((op.name,), call)

    def _neighbours(self, op: Neighbours) -> Statement:
        """One offset, how far on each begins, and the bounds of each."""
        load = op.loads[0]
        access = self.linearizer.access(load.array, load.index, load.where, None, load.vector)
        cuts = [self.expressions.cut(part.where, across=True) for part in op.loads]
        ends = [Items(tuple(nodes)) for nodes in ([c.low for c in cuts], [c.high for c in cuts])]
        arguments = (Name(self.names[load.array]), access.offset, Name(self.tiles.name(access.layout)))
        steps = Items(tuple([Literal(step) for step in op.steps]))
        keywords: tuple[tuple[str, Node], ...] = (*cuts[0].keywords, ("end", self.linearizer.end(load.array)))
        if access.sizes:
            keywords = (*keywords, ("sizes", Items(access.sizes)))
        if load.other is None:
            keywords = (*keywords, ("other", Literal(None)))
        elif load.other.value != 0:
            keywords = (*keywords, ("other", literal(load.other.value, load.other.dtype)))
        call = Call("load_neighbours", (*arguments, steps, *ends), keywords)
        return self._assign([part.name for part in op.loads], call)

    def _copy(self, op: AsyncCopy) -> Call:
        """The cells, as ``buffer, offset, tile``, then what is copied into them, as a load."""
        into = self.linearizer.access(op.buffer, op.into, op.where, None, op.vector)
        access = self.linearizer.access(op.array, op.index, op.where, None, op.vector)
        source = self._call("load", op.array, access, None)
        cells = (Name(self.names[op.buffer]), into.offset, Name(self.tiles.name(into.layout)))
        if not op.cut:
            return Call("copy_async", (*cells, *source.arguments), source.keywords)
        end = (("end", self.linearizer.end(op.array)),)
        return Call("copy_cut", (*cells, *source.arguments), (*end, *source.keywords))

    def _take(self, op: Take) -> Node:
        """Register ``start + sum(slot * stride)`` of the value, counted in C order."""
        kernel, held = self.kernel, self.expressions.fragment(op.value)
        known = self.expressions.type_of(op.value)
        if not known.axes:
            return held
        start, steps = register_numbers(known.axes, op.index, kernel)
        axes = self.types[op.name].axes
        shape = tuple(s.extent if s.name in axes else 1 for s in kernel.slots)
        strides = tuple((steps.get(s.name, 0) if s.name in axes else 0, None) for s in kernel.slots)
        return Call("take", (held, Literal(start), Name(self.tiles.name(Layout(shape, strides)))))

    def _call(
        self,
        function: str,
        array: str,
        access: Access,
        value: Node | None,
        keywords: tuple[tuple[str, Node], ...] = (),
        leading: tuple[Node, ...] = (),
        cut: Sequence[Affine] | None = None,
        across: bool = False,
    ) -> Call:
        arguments = [*leading, Name(self.names[array]), access.offset, Name(self.tiles.name(access.layout))]
        if value is not None:
            arguments.append(value)
        if cut is not None:
            bounds = self.expressions.cut(cut, across=across)
            arguments += [bounds.low, bounds.high]
            keywords = (*bounds.keywords, *keywords)
        elif access.mask is not None:
            keywords = (("mask", access.mask), *keywords)
        if access.sizes and cut is not None:
            keywords = (*keywords, ("sizes", Items(access.sizes)))
        elif access.sizes:
            arguments.append(Items(access.sizes))
        return Call(function, tuple(arguments), keywords)

    # ------------------------------------------------------------------------------------------ reductions
    def _reduction(self, monoid: str, values: Sequence[Expr], slots: tuple[str, ...]) -> Node:
        varying = frozenset() if monoid in IDEMPOTENT else frozenset(slots)
        operands = self._tuple_state(values, varying, ranked=bool(slots))
        return Call(f"reduce_{monoid}", (*operands, self._axes(slots)))

    def _contraction(self, op: Contract) -> Node:
        """Both operands may lack a contracted slot only together with the other one's having it."""
        left, right = self.expressions.type_of(op.left), self.expressions.type_of(op.right)
        missing = frozenset(op.slots) - left.axes - right.axes
        first = self._over(op.left, missing)
        accumulator = Name(self.expressions.names[op.name])
        return Call("contract", (accumulator, first, self.expressions.fragment(op.right), self._axes(op.slots)))

    def _scan(self, op: Scan) -> Node:
        varying = frozenset([op.slot] if op.slot else [])
        axis = self._axis(op.slot) if op.slot else None
        arguments = (
            self._over(op.value, varying),
            *(Literal(v) for v in (axis, op.bits, self.kernel.threads, op.exclusive, op.reverse)),
        )
        return Call(f"scan_{op.monoid}", arguments)

    def _leave(self, op: Leave) -> Call:
        return Call("leave", (self.expressions.fragment(op.value), Name(self.names[op.words]), *self._in_line(op)))

    def _carry(self, op: Carry) -> Node:
        memory = (Name(self.names[op.words]), Name(self.names[op.arrived]))
        return Call(f"carry_{op.monoid}", (self.expressions.fragment(op.value), *memory, *self._in_line(op)))

    def _in_line(self, op: Leave | Carry) -> tuple[Node, ...]:
        """The line, the number and the count of blocks, then what every kernel knows of them."""
        place = (self.linearizer.number(op.line, op.words), *map(self.expressions.indices.tree, (op.number, op.count)))
        return (*place, Literal(op.group), Literal(op.bits), Literal(self.kernel.block_threads))

    def _tuple_state(self, values: Sequence[Expr], varying: frozenset[str], ranked: bool = False) -> list[Node]:
        """The components of a monoid's state, broadcast to one shape when there are several."""
        if len(values) == 1:
            return [self._over(values[0], varying, ranked)]
        kinds = [self.expressions.type_of(v) for v in values]
        axes = frozenset().union(*(k.axes for k in kinds)) | varying
        ranked = ranked or any(k.ranked for k in kinds)
        return [
            self.expressions.shaped(v, ValueType(k.dtype, axes, ranked)) for v, k in zip(values, kinds, strict=True)
        ]

    def _over(self, value: Expr, varying: frozenset[str], ranked: bool = False) -> Node:
        """`value` as a fragment that has the slots `varying`, repeated along those on which it does not depend.

        `ranked`: it needs slot axes, if only of extent 1.
        """
        known = self.expressions.type_of(value)
        if varying <= known.axes and (known.ranked or not ranked):
            return self.expressions.fragment(value)
        return self.expressions.shaped(value, ValueType(known.dtype, known.axes | varying, True))

    def _axes(self, slots: Sequence[str]) -> Node:
        positions = sorted(k for k, s in enumerate(self.kernel.slots) if s.name in slots)
        return Items(tuple(Literal(k) for k in positions))

    def _axis(self, slot: str) -> int:
        return [s.name for s in self.kernel.slots].index(slot)

    # ------------------------------------------------------------------------------------------ structure
    def _loop(self, op: For) -> Statement:
        indices = self.expressions.indices
        ends = [op.extent] if op.until is None else [op.extent, op.until]
        count = indices.tree(ends[0]) if len(ends) == 1 else Call("minimum", tuple(map(indices.tree, ends)))
        if any(indices.kind(end) != INTEGER for end in ends):
            count = Call("scalar", (count,))
        variable = indices.symbols[f"${op.digit}"].node
        assert isinstance(variable, Name)
        return Loop(f"${op.digit}", variable.text, count, self.block(op.body))

    def _assign(self, names: Sequence[str], value: Node) -> Assign:
        note = "; ".join(text for name, text in self.kernel.notes if name in names and name not in self.noted)
        self.noted.update(names)
        return Assign(tuple(self.expressions.names[n] for n in names), value, note)
