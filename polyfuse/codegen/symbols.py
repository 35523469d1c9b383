"""How the names of affine expressions print in one kernel: sizes, blocks, loops, threads, slots, and named bases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from polyfuse.affine import Affine
from polyfuse.codegen.indices import INTEGER, SCALAR, SLOTTED, Indices, Symbol
from polyfuse.codegen.names import Namer
from polyfuse.codegen.strides import element_strides
from polyfuse.codegen.tree import Binary, Call, Hoist, Items, Literal, Name, Node
from polyfuse.kernel import (
    ArrayParameter,
    AsyncCopy,
    AtomicUpdate,
    For,
    If,
    Kernel,
    Load,
    Neighbours,
    Op,
    SizeParameter,
    Store,
    ThreadDigit,
)
from polyfuse.kernel_types import Memory

BASE_NAMES: dict[int, tuple[str, ...]] = {1: ("at",), 2: ("row", "col"), 3: ("plane", "row", "col")}
"""Names of index bases by the array's rank; higher ranks count ``i0, i1, ...``."""


def symbol_table(
    kernel: Kernel, names: dict[str, str], namer: Namer, first: Node | None = None
) -> dict[str, Symbol]:
    """One symbol per size parameter and digit of `kernel`; `names` holds the identifiers of the parameters.  `first`:
    the block of the launch from which on the kernel runs, where that is not 0."""
    table = {
        p.name: Symbol(Name(names[p.name]), INTEGER, 0) for p in kernel.parameters if isinstance(p, SizeParameter)
    }
    turns = Name(names[kernel.turns]) if kernel.turns else None
    table |= _block_symbols(kernel, table, first, turns)
    table["$t"] = Symbol(_thread(kernel), SCALAR, 3)
    for digit in kernel.digits:
        table[f"${digit.name}"] = Symbol(Hoist(_thread_digit(digit, kernel), digit.name), SCALAR, 3)
    extents: Node = Items(tuple(Literal(s.extent) for s in kernel.slots))
    for axis, slot in enumerate(kernel.slots):
        value = Call("slots", (extents, Literal(axis)))
        table[f"${slot.name}"] = Symbol(Hoist(value, slot.name, always=True), SLOTTED, 4)
    for loop in dict.fromkeys(_loops(kernel.body)):
        table[f"${loop}"] = Symbol(Name(namer.fresh(loop)), INTEGER, 2, loop=True)
    return table


def _block_symbols(
    kernel: Kernel, sizes: dict[str, Symbol], first: Node | None, turns: Node | None
) -> dict[str, Symbol]:
    """Block indices.  Grids of several axes launch as one (`kernel.Kernel.grid`): axis 0 runs fastest."""
    block: Node = Call("block", (Literal(0), *([Literal(kernel.cluster)] if kernel.cluster > 1 else [])))
    if turns is not None:
        extents = [Indices(sizes).tree(extent) for extent in kernel.grid if extent != Affine.of(1)]
        blocks = reduce(lambda left, right: Binary("*", left, right), extents) if extents else Literal(1)
        block = Hoist(Call("in_turn", (turns, blocks)), "turn", always=True)
    if first is not None:
        block = Hoist(Binary("-", block, first), "b", always=True)
    if len(kernel.grid) == 1:
        return {"$b0": Symbol(block, SCALAR, 1)}
    table: dict[str, Symbol] = {}
    rest: Node = block
    for axis, extent in enumerate(kernel.grid):
        if extent.is_constant and extent.constant == 1:
            table[f"$b{axis}"] = Symbol(Literal(0), SCALAR, 1)
            continue
        if axis == len(kernel.grid) - 1:
            named = rest if isinstance(rest, Hoist) else Hoist(rest, f"b{axis}", always=True)
            table[f"$b{axis}"] = Symbol(named, SCALAR, 1)
            break
        count = Indices(sizes).tree(extent)
        if extent.is_constant or not kernel.one_division:
            table[f"$b{axis}"] = Symbol(Hoist(Binary("%", rest, count), f"b{axis}", always=True), SCALAR, 1)
            rest = Binary("//", rest, count)
        else:
            name = f"b{axis + 1}" if axis + 2 == len(kernel.grid) else f"above{axis}"
            above = Hoist(Binary("//", rest, count), name, always=True)
            below = Binary("-", rest, Binary("*", above, count))
            table[f"$b{axis}"] = Symbol(Hoist(below, f"b{axis}", always=True), SCALAR, 1)
            rest = above
    return table


def _thread(kernel: Kernel) -> Node:
    """The index of the thread in its block, which may be a cluster."""
    return Call("thread", (Literal(kernel.block_threads), Literal(kernel.cluster)) if kernel.cluster > 1 else ())


def _thread_digit(digit: ThreadDigit, kernel: Kernel) -> Node:
    """``thread() >> shift & mask``, each where it does something; ``thread() // 5 % 3`` where these are no bits."""
    node = _thread(kernel)
    if digit.stride > 1:
        bits = _is_power(digit.stride)
        node = Binary(">>" if bits else "//", node, Literal(digit.stride.bit_length() - 1 if bits else digit.stride))
    if digit.stride * digit.extent < kernel.threads:
        bits = _is_power(digit.extent)
        node = Binary("&" if bits else "%", node, Literal(digit.extent - 1 if bits else digit.extent))
    return node


def _is_power(n: int) -> bool:
    return n & (n - 1) == 0


def _loops(body: Sequence[Op]) -> Iterator[str]:
    for op in body:
        match op:
            case For(digit, _, inner):
                yield digit
                yield from _loops(inner)
            case If(_, inner, orelse):
                yield from _loops(inner)
                yield from _loops(orelse)
            case _:
                pass


def with_bases(indices: Indices, kernel: Kernel, memory: dict[str, Memory]) -> Indices:
    """`indices` that know the index bases of global arrays by name.

    A base is what one dimension of an access has without slots and constants.  It always gets a line where it is a sum
    that multiplies a size, else only where it occurs twice.
    """
    bases: dict[Affine, Hoist] = {}
    found = [(memory[op.array], op.index) for op in _accesses(kernel.body)]
    arrays = [(m, index) for m, index in found if isinstance(m, ArrayParameter)]
    for array, index in sorted(arrays, key=lambda item: -len(item[1])):
        strides = element_strides(array)
        if len(index) > 1 and all(s.constant is not None for s in strides):
            continue  # one constant-stride offset: its dimensions merge into a single expression
        names = BASE_NAMES.get(len(index), tuple(f"i{d}" for d in range(len(index))))
        for name, entry, stride in zip(names, index, strides, strict=True):
            if not isinstance(entry, Affine):
                continue
            base = Affine(indices.split(entry)[0].terms)
            plain = len(base.terms) == 1 and base.terms[0][1] == 1 and isinstance(base.terms[0][0], str)
            if base.terms and not plain and base not in bases:
                always = stride.constant is None and len(base.terms) > 1
                bases[base] = Hoist(indices.tree(base), name, indices.loops(base), always)
    largest_first = sorted(bases.items(), key=lambda item: -len(item[0].terms))
    axes = {slot.name: axis for axis, slot in enumerate(kernel.slots)}
    settled = {s.condition: (axes[s.slot], s.first, s.stop) for s in kernel.settled}
    return Indices(indices.symbols, tuple(largest_first), settled, indices.threads)


def thread_strides(kernel: Kernel) -> tuple[tuple[str, int], ...]:
    """The thread digits and their strides, where there are several, of which each count is the stride of the next."""
    digits = sorted(kernel.digits, key=lambda d: d.stride)
    next_strides = [d.stride for d in digits[1:]] + [kernel.threads]
    whole = [d.stride * d.extent for d in digits] == next_strides and digits[0].stride == 1
    return tuple((f"${d.name}", d.stride) for d in digits) if len(digits) > 1 and whole else ()


def _accesses(body: Sequence[Op]) -> Iterator[Load | Store | AtomicUpdate | AsyncCopy]:
    for op in body:
        match op:
            case Load() | Store() | AtomicUpdate() | AsyncCopy():
                yield op
            case For(_, _, inner) | Neighbours(inner):
                yield from _accesses(inner)
            case If(_, inner, orelse):
                yield from _accesses(inner)
                yield from _accesses(orelse)
            case _:
                pass
