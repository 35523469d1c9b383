"""Scalar expressions of kernel IR to printed trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from polyfuse.affine import Affine
from polyfuse.codegen.indices import INTEGER, SCALAR, Indices, Symbol
from polyfuse.codegen.language import INFIX, PREFIX, dtype_text
from polyfuse.codegen.literals import literal
from polyfuse.codegen.tree import Binary, Call, Hoist, Items, Literal, Name, Node, Unary
from polyfuse.dtypes import DType
from polyfuse.kernel import Apply, Const, Expr, Index, Inside, Kernel, Ref, cuts_at_one_place
from polyfuse.kernel_types import Types, ValueType, expression_type


@dataclass(frozen=True, slots=True)
class Cut:
    """Of vectors along the innermost slot those elements k with ``low <= k < high``, where `mask` holds."""

    low: Node
    high: Node
    mask: Node | None

    @property
    def keywords(self) -> tuple[tuple[str, Node], ...]:
        return (("mask", self.mask),) if self.mask is not None else ()


@dataclass(frozen=True, slots=True)
class Expressions:
    """Prints `Expr`s.  Constants and scalar parameters are weak: they print bare where they meet a fragment.
    `cuts`: the kernel has vectors that conditions cut."""

    kernel: Kernel
    types: Types
    indices: Indices
    names: Mapping[str, str]
    scalars: frozenset[str]
    cuts: bool = False

    # ------------------------------------------------------------------------------------------ entry points
    def tree(self, expr: Expr) -> Node:
        """`expr` as it prints beside a fragment of its dtype."""
        match expr:
            case Ref(name):
                return Name(self.names[name])
            case Const(value, dtype):
                return literal(value, dtype)
            case Index(affine, dtype):
                return self._index(affine, dtype)
            case Inside(where):
                return self.condition(where)
            case Apply(function, operands, dtype):
                return self._apply(function, operands, dtype)
            case _:
                assert_never(expr)

    def fragment(self, expr: Expr) -> Node:
        """`expr` as a fragment, also where it is weak."""
        if not self.is_weak(expr):
            return self.tree(expr)
        return Call("constant", (self.tree(expr), Name(dtype_text(self.type_of(expr).dtype))))

    def shaped(self, expr: Expr, wanted: ValueType) -> Node:
        """`expr` as a fragment of exactly the shape of `wanted`: accumulators keep one type through a loop."""
        known = self.type_of(expr)
        shape = wanted.shape(self.kernel)
        if known.shape(self.kernel) == shape and (not self.is_weak(expr) or not shape):
            return self.fragment(expr)
        dtype = Name(dtype_text(known.dtype))
        return Call("full", (Items(tuple(Literal(n) for n in shape)), self.tree(expr), dtype))

    def condition(self, where: Sequence[Affine]) -> Node:
        """A conjunction as a boolean fragment."""
        node = self.indices.conjunction(where)
        if node is None:
            return Call("constant", (Literal(True), Name("boolean")))
        if isinstance(node, Hoist):
            return node
        return Hoist(node, "mask", frozenset().union(*(self.indices.loops(a) for a in where)))

    def cut(self, where: Sequence[Affine], *, across: bool = False) -> Cut:
        """Conditions as bounds of the innermost slot, that of vectors which begin anywhere where they are `across`."""
        slot, extent = f"${self.kernel.slots[-1].name}", self.kernel.slots[-1].extent
        low = [w for w in where if w.coefficient(slot) == 1]
        high = [w for w in where if w.coefficient(slot) == -1]
        rest = [w for w in where if slot not in w.names()]
        known = self._known_of_others
        lows = [known(self._end(-w, slot, 0), w, "at_most", 0) for w in low]
        lows = [known(end, -w - 1, "at_least", extent) for end, w in zip(lows, low, strict=True)]
        highs = [known(self._end(w, slot, 1), w, "at_least", extent, w - extent if across else None) for w in high]
        highs = [known(end, -w - 1, "at_most", 0) for end, w in zip(highs, high, strict=True)]
        if across:
            highs = [known(end, w - extent, "at_least", 2 * extent) for end, w in zip(highs, high, strict=True)]
        loops = frozenset().union(*(self.indices.loops(w) for w in (*low, *high)))
        ends = _bound(lows, "low", "maximum", 0, loops), _bound(highs, "high", "minimum", extent, loops)
        return Cut(*ends, self.condition(rest) if rest else None)

    def _known_of_others(
        self, node: Node, condition: Affine, relation: str, value: int, but: Affine | None = None
    ) -> Node:
        """A bound with what is known of it in other slots: of its own it says where they end."""
        places = self.indices.settled.get(condition)
        is_own = places is not None and places[0] == len(self.kernel.slots) - 1
        return node if is_own else self.indices.with_settled(node, condition, relation, value, but)

    def _end(self, end: Affine, slot: str, beyond: int) -> Node:
        return self.indices.tree(end.substitute({slot: 0}) + beyond)

    def is_weak(self, expr: Expr) -> bool:
        return isinstance(expr, Const) or (isinstance(expr, Ref) and expr.name in self.scalars)

    def type_of(self, expr: Expr) -> ValueType:
        return expression_type(expr, self.types, self.kernel)

    # ------------------------------------------------------------------------------------------ parts
    def _index(self, affine: Affine, dtype: DType) -> Node:
        """An affine value in `dtype`: computed in the index type, or in `dtype` where that is wider."""
        target = Name(dtype_text(dtype.compute))
        if self.indices.kind(affine) == INTEGER:
            return Call("constant", (self.indices.tree(affine), target))
        bits = self.kernel.index_bits
        if dtype.kind in "iu" and 8 * dtype.itemsize == bits:
            node = self.indices.tree(affine)
            return node if dtype.kind == "i" else Call("cast", (node, target))
        if dtype.kind in "iu" and 8 * dtype.itemsize > bits:
            return _widened(self.indices, target).tree(affine)
        return Call("cast", (self.indices.tree(affine), target))

    def _apply(self, function: str, operands: tuple[Expr, ...], dtype: DType) -> Node:
        if function == "cast" and (place := self._place(operands[0])) is not None and dtype.kind == "f":
            return Call("cast", (place, Name(dtype_text(dtype))))  # the guards of a plan say that it fits
        if function in ("cast", "bitcast"):
            return Call(function, (self.fragment(operands[0]), Name(dtype_text(dtype))))
        if function == "where" and self.cuts and self._is_cut(operands):
            return self._where_cut(*operands)
        nodes = [self.tree(o) for o in operands]
        if function == "where":
            nodes[0] = self.fragment(operands[0])
            if self.is_weak(operands[1]) and self.is_weak(operands[2]):
                nodes[1] = self.fragment(operands[1])
        elif all(self.is_weak(o) for o in operands):
            nodes[0] = self.fragment(operands[0])
        if function in INFIX:
            return Binary(INFIX[function], nodes[0], nodes[1])
        if function in PREFIX:
            return Unary(PREFIX[function], nodes[0])
        return Call(function, tuple(nodes))

    def _place(self, operand: Expr) -> Node | None:
        """An index of more bits than those of the kernel, in these: long integers take several instructions."""
        if not isinstance(operand, Index) or operand.dtype.kind != "i" or self.indices.kind(operand.affine) == INTEGER:
            return None
        return self.indices.tree(operand.affine) if 8 * operand.dtype.itemsize > self.kernel.index_bits else None

    def _is_cut(self, operands: tuple[Expr, ...]) -> bool:
        """Whether the condition cuts vectors of a value, each part of it at one place."""
        slot, (condition, value, other) = self.kernel.slots[-1].name, operands
        if not isinstance(condition, Inside) or not self.is_weak(other) or slot not in self.type_of(value).axes:
            return False
        varying = [w for w in condition.where if f"${slot}" in w.names()]
        return bool(varying) and all(cuts_at_one_place(w, f"${slot}") for w in varying)

    def _where_cut(self, condition: Expr, value: Expr, other: Expr) -> Node:
        assert isinstance(condition, Inside)
        cut = self.cut(condition.where)
        return Call("where_cut", (cut.low, cut.high, self.tree(value), self.tree(other)), cut.keywords)


def _bound(ends: Sequence[Node], name: str, meet: str, default: int, loops: frozenset[str]) -> Node:
    if not ends:
        return Literal(default)
    bound = ends[0]
    for node in ends[1:]:
        bound = Call(meet, (bound, node))
    return Hoist(bound, name, loops)


def _widened(indices: Indices, target: Name) -> Indices:
    """The same symbols in a wider type, so that products do not wrap; bases are narrow, hence not used."""
    symbols = {
        name: symbol
        if symbol.kind < SCALAR
        else Symbol(Call("cast", (symbol.node, target)), symbol.kind, symbol.order, symbol.loop)
        for name, symbol in indices.symbols.items()
    }
    return Indices(symbols)


