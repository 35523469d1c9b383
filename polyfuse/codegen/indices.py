"""Affine expressions of digits and sizes to trees of printed Python.

Text stays a tree until the end, so that precedence is decided in one place.  Three kinds of name meet here: sizes and
loop digits are Python integers, block and thread digits 0-d fragments, slot digits fragments of full rank.  A floor
division is written ``>>`` and a remainder ``&`` where the denominator is a power of two: both are exact floors on
signed integers, and one instruction.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from polyfuse.affine import Affine, Atom, FloorDiv
from polyfuse.codegen.strides import Polynomial
from polyfuse.codegen.tree import Binary, Call, Hoist, Literal, Name, Node, children

INTEGER, SCALAR, SLOTTED = 0, 1, 2
"""What an index expression is: a Python integer, a 0-d fragment, a fragment over slots."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """How one name of affine expressions prints.  `order` puts sizes before blocks, loops, threads and slots."""

    node: Node
    kind: int
    order: int
    loop: bool = False


@dataclass(frozen=True, slots=True)
class Remainder:
    """``numerator % denominator``, found back in the normal form that `Affine` gives it."""

    numerator: Affine
    denominator: int


Part = tuple[int, "Atom | Remainder | Hoist"]
Places = tuple[int, int, int]
"""Of a slot: its axis, the first place, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Indices:
    """Prints affine expressions; `bases` are subexpressions that have a name, tried largest first.  `settled`: where
    conditions need not be asked for.  `threads`: the thread digits and their strides, where there are several, which
    together are ``$t``."""

    symbols: Mapping[str, Symbol]
    bases: tuple[tuple[Affine, Hoist], ...] = ()
    settled: Mapping[Affine, Places] = field(default_factory=dict)
    threads: tuple[tuple[str, int], ...] = ()

    # ------------------------------------------------------------------------------------------ kinds
    def kind(self, affine: Affine) -> int:
        """`INTEGER`, `SCALAR` or `SLOTTED`."""
        return max((self.symbols[n].kind for n in affine.names()), default=INTEGER)

    def loops(self, affine: Affine) -> frozenset[str]:
        """The loop digits that `affine` reads."""
        return frozenset(n for n in affine.names() if self.symbols[n].loop)

    def split(self, affine: Affine) -> tuple[Affine, dict[str, int], Affine]:
        """`affine` as a part without slots, linear coefficients of slots, and a part with slots inside divisions."""
        base, rest = Affine.of(affine.constant), Affine.of(0)
        slots: dict[str, int] = {}
        for atom, factor in affine.terms:
            term = Affine(((atom, factor),))
            if self.kind(term) != SLOTTED:
                base += term
            elif isinstance(atom, str):
                slots[atom[1:]] = factor
            else:
                rest += term
        return base, slots, rest

    # ------------------------------------------------------------------------------------------ text
    def tree(self, affine: Affine) -> Node:
        """`affine` as an expression."""
        positive, negative, constant = self._signed_parts(affine)
        return self._sum(positive, negative, constant)

    def condition(self, affine: Affine) -> Node:
        """``affine >= 0`` as a person writes it: negative terms on the other side, ``<`` where it saves a ``- 1``."""
        if self.kind(affine) == INTEGER:
            return Call("inside", (self.tree(affine),))
        upper, lower, constant = self._signed_parts(affine)
        if not lower:
            return Binary(">=", self._sum(upper, [], 0), Literal(-constant))
        if not upper:
            return Binary("<", self._sum(lower, [], 0), Literal(constant + 1))
        if constant < 0:
            return Binary("<", self._sum(lower, [], -1 - constant), self._sum(upper, [], 0))
        if constant == 0:
            return Binary("<=", self._sum(lower, [], 0), self._sum(upper, [], 0))
        return Binary("<", self._sum(lower, [], 0), self._sum(upper, [], constant + 1))

    def conjunction(self, where: Iterable[Affine]) -> Node | None:
        """All of `where`, or None for no condition; conditions without slots first, for they are cheap.

        Constants arise where a loop's last trip stands alone, and where a part of a concatenation never reaches.
        """
        known = dict.fromkeys(where)
        if any(affine.is_constant and affine.constant < 0 for affine in known):
            return Call("constant", (Literal(False), Name("boolean")))
        ordered = sorted((affine for affine in known if not affine.is_constant), key=self.kind)
        result: Node | None = None
        equal = set[Affine]()
        for affine in ordered:
            if affine in equal:
                continue
            if self._is_equality(affine, known):
                part = self._named_equality(affine)
                equal.add(-affine)
            else:
                part = self._named_condition(affine)
            result = part if result is None else Binary("&", result, part)
        return result

    def _is_equality(self, affine: Affine, known: Container[Affine]) -> bool:
        """Whether it is at least 0 and at most, one comparison of each slot."""
        settled = any(bound in self.settled for bound in (affine, -affine, -affine - 1, affine - 1))
        return self.kind(affine) != INTEGER and -affine in known and not settled

    def _named_equality(self, affine: Affine) -> Node:
        upper, lower, constant = self._signed_parts(affine)
        one, other = self._sum(upper, [], max(0, constant)), self._sum(lower, [], max(0, -constant))
        return Hoist(Binary("==", one, other), "mask", self.loops(affine))

    def _named_condition(self, affine: Affine) -> Node:
        """A condition that gets a line of its own where several conjunctions hold it: ``rows = row + v < M``."""
        node = self.with_settled(self.condition(affine), affine, "at_least", True)
        node = self.with_settled(node, -affine - 1, "at_most", False)
        named = {base.wanted for base in _hoists(node)} & {"plane", "row", "col"}
        return Hoist(node, f"{named.pop()}s" if len(named) == 1 else "mask", self.loops(affine))

    def with_settled(
        self, node: Node, condition: Affine, relation: str, value: int | bool, but: Affine | None = None
    ) -> Node:
        """A number that says of each slot whether `condition` holds: `value` in place of those that are known to be
        `relation` it, but for those where a stricter condition is known to hold."""
        places, others = self.settled.get(condition), self.settled.get(but) if but is not None else None
        if places is None:
            return node
        axis, first, stop = places
        if others is not None:
            first, stop = (others[2], stop) if first == others[1] else (first, others[1])
        known = (Literal(axis), Literal(first), Literal(stop), Literal(value))
        return Call(relation, (node, *known)) if first < stop else node

    def polynomial(self, value: Polynomial) -> Node:
        """A stride: products of sizes."""
        total: Node | None = None
        for monomial, factor in value.terms:
            term: Node | None = None
            for atom in monomial:
                node = self._atom(atom)
                term = node if term is None else Binary("*", term, node)
            if term is None:
                term = Literal(abs(factor))
            elif abs(factor) != 1:
                term = Binary("*", Literal(abs(factor)), term)
            if total is None:
                total = term if factor > 0 else Binary("*", Literal(-1), term)
            else:
                total = Binary("+" if factor > 0 else "-", total, term)
        return total if total is not None else Literal(0)

    # ------------------------------------------------------------------------------------------ parts
    def _signed_parts(self, affine: Affine) -> tuple[list[Part], list[Part], int]:
        """The terms of `affine` as (positive, negated negative) lists in printing order, and the constant beside."""
        rest, constant = Affine(affine.terms), affine.constant
        parts: list[Part] = []
        for remainder, factor in _remainders(rest):
            parts.append((factor, remainder))
            constant -= factor * remainder.numerator.constant
            rest = rest - _expanded(remainder) * factor
            rest = Affine(rest.terms)
        for base, hoist in self.bases:
            for sign in (1, -1):
                if all(rest.coefficient(atom) == sign * factor for atom, factor in base.terms):
                    parts.append((sign, hoist))
                    rest = rest - base * sign
        parts.extend((factor, atom) for atom, factor in self._with_whole_threads(rest).terms)
        parts.sort(key=lambda part: self._order(part[1]))
        return [p for p in parts if p[0] > 0], [(-f, a) for f, a in parts if f < 0], constant

    def _with_whole_threads(self, affine: Affine) -> Affine:
        """The same where thread digits that count the threads of a block are one: ``9*r + c`` as ``thread()``."""
        factor = affine.coefficient(self.threads[0][0]) // self.threads[0][1] if self.threads else 0
        if not factor or any(affine.coefficient(name) != factor * stride for name, stride in self.threads):
            return affine
        counted = Affine(tuple((name, factor * stride) for name, stride in self.threads))
        return affine - counted + Affine((("$t", factor),))

    def _order(self, part: Atom | Remainder | Hoist) -> tuple[int, str]:
        match part:
            case str():
                return self.symbols[part].order, part
            case FloorDiv(numerator) | Remainder(numerator):
                names = numerator.names()
                return max((self.symbols[n].order for n in names), default=0), str(part)
            case _:
                return 0, ""

    def _sum(self, added: list[Part], subtracted: list[Part], constant: int) -> Node:
        total: Node | None = None
        for factor, part in added:
            term = self._term(factor, part)
            total = term if total is None else Binary("+", total, term)
        if total is None and constant > 0:
            total, constant = Literal(constant), 0
        for factor, part in subtracted:
            total = self._term(-factor, part) if total is None else Binary("-", total, self._term(factor, part))
        if total is None:
            return Literal(constant)
        if constant:
            total = Binary("+" if constant > 0 else "-", total, Literal(abs(constant)))
        return total

    def _term(self, factor: int, part: Atom | Remainder | Hoist) -> Node:
        if isinstance(part, Remainder):
            node = self._divided(part.numerator, part.denominator, remainder=True)
        else:
            node = part if isinstance(part, Hoist) else self._atom(part)
        return node if factor == 1 else Binary("*", Literal(factor), node)

    def _atom(self, atom: Atom) -> Node:
        if isinstance(atom, FloorDiv):
            return self._divided(atom.numerator, atom.denominator, remainder=False)
        return self.symbols[atom].node

    def _divided(self, numerator: Affine, denominator: int, remainder: bool) -> Node:
        inner, power = self.tree(numerator), denominator.bit_length() - 1
        if denominator == 1 << power and self.kind(numerator) != INTEGER:
            return Binary("&", inner, Literal(denominator - 1)) if remainder else Binary(">>", inner, Literal(power))
        if self.kind(numerator) == SLOTTED:
            return Call("remainder" if remainder else "floor_divide", (inner, Literal(denominator)))
        return Binary("%" if remainder else "//", inner, Literal(denominator))


def _hoists(node: Node) -> Iterator[Hoist]:
    if isinstance(node, Hoist):
        yield node
    for child in children(node):
        yield from _hoists(child)


def _expanded(remainder: Remainder) -> Affine:
    """The terms that `remainder` stands for, without the constant of its numerator."""
    division = Affine(((FloorDiv(remainder.numerator, remainder.denominator), -remainder.denominator),))
    return Affine(remainder.numerator.terms) + division


def _remainders(affine: Affine) -> list[tuple[Remainder, int]]:
    """Each ``c * (n % d)`` that occurs in `affine` as ``c*n - c*d*floor(n/d)``, but for the constant of n."""
    found: list[tuple[Remainder, int]] = []
    for atom, coefficient in affine.terms:
        if not isinstance(atom, FloorDiv) or coefficient % atom.denominator:
            continue
        factor = -coefficient // atom.denominator
        numerator = atom.numerator
        if all(affine.coefficient(a) == factor * c for a, c in numerator.terms):
            found.append((Remainder(numerator, atom.denominator), factor))
            affine = affine - _expanded(found[-1][0]) * factor
    return found
