"""Nested arguments and results: tuples, lists, dictionaries, named tuples and dataclasses of leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.frontends.numpy_like.classes import original_of

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The nesting of a value without its leaves; `kind` is None for a leaf.  `keys`: dictionary keys or field names."""

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()


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
    return leaves, Structure(original_of(type(value)), keys, tuple(structures))


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value of nesting `structure` with `leaves` in order."""
    return _build(structure, iter(leaves))


def _build(structure: Structure, leaves: Iterator[Any]) -> Any:
    kind: Any = structure.kind
    if kind is None:
        return next(leaves)
    children = [_build(child, leaves) for child in structure.children]
    if kind is type(None):
        return None
    if issubclass(kind, dict):
        return kind(zip(structure.keys, children, strict=True))
    if dataclasses.is_dataclass(kind):
        made: Any = structure.kind
        return made(**dict(zip(structure.keys, children, strict=True)))
    return kind(*children) if hasattr(kind, "_fields") else kind(children)


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    leaves, structure = flatten(value)
    return unflatten(structure, [function(leaf) for _, leaf in leaves])
