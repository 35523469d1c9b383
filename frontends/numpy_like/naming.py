"""Names of arguments, values and outputs, and the lazy table of source lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from polyfuse.errors import ArgumentError, Source
from polyfuse.expr import Argument, Constant, Input, Node, Scalar, View, operands_of, topological
from polyfuse.frontends.numpy_like import tree
from polyfuse.frontends.numpy_like.locations import Location


def argument_leaves(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[tuple[str, Any]], tree.Structure]:
    """Leaves of a call with the paths by which the function knows them, and the nesting of (arguments, keywords)."""
    try:
        bound = inspect.signature(function).bind(*arguments, **keywords)
    except ValueError:
        return tree.flatten((tuple(arguments), dict(keywords)), "arguments")
    except TypeError as error:
        raise ArgumentError(f"{getattr(function, '__name__', 'function')}: {error}") from None
    names: dict[int, str] = {}
    for parameter in bound.signature.parameters.values():
        if parameter.name in bound.arguments:
            value = bound.arguments[parameter.name]
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                names |= {len(names) + k: f"{parameter.name}[{k}]" for k in range(len(value))}
            elif parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
                names[len(names)] = parameter.name
    leaves: list[tuple[str, Any]] = []
    structures = []
    named = [(names[k], v) for k, v in enumerate(bound.args)]
    named += [(_known_as(name, bound), value) for name, value in bound.kwargs.items()]
    for prefix, value in named:
        below, structure = tree.flatten(value, prefix)
        leaves += below
        structures.append(structure)
    count = len(bound.args)
    positional = tree.Structure(tuple, tuple(range(count)), tuple(structures[:count]))
    keyword = tree.Structure(dict, tuple(bound.kwargs), tuple(structures[count:]))
    return leaves, tree.Structure(tuple, (0, 1), (positional, keyword))


def _known_as(name: str, bound: inspect.BoundArguments) -> str:
    """A keyword argument as the function knows it: a parameter, or an entry of ``**options``."""
    for parameter in bound.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and name in bound.arguments.get(parameter.name, {}):
            return f"{parameter.name}[{name!r}]"
    return name


def unique_names(
    outputs: Sequence[Node], given: Mapping[bytes, str], arguments: Sequence[Argument]
) -> Mapping[bytes, str]:
    """The user's names, made unique in topological order: ``u``, ``u_1``, ...; arguments keep theirs."""
    taken = dict.fromkeys((a.path for a in arguments), 0)
    names: dict[bytes, str] = {}
    for node in topological(outputs):
        if isinstance(node, Input):
            names[node.digest] = arguments[node.position].path
        elif isinstance(node, View) and given.get(node.source.digest) == given.get(node.digest):
            continue
        elif (wanted := given.get(node.digest)) and not isinstance(node, (Constant, Scalar)):
            names[node.digest] = _unused(wanted, taken)
    return names


def _unused(wanted: str, taken: dict[str, int]) -> str:
    """`wanted`, or with the next number; `taken` holds the last number given to each name."""
    name = wanted
    while name in taken:
        taken[wanted] += 1
        name = f"{wanted}_{taken[wanted]}"
    taken[name] = 0
    return name


def output_names(
    outputs: Sequence[Node], paths: Sequence[str], names: Mapping[bytes, str], arguments: Sequence[Argument]
) -> tuple[str, ...]:
    """The user's name of each output, else where it stands in the result, else ``y``; all different."""
    taken = dict.fromkeys([*(a.path for a in arguments), *names.values()], 0)
    found: list[str] = []
    for node, path in zip(outputs, paths, strict=True):
        known = names.get(node.digest)
        if known is not None and known not in found and not isinstance(node, Input):
            found.append(known)
            continue
        plain = path.replace("'", "").replace("[", "_").replace("]", "").replace(".", "_").strip("_")
        wanted = plain if plain.isidentifier() else f"y{plain}"
        found.append(_unused(wanted, taken))
    return tuple(found)


def spread_locations(outputs: Sequence[Node], locations: Mapping[bytes, Location]) -> dict[bytes, Location]:
    """Nodes made inside a library function get the location of the value that they serve."""
    found = dict(locations)
    for node in reversed(list(topological(outputs))):
        here = found.get(node.digest)
        if here is not None:
            for operand in operands_of(node):
                found.setdefault(operand.digest, here)
    return found


class Sources(Mapping[bytes, Source]):
    """Source lines by node digest, looked up when asked for."""

    __slots__ = ("_locations",)

    def __init__(self, locations: Mapping[bytes, Location]) -> None:
        self._locations = locations

    def __getitem__(self, digest: bytes) -> Source:
        return self._locations[digest].source()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._locations)

    def __len__(self) -> int:
        return len(self._locations)
