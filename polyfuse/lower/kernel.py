"""Lowering: schedule to kernel IR, in the order of the order tree.

m  compute  [b0, 1024*c + 4*t + v]  combine over t         Let    m = -inf            (only around loops)
                                                      ->   Reduce m = max(x) over c, v
                                                           Combine m over bits 255
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit, names_of
from polyfuse.bindings import Layout
from polyfuse.dtypes import DType, bool_, i32
from polyfuse.lower.border import border_conditions
from polyfuse.lower.context import Context, kernel_context
from polyfuse.lower.fold import folded
from polyfuse.lower.inspect import affine_names, flatten, value_references
from polyfuse.lower.peel import at_trip, whole_trips
from polyfuse.lower.vectors import hoist_from_vector, vector_width
from polyfuse.places.products import folded_products
from polyfuse.scalars import MONOIDS, SHORT
from polyfuse.schedule import (
    Digit,
    Finish,
    KernelSchedule,
    LoopNest,
    Placed,
    PlaceEntry,
    SharedBox,
    TreeItem,
    election,
)
from polyfuse.scop import Scop, Statement, neutral
from polyfuse.sets import at_least_zero
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref, references, rewrite


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """How a kernel sees one global array: its parameter name, and the layout it was promised."""

    name: str
    value: int
    component: int
    shape: tuple[Affine, ...]
    dtype: DType
    layout: Layout
    readonly: bool


@dataclass(frozen=True, slots=True)
class ScratchUse:
    """An array that only this kernel touches; `zeroed`: it holds zeros before and after."""

    name: str
    dtype: DType
    shape: tuple[Affine, ...]
    zeroed: bool = False


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and the arrays, sizes and scalar arguments behind its parameters, in order; `scratch`: what blocks leave
    each other in global memory, and the counters of their elections."""

    kernel: ir.Kernel
    arrays: tuple[ArrayUse, ...]
    scratch: tuple[ScratchUse, ...] = ()


FAULT = "index_fault"
"""The flag, an i32, that a kernel sets to 1 when a data index leaves its array."""


def lower(
    scop: Scop, schedule: KernelSchedule, layouts: Mapping[int, Layout], index_bits: int = 32, faults: bool = False
) -> Lowered:
    """`layouts`: of the values that the kernel loads or stores; a missing one is C order, aligned to 16 bytes.
    `faults`: report data indices out of bounds through the parameter `FAULT`; they never touch memory either way."""
    return _Lowering(scop, schedule, layouts, index_bits, faults).run()


@dataclass(slots=True)
class _Lowering:
    scop: Scop
    schedule: KernelSchedule
    layouts: Mapping[int, Layout]
    index_bits: int
    faults: bool
    by_name: dict[str, Placed] = field(default_factory=dict)
    arrays: dict[tuple[int, int, bool], ArrayUse] = field(default_factory=dict)
    context: Context = field(init=False)
    slots: tuple[Digit, ...] = field(init=False)
    boxes: dict[int, SharedBox] = field(default_factory=dict)
    shares: dict[tuple[int, int], ArrayUse] = field(default_factory=dict)  # of blocks in sums across blocks
    scalars: dict[str, DType] = field(default_factory=dict)
    folded: dict[str, str] = field(default_factory=dict)  # multiplies that a contraction absorbs

    def run(self) -> Lowered:
        schedule = self.schedule
        self.by_name = dict(schedule.by_name())
        self.context = kernel_context(schedule, self.scop.program.symbols, self.scop.program.facts)
        self.slots = schedule.of_kind("slot")
        self.scalars = self._scalars()
        self.boxes = {box.value: box for box in schedule.shared}
        self._declare_arrays()
        self._declare_shares()
        self.folded = folded_products(self.scop, schedule)
        body = folded(self._body_with_border())
        uses = tuple(self.arrays.values())
        scratch = self._scratch()
        kernel = ir.Kernel(
            name=schedule.name,
            parameters=self._parameters(uses, scratch, body),
            grid=_grid(schedule),
            threads=schedule.threads,
            digits=tuple(
                ir.ThreadDigit(d.name, d.stride, d.count) for d in schedule.of_kind("thread") if d.name != "t"
            ),
            slots=tuple(ir.Slot(s.name, s.count) for s in self.slots),
            shared=tuple(self._buffer(box) for box in schedule.shared),
            body=body,
            index_bits=self.index_bits,
            minimum_blocks=schedule.minimum_blocks,
            notes=self._notes(),
        )
        return Lowered(kernel, uses, scratch)

    # ---------------------------------------------------------------- declarations
    def _declare_arrays(self) -> None:
        moves = [p for p in self.schedule.placed if p.role in ("load", "store")]
        names: set[str] = set()  # component 1 of `a` and component 0 of `a_1` would both be a_1
        for move in sorted(moves, key=lambda p: (p.role == "store", p.value, p.component)):
            key = (move.value, move.component, move.role == "load")
            if key in self.arrays:
                continue
            statement = self.scop.statements[move.value]
            name = statement.name if not move.component else f"{statement.name}_{move.component}"
            name = f"{name}_out" if move.role == "store" else f"{name}_in"
            while name in names:
                name = f"{name}_"
            names.add(name)
            self.arrays[key] = ArrayUse(
                name,
                move.value,
                move.component,
                self.scop.shape(move.value),
                self.scop.dtype(move.value, move.component),
                self.layouts.get(move.value, Layout()),
                move.role == "load",
            )

    def _declare_shares(self) -> None:
        """Per component of a reduction across blocks: the number of the block, then the index of the result."""
        for placed in self.schedule.placed:
            if placed.role == "partial":
                name = f"{self.scop.statements[placed.value].name}_shares"
                extent = self.schedule.digit(self._along(placed)).extent
                self.shares[placed.value, placed.component] = ArrayUse(
                    name if not placed.component else f"{name}_{placed.component}",
                    placed.value,
                    placed.component,
                    (extent, *self.scop.shape(placed.value)),
                    self.scop.dtype(placed.value, placed.component).compute,
                    Layout(),
                    False,
                )

    def _scratch(self) -> tuple[ScratchUse, ...]:
        found = [ScratchUse(use.name, use.dtype, use.shape) for use in self.shares.values()]
        for item in self.schedule.order:
            if isinstance(item, Finish):
                _, count = self._election(item.digit)
                found.append(ScratchUse(_counter(item.digit), i32, (count,), zeroed=True))
        return tuple(found)

    def _election(self, along: str) -> tuple[Affine, Affine]:
        found = election(self.schedule.digits, along)
        assert found is not None, f"the elections over {along} have no number"
        return found

    def _along(self, partial: Placed) -> str:
        """The block digit over which the sum goes whose share `partial` stores."""
        return next(g.digit for g in self.schedule.grid_combine if g.reduction == partial.providers[0])

    def _parameters(
        self, uses: Sequence[ArrayUse], scratch: Sequence[ScratchUse], body: tuple[ir.Op, ...]
    ) -> tuple[ir.Parameter, ...]:
        found: list[ir.Parameter] = []
        sizes: dict[str, None] = {}
        for use in uses:
            strides: tuple[str | int, ...] | None = None
            if use.layout.strides is not None:
                strides = tuple(f"{use.name}_s{k}" if s is None else s for k, s in enumerate(use.layout.strides))
                sizes |= dict.fromkeys(s for s in strides if isinstance(s, str))
            else:
                sizes |= dict.fromkeys(n for extent in use.shape[1:] for n in sorted(extent.names()))
            found.append(ir.ArrayParameter(use.name, use.dtype, use.shape, strides, use.readonly, use.layout.alignment))
        for own in scratch:
            sizes |= dict.fromkeys(n for extent in own.shape[1:] for n in sorted(extent.names()))
            found.append(ir.ArrayParameter(own.name, own.dtype, own.shape, readonly=False))
        grid = _grid(self.schedule)
        wanted = affine_names(body) | names_of(grid[:-1])  # several grid axes are decoded in the kernel
        wanted |= names_of(grid) & {name for name, _ in self.scop.program.derived}  # and the launch evaluates products
        if any(isinstance(op, ir.AtomicUpdate) and op.array == FAULT for op in flatten(body)):
            found.append(ir.ArrayParameter(FAULT, i32, (Affine.of(1),), readonly=False))
        sizes |= dict.fromkeys(sorted(n for n in wanted if not n.startswith("$")))
        found += [ir.SizeParameter(n) for n in sizes]
        used = dict.fromkeys(r.name for r in value_references(body) if r.name in self.scalars)
        found += [ir.ScalarParameter(name, self.scalars[name]) for name in used]
        return tuple(found)

    def _scalars(self) -> dict[str, DType]:
        """Each scalar argument that the kernel uses, in the widest dtype that it is used in: narrower uses convert."""
        found: dict[str, DType] = {}
        for value in self.schedule.body:
            statement = self.scop.statements[value]
            assert isinstance(statement, Statement)
            for ref in (r for body in statement.body for r in references(body) if r.name.startswith("s")):
                dtype = ref.dtype.compute
                known = found.get(ref.name, dtype)
                found[ref.name] = max(known, dtype, key=lambda d: (not d.is_float, d.itemsize))
        return found

    def _buffer(self, box: SharedBox) -> ir.SharedBuffer:
        dtype = self.scop.dtype(box.value).compute
        return ir.SharedBuffer(f"{box.name}_tile", dtype, box.extents, box.pitch)

    def _notes(self) -> tuple[tuple[str, str], ...]:
        found = []
        for placed in self.schedule.placed:
            statement = self.scop.statements[placed.value]
            source = getattr(statement, "source", None)
            if placed.role == "compute" and source is not None:
                found.append((placed.name, f"{source.file.rsplit('/', 1)[-1]}:{source.line}"))
        return tuple(found)

    def _body_with_border(self) -> tuple[ir.Op, ...]:
        """The masked body, or both: without masks where the whole block lies inside, masked at the border."""
        body = self._items(self.schedule.order, ())
        worst = border_conditions(body, self.schedule.digits) if self.schedule.border else None
        if not worst:
            return body
        self.context = replace(self.context, constraints=(*self.context.constraints, *at_least_zero(worst)))
        return (ir.If(Inside(worst), self._items(self.schedule.order, ()), body),)

    # ---------------------------------------------------------------- order tree
    def _items(self, items: Sequence[TreeItem], loops: tuple[str, ...]) -> tuple[ir.Op, ...]:
        out: list[ir.Op] = []
        for item in items:
            if isinstance(item, LoopNest):
                finishing = self._reductions_ending(item, loops)
                out += [op for p in finishing for op in self._initialise(p)]
                out += self._loop(item, loops)
                out += [op for p in finishing for op in self._finish(p)]
            elif isinstance(item, Finish):
                out += self._elected(item)
            elif item == "barrier":
                out.append(ir.Barrier())
            else:
                out += self._statement(self.by_name[item], loops)
        return tuple(out)

    def _elected(self, finish: Finish) -> list[ir.Op]:
        """The block that arrives last sees what all have stored."""
        group, _ = self._election(finish.digit)
        name, count = f"last_{finish.digit}", self.schedule.digit(finish.digit).extent
        elect = ir.Elect(name, _counter(finish.digit), group, count)
        return [elect, ir.If(Ref(name, bool_), self._items(finish.items, ()))]

    def _loop(self, nest: LoopNest, loops: tuple[str, ...]) -> list[ir.Op]:
        """The loop; on a CPU core its last trip apart where only that one needs masks."""
        extent = self.schedule.digit(nest.digit).extent
        body = self._items(nest.items, (*loops, nest.digit))
        whole = whole_trips(body, nest.digit, self.schedule.digits) if self.schedule.threads == 1 else None
        if whole is None or not self.context.implies(whole + 1 - extent):
            return [ir.For(nest.digit, extent, body)]
        everywhere, self.context = self.context, self.context.with_trips(nest.digit, whole)
        inside = self._items(nest.items, (*loops, nest.digit))
        self.context = everywhere
        last, rest = at_trip(body, nest.digit, whole), extent - whole
        main = [ir.For(nest.digit, whole, inside)] if whole != Affine.of(0) else []
        if rest.is_constant:
            return [*main, *(last if rest.constant else ())]
        return [*main, ir.If(Inside((rest - 1,)), last)]

    def _reductions_ending(self, nest: LoopNest, loops: tuple[str, ...]) -> list[Placed]:
        """The reductions inside whose outermost reduced loop is this one."""
        found = []
        for name in _leaves(nest):
            placed = self.by_name.get(name)
            if placed is not None and placed.role in ("compute", "total"):
                reduced = self._reduced_loops(placed)
                if reduced and reduced[0] == nest.digit and not set(reduced) & set(loops):
                    found.append(placed)
        return found

    def _over(self, placed: Placed) -> frozenset[str]:
        """Digits along which a reduction sums, or a scan runs; those of the number of the block for a total."""
        statement = self.scop.statements[placed.value]
        if placed.role == "total":
            return frozenset(n[1:] for n in self._affine(placed.place[0]).names() if n.startswith("$"))
        if placed.role != "compute" or not isinstance(statement, Statement) or statement.monoid is None:
            return frozenset()
        dims = statement.reduced if statement.scanned is None else (statement.scanned,)
        return frozenset(n[1:] for d in dims for n in self._affine(placed.place[d]).names() if n.startswith("$"))

    def _reduced_loops(self, placed: Placed) -> tuple[str, ...]:
        over = self._over(placed)
        return tuple(loop for loop, _ in placed.path if loop in over)

    # ---------------------------------------------------------------- statements
    def _statement(self, placed: Placed, loops: tuple[str, ...]) -> list[ir.Op]:
        if placed.name in self.folded:
            return []
        match placed.role:
            case "load":
                return self._load(placed)
            case "store":
                return [self._store(placed)]
            case "put":
                return [self._put(placed)]
            case "get":
                return [self._get(placed)]
            case "partial":
                return [self._partial(placed)]
            case "total":
                return self._total(placed)
            case _:
                return self._compute(placed)

    def _compute(self, placed: Placed) -> list[ir.Op]:
        statement = self.scop.statements[placed.value]
        assert isinstance(statement, Statement)
        if statement.monoid is None:
            return [ir.Let(placed.name, self._body(placed, statement, 0))]
        if statement.scanned is not None:
            return self._scan(placed, statement)
        if self._reduced_loops(placed):
            return self._accumulate(placed, statement)
        return [*self._reduce(placed, statement, self._result_names(placed)), *self._combine(placed)]

    def _result_names(self, placed: Placed) -> tuple[str, ...]:
        statement = self.scop.statements[placed.value]
        return tuple(self._component(placed.name, k) for k in range(len(statement.dtypes)))

    def _reduce(self, placed: Placed, statement: Statement, names: tuple[str, ...]) -> list[ir.Op]:
        assert statement.monoid is not None
        values = self._masked(placed, statement)
        slots = self._reduced_slots(placed)
        if slots:
            return [ir.Reduce(names, statement.monoid, values, slots)]
        return [ir.Let(n, v) for n, v in zip(names, values, strict=True)]

    def _masked(self, placed: Placed, statement: Statement) -> tuple[Expr, ...]:
        """The operands, neutral where a padded digit leaves the reduced range."""
        assert statement.monoid is not None
        if placed.role == "total":
            names = self._result_names(replace(placed, name=f"{placed.name}_each"))
            return tuple(Ref(n, d.compute) for n, d in zip(names, statement.dtypes, strict=True))
        index = [self._affine(placed.place[d]) for d in statement.reduced]
        where = self.context.inside(index, [statement.extents[d] for d in statement.reduced])
        values = tuple(self._body(placed, statement, k) for k in range(len(statement.body)))
        plain_sum = statement.monoid == "sum" and all(self._zero_outside(v, where) for v in values)
        if not where or plain_sum:
            return values
        where = self._steady(where)
        fill = neutral(statement.monoid, statement.dtypes)
        return tuple(Apply("where", (Inside(where), v, f), f.dtype) for v, f in zip(values, fill, strict=True))

    def _zero_outside(self, term: Expr, where: tuple[Affine, ...]) -> bool:
        """True for a loaded value whose own mask fills it with zeros wherever `where` fails, also through a box."""
        if not isinstance(term, Ref) or term.name not in self.by_name:
            return False
        placed = self.by_name[term.name]
        source = placed
        if placed.role == "get":
            source = self.by_name[self.by_name[placed.providers[0]].providers[0]]
        if source.role != "load":
            return False
        shape = self.scop.shape(placed.value)
        affine = [(e, n) for e, n in zip(placed.place, shape, strict=True) if isinstance(e, Affine)]
        return set(where) <= set(self.context.inside([e for e, _ in affine], [n for _, n in affine]))

    def _steady(self, where: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """Conditions that do not vary along the innermost slot, where the sizes allow: they are then shared."""
        if not self.slots:
            return where
        hoisted = hoist_from_vector(where, self.slots[-1], self.context)
        return where if hoisted is None else hoisted

    def _initialise(self, placed: Placed) -> list[ir.Op]:
        statement = self.scop.statements[placed.value]
        assert isinstance(statement, Statement) and statement.monoid is not None
        fill = neutral(statement.monoid, statement.dtypes)
        if statement.scanned is not None:
            return [ir.Let(f"{placed.name}_carry", fill[0])]
        if lanes := self._lanes(placed, statement):
            return [ir.Let(lanes, fill[0])]
        return [ir.Let(n, f) for n, f in zip(self._result_names(placed), fill, strict=True)]

    def _accumulate(self, placed: Placed, statement: Statement) -> list[ir.Op]:
        assert statement.monoid is not None
        names = self._result_names(placed)
        product, lanes = self._product(placed, statement), self._lanes(placed, statement)
        if product is not None:
            slots = () if lanes else self._reduced_slots(placed)
            return [ir.Contract(lanes or names[0], product[0], product[1], slots)]
        if lanes:
            held = Ref(lanes, statement.dtypes[0].compute)
            operands = (held, *self._masked(placed, statement))
            return [ir.Let(lanes, Apply(MONOIDS[statement.monoid].function, operands, held.dtype))]
        parts = tuple(f"{n}_part" for n in names)
        ops = self._reduce(placed, statement, parts)
        refs = [Ref(n, d.compute) for n, d in zip(names, statement.dtypes, strict=True)]
        new = [Ref(n, d.compute) for n, d in zip(parts, statement.dtypes, strict=True)]
        if len(names) > 1:
            return [*ops, *self._merge_state(statement, names, refs, new)]
        function = MONOIDS[statement.monoid].function
        return [*ops, ir.Let(names[0], Apply(function, (refs[0], new[0]), refs[0].dtype))]

    def _merge_state(self, statement: Statement, names: tuple[str, ...], old: list[Ref], new: list[Ref]) -> list[ir.Op]:
        """argmax and argmin: the new pair wins if better, or the first NaN, or equal at a lower index."""
        better = "greater" if statement.monoid == "argmax" else "less"
        (v, i), (w, j) = old, new
        wins: Expr = Apply(better, (w, v), bool_)
        lower = Apply("less", (j, i), bool_)
        tie: Expr = Apply("bitwise_and", (Apply("equal", (w, v), bool_), lower), bool_)
        wins = Apply("bitwise_or", (wins, tie), bool_)
        if v.dtype.is_float:
            old_nan, new_nan = Apply("isnan", (v,), bool_), Apply("isnan", (w,), bool_)
            first = Apply("bitwise_or", (Apply("invert", (old_nan,), bool_), lower), bool_)
            wins = Apply("where", (new_nan, first, wins), bool_)
        take = f"{names[0]}_wins"
        choose = Ref(take, bool_)
        return [
            ir.Let(take, wins),
            ir.Let(names[0], Apply("where", (choose, w, v), v.dtype)),
            ir.Let(names[1], Apply("where", (choose, j, i), i.dtype)),
        ]

    def _lanes(self, placed: Placed, statement: Statement) -> str:
        """Name of the partial results of each vector lane, which a CPU core combines after the loop; else empty."""
        along_vector = self.slots[-1:] and self.slots[-1].name in self._over(placed)
        single = len(statement.dtypes) == 1 and self.schedule.threads == 1
        return f"{placed.name}_lanes" if along_vector and single else ""

    def _reduced_slots(self, placed: Placed) -> tuple[str, ...]:
        over = self._over(placed)
        return tuple(s.name for s in self.slots if s.name in over)

    def _finish(self, placed: Placed) -> list[ir.Op]:
        statement = self.scop.statements[placed.value]
        assert isinstance(statement, Statement) and statement.monoid is not None
        lanes = "" if statement.scanned is not None else self._lanes(placed, statement)
        if not lanes:
            return self._combine(placed)
        held = Ref(lanes, statement.dtypes[0].compute)
        whole = ir.Reduce((placed.name,), statement.monoid, (held,), self._reduced_slots(placed))
        return [whole, *self._combine(placed)]

    def _combine(self, placed: Placed) -> list[ir.Op]:
        """Across threads: all bits of the thread digits that the reduction sums over."""
        statement = self.scop.statements[placed.value]
        assert isinstance(statement, Statement) and statement.monoid is not None
        if statement.scanned is not None:
            return []
        over, bits = self._over(placed), 0
        for d in self.schedule.of_kind("thread"):
            if d.name in over:
                bits |= (d.count - 1) * d.stride
        if not bits:
            return []
        names = self._result_names(placed)
        refs = tuple(Ref(n, d.compute) for n, d in zip(names, statement.dtypes, strict=True))
        return [ir.Combine(names, statement.monoid, refs, bits)]

    def _scan(self, placed: Placed, statement: Statement) -> list[ir.Op]:
        assert statement.monoid is not None and statement.scanned is not None
        over = self._over(placed)
        slots = [s.name for s in self.slots if s.name in over]
        bits = sum((d.count - 1) * d.stride for d in self.schedule.of_kind("thread") if d.name in over)
        index = self._affine(placed.place[statement.scanned])
        where = self.context.inside([index], [statement.extents[statement.scanned]])
        value = self._body(placed, statement, 0)
        fill = neutral(statement.monoid, statement.dtypes)[0]
        if where:
            value = Apply("where", (Inside(where), value, fill), fill.dtype)
        total = f"{placed.name}_total"
        carried = bool(self._reduced_loops(placed))
        name = f"{placed.name}_part" if carried else placed.name
        scan = ir.Scan(
            name,
            total,
            statement.monoid,
            value,
            slots[-1] if slots else None,
            bits,
            statement.exclusive,
        )
        if not carried:
            return [scan]
        function = MONOIDS[statement.monoid].function
        dtype = fill.dtype
        carry = Ref(f"{placed.name}_carry", dtype)
        return [
            scan,
            ir.Let(placed.name, Apply(function, (carry, Ref(name, dtype)), dtype)),
            ir.Let(carry.name, Apply(function, (carry, Ref(total, dtype)), dtype)),
        ]

    # ---------------------------------------------------------------- contractions
    def _product(self, placed: Placed, statement: Statement) -> tuple[Expr, Expr] | None:
        producer = next(iter(placed.providers), "")  # the sum of a constant reads nothing
        if self.folded.get(producer) != placed.name:
            return None
        source = self.by_name[producer]
        inner = self.scop.statements[source.value]
        assert isinstance(inner, Statement)
        term = self._body(source, inner, 0)
        assert isinstance(term, Apply)
        index = [self._affine(placed.place[d]) for d in statement.reduced]
        where = self.context.inside(index, [statement.extents[d] for d in statement.reduced])
        left, right = term.operands
        if where and not (self._zero_outside(left, where) and self._zero_outside(right, where)):
            zero = Const(0.0, term.dtype)
            left = Apply("where", (Inside(where), left, zero), term.dtype)
            right = Apply("where", (Inside(where), right, zero), term.dtype)
        return left, right

    # ---------------------------------------------------------------- bodies
    def _body(self, placed: Placed, statement: Statement, component: int) -> Expr:
        """The statement's term with reads replaced by the values that hold them, indices by places, in registers."""
        at = {f"%{d}": self._affine(p) for d, p in enumerate(placed.place)}

        def leaf(term: Ref | Const | Index | Inside) -> Expr:
            match term:
                case Ref(name, dtype) if name.startswith("r"):
                    read = statement.reads[int(name[1:])]
                    provider = self.by_name[placed.providers[int(name[1:])]]
                    held = self._held(provider, read.component)
                    return Ref(held, dtype.compute)
                case Ref(name, dtype):
                    given = Ref(name, self.scalars[name])
                    return given if given.dtype == dtype.compute else Apply("cast", (given,), dtype.compute)
                case Index(affine, dtype):
                    return Index(affine.substitute(at), dtype.compute)
                case Inside(where):
                    return Inside(tuple(w.substitute(at) for w in where))
                case Const(value, dtype):
                    return Const(value, dtype.compute)

        return in_registers(rewrite(statement.body[component], leaf))

    def _held(self, provider: Placed, component: int) -> str:
        whole = provider.role in ("compute", "total")
        return self._component(provider.name, component) if whole else provider.name

    def _component(self, name: str, component: int) -> str:
        """The register name of one component of a state; no statement has it."""
        if not component:
            return name
        found = f"{name}_{component}"
        while found in self.by_name:
            found += "_"
        return found

    def _affine(self, entry: PlaceEntry) -> Affine:
        assert isinstance(entry, Affine)
        return entry

    # ---------------------------------------------------------------- moves
    def _load(self, placed: Placed) -> list[ir.Op]:
        use = self.arrays[(placed.value, placed.component, True)]
        affine = [(e, n) for e, n in zip(placed.place, use.shape, strict=True) if isinstance(e, Affine)]
        where = self.context.inside([e for e, _ in affine], [n for _, n in affine])
        width, slot = self._vector(placed.place, use)
        if slot is not None:
            hoisted = hoist_from_vector(where, slot, self.context)
            width, where = (1, where) if hoisted is None else (width, hoisted)
        fill = Const(0, use.dtype.compute)
        if len(affine) == len(placed.place):
            return [ir.Load(placed.name, use.name, tuple(e for e, _ in affine), where, None, fill, width)]
        before, index, mask = self._gathered(placed, use.shape)
        return [*before, ir.Load(placed.name, use.name, index, where, mask, fill, width)]

    def _gathered(
        self, placed: Placed, shape: tuple[Affine, ...]
    ) -> tuple[list[ir.Op], tuple[Affine | Ref, ...], Expr | None]:
        """Data indices kept inside the array: clipped, or masked and (where `faults`) reported."""
        consumer, bounds = self._reader(placed)
        before: list[ir.Op] = []
        index: list[Affine | Ref] = []
        mask: Expr | None = None
        for k, (entry, extent) in enumerate(zip(placed.place, shape, strict=True)):
            if isinstance(entry, Affine):
                index.append(entry)
                continue
            at = Ref(entry, self.scop.statements[self.by_name[entry].value].dtypes[0])
            low, high = Const(0, at.dtype), Index(extent - 1, at.dtype)
            if bounds == "clip":
                clipped = Ref(f"{placed.name}_at{k}", at.dtype)
                inside = Apply("minimum", (Apply("maximum", (at, low), at.dtype), high), at.dtype)
                before.append(ir.Let(clipped.name, inside))
                at = clipped
            elif bounds != "assume":
                above = Apply("greater_equal", (at, low), bool_)
                test = Apply("bitwise_and", (above, Apply("less_equal", (at, high), bool_)), bool_)
                mask = test if mask is None else Apply("bitwise_and", (mask, test), bool_)
            index.append(at)
        if mask is not None:
            before.append(ir.Let(f"{placed.name}_inside", mask))
            mask = Ref(f"{placed.name}_inside", bool_)
            if self.faults:
                before.append(self._report(consumer, mask))
        return before, tuple(index), mask

    def _reader(self, placed: Placed) -> tuple[Placed, str]:
        """The statement that reads a gathered value, and how it treats indices out of bounds."""
        for consumer in self.schedule.placed:
            statement = self.scop.statements[consumer.value]
            if consumer.role == "compute" and isinstance(statement, Statement) and placed.name in consumer.providers:
                return consumer, statement.reads[consumer.providers.index(placed.name)].bounds
        raise AssertionError(f"nothing reads {placed.name}")

    def _report(self, consumer: Placed, inside: Expr) -> ir.Op:
        """Raise the fault flag for instances that exist; padded ones may hold any index."""
        statement = self.scop.statements[consumer.value]
        assert isinstance(statement, Statement)
        exists = self.context.inside([self._affine(e) for e in consumer.place], statement.extents)
        outside = Apply("invert", (inside,), bool_)
        return ir.AtomicUpdate(FAULT, (Affine.of(0),), "max", Const(1, i32), exists, outside)

    def _vector(self, place: tuple[PlaceEntry, ...], use: ArrayUse) -> tuple[int, Digit | None]:
        layout = use.layout
        if layout.strides is not None:
            if not layout.strides or layout.strides[-1] != 1:
                return 1, None
            return 1, None
        width, slot = vector_width(place, self.slots, use.shape, self.context)
        if layout.alignment < min(16, width * use.dtype.itemsize):
            return 1, None
        return width, slot

    def _store(self, placed: Placed) -> ir.Op:
        use = self.arrays[(placed.value, placed.component, False)]
        place = [self._affine(e) for e in placed.place]
        where = list(self.context.inside(place, use.shape))
        where += self._once(placed)
        width, slot = self._vector(placed.place, use)
        if slot is not None:
            hoisted = hoist_from_vector(where, slot, self.context)
            width, where = (1, where) if hoisted is None else (width, list(hoisted))
        held = self._held(self.by_name[placed.providers[0]], placed.component)
        return ir.Store(use.name, tuple(place), Ref(held, use.dtype.compute), tuple(where), None, width)

    # ---------------------------------------------------------------- sums across blocks
    def _partial(self, placed: Placed) -> ir.Op:
        """The block's share, under the number of the block."""
        use = self.shares[placed.value, placed.component]
        place = (digit(self._along(placed)), *map(self._affine, placed.place))
        where = (*self.context.inside(place, use.shape), *self._once_threads(placed))
        width, slot = self._vector(place, use)
        if slot is not None:
            hoisted = hoist_from_vector(where, slot, self.context)
            width, where = (1, where) if hoisted is None else (width, hoisted)
        held = self._held(self.by_name[placed.providers[0]], placed.component)
        return ir.Store(use.name, place, Ref(held, use.dtype), where, None, width)

    def _total(self, placed: Placed) -> list[ir.Op]:
        """Shares, neutral where there is no such block, in registers; then as any reduction."""
        statement = self.scop.statements[placed.value]
        assert isinstance(statement, Statement) and statement.monoid is not None
        place = tuple(map(self._affine, placed.place))
        loads: list[ir.Op] = []
        fill = neutral(statement.monoid, statement.dtypes)
        for k, value in enumerate(self._masked(placed, statement)):
            assert isinstance(value, Ref)
            use = self.shares[placed.value, k]
            where = self.context.inside(place, use.shape)
            width, slot = self._vector(place, use)
            if slot is not None:
                hoisted = hoist_from_vector(where, slot, self.context)
                width, where = (1, where) if hoisted is None else (width, hoisted)
            loads.append(ir.Load(value.name, use.name, place, where, None, fill[k], width))
        if self._reduced_loops(placed):
            return [*loads, *self._accumulate(placed, statement)]
        names = self._result_names(placed)
        return [*loads, *self._reduce(placed, statement, names), *self._combine(placed)]

    def _once(self, placed: Placed) -> list[Affine]:
        """A replicated value is stored by the first thread (block) that holds it; what one elected block finishes, by
        that one."""
        used = placed.digits() | {self.schedule.finish_of(placed)}
        return [
            -digit(d.name)
            for d in self.schedule.digits
            if d.kind in ("thread", "block") and d.name not in used and d.extent != Affine.of(1)
        ]

    def _put(self, placed: Placed) -> ir.Op:
        box = self.boxes[placed.value]
        local = tuple(self._affine(e) - o for e, o in zip(placed.place, box.origin, strict=True))
        where = (*self.context.inside(local, [Affine.of(n) for n in box.extents]), *self._once_threads(placed))
        held = self._held(self.by_name[placed.providers[0]], 0)
        return ir.Store(f"{box.name}_tile", local, Ref(held, self.scop.dtype(placed.value).compute), where)

    def _once_threads(self, placed: Placed) -> tuple[Affine, ...]:
        used = placed.digits()
        return tuple(-digit(d.name) for d in self.schedule.of_kind("thread") if d.name not in used and d.count > 1)

    def _get(self, placed: Placed) -> ir.Op:
        box = self.boxes[placed.value]
        local = tuple(self._affine(e) - o for e, o in zip(placed.place, box.origin, strict=True))
        return ir.Load(placed.name, f"{box.name}_tile", local)


def _counter(along: str) -> str:
    return f"arrived_{along}"


def _grid(schedule: KernelSchedule) -> tuple[Affine, ...]:
    """Extents of the block digits ``b0, b1, ...``, 1 where one is missing."""
    extents = {int(d.name[1:]): d.extent for d in schedule.of_kind("block")}
    return tuple(extents.get(k, Affine.of(1)) for k in range(max(extents, default=0) + 1))


def in_registers(term: Expr) -> Expr:
    """16-bit floats widen: casts to them vanish and everything computes in float32, as exactly as 16 bits can show."""
    if not isinstance(term, Apply):
        return term
    operands = tuple(in_registers(o) for o in term.operands)
    inner = operands[0]
    if term.function == "cast" and not isinstance(inner, Inside) and inner.dtype == term.dtype.compute:
        return inner
    function = SHORT.get(term.dtype.name, {}).get(term.function, term.function)
    return replace(term, function=function, operands=operands, dtype=term.dtype.compute)


def _leaves(nest: LoopNest | Finish) -> list[str]:
    found: list[str] = []
    for item in nest.items:
        found += [item] if isinstance(item, str) else _leaves(item)
    return found
