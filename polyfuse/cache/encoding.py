"""Plans as JSON, and back: frozen dataclasses of a fixed list of modules, nothing that could execute.

A document is a list of objects in post-order; an object refers to earlier ones by position::

    {"objects": [["affine.Affine", [["t", ...], 0]], ...], "root": ["o", 17]}

    value     JSON
    -----     ----
    text, integer, bool, None      as they are
    float, bytes                   ["f", hexadecimal] ["b", hexadecimal]
    tuple, set, mapping            ["t", ...] ["s", ...] ["m", [key, value] ...]
    element type, enum member      ["d", name] ["e", type, name]
    other dataclass                ["o", position]
    the program of the call, one of its nodes    ["p"] ["n", digest]
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from polyfuse import dtypes, expr
from polyfuse.dtypes import DType
from polyfuse.expr import Node, Program

_MODULES = tuple(
    (
        "affine bindings errors expr kernel library_calls.contraction options plan schedule target terms unravelled "
        "verdict"
    ).split()
)


_PLAIN = (type(None), bool, int, str)
_DERIVED = ("digest", "height")  # of nodes, which their constructors find


class UnstorableError(Exception):
    """A value that has no stored form, such as a user's function."""


@functools.cache
def _classes() -> Mapping[str, type[Any]]:
    """Every dataclass and enumeration that a plan may hold, by module and name (``expr.Reduce``, ``kernel.Reduce``)."""
    found: dict[str, type[Any]] = {}
    for name in _MODULES:
        module = importlib.import_module(f"polyfuse.{name}")
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__
            if own and (dataclasses.is_dataclass(value) or issubclass(value, enum.Enum)):
                found[_name(value)] = value
    return found


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__.removeprefix('polyfuse.')}.{kind.__name__}"


@functools.cache
def _fields(name: str) -> tuple[str, ...]:
    """Fields that make a value of a class; derived ones begin with an underscore, or are `_DERIVED` of a node."""
    kind = _classes()[name]
    derived = _DERIVED if issubclass(kind, expr._Node) else ()
    fields = dataclasses.fields(kind)
    return tuple(f.name for f in fields if f.init and not f.name.startswith("_") and f.name not in derived)


@dataclass(slots=True)
class _Encoder:
    program: Program
    known: frozenset[bytes]
    objects: list[Any] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)  # ids stay unique while their objects live

    def value(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | str() if type(value) in _PLAIN:
                return value
            case float() if type(value) is float:
                return ["f", value.hex()]
            case tuple():
                return ["t", *map(self.value, value)]
            case frozenset():
                return ["s", *sorted(map(self.value, value), key=repr)]
            case bytes():
                return ["b", value.hex()]
            case DType():
                return ["d", value.name]
            case enum.Enum():
                return ["e", _name(type(value)), value.name]
            case Mapping():
                return ["m", *([self.value(k), self.value(v)] for k, v in value.items())]
            case Program() if (value.digest, value.derived) == (self.program.digest, self.program.derived):
                return ["p"]
        return self.object(value)

    def object(self, value: Any) -> list[Any]:
        if isinstance(value, expr._Node) and value.digest in self.known:
            return ["n", value.digest.hex()]
        if id(value) not in self.positions and isinstance(value, expr._Node):
            for node in expr.topological([cast(Node, value)]):  # operands first: chains are longer than calls are deep
                if id(node) not in self.positions and node.digest not in self.known:
                    self._put(node)
        elif id(value) not in self.positions:
            self._put(value)
        return ["o", self.positions[id(value)]]

    def _put(self, value: Any) -> None:
        name = _name(type(value))
        if name not in _classes():
            raise UnstorableError(f"a {type(value).__name__} has no stored form")
        fields = [self.value(getattr(value, n)) for n in _fields(name)]
        self.positions[id(value)] = len(self.objects)
        self.objects.append([name, fields])
        self.alive.append(value)


@dataclass(slots=True)
class _Decoder:
    program: Program
    nodes: Mapping[str, Node]
    objects: list[Any] = field(default_factory=list)

    def value(self, data: Any) -> Any:
        if not isinstance(data, list):
            return data
        match data:
            case ["o", int(position)]:
                return self.objects[position]
            case ["t", *items]:
                return tuple(map(self.value, items))
            case ["f", str(text)]:
                return float.fromhex(text)
            case ["d", str(name)]:
                return dtypes.BY_NAME[name]
            case ["m", *pairs]:
                return {self.value(k): self.value(v) for k, v in pairs}
            case ["s", *items]:
                return frozenset(map(self.value, items))
            case ["b", str(text)]:
                return bytes.fromhex(text)
            case ["e", str(kind), str(name)]:
                return _classes()[kind][name]
            case ["n", str(digest)]:
                return self.nodes[digest]
            case ["p"]:
                return self.program
        raise ValueError(f"unknown form {data!r:.80}")

    def object(self, data: Any) -> None:
        name, fields = data
        kind = _classes()[name]
        values = dict(zip(_fields(name), map(self.value, fields), strict=True))
        self.objects.append(expr._intern(kind, **values) if issubclass(kind, expr._Node) else kind(**values))


def encode(value: Any, program: Program) -> dict[str, Any]:
    """`value` as JSON data; `program` and its nodes become references, other nodes are interned again by `decode`.

    Raises UnstorableError.
    """
    encoder = _Encoder(program, frozenset(node.digest for node in expr.topological(program.outputs)))
    root = encoder.value(value)
    return {"objects": encoder.objects, "root": root}


def decode(data: Mapping[str, Any], program: Program) -> Any:
    """What `encode` was given, with `program` in the place of the program.

    Raises ValueError, KeyError, IndexError or TypeError for data that `encode` did not make.
    """
    decoder = _Decoder(program, {n.digest.hex(): n for n in expr.topological(program.outputs)})
    for entry in data["objects"]:
        decoder.object(entry)
    return decoder.value(data["root"])
