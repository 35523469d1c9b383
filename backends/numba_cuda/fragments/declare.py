"""Declaring operations: one Python function per operation, from argument types to (result type, emit)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Union

from polyfuse.backends.numba_cuda.fragments.slots import broadcast_shape, is_scalar, pack, shape_of, spread
from polyfuse.backends.numba_cuda.fragments.values import Builder, DType, Fragment, Value, is_float
from polyfuse.backends.numba_cuda.numba_api import (
    AbstractTemplate,
    TypingError,
    lowering_registry,
    signature,
    types,
    typing_registry,
)

Emit = Callable[..., Value]  # emit(builder, *values)
Rule = Callable[..., Union[tuple[Any, Emit], None]]  # rule(*argument types): None where it does not apply


def _template(rule: Rule, key: Any, is_operator: bool, known: dict[tuple[Any, ...], Any]) -> type:
    """The typing template of one key; `known` hands the emitters found while typing to the lowering."""
    parameters = inspect.signature(rule)
    defaults = [p.default for p in parameters.parameters.values()]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters.parameters.values())

    def complete(args: tuple[Any, ...], kws: dict[str, Any]) -> tuple[Any, ...]:
        if variadic or (not kws and len(args) == len(defaults)):
            return args
        bound = parameters.bind(*args, **kws)
        given = bound.arguments
        names = parameters.parameters.items()
        return tuple(given.get(name, types.Omitted(parameter.default)) for name, parameter in names)

    def generic(self: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        try:
            args = complete(args, kws)
        except TypeError as error:
            raise TypingError(f"{rule.__name__}{parameters}: {error}") from None
        if is_operator and not any(isinstance(arg, Fragment) for arg in args):
            return None  # arithmetic of Numba's own scalars
        if args not in known:
            known[args] = rule(*args)
        if known[args] is None:
            return None
        found = signature(known[args][0], *args)
        return found if is_operator or variadic else found.replace(pysig=parameters)

    # "cuda" makes ours the first that is tried, before the dozens of Numba's own
    members = {"key": key, "prefer_literal": not is_operator, "metadata": {"target": "cuda"}, "generic": generic}
    return type(rule.__name__, (AbstractTemplate,), members)


def _declare(rule: Rule, keys: tuple[Any, ...], is_operator: bool) -> None:
    known: dict[tuple[Any, ...], Any] = {}

    def lower(context: Any, builder: Builder, sig: Any, values: tuple[Value, ...]) -> Value:
        result = known[tuple(sig.args)][1](builder, *values)
        return context.get_dummy_value() if result is None else result

    arity = len(inspect.signature(rule).parameters)
    for key in keys:
        typing_registry.register_global(key, types.Function(_template(rule, key, is_operator, known)))
        if not is_operator:
            lowering_registry.lower(key, types.VarArg(types.Any))(lower)
        elif arity == 1:
            lowering_registry.lower(key, Fragment)(lower)
        else:
            for formals in ((Fragment, types.Any), (types.Any, Fragment), (Fragment, Fragment)):
                lowering_registry.lower(key, *formals)(lower)


def operation(rule: Rule) -> Rule:
    """Declare `rule` as an operation that kernels call by its name; parameters with defaults may be left out.

    A new signature costs a dictionary entry: one generic lowering serves all of them.
    """
    _declare(rule, (rule,), False)
    return rule


def declare_operator(rule: Rule, *keys: Any) -> None:
    """Declare `rule` for Python operators (functions of the module `operator`), where a fragment takes part."""
    _declare(rule, keys, True)


def named(rule: Rule, name: str) -> Rule:
    """Give a generated rule the name that errors and kernels show."""
    rule.__name__ = rule.__qualname__ = name
    return rule


def given(argument: Any) -> bool:
    """False for a parameter that the call left out."""
    return not isinstance(argument, types.Omitted) and argument is not None


def literal(argument: Any, what: str) -> Any:
    """The Python value of a literal argument or of a default; raises TypingError for anything else."""
    if isinstance(argument, types.Omitted):
        return argument.value
    if isinstance(argument, types.Literal):
        return argument.literal_value
    if isinstance(argument, types.NoneType):
        return None
    if isinstance(argument, types.BaseTuple):
        return tuple(literal(item, what) for item in argument.types)
    raise TypingError(f"{what} must be a literal, not {argument}")


def dtype_argument(argument: Any) -> DType:
    """The element type that a kernel names, such as ``float32``."""
    if isinstance(argument, types.NumberClass):
        return argument.instance_type
    raise TypingError(f"expected a dtype, not {argument}")


def _wider(dtypes: list[DType]) -> DType:
    return max(dtypes, key=lambda t: (is_float(t), t != types.boolean, getattr(t, "bitwidth", 1)))


def meeting(*arguments: Any) -> Fragment | None:
    """The dtype and shape in which operands meet, or None when one is no value.

    Strong fragments must agree in dtype, weak ones and scalars follow them.  Raises TypingError.
    """
    fragments = [a for a in arguments if isinstance(a, Fragment)]
    scalars = [a for a in arguments if not isinstance(a, Fragment)]
    if not all(map(is_scalar, scalars)):
        return None
    strong = {a.dtype for a in fragments if not a.weak}
    if len(strong) > 1:
        raise TypingError(f"fragments of different dtypes meet, {' and '.join(sorted(map(str, strong)))}: use cast()")
    plain = [types.unliteral(a) for a in scalars]
    dtype = strong.pop() if strong else _wider([a.dtype for a in fragments] or plain)
    if not is_float(dtype) and any(isinstance(t, types.Float) for t in (*plain, *(a.dtype for a in fragments))):
        raise TypingError(f"a float scalar meets a fragment of {dtype}: use cast()")
    weak = all(a.weak for a in fragments)
    return Fragment(dtype, broadcast_shape(*map(shape_of, arguments)), weak)


def slotwise(arguments: tuple[Any, ...], result: Fragment, dtype: DType, op: Callable[..., Value]) -> Emit:
    """An emitter that applies ``op(builder, dtype, *slots)`` to every slot of the broadcast operands."""

    def emit(b: Builder, *values: Value) -> Value:
        columns = [spread(b, a, v, dtype, result.shape) for a, v in zip(arguments, values, strict=True)]
        return pack(b, result, [op(b, dtype, *slots) for slots in zip(*columns, strict=True)])

    return emit
