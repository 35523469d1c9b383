"""Binding a call to a function's parameters: one value per parameter, in order, defaults filled in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError

_KINDS = inspect.Parameter


@dataclass(frozen=True, slots=True)
class Default:
    """The value of a parameter that a call leaves out."""

    value: Any


Source = int | str | Default
"""Where a call has an argument: its position, its keyword, or nowhere."""


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `functools.partial` wraps."""
    return _inner(function.func) if isinstance(function, functools.partial) else function


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one function.

    `names` in order.  `defaults`: of the trailing positional parameters.  `plain`: only ordinary parameters, so that a
    positional call is its own binding.  `positional_only`: how many cannot be named.
    """

    signature: inspect.Signature
    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    plain: bool
    positional_only: int = 0
    function: str = field(default="the function")

    @staticmethod
    def of(function: Callable[..., Any]) -> Parameters:
        """Raises ArgumentError for what is no function, or one whose parameters Python does not know."""
        advice = "jit takes a Python function; wrap others: jit(lambda x: g(x))."
        if isinstance(function, classmethod):
            advice = "Write @classmethod above @jit."
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{function!r:.80} cannot be compiled: {error}", advice=advice) from None
        found = list(signature.parameters.values())
        inner = _inner(function)
        if isinstance(inner, np.ufunc) or any(p.default is np._NoValue for p in found):
            problem = f"{inner.__name__} cannot be compiled: options that a call leaves out have no values to pass"
            raise ArgumentError(problem, advice=advice)
        ordinary = (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)
        defaults = tuple(p.default for p in found if p.kind in ordinary and p.default is not _KINDS.empty)
        name = getattr(function, "__name__", "the function")
        plain = all(p.kind in ordinary for p in found)
        positional_only = sum(p.kind is _KINDS.POSITIONAL_ONLY for p in found)
        return Parameters(signature, tuple(p.name for p in found), defaults, plain, positional_only, name)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """One value per parameter; ``*args`` is a tuple and ``**kwargs`` a dictionary.  Raises ArgumentError."""
        if self.plain and not kwargs:
            missing = len(self.names) - len(args)
            if missing == 0:
                return args
            if 0 < missing <= len(self.defaults):
                return args + self.defaults[len(self.defaults) - missing :]
        if self.plain and len(args) <= len(self.names):
            values = self._merge(args, kwargs)
            if values is not None:
                return values
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.function}(): {error}", advice=f"Its signature is {self.signature}.") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def of_function(self, keywords: Collection[str], options: Collection[str]) -> set[str]:
        """Those of the keywords that are the function's: the others are options."""
        takes_any = any(p.kind is _KINDS.VAR_KEYWORD for p in self.signature.parameters.values())
        return {k for k in keywords if k in self.names or (takes_any and k not in options)}

    def _merge(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Keyword arguments in their places; None for a call that does not bind."""
        values, used = list(args), 0
        without_default = len(self.names) - len(self.defaults)
        for position in range(len(args), len(self.names)):
            name = self.names[position]
            if name in kwargs and position >= self.positional_only:
                values.append(kwargs[name])
                used += 1
            elif position >= without_default:
                values.append(self.defaults[position - without_default])
            else:
                return None
        return tuple(values) if used == len(kwargs) else None

    def sources(self, count: int, keywords: Collection[str]) -> Iterator[tuple[str, Source]]:
        """Parameters with the sources of what they are bound to, in order, for a call of `count` positional arguments
        and these keywords, which binds; those of ``*args`` and ``**kwargs`` one by one."""
        rest, taken = list(keywords), 0
        for name, parameter in self.signature.parameters.items():
            match parameter.kind:
                case _KINDS.VAR_POSITIONAL:
                    yield from ((name, k) for k in range(taken, count))
                    taken = count
                case _KINDS.VAR_KEYWORD:
                    yield from ((name, keyword) for keyword in rest)
                case kind:
                    if kind is not _KINDS.KEYWORD_ONLY and taken < count:
                        yield name, taken
                        taken += 1
                    elif name in rest and kind is not _KINDS.POSITIONAL_ONLY:
                        rest.remove(name)
                        yield name, name
                    else:
                        yield name, Default(parameter.default)

    def spread(
        self, values: Sequence[Any], marked: Collection[str] = (), mark: Callable[[Any], Any] = lambda value: value
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments that make the call which `bind` returned `values` for; those of the
        parameters `marked` in `mark`."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter, value in zip(self.signature.parameters.values(), values, strict=True):
            made = mark if parameter.name in marked else lambda value: value
            match parameter.kind:
                case _KINDS.VAR_POSITIONAL:
                    args += map(made, value)
                case _KINDS.VAR_KEYWORD:
                    kwargs |= {name: made(v) for name, v in value.items()}
                case _KINDS.KEYWORD_ONLY:
                    kwargs[parameter.name] = made(value)
                case _:
                    args.append(made(value))
        return args, kwargs
