"""Nested arguments and results: tuples, lists, dictionaries, named tuples and dataclasses of leaves."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.attributes import NotPassed, further_attributes
from polyfuse.frontends.numpy_like.classes import original_of

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The nesting of a value without its leaves; `kind` is None for a leaf.  `keys`: dictionary keys or field names.
    `missing`: what a dictionary with a default makes of a key that it does not have.  `further`: names of attributes
    besides, whose values are the last children."""

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    missing: Callable[[], Any] | None = None
    further: tuple[str, ...] = ()


LEAF = Structure(None)


def _parts(value: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Keys and children of a container, or None for a leaf (a dataclass with `is_leaf` is one); None is empty."""
    if value is None:
        return (), []
    if isinstance(value, dict):
        return tuple(value), list(value.values())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(value._fields), list(value)
    if isinstance(value, (tuple, list)):
        return tuple(range(len(value))), list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "is_leaf"):
        names = tuple(f.name for f in dataclasses.fields(value))
        return names, [getattr(value, n) for n in names]
    return None


def _step(value: Any, key: Any) -> str:
    if isinstance(value, dict):
        return f"[{key!r}]"
    return f"[{key}]" if isinstance(key, int) else f".{key}"


def flatten(value: Any, prefix: str = "") -> tuple[list[tuple[str, Any]], Structure]:
    """Leaves with their paths (``prefix['w'][0].scale``), and the nesting that `unflatten` takes."""
    parts = _parts(value)
    if parts is None:
        return [(prefix, value)], LEAF
    keys, children = parts
    leaves: list[tuple[str, Any]] = []
    structures = []
    for key, child in zip(keys, children, strict=True):
        below, structure = flatten(child, prefix + _step(value, key))
        leaves += below
        structures.append(structure)
    missing = value.default_factory if isinstance(value, defaultdict) else None
    passed, rest = further_attributes(value, keys if dataclasses.is_dataclass(value) else ())
    for name, held in passed.items():
        below, structure = flatten(held, f"{prefix}.{name}")
        leaves += below
        structures.append(structure)
    for name, held in rest.items():
        path = f"{prefix}.{name}"
        mark = held if isinstance(held, NotPassed) else NotPassed(path, held)
        mark.__dict__["path"] = path if prefix else mark.path
        leaves.append((path, mark))
        structures.append(LEAF)
    further = (*passed, *rest)
    return leaves, Structure(original_of(type(value)), keys, tuple(structures), missing, further)


def has_defaults(structure: Structure) -> bool:
    """Whether a dictionary in it makes the keys that it is asked for."""
    return structure.missing is not None or any(map(has_defaults, structure.children))


def inside(value: Any) -> frozenset[int]:
    """Who the containers of a value are, itself among them: lists, dictionaries and objects, which can be changed."""
    found, todo = set[int](), [value]
    while todo:
        part = todo.pop()
        parts = None if part is None else _parts(part)
        if parts is not None and id(part) not in found:
            found |= {id(part)} if not isinstance(part, tuple) else set()
            todo += parts[1]
    return frozenset(found)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value of nesting `structure` with `leaves` in order.  No constructor runs: it has run already, and may make
    something else of what it is given."""
    return _build(structure, iter(leaves))


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with other leaves."""
    leaves, structure = flatten(value)
    return _build(structure, iter([function(leaf) for _, leaf in leaves]))


def _build(structure: Structure, leaves: Iterator[Any]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    children = [_build(child, leaves) for child in structure.children]
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if kind is dict:
        return dict(zip(structure.keys, children, strict=True))
    return None if kind is type(None) else _filled(structure, children)


def _tuple(kind: type[tuple[Any, ...]], items: list[Any]) -> tuple[Any, ...]:
    """A tuple of type `kind`, or the nearest that may hold tracers: a named tuple for `sys.version_info`, the only
    one of its kind, and a tuple for `torch.Size`, which takes integers."""
    try:
        return tuple.__new__(kind, items)
    except TypeError:  # laid out otherwise than a tuple, or made otherwise
        names = getattr(kind, "__match_args__", ())
    try:
        return kind(items) if names else tuple(items)
    except TypeError:
        return namedtuple(kind.__name__, names)(*items)


def _filled(structure: Structure, children: list[Any]) -> Any:
    kind: Any = structure.kind
    count = len(children) - len(structure.further)
    items, attributes = children[:count], children[count:]
    if issubclass(kind, tuple):
        made: Any = _tuple(kind, items)
    elif issubclass(kind, list):
        made = list.__new__(kind)
        list.extend(made, items)
    elif issubclass(kind, dict):
        base: Any = next(c for c in (OrderedDict, defaultdict, dict) if issubclass(kind, c))
        made = base.__new__(kind)
        for key, item in zip(structure.keys, items, strict=True):
            base.__setitem__(made, key, item)
        if structure.missing is not None:
            made.default_factory = structure.missing
    else:
        made = object.__new__(kind)
        for name, child in zip(structure.keys, items, strict=True):
            object.__setattr__(made, name, child)
    for name, child in zip(structure.further, attributes, strict=True):
        vars(made)[name] = child
    return made
