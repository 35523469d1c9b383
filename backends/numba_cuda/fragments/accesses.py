"""The accesses of a tile: addresses, conditions, and the instructions that load and store, plain or predicated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from polyfuse.backends.numba_cuda.fragments.declare import given
from polyfuse.backends.numba_cuda.fragments.formats import Access, widest
from polyfuse.backends.numba_cuda.fragments.slots import (
    assembly,
    broadcast_shape,
    dtype_of,
    index_of,
    is_known,
    is_scalar,
    shape_of,
    spread,
)
from polyfuse.backends.numba_cuda.fragments.values import (
    F32,
    F64,
    GLOBAL,
    I8,
    I16,
    I32,
    I64,
    Builder,
    Fragment,
    Pointer,
    Tile,
    TileType,
    Value,
    boolean,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, ir, types

_CONSTRAINT: dict[Any, str] = {I8: "h", I16: "h", I32: "r", I64: "l", F32: "f", F64: "d"}


@dataclass(frozen=True)
class Placed:
    """A tile at an offset of a pointer, with the argument types of the call: what load, store and atomic share."""

    pointer: Pointer
    tile: Tile
    offset: Any
    sizes: Any
    mask: Any

    @cached_property
    def access(self) -> Access:
        """The instruction: vectors and spans only where offset and mask do not vary inside them."""
        if self.tile.span > 1:
            wide = widest(self.pointer.dtype, self.tile.span)
            return widest(self.pointer.dtype, 1) if self._varies_in_spans(wide.width) else wide
        axis = self.tile.vector_axis
        varies = axis is not None and any(
            _extent(argument, axis, len(self.tile.shape)) > 1 for argument in (self.offset, self.mask)
        )
        return widest(self.pointer.dtype, 1 if varies else self.tile.vector)

    def _varies_in_spans(self, width: int) -> bool:
        groups = self.tile.accesses(width)
        chosen = [_positions(a, self.tile.shape) for a in (self.offset, self.mask) if isinstance(a, Fragment)]
        return any(len({positions[slot] for slot, _ in group}) > 1 for positions in chosen for group in groups)

    @cached_property
    def groups(self) -> list[list[tuple[int, int]]]:
        """Per access: its slots, each with its element."""
        return self.tile.accesses(self.access.width)


def _extent(argument: Any, axis: int, rank: int) -> int:
    """The extent of an argument along a tile axis, shapes aligned at the right."""
    shape = shape_of(argument)
    position = axis - (rank - len(shape))
    return shape[position] if position >= 0 else 1


def _positions(argument: Fragment, shape: tuple[int, ...]) -> list[int]:
    """For every slot of `shape` the slot of the argument that broadcasts to it."""
    return np.broadcast_to(np.arange(argument.size).reshape(argument.shape), shape).ravel().tolist()


def placed(pointer: Any, offset: Any, tile: Any, sizes: Any, mask: Any) -> Placed | None:
    """Check the arguments of a memory operation; raises TypingError, None when they are of another kind."""
    if not isinstance(pointer, Pointer) or not isinstance(tile, TileType):
        return None
    if not (isinstance(offset, Fragment) or is_scalar(offset)) or not isinstance(dtype_of(offset), types.Integer):
        raise TypingError(f"the offset of a memory access is an integer, not {offset}")
    wanted = tile.tile.sizes
    count = len(sizes) if isinstance(sizes, types.BaseTuple) else 0
    if count != len(wanted):
        raise TypingError(f"this tile takes the sizes {wanted}, {count} given")
    mask = mask if given(mask) and not isinstance(mask, types.NoneType) else None
    if mask is not None and dtype_of(mask) != boolean:
        raise TypingError(f"a mask is boolean, not {mask}")
    fits(offset, tile.tile)
    fits(mask, tile.tile)
    return Placed(pointer, tile.tile, offset, sizes, mask)


def fits(argument: Any, tile: Tile) -> None:
    """Raise TypingError where an argument does not broadcast to the tile."""
    if broadcast_shape(tile.shape, shape_of(argument)) != tile.shape:
        raise TypingError(f"{argument} does not broadcast to the tile {tile}")


def addresses(b: Builder, where: Placed, pointer: Value, offset: Value, sizes: Value) -> list[Value]:
    """One address per access; distances known at compile time stay constants, which become instruction immediates."""
    found = based(b, where, pointer, offset, sizes)
    return [b.gep(base, [ir.Constant(I32, constant)]) if constant else base for base, constant in found]


def based(b: Builder, where: Placed, pointer: Value, offset: Value, sizes: Value) -> list[tuple[Value, int]]:
    """Per access an address, and elements from there to its first one."""
    bases: dict[Any, Value] = {}
    found = []
    for start, further, constant in counted(b, where, offset, sizes):
        for distance, before in ((start, None), (further, start)):
            if distance is not None and (start, distance) not in bases:
                base = pointer if before is None else bases[start, start]
                bases[start, distance] = b.gep(base, [distance])
        found.append((bases[start, start if further is None else further], constant))
    return found


def counted(
    b: Builder, where: Placed, offset: Value, sizes: Value
) -> list[tuple[Value, Value | None, int]]:
    """Per access the elements from the pointer to its first one, as three summands: of the offset, of sizes that are
    not known before the launch, and of others."""
    tile, groups = where.tile, where.groups
    offsets, firsts = tile.offsets(), [group[0] for group in groups]
    if isinstance(where.offset, Fragment) and where.offset.size > 1:
        spread_starts = spread(b, where.offset, offset, where.offset.dtype, tile.shape)
        starts = [spread_starts[slot] for slot, _ in firsts]
    else:
        starts = [index_of(b, where.offset, offset)] * len(groups)
    runtime = dict(zip(tile.sizes, _sizes(b, where, sizes), strict=True))
    known: dict[Any, Value] = {}
    found = []
    for start, (slot, element) in zip(starts, firsts, strict=True):
        constant, factors = offsets[slot][0] - element, offsets[slot][1]
        if factors and factors not in known:
            terms = [b.mul(runtime[name], ir.Constant(runtime[name].type, factor)) for name, factor in factors]
            known[factors] = terms[0]
            for term in terms[1:]:
                known[factors] = b.add(known[factors], term)
        found.append((start, known.get(factors), constant))
    return found


def _sizes(b: Builder, where: Placed, sizes: Value) -> list[Value]:
    if not where.tile.sizes:
        return []
    values = cgutils.unpack_tuple(b, sizes, len(where.tile.sizes))
    return [index_of(b, kind, value) for kind, value in zip(where.sizes.types, values, strict=True)]


def predicates(b: Builder, where: Placed, mask: Value) -> list[Value | None]:
    """One condition per access, or None where it has none."""
    if where.mask is None:
        return [None] * len(where.groups)
    masks = spread(b, where.mask, mask, boolean, where.tile.shape)
    chosen = [masks[group[0][0]] for group in where.groups]
    return [None if is_known(condition, True) else condition for condition in chosen]


def space_name(pointer: Pointer) -> str:
    """The state space in PTX."""
    return "global" if pointer.space == GLOBAL else "shared"


def plain_load(b: Builder, where: Placed, address: Value) -> list[Value]:
    access = where.access
    if where.pointer.evicted_last:
        return _load(b, where, access, address, None, [])
    kind = ir.VectorType(access.word, access.count) if access.count > 1 else access.word
    value = b.load(b.bitcast(address, kind.as_pointer(where.pointer.space)))
    value.align = access.size
    if where.pointer.readonly:
        value.set_metadata("invariant.load", b.module.add_metadata([]))
    if access.count == 1:
        return [value]
    return [b.extract_element(value, ir.Constant(I32, k)) for k in range(access.count)]


def _braces(first: int, count: int) -> str:
    names = ", ".join(f"${k}" for k in range(first, first + count))
    return f"{{{names}}}" if count > 1 else names


def _instruction(name: str, where: Placed, access: Access, cached: str) -> str:
    vector = f".v{access.count}" if access.count > 1 else ""
    return f"{name}.{space_name(where.pointer)}{cached}{vector}.b{8 * access.size // access.count}"


def masked_load(
    b: Builder, where: Placed, access: Access, address: Value, mask: Value, other: list[Value]
) -> list[Value]:
    """A predicated load, as the assembler likes it: no branch, and the words keep `other` where it is off."""
    return _load(b, where, access, address, mask, other)


def _load(
    b: Builder, where: Placed, access: Access, address: Value, mask: Value | None, other: list[Value]
) -> list[Value]:
    """One instruction: the operands are the words, the address, where the pointer has one the cache policy, and the
    condition."""
    count, word, pointer = access.count, I16 if access.word == I8 else access.word, where.pointer
    letter = _CONSTRAINT[word]
    cached = ".nc" if pointer.readonly and pointer.space == GLOBAL else ""
    arguments, constraints, at = [b.ptrtoint(address, I64)], ["l"], f"[${count}]"
    if pointer.evicted_last:
        cached, at = f"{cached}.L2::cache_hint", f"{at}, ${count + 1}"
        arguments.append(_policy(b))
        constraints.append("l")
    text = f"{_instruction('ld', where, access, cached)} {_braces(0, count)}, {at};"
    if mask is not None:
        text = "\n".join(["{", ".reg .pred p;", f"setp.ne.u32 p, ${count + len(arguments)}, 0;", f"@p {text}", "}"])
        arguments += [b.zext(mask, I32), *[b.zext(value, I16) if access.word == I8 else value for value in other]]
        constraints += ["r", *[str(k) for k in range(count)]]
    volatile = not pointer.readonly
    if volatile:
        constraints.append("~{memory}")
    result = ir.LiteralStructType([word] * count) if count > 1 else word
    value = assembly(b, text, ",".join([f"={letter}"] * count + constraints), result, arguments, effect=volatile)
    words = [b.extract_value(value, k) for k in range(count)] if count > 1 else [value]
    return [b.trunc(w, I8) if access.word == I8 else w for w in words]


_POLICIES = WeakKeyDictionary[Any, Value]()


def _policy(b: Builder) -> Value:
    """Of the last-level cache, as an operand (PTX ISA, createpolicy; sm_80), made once in a kernel."""
    if b.function not in _POLICIES:
        with b.goto_entry_block():
            text = "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;"
            _POLICIES[b.function] = assembly(b, text, "=l", I64, [], effect=False)
    return _POLICIES[b.function]


def plain_store(b: Builder, where: Placed, address: Value, words: list[Value]) -> None:
    value = words[0]
    if len(words) > 1:
        value = ir.Constant(ir.VectorType(where.access.word, len(words)), ir.Undefined)
        for k, word in enumerate(words):
            value = b.insert_element(value, word, ir.Constant(I32, k))
    b.store(value, b.bitcast(address, value.type.as_pointer(where.pointer.space))).align = where.access.size


def masked_store(
    b: Builder, where: Placed, access: Access, address: Value, mask: Value, words: list[Value]
) -> None:
    words = [b.zext(word, I16) if word.type == I8 else word for word in words]
    store = f"@p {_instruction('st', where, access, '')} [$1], {_braces(2, len(words))};"
    text = "\n".join(["{", ".reg .pred p;", "setp.ne.u32 p, $0, 0;", store, "}"])
    constraints = ",".join(["r", "l"] + [_CONSTRAINT[words[0].type]] * len(words) + ["~{memory}"])
    arguments = [b.zext(mask, I32), b.ptrtoint(address, I64), *words]
    assembly(b, text, constraints, ir.VoidType(), arguments, effect=True)


@dataclass(frozen=True)
class VectorPlace:
    """Of a vector: its first element is number ``start + constant`` of an array, `start` lies at `base`."""

    start: Value
    constant: int
    base: Value

    def address(self, b: Builder, element: int) -> Value:
        return b.gep(self.base, [ir.Constant(I32, self.constant + element)])


def vector_places(b: Builder, where: Placed, pointer: Value, offset: Value, sizes: Value) -> list[VectorPlace]:
    """Where each vector of a tile lies."""
    known: dict[tuple[Value, Value | None], tuple[Value, Value]] = {}
    found = []
    for start, further, constant in counted(b, where, offset, sizes):
        if (start, further) not in known:
            total = start if further is None else b.add(start, as_integer(b, further, start.type))
            known[start, further] = total, b.gep(pointer, [total])
        found.append(VectorPlace(known[start, further][0], constant, known[start, further][1]))
    return found


def as_integer(b: Builder, value: Value, kind: Any) -> Value:
    """A number of elements as another integer that holds it."""
    if value.type == kind:
        return value
    return b.trunc(value, kind) if value.type.width > kind.width else b.sext(value, kind)
