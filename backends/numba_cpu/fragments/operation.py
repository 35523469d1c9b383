"""Declaring an operation: one Python function from argument types to a result type and an emitter of LLVM."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba.core import errors, types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

from polyfuse.backends.numba_cpu.fragments.types import Fragment

Emitter = Callable[..., Any]
Typed = tuple[Any, Emitter] | None
Typer = Callable[..., Typed]


def operation(function: Typer) -> Typer:
    """Make `function` callable in kernels.  Called with argument types it returns ``(result type, emit)``, or None
    where it does not apply; ``emit(builder, *values)`` gives the LLVM result, None for no result."""
    parameters = inspect.signature(function)
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters.parameters.values())
    _declare(function, function, function.__name__, None if variadic else parameters, prefer_literal=True)
    lower_builtin(function, types.VarArg(types.Any))(_lowering(function))
    return function


def operator_operation(*keys: Callable[..., Any]) -> Callable[[Typer], Typer]:
    """Make `function` the meaning of Python operators (or builtins) wherever a fragment is among the operands."""

    def declare(function: Typer) -> Typer:
        lower = _lowering(function)
        arity = len(inspect.signature(function).parameters)
        for key in keys:
            _declare(key, function, function.__name__, None, prefer_literal=False)
            if arity == 1:
                lower_builtin(key, Fragment)(lower)
            else:
                for formal in ((Fragment, types.Any), (types.Any, Fragment), (Fragment, Fragment)):
                    lower_builtin(key, *formal)(lower)
        return function

    return declare


_TYPED: dict[tuple[Any, ...], Typed] = {}


def _typed(function: Typer, arguments: tuple[Any, ...]) -> Typed:
    """The typing of one signature, shared by type inference and lowering."""
    key = (function, *arguments)
    if key not in _TYPED:
        _TYPED[key] = function(*arguments)
    return _TYPED[key]


def _declare(
    key: Any, function: Typer, name: str, parameters: inspect.Signature | None, *, prefer_literal: bool
) -> None:
    literals = prefer_literal
    defaults = {
        parameter.name: types.Omitted(parameter.default)
        for parameter in (parameters.parameters.values() if parameters else ())
        if parameter.default is not inspect.Parameter.empty
    }

    class Template(AbstractTemplate):
        # The target makes Numba try ours before its own ten to thirty templates of an operator.
        metadata = {"target": "cpu"}
        prefer_literal = literals

        def generic(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            if parameters is not None:
                arguments = _complete(name, parameters, defaults, arguments, keywords)
            elif not any(isinstance(argument, Fragment) for argument in arguments):
                return None
            typed = _typed(function, arguments)
            if typed is None:
                return None
            found = signature(typed[0], *arguments)
            return found if parameters is None else found.replace(pysig=parameters)

    Template.key = key
    Template.__name__ = name
    infer_global(key, types.Function(type(name, (Template,), {"key": key})))


def _complete(
    name: str,
    parameters: inspect.Signature,
    defaults: dict[str, Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> tuple[Any, ...]:
    """Positional argument types with the defaults filled in."""
    if not keywords and len(arguments) == len(parameters.parameters):
        return arguments
    try:
        given = parameters.bind_partial(*arguments, **keywords).arguments
    except TypeError as problem:
        raise errors.TypingError(f"{name}{parameters}: {problem}") from None
    missing = [p for p in parameters.parameters if p not in given and p not in defaults]
    if missing:
        raise errors.TypingError(f"{name}{parameters}: missing {', '.join(missing)}")
    return tuple(given.get(p, defaults.get(p)) for p in parameters.parameters)


def _lowering(function: Typer) -> Callable[..., Any]:
    def lower(context: Any, builder: Any, found: Any, values: Any) -> Any:
        typed = _typed(function, tuple(found.args))
        assert typed is not None
        result = typed[1](builder, *values)
        return context.get_dummy_value() if result is None else result

    return lower


def refuse(sentence: str) -> errors.TypingError:
    """A compile-time error of the kernel text."""
    return errors.TypingError(sentence)


def literal(argument: Any, meaning: str) -> Any:
    """The Python value of a literal argument type; raises TypingError naming `meaning` where it is none."""
    match argument:
        case types.Omitted():
            return argument.value
        case types.BaseTuple():
            return tuple(literal(item, meaning) for item in argument)
        case types.NoneType():
            return None
        case types.Literal():
            return argument.literal_value
    raise refuse(f"{meaning} must be a literal, got {argument}")


def absent(argument: Any) -> bool:
    """True for an argument left out, or given as None."""
    return isinstance(argument, types.NoneType) or (isinstance(argument, types.Omitted) and argument.value is None)
