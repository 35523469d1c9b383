"""The rules of kernel IR that can be decided without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn, assert_never

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.codegen.strides import element_strides
from polyfuse.dtypes import DType
from polyfuse.errors import KernelError
from polyfuse.kernel import (
    Apply,
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
    Index,
    Inside,
    Keep,
    Kept,
    Kernel,
    Leave,
    Let,
    Load,
    Neighbours,
    Op,
    Reduce,
    Ref,
    ScalarParameter,
    Scan,
    SharedBuffer,
    SizeParameter,
    Store,
    Take,
    WaitCopies,
)
from polyfuse.kernel_types import (
    Memory,
    Types,
    ValueType,
    access_axes,
    expression_type,
    memories,
    slot_axes,
    value_types,
)
from polyfuse.scalars import MONOIDS
from polyfuse.verify.intervals import Interval, at_least_zero, interval
from polyfuse.verify.kernel_accesses import AccessRules, Region
from polyfuse.verify.kernel_carries import check_carries
from polyfuse.verify.kernel_copies import check_copies, check_copy
from polyfuse.verify.kernel_members import verify_members
from polyfuse.verify.kernel_neighbours import check_neighbours
from polyfuse.verify.kernel_settled import check_settled
from polyfuse.verify.kernel_takes import check_take
from polyfuse.verify.kernel_terms import Scope

MAX_THREADS = 1024
MAX_CLUSTER = 16
MAX_SHARED_BYTES = 232_448
"""Shared memory of one block at most: 227 KB on compute capability 9.0 (CUDA C++ Programming Guide, table 21)."""

WARP = 32


def verify_kernel(kernel: Kernel) -> None:
    """Checks `kernel`; returns nothing.

    Raises:
        KernelError: names unbound or clashing, dtypes or arities that disagree, unknown digits, vectors that cannot be
            one access, barriers under divergent control, shared indices outside their box, too much shared memory,
            members that do not fit together.
    """
    if kernel.members:
        verify_members(kernel)
        for member in kernel.members:
            verify_kernel(member.kernel)
    _Verifier.of(kernel).run()


@dataclass(frozen=True, slots=True)
class _Verifier:
    kernel: Kernel
    types: Types
    memory: Mapping[str, Memory]
    sizes: frozenset[str]
    scalars: frozenset[str]
    per_thread: frozenset[str]
    """Digits that differ between the threads of a block, and slots."""

    @staticmethod
    def of(kernel: Kernel) -> _Verifier:
        sizes = frozenset(p.name for p in kernel.parameters if isinstance(p, SizeParameter))
        varying = {"$t"} | {f"${d.name}" for d in kernel.digits} | {f"${s.name}" for s in kernel.slots}
        scalars = frozenset(p.name for p in kernel.parameters if isinstance(p, ScalarParameter))
        return _Verifier(kernel, value_types(kernel), memories(kernel), sizes, scalars, frozenset(varying))

    def refuse(self, sentence: str, op: Op | None = None) -> NoReturn:
        where = f", {_described(op)}" if op is not None else ""
        raise KernelError(f"kernel {self.kernel.name}{where}: {sentence}")

    def run(self) -> None:
        kernel = self.kernel
        self._check_frame()
        self._check_memories()
        ranges = {"$t": Interval(0, kernel.threads - 1)}
        ranges |= {f"${d.name}": Interval(0, d.extent - 1) for d in kernel.digits}
        ranges |= {f"${s.name}": Interval(0, s.extent - 1) for s in kernel.slots}
        ranges |= {n: Interval(0, None) for n in self.sizes}
        for axis, blocks in enumerate(kernel.grid):
            ranges[f"$b{axis}"] = Interval(0, blocks.constant - 1 if blocks.is_constant else None)
        values = {p.name: p.dtype.compute for p in kernel.parameters if isinstance(p, ScalarParameter)}
        self._block(kernel.body, values, Region(ranges))
        check_settled(kernel, self.refuse)
        check_copies(kernel, self.refuse)
        check_carries(kernel, self.types, self.refuse)

    # ------------------------------------------------------------------------------------------ the frame
    def _check_frame(self) -> None:
        kernel = self.kernel
        named = [p.name for p in kernel.parameters] + [b.name for b in kernel.shared if not kernel.members]
        digits = [d.name for d in kernel.digits] + [s.name for s in kernel.slots]
        for names in (named, [*digits, "t", *(f"b{k}" for k in range(len(kernel.grid)))]):
            twice = {n for n in names if names.count(n) > 1}
            if twice:
                self.refuse(f"two things are named {sorted(twice)[0]}")
        if not kernel.grid:
            self.refuse("a grid needs an axis")
        self._check_cluster()
        if not 1 <= kernel.block_threads <= MAX_THREADS:
            self.refuse(f"a block has 1 to {MAX_THREADS} threads, not {kernel.block_threads}")
        if kernel.index_bits not in (32, 64):
            self.refuse(f"indices have 32 or 64 bits, not {kernel.index_bits}")
        for digit in kernel.digits:
            powers = all(n > 0 and n & (n - 1) == 0 for n in (digit.stride, digit.extent))
            if not powers and _combines(kernel.body):
                self.refuse(f"threads combine what they have by the bits of their numbers, which {digit.name} cuts")
            if min(digit.stride, digit.extent) < 1 or digit.stride * digit.extent > kernel.threads:
                self.refuse(f"the thread digit {digit.name} goes beyond the thread ids below {kernel.threads}")
        for slot in kernel.slots:
            if slot.extent < 1:
                self.refuse(f"the slot {slot.name} has extent {slot.extent}")

    def _check_cluster(self) -> None:
        """Blocks of a cluster share its threads evenly and have neither memory nor barriers in common."""
        kernel = self.kernel
        if kernel.cluster == 1:
            return
        powers = all(n > 0 and n & (n - 1) == 0 for n in (kernel.threads, kernel.cluster))
        if not powers or not WARP * kernel.cluster <= kernel.threads:
            self.refuse(f"a cluster of {kernel.cluster} blocks does not share {kernel.threads} threads in whole warps")
        if kernel.cluster > MAX_CLUSTER:
            self.refuse(f"a cluster has {MAX_CLUSTER} blocks at most, not {kernel.cluster}")
        if kernel.shared:
            self.refuse(f"{kernel.shared[0].name} is shared by a block, of which the cluster has {kernel.cluster}")

    def _check_memories(self) -> None:
        scope = Scope({}, self.sizes, self.refuse)
        for extent in self.kernel.grid[:-1]:  # several axes launch as one, which the kernel takes apart
            scope.affine(extent)
        for p in self.kernel.parameters:
            if not isinstance(p, ArrayParameter):
                continue
            if p.strides is not None:
                if len(p.strides) != len(p.shape):
                    self.refuse(f"{p.name} has {len(p.shape)} dimensions and {len(p.strides)} strides")
                missing = [s for s in p.strides if isinstance(s, str) and s not in self.sizes]
                if missing:
                    self.refuse(f"the stride {missing[0]} of {p.name} is no size parameter")
        for buffer in self.kernel.shared:
            if len(buffer.pitch) != len(buffer.shape):
                self.refuse(f"{buffer.name} has {len(buffer.shape)} dimensions and {len(buffer.pitch)} pitches")
        used = sum(b.elements * b.dtype.itemsize for b in self.kernel.shared)
        used += sum(self.kernel.cell_bytes(c) for c in self.kernel.cells)
        if used > MAX_SHARED_BYTES and self.kernel.threads > 1:
            self.refuse(f"{used} bytes of shared memory; a block has {MAX_SHARED_BYTES} at most")

    # ------------------------------------------------------------------------------------------ operations
    def _block(self, body: Sequence[Op], values: dict[str, DType], region: Region) -> None:
        for op in body:
            scope = Scope(values, frozenset(region.ranges), partial(self.refuse, op=op))
            self._operation(op, scope, values, region)

    def _operation(self, op: Op, scope: Scope, values: dict[str, DType], region: Region) -> None:
        match op:
            case Let(name, value):
                self._bind(op, values, (name,), (scope.dtype(value),))
            case Load():
                self._access(op, scope, region)
                self._passed_by(op, scope, region)
                dtype = self.memory[op.array].dtype.compute
                if op.other is not None and scope.dtype(op.other) != dtype:
                    self.refuse(f"masked slots get {op.other.dtype} where {op.array} is {dtype}", op)
                self._bind(op, values, (op.name,), (dtype,))
            case Neighbours(loads):
                self._block(loads, values, region)
                check_neighbours(op, self.memory, self.kernel, partial(self.refuse, op=op))
            case Take(name, value):
                check_take(self.kernel, self.types, op, partial(self.refuse, op=op))
                self._bind(op, values, (name,), (scope.dtype(value),))
            case Store() | AtomicUpdate():
                self._access(op, scope, region)
                self._stored(op, scope)
            case Keep(cells, value):
                self._keep(op, scope.dtype(value))
                values[cells_name(cells)] = scope.dtype(value)
            case Kept(name, cells):
                if cells_name(cells) not in values:
                    self.refuse(f"{cells} are read where nothing may have been kept in them", op)
                self._bind(op, values, (name,), (values[cells_name(cells)],))
            case Reduce(names, monoid, operands, slots):
                self._slots(op, slots)
                self._bind(op, values, names, self._state(op, scope, monoid, operands))
            case Contract():
                self._contract(op, scope)
            case Combine(names, monoid, operands, bits):
                self._bits(op, bits, region)
                self._bind(op, values, names, self._state(op, scope, monoid, operands))
            case Exchange(names, operands):
                self._exchange(op, region)
                self._bind(op, values, names, [scope.dtype(v) for v in operands])
            case Scan():
                self._scan(op, scope, values, region)
            case Leave() | Carry():
                self._carry(op, scope, values, region)
            case For():
                self._loop(op, scope, dict(values), region)
            case If():
                self._branch(op, scope, values, region)
            case Barrier(block):
                if block not in ("block", "warp"):
                    self.refuse(f"a barrier's scope is block or warp, not {block}", op)
                if self.kernel.cluster > 1:
                    self.refuse("a barrier does not reach across the blocks of a cluster", op)
                if block == "block" and not region.uniform:
                    self.refuse("a barrier stands where some threads of the block may not come", op)
            case Elect(name):
                self._elect(op, scope, region)
                self._bind(op, values, (name,), (dtypes.bool_,))
            case AsyncCopy():
                self._copy(op, scope, region)
            case CommitCopies() | WaitCopies():
                if not region.uniform:
                    self.refuse("groups of copies are counted where some threads of the block may not come", op)
            case _:
                assert_never(op)

    def _bind(self, op: Op, values: dict[str, DType], names: Sequence[str], kinds: Sequence[DType]) -> None:
        if len(names) != len(kinds):
            self.refuse(f"{len(names)} names for {len(kinds)} values", op)
        for name, dtype in zip(names, kinds, strict=True):
            if name in self.scalars:
                self.refuse(f"{name} is a parameter and is bound anew", op)
            if self.types[name].dtype != dtype:
                self.refuse(f"{name} is bound as {self.types[name].dtype} and as {dtype}", op)
            values[name] = dtype

    def _loop(self, op: For, scope: Scope, values: dict[str, DType], region: Region) -> None:
        name = f"${op.digit}"
        if name in region.ranges:
            self.refuse(f"the loop digit {op.digit} hides another digit", op)
        highs = []
        for end in (op.extent, *([] if op.until is None else [op.until])):
            scope.affine(end, frozenset(region.ranges) - self.per_thread)
            highs.append(interval(end, region.ranges).high)
        high = min((h for h in highs if h is not None), default=None)
        inner = {**region.ranges, name: Interval(0, None if high is None else high - 1)}
        self._block(op.body, values, replace(region, ranges=inner))

    def _branch(self, op: If, scope: Scope, values: dict[str, DType], region: Region) -> None:
        if scope.dtype(op.condition) != dtypes.bool_:
            self.refuse("the condition is no bool", op)
        if self._type(op.condition).axes:
            self.refuse("the condition varies over slots: use a mask", op)
        if op.uniform and _affine_names(op.condition) & self.per_thread:
            self.refuse("the condition is declared uniform and reads thread digits", op)
        given = region.given + (op.condition.where if isinstance(op.condition, Inside) else ())
        uniform = region.uniform and op.uniform
        taken, other = dict(values), dict(values)
        self._block(op.body, taken, replace(region, given=given, uniform=uniform))
        self._block(op.orelse, other, replace(region, uniform=uniform))
        values.update({n: t for n, t in taken.items() if n in other})

    def _contract(self, op: Contract, scope: Scope) -> None:
        self._slots(op, op.slots)
        kinds = {scope.dtype(op.left), scope.dtype(op.right), scope.dtype(Ref(op.name, self.types[op.name].dtype))}
        if len(kinds) > 1 or next(iter(kinds)).kind == "b":
            self.refuse(f"the accumulator and both factors need one number type, not {sorted(map(str, kinds))}", op)
        if self.types[op.name].axes & set(op.slots):
            self.refuse("the accumulator varies over a slot that is summed", op)

    def _scan(self, op: Scan, scope: Scope, values: dict[str, DType], region: Region) -> None:
        if self.kernel.cluster > 1:
            self.refuse("a scan does not reach across the blocks of a cluster", op)
        if op.slot is not None:
            self._slots(op, (op.slot,))
        self._bits(op, op.bits, region)
        low = op.bits & -op.bits if op.bits else 1
        if (op.bits // low) & (op.bits // low + 1):
            self.refuse(f"the thread bits {op.bits:#x} of a scan are not contiguous", op)
        kinds = self._state(op, scope, op.monoid, (op.value,))
        self._bind(op, values, (op.name, op.total), (kinds[0], kinds[0]))

    def _carry(self, op: Leave | Carry, scope: Scope, values: dict[str, DType], region: Region) -> None:
        self._bits(op, op.bits, region)
        for affine in (*op.line, op.number, op.count):
            scope.affine(affine, frozenset(region.ranges) - self.per_thread)
        if not region.uniform:
            self.refuse("blocks wait where some threads of the block may not come", op)
        if isinstance(op, Carry):
            self._bind(op, values, (op.name,), self._state(op, scope, op.monoid, (op.value,)))
        else:
            scope.dtype(op.value)

    def _keep(self, op: Keep, dtype: DType) -> None:
        found = next((c for c in self.kernel.cells if c.name == op.cells), None)
        if found is None:
            self.refuse(f"there are no cells {op.cells}", op)
        held = self._type(op.value).axes
        if dtype != found.dtype.compute or held != frozenset(found.slots):
            where = ", ".join(sorted(held)) or "none"
            self.refuse(f"{dtype} along {where} is kept in cells of {found.dtype} along {', '.join(found.slots)}", op)

    def _exchange(self, op: Exchange, region: Region) -> None:
        self._bits(op, op.bits, region)
        threads = self.kernel.block_threads
        peers = 1 << (op.bits // threads).bit_count()
        if op.slot is None:
            if not 1 < peers <= threads or op.bits % threads != threads - 1:
                self.refuse(f"{threads} threads of one value each are dealt those of {peers} blocks", op)
            return
        self._slots(op, (op.slot,))
        extent = next(s.extent for s in self.kernel.slots if s.name == op.slot)
        if self.kernel.cluster == 1 or extent != peers:
            self.refuse(f"the slot {op.slot} has {extent} places for the values of {peers} blocks of a cluster", op)
        if any(op.slot in self._type(value).axes for value in op.values):
            self.refuse(f"a value varies over the slot {op.slot} already", op)

    def _elect(self, op: Elect, scope: Scope, region: Region) -> None:
        counter = self.memory.get(op.counter)
        if not isinstance(counter, ArrayParameter) or counter.dtype != dtypes.i32 or counter.readonly:
            self.refuse(f"the counter {op.counter} is no writable array of i32", op)
        if len(op.group) != len(counter.shape):
            self.refuse(f"{op.counter} has {len(counter.shape)} dimensions, not {len(op.group)}", op)
        for affine in (*op.group, op.count):
            scope.affine(affine, frozenset(region.ranges) - self.per_thread)
        if not region.uniform:
            self.refuse("an election stands where some threads of the block may not come", op)

    # ------------------------------------------------------------------------------------------ collectives
    def _slots(self, op: Op, slots: Sequence[str]) -> None:
        known = [s.name for s in self.kernel.slots]
        for slot in slots:
            if slot not in known:
                self.refuse(f"there is no slot {slot}; the kernel has {known}", op)

    def _state(self, op: Op, scope: Scope, monoid: str, values: Sequence[Expr]) -> list[DType]:
        """The dtypes of a monoid's state."""
        found = MONOIDS.get(monoid)
        if found is None:
            self.refuse(f"there is no monoid {monoid}", op)
        if len(values) != found.state:
            self.refuse(f"{monoid} has a state of {found.state} values, not {len(values)}", op)
        kinds = [scope.dtype(v) for v in values]
        if kinds[0].kind not in found.kinds:
            self.refuse(f"{monoid} does not take {kinds[0]}", op)
        if len(kinds) > 1 and kinds[1].kind not in "iu":
            self.refuse(f"the index of {monoid} is {kinds[1]}, not an integer", op)
        return kinds

    def _bits(self, op: Op, bits: int, region: Region) -> None:
        remaining = bits
        while remaining:
            bit = remaining & -remaining
            remaining -= bit
            if self.kernel.threads % (2 * bit):
                self.refuse(f"{self.kernel.threads} threads are no whole groups over the thread-id bit {bit}", op)
        if bits >= WARP and not region.uniform:
            self.refuse("threads of several warps combine where some may not come", op)

    # ------------------------------------------------------------------------------------------ accesses
    def _access(
        self, op: Load | Store | AtomicUpdate, scope: Scope, region: Region, named: Op | None = None
    ) -> None:
        """`named`: the operation that errors speak of, where the access is a part of it."""
        whole = named or op
        memory = self.memory.get(op.array)
        if memory is None:
            self.refuse(f"there is no array or buffer {op.array}", whole)
        if len(op.index) != len(memory.shape):
            self.refuse(f"{op.array} has {len(memory.shape)} dimensions, the index {len(op.index)}", whole)
        for entry, stride in zip(op.index, element_strides(memory), strict=True):
            if entry != Affine.of(0):
                scope.affine(stride.atoms(), self.sizes)  # a product of sizes that the kernel computes
            if isinstance(entry, Affine):
                scope.affine(entry)
            elif scope.dtype(entry).kind not in "iu":
                self.refuse(f"the index {entry.name} is {entry.dtype}, not an integer", whole)
        for condition in op.where:
            scope.affine(condition)
        if op.mask is not None and scope.dtype(op.mask) != dtypes.bool_:
            self.refuse("the mask is no bool", whole)
        checks = AccessRules(self.kernel, self.types, self.sizes, partial(self.refuse, op=whole))
        if isinstance(memory, SharedBuffer):
            checks.stays_inside(op, memory, region)
        is_empty = any(extent == Affine.of(0) for extent in memory.shape)  # strides that are 0 say nothing of accesses
        if isinstance(op, (Load, Store)) and op.span != 1 and not is_empty:
            checks.span(op, memory, region)
        if op.vector != 1 and not is_empty:
            checks.vector(op, memory, region)

    def _passed_by(self, op: Load, scope: Scope, region: Region) -> None:
        """A block passes by only what its conditions leave nothing of, and what it gets instead is alike."""
        if op.instead is not None:
            wanted = ValueType(self.memory[op.array].dtype.compute, self.types[op.name].axes)
            given = self._type(op.instead)
            if given.dtype != wanted.dtype or not given.axes <= access_axes(
                op.index, op.where, op.mask, self.types, self.kernel
            ):
                self.refuse(f"slots that are not read get {op.instead.name}, which is another type", op)
        for condition in op.some:
            scope.affine(condition)
            if slot_axes((condition,), self.kernel) or not at_least_zero(
                condition, region.ranges, (*region.given, *op.where)
            ):
                self.refuse(f"a block where {condition} < 0 passes {op.array} by, of which it may need something", op)

    def _copy(self, op: AsyncCopy, scope: Scope, region: Region) -> None:
        """Both ends are accesses under the same conditions."""
        check_copy(op, self.memory, partial(self.refuse, op=op))
        self._access(Load("", op.array, op.index, op.where, vector=op.vector), scope, region, op)
        self._access(Load("", op.buffer, op.into, vector=op.vector), scope, region, op)  # elsewhere cells get zeros
        ends = [access_axes(index, op.where, None, self.types, self.kernel) for index in (op.index, op.into)]
        if ends[0] != ends[1]:
            self.refuse(f"the cells vary over the slots {sorted(ends[1])}, what is copied over {sorted(ends[0])}", op)

    def _stored(self, op: Store | AtomicUpdate, scope: Scope) -> None:
        memory = self.memory[op.array]
        dtype = scope.dtype(op.value)
        if dtype != memory.dtype.compute:
            self.refuse(f"a {dtype} is stored to {op.array} of {memory.dtype}", op)
        if isinstance(memory, ArrayParameter) and memory.readonly:
            self.refuse(f"{op.array} is read-only", op)
        if isinstance(op, AtomicUpdate):
            self._state(op, scope, op.monoid, (op.value,))
            return
        spread = self._type(op.value).axes - access_axes(op.index, (), None, self.types, self.kernel)
        if spread:
            sentence = f"the value varies over slot {sorted(spread)[0]} and the index does not: it is stored twice"
            self.refuse(sentence, op)

    def _type(self, expr: Expr) -> ValueType:
        return expression_type(expr, self.types, self.kernel)


def _affine_names(expr: Expr) -> frozenset[str]:
    """Names of the affine expressions inside `expr`."""
    match expr:
        case Index(affine):
            return affine.names()
        case Inside(where):
            return frozenset().union(*(a.names() for a in where))
        case Apply(_, operands):
            return frozenset().union(*(_affine_names(o) for o in operands))
        case _:
            return frozenset()


def _described(op: Op) -> str:
    """``Load xv from x`` and the like."""
    kind = type(op).__name__
    match op:
        case Let(name) | Take(name) | Kept(name) | Contract(name) | Elect(name) | Scan(name) | Carry(name):
            return f"{kind} {name}"
        case Load(name, array):
            return f"{kind} {name} from {array}"
        case Neighbours(loads):
            return f"{kind} {', '.join([load.name for load in loads])}"
        case Store(array) | AtomicUpdate(array):
            return f"{kind} to {array}"
        case Reduce(names) | Combine(names) | Exchange(names):
            return f"{kind} {', '.join(names)}"
        case Keep(cells):
            return f"{kind} in {cells}"
        case For(digit):
            return f"{kind} {digit}"
        case AsyncCopy(buffer, _, array):
            return f"{kind} from {array} to {buffer}"
        case Leave(words=words):
            return f"{kind} in {words}"
        case If() | Barrier() | CommitCopies() | WaitCopies():
            return kind
        case _:
            assert_never(op)


def cells_name(cells: str) -> str:
    """Under which what cells hold is known among the values: no value is called so."""
    return f"{cells}[]"


def _combines(body: Sequence[Op]) -> bool:
    """Whether threads combine what they have."""
    inside = [part for op in body for part in _parts(op)]
    crossing = [op for op in body if isinstance(op, (Combine, Exchange, Scan, Carry)) and op.bits]
    return bool(crossing) or any(map(_combines, inside))


def _parts(op: Op) -> tuple[tuple[Op, ...], ...]:
    match op:
        case For():
            return (op.body,)
        case If():
            return op.body, op.orelse
        case _:
            return ()
