"""Expression trees of printed Python, and their text with no parenthesis too many and none too few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union, assert_never


@dataclass(frozen=True, slots=True)
class Name:
    text: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a bool, a string or None.  `text` overrides the spelling (``0.1`` for a float32 constant)."""

    value: bool | int | float | str | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Node, ...]
    keywords: tuple[tuple[str, Node], ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A literal tuple."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Hoist:
    """A pure subexpression that may become a named line of its own.

    It is named where it occurs twice, or `always`; `loops` are the loop digits that it reads, which bound how far out
    its line may stand.
    """

    value: Node
    wanted: str
    loops: frozenset[str] = frozenset()
    always: bool = False


Node = Union[Name, Literal, Unary, Binary, Call, Items, Hoist]

_PRECEDENCE: dict[str, int] = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 1),
    "|": 2,
    "^": 3,
    "&": 4,
    "<<": 5,
    ">>": 5,
    "+": 6,
    "-": 6,
    **dict.fromkeys(("*", "/", "//", "%"), 7),
}
_COMPARISON, _UNARY, _ATOM = 1, 8, 9


def children(node: Node) -> Iterator[Node]:
    """The direct subexpressions of `node`."""
    match node:
        case Name() | Literal():
            return
        case Unary(_, operand):
            yield operand
        case Binary(_, left, right):
            yield left
            yield right
        case Call(_, arguments, keywords):
            yield from arguments
            for _, value in keywords:
                yield value
        case Items(items):
            yield from items
        case Hoist(value):
            yield value
        case _:
            assert_never(node)


def text(node: Node) -> str:
    """`node` as Python source; its `Hoist`s must have been resolved or print as their values."""
    return _render(node)[0]


def _render(node: Node) -> tuple[str, int]:
    match node:
        case Name(name):
            return name, _ATOM
        case Literal(value, spelling):
            shown = spelling or repr(value)
            return shown, _UNARY if shown.startswith("-") else _ATOM
        case Unary(operator, operand):
            return operator + _wrapped(operand, _UNARY), _UNARY
        case Binary(operator, left, right):
            level = _PRECEDENCE[operator]
            lowest_left = level + 1 if level == _COMPARISON else level
            return f"{_wrapped(left, lowest_left)} {operator} {_wrapped(right, level + 1)}", level
        case Call(function, arguments, keywords):
            shown_arguments = [text(a) for a in arguments] + [f"{k}={text(v)}" for k, v in keywords]
            return f"{function}({', '.join(shown_arguments)})", _ATOM
        case Items(items):
            inner = ", ".join(text(i) for i in items)
            return f"({inner},)" if len(items) == 1 else f"({inner})", _ATOM
        case Hoist(value):
            return _render(value)
        case _:
            assert_never(node)


def _wrapped(node: Node, lowest: int) -> str:
    shown, level = _render(node)
    return shown if level >= lowest else f"({shown})"


def spliced(left: Node, right: Node) -> Node:
    """``left + right`` with the brackets of an integer sum on the right dropped: ``a + (b - c)`` is ``a + b - c``."""
    if isinstance(right, Binary) and right.operator in ("+", "-"):
        return Binary(right.operator, spliced(left, right.left), right.right)
    return Binary("+", left, right)
