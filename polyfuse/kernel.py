"""Kernel IR: what a schedule lowers to and what backends print, run and check.

The IR stands at the level of *fragments*: the registers that one thread holds of a value.  Every value of a kernel
has one axis per slot of the kernel, in the order of `Kernel.slots`; an axis on which it does not depend has extent 1.
Values therefore meet by slot name, as NumPy arrays of equal rank broadcast.

Grammar (``?`` optional, ``*`` many)::

    Kernel  = name, parameters*, grid*, threads, slots*, shared*, (body: Op* | Member*)
    Member  = Kernel in a range of blocks of the whole
    Op      = Let | Load | Neighbours | Take | Store | Keep | Kept | Reduce | Contract | Combine | Exchange | Scan
            | Leave | Carry | For | If | Barrier | Elect | AtomicUpdate | AsyncCopy | CommitCopies | WaitCopies
    Expr    = Ref | Const | Index | Inside | Apply
    where   = Affine*   a conjunction, each >= 0, over digits and sizes

Digits in `Affine` expressions: ``$b0 $b1 $b2`` are block indices, ``$t`` the thread index, other digits are named by
`Kernel.digits` (a part of the thread index), by an enclosing `For`, or by `Kernel.slots`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Union

from polyfuse.affine import Affine
from polyfuse.dtypes import DType
from polyfuse.schedule import nests as nests
from polyfuse.schedule import stretch
from polyfuse.terms import Apply as Apply
from polyfuse.terms import Const as Const
from polyfuse.terms import Expr as Expr
from polyfuse.terms import Index as Index
from polyfuse.terms import Inside as Inside
from polyfuse.terms import Ref as Ref

# ---------------------------------------------------------------------------------------------- parameters


@dataclass(frozen=True, slots=True)
class ArrayParameter:
    """A global array.  `shape` in sizes.  `strides`: None for C order, else names of the size parameters (in elements)
    that hold each stride, or an int for a stride known at compile time.  `alignment` in bytes of the base address.
    `overwritten`: the kernel stores a result over it, so that no load may move behind a store.  `evicted_last`: what is
    loaded of it stays in the last-level cache of a GPU longer than what the kernel stores."""

    name: str
    dtype: DType
    shape: tuple[Affine, ...]
    strides: tuple[Union[str, int], ...] | None = None
    readonly: bool = True
    alignment: int = 16
    overwritten: bool = False
    evicted_last: bool = False


@dataclass(frozen=True, slots=True)
class SizeParameter:
    """An integer known at launch: a size symbol, a stride or a derived count.  It has the kernel's index type."""

    name: str


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    """A Python scalar argument, passed by value in `dtype`."""

    name: str
    dtype: DType


Parameter = Union[ArrayParameter, SizeParameter, ScalarParameter]


@dataclass(frozen=True, slots=True)
class ThreadDigit:
    """``$name = (thread // stride) % extent``; stride and extent are powers of two where threads combine anything."""

    name: str
    stride: int
    extent: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A register axis: ``$name`` ranges over ``0 .. extent-1``, unrolled."""

    name: str
    extent: int


@dataclass(frozen=True, slots=True)
class Settled:
    """``condition >= 0`` holds at the places from `first` to before `stop` of a slot in every thread of every block, as
    was proved for the sizes that the kernel runs for: nothing asks for it there."""

    condition: Affine
    slot: str
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """Block-shared memory (on a CPU core: scratch).  `pitch[d]`: elements between neighbours along dimension d."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    pitch: tuple[int, ...]

    @property
    def elements(self) -> int:
        return 1 + sum((n - 1) * p for n, p in zip(self.shape, self.pitch, strict=True))


@dataclass(frozen=True, slots=True)
class ThreadCells:
    """Shared memory in which every thread has a cell of its own per place of the slots `slots`.  Registers hold what is
    kept there in the dtype that `dtype` computes in."""

    name: str
    dtype: DType
    slots: tuple[str, ...]


# ---------------------------------------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Let:
    """``name = value``; assigning a name again inside a loop updates it (accumulators)."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Load:
    """``name = array[index]`` for every slot on which `index` depends.

    `index` has one entry per array dimension: affine in digits and sizes, or a `Ref` to an integer value (a gather).
    Where `where` does not hold nothing is read and the slot gets `other`.  `vector` > 1: that many consecutive slots of
    the last axis on which the index depends are one access (unit stride, aligned, `where` and refs independent of it).
    `cut`: `where` depends on that axis: of a vector that it cuts elements beside are read too, inside of the array, and
    may be anything where `other` is None.
    `across`: vectors begin anywhere, and are made of the two aligned ones that they lie in.
    `span` > 1: aligned spans of that many elements of memory are one access, from which the slots that lie in it take
    theirs; what lies between them is read as well.
    `some`: conditions of the block, which follow from `where`: a block for which one fails passes the access by.
    `instead`: what slots get that are not read, in place of `other`; of the same type.
    """

    name: str
    array: str
    index: tuple[Affine | Ref, ...]
    where: tuple[Affine, ...] = ()
    mask: Expr | None = None  # a data-dependent condition, conjoined with `where`
    other: Const | None = None
    vector: int = 1
    span: int = 1
    cut: bool = False
    across: bool = False
    some: tuple[Affine, ...] = ()
    instead: Ref | None = None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """`loads` of vectors of one array that begin anywhere, those of each a constant number of elements behind those of
    the first: the aligned vectors that they lie in are read once for all of them."""

    loads: tuple[Load, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements from the first load to each."""
        first = self.loads[0].index[-1]
        lasts = [load.index[-1] for load in self.loads]
        return tuple([(e - first).constant for e in lasts if isinstance(e, Affine) and isinstance(first, Affine)])


def cuts_at_one_place(condition: Affine, slot: str) -> bool:
    """Whether ``condition >= 0`` holds of the first places of a slot or of the last ones: it steps by one, and no
    division takes the slot."""
    factor = condition.coefficient(slot)
    return abs(factor) == 1 and slot not in (condition - Affine.symbol(slot) * factor).names()


@dataclass(frozen=True, slots=True)
class Take:
    """``name = value[index]``: the same thread's registers of `value`, at other slots.

    `index`: for slots of `value` that count one number (outermost first, C order) the number wanted, affine in slots.
    Every other slot of `value` keeps its place.  The numbers are register numbers: they stay within the slots' extents.
    """

    name: str
    value: Ref
    index: tuple[tuple[tuple[str, ...], Affine], ...]


@dataclass(frozen=True, slots=True)
class Store:
    """``array[index] = value`` where the condition holds; as `Load`.  The value broadcasts over slots of the index.
    Each element of a span belongs to one slot; of a vector that is cut no others are written."""

    array: str
    index: tuple[Affine | Ref, ...]
    value: Expr
    where: tuple[Affine, ...] = ()
    mask: Expr | None = None
    vector: int = 1
    span: int = 1
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """``cells = value``: into the thread's own cells, all of them."""

    cells: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Kept:
    """``name = cells``: what the thread kept last."""

    name: str
    cells: str


@dataclass(frozen=True, slots=True)
class Reduce:
    """Thread-local reduction of `values` (the monoid's state) over slot axes as a balanced tree; axes keep extent 1."""

    names: tuple[str, ...]
    monoid: str
    values: tuple[Expr, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """``name += sum over slots of left * right`` as a chain of fused multiply-adds; `name` is the accumulator."""

    name: str
    left: Expr
    right: Expr
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Combine:
    """Combine `values` across the threads whose ids differ only in `bits` (a mask of thread-id bits); every thread
    of such a set receives the result.  Owns its shared buffer; contains its own barriers where `bits` >= 32."""

    names: tuple[str, ...]
    monoid: str
    values: tuple[Expr, ...]
    bits: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the blocks of a cluster hold, side by side: along the slot axis `slot`, slot k of `names` is the value of
    the k-th of the threads that differ only in those of the thread-id `bits` that number blocks.  Threads that differ
    in the other ones hold the same value.  Without `slot` all threads of a block do, and thread k of each so many has
    the k-th value."""

    names: tuple[str, ...]
    values: tuple[Expr, ...]
    bits: int
    slot: str | None


@dataclass(frozen=True, slots=True)
class Scan:
    """Inclusive (or exclusive) prefix over slot axis `slot` (innermost) and then over thread-id `bits`, which must be
    contiguous and are ordered as the thread id.  `name` holds the prefixes, `total` the sum of the whole extent."""

    name: str
    total: str
    monoid: str
    value: Expr
    slot: str | None
    bits: int
    exclusive: bool = False
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """`value`, for the blocks behind this one: in `words` as the `number`-th of `count` blocks of a line.

    Threads that differ in the thread-id `bits` alone hold the same value.  `line`: an index along the first dimensions
    of `words` (u64, zero between launches), which has per line `count` totals, then one for every `group` of them, then
    one for every `group` of those, if any (`nests`), each of as many words as `carry_words` says.
    """

    value: Expr
    bits: int
    words: str
    line: tuple[Affine, ...]
    number: Affine
    count: Affine
    group: int


@dataclass(frozen=True, slots=True)
class Carry:
    """``name`` = what the `number` first blocks of a line have left in `words` (`Leave`) of values like `value`, merged
    slot by slot; neutral where there is none.

    `arrived` (i32, zero between launches) has `carry_counters` per line, of who has read all that it needs; who reads
    last leaves zeros.
    Only in kernels whose blocks begin in order (`Kernel.turns`): a block waits for what earlier ones leave.
    """

    name: str
    monoid: str
    value: Expr
    bits: int
    words: str
    arrived: str
    line: tuple[Affine, ...]
    number: Affine
    count: Affine
    group: int


def carry_rows(count: Affine, group: int, slots: int) -> Affine:
    """Totals of a line of `count` blocks: of each, of groups of them, and of groups of groups if any."""
    rows = count + count.ceildiv(group)
    return rows + count.ceildiv(group * group) if nests(group, slots) else rows


def carry_counters(count: Affine, group: int, slots: int) -> Affine:
    """Counters of a line of `count` blocks, of who has read what it needs; where groups nest, for each stretch, and of
    which two stretches have, and of how many the totals are cleared."""
    return 2 * count.ceildiv(stretch(group)) + 1 if nests(group, slots) else Affine.of(1)


def carry_words(threads: int, bits: int, slots: int, dtype: DType) -> int:
    """Words of what a block leaves: one of 64 bits, half of which says that it is there, for every 32 bits of each
    value of each thread among those that hold the same."""
    return (threads >> bits.bit_count()) * slots * max(1, dtype.compute.itemsize // 4)


@dataclass(frozen=True, slots=True)
class For:
    """``for $digit in range(min(extent, until))``; both are affine in sizes and enclosing digits and equal in all
    threads.  `until`: None where the extent alone counts."""

    digit: str
    extent: Affine
    body: tuple[Op, ...]
    until: Affine | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Ops under a condition.  `uniform`: equal in all threads of the block (barriers are then allowed inside)."""

    condition: Expr
    body: tuple[Op, ...]
    orelse: tuple[Op, ...] = ()
    uniform: bool = True


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block (or of each warp) meet; shared-memory accesses before are visible after."""

    scope: str = "block"  # or "warp"


@dataclass(frozen=True, slots=True)
class Elect:
    """``name`` (bool, uniform in the block) is true in exactly one block per value of `group`: the one that arrives
    last of `count` blocks.  Global stores of all of them are visible to it afterwards.  The counter resets itself."""

    name: str
    counter: str  # an ArrayParameter of i32, zero between launches
    group: tuple[Affine, ...]  # index of the counter used by this block
    count: Affine


@dataclass(frozen=True, slots=True)
class AtomicUpdate:
    """``array[index] = monoid(array[index], value)`` atomically, each element for itself, where the condition holds.
    `vector`: as of a `Store`; one instruction where the device has it for several elements."""

    array: str
    index: tuple[Affine | Ref, ...]
    monoid: str
    value: Expr
    where: tuple[Affine, ...] = ()
    mask: Expr | None = None
    vector: int = 1


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """``buffer[into] = array[index]`` for every slot on which `index` depends, while the thread goes on.

    `buffer` is shared and has the dtype of the global `array`: bytes are copied, and a `Load` of the cells converts.
    Where `where` does not hold nothing is read and the cells get zeros.  `vector` elements are one copy, of 4, 8 or 16
    bytes.  The cells are whole for the thread that copied behind a `WaitCopies`, for others behind a barrier after it.
    `cut`: vectors may begin before a row and end behind it: all elements are copied that the array has, and cells of
    those past its end get zeros.
    """

    buffer: str
    into: tuple[Affine, ...]
    array: str
    index: tuple[Affine, ...]
    where: tuple[Affine, ...] = ()
    vector: int = 1
    cut: bool = False


@dataclass(frozen=True, slots=True)
class CommitCopies:
    """The copies that each thread has begun since its last commit are its next group, which may be empty."""


@dataclass(frozen=True, slots=True)
class WaitCopies:
    """Each thread waits until only the last `pending` of its groups may still be on their way."""

    pending: int


Op = Union[
    Let,
    Load,
    Neighbours,
    Take,
    Store,
    Keep,
    Kept,
    Reduce,
    Contract,
    Combine,
    Exchange,
    Scan,
    Leave,
    Carry,
    For,
    If,
    Barrier,
    Elect,
    AtomicUpdate,
    AsyncCopy,
    CommitCopies,
    WaitCopies,
]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch.

    `grid`: blocks along each axis, affine in sizes.  Several axes launch as one axis of their product, axis 0 fastest,
    because hardware limits all axes but the first to 65,535 blocks.  `threads` per block (1 on a CPU).  `cluster`: that
    many blocks of the device make up one block of this kernel: they run together and share the threads evenly, in their
    order; then there is no shared memory but cells, no barrier and no scan, only `Combine`, `Exchange` and `Elect`.
    `index_bits`: 32 when every offset was proved to fit.  `header`: lines of the comment that opens the printed kernel.
    `turns`: a counter (i32, zero between launches) from which blocks take their index as they begin, so that the n-th
    of them is block n; empty where no block depends on others.  `notes`: comments by value name.  `members`: kernels
    side by side in one launch; then there is no body, no digit and no slot, and `shared` holds the buffers of all
    members in order.  `settled`: what conditions of the body need not ask.  `one_division`: tells the indices of a
    block, by a product where others divide again.
    """

    name: str
    parameters: tuple[Parameter, ...]
    grid: tuple[Affine, ...]
    threads: int
    digits: tuple[ThreadDigit, ...]
    slots: tuple[Slot, ...]
    shared: tuple[SharedBuffer, ...]
    body: tuple[Op, ...]
    index_bits: int = 32
    minimum_blocks: int = 1
    cluster: int = 1
    header: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = field(default=())
    members: tuple[Member, ...] = ()
    cells: tuple[ThreadCells, ...] = ()
    turns: str = ""
    settled: tuple[Settled, ...] = ()
    one_division: bool = False

    @property
    def block_threads(self) -> int:
        """Threads of one block of the device."""
        return self.threads // self.cluster

    def cell_bytes(self, cells: ThreadCells) -> int:
        """Shared memory that cells take of a block of the device."""
        per_thread = prod(s.extent for s in self.slots if s.name in cells.slots)
        return per_thread * cells.dtype.itemsize * self.block_threads


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel that runs in a range of blocks of a larger one: from block `first`, a number or a size parameter of the
    whole, to where the next member begins.  Its own block indices count from there, over its own grid.

    `arguments`: per parameter of `kernel`, which of the whole's parameters it is.
    """

    kernel: Kernel
    arguments: tuple[int, ...]
    first: Affine


def meets(one: Combine, other: Combine) -> bool:
    """Whether the threads of both are the same, of several warps, and so is what is done: one call combines them."""
    single = len(one.names) == len(other.names) == 1
    return single and one.monoid == other.monoid and one.bits == other.bits >= 32


def combines_once(kernel: Kernel) -> bool:
    """Whether threads of several warps combine values, each time after all that they load: no loop overlaps the two."""
    loops = any(isinstance(op, For) for op in kernel.body)
    return not loops and any(isinstance(op, Combine) and op.bits >= 32 for op in kernel.body)
