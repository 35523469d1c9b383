"""Nested arguments and results: tuples, lists, dictionaries, named tuples and dataclasses of leaves."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.errors import TraceError
from polyfuse.frontends.numpy_like.classes import original_of

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The nesting of a value without its leaves; `kind` is None for a leaf.  `keys`: dictionary keys or field names.
    `missing`: what a dictionary with a default makes of a key that it does not have."""

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    missing: Callable[[], Any] | None = None


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
    return leaves, Structure(original_of(type(value)), keys, tuple(structures), missing)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value of nesting `structure` with `leaves` in order.  Raises TraceError where a class of the user's does not
    take what its instances hold."""
    return _build(structure, iter(leaves), _made)


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with other leaves.  No constructor runs: leaves may be what it would refuse."""
    leaves, structure = flatten(value)
    return _build(structure, iter([function(leaf) for _, leaf in leaves]), _filled)


def _build(structure: Structure, leaves: Iterator[Any], make: Callable[[Structure, list[Any]], Any]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    children = [_build(child, leaves, make) for child in structure.children]
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if kind is dict:
        return dict(zip(structure.keys, children, strict=True))
    return None if kind is type(None) else make(structure, children)


def _made(structure: Structure, children: list[Any]) -> Any:
    """As the user's code would make it, since a class may keep more than it is given."""
    kind: Any = structure.kind
    if issubclass(kind, tuple) and hasattr(kind, "_make"):
        return kind._make(children)
    items = dict(zip(structure.keys, children, strict=True))
    try:
        if issubclass(kind, defaultdict):
            return kind(structure.missing, items)
        if issubclass(kind, (dict, list, tuple)):
            made = kind(items if issubclass(kind, dict) else children)
        else:
            return _object(kind, items)
    except TypeError as error:
        raise _not_made(kind, str(error)) from error
    found = made.values() if isinstance(made, dict) else made
    if len(made) != len(children) or not all(a is b for a, b in zip(found, children, strict=True)):
        raise _not_made(kind, "its constructor makes something else of them")
    return made


def _object(kind: type, items: dict[str, Any]) -> Any:
    """A dataclass of its fields; those that its constructor computes are the ones that it was given."""
    fields = dataclasses.fields(kind)
    made = kind(**{f.name: items[f.name] for f in fields if f.init})
    for f in fields:
        if not f.init:
            object.__setattr__(made, f.name, items[f.name])
    return made


def _filled(structure: Structure, children: list[Any]) -> Any:
    kind: Any = structure.kind
    if issubclass(kind, tuple):
        return tuple.__new__(kind, children)
    made = kind.__new__(kind)
    if issubclass(kind, list):
        list.extend(made, children)
    elif issubclass(kind, dict):
        base: Any = OrderedDict if issubclass(kind, OrderedDict) else dict  # each has an order of its own
        base.update(made, zip(structure.keys, children, strict=True))
        if structure.missing is not None:
            made.default_factory = structure.missing
    else:
        for name, child in zip(structure.keys, children, strict=True):
            object.__setattr__(made, name, child)
    return made


def _not_made(kind: type, reason: str) -> TraceError:
    advice = "Use a plain tuple, list or dictionary, or a dataclass whose fields are what its constructor takes."
    return TraceError(f"a {kind.__name__} cannot be made of what it holds: {reason}", advice=advice)
