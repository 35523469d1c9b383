"""Lines of a printed kernel before their text is fixed, and the pass that names shared subexpressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union, assert_never

from polyfuse.codegen.names import Namer
from polyfuse.codegen.tree import Binary, Call, Hoist, Items, Literal, Name, Node, Unary, children, spliced, text


@dataclass(frozen=True, slots=True)
class Assign:
    """``targets = value  # note``."""

    targets: tuple[str, ...]
    value: Node
    note: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """A call for its effect."""

    value: Node


@dataclass(frozen=True, slots=True)
class Loop:
    """``for variable in range(extent):``; `digit` is the IR's name of the variable."""

    digit: str
    variable: str
    extent: Node
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    condition: Node
    body: tuple[Statement, ...]
    orelse: tuple[Statement, ...]


Statement = Union[Assign, Effect, Loop, Branch]


def lines(statements: Sequence[Statement], namer: Namer, depth: int = 1) -> list[str]:
    """The lines of a function body, or of a part of it that stands `depth` levels deep.

    A `Hoist` that occurs once prints in place; one that occurs more often (or always wants a name) becomes a line at
    the start of the kernel, or of the innermost loop whose digit it reads.
    """
    uses: dict[Hoist, int] = {}
    _count(statements, uses)
    names = {h: namer.fresh(h.wanted) for h, n in uses.items() if n > 1 or h.always}
    top = [h for h in names if not h.loops]
    return _definitions(top, names, depth) + _block(statements, frozenset(), names, depth)


# ---------------------------------------------------------------------------------------------- counting


def _count(statements: Sequence[Statement], uses: dict[Hoist, int]) -> None:
    for statement in statements:
        for node in _roots(statement):
            _count_node(node, uses)
        for body in _bodies(statement):
            _count(body, uses)


def _count_node(node: Node, uses: dict[Hoist, int]) -> None:
    if isinstance(node, Hoist):
        seen = uses.get(node, 0)
        if seen:
            uses[node] = seen + 1
            return
        for child in children(node):
            _count_node(child, uses)
        uses[node] = 1  # after its parts: the dictionary's order is the order of definition
        return
    for child in children(node):
        _count_node(child, uses)


def _roots(statement: Statement) -> tuple[Node, ...]:
    match statement:
        case Assign(_, value) | Effect(value):
            return (value,)
        case Loop(_, _, extent):
            return (extent,)
        case Branch(condition):
            return (condition,)
        case _:
            assert_never(statement)


def _bodies(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    match statement:
        case Loop(_, _, _, body):
            return (body,)
        case Branch(_, body, orelse):
            return (body, orelse)
        case _:
            return ()


# ---------------------------------------------------------------------------------------------- text


def _definitions(hoists: Sequence[Hoist], names: dict[Hoist, str], depth: int) -> list[str]:
    indent = "    " * depth
    return [f"{indent}{names[h]} = {text(_resolved(h.value, names))}" for h in hoists]


def _block(statements: Sequence[Statement], opened: frozenset[str], names: dict[Hoist, str], depth: int) -> list[str]:
    """The lines of one body; `opened` are the loop digits around it."""
    indent = "    " * depth
    result: list[str] = []
    for statement in statements:
        match statement:
            case Assign(targets, value, note):
                comment = f"  # {note}" if note else ""
                result.append(f"{indent}{', '.join(targets)} = {text(_resolved(value, names))}{comment}")
            case Effect(value):
                result.append(indent + text(_resolved(value, names)))
            case Loop(digit, variable, extent, body):
                inside = opened | {digit}
                used: dict[Hoist, int] = {}
                _count(body, used)
                entering = [h for h in names if h in used and digit in h.loops and h.loops <= inside]
                result.append(f"{indent}for {variable} in range({text(_resolved(extent, names))}):")
                result += _definitions(entering, names, depth + 1) + _block(body, inside, names, depth + 1)
            case Branch(condition, body, orelse):
                result.append(f"{indent}if {text(_resolved(condition, names))}:")
                result += _block(body, opened, names, depth + 1)
                if orelse and isinstance(orelse[0], Branch) and len(orelse) == 1:
                    otherwise, *rest = _block(orelse, opened, names, depth)
                    result += [f"{indent}el{otherwise.lstrip()}", *rest]
                elif orelse:
                    result.append(f"{indent}else:")
                    result += _block(orelse, opened, names, depth + 1)
            case _:
                assert_never(statement)
    return result or [f"{indent}pass"]


def _resolved(node: Node, names: dict[Hoist, str]) -> Node:
    """`node` with each named `Hoist` replaced by its name and each other one by its value."""
    match node:
        case Name() | Literal():
            return node
        case Hoist(value):
            return Name(names[node]) if node in names else _resolved(value, names)
        case Unary(_, operand):
            return replace(node, operand=_resolved(operand, names))
        case Binary("+", left, Hoist(value) as hoist) if hoist not in names:
            return spliced(_resolved(left, names), _resolved(value, names))
        case Binary(_, left, right):
            return replace(node, left=_resolved(left, names), right=_resolved(right, names))
        case Call(_, arguments, keywords):
            return replace(
                node,
                arguments=tuple(_resolved(a, names) for a in arguments),
                keywords=tuple((k, _resolved(v, names)) for k, v in keywords),
            )
        case Items(items):
            return Items(tuple(_resolved(i, names) for i in items))
        case _:
            assert_never(node)
