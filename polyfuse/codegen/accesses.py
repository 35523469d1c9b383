"""Linearisation: the index of one access per dimension to a scalar offset, a `Tile` and the sizes that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polyfuse.affine import Affine
from polyfuse.codegen.expressions import Expressions
from polyfuse.codegen.indices import INTEGER, SLOTTED
from polyfuse.codegen.language import dtype_text
from polyfuse.codegen.strides import Polynomial, element_strides
from polyfuse.codegen.tiles import Layout
from polyfuse.codegen.tree import Binary, Call, Hoist, Literal, Name, Node, spliced
from polyfuse.kernel import Expr, Ref
from polyfuse.kernel_types import Memory, access_axes, expression_type


@dataclass(frozen=True, slots=True)
class Access:
    """What `load`, `store` and `atomic` take: offset, layout, values of the layout's sizes, condition."""

    offset: Node
    layout: Layout
    sizes: tuple[Node, ...]
    mask: Node | None


Offset = tuple[Node, int, frozenset[str]]
"""A summand of an offset: its text, its kind, the loop digits it reads."""


@dataclass(frozen=True, slots=True)
class Linearizer:
    """Linearises the accesses of one kernel."""

    expressions: Expressions
    memories: Mapping[str, Memory]

    def access(
        self,
        memory: str,
        index: Sequence[Affine | Ref],
        where: Sequence[Affine],
        mask: Expr | None,
        vector: int,
        extra: frozenset[str] = frozenset(),
        span: int = 1,
    ) -> Access:
        """The access over the slots of index, conditions and `extra`."""
        kernel, types = self.expressions.kernel, self.expressions.types
        strides = element_strides(self.memories[memory])
        axes = access_axes(index, where, mask, types, kernel) | extra
        shape = tuple(s.extent if s.name in axes else 1 for s in kernel.slots)
        slot_strides: list[tuple[int, str | None]] = []
        sizes: dict[str, Node] = {}
        for slot in kernel.slots:
            stride = self._slot_stride(slot.name, index, strides) if slot.name in axes else Polynomial.of(0)
            slot_strides.append(self._stride_constant(stride, sizes))
        first = self._first(index, strides, span)
        index = (*index[:-1], index[-1] - first) if first and isinstance(index[-1], Affine) else index
        layout = Layout(shape, tuple(slot_strides), vector, span, first)
        return Access(self._offset(index, strides), layout, tuple(sizes.values()), self.mask(where, mask))

    def end(self, memory: str) -> Node:
        """The number of elements of an array."""
        elements = prod([Polynomial.of(n) for n in self.memories[memory].shape], start=Polynomial.of(1))
        return self.expressions.indices.polynomial(elements)

    def number(self, index: Sequence[Affine], memory: str) -> Node:
        """The place of an index in C order along the first dimensions of an array."""
        if len(index) == 1:
            return self.expressions.indices.tree(index[0])
        strides, shape = [Polynomial.of(1)], self.memories[memory].shape
        for k in range(len(index) - 1, 0, -1):
            strides.append(strides[-1] * Polynomial.of(shape[k]))
        return self._offset(index, strides[::-1])

    def mask(self, where: Sequence[Affine], mask: Expr | None) -> Node | None:
        """``where`` and ``mask`` as one condition."""
        node = self.expressions.condition(where) if where else None
        if mask is None:
            return node
        data = self.expressions.fragment(mask)
        return data if node is None else Binary("&", node, data)

    def _first(self, index: Sequence[Affine | Ref], strides: Sequence[Polynomial], span: int) -> int:
        """The element of its span that the first slot is: spans of several loads begin at the same offsets then."""
        known = [(e, s.constant) for e, s in zip(index, strides, strict=True) if isinstance(e, Affine)]
        return sum(e.constant * step for e, step in known if step is not None) % span

    # ------------------------------------------------------------------------------------------ strides
    def _slot_stride(
        self, slot: str, index: Sequence[Affine | Ref], strides: Sequence[Polynomial]
    ) -> Polynomial:
        total = Polynomial.of(0)
        for entry, stride in zip(index, strides, strict=True):
            if isinstance(entry, Affine):
                factor = self.expressions.indices.split(entry)[1].get(slot, 0)
                total += stride * Polynomial.of(factor)
        return total

    def _stride_constant(self, stride: Polynomial, sizes: dict[str, Node]) -> tuple[int, str | None]:
        """`stride` for a `Tile`: an int, or a multiple of one size, whose value is added to `sizes`."""
        if stride.constant is not None:
            return stride.constant, None
        factor, wanted, node = self._size(stride)
        label, serial = wanted, 2
        while sizes.setdefault(label, node) != node:
            label, serial = f"{wanted}_{serial}", serial + 1
        return factor, label

    def _size(self, stride: Polynomial) -> tuple[int, str, Node]:
        """A stride as ``factor * value``; a value that is no parameter gets a line of its own."""
        monomial, factor = stride.terms[0] if len(stride.terms) == 1 else ((), 1)
        value = Polynomial.build({monomial: 1}) if monomial else stride
        indices = self.expressions.indices
        node = indices.polynomial(value)
        if isinstance(node, Name):
            return factor, node.text, node
        plain = [indices.symbols[a].node for a in monomial if isinstance(a, str)]
        product = "".join(n.text for n in plain if isinstance(n, Name))
        label = product if product and len(plain) == len(monomial) else "pitch"
        return factor, label, Hoist(node, label, always=True)

    # ------------------------------------------------------------------------------------------ offsets
    def _offset(self, index: Sequence[Affine | Ref], strides: Sequence[Polynomial]) -> Node:
        """Dimensions with constant strides are one affine expression, the others products ``row * N``."""
        indices = self.expressions.indices
        constant, slotted = Affine.of(0), Affine.of(0)
        products: list[Offset] = []
        for entry, stride in zip(index, strides, strict=True):
            if isinstance(entry, Ref):
                products.append((_times(self._gather(entry), self._factor(stride)), SLOTTED, frozenset()))
                continue
            base, _, rest = indices.split(entry)
            if stride.constant is not None:
                constant += base * stride.constant
                slotted += rest * stride.constant
                continue
            for part in (base, rest):
                if part != Affine.of(0):
                    kind = max(indices.kind(part), INTEGER)
                    products.append((_times(indices.tree(part), self._factor(stride)), kind, indices.loops(part)))
        for part in (constant, slotted):
            if part != Affine.of(0):
                products.append((indices.tree(part), indices.kind(part), indices.loops(part)))
        return self._total(products)

    def _total(self, parts: list[Offset]) -> Node:
        plain = [p for p in parts if p[1] != SLOTTED]
        total: Node = Literal(0)
        if plain:
            total = _sum([node for node, _, _ in plain])
            if not isinstance(total, Name | Literal | Hoist):
                total = Hoist(total, "at", frozenset().union(*(loops for _, _, loops in plain)))
        slotted = [node for node, kind, _ in parts if kind == SLOTTED]
        return _sum([total, *slotted] if plain else slotted) if slotted else total

    def _factor(self, stride: Polynomial) -> Node:
        if stride.constant is not None:
            return Literal(stride.constant)
        factor, _, node = self._size(stride)
        return node if factor == 1 else Binary("*", Literal(factor), node)

    def _gather(self, entry: Ref) -> Node:
        """A gathered index in the kernel's index type."""
        known = expression_type(entry, self.expressions.types, self.expressions.kernel)
        wanted = f"int{self.expressions.kernel.index_bits}"
        node = self.expressions.fragment(entry)
        return node if dtype_text(known.dtype) == wanted else Call("cast", (node, Name(wanted)))


def _times(node: Node, factor: Node) -> Node:
    return node if factor == Literal(1) else Binary("*", node, factor)


def _sum(nodes: Sequence[Node]) -> Node:
    total = nodes[0]
    for node in nodes[1:]:
        total = spliced(total, node)
    return total
